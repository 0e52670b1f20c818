# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
An autopilot for tests and the demo, behind a UDP port, which treats poses as PX4 and ArduPilot do.

It has its own clock, answers and sends TIMESYNC, has parameters, and accepts or drops vision
messages by the rules in the sources of PX4 and ArduPilot (docs/autopilot.md). It has no flight
dynamics: its own attitude is that of the last pose, optionally with an error. It shares no rule
with gate and TIMESYNC of the bridge, whose judge it is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
import math
import select
import socket
import struct
import threading
import time
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.core.rotation import quat_from_angles
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.messages import euler_zyx, make_message
from optitrack_vrpn.guests.autopilot.parameters import decode, encode, INT32, REAL32
from optitrack_vrpn.guests.autopilot.settings import PROFILES
from optitrack_vrpn.guests.autopilot.vehicle import sender_of, VISION

#: Flags of ESTIMATOR_STATUS and EKF_STATUS_REPORT, which share these bits. PX4 1.17 in SITL sets
#: "constant position" (128) whenever the vehicle stands still.
_FUSED = {'px4': 63 | 128 | 256, 'ardupilot': 63 | 256 | 512}
#: Parameters with their MAV_PARAM_TYPE.
_PARAMETERS: dict[str, dict[str, tuple[float, int]]] = {
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
    """A pose that the estimator accepted; its time is on the fake's clock (ns)."""

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
        self._offset = self._trend = 0.0

    @property
    def converged(self) -> bool:
        return self._count >= self._convergence

    def round_trip(self, sent_ns: int, remote_ns: int, now_ns: int) -> None:
        if now_ns - sent_ns >= 10_000_000:
            return
        offset = (sent_ns + now_ns) / 2 - remote_ns
        gain = 0.003 if self.converged else 0.05
        before = self._offset if self._count else offset
        self._offset = before + self._trend + gain * (offset - before - self._trend)
        self._trend += gain * (self._offset - before - self._trend)
        self._count += 1

    def sample_ns(self, stamp_us: int, now_ns: int) -> int:
        return stamp_us * 1000 + round(self._offset) if self.converged else now_ns


class _LeastDelay:
    """ArduPilot's estimate: the message with the least delay among 100 gives the offset."""

    converged = True

    def __init__(self) -> None:
        self._offset: Optional[int] = None
        self._window: list[int] = []

    def round_trip(self, sent_ns: int, remote_ns: int, now_ns: int) -> None:
        """Ignore it: ArduPilot does not use TIMESYNC for the stamps."""

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
        self._px4 = config.kind == 'px4'
        self.values = dict(_PARAMETERS[config.kind])
        for name, value in (parameters or {}).items():
            self.values[name] = (value, self.values[name][1])
        self.accepted: deque[Accepted] = deque(maxlen=100_000)
        self.dropped: Counter[str] = Counter()
        self.resets = 0
        self.origin: Optional[tuple[int, int, int]] = None
        self.companion: Optional[tuple[int, int, int, int]] = None
        self._clock = _Px4Clock(config.convergence) if self._px4 else _LeastDelay()
        self._fused = False
        #: Time of the last pose and of the last velocity (ns).
        self._last_ns: dict[bool, int] = {}
        self._counter: Optional[int] = None
        self._next: dict[str, int] = {}

    @property
    def converged(self) -> bool:
        """Return whether the stamps of the companion are used."""
        return self._clock.converged

    def local_ns(self, host_ns: int) -> int:
        """Return the time on the fake's clock."""
        passed = host_ns - self.config.epoch_ns
        return self.config.boot_ns + passed + round(passed * self.config.skew_ppm * 1e-6)

    def fused(self, host_ns: int) -> bool:
        """Return whether the estimator fuses poses at a time of the host's clock."""
        # PX4 ends fusion after 400 ms without a sample; ArduPilot is unhealthy after 300 ms.
        limit_ns = 400_000_000 if self._px4 else 300_000_000
        last_ns = self._last_ns.get(False)
        if last_ns is None or self.local_ns(host_ns) - last_ns > limit_ns:
            self._fused = False
        return self._fused

    # -- out ---------------------------------------------------------------------------------

    def tick(self, host_ns: int) -> list[Any]:
        """Return the messages that the autopilot sends periodically."""
        made = []
        config, now_ns = self.config, self.local_ns(host_ns)
        if self._due('heartbeat', now_ns, 1.0):
            made.append(make_message(
                'HEARTBEAT', type=2, autopilot=PROFILES[config.kind].mav_autopilot,
                base_mode=128 if config.armed else 0, system_status=3, mavlink_version=3))
        if config.timesync_hz and self._due('timesync', now_ns, 1.0 / config.timesync_hz):
            made.append(make_message('TIMESYNC', ts1=now_ns))
        if self._due('telemetry', now_ns, 0.2):
            made += self._telemetry(host_ns)
        return made

    def _due(self, what: str, now_ns: int, period_s: float) -> bool:
        if now_ns < self._next.get(what, 0):
            return False
        self._next[what] = now_ns + round(period_s * 1e9)
        return True

    def _telemetry(self, host_ns: int) -> list[Any]:
        made = [self._estimator_status(host_ns)]
        if self.accepted:
            last = self.accepted[-1]
            roll, pitch, yaw = euler_zyx(last.quat_wxyz)
            # The time of that pose, so that a comparison does not contain the motion since.
            boot = {'time_boot_ms': last.sample_ns // 1_000_000 % 2**32}
            made.append(make_message(
                'ATTITUDE', roll=roll, pitch=pitch,
                yaw=math.remainder(yaw + self.config.yaw_error, 2 * math.pi), **boot))
            if self.fused(host_ns):
                made.append(make_message(
                    'LOCAL_POSITION_NED', **boot, **dict(zip('xyz', last.position))))
        return made

    def _estimator_status(self, host_ns: int) -> Any:
        flags = _FUSED[self.config.kind] if self.fused(host_ns) else 1 | 128
        return make_message(
            'ESTIMATOR_STATUS' if self._px4 else 'EKF_STATUS_REPORT', flags=flags)

    # -- in ----------------------------------------------------------------------------------

    def receive(self, message: Any, host_ns: int) -> list[Any]:
        """Process a message; return the answers."""
        name = message.get_type()
        now_ns = self.local_ns(host_ns)
        if name == 'HEARTBEAT':
            self.companion = (*sender_of(message), message.type, message.autopilot)
        elif name == 'TIMESYNC':
            if message.tc1 == 0:
                return [make_message('TIMESYNC', tc1=now_ns, ts1=message.ts1)]
            self._clock.round_trip(message.ts1, message.tc1, now_ns)
        elif name in ('PARAM_REQUEST_READ', 'PARAM_SET'):
            return self._parameter(message)
        elif name == 'SET_GPS_GLOBAL_ORIGIN':
            self.origin = (message.latitude, message.longitude, message.altitude)
            return self._requested(49, host_ns)
        elif name == 'COMMAND_LONG' and message.command == 512:
            return self._requested(round(message.param1), host_ns)
        elif name in VISION:
            reason = self._vision(message, now_ns)
            if reason:
                self.dropped[reason] += 1
        return []

    def _parameter(self, message: Any) -> list[Any]:
        name = message.param_id
        if name not in self.values:
            return []
        value, mav_type = self.values[name]
        if message.get_type() == 'PARAM_SET':
            value = decode(message.param_value, mav_type, self._px4)
            self.values[name] = (value, mav_type)
        return [make_message(
            'PARAM_VALUE', param_id=name, param_value=encode(value, mav_type, self._px4),
            param_type=mav_type, param_count=len(self.values),
            param_index=list(self.values).index(name))]

    def _requested(self, message_id: int, host_ns: int) -> list[Any]:
        if message_id == 49 and self.origin is not None:
            return [make_message('GPS_GLOBAL_ORIGIN', **dict(
                zip(('latitude', 'longitude', 'altitude'), self.origin)))]
        if message_id == 148:
            return [make_message(
                'AUTOPILOT_VERSION', flight_sw_version=1 << 24 | 15 << 16 | 4 << 8 | 255)]
        return [self._estimator_status(host_ns)] if message_id in (193, 230) else []

    # -- the rules ---------------------------------------------------------------------------

    def _vision(self, message: Any, now_ns: int) -> str:
        """Process a vision message; return the reason if the estimator does not use it."""
        name = message.get_type()
        refusal = self._refusal(name, message)
        if refusal:
            return refusal
        fields = message.to_dict()
        sample_ns = self._clock.sample_ns(fields.get('time_usec', fields.get('usec', 0)), now_ns)
        speed = name == 'VISION_SPEED_ESTIMATE'
        last_ns = self._last_ns.get(speed)
        # ArduPilot compares whole milliseconds.
        if last_ns is not None and (
                sample_ns - last_ns < 10_500_000 if self._px4 else
                sample_ns // 1_000_000 - last_ns // 1_000_000 < 20):
            return 'too close'
        if not speed:
            x, y, z, w = quat_from_angles(fields['roll'], fields['pitch'], fields['yaw']) \
                if 'roll' in fields else (*fields['q'][1:], fields['q'][0])
            position = (fields['x'], fields['y'], fields['z'])
            if not all(map(math.isfinite, (*position, w, x, y, z))):
                return 'not finite'
            if abs(math.hypot(w, x, y, z) - 1.0) > 1e-5:
                return 'norm'
            counter = fields.get('reset_counter', 0)
            self.resets += self._counter is not None and counter != self._counter
            self._counter = counter
            # PX4 starts to fuse if samples are at most 200 ms apart.
            self._fused |= last_ns is not None and sample_ns - last_ns <= 200_000_000
            self.accepted.append(Accepted(name, sample_ns, position, (w, x, y, z), counter))
        self._last_ns[speed] = sample_ns
        return ''

    def _refusal(self, name: str, message: Any) -> str:
        odometry = name == 'ODOMETRY'
        reasons = {
            'unsupported message': name == 'VISION_SPEED_ESTIMATE',
            'not read by the estimator': name == 'ATT_POS_MOCAP',
            'estimator_type': odometry and message.estimator_type not in (0, 1, 2, 3),
            'frame_id': odometry and message.frame_id not in (1, 20),
        } if self._px4 else {
            'VISO_TYPE': not self.values['VISO_TYPE'][0],
            'frame_id': odometry and (message.frame_id, message.child_frame_id) != (20, 12),
        }
        return next((reason for reason, applies in reasons.items() if applies), '')


class HeardMessage(NamedTuple):
    """A vision message and its arrival on the host's clock (ns)."""

    arrival_ns: int
    message: Any


class FakeServer:
    """
    Run a fake autopilot in a thread; every vision message is recorded with its arrival.

    :param fake: its rules; only the thread uses it while it runs.
    :ivar connection: address for a bridge.
    :ivar heard: every vision message so far.
    :ivar silent: set it to stop every transmission, as a dead transmitter does.
    """

    def __init__(self, fake: FakeAutopilot) -> None:
        self.fake = fake
        self.heard: list[HeardMessage] = []
        self.silent = False
        self._codec = Codec(fake.config.system, 1)
        self._peer: Optional[tuple[str, int]] = None
        self._lock = threading.Lock()
        self._ended = False
        self.connection = self._open()
        self._thread = threading.Thread(target=self._run, name='fake autopilot', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and release all resources."""
        self._ended = True
        self._thread.join()
        self._release()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended:
            poll = select.poll()
            with self._lock:
                if self._descriptor() >= 0:
                    poll.register(self._descriptor(), select.POLLIN)
            poll.poll(5)    # ms; it delays the fake's own messages by as much
            with self._lock:
                self._work()

    def _work(self) -> None:
        data, now_ns = self._read()
        answers: list[Any] = []
        for message in self._codec.decode(data) if data else ():
            if message.get_type() in VISION:
                self.heard.append(HeardMessage(now_ns, message))
            answers += self.fake.receive(message, now_ns)
        for message_out in [*answers, *self.fake.tick(time.time_ns())]:
            if not self.silent:
                self._write(self._codec.encode(message_out))

    # -- the port: tests replace these --------------------------------------------------------

    def _open(self) -> str:
        """Open the port; return the address for a bridge."""
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(('127.0.0.1', 0))
        self._sock.setblocking(False)
        # SO_TIMESTAMPNS of Linux: the arrival of datagrams; Python 3.10 has no name for it.
        self._sock.setsockopt(socket.SOL_SOCKET, 35, 1)
        return 'udpout:127.0.0.1:{}'.format(self._sock.getsockname()[1])

    def _release(self) -> None:
        self._sock.close()

    def _descriptor(self) -> int:
        return self._sock.fileno()

    def _read(self) -> tuple[bytes, int]:
        """Read the waiting data and their arrival: for a datagram from the kernel."""
        now_ns = time.time_ns()
        try:
            data, ancillary, _, self._peer = self._sock.recvmsg(65536, 64)
        except OSError:    # no data, or the other end is closed
            return b'', now_ns
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, 35):
                seconds, nanoseconds = struct.unpack_from('@qq', value)
                now_ns = seconds * 1_000_000_000 + nanoseconds
        return data, now_ns

    def _write(self, data: bytes) -> None:
        try:
            if self._peer is not None:
                self._sock.sendto(data, self._peer)
        except OSError:    # full, or without a reader
            pass
