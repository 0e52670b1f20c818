# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert the poses of bodies to the values of axes, with validity: the bridge without IO.

Poses are those that the main node publishes: validated, in ENU, stamped on the host's clock.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum
import math
import statistics
from typing import NamedTuple

from optitrack_vrpn.axes.quantities import Quantities, quantities_of, Unwrapper
from optitrack_vrpn.axes.settings import MapperSettings
from optitrack_vrpn.axes.table import AxisRow, AxisTable
from optitrack_vrpn.motion.frames import Pose
from optitrack_vrpn.motion.lowpass import Lowpass, LowpassConfig
from optitrack_vrpn.motion.quaternion import Quat, Vector

#: Number of intervals between stamps whose median gives a body's rate. Chosen: the median of 21
#: ignores several consecutive lost frames.
_INTERVALS = 21
#: Chosen: number of intervals needed for a rate.
_ENOUGH = 8
#: A stamp further in the future (ns) is not used: synchronised computers differ by less.
_AHEAD_NS = 50_000_000
#: Deviation of a quaternion's norm from 1 above which it is not an attitude. Chosen: the value of
#: the node's validity gate; published poses deviate by 1e-15.
_NORM_TOLERANCE = 0.01

NAN = math.nan


class Status(IntEnum):
    """The status number in datagrams, as in the interface thesis."""

    NOT_CONNECTED = 0
    RECEIVING = 1
    UNABLE = 2
    ENDED = -1


class Event(Enum):
    """Events that change the status."""

    START = 'the stream was started'
    POSE = 'a valid pose of any body arrived'
    SILENCE = 'no pose for the connection timeout'
    END = 'the stream was ended on request'


#: (status, event) -> status; other pairs do not change the status.
TRANSITIONS = {
    (Status.NOT_CONNECTED, Event.POSE): Status.RECEIVING,
    (Status.NOT_CONNECTED, Event.SILENCE): Status.UNABLE,
    (Status.UNABLE, Event.POSE): Status.RECEIVING,
    (Status.RECEIVING, Event.SILENCE): Status.UNABLE,
    (Status.NOT_CONNECTED, Event.END): Status.ENDED,
    (Status.RECEIVING, Event.END): Status.ENDED,
    (Status.UNABLE, Event.END): Status.ENDED,
    (Status.ENDED, Event.START): Status.NOT_CONNECTED,
}


def after(status: Status, event: Event) -> Status:
    """Return the status after an event."""
    return TRANSITIONS.get((status, event), status)


class AxisState(NamedTuple):
    """
    One axis at one cycle.

    :ivar value: in its own unit; if not valid, NaN or the last value, according to the settings.
    :ivar valid: whether the value is fresh and valid.
    :ivar reason: reason why it is not valid, or ''.
    """

    value: float
    valid: bool
    reason: str


class Sample(NamedTuple):
    """
    All axes at one cycle.

    :ivar axes: in the table's order.
    :ivar stamp_ns: stamp of the oldest measurement used (ns since 1970), never decreasing; 0
        before the first valid value.
    :ivar status: the status number.
    """

    axes: tuple[AxisState, ...]
    stamp_ns: int
    status: Status


@dataclass
class Counters:
    """Numbers of poses received, and of those not used, by reason."""

    poses: int = 0
    not_finite: int = 0
    in_future: int = 0
    out_of_order: int = 0
    clock_steps: int = 0


@dataclass
class _Body:
    """State of one body."""

    rows: list[tuple[int, AxisRow]]
    lowpass: 'Lowpass | None'
    stamp_ns: int = 0
    published_ns: int = 0
    measured_ns: int = 0     # the stamp on the monotonic clock
    seen: bool = False
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=_INTERVALS))

    @property
    def rate_hz(self) -> float:
        """Return the rate from the stamps (Hz), 0 while unknown."""
        if len(self.intervals) < _ENOUGH:
            return 0.0
        return 1.0 / statistics.median(self.intervals)


class AxisMapper:
    """
    Keep the present value of every axis.

    :param table: the axes.
    :param settings: frames, filter, and the age at which a value is stale.
    :ivar counters: numbers of poses not used.
    """

    def __init__(self, table: AxisTable, settings: 'MapperSettings | None' = None) -> None:
        self.table = table
        self.settings = settings or MapperSettings()
        self.counters = Counters()
        self._status = Status.NOT_CONNECTED
        self._stamp_ns = 0
        lowpass = self.settings.lowpass
        config = LowpassConfig(lowpass.cutoff_hz, lowpass.order, lowpass.compensate_delay)
        self._bodies = {
            body: _Body(
                [(i, row) for i, row in enumerate(table.axes) if row.body == body],
                Lowpass(config) if config.cutoff_hz else None)
            for body in table.bodies}
        self._discard(None)

    def _discard(self, started_ns: int | None) -> None:
        self._started_ns = started_ns
        self._last_pose_ns: int | None = None
        self._values = [NAN] * len(self.table.axes)
        self._problems = ['no pose yet'] * len(self.table.axes)
        self._unwrappers = [Unwrapper() if row.unwrap else None for row in self.table.axes]
        for state in self._bodies.values():
            state.seen = False
            self._begin_again(state)

    def rate_hz(self, body: str) -> float:
        """Return the rate of a body from its stamps (Hz), 0 while unknown."""
        return self._bodies[body].rate_hz

    def pose(
        self, body: str, stamp_ns: int, position: Vector, quat_xyzw: Quat, now_ns: int,
        host_ns: int,
    ) -> bool:
        """
        Process a pose.

        :param body: name of a body in the table.
        :param stamp_ns: its stamp (ns since 1970).
        :param position: in ENU (m).
        :param quat_xyzw: rotation from FLU to ENU.
        :param now_ns: present time (ns) on a monotonic clock.
        :param host_ns: present time on the clock of the stamps (ns since 1970).
        :returns: False if the pose was not used; ``counters`` has the reason.
        """
        state = self._bodies[body]
        norm = math.sqrt(sum(c * c for c in quat_xyzw))
        if not all(map(math.isfinite, position)) or not abs(norm - 1.0) < _NORM_TOLERANCE:
            self.counters.not_finite += 1
            return False
        if stamp_ns - host_ns > _AHEAD_NS:
            self.counters.in_future += 1
            return False
        if state.seen and stamp_ns <= state.stamp_ns:
            if state.stamp_ns - host_ns <= _AHEAD_NS:
                self.counters.out_of_order += 1
                return False
            self.counters.clock_steps += 1      # the host's clock was set back
            self._begin_again(state)
        elif state.seen:
            state.intervals.append((stamp_ns - state.stamp_ns) * 1e-9)
        self.counters.poses += 1
        state.stamp_ns = stamp_ns
        published_ns = stamp_ns
        if state.lowpass is not None:
            published_ns, position, quat_xyzw = state.lowpass.update(
                stamp_ns, position, quat_xyzw, state.rate_hz)
        state.published_ns = published_ns
        state.measured_ns = now_ns - (host_ns - stamp_ns)
        state.seen = True
        self._last_pose_ns = now_ns
        self._status = after(self._status, Event.POSE)
        self._map(state, Pose(position, quat_xyzw))
        return True

    def _begin_again(self, state: _Body) -> None:
        state.intervals.clear()
        self._stamp_ns = 0
        if state.lowpass is not None:
            state.lowpass.reset()

    def _map(self, state: _Body, pose: Pose) -> None:
        """Compute the axes of one body."""
        found: dict[str, Quantities] = {}
        for i, row in state.rows:
            if row.frame not in found:
                found[row.frame] = quantities_of(pose, row.frame, self.settings.motive_x)
            numbers, gimbal_lock = found[row.frame]
            if gimbal_lock and row.quantity in ('roll', 'yaw'):
                self._problems[i] = 'gimbal lock: pitch is within 1 degree of +-90 degrees'
                continue
            quantity = numbers[row.index]
            unwrapper = self._unwrappers[i]
            if unwrapper is not None:
                quantity = unwrapper.update(quantity)
            value = row.value(quantity)
            self._values[i] = value
            outside = row.range is not None and not row.range[0] <= value <= row.range[1]
            self._problems[i] = (
                f'{value:.6g} is outside the range {row.range}' if outside else '')

    def sample(self, now_ns: int) -> Sample:
        """
        Return all axes at the present time.

        :param now_ns: present time (ns) on the monotonic clock of ``pose``.
        """
        if self._started_ns is None:
            self._started_ns = now_ns
        since = self._started_ns if self._last_pose_ns is None else self._last_pose_ns
        if now_ns - since > self.settings.connect_timeout_s * 1e9:
            self._status = after(self._status, Event.SILENCE)
        axes: list[AxisState] = [AxisState(NAN, False, '')] * len(self._values)
        oldest: int | None = None
        hold = self.settings.invalid == 'hold'
        for body, state in self._bodies.items():
            age_s = (now_ns - state.measured_ns) * 1e-9
            stale = state.seen and age_s > self.settings.stale_after_s
            usable = False
            for i, _ in state.rows:
                reason = self._problems[i]
                if stale:
                    reason = f'the last pose of body {body!r} was measured {age_s:.1f} s ago'
                value = self._values[i]
                if reason and not hold:
                    value = NAN
                usable = usable or not reason
                axes[i] = AxisState(value, not reason, reason)
            if usable:
                oldest = state.published_ns if oldest is None else min(
                    oldest, state.published_ns)
        if oldest is not None:
            self._stamp_ns = max(self._stamp_ns, oldest)
        return Sample(tuple(axes), self._stamp_ns, self._status)

    def end(self) -> Status:
        """End the stream on request; ``start`` begins another one."""
        self._status = after(self._status, Event.END)
        return self._status

    def start(self, now_ns: int) -> None:
        """
        Begin a stream and discard the values of the previous one.

        :param now_ns: present time (ns) on the monotonic clock of ``pose``.
        """
        self._status = after(self._status, Event.START)
        self._discard(now_ns)
