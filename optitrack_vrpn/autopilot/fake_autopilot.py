# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
An autopilot for tests and the demo, which processes poses like PX4 and ArduPilot.

It has its own clock, answers and sends TIMESYNC, has parameters, and accepts or drops vision
messages by the rules in the sources of PX4 and ArduPilot (docs/autopilot.md). It has no flight
dynamics: its own attitude is that of the last pose, optionally with an error.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
import math
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.autopilot.messages import euler_zyx, Outgoing
from optitrack_vrpn.autopilot.parameters_check import decode, encode, INT32, REAL32
from optitrack_vrpn.autopilot.vehicle import Incoming
from optitrack_vrpn.motion.euler import quat_from_angles

PX4, ARDUPILOT = 12, 3
#: Flags of ESTIMATOR_STATUS and EKF_STATUS_REPORT, which share these bits. PX4 1.17 in SITL sets
#: CONST_POS whenever the vehicle stands still.
ATTITUDE, CONST_POS = 1, 128
FUSED = {'px4': 1 | 2 | 4 | 8 | 16 | 32 | CONST_POS | 256,
         'ardupilot': 1 | 2 | 4 | 8 | 16 | 32 | 256 | 512}
VISION = ('ODOMETRY', 'VISION_POSITION_ESTIMATE', 'VISION_SPEED_ESTIMATE', 'ATT_POS_MOCAP')
#: Periods of heartbeats and of telemetry (ns): 1 Hz as MAVLink recommends, and (chosen) 5 Hz.
_HEARTBEAT_NS = 1_000_000_000
_TELEMETRY_NS = 200_000_000

PARAMETERS: dict[str, dict[str, tuple[float, int]]] = {
    'px4': {'EKF2_EV_CTRL': (15, INT32), 'EKF2_HGT_REF': (3, INT32), 'EKF2_GPS_CTRL': (0, INT32),
            'EKF2_EV_DELAY': (0.0, REAL32), 'EKF2_MAG_TYPE': (5, INT32),
            'SYS_HAS_GPS': (0, INT32)},
    'ardupilot': {name: (value, 2) for name, value in {
        'VISO_TYPE': 1, 'AHRS_EKF_TYPE': 3, 'EK3_ENABLE': 1, 'EK3_SRC1_POSXY': 6,
        'EK3_SRC1_POSZ': 6, 'EK3_SRC1_YAW': 6, 'EK3_SRC1_VELXY': 6, 'EK3_SRC1_VELZ': 6}.items()},
}


class FakeConfig(NamedTuple):
    """
    Settings of the fake.

    :ivar kind: ``px4`` or ``ardupilot``.
    :ivar boot_ns: its clock when the host's clock reads ``epoch_ns`` (ns).
    :ivar epoch_ns: a time on the host's clock (ns).
    :ivar skew_ppm: rate of its clock relative to the host's (ppm).
    :ivar timesync_hz: rate of its TIMESYNC requests (Hz).
    :ivar convergence: number of round trips until PX4 uses stamps; 500 in PX4.
    :ivar yaw_error: error added to its own yaw (rad).
    :ivar system: its system id.
    :ivar armed: whether its heartbeat says that it is armed.
    """

    kind: str = 'px4'
    boot_ns: int = 100_000_000_000
    epoch_ns: int = 0
    skew_ppm: float = 0.0
    timesync_hz: float = 10.0
    convergence: int = 500
    yaw_error: float = 0.0
    system: int = 1
    armed: bool = False


class Accepted(NamedTuple):
    """
    A pose that the estimator accepted.

    :ivar sample_ns: its time on the fake's clock, as used by the estimator (ns).
    """

    name: str
    sample_ns: int
    position: tuple[float, float, float]
    quat_wxyz: tuple[float, float, float, float]
    reset_counter: int


class _Px4Clock:
    """PX4's estimate of the other clock: smoothed, and used after enough round trips."""

    def __init__(self, convergence: int) -> None:
        self._convergence = convergence
        self._count = 0
        self._offset = 0.0
        self._trend = 0.0

    @property
    def converged(self) -> bool:
        return self._count >= self._convergence

    def round_trip(self, sent_ns: int, remote_ns: int, now_ns: int) -> None:
        if now_ns - sent_ns >= 10_000_000:
            return
        offset = (sent_ns + now_ns) / 2 - remote_ns
        if not self._count:
            self._offset = offset
        else:
            gain = 0.05 if not self.converged else 0.003
            before = self._offset
            self._offset += self._trend + gain * (offset - self._offset - self._trend)
            self._trend += gain * (self._offset - before - self._trend)
        self._count += 1

    def sample_ns(self, stamp_us: int, now_ns: int) -> int:
        return stamp_us * 1000 + round(self._offset) if self.converged else now_ns


class _LeastDelay:
    """ArduPilot's estimate: the message with the least delay among 100 gives the offset."""

    def __init__(self) -> None:
        self._offset: Optional[int] = None
        self._window: deque[int] = deque()

    def sample_ns(self, stamp_us: int, now_ns: int) -> int:
        difference = now_ns - stamp_us * 1000
        if self._offset is None or difference < self._offset:
            self._offset = difference
        estimate = max(stamp_us * 1000 + self._offset, now_ns - 500_000_000)
        self._window.append(difference)
        if len(self._window) == 100:
            self._offset = min(self._window)
            self._window.clear()
        return estimate


class FakeAutopilot:
    """
    Simulate the autopilot; arguments are times of the host's clock.

    :ivar accepted: poses that the estimator accepted.
    :ivar dropped: numbers of poses that it dropped, by reason.
    :ivar resets: number of changes of the reset counter.
    :ivar origin: latitude, longitude (1e-7 deg) and altitude (mm), once set.
    :ivar values: parameters by name, with their MAV_PARAM_TYPE.
    :ivar companion: (system, component, type, autopilot) of the last foreign heartbeat.
    """

    def __init__(
        self, config: FakeConfig, parameters: Optional[Mapping[str, float]] = None,
    ) -> None:
        self.config = config
        self.values = dict(PARAMETERS[config.kind])
        for name, value in (parameters or {}).items():
            self.values[name] = (value, self.values[name][1])
        self.accepted: deque[Accepted] = deque(maxlen=100_000)
        self.dropped: Counter[str] = Counter()
        self.resets = 0
        self.origin: Optional[tuple[int, int, int]] = None
        self.companion: Optional[tuple[int, int, int, int]] = None
        self._px4_clock = _Px4Clock(config.convergence)
        self._least_delay = _LeastDelay()
        self._fused = False
        self._last_ns = -1
        self._last_velocity_ns = -1
        self._counter: Optional[int] = None
        self._next = dict.fromkeys(('heartbeat', 'timesync', 'telemetry'), 0)

    @property
    def converged(self) -> bool:
        """Return whether the stamps of the companion are used."""
        return self.config.kind != 'px4' or self._px4_clock.converged

    def local_ns(self, host_ns: int) -> int:
        """Return the time on the fake's clock."""
        passed = host_ns - self.config.epoch_ns
        return self.config.boot_ns + passed + round(passed * self.config.skew_ppm * 1e-6)

    def fused(self, host_ns: int) -> bool:
        """Return whether the estimator fuses poses at a time of the host's clock."""
        # PX4 ends fusion after 400 ms without a sample; ArduPilot is unhealthy after 300 ms.
        limit_ns = 400_000_000 if self.config.kind == 'px4' else 300_000_000
        if self._last_ns < 0 or self.local_ns(host_ns) - self._last_ns > limit_ns:
            self._fused = False
        return self._fused

    # -- out ---------------------------------------------------------------------------------

    def tick(self, host_ns: int) -> list[Outgoing]:
        """Return the messages that the autopilot sends periodically."""
        made = []
        config = self.config
        now_ns = self.local_ns(host_ns)
        if self._due('heartbeat', now_ns, _HEARTBEAT_NS):
            made.append(Outgoing('HEARTBEAT', {
                'type': 2, 'autopilot': PX4 if config.kind == 'px4' else ARDUPILOT,
                'base_mode': 128 if config.armed else 0, 'custom_mode': 0, 'system_status': 3}))
        if config.timesync_hz and self._due('timesync', now_ns, round(1e9 / config.timesync_hz)):
            made.append(Outgoing('TIMESYNC', {'tc1': 0, 'ts1': now_ns}))
        if self._due('telemetry', now_ns, _TELEMETRY_NS):
            made += self._telemetry(host_ns, now_ns)
        return made

    def _due(self, what: str, now_ns: int, period_ns: int) -> bool:
        if now_ns < self._next[what]:
            return False
        self._next[what] = now_ns + period_ns
        return True

    def _telemetry(self, host_ns: int, now_ns: int) -> list[Outgoing]:
        boot_ms = now_ns // 1_000_000 % 2**32
        fused = self.fused(host_ns)
        made = [self.estimator_status(host_ns)]
        if not self.accepted:
            return made
        last = self.accepted[-1]
        roll, pitch, yaw = euler_zyx(last.quat_wxyz)
        # At the time of that pose, so that a comparison does not contain the motion since.
        boot_ms = last.sample_ns // 1_000_000 % 2**32
        made.append(Outgoing('ATTITUDE', {
            'time_boot_ms': boot_ms, 'roll': roll, 'pitch': pitch,
            'yaw': math.remainder(yaw + self.config.yaw_error, 2 * math.pi), 'rollspeed': 0.0,
            'pitchspeed': 0.0, 'yawspeed': 0.0}))
        if fused:
            x, y, z = last.position
            made.append(Outgoing('LOCAL_POSITION_NED', {
                'time_boot_ms': boot_ms, 'x': x, 'y': y, 'z': z, 'vx': 0.0, 'vy': 0.0,
                'vz': 0.0}))
        return made

    def estimator_status(self, host_ns: int) -> Outgoing:
        """Create ESTIMATOR_STATUS or EKF_STATUS_REPORT."""
        flags = FUSED[self.config.kind] if self.fused(host_ns) else ATTITUDE | CONST_POS
        if self.config.kind == 'px4':
            return Outgoing('ESTIMATOR_STATUS', {
                'time_usec': self.local_ns(host_ns) // 1000, 'flags': flags, 'vel_ratio': 0.1,
                'pos_horiz_ratio': 0.1, 'pos_vert_ratio': 0.1, 'mag_ratio': 0.0,
                'hagl_ratio': 0.0, 'tas_ratio': 0.0, 'pos_horiz_accuracy': 0.01,
                'pos_vert_accuracy': 0.01})
        return Outgoing('EKF_STATUS_REPORT', {
            'flags': flags, 'velocity_variance': 0.1, 'pos_horiz_variance': 0.1,
            'pos_vert_variance': 0.1, 'compass_variance': 0.0, 'terrain_alt_variance': 0.0})

    # -- in ----------------------------------------------------------------------------------

    def receive(self, message: Incoming, host_ns: int) -> list[Outgoing]:
        """Process a message; return the answers."""
        fields = message.fields
        now_ns = self.local_ns(host_ns)
        if message.name == 'HEARTBEAT':
            self.companion = (message.system, message.component, fields['type'],
                              fields['autopilot'])
        elif message.name == 'TIMESYNC':
            if fields['tc1'] == 0:
                return [Outgoing('TIMESYNC', {'tc1': now_ns, 'ts1': fields['ts1']})]
            self._px4_clock.round_trip(fields['ts1'], fields['tc1'], now_ns)
        elif message.name in ('PARAM_REQUEST_READ', 'PARAM_SET'):
            return self._parameter(message)
        elif message.name == 'SET_GPS_GLOBAL_ORIGIN':
            self.origin = (fields['latitude'], fields['longitude'], fields['altitude'])
            return [self._origin_message()]
        elif message.name == 'COMMAND_LONG' and fields['command'] == 512:
            return self._requested(round(fields['param1']), host_ns)
        elif message.name in VISION:
            reason = self._vision(message, now_ns)
            if reason:
                self.dropped[reason] += 1
        return []

    def _parameter(self, message: Incoming) -> list[Outgoing]:
        name = message.fields['param_id']
        if name not in self.values:
            return []
        value, mav_type = self.values[name]
        bytewise = self.config.kind == 'px4'
        if message.name == 'PARAM_SET':
            value = decode(message.fields['param_value'], mav_type, bytewise)
            self.values[name] = (value, mav_type)
        return [Outgoing('PARAM_VALUE', {
            'param_id': name, 'param_value': encode(value, mav_type, bytewise),
            'param_type': mav_type, 'param_count': len(self.values),
            'param_index': list(self.values).index(name)})]

    def _origin_message(self) -> Outgoing:
        assert self.origin is not None
        latitude, longitude, altitude = self.origin
        return Outgoing('GPS_GLOBAL_ORIGIN', {
            'latitude': latitude, 'longitude': longitude, 'altitude': altitude})

    def _requested(self, message_id: int, host_ns: int) -> list[Outgoing]:
        if message_id == 49 and self.origin is not None:
            return [self._origin_message()]
        if message_id == 148:
            return [Outgoing('AUTOPILOT_VERSION', {
                'capabilities': 0, 'flight_sw_version': 1 << 24 | 15 << 16 | 4 << 8 | 255,
                'middleware_sw_version': 0, 'os_sw_version': 0, 'board_version': 0,
                'flight_custom_version': [0] * 8, 'middleware_custom_version': [0] * 8,
                'os_custom_version': [0] * 8, 'vendor_id': 0, 'product_id': 0, 'uid': 0})]
        if message_id in (193, 230):
            return [self.estimator_status(host_ns)]
        return []

    # -- the rules ---------------------------------------------------------------------------

    def _vision(self, message: Incoming, now_ns: int) -> str:
        """Process a vision message; return the reason if the estimator does not use it."""
        fields = message.fields
        refusal = (self._px4_refuses if self.config.kind == 'px4' else self._ardupilot_refuses)(
            message)
        if refusal:
            return refusal
        stamp_us = fields.get('time_usec', fields.get('usec', 0))
        clock = self._px4_clock if self.config.kind == 'px4' else self._least_delay
        sample_ns = clock.sample_ns(stamp_us, now_ns)
        if message.name == 'VISION_SPEED_ESTIMATE':
            close = self._too_close(sample_ns, self._last_velocity_ns)
            if not close:
                self._last_velocity_ns = sample_ns
            return close
        if self._too_close(sample_ns, self._last_ns):
            return 'too close'
        position = (fields['x'], fields['y'], fields['z'])
        if 'q' in fields:
            quat = tuple(fields['q'])
        else:
            x, y, z, w = quat_from_angles(fields['roll'], fields['pitch'], fields['yaw'])
            quat = (w, x, y, z)
        if not all(map(math.isfinite, (*position, *quat))):
            return 'not finite'
        if abs(math.hypot(*quat) - 1.0) > 1e-5:
            return 'norm'
        self._accept(message, sample_ns, position, quat)
        return ''

    def _accept(self, message: Incoming, sample_ns: int, position: Any, quat: Any) -> None:
        counter = message.fields.get('reset_counter', 0)
        if self._counter is not None and counter != self._counter:
            self.resets += 1
        self._counter = counter
        # PX4 starts to fuse if samples are at most 200 ms apart.
        if self._last_ns >= 0 and sample_ns - self._last_ns <= 200_000_000:
            self._fused = True
        self._last_ns = sample_ns
        self.accepted.append(Accepted(message.name, sample_ns, position, quat, counter))

    def _too_close(self, sample_ns: int, last_ns: int) -> str:
        if last_ns < 0:
            return ''
        if self.config.kind == 'px4':
            return 'too close' if sample_ns - last_ns < 10_500_000 else ''
        return 'too close' if sample_ns // 1_000_000 - last_ns // 1_000_000 < 20 else ''

    def _px4_refuses(self, message: Incoming) -> str:
        fields = message.fields
        if message.name == 'VISION_SPEED_ESTIMATE':
            return 'unsupported message'
        if message.name == 'ATT_POS_MOCAP':
            return 'not read by the estimator'
        if message.name == 'ODOMETRY':
            if fields['estimator_type'] not in (0, 1, 2, 3):
                return 'estimator_type'
            if fields['frame_id'] not in (1, 20):
                return 'frame_id'
        return ''

    def _ardupilot_refuses(self, message: Incoming) -> str:
        if not self.values['VISO_TYPE'][0]:
            return 'VISO_TYPE'
        fields = message.fields
        if message.name == 'ODOMETRY' and (fields['frame_id'], fields['child_frame_id']) != (
                20, 12):
            return 'frame_id'
        return ''
