# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The room and the pilot of ``sitl.py``: the true pose, set points, errors of the estimate."""

import functools
import importlib
import math
import os
import threading
import time

import numpy as np
from optitrack_vrpn.sim.motion import MotionState
from scipy.spatial.transform import Rotation

# Set before the import of pymavlink: in MAVLink 1, SIM_STATE has no exact position.
os.environ['MAVLINK20'] = '1'
mavutil = importlib.import_module('pymavlink.mavutil')

HOME = (47.397742, 8.545594, 488.0)
EARTH_M = 6_371_000.0
#: Where the vehicle takes off in the room, and the room's turn (deg).
PLACE = (0.7, -0.4, -0.06)
TURN_DEG = 37.0
#: Gain of a measured position on the integrated velocity: MAVLink gives truth in steps of 1.1 cm.
GAIN = 0.04
MAV = mavutil.mavlink


class Room:
    """
    The true pose of the vehicle in the room, as a live motion of the simulated Motive.

    :ivar fault: changes (position in NED, attitude), or None.
    :ivar hidden: whether the cameras do not see the body.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._turn, self._place = Rotation.from_euler('z', TURN_DEG, degrees=True), np.array(PLACE)
        self._state = None
        self.fault = None
        self.hidden = True

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
        return (self._turn.apply(position + age * velocity) + self._place,
                self._turn * attitude)

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


class Pilot:
    """
    A ground station: commands, set points, and the estimate compared with the truth.

    :ivar errors: (time, horizontal and vertical error in m, yaw error in rad) of each estimate.
    :ivar position, yaw, armed, mode: as the autopilot reports them.
    :ivar texts: its status texts.
    """

    def __init__(self, kind, room):
        self._kind, self._room = kind, room
        self.errors, self.texts = [], []
        self.position, self.yaw, self.armed, self.mode = (0.0, 0.0, 0.0), 0.0, False, 0
        self.target = None
        self._ground, self._acks = None, {}
        self._ended = threading.Event()
        self._links, self._threads = [], []
        self._sending = threading.Lock()

    def start(self):
        """Open the links."""
        self._links = [mavutil.mavlink_connection(place, source_system=255)
                       for place in dict.fromkeys((self._kind.pilot, self._kind.truth))]
        reads = (functools.partial(self._read, index) for index in range(len(self._links)))
        for work in (*reads, self._send):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()

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
            if message is not None and message.get_srcSystem() == 1:
                self._take(message)

    def _take(self, m):
        match m.get_type():
            case 'HEARTBEAT' if m.autopilot != 8:
                self.armed, self.mode = bool(m.base_mode & 128), m.custom_mode
            case 'STATUSTEXT':
                self.texts.append(m.text)
            case 'COMMAND_ACK':
                self._acks[m.command] = m.result
            case 'ATTITUDE':
                self.yaw = m.yaw
            case 'LOCAL_POSITION_NED':
                self.position = (m.x, m.y, m.z)
                self._compare()
            case 'HIL_STATE_QUATERNION':
                w, x, y, z = m.attitude_quaternion
                self._moved(
                    m.lat, m.lon, m.alt / 1000, (m.vx / 100, m.vy / 100, m.vz / 100),
                    Rotation.from_quat((x, y, z, w)), (m.rollspeed, m.pitchspeed, m.yawspeed))
            case 'SIM_STATE':
                self._moved(
                    m.lat_int or round(m.lat * 1e7), m.lon_int or round(m.lon * 1e7), m.alt,
                    (m.vn, m.ve, m.vd), Rotation.from_quat((m.q2, m.q3, m.q4, m.q1)),
                    (m.xgyro, m.ygyro, m.zgyro))

    def _compare(self):
        truth = self._room.now()
        if truth is not None:
            yaw = truth[1].as_euler('ZYX')[0]
            self.errors.append((
                time.monotonic(), math.dist(self.position[:2], truth[0][:2]),
                abs(self.position[2] - truth[0][2]),
                abs(math.remainder(self.yaw - yaw, math.tau))))

    def _moved(self, lat, lon, altitude, velocity, attitude, rates):
        north = math.radians(lat * 1e-7 - HOME[0]) * EARTH_M
        east = math.radians(lon * 1e-7 - HOME[1]) * EARTH_M * math.cos(math.radians(HOME[0]))
        if self._ground is None:
            self._ground = altitude
        self._room.moved((north, east, self._ground - altitude), velocity, attitude, rates)
