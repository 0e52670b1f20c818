# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The state that the pipeline keeps of each body, and the samples that it returns."""

from collections import Counter
import re
from typing import NamedTuple, Optional

from optitrack_vrpn.bodies import BodyStatus, BY_GATE, Disposition, ValidityGate
from optitrack_vrpn.motion import Estimator, MotionEstimate
from optitrack_vrpn.names import BodyNames
from optitrack_vrpn.sources import Extras, Quaternion, Vector
from optitrack_vrpn.stats import Window

#: A body is reported when all its poses have been too old for this time (ns). Chosen: four
#: times the default maximum age.
_ALL_OLD_NS = 1_000_000_000
#: After this time (ns) without a pose that is too old, the condition has ended. Chosen.
_NO_LONGER_NS = 5_000_000_000
_LIKE_A_SENSOR = re.compile(r'/sensor-?[0-9]+\Z')


class TrackedBody:
    """
    State of one body, from its first pose on.

    :ivar names: its names in Motive and in ROS.
    :ivar gate: validates its poses.
    :ivar estimator: filters the valid poses.
    :ivar wants_motion: whether the motion estimate has subscribers.
    :ivar newest_ns: latest sender time of its poses, or ``coarse_clock.COARSE_NS`` if
        ``coarse_clock.CoarseClock`` places them.
    :ivar last_sender_ns: sender time of the last pose if it became a sample, else -1.
    :ivar last_stamp_ns: stamp of the last sample; 0 before the first one and after a step of the
        clock that the stamps use.
    :ivar last_quat: attitude of the last sample.
    :ivar last_position: position of the last sample (m).
    :ivar published: number of published poses; the publishers count them.
    :ivar dropped: number of all other poses, by disposition.
    :ivar turn: the last frame that contained the body, see ``load_shedding.LoadShedder``.
    :ivar all_too_old: whether nothing is published because every pose is too old.
    :ivar moved_ns: stamps of the latest acceleration and of the latest velocity from the server.
    :ivar moved_rate: angular rate of that velocity (rad/s, along ENU's axes).
    :ivar reported: conditions of this body that are reported only once and have been reported.
    :ivar latency: time from stamp to publication (s) of some published poses.
    :ivar accept_service: resolved name of the service by which the user accepts the pose that the
        body jumped to; '' if there is none.
    :ivar held_reported: whether it has been reported that the jump does not end without the user.
    """

    __slots__ = (
        'names', 'gate', 'estimator', 'wants_motion', 'newest_ns', 'last_sender_ns',
        'last_stamp_ns', 'last_position', 'last_quat', 'published', 'dropped', 'turn',
        'all_too_old', 'moved_ns', 'moved_rate', 'reported', 'latency', 'accept_service',
        'held_reported', '_out', '_old', '_old_from_ns', '_old_to_ns')

    def __init__(self, names: BodyNames, gate: ValidityGate, estimator: Estimator) -> None:
        self.names = names
        self.gate = gate
        self.estimator = estimator
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
        # Counters at the last call of look_at_age, and the time span in which only TOO_OLD rose.
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
        """Return the number of received poses by disposition; their sum is all received poses."""
        return {Disposition.PUBLISHED: self.published, **self.dropped}

    def status(self, now_ns: int) -> BodyStatus:
        """
        Return the state of the body, with the numbers of poses that the gate withheld.

        :param now_ns: present time on the arrival clock (ns).
        """
        return self.gate.status(now_ns)._replace(withheld={
            reason.value: count for reason, count in self.dropped.items() if reason in BY_GATE})

    def look_at_age(self, now_ns: int) -> bool:
        """
        Check whether poses arrive but are all too old to be published.

        :returns: True once, when this has lasted for a second; ``all_too_old`` then stays True
            until it ends.
        """
        out, old = self.published, self.dropped[Disposition.TOO_OLD]
        if out != self._out or now_ns - self._old_to_ns >= _NO_LONGER_NS:
            self._old_from_ns = None
            self.all_too_old = False
        if old != self._old:
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
    A pose to be published.

    :ivar channel: its body.
    :ivar stamp_ns: on the host's clock (ns since the Unix epoch).
    :ivar frame_ns: stamp of its frame (ns), equal for all bodies of the frame: ``stamp_ns``
        without the delay that a low-pass subtracts.
    :ivar position: in ENU (m).
    :ivar quat_xyzw: rotation from FLU to ENU, of unit norm, with continuous sign.
    :ivar motion: motion estimate; None if it has no subscriber or is not known.
    """

    channel: TrackedBody
    stamp_ns: int
    frame_ns: int
    position: Vector
    quat_xyzw: Quaternion
    motion: Optional[MotionEstimate]


class ServerMotion(NamedTuple):
    """
    A velocity or acceleration of the base, sent by the server for a pose that became a sample.

    :ivar channel: its body.
    :ivar stamp_ns: stamp of that pose, without the delay of a low-pass.
    :ivar position: position of that pose (m), before any low-pass.
    :ivar quat_xyzw: attitude of that pose.
    :ivar is_velocity: True for velocities (m/s, rad/s), False for accelerations.
    :ivar linear: linear part, along ENU's axes.
    :ivar angular: angular part, along ENU's axes.
    """

    channel: TrackedBody
    stamp_ns: int
    position: Vector
    quat_xyzw: Quaternion
    is_velocity: bool
    linear: Vector
    angular: Vector


class FrameTimes(NamedTuple):
    """
    When a frame was made, for messages that contain it.

    :ivar stamp_ns: its stamp on the host's clock (ns).
    :ivar exposure_ns: mid-exposure on the sender's clock (ns).
    :ivar camera_ns: time from then until the sender's computer had it, 0 if it is not known.
    :ivar processing_ns: time from exposure until it was sent.
    """

    stamp_ns: int
    exposure_ns: int
    camera_ns: int
    processing_ns: int


class StampedExtras(NamedTuple):
    """
    Skeletons and force plates of a frame, in the sender's axes and unchecked.

    :ivar stamp_ns: stamp of the frame on the host's clock (ns).
    :ivar sender_time_ns: time on the sender's clock.
    """

    stamp_ns: int
    sender_time_ns: int
    extras: Extras


def how_to_accept(channel: TrackedBody) -> str:
    """Return the remedy for a jump that does not end without the user."""
    if channel.accept_service:
        accept = f'accept it: ros2 service call {channel.accept_service} std_srvs/srv/Trigger'
    else:
        accept = 'clean up and configure the node'
    return (
        'It is not published until it returns: check its markers in Motive, and make them less '
        f'symmetric. If you have redefined the body in Motive, {accept}')


def body_name(sender: str, sensor: int) -> str:
    """
    Return the name of the body behind a sensor; the first sensor has the name of the sender.

    Names are unique, even if a sender has the name that a sensor of another sender would get.
    """
    if sensor == 0 and not _LIKE_A_SENSOR.search(sender):
        return sender
    return f'{sender}/sensor{sensor}'
