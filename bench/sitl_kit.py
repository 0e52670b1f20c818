# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""PX4 or ArduCopter in SITL, a simulated Motive that sees it, a pilot, and a log of errors."""

import functools
import math
import os
from pathlib import Path
import subprocess
import sys
import threading
import time

import numpy as np
from optitrack_vrpn.sim.motion import MotionState
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
from pymavlink import mavutil
from rosgraph import NodeProcess
from scipy.spatial.transform import Rotation

BODY = 'cf1'
HOME = (47.397742, 8.545594, 488.0)
EARTH_M = 6_371_000.0
#: Where the vehicle takes off in the room, the room's turn (deg), and its motion capture.
PLACE = (0.7, -0.4, -0.06)
TURN_DEG = 37.0
MOCAP = {
    'rate': 120.0, 'seed': 5, 'clock': {'skew_ppm': 30.0, 'start': 10800.0},
    'network': {'delay_ms': 6.0}, 'noise': {'position_mm': 0.2, 'attitude_deg': 0.02},
    'bodies': [{'name': BODY}]}
#: Gain of a measured position on the integrated velocity: MAVLink gives truth in steps of 1.1 cm.
GAIN = 0.04
MAV = mavutil.mavlink


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
    pilot = truth = 'tcp:127.0.0.1:5760'
    truth_message = 'SIM_STATE'
    parameters = {
        'FRAME_CLASS': 1, 'FS_THR_ENABLE': 0, 'FS_GCS_ENABLE': 0, 'GPS1_TYPE': 0,
        'SIM_GPS_DISABLE': 1, 'COMPASS_USE': 0, 'COMPASS_USE2': 0, 'COMPASS_USE3': 0,
        'COMPASS_ENABLE': 0,
        'VISO_TYPE': 1, 'VISO_DELAY_MS': 10, 'AHRS_EKF_TYPE': 3, 'EK3_ENABLE': 1, 'EK2_ENABLE': 0,
        'EK3_SRC1_POSXY': 6, 'EK3_SRC1_POSZ': 6, 'EK3_SRC1_YAW': 6, 'EK3_SRC1_VELXY': 6,
        'EK3_SRC1_VELZ': 6, 'SERIAL2_PROTOCOL': 2, 'MOT_THST_EXPO': 0.65, 'MOT_THST_HOVER': 0.39,
        'MOT_BAT_VOLT_MIN': 9.6, 'MOT_BAT_VOLT_MAX': 12.8, 'BATT_MONITOR': 0,
        'INS_ACCOFFS_X': 0.001, 'INS_ACCOFFS_Y': 0.001, 'INS_ACCOFFS_Z': 0.001,
        'INS_ACC2OFFS_X': 0.001, 'INS_ACC2OFFS_Y': 0.001, 'INS_ACC2OFFS_Z': 0.001,
        'INS_ACCSCAL_X': 1.001, 'INS_ACCSCAL_Y': 1.001, 'INS_ACCSCAL_Z': 1.001,
        'INS_ACC2SCAL_X': 1.001, 'INS_ACC2SCAL_Y': 1.001, 'INS_ACC2SCAL_Z': 1.001}

    def start(self, binary, folder):
        """Start it with the table's parameters."""
        (folder / 'indoor.parm').write_text(''.join(
            f'{name} {value}\n' for name, value in self.parameters.items()))
        return subprocess.Popen(
            [str(binary), '--model', 'quad', '--home', ','.join(map(str, (*HOME, 0))),
             '--defaults', 'indoor.parm', '--serial2', 'udpclient:127.0.0.1:14540'],
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


class Room:
    """
    The true pose of the vehicle in the room, as a live motion of the simulated Motive.

    :ivar fault: changes (position in NED, attitude), or None.
    :ivar hidden, frozen: whether the cameras do not see the body, or repeat its last pose.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._turn, self._place = Rotation.from_euler('z', TURN_DEG, degrees=True), np.array(PLACE)
        self._state = None
        self.fault = None
        self.hidden, self.frozen = True, False
        self.shift = np.zeros(3)

    def moved(self, position, velocity, attitude, rates):
        """Take the simulator's state: (N, E, D) from home, FRD to NED, rates in FRD."""
        now = time.monotonic()
        with self._lock:
            estimate = np.array(position)
            if self._state is not None:
                at, before, speed, _, _ = self._state
                expected = before + (now - at) * speed
                if np.linalg.norm(estimate - expected) < 0.5:
                    estimate = expected + GAIN * (estimate - expected)
            self._state = (now, estimate, np.array(velocity), attitude, np.array(rates))

    def now(self):
        """Return position and attitude in the room's NED, or None."""
        with self._lock:
            if self._state is None:
                return None
            at, position, velocity, attitude, rates = self._state
        age = min(time.monotonic() - at, 0.1)
        attitude = attitude * Rotation.from_rotvec(rates * age)
        return (self._turn.apply(position + age * velocity) + self._place + self.shift,
                self._turn * attitude)

    def forget(self):
        """Forget the state: the simulator begins again."""
        with self._lock:
            self._state = None

    def stay(self, position, attitude):
        """Continue at a pose of the room, wherever the simulator has begun again."""
        now, turned = self.now()
        yaw = attitude.as_euler('ZYX')[0] - turned.as_euler('ZYX')[0]
        turn = Rotation.from_euler('z', yaw) * self._turn
        with self._lock:
            inner = self._turn.inv().apply(now - self._place - self.shift)
            self._turn, self._place = turn, position - self.shift - turn.apply(inner)

    def at(self, times):
        """Return the motion that the cameras see, in Motive's axes: north, up, east."""
        position, attitude = self.now() or (np.zeros(3), Rotation.identity())
        if self.fault is not None:
            position, attitude = self.fault(position, attitude)
        w = attitude.as_quat() if isinstance(attitude, Rotation) else np.array(attitude)
        zero = np.zeros((len(times), 3))
        return MotionState(
            np.tile((position[0], -position[2], position[1]), (len(times), 1)), zero, zero,
            np.tile((w[0], -w[2], w[1], w[3]), (len(times), 1)), zero)


class Seen:
    """Leave out the reports of the body while it is hidden."""

    def __init__(self, world, room):
        self._world, self._room = world, room
        self._last = []

    def __getattr__(self, name):
        return getattr(self._world, name)

    def frame(self, *given):
        """Make a frame."""
        frame = self._world.frame(*given)
        if self._room.hidden:
            return frame._replace(reports=[])
        if not self._room.frozen:
            self._last = frame.reports
        return frame._replace(reports=[
            new._replace(position=old.position, quat_xyzw=old.quat_xyzw)
            for new, old in zip(frame.reports, self._last)])


class Pilot:
    """
    A ground station: commands, set points, and the estimate compared with the truth.

    :ivar errors: (time, horizontal and vertical error in m, yaw error in rad) of each estimate.
    :ivar position, yaw, armed, mode: as the autopilot reports them.
    :ivar texts: its status texts.
    """

    def __init__(self, kind, room):
        self._kind, self._room = kind, room
        self.errors, self.texts, self.resets = [], [], set()
        self.position, self.yaw, self.armed, self.mode = (0.0, 0.0, 0.0), 0.0, False, 0
        self.target = None
        self._ground, self._acks = None, {}
        self._ended = threading.Event()
        self._links, self._threads = [], []
        self._sending = threading.Lock()

    def start(self):
        """Open the links; a TCP link needs the simulator first."""
        self._links = [self._connect()]
        if self._kind.truth != self._kind.pilot:
            self._links.append(mavutil.mavlink_connection(self._kind.truth, source_system=255))
        reads = (functools.partial(self._read, index) for index in range(len(self._links)))
        for work in (*reads, self._send):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()

    def _connect(self):
        begin = time.monotonic()
        while True:
            try:
                return mavutil.mavlink_connection(self._kind.pilot, source_system=255)
            except OSError:
                assert time.monotonic() < begin + 60.0, 'the simulator does not listen'
                time.sleep(0.5)

    def reconnect(self):
        """Connect to a simulator that has started again, if the link is TCP."""
        if self._kind.pilot.startswith('tcp:'):
            with self._sending:
                self._links[0].close()
                self._links[0] = self._connect()

    def close(self):
        """Stop all threads."""
        self._ended.set()
        for thread in self._threads:
            thread.join(3.0)
        for link in self._links:
            link.close()

    # -- for the rows ---------------------------------------------------------------------------

    def command(self, number, *values):
        """Send a command; return its result, None without an answer."""
        self._acks.pop(number, None)
        values = [*values, *[0] * (7 - len(values))]
        for _ in range(5):
            with self._sending:
                self._links[0].mav.command_long_send(1, 1, number, 0, *values)
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                if number in self._acks:
                    return self._acks[number]
                time.sleep(0.02)
        return None

    def hold(self):
        """Set the present position as the target."""
        self.go(self.position, self.yaw)

    def go(self, position, yaw):
        """Set a target (N, E, D) in the autopilot's frame, and a heading."""
        self.target = (tuple(position), yaw)

    def reached(self, limit_m=0.4):
        """Return whether the target is reached."""
        return math.dist(self.position, self.target[0]) < limit_m

    def since(self, begin, end=math.inf):
        """Return rms and largest horizontal, rms vertical (m), rms yaw error (deg) since then."""
        rows = np.array([row[1:] for row in self.errors if begin <= row[0] <= end])
        if not len(rows):
            return (math.nan,) * 4
        rms = np.sqrt(np.mean(rows ** 2, axis=0))
        return (float(rms[0]), float(rows[:, 0].max()), float(rms[1]),
                math.degrees(float(rms[2])))

    # -- threads --------------------------------------------------------------------------------

    def _send(self):
        beat = 0.0
        while not self._ended.wait(0.05):
            with self._sending:
                mav = self._links[0].mav
                if time.monotonic() > beat:
                    beat = time.monotonic() + 1.0
                    for link in self._links:
                        link.mav.heartbeat_send(MAV.MAV_TYPE_GCS, 8, 0, 0, 0)
                    if self._links[0].target_system:
                        self._ask(self._links[-1], self._kind.truth_message, 10_000)
                        for name in ('LOCAL_POSITION_NED', 'ATTITUDE'):
                            self._ask(self._links[0], name, 20_000)
                if self.target is not None:
                    (x, y, z), yaw = self.target
                    mav.set_position_target_local_ned_send(
                        0, 1, 1, 1, 0b100111111000, x, y, z, 0, 0, 0, 0, 0, 0, yaw, 0)

    def _ask(self, link, name, period_us):
        number = getattr(MAV, f'MAVLINK_MSG_ID_{name}')
        link.mav.command_long_send(1, 1, MAV.MAV_CMD_SET_MESSAGE_INTERVAL, 0, number, period_us,
                                   0, 0, 0, 0, 0)

    def _read(self, index):
        while not self._ended.is_set():
            try:
                message = self._links[index].recv_match(blocking=True, timeout=0.5)
            except (OSError, ValueError):    # closed
                time.sleep(0.1)
                continue
            if message is None or message.get_srcSystem() != 1:
                continue
            take = getattr(self, f'_take_{message.get_type().lower()}', None)
            if take is not None:
                take(message)

    def _take_heartbeat(self, message):
        if message.autopilot != 8:
            self.armed, self.mode = bool(message.base_mode & 128), message.custom_mode

    def _take_statustext(self, message):
        self.texts.append((time.monotonic(), message.text))

    def _take_command_ack(self, message):
        self._acks[message.command] = message.result

    def _take_attitude(self, message):
        self.yaw = message.yaw

    def _take_local_position_ned(self, message):
        self.position = (message.x, message.y, message.z)
        truth = self._room.now()
        if truth is not None:
            yaw = truth[1].as_euler('ZYX')[0]
            self.errors.append((
                time.monotonic(), math.dist(self.position[:2], truth[0][:2]),
                abs(self.position[2] - truth[0][2]),
                abs(math.remainder(self.yaw - yaw, math.tau))))

    def _take_hil_state_quaternion(self, m):
        w, x, y, z = m.attitude_quaternion
        self._moved(m.lat, m.lon, m.alt / 1000, (m.vx / 100, m.vy / 100, m.vz / 100),
                    Rotation.from_quat((x, y, z, w)), (m.rollspeed, m.pitchspeed, m.yawspeed))

    def _take_sim_state(self, m):
        self._moved(
            m.lat_int or round(m.lat * 1e7), m.lon_int or round(m.lon * 1e7), m.alt,
            (m.vn, m.ve, m.vd), Rotation.from_quat((m.q2, m.q3, m.q4, m.q1)),
            (m.xgyro, m.ygyro, m.zgyro))

    def _moved(self, lat, lon, altitude, velocity, attitude, rates):
        north = math.radians(lat * 1e-7 - HOME[0]) * EARTH_M
        east = math.radians(lon * 1e-7 - HOME[1]) * EARTH_M * math.cos(math.radians(HOME[0]))
        if self._ground is None:
            self._ground = altitude
        self._room.moved((north, east, self._ground - altitude), velocity, attitude, rates)


class Session:
    """
    Simulator, simulated Motive, node, bridge and pilot.

    :ivar log: lines for the user.
    """

    def __init__(self, kind, binary, folder, message='auto'):
        self.kind, self.folder, self._binary = kind, folder, binary
        self.room = Room()
        self.pilot = Pilot(kind, self.room)
        self.simulator = kind.start(binary, folder)
        self.pilot.start()
        self.wait(lambda: self.room.now() is not None, 60.0, 'the true pose')
        self.motive = MotiveSimServer(
            scenario_from_mapping(MOCAP), '127.0.0.1', 0, live={BODY: self.room})
        self.motive.world = Seen(self.motive.world, self.room)
        self.motive.start()
        self.room.hidden = False
        self.message = message
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
                            'message': f'[{self.message}]', 'target_system': 1,
                            'autostart': 'true'}.items():
            arguments += ['-p', f'{name}:={value}']
        return NodeProcess(*arguments, tool='mavlink_bridge')

    def restart_simulator(self, pause_s):
        """Kill the autopilot and start it again."""
        pose = self.room.now()
        self.room.hidden = True
        self.simulator.kill()
        self.simulator.wait()
        time.sleep(pause_s)
        self.room.forget()
        self.simulator = self.kind.start(self._binary, self.folder)
        self.pilot.reconnect()
        self.wait(lambda: self.room.now() is not None, 60.0, 'the true pose')
        time.sleep(2.0)
        self.room.stay(*pose)
        self.room.hidden = False

    def wait(self, condition, timeout_s, what):
        """Wait until something is so; AssertionError after the time."""
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f'no {what} within {timeout_s:g} s'
            assert self.simulator.poll() is None, 'the simulator has ended'
            time.sleep(0.05)

    def check(self, *more):
        """Run ``mavlink_bridge --check`` beside the bridge; return its lines."""
        result = subprocess.run(
            [sys.executable, '-m', 'optitrack_vrpn', 'mavlink_bridge', '--check', *more,
             '--ros-args', '-p', f'body:={BODY}'], capture_output=True, text=True, timeout=60,
            cwd=Path(__file__).resolve().parent.parent, check=False)
        return result.stdout.splitlines()

    def close(self):
        """End everything."""
        self.pilot.target = None
        for process in (self.bridge, self.node):
            process.__exit__()
        self.motive.stop()
        self.pilot.close()
        self.simulator.kill()
        self.simulator.wait()
