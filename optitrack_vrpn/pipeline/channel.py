# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the pipeline keeps of each body, and what it hands on of it to be published."""

import re
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.bodies.validity import Body
from optitrack_vrpn.motion.estimator import Estimator, MotionEstimate
from optitrack_vrpn.names import BodyNames
from optitrack_vrpn.stats import Window
from optitrack_vrpn.vrpn.messages import Quaternion, Vector

#: Poses that are all too old for so long are no hiccup; after so long without them it is over.
_CHOKING_NS = 1_000_000_000
_NO_LONGER_NS = 5_000_000_000
_LIKE_A_SENSOR = re.compile(r'/sensor-?[0-9]+\Z')


class Channel:
    """
    One body, from its first pose on.

    :ivar names: what it is called in Motive and in ROS.
    :ivar truth: whether its poses are believed.
    :ivar estimator: what is made of those that are.
    :ivar user: what the shell hangs on it (its publishers).
    :ivar wants_motion: whether somebody listens to the motion estimate.
    :ivar newest_ns: latest sender time of its poses, or later than all where
        ``coarse_clock.CoarseClock`` places them.
    :ivar last_sender_ns: sender time of the latest pose if it went out, else -1.
    :ivar last_stamp_ns: stamp of the latest that went out, 0 before the first and where the clock
        of the stamps has stepped since.
    :ivar last_quat: its attitude.
    :ivar last_position: its position.
    :ivar too_old: poses that arrived, or were to go out, too long after their stamp.
    :ivar left_out: good poses that were left out since this computer did not keep up.
    :ivar turn: the last frame it was part of, see ``backlog.Backlog``.
    :ivar outdone: poses that came together with a newer one, where arrivals are the stamps.
    :ivar not_rising: poses whose stamp is not later than that of the one before.
    :ivar untracked: samples of poses that were not believed.
    :ivar unsent: samples that did not leave this node: it was not active, the body had no topics
        yet, or they were too old by then.
    :ivar choked: whether nothing goes out since all that comes is too old.
    :ivar moved_ns: stamps of the latest acceleration and the latest velocity of the server's.
    :ivar moved_rate: angular rate of the latter (rad/s, about ENU's axes).
    :ivar told: what people have been told of it once and for all.
    :ivar latency: of poses that went out, from stamp to publication (s), now and then one.
    :ivar accept_service: resolved name of the service by which the user accepts the pose that
        the body jumped to; '' where there is none.
    :ivar held_reported: whether the user has been told that only he can end the jump.
    """

    __slots__ = (
        'names', 'truth', 'estimator', 'user', 'wants_motion', 'newest_ns', 'last_sender_ns',
        'last_stamp_ns',
        'last_position', 'last_quat', 'not_rising', 'too_old', 'left_out', 'outdone', 'turn',
        'untracked', 'unsent', 'choked', 'moved_ns', 'moved_rate', 'told', 'latency',
        'accept_service', 'held_reported', '_out', '_old', '_old_from_ns', '_old_to_ns')

    def __init__(self, names: BodyNames, truth: Body, estimator: Estimator) -> None:
        self.names = names
        self.truth = truth
        self.estimator = estimator
        self.user: Any = None
        self.wants_motion = False
        self.newest_ns = -1
        self.last_sender_ns = -1
        self.last_stamp_ns = 0
        self.last_position: Vector = (0.0, 0.0, 0.0)
        self.last_quat: Quaternion = (0.0, 0.0, 0.0, 1.0)
        self.too_old = 0
        self.left_out = 0
        self.outdone = 0
        self.turn = -1
        self.not_rising = 0
        self.untracked = 0
        self.unsent = 0
        self.choked = False
        # Counts when last looked at; since when and until when they showed age alone.
        self._out = self._old = 0
        self._old_from_ns: Optional[int] = None
        self._old_to_ns = 0
        self.moved_ns = [0, 0]
        self.moved_rate: Vector = (0.0, 0.0, 0.0)
        self.told: set[str] = set()
        self.latency = Window(128)
        self.accept_service = ''
        self.held_reported = False

    @property
    def published(self) -> int:
        """Count the poses that have left this node."""
        return (self.truth.published + self.untracked
                - self.not_rising - self.unsent - self.left_out)

    def chokes(self, now_ns: int) -> bool:
        """
        Look whether poses come, but are all too old to go out.

        :returns: True when that has just lasted for a second; ``choked`` says so from then on.
        """
        out, old = self.published, self.too_old
        if out != self._out or now_ns - self._old_to_ns >= _NO_LONGER_NS:
            self._old_from_ns = None
            self.choked = False
        if old != self._old and out == self._out:
            self._old_to_ns = now_ns
            if self._old_from_ns is None:
                self._old_from_ns = now_ns
        self._out, self._old = out, old
        if self.choked or self._old_from_ns is None:
            return False
        self.choked = self._old_to_ns - self._old_from_ns >= _CHOKING_NS
        return self.choked


class Sample(NamedTuple):
    """
    One pose to be published.

    :ivar channel: whose.
    :ivar stamp_ns: on the host's clock (ns since the Unix epoch).
    :ivar position: (m), in ENU.
    :ivar quat_xyzw: attitude of FLU in ENU, of unit norm, its sign continuous.
    :ivar motion: how the body moves, where somebody listens and it is known.
    """

    channel: Channel
    stamp_ns: int
    position: Vector
    quat_xyzw: Quaternion
    motion: Optional[MotionEstimate]


class ServerMotion(NamedTuple):
    """
    A velocity or acceleration of the base, sent by the server for a pose that went out.

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
