# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The bodies of one server: the state of each, its samples, and which are selected."""

from collections import Counter
from collections.abc import Callable
import re
from typing import NamedTuple, Optional

from optitrack_vrpn.core.names import BodyNames, NameTable, printable
from optitrack_vrpn.core.severity import INFO, Severity, WARN
from optitrack_vrpn.core.stats import Window
from optitrack_vrpn.drivers.frames import Extras, Quaternion, Vector
from optitrack_vrpn.stream.bodies.settings import Selection
from optitrack_vrpn.stream.bodies.states import BodyStatus, BY_GATE, Disposition
from optitrack_vrpn.stream.bodies.times import Epoch
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import Estimator, MotionEstimate

_LIKE_A_SENSOR = re.compile(r'/sensor-?[0-9]+\Z')


class TrackedBody:
    """
    State of one body, from its first pose on.

    :ivar names: its names in Motive and in ROS.
    :ivar gate: validates its poses.
    :ivar estimator: filters the valid poses.
    :ivar wants_motion: whether the motion estimate has subscribers.
    :ivar has_more: whether there are poses, and outputs beside them that can be left out.
    :ivar newest_ns: sender time of its last pose (the stamp where arrivals are the stamps).
    :ivar last_sender_ns: sender time of the last pose if it became a sample, else -1.
    :ivar last_stamp_ns: stamp of the last sample; 0 before the first one and after a step of the
        clock that the stamps use.
    :ivar last_quat: attitude of the last sample.
    :ivar last_position: position of the last sample (m).
    :ivar published: number of published poses; the publishers count them.
    :ivar dropped: number of all other poses, by disposition.
    :ivar turn: the last frame that contained the body, see ``load_shedding.LoadShedder``.
    :ivar turn_of_outputs: number of its poses while some are published without other outputs; the
        bodies begin with different ones, so that they take turns.
    :ivar all_too_old: whether nothing is published because every pose is too old.
    :ivar moved_ns: stamps of the latest acceleration and of the latest velocity from the server.
    :ivar moved_rate: angular rate of that velocity (rad/s, along ENU's axes).
    :ivar lacking: what motions of the server lacked that could not be published.
    :ivar latency: time from stamp to publication (s) of some published poses.
    :ivar accept_service: resolved name of the service by which the user accepts the pose that the
        body jumped to; '' if there is none.
    """

    __slots__ = (
        'names', 'gate', 'estimator', 'wants_motion', 'has_more', 'newest_ns', 'last_sender_ns',
        'last_stamp_ns', 'last_position', 'last_quat', 'published', 'dropped', 'turn',
        'turn_of_outputs', 'all_too_old', 'moved_ns', 'moved_rate', 'lacking', 'latency',
        'accept_service',
        '_out', '_old', '_old_from_ns', '_old_to_ns')

    def __init__(self, names: BodyNames, gate: Tracker, estimator: Estimator) -> None:
        self.names = names
        self.gate = gate
        self.estimator = estimator
        self.wants_motion = self.has_more = False
        self.newest_ns = -1
        self.last_sender_ns = -1
        self.last_stamp_ns = 0
        self.last_position: Vector = (0.0, 0.0, 0.0)
        self.last_quat: Quaternion = (0.0, 0.0, 0.0, 1.0)
        self.published = 0
        self.dropped: Counter[Disposition] = Counter()
        self.turn = -1
        self.turn_of_outputs = 0
        self.all_too_old = False
        # Counters at the last call of look_at_age, and the time span in which only TOO_OLD rose.
        self._out = self._old = 0
        self._old_from_ns: Optional[int] = None
        self._old_to_ns = 0
        self.moved_ns = [0, 0]
        self.moved_rate: Vector = (0.0, 0.0, 0.0)
        self.lacking: set[str] = set()
        self.latency = Window(128)
        self.accept_service = ''

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

    def look_at_age(self, now_ns: int) -> None:
        """Find out whether poses arrive but are all too old to be published, for a second."""
        out, old = self.published, self.dropped[Disposition.TOO_OLD]
        # After this time (ns) without a pose that is too old, the condition has ended. Chosen.
        if out != self._out or now_ns - self._old_to_ns >= 5_000_000_000:
            self._old_from_ns = None
            self.all_too_old = False
        if old != self._old:
            self._old_to_ns = now_ns
            if self._old_from_ns is None:
                self._old_from_ns = now_ns
        self._out, self._old = out, old
        if self.all_too_old or self._old_from_ns is None:
            return
        # A body is reported when all its poses have been too old for this time (ns). Chosen: four
        # times the default maximum age.
        self.all_too_old = self._old_to_ns - self._old_from_ns >= 1_000_000_000


class Sample(NamedTuple):
    """
    A pose to be published.

    :ivar channel: its body.
    :ivar stamp_ns: on the host's clock (ns since the Unix epoch).
    :ivar frame_ns: stamp of its frame (ns), equal for all bodies of the frame.
    :ivar position: in ENU (m).
    :ivar quat_xyzw: rotation from FLU to ENU, of unit norm, with continuous sign.
    :ivar motion: motion estimate; None if it has no subscriber or is not known.
    :ivar lean: whether outputs beside poses are left out because of the load.
    """

    channel: TrackedBody
    stamp_ns: int
    frame_ns: int
    position: Vector
    quat_xyzw: Quaternion
    motion: Optional[MotionEstimate]
    lean: bool = False


class ServerMotion(NamedTuple):
    """
    A velocity or acceleration of the base, sent by the server for a pose that became a sample.

    :ivar channel: its body.
    :ivar stamp_ns: stamp of that pose.
    :ivar is_velocity: True for velocities (m/s, rad/s), False for accelerations.
    :ivar linear: linear part, along ENU's axes.
    :ivar angular: angular part, along ENU's axes.
    """

    channel: TrackedBody
    stamp_ns: int
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
    :ivar sender_time_ns: time on the sender's clock (ns).
    :ivar arrival_ns: arrival of the frame (ns).
    :ivar epoch: the begin of the sender's present clock if it has restarted.
    """

    stamp_ns: int
    sender_time_ns: int
    extras: Extras
    arrival_ns: int
    epoch: Optional[Epoch] = None


def body_name(sender: str, sensor: int) -> str:
    """
    Return the name of the body behind a sensor; the first sensor has the name of the sender.

    Names are unique, even if a sender has the name that a sensor of another sender would get.
    """
    if sensor == 0 and not _LIKE_A_SENSOR.search(sender):
        return sender
    return f'{sender}/sensor{sensor}'


MOST_IGNORED = 1000
"""
Maximum number of ignored names that are kept; each further one is looked up with every pose.
Chosen: 100 kB.
"""


class Roster:
    """
    Keep the bodies of one server.

    :param config: the settings.
    :param report: takes severity, key and text of an event.
    :ivar channels: channels by sender and sensor; None for a name that is ignored.
    :ivar refused: number of poses of bodies beyond ``max_bodies``.
    """

    def __init__(
        self, config: PipelineConfig, report: Callable[[Severity, object, str], None],
    ) -> None:
        self.config = config
        self.channels: dict[tuple[str, int], Optional[TrackedBody]] = {}
        self.refused = 0
        self._report = report
        # Number of channels that are bodies; the other entries are ignored names.
        self._wanted = 0
        self._names = NameTable(config.templates, config.reserved_frames)
        # Time of the first body, and the last arguments that ``to_match`` has returned.
        self._seen_from_ns: Optional[int] = None
        self._last_asked: Optional[tuple[Selection, list[str]]] = None

    @property
    def bodies(self) -> list[TrackedBody]:
        """Return all selected bodies seen so far, in the order of their first poses."""
        return [channel for channel in self.channels.values() if channel is not None]

    @property
    def only_ignored(self) -> int:
        """Return the number of ignored names if no body is selected, otherwise 0."""
        return 0 if self._wanted else len(self.channels)

    def dropped(self) -> dict[str, int]:
        """Return the numbers of poses that were not published, by reason, over all bodies."""
        counts = dict.fromkeys((Disposition.TOO_OLD.value, Disposition.SHED.value,
                                Disposition.STAMP_NOT_RISING.value, Disposition.BACKLOG.value), 0)
        for channel in self.bodies:
            for reason, count in channel.dropped.items():
                counts[reason.value] = counts.get(reason.value, 0) + count
        if self.refused:
            counts['more_than_bodies_max'] = self.refused
        return counts

    def discover(self, sender: str, sensor: int) -> Optional[TrackedBody]:
        """
        Create the channel of a body at its first pose.

        :returns: the channel, or None if the body is ignored.
        """
        name = body_name(sender, sensor)
        shown = printable(name)
        why_not = self.config.selection.why_not(name)
        if why_not:
            self._ignore(sender, sensor, shown, why_not)
            return None
        if self._wanted >= self.config.max_bodies:
            self.refused += 1
            return None
        names = self._names.assign(name, *self.config.titles_of(name))
        channel = TrackedBody(
            names, Tracker(name, self.config.thresholds(name)),
            Estimator(self.config.estimate_of(name)))
        self._report(INFO, ('new body', name), f'new body {shown!r} is {names.ros} in ROS')
        if names.clash is not None:
            self._report(WARN, ('name taken', name), (
                f'body {shown!r} is named {names.ros!r}, because body '
                f'{printable(names.clash)!r} appeared first and has its plain ROS name; rename '
                'one of the two in Motive, or set bodies.NAME.name for it: otherwise another '
                'order exchanges their topics'))
        self.channels[sender, sensor] = channel
        channel.turn_of_outputs = self._wanted
        self._wanted += 1
        return channel

    def _ignore(self, sender: str, sensor: int, shown: str, why_not: str) -> None:
        """Store the name of an ignored body while there is space for further names."""
        room = MOST_IGNORED - (len(self.channels) - self._wanted)
        if room <= 0:
            return
        self._report(INFO, ('ignored', shown), f'body {shown!r} is ignored: {why_not}')
        if room == 1:
            self._report(WARN, 'ignored', (
                f'{MOST_IGNORED} bodies are ignored; further ignored bodies are not reported'))
        self.channels[sender, sensor] = None

    def to_match(self, now_ns: int) -> Optional[tuple[Selection, list[str], list[str]]]:
        """
        Return the arguments of ``selection.unmatched`` once, some seconds after the first body.

        ``unmatched`` takes so long that it would delay poses; the caller runs it without the lock.

        :param now_ns: present time on the arrival clock (ns).
        :returns: None until then, and if not all names are stored.
        """
        if not self.channels:
            return None
        if self._seen_from_ns is None:
            self._seen_from_ns = now_ns
        # Time (ns) after the first pose within which all bodies have sent one. Chosen.
        if now_ns - self._seen_from_ns < 5_000_000_000:
            return None
        config = self.config
        asked = config.selection, [*config.bodies]
        if asked == self._last_asked or self.refused or (
                len(self.channels) - self._wanted >= MOST_IGNORED):
            return None
        self._last_asked = asked
        return (*asked, [body_name(*key) for key in self.channels])

    def apply(self, config: PipelineConfig) -> list[TrackedBody]:
        """
        Replace the settings; the bodies keep their history.

        :param config: the new settings; what is fixed while the node is configured has not
            changed.
        :returns: bodies that are no longer selected.
        """
        self.config = config
        self._seen_from_ns = None
        gone: list[TrackedBody] = []
        for key, channel in list(self.channels.items()):
            if channel is None:
                del self.channels[key]
            elif not config.selection.wanted(name := channel.names.motive):
                del self.channels[key]
                self._wanted -= 1
                gone.append(channel)
            else:
                channel.gate.config = config.thresholds(name)
                estimate = config.estimate_of(name)
                if estimate != channel.estimator.config:
                    channel.estimator = Estimator(estimate)
                    channel.last_sender_ns = -1    # the new estimator has no pose yet
        return gone
