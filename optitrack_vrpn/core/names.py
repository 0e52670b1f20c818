# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert Motive's names to valid ROS names; different names stay different.

Rules for topics: https://design.ros2.org/articles/topic_and_service_names.html. Frame ids have no
such rules; they use the same names, so that topic and frame of a body agree.
"""

from __future__ import annotations

from dataclasses import dataclass
import re
from typing import Callable, Iterable, NamedTuple, Optional
import unicodedata


#: Chosen: fits every VRPN name (99 bytes), and DDS's limit (256) together with a namespace.
MAX_ROS_NAME = 100

_TOPIC = re.compile(r'(/|~/)?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')
_FRAME = re.compile(r'[^/\s][^\s]*')
_PLACEHOLDER = re.compile(r'{[^{}]*}')


def _of_vrpn_mocap(name: str) -> str:
    """Replace each run of other characters, and of '_', by one '_'."""
    return re.sub(r'[^A-Za-z0-9]+', '_', name)


def _of_vrpn_client_ros(name: str) -> str:
    """Delete characters that ROS 1 does not accept; as the first one also '_' and digits."""
    first = name[:1] if re.match(r'[A-Za-z/~]', name) else ''
    return first + re.sub(r'[^A-Za-z0-9_/]', '', name[1:])


#: How other drivers clean names. No rule: ``ros_name`` alone.
_PEER_RULES: dict[str, Callable[[str], str]] = {
    'vrpn_mocap': _of_vrpn_mocap, 'vrpn_client_ros': _of_vrpn_client_ros,
    'unchanged': lambda name: name}
NAME_RULES = ('ros', *_PEER_RULES)


def ros_name(name: str, rule: str = 'ros') -> str:
    """
    Convert any text to a valid relative ROS name; the result depends on the arguments only.

    ASCII letters, digits and '/' stay, accents are removed, other letters become their code points
    (``u5de6``), all other characters single '_', none at an end. A part that begins with a digit
    gets the prefix ``body_``, because ROS allows no leading digit and hides names with a leading
    underscore.

    :param name: a rigid body's name in Motive; any text.
    :param rule: of ``NAME_RULES``; that of another driver holds where its result is valid in ROS.
    :returns: at most 100 characters of ``[A-Za-z0-9_/]``.
    """
    made = _PEER_RULES[rule](name) if rule in _PEER_RULES else ''
    if len(made) <= MAX_ROS_NAME and _NAME.fullmatch(made) and '__' not in made:
        return made
    plain = unicodedata.normalize('NFKD', name[:4 * MAX_ROS_NAME])
    # Without the code points, names in other scripts would all be `body`, and which body has
    # which topic would depend on their order.
    plain = ''.join(f'_u{ord(c):x}_' if c.isalnum() and not c.isascii() else c
                    for c in plain if not unicodedata.combining(c))
    parts = []
    for part in plain.split('/'):
        part = re.sub(r'[^A-Za-z0-9]+', '_', part).strip('_')
        if part:
            parts.append(f'body_{part}' if part[0].isdigit() else part)
    return '/'.join(parts)[:MAX_ROS_NAME].rstrip('_/') or 'body'


def printable(text: str, limit: int = 120) -> str:
    """Escape text from the network for a log: one line, no control characters, limited."""
    shown = text[:limit + 1]
    if not shown.isprintable():
        shown = ''.join(c if c.isprintable() else c.encode('unicode_escape').decode('ascii')
                        for c in shown)
    return shown if len(shown) <= limit else shown[:limit - 3] + '...'


def is_fixed(template: str) -> bool:
    """Return whether a template makes the same name for all bodies: it serves one body only."""
    return '{body}' not in template


def wrong_name(name: str, what: str, topic: bool, template: bool = False) -> str:
    """
    Return why a name is not valid; '' if it is.

    :param what: name of the parameter, for the message.
    :param topic: True for topics, False for frame ids.
    :param template: whether ``{body}`` stands for the name of a body; no other placeholder may be.
    """
    if template and set(_PLACEHOLDER.findall(name)) - {'{body}'}:
        return (f"{what} is {name!r}; it may contain '{{body}}' and no other placeholder, as in "
                f"'{'{body}/pose' if topic else 'lab/{body}'}'")
    example = name.replace('{body}', 'body') if template else name
    if _TOPIC.fullmatch(example) and '__' not in example if topic else _FRAME.fullmatch(example):
        return ''
    if template:
        return (f'{what} is {name!r}, which makes names such as {example!r} that ROS does not '
                'accept')
    return f'{what} is {name!r}' + (
        ', which ROS does not accept as a topic' if topic else
        "; a frame id is not empty, contains no space and does not begin with '/'")


@dataclass(frozen=True)
class NameTemplates:
    """
    Templates of the topics and frames of a body, by kind, as ``{body}/pose``.

    :ivar rule: how Motive's names become ROS names, see ``ros_name``.
    """

    topics: dict[str, str]
    frames: dict[str, str]
    rule: str = 'ros'


class BodyNames(NamedTuple):
    """
    All names of one body.

    :ivar motive: its name in Motive.
    :ivar ros: the ROS name that fills the templates.
    :ivar clash: the Motive name that already uses the wanted ROS name, or None.
    :ivar title: its name in messages that name bodies; '' if it is ``ros``.
    """

    motive: str
    ros: str
    topics: dict[str, str]
    frames: dict[str, str]
    clash: Optional[str]
    title: str = ''


class NameTable:
    """Assign unique names to bodies; reserved frame ids are those of no body."""

    def __init__(self, templates: NameTemplates, reserved_frames: Iterable[str] = ()) -> None:
        self._templates = templates
        self._bodies: dict[str, BodyNames] = {}
        self._owners: dict[tuple[str, str], str] = {
            ('frame', frame): f'the world frame {frame}' for frame in reserved_frames}

    def assign(
        self, motive_name: str, topic_name: Optional[str] = None,
        frame_name: Optional[str] = None,
    ) -> BodyNames:
        """
        Assign names to a body; the same body always gets the same names.

        :param motive_name: its name in Motive.
        :param topic_name: the user's name for the topics, in place of Motive's name.
        :param frame_name: the user's name for the frames; default is the name of the topics.
        :returns: its names; ``clash`` names the owner of the wanted names.
        """
        known = self._bodies.get(motive_name)
        if known is not None:
            return known
        rule = self._templates.rule
        title = motive_name if topic_name is None else topic_name
        base = ros_name(title, rule)
        frame_base = base if frame_name is None else ros_name(frame_name, rule)
        if rule == 'unchanged' and _FRAME.fullmatch(given := frame_name or title):
            frame_base = given    # frame ids may contain more than names of topics
        clash = None
        number = 1
        while True:
            suffix = '' if number == 1 else f'_{number}'
            candidate = base + suffix
            topics = self._fill(self._templates.topics, candidate)
            frames = self._fill(self._templates.frames, frame_base + suffix)
            # A fixed name serves the one selected body, whichever that is at present.
            keys = [('topic', name) for kind, name in topics.items()
                    if not is_fixed(self._templates.topics[kind])]
            keys += [('frame', name) for kind, name in frames.items()
                     if not is_fixed(self._templates.frames[kind])]
            taken = [self._owners[key] for key in keys if key in self._owners]
            if not taken:
                break
            clash = clash or taken[0]
            number += 1
        names = BodyNames(motive_name, candidate, topics, frames, clash,
                          title if rule == 'unchanged' else '')
        self._bodies[motive_name] = names
        self._owners.update(dict.fromkeys(keys, motive_name))
        return names

    @staticmethod
    def _fill(templates: dict[str, str], name: str) -> dict[str, str]:
        return {kind: template.replace('{body}', name) for kind, template in templates.items()}


def counted(number: int, noun: str) -> str:
    """Write a count with its noun, as in ``1 body`` and ``2 bodies``."""
    plural = f'{noun[:-1]}ies' if noun.endswith('y') else f'{noun}s'
    return f'{number} {noun if number == 1 else plural}'


class Counted(int):
    """A count that a text writes with its noun, see ``counted``."""

    noun = ''

    @classmethod
    def of(cls, number: int, noun: str) -> Counted:
        """Return the count of what a noun names."""
        made = cls(number)
        made.noun = noun
        return made

    def __format__(self, spec: str) -> str:
        return counted(int(self), self.noun)
