# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of the settings of single bodies: ``bodies.<name>.<setting>``."""

#: The section whose name may be left out: ``bodies.wand.max_speed`` for
#: ``bodies.wand.validation.max_speed``.
OPTIONAL_SECTION = 'validation'
SECTIONS = (OPTIONAL_SECTION, 'lowpass', 'motion', 'rates')


def is_body_setting(name: str) -> bool:
    """Return whether a parameter is a setting of single bodies."""
    return name.startswith('bodies.') and name.count('.') >= 2


def split(name: str) -> tuple[str, str]:
    """
    Split ``bodies.<name>.<setting>`` into body and setting.

    The setting follows the last dot, or the last but one if a section precedes it; so names of
    bodies may contain dots and spaces.

    :returns: the body's name or pattern, and the setting, without ``validation.``.
    """
    body, _, key = name[len('bodies.'):].rpartition('.')
    parent, _, section_name = body.rpartition('.')
    if parent and section_name in SECTIONS:
        return parent, key if section_name == OPTIONAL_SECTION else f'{section_name}.{key}'
    return body, key
