# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings of single bodies: ``bodies.<name>.<setting>``, with Motive's name or a pattern.

``BodySettings`` lists the settings. Values are kept as mappings, because several patterns may
apply to one body and each sets only some of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import body_from_base
from optitrack_vrpn.core.settings.documents import markdown_table
from optitrack_vrpn.core.settings.parameters import is_foreign, parameters_of, removed, unknown
from optitrack_vrpn.core.settings.peers import of_other_drivers
from optitrack_vrpn.core.settings.schema import Change, did_you_mean, section, setting, shown
from optitrack_vrpn.node import topic_kinds
from optitrack_vrpn.node.topic_kinds import BODY_RATES
from optitrack_vrpn.stream.bodies.settings import (
    BodyConfig, is_body_setting, OPTIONAL_SECTION, SECTIONS, split)
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
from optitrack_vrpn.stream.motion.settings import MotionConfig


@dataclass(frozen=True)
class BodySettings:
    """The settings of one body; one that is not given has the value for all bodies."""

    name: str = setting('', doc=(
        "its name in ROS, in topics and frames; '' for its name in Motive"))
    topic: str = setting('', doc='its name in topics only')
    frame: str = setting('', doc='its name in frames only')
    offset: tuple[float, ...] = setting((), unit='m, rad', doc=(
        "pose of the robot's base in the body's axes of ROS (x forward, y left, z up, as in its "
        'pose topic without an offset): x, y, z, then nothing, or roll, pitch, yaw, or a '
        'quaternion x, y, z, w; [] for no offset'))
    validation: BodyConfig = section(BodyConfig(), name='')
    lowpass: LowpassConfig = section(LowpassConfig())
    motion: MotionConfig = section(MotionConfig())
    rates: type(BODY_RATES) = section(BODY_RATES)  # type: ignore[valid-type]


#: Settings with one value for all bodies.
_COMMON = ('acquire_frames',)
BODY_PARAMETERS = {parameter.name: parameter for parameter in parameters_of(BodySettings)
                   if parameter.name not in _COMMON}
NAMES = ('name', 'topic', 'frame')
RATES = tuple(name for name in BODY_PARAMETERS if name.startswith('rates.'))


def sift_body_settings(
    values: Mapping[str, Any],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """
    Collect and check the settings of single bodies.

    :param values: parameter values by name; other names are ignored.
    :returns: valid settings by body name or pattern, and one line for each that is not valid.
    """
    found: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    for name, value in values.items():
        if not is_body_setting(name):
            continue
        body, key = split(name)
        settings = found.setdefault(body, {})
        try:
            if key in settings:
                raise ConfigurationError(
                    f'{name} is given twice, with and without the word {OPTIONAL_SECTION}: give '
                    'one of the two')
            settings[key] = check_body_setting(name, value)
        except ConfigurationError as error:
            wrong.append(str(error))
    return found, wrong


def check_body_setting(name: str, value: Any) -> Any:
    """
    Check one setting of one body.

    :param name: the parameter's full name.
    :returns: the value in its type; a transform for an offset.
    :raises ConfigurationError: if the setting is unknown or its value not allowed.
    """
    key = split(name)[1]
    parameter = BODY_PARAMETERS.get(key)
    if parameter is None:
        if gone := removed(name):
            raise ConfigurationError(f'{name}: {gone}')
        allowed = ', '.join((*NAMES, 'offset', *(f'{one}.*' for one in SECTIONS)))
        raise ConfigurationError(
            f'{name}: there is no setting {key!r} for a body; '
            f'{did_you_mean(key, BODY_PARAMETERS, 0.7) or f"allowed: {allowed}"}')
    if key == 'offset':
        return body_from_base(value, name)
    if key in NAMES and not isinstance(value, str):
        raise ConfigurationError(f'{name} is {shown(value)}; give a name for ROS')
    return parameter.renamed(name).check(value)


def check_body_change(name: str, value: Any, configured: bool) -> None:
    """
    Check a setting of one body that is set at run time.

    :param value: None removes the setting.
    :param configured: whether the node is in another state than unconfigured.
    :raises ConfigurationError: if it is wrong, or fixed at present.
    """
    if value is not None:
        check_body_setting(name, value)
    parameter = BODY_PARAMETERS.get(split(name)[1])
    if configured and (parameter is None or parameter.rule.change is not Change.ANY_TIME):
        raise ConfigurationError(f'{name} is fixed while the node is configured')


#: Chosen: length of an offset (m) above which millimetres or centimetres are likely.
_LONG_OFFSET_M = 5.0


def doubtful(bodies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Describe settings that are allowed and hardly meant, one line each."""
    lengths = {body: math.hypot(*settings['offset'].position)
               for body, settings in bodies.items() if 'offset' in settings}
    return [f'bodies.{body}.offset is {length:g} m long: its unit is the metre'
            for body, length in lengths.items() if length > _LONG_OFFSET_M]


def titled(bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """
    Add ``topic`` and ``frame`` where a body has a ``name``.

    :param bodies: settings by body name or pattern. A name '' is that in Motive, also where a
        pattern gives another.
    :raises ConfigurationError: if two bodies would share a name.
    """
    found = {body: dict(settings) for body, settings in bodies.items()}
    for kind in ('topic', 'frame'):
        owners: dict[str, str] = {}
        for body, settings in found.items():
            title = settings.get(kind) or settings.get('name')
            if title is None:
                continue
            if title and title in owners:
                raise ConfigurationError(
                    f'bodies {owners[title]!r} and {body!r} have the same {kind} name '
                    f'{title!r}: give each its own')
            owners[title] = body
            settings[kind] = title
    return found


def check(values: Mapping[str, Any]) -> list[str]:
    """
    Check the parameters of a file as the node does at configure, without a node.

    :param values: by name.
    :returns: what the node would publish, and doubtful values; one line each.
    :raises ConfigurationError: one line for each wrong value or name.
    """
    from optitrack_vrpn.node.configuration import make_configuration, NAMES
    wrong = [unknown(name, NAMES) for name in values
             if name not in NAMES and not is_body_setting(name) and not is_foreign(name, NAMES)]
    try:
        made = make_configuration(values)
    except ConfigurationError as error:
        raise ConfigurationError('\n'.join([*wrong, str(error)])) from None
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    settings = made.settings
    templates = settings.topics.templates()
    lines = [f'publishes {name} on ' + (
        templates.get(name) or getattr(settings.topics, name, '')
        or topic_kinds.KINDS[name].topic.replace('{kind}', name)) for name in settings.outputs]
    lines.append(f'connects to {settings.client.server} by {settings.protocol}')
    ignored = [name for name in values if name not in NAMES and is_foreign(name, NAMES)
               and not is_body_setting(name)]
    of_peers = of_other_drivers(ignored)
    unknown_names = [name for name in ignored if not of_other_drivers([name])]
    lines += [f'ignores {text}' for text in (of_peers, ', '.join(unknown_names)) if text]
    return lines + doubtful(made.bodies)


YAML_NOTES = {'bodies': (
    'Settings for one body, under its name or a pattern: validation.* (but',
    'acquire_frames), lowpass.*, motion.* and rates.*, and these:',
    "'Rigid Body 1':",
    '  name: cf1            # its name in ROS; topic: and frame: set one of the two',
    '  validation: {max_speed: 30.0}      # a fast body',
    '  lowpass: {cutoff_hz: 5.0}     # smoothed',
    '  rates: {own: 30.0}',
    "  offset: [0.0, 0.0, -0.05]  # its base in Motive's body: x y z (m), then rpy or quaternion",
)}


def sections() -> str:
    """Write the table of outputs, and what settings single bodies have."""
    names = (*NAMES, 'offset')
    others = ', '.join(f'`{name}`' for name in BODY_PARAMETERS if name not in names)
    groups: dict[str, list[str]] = {}
    for name, kind in topic_kinds.KINDS.items():
        if kind.needs:
            groups.setdefault(kind.needs, []).append(f'`{name}`')
    fixed = '; '.join(', '.join(group) for group in groups.values())
    return '\n'.join((
        '### Outputs', '',
        'The parameter `outputs` lists what is published. Without a remark in the last column an '
        f'output is published {topic_kinds.Computed.SUBSCRIBED.value}, and costs nothing without.',
        '', topic_kinds.markdown_table(),
        'While the node is configured, outputs of these groups can be added only if one of the '
        f'same group is on, since the client decides at its start what it reads: {fixed}. '
        'Otherwise clean the node up first.', '',
        '### Settings of single bodies', '',
        "`bodies.NAME.SETTING`, with Motive's name of the body or a pattern (`*`, `?`, `[abc]`). "
        'A setting under the name of the body overrides patterns, and later patterns override '
        'earlier ones. `bodies.NAME.validation.max_speed` is the same as '
        '`bodies.NAME.max_speed`. ROS reads names with blanks and patterns from parameter files '
        "only: it refuses `-p 'bodies.Rigid Body 1.offset:=...'`.", '',
        markdown_table([BODY_PARAMETERS[name] for name in names]),
        f'These have the meaning of those for all bodies, and override them: {others}.', ''))
