# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fly PX4 (SIH) or ArduCopter in SITL on the poses of this package, with every row of the table.

    python bench/sitl.py PX4/build/px4_sitl_default/bin/px4 --log px4.log
    python bench/sitl.py ardupilot/build/sitl/bin/arducopter --log ardupilot.log
    python bench/sitl.py BINARY --only ground lost

Simulator, simulated Motive (VRPN, 120 Hz, 6 ms late, noise of 0.2 mm, another clock), node and
bridge run as in a laboratory; nothing is fused except motion capture. docs/autopilot.md names
builds and options. Each row prints what was measured and whether it is as documented; the exit
code is 1 if a row is not.
"""

import argparse
from collections.abc import Callable
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / 'test'), str(HERE)]
from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate  # noqa: E402
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.server_io import MotiveSimServer  # noqa: E402
from rosgraph import NodeProcess  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402
from sitl_pilot import HOME, MAV, Pilot, Room  # noqa: E402

BODY = 'cf1'
#: The motion capture of the room.
MOCAP = {
    'rate': 120.0, 'seed': 5, 'clock': {'skew_ppm': 30.0, 'start': 10800.0},
    'network': {'delay_ms': 6.0}, 'noise': {'position_mm': 0.2, 'attitude_deg': 0.02},
    'bodies': [{'name': BODY}]}
HEIGHT_M = 1.5
#: Largest horizontal error of the estimate (m) on the ground, in flight, during a fault of the
#: cameras; of its yaw (deg).
GROUND_M, FLIGHT_M, YAW_DEG, FAULT_M = 0.03, 0.2, 3.0, 0.25
#: Faults of the body: what the cameras report instead of a true pose.
FAULTS: dict[str, Callable] = {
    'flipped': lambda p, q: (p, q * Rotation.from_euler('x', np.pi)),
    'turned': lambda p, q: (p, Rotation.from_euler('z', np.pi / 2) * q),
    'jumped': lambda p, q: (p + [1.5, 0.0, 0.0], q),
    'zero': lambda p, q: (np.zeros(3), [0.0, 0.0, 0.0, 1.0]),
    'nan': lambda p, q: (p * math.nan, [math.nan] * 4)}


class Px4:
    """PX4 with its simulator SIH; ports of instance 0."""

    name, autopilot = 'PX4', 'px4'
    bridge = {'connection': 'udpin:127.0.0.1:14540', 'frame': 'local_ned',
              'origin': f'[{HOME[0]}, {HOME[1]}, 0.0]'}
    pilot, truth = 'udpin:127.0.0.1:14550', 'udpin:127.0.0.1:19410'
    truth_message = 'HIL_STATE_QUATERNION'
    parameters = {
        'EKF2_EV_CTRL': 15, 'EKF2_HGT_REF': 3, 'EKF2_GPS_CTRL': 0, 'SYS_HAS_GPS': 0,
        'EKF2_EV_DELAY': 0, 'EKF2_MAG_TYPE': 5, 'SYS_HAS_MAG': 0, 'COM_RC_IN_MODE': 4,
        'NAV_RCL_ACT': 0, 'NAV_DLL_ACT': 0, 'COM_RCL_EXCEPT': 7, 'CBRK_SUPPLY_CHK': 894281,
        'SDLOG_MODE': -1}

    def start(self, binary, folder):
        """Start it; the build folder has etc/ beside bin/."""
        environment = dict(
            os.environ, PX4_SIM_MODEL='sihsim_quadx', PX4_SIMULATOR='sihsim', **{
                f'PX4_PARAM_{name}': str(value) for name, value in self.parameters.items()})
        return subprocess.Popen(
            [str(binary), '-d', '-i', '0', '-w', str(folder), str(binary.parent.parent / 'etc')],
            cwd=folder, env=environment, stdout=open(folder / 'sitl.log', 'a'),
            stderr=subprocess.STDOUT)

    def arm(self, pilot):
        """Arm in Offboard, with set points from now on."""
        pilot.hold()
        time.sleep(1.0)
        pilot.command(MAV.MAV_CMD_DO_SET_MODE, 1, 6)
        return pilot.command(MAV.MAV_CMD_COMPONENT_ARM_DISARM, 1)

    def take_off(self, pilot, height):
        """Climb by a set point."""
        x, y, z = pilot.position
        pilot.go((x, y, z - height), pilot.yaw)

    def flying(self, pilot):
        """Return whether it still follows the set points."""
        return pilot.armed and (pilot.mode >> 16 & 0xff) == 6

    def land(self, pilot):
        """Land where it is."""
        pilot.target = None
        pilot.command(MAV.MAV_CMD_NAV_LAND)


class ArduCopter:
    """ArduCopter with its own simulator; the first instance's ports."""

    name, autopilot = 'ArduCopter', 'ardupilot'
    bridge = {'connection': 'udpin:127.0.0.1:14540',
              'origin': f'[{HOME[0]}, {HOME[1]}, {HOME[2]}]'}
    pilot = truth = 'udpin:127.0.0.1:14550'
    truth_message = 'SIM_STATE'
    parameters = {
        'FRAME_CLASS': 1, 'FS_THR_ENABLE': 0, 'FS_GCS_ENABLE': 0, 'GPS1_TYPE': 0,
        'SIM_GPS_DISABLE': 1, 'COMPASS_USE': 0, 'COMPASS_USE2': 0, 'COMPASS_USE3': 0,
        'COMPASS_ENABLE': 0,
        'VISO_TYPE': 1, 'VISO_DELAY_MS': 10, 'AHRS_EKF_TYPE': 3, 'EK3_ENABLE': 1, 'EK2_ENABLE': 0,
        'EK3_SRC1_POSXY': 6, 'EK3_SRC1_POSZ': 6, 'EK3_SRC1_YAW': 6, 'EK3_SRC1_VELXY': 6,
        'EK3_SRC1_VELZ': 6, 'SERIAL2_PROTOCOL': 2, 'MOT_THST_EXPO': 0.65, 'MOT_THST_HOVER': 0.39,
        'MOT_BAT_VOLT_MIN': 9.6, 'MOT_BAT_VOLT_MAX': 12.8, 'BATT_MONITOR': 0,
        **{f'INS_{name}_{axis}': value for name, value in (
            ('ACCOFFS', 0.001), ('ACC2OFFS', 0.001), ('ACCSCAL', 1.001), ('ACC2SCAL', 1.001))
           for axis in 'XYZ'}}

    def start(self, binary, folder):
        """Start it with the table's parameters."""
        (folder / 'indoor.parm').write_text(''.join(
            f'{name} {value}\n' for name, value in self.parameters.items()))
        return subprocess.Popen(
            [str(binary), '--model', 'quad', '--home', ','.join(map(str, (*HOME, 0))),
             '--defaults', 'indoor.parm', '--serial0', 'udpclient:127.0.0.1:14550',
             '--serial2', 'udpclient:127.0.0.1:14540'],
            cwd=folder, stdout=open(folder / 'sitl.log', 'a'), stderr=subprocess.STDOUT)

    def arm(self, pilot):
        """Arm in Guided, with all checks."""
        pilot.command(MAV.MAV_CMD_DO_SET_MODE, 1, 4)
        return pilot.command(MAV.MAV_CMD_COMPONENT_ARM_DISARM, 1)

    def take_off(self, pilot, height):
        """Take off in Guided."""
        pilot.command(MAV.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, height)

    def flying(self, pilot):
        """Return whether it is still armed in Guided."""
        return pilot.armed and pilot.mode == 4

    def land(self, pilot):
        """Change to Land."""
        pilot.target = None
        pilot.command(MAV.MAV_CMD_DO_SET_MODE, 1, 9)


def errors_since(pilot, begin, limit_m=FLIGHT_M):
    """Return the errors of the estimate since a time as text, and whether they are small."""
    rms, largest, height, yaw = pilot.since(begin)
    return (f'{100 * rms:.1f} cm rms, {100 * largest:.1f} cm at most, height '
            f'{100 * height:.1f} cm rms, yaw {yaw:.1f} deg', largest < limit_m and yaw < YAW_DEG)


def hide(world, room):
    """Leave the bodies out of the frames of a world while a room hides them."""
    frame = world.frame
    world.frame = lambda *given: frame(*given)._replace(
        **{'reports': []} if room.hidden else {})


class Session:
    """Simulator, simulated Motive, node, bridge and pilot; the rows in their order."""

    def __init__(self, kind, binary, folder):
        self.kind = kind
        self.room = Room()
        self.pilot = Pilot(kind, self.room)
        self.simulator = kind.start(binary, folder)
        self.pilot.start()
        self.wait(lambda: self.room.now() is not None, 60.0, 'the true pose')
        self.motive = MotiveSimServer(
            scenario_from_mapping(MOCAP), '127.0.0.1', 0, live={BODY: self.room})
        hide(self.motive.world, self.room)
        self.motive.start()
        self.room.hidden = False
        self.node, self.bridge = self.start_node(), self.start_bridge()

    def start_node(self):
        """Start the node."""
        return NodeProcess(
            '-p', 'server:=127.0.0.1', '-p', f'port:={self.motive.port}', '-p', 'autostart:=true',
            '-p', 'outputs:=[pose, odom, status]', '-p', f'bodies.{BODY}.max_speed:=6.0',
            '-p', 'motive_x:=north')

    def start_bridge(self):
        """Start the bridge."""
        arguments = []
        for name, value in {**self.kind.bridge, 'body': BODY, 'autopilot': self.kind.autopilot,
                            'target_system': 1, 'autostart': 'true'}.items():
            arguments += ['-p', f'{name}:={value}']
        return NodeProcess(*arguments, tool='mavlink_bridge')

    def wait(self, condition, timeout_s, what):
        """Wait until something is so; AssertionError after the time."""
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f'no {what} within {timeout_s:g} s'
            assert self.simulator.poll() is None, 'the simulator has ended'
            time.sleep(0.05)

    def close(self):
        """End everything."""
        self.pilot.target = None
        for process in (self.bridge, self.node):
            process.__exit__()
        self.motive.stop()
        self.pilot.close()
        self.simulator.kill()
        self.simulator.wait()

    # -- the rows: each returns (result, whether it is as documented) -------------------------

    def rows(self):
        """Return all rows by name."""
        return {
            'ground': self.ground, 'take_off': self.take_off, 'square': self.square,
            **{name: (lambda fault=fault: self.fault(fault)) for name, fault in FAULTS.items()},
            'lost': self.lost,
            **{f'{name}_killed': (lambda name=name: self.killed(name))
               for name in ('bridge', 'node')},
            'land': self.land}

    def ground(self):
        """Compare the estimate with the truth before the flight."""
        begin = time.monotonic()
        time.sleep(5.0)
        return errors_since(self.pilot, begin, GROUND_M)

    def take_off(self):
        """Arm and climb."""
        end = time.monotonic() + 60.0
        while self.kind.arm(self.pilot) != 0 or not self.pilot.armed:
            assert time.monotonic() < end, f'not armed: {self.pilot.texts[-5:]}'
            time.sleep(1.0)
        begin, ground = time.monotonic(), self.room.now()[0][2]
        self.kind.take_off(self.pilot, HEIGHT_M)
        self.wait(
            lambda: self.room.now()[0][2] < ground - 0.8 * HEIGHT_M, 30.0, 'climb')
        time.sleep(3.0)
        self.pilot.hold()
        return errors_since(self.pilot, begin)

    def square(self):
        """Fly a square of 1.5 m, with a turn by 90 degrees at each corner."""
        begin = time.monotonic()
        (x, y, z), yaw = self.pilot.target
        for north, east in ((1.5, 0.0), (1.5, 1.5), (0.0, 1.5), (0.0, 0.0)):
            yaw = math.remainder(yaw + math.pi / 2, math.tau)
            self.pilot.go((x + north, y + east, z), yaw)
            self.wait(self.pilot.reached, 20.0, 'arrival at the corner')
            time.sleep(1.5)
        return errors_since(self.pilot, begin)

    def fault(self, fault):
        """Report a wrong pose for 0.8 s."""
        self.steady()
        begin = time.monotonic()
        self.room.fault = fault
        time.sleep(0.8)
        self.room.fault = None
        return self.recovered(begin)

    def lost(self):
        """Hide the body for 1 s."""
        self.steady()
        begin = time.monotonic()
        self.room.hidden = True
        time.sleep(1.0)
        self.room.hidden = False
        return self.recovered(begin, 0.6)

    def killed(self, name):
        """Kill the node or the bridge, and start it again 1 s later as launch does."""
        self.steady()
        begin = time.monotonic()
        process = getattr(self, name).process
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.0)
        setattr(self, name, getattr(self, f'start_{name}')())
        return self.recovered(begin, 1.5, 8.0)

    def land(self):
        """Land and disarm."""
        begin = time.monotonic()
        self.kind.land(self.pilot)
        self.wait(lambda: not self.pilot.armed, 60.0, 'landing')
        return errors_since(self.pilot, begin, 0.4)

    # -- parts ----------------------------------------------------------------------------------

    def flying(self):
        """Return whether the vehicle follows the set points."""
        return self.kind.flying(self.pilot)

    def steady(self):
        """Wait until the vehicle hovers with a good estimate."""
        assert self.flying(), f'not in flight: {self.pilot.texts[-3:]}'
        begin = time.monotonic()
        while time.monotonic() - begin < 15.0:
            time.sleep(1.0)
            if self.pilot.since(time.monotonic() - 1.0)[1] < FLIGHT_M:
                return

    def recovered(self, begin, limit_m=FAULT_M, after_s=4.0):
        """Return the errors since a fault began, and whether the estimate is good again."""
        time.sleep(after_s)
        _, largest, _, yaw = self.pilot.since(begin)
        text, good = errors_since(self.pilot, time.monotonic() - 1.5)
        return (f'{100 * largest:.1f} cm at most, yaw {yaw:.1f} deg; then {text}',
                good and largest < limit_m and self.flying())


def main(argv=None):
    """Run the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('binary', type=Path, help='px4 or arducopter')
    parser.add_argument('--log', type=Path, help='file for the results')
    parser.add_argument('--only', nargs='+', metavar='ROW', help='rows to run (and take_off)')
    arguments = parser.parse_args(argv)
    binary = arguments.binary.resolve()
    kind = Px4() if binary.name == 'px4' else ArduCopter()
    lines, failed = [], 0

    def say(line):
        lines.append(line)
        print(line, flush=True)
        if arguments.log:
            arguments.log.write_text('\n'.join(lines) + '\n')

    with claim_domain() as claim, tempfile.TemporaryDirectory() as folder:
        isolate(os.environ, claim.domain)
        session = Session(kind, binary, Path(folder))
        try:
            session.wait(lambda: 'is there' in session.bridge.log, 60.0, 'autopilot')
            time.sleep(15.0)    # the estimator initialises
            say(f'{kind.name} {time.strftime("%Y-%m-%d")}')
            for name, row in session.rows().items():
                if arguments.only and name not in arguments.only:
                    continue
                try:
                    text, good = row()
                except AssertionError as error:
                    text, good = f'{error}', False
                except Exception:
                    text, good = traceback.format_exc(), False
                failed += not good
                say(f'{"as documented" if good else "DIFFERS":13}  {name:16}  {text}')
        finally:
            say('-- bridge'), say(session.bridge.log)
            say('-- node'), say(session.node.log)
            say('-- autopilot'), say('\n'.join(session.pilot.texts))
            session.close()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
