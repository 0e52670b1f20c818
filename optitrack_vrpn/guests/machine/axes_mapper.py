# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert the poses of bodies to the values of axes, with validity: the bridge without IO.

Poses are those that the main node publishes: validated, in ENU, stamped on the host's clock.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.core.axes import Pose
from optitrack_vrpn.core.doubt import Doubt, DoubtGuard
from optitrack_vrpn.core.rotation import Quat, Vector
from optitrack_vrpn.core.stats import frame_interval
from optitrack_vrpn.guests.machine.axes_settings import (
    AxesMapperSettings, AxisRow, AxisTable, Quantities, quantities_of, Unwrapper)
from optitrack_vrpn.guests.machine.freshness import Freshness, NEVER, StampOrder
from optitrack_vrpn.guests.machine.states import Fault
from optitrack_vrpn.stream.motion.lowpass import Lowpass


class AxesStatus(IntEnum):
    """The status number in datagrams, as in the interface thesis."""

    NOT_CONNECTED = 0
    RECEIVING = 1
    UNABLE = 2
    ENDED = -1


class AxisState(NamedTuple):
    """
    One axis at one cycle.

    :ivar value: in its own unit; NaN if not valid.
    :ivar fault: why it is not valid; None if it is.
    :ivar reason: the same for the user, or ''.
    """

    value: float
    fault: Optional[Fault] = None
    reason: str = ''

    @property
    def valid(self) -> bool:
        """Return whether the value is fresh and valid."""
        return self.fault is None


_NONE = AxisState(math.nan, 'no_pose', 'no pose yet')


class AxesSample(NamedTuple):
    """
    All axes at one cycle.

    :ivar axes: in the table's order.
    :ivar stamp_ns: stamp of the oldest measurement used (ns since 1970), never decreasing; 0
        before the first valid value.
    :ivar status: the status number.
    """

    axes: tuple[AxisState, ...]
    stamp_ns: int
    status: AxesStatus


@dataclass
class AxesCounters:
    """Numbers of poses received, and of those not used, by reason."""

    poses: int = 0
    not_finite: int = 0
    in_future: int = 0
    out_of_order: int = 0
    clock_steps: int = 0


@dataclass
class _Axis:
    """State of one axis; ``now`` is used while the pose of its body is fresh."""

    row: AxisRow
    now: AxisState = _NONE
    unwrapper: Optional[Unwrapper] = None


@dataclass
class _Body:
    """State of one body."""

    axes: list[_Axis]
    lowpass: Optional[Lowpass]
    age: Freshness
    published_ns: int = 0
    guard: DoubtGuard = field(default_factory=DoubtGuard)
    resets: Optional[int] = None
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=21))

    @property
    def rate_hz(self) -> float:
        """Return the rate from the last stamps (Hz), 0 while unknown; lost frames are ignored."""
        return 1.0 / frame_interval(self.intervals) if len(self.intervals) >= 8 else 0.0


class AxisMapper:
    """
    Keep the present value of every axis.

    :param table: the axes.
    :param settings: frames, filter, and the age at which a value is stale.
    :ivar counters: numbers of poses not used.
    """

    def __init__(self, table: AxisTable, settings: Optional[AxesMapperSettings] = None) -> None:
        self.table = table
        self.settings = settings or AxesMapperSettings()
        self.counters = AxesCounters()
        self.start(None)

    def start(self, now_ns: Optional[int]) -> None:
        """Begin a stream at a time (ns), None: at the first sample; discard earlier values."""
        self._ended = False
        self._started_ns = now_ns
        self._last_pose_ns: Optional[int] = None
        self._stamp_ns = 0
        self._axes = [_Axis(row, unwrapper=Unwrapper() if row.unwrap else None)
                      for row in self.table.axes]
        config = replace(self.settings.lowpass, compensate_delay=True)
        self._bodies = {
            body: _Body([axis for axis in self._axes if axis.row.body == body],
                        Lowpass(config) if config.cutoff_hz else None,
                        Freshness(self.settings.max_age_s))
            for body in self.table.bodies}

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
        if not all(map(math.isfinite, position)) or not abs(norm - 1.0) < 0.01:
            self.counters.not_finite += 1
            return False
        before_ns = state.age.stamp_ns
        match state.age.take(stamp_ns, now_ns, host_ns):
            case StampOrder.FUTURE:
                self.counters.in_future += 1
                return False
            case StampOrder.OLDER | StampOrder.REPEATED:
                self.counters.out_of_order += 1
                return False
            case StampOrder.SET_BACK:
                self.counters.clock_steps += 1
                state.intervals.clear()
                self._stamp_ns = 0
                if state.lowpass is not None:
                    state.lowpass.reset()
            case _ if before_ns != NEVER:
                state.intervals.append((stamp_ns - before_ns) * 1e-9)
        self.counters.poses += 1
        state.published_ns = stamp_ns
        if state.lowpass is not None:
            state.published_ns, position, quat_xyzw = state.lowpass.update(
                stamp_ns, position, quat_xyzw, state.rate_hz)
        self._last_pose_ns = now_ns
        self._map(state, Pose(position, quat_xyzw))
        return True

    def doubt(self, body: str, doubt: Doubt, resets: Optional[int] = None) -> None:
        """
        Process what the status of a body says: its axes are invalid while it is in doubt.

        :param resets: discontinuities of its poses; None if unknown.
        """
        state = self._bodies[body]
        state.guard.report(doubt, turned=resets is None or resets != state.resets)
        state.guard.guard(True)   # the controller may be in closed loop at any time
        state.resets = resets

    def _map(self, state: _Body, pose: Pose) -> None:
        """Compute the axes of one body."""
        found: dict[str, Quantities] = {}
        for axis in state.axes:
            row = axis.row
            if row.frame not in found:
                found[row.frame] = quantities_of(pose, row.frame, self.settings.motive_x)
            numbers, gimbal_lock = found[row.frame]
            if gimbal_lock and row.quantity in ('roll', 'yaw'):
                axis.now = AxisState(
                    math.nan, 'gimbal_lock',
                    'gimbal lock: pitch is within 1 degree of +-90 degrees')
                continue
            quantity = numbers[row.index]
            value = row.value(
                axis.unwrapper.update(quantity) if axis.unwrapper is not None else quantity)
            axis.now = AxisState(value)
            if row.range is not None and not row.range[0] <= value <= row.range[1]:
                axis.now = AxisState(
                    math.nan, 'range', f'{value:.6g} is outside the range {row.range}')

    def sample(self, now_ns: int) -> AxesSample:
        """Return all axes at the present time (ns, on the monotonic clock of ``pose``)."""
        if self._started_ns is None:
            self._started_ns = now_ns
        found = [self._present(axis, now_ns) for axis in self._axes]
        used = [self._bodies[axis.row.body].published_ns
                for axis, state in zip(self._axes, found) if state.valid]
        if used:
            self._stamp_ns = max(self._stamp_ns, min(used))
        return AxesSample(tuple(found), self._stamp_ns, self._status(now_ns))

    def _present(self, axis: _Axis, now_ns: int) -> AxisState:
        """Return the present state of an axis."""
        body = self._bodies[axis.row.body]
        if axis.now.fault != 'no_pose' and body.age.stale(now_ns):
            return AxisState(
                math.nan, 'stale', f'the last pose of body {axis.row.body!r} was measured '
                f'{body.age.age_s(now_ns):.1f} s ago')
        if axis.now.valid and body.guard.reason:
            return AxisState(math.nan, 'accepted_by_time', ': '.join(
                filter(None, (body.guard.reason, body.guard.remedy))))
        return axis.now

    def _status(self, now_ns: int) -> AxesStatus:
        if self._ended:
            return AxesStatus.ENDED
        since = self._started_ns if self._last_pose_ns is None else self._last_pose_ns
        if since is not None and now_ns - since > self.settings.connect_timeout_s * 1e9:
            return AxesStatus.UNABLE
        return AxesStatus.NOT_CONNECTED if self._last_pose_ns is None else AxesStatus.RECEIVING

    def end(self) -> None:
        """End the stream on request; ``start`` begins another one."""
        self._ended = True
