# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fly PX4 (SIH) or ArduCopter in SITL on the poses of this package, with every row of the table.

    python bench/sitl.py PX4/build/px4_sitl_default/bin/px4 --log px4.log
    python bench/sitl.py ardupilot/build/sitl/bin/arducopter --log ardupilot.log
    python bench/sitl.py BINARY --only ground lost_0.5

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
import re
import signal
import sys
import tempfile
import time
import traceback

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / 'test'), str(HERE)]
from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402
from sitl_kit import ArduCopter, Px4, Session  # noqa: E402

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


def told(pilot, begin, limit_m=FLIGHT_M):
    """Return the errors of the estimate since a time as text, and whether they are small."""
    rms, largest, height, yaw = pilot.since(begin)
    return (f'{100 * rms:.1f} cm rms, {100 * largest:.1f} cm at most, height '
            f'{100 * height:.1f} cm rms, yaw {yaw:.1f} deg', largest < limit_m and yaw < YAW_DEG)


class Table:
    """Rows in the order in which they run; each returns (result, whether it is as documented)."""

    def __init__(self, session):
        self.session, self.pilot, self.kind = session, session.pilot, session.kind

    def rows(self):
        """Return all rows by name."""
        return {
            'check': self.check, 'ground': self.ground, 'take_off': self.take_off,
            'hover': self.hover, 'square': self.square, 'stop_refused': self.stop,
            **{name: (lambda fault=fault: self.fault(fault)) for name, fault in FAULTS.items()},
            'frozen': self.frozen,
            **{f'lost_{s}': (lambda s=s: self.lost(s)) for s in (0.5, 1.0, 1.5)},
            'elsewhere': self.elsewhere, 'second_node': self.second_node,
            'bridge_killed': self.bridge_killed, 'node_killed': self.node_killed,
            'land': self.land, 'autopilot_killed': self.autopilot_killed,
            'lost_for_ever': self.lost_for_ever}

    def check(self):
        """Run the check of the bridge on the ground."""
        time.sleep(2.0)
        lines = self.session.check()
        bad = [line for line in lines if line.startswith('FAIL')]
        return '; '.join(bad) or f'{len(lines)} lines, no FAIL', lines and not bad

    def ground(self):
        """Compare the estimate with the truth before the flight."""
        begin = time.monotonic()
        time.sleep(5.0)
        return told(self.pilot, begin, GROUND_M)

    def take_off(self):
        """Arm and climb."""
        end = time.monotonic() + 60.0
        while self.kind.arm(self.pilot) != 0 or not self.pilot.armed:
            assert time.monotonic() < end, f'not armed: {self.pilot.texts[-5:]}'
            time.sleep(1.0)
        begin, ground = time.monotonic(), self.session.room.now()[0][2]
        self.kind.take_off(self.pilot, HEIGHT_M)
        self.session.wait(
            lambda: self.session.room.now()[0][2] < ground - 0.8 * HEIGHT_M, 30.0, 'climb')
        time.sleep(3.0)
        self.pilot.hold()
        return told(self.pilot, begin)

    def hover(self):
        """Hold a position."""
        self.steady()
        begin = time.monotonic()
        time.sleep(5.0)
        return told(self.pilot, begin)

    def square(self):
        """Fly a square of 1.5 m, with a turn by 90 degrees at each corner."""
        begin = time.monotonic()
        (x, y, z), yaw = self.pilot.target
        for north, east in ((1.5, 0.0), (1.5, 1.5), (0.0, 1.5), (0.0, 0.0)):
            yaw = math.remainder(yaw + math.pi / 2, math.tau)
            self.pilot.go((x + north, y + east, z), yaw)
            self.session.wait(self.pilot.reached, 20.0, 'arrival at the corner')
            time.sleep(1.5)
        return told(self.pilot, begin)

    def stop(self):
        """Send STOP of mocap control to all systems."""
        try:
            from mocap4r2_control_msgs.msg import Control
        except ImportError:
            return 'not run: mocap4r2_control_msgs is not installed', True
        from rosgraph import Observer
        with Observer('sitl_stop') as observer:
            commands = observer.node.create_publisher(Control, '/mocap4r2_control', 100)
            self.session.wait(lambda: commands.get_subscription_count() >= 2, 20.0, 'discovery')
            # For the bridge alone: the node itself would obey, see docs/autopilot.md.
            commands.publish(Control(control_type=Control.STOP, mocap4r2_source='sitl',
                                     mocap4r2_systems=['mavlink_bridge']))
            time.sleep(1.5)
        refused = 'not acknowledged: the vehicle is armed' in self.session.bridge.log
        return ('refused' if refused else 'followed'), refused and self.flying()

    def fault(self, fault):
        """Report a wrong pose for 0.8 s."""
        self.steady()
        begin = time.monotonic()
        self.session.room.fault = fault
        time.sleep(0.8)
        self.session.room.fault = None
        return self.recovered(begin)

    def frozen(self):
        """Report the same pose for 1 s."""
        self.steady()
        begin = time.monotonic()
        self.session.room.frozen = True
        time.sleep(1.0)
        self.session.room.frozen = False
        return self.recovered(begin)

    def lost(self, seconds):
        """Hide the body."""
        self.steady()
        begin = time.monotonic()
        self.session.room.hidden = True
        time.sleep(seconds)
        self.session.room.hidden = False
        return self.recovered(begin, 0.6)

    def elsewhere(self):
        """Hide the body for 0.8 s; it comes back 0.5 m elsewhere."""
        self.steady()
        self.session.room.hidden = True
        time.sleep(0.8)
        self.session.room.shift = np.array([0.5, 0.0, 0.0])
        self.session.room.hidden = False
        time.sleep(4.0)
        self.pilot.hold()
        begin = time.monotonic()
        time.sleep(3.0)
        text, good = told(self.pilot, begin)
        return f'4 s later: {text}', good and self.flying()

    def second_node(self):
        """Start a second node that turns the axes: nothing is sent until it ends."""
        from rosgraph import NodeProcess
        self.steady()
        begin = time.monotonic()
        with NodeProcess(
                '-r', '__node:=second', '-p', 'server:=127.0.0.1', '-p',
                f'port:={self.session.motive.port}', '-p', 'autostart:=true', '-p',
                'outputs:=[pose, odom, status]', '-p', 'motive_x:=east') as second:
            # It ends before the vehicle has drifted far without poses.
            self.session.wait(
                lambda: '/second publish' in self.session.bridge.log, 30.0, 'refusal')
            second.process.kill()
            second.process.wait()
        # A killed node stays in the graph; the row is about what the vehicle got.
        text, good = told(self.pilot, begin, 30.0)
        yaw = self.pilot.since(begin)[3]
        return f'refused; {text}', good and yaw < YAW_DEG

    def bridge_killed(self):
        """Kill the bridge, and start it again 1 s later as launch does."""
        self.steady()
        begin = time.monotonic()
        self.session.bridge.process.send_signal(signal.SIGKILL)
        self.session.bridge.process.wait()
        time.sleep(1.0)
        self.session.bridge = self.session.start_bridge()
        return self.recovered(begin, 1.0, 8.0)

    def node_killed(self):
        """Kill the node, and start it again 1 s later as launch does."""
        self.steady()
        begin = time.monotonic()
        self.session.node.process.send_signal(signal.SIGKILL)
        self.session.node.process.wait()
        time.sleep(1.0)
        self.session.node = self.session.start_node()
        return self.recovered(begin, 1.5, 8.0)

    def land(self):
        """Land and disarm."""
        begin = time.monotonic()
        self.kind.land(self.pilot)
        self.session.wait(lambda: not self.pilot.armed, 60.0, 'landing')
        return told(self.pilot, begin, 0.4)

    def autopilot_killed(self):
        """Kill the autopilot and start it again: it fuses without help and takes off."""
        self.session.restart_simulator(3.5)
        time.sleep(25.0)
        text, good = self.ground()
        took = self.take_off()
        return f'ground: {text}; take-off: {took[0]}', good and took[1]

    def lost_for_ever(self):
        """Hide the body for good: the autopilot ends the flight."""
        self.steady()
        begin = time.monotonic()
        self.session.room.hidden = True
        texts = len(self.pilot.texts)
        try:
            self.session.wait(lambda: not self.flying(), 25.0, 'failsafe')
        except AssertionError as error:
            return str(error), False
        said = [text for _, text in self.pilot.texts[texts:] if re.search('(?i)failsafe', text)]
        return f'after {time.monotonic() - begin:.1f} s: {"; ".join(said)}', True

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
        text, good = told(self.pilot, time.monotonic() - 1.5)
        return (f'{100 * largest:.1f} cm at most, yaw {yaw:.1f} deg; then {text}',
                good and largest < limit_m and self.flying())


def main(argv=None):
    """Run the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('binary', type=Path, help='px4 or arducopter')
    parser.add_argument('--log', type=Path, help='file for the results')
    parser.add_argument('--only', nargs='+', metavar='ROW', help='rows to run (and take_off)')
    parser.add_argument('--message', default='auto', help='as the parameter message')
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
        session = Session(kind, binary, Path(folder), arguments.message)
        try:
            table = Table(session)
            session.wait(lambda: 'is there' in session.bridge.log, 60.0, 'autopilot')
            time.sleep(15.0)    # the estimator initialises
            say(f'{kind.name} {time.strftime("%Y-%m-%d")}, message {arguments.message}')
            for name, row in table.rows().items():
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
            say('-- autopilot'), say('\n'.join(text for _, text in session.pilot.texts))
            session.close()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
