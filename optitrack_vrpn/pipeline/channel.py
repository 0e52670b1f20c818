# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The state that the pipeline keeps of each body, and the samples that it hands on."""

from collections import Counter
import re
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.bodies.disposition import BY_GATE, Disposition
from optitrack_vrpn.bodies.states import BodyStatus
from optitrack_vrpn.bodies.validity import ValidityGate
from optitrack_vrpn.motion.estimator import Estimator, MotionEstimate
from optitrack_vrpn.names import BodyNames
from optitrack_vrpn.stats import Window
from optitrack_vrpn.vrpn.messages import Quaternion, Vector

#: Poses that are all too old for so long (ns) are reported. Chosen: twice the default age; halved,
#: each stall of the computer is reported, doubled, the user waits longer for the reason.
_ALL_OLD_NS = 1_000_000_000
#: After so long (ns) without such a pose it is over. Chosen; halved or doubled, a lasting overload
#: with pauses is reported more or less often.
_NO_LONGER_NS = 5_000_000_000
_LIKE_A_SENSOR = re.compile(r'/sensor-?[0-9]+\Z')


class Channel:
    """
    One body, from its first pose on.

    :ivar names: what it is called in Motive and in ROS.
    :ivar gate: validates its poses.
    :ivar estimator: filters those that are valid.
    :ivar user: what the shell attaches to it (its publishers).
    :ivar wants_motion: whether somebody listens to the motion estimate.
    :ivar newest_ns: latest sender time of its poses, or later than all where
        ``coarse_clock.CoarseClock`` places them.
    :ivar last_sender_ns: sender time of the latest pose if it was handed on, else -1.
    :ivar last_stamp_ns: stamp of the latest that was handed on, 0 before the first and where the
        clock of the stamps has stepped since.
    :ivar last_quat: its attitude.
    :ivar last_position: its position.
    :ivar published: poses that have left this node; publishers count them.
    :ivar dropped: all other poses, by their disposition.
    :ivar turn: the last frame it was part of, see ``load_shedding.LoadShedder``.
    :ivar all_too_old: whether nothing is published since all that comes is too old.
    :ivar moved_ns: stamps of the latest acceleration and the latest velocity of the server's.
    :ivar moved_rate: angular rate of the latter (rad/s, about ENU's axes).
    :ivar reported: what the user has been told of it once and for all.
    :ivar latency: of published poses, from stamp to publication (s), now and then one.
    :ivar accept_service: resolved name of the service by which the user accepts the pose that
        the body jumped to; '' where there is none.
    :ivar held_reported: whether the user has been told that nothing else ends the jump.
    """

    __slots__ = (
        'names', 'gate', 'estimator', 'user', 'wants_motion', 'newest_ns', 'last_sender_ns',
        'last_stamp_ns', 'last_position', 'last_quat', 'published', 'dropped', 'turn',
        'all_too_old', 'moved_ns', 'moved_rate', 'reported', 'latency', 'accept_service',
        'held_reported', '_out', '_old', '_old_from_ns', '_old_to_ns')

    def __init__(self, names: BodyNames, gate: ValidityGate, estimator: Estimator) -> None:
        self.names = names
        self.gate = gate
        self.estimator = estimator
        self.user: Any = None
        self.wants_motion = False
        self.newest_ns = -1
        self.last_sender_ns = -1
        self.last_stamp_ns = 0
        self.last_position: Vector = (0.0, 0.0, 0.0)
        self.last_quat: Quaternion = (0.0, 0.0, 0.0, 1.0)
        self.published = 0
        self.dropped: Counter[Disposition] = Counter()
        self.turn = -1
        self.all_too_old = False
        # Counts at the last look; since when and until when they showed age alone.
        self._out = self._old = 0
        self._old_from_ns: Optional[int] = None
        self._old_to_ns = 0
        self.moved_ns = [0, 0]
        self.moved_rate: Vector = (0.0, 0.0, 0.0)
        self.reported: set[str] = set()
        self.latency = Window(128)
        self.accept_service = ''
        self.held_reported = False

    def dispositions(self) -> dict[Disposition, int]:
        """Count the poses received so far by what became of them; the sum is all of them."""
        return {Disposition.PUBLISHED: self.published, **self.dropped}

    def status(self, now_ns: int) -> BodyStatus:
        """
        Describe the body, with the poses that the gate withheld.

        :param now_ns: the present on the arrival clock.
        """
        return self.gate.status(now_ns)._replace(withheld={
            reason.value: count for reason, count in self.dropped.items() if reason in BY_GATE})

    def look_at_age(self, now_ns: int) -> bool:
        """
        Look whether poses come, but are all too old to be published.

        :returns: True when that has just lasted for a second; ``all_too_old`` says so from then
            on.
        """
        out, old = self.published, self.dropped[Disposition.TOO_OLD]
        if out != self._out or now_ns - self._old_to_ns >= _NO_LONGER_NS:
            self._old_from_ns = None
            self.all_too_old = False
        if old != self._old and out == self._out:
            self._old_to_ns = now_ns
            if self._old_from_ns is None:
                self._old_from_ns = now_ns
        self._out, self._old = out, old
        if self.all_too_old or self._old_from_ns is None:
            return False
        self.all_too_old = self._old_to_ns - self._old_from_ns >= _ALL_OLD_NS
        return self.all_too_old


class Sample(NamedTuple):
    """
    One pose to be published.

    :ivar channel: whose.
    :ivar stamp_ns: on the host's clock (ns since the Unix epoch).
    :ivar position: (m), in ENU.
    :ivar quat_xyzw: attitude of FLU in ENU, of unit norm, its sign continuous.
    :ivar motion: how the body moves, where that is subscribed to and known.
    """

    channel: Channel
    stamp_ns: int
    position: Vector
    quat_xyzw: Quaternion
    motion: Optional[MotionEstimate]


class ServerMotion(NamedTuple):
    """
    A velocity or acceleration of the base, sent by the server for a pose that was handed on.

    :ivar channel: whose.
    :ivar stamp_ns: the pose's stamp, which no low-pass has changed.
    :ivar position: that pose's (m), before any low-pass.
    :ivar quat_xyzw: its attitude.
    :ivar is_velocity: True for velocities (m/s, rad/s), False for accelerations.
    :ivar linear: in ENU.
    :ivar angular: about ENU's axes.
    """

    channel: Channel
    stamp_ns: int
    position: Vector
    quat_xyzw: Quaternion
    is_velocity: bool
    linear: Vector
    angular: Vector


def how_to_accept(channel: Channel) -> str:
    """Say what ends a jump that time alone does not end."""
    if channel.accept_service:
        accept = f'accept it: ros2 service call {channel.accept_service} std_srvs/srv/Trigger'
    else:
        accept = 'configure the node anew'
    return (
        'Nothing of it is published until it is back: check its markers in Motive, and make them '
        f'less symmetric. If you have redefined the body in Motive, {accept}')


def body_name(sender: str, sensor: int) -> str:
    """
    Name the body behind a sensor; the first sensor is the sender itself.

    No two have the same name, even where a sender is called as another one's sensor would be.
    """
    if sensor == 0 and not _LIKE_A_SENSOR.search(sender):
        return sender
    return f'{sender}/sensor{sensor}'
