# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Select the recorded topics by type and name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
import re

#: Types with one topic per body; the body is the topic's name without its last part.
BODY_TYPES = frozenset((
    'geometry_msgs/msg/PoseStamped', 'geometry_msgs/msg/PoseWithCovarianceStamped',
    'geometry_msgs/msg/TwistStamped', 'geometry_msgs/msg/AccelStamped',
    'nav_msgs/msg/Odometry', 'diagnostic_msgs/msg/DiagnosticStatus'))
#: Types that are recorded on every topic.
WHOLE_TYPES = frozenset(('tf2_msgs/msg/TFMessage', 'diagnostic_msgs/msg/DiagnosticArray'))
#: Packages of the control messages.
CONTROL_PACKAGES = ('mocap4r2_control_msgs', 'mocap_control_msgs')
_UNSAFE = re.compile(r'[^A-Za-z0-9_.-]+')


@dataclass(frozen=True)
class TopicChoice:
    """
    Select topics.

    :ivar bodies: patterns of bodies' names in ROS; empty for all.
    :ivar topics: patterns of further topics of any type.
    """

    bodies: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    def wants(self, topic: str, type_name: str) -> bool:
        """Return whether a topic is recorded; a hidden one only if a pattern asks for it."""
        if any(fnmatchcase(topic, absolute(pattern)) for pattern in self.topics):
            return True
        if '/_' in topic:
            return False    # hidden, such as transforms for the dashboard
        if type_name in WHOLE_TYPES or type_name.partition('/')[0] in CONTROL_PACKAGES:
            return True
        if type_name not in BODY_TYPES:
            return False
        return not self.bodies or any(
            _is_of(topic, pattern) for pattern in self.bodies)

    def unmatched(self, topics: Iterable[str]) -> tuple[list[str], list[str]]:
        """
        List the patterns that match none of the topics, as the options that gave them.

        :returns: those of bodies, and those of further topics.
        """
        found = list(topics)
        return ([f'--bodies {pattern}' for pattern in self.bodies
                 if not any(_is_of(topic, pattern) for topic in found)],
                [f'--topic {pattern}' for pattern in self.topics
                 if not any(fnmatchcase(topic, absolute(pattern)) for topic in found)])


def _is_of(topic: str, pattern: str) -> bool:
    """Return whether a topic is of a body with a matching name, in any namespace."""
    body, pattern = body_of(topic), pattern.strip('/')
    return fnmatchcase(body, pattern) or fnmatchcase(body, f'*/{pattern}')


def absolute(name: str) -> str:
    """Add a leading slash to a topic's name if it has none."""
    return name if name.startswith('/') else f'/{name}'


def body_of(topic: str) -> str:
    """Return the body of a topic: ``drone/left`` for ``/drone/left/pose``, ``a`` for ``/a``."""
    return topic.rpartition('/')[0].strip('/') or topic.strip('/')


def safe_name(text: str) -> str:
    """
    Convert any text, such as a session id, to a part of a file name.

    :returns: letters, digits, _ . and -, at most 60 of them; '' if none remain.
    """
    return _UNSAFE.sub('_', text).strip('._')[:60]
