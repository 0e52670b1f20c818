# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The selected bodies: each is added with its first pose and removed when it is deselected."""

from collections.abc import Callable
from typing import Optional

from optitrack_vrpn.bodies import Disposition, Selection, ValidityGate
from optitrack_vrpn.motion import Estimator
from optitrack_vrpn.names import NameTable, printable
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.tracked_body import body_name, TrackedBody

MOST_IGNORED = 1000
"""
Maximum number of ignored names that are kept; each further one is looked up with every pose.
Chosen: 100 kB.
"""
ALL_SEEN_NS = 5_000_000_000
"""Time (ns) after the first pose within which all bodies have sent one. Chosen."""


class Roster:
    """
    Keep the bodies of one server.

    :param config: the settings.
    :param report: takes severity, key and text of an event.
    :ivar channels: channels by sender and sensor; None for a name that is ignored.
    :ivar refused: number of poses of bodies beyond ``max_bodies``.
    """

    def __init__(
        self, config: PipelineConfig, report: Callable[[str, object, str], None],
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
            if self.refused == 1:
                self._report('error', 'too many bodies', (
                    f'the server sends more than {self.config.max_bodies} bodies, the maximum; '
                    'the others are ignored'))
            return None
        names = self._names.assign(name, *self.config.titles_of(name))
        channel = TrackedBody(
            names, ValidityGate(name, self.config.thresholds(name)),
            Estimator(self.config.estimate_of(name)))
        self._report('info', ('new body', name), f'new body {shown!r} is {names.ros} in ROS')
        if names.clash is not None:
            self._report('warn', ('name taken', name), (
                f'body {shown!r} is named {names.ros!r}, because body '
                f'{printable(names.clash)!r} appeared first and has its plain ROS name; rename '
                'one of the two in Motive, or set bodies.NAME.name for it: otherwise another '
                'order exchanges their topics'))
        self.channels[sender, sensor] = channel
        self._wanted += 1
        return channel

    def _ignore(self, sender: str, sensor: int, shown: str, why_not: str) -> None:
        """Store the name of an ignored body while there is space for further names."""
        room = MOST_IGNORED - (len(self.channels) - self._wanted)
        if room <= 0:
            return
        self._report('info', ('ignored', shown), f'body {shown!r} is ignored: {why_not}')
        if room == 1:
            self._report('warn', 'ignored', (
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
        if now_ns - self._seen_from_ns < ALL_SEEN_NS:
            return None
        config = self.config
        asked = config.selection, [*config.titles, *config.overrides, *config.estimates]
        if asked == self._last_asked or self.refused or (
                len(self.channels) - self._wanted >= MOST_IGNORED):
            return None
        self._last_asked = asked
        return (*asked, [body_name(*key) for key in self.channels])

    def reconfigure(self, config: PipelineConfig) -> list[TrackedBody]:
        """
        Apply new thresholds, lists and estimate settings; the bodies keep their history.

        :param config: the new configuration.
        :returns: bodies that are no longer selected.
        :raises ConfigurationError: if an override is wrong; then nothing has changed.
        """
        names = [channel.names.motive for channel in self.bodies]
        thresholds = {name: config.thresholds(name) for name in names}
        estimates = {name: config.estimate_of(name) for name in names}
        self.config = config
        self._seen_from_ns = None
        gone = []
        for key, channel in list(self.channels.items()):
            if channel is None:
                del self.channels[key]
            elif not config.selection.wanted(name := channel.names.motive):
                del self.channels[key]
                self._wanted -= 1
                gone.append(channel)
            else:
                channel.gate.reconfigure(thresholds[name])
                if estimates[name] != channel.estimator.config:
                    channel.estimator = Estimator(estimates[name])
                    channel.last_sender_ns = -1    # the new estimator has no pose yet
        return gone
