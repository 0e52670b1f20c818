# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the documents of the node's parameters beside its settings; imports no ROS."""

from optitrack_vrpn.node import topic_kinds
from optitrack_vrpn.node.body_settings import BODY_PARAMETERS
from optitrack_vrpn.settings import markdown_table

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


def sections(seen: dict[str, str]) -> str:
    """
    Write the tables of outputs and of settings for single bodies.

    :param seen: as for ``markdown_table``.
    """
    return '\n'.join((
        '### Outputs', '',
        'The parameter `outputs` lists what is published. Outputs whose last column says "while '
        'it has subscribers" cost nothing without subscribers.', '',
        topic_kinds.markdown_table(),
        '### Settings of single bodies', '',
        "`bodies.NAME.SETTING`, with Motive's name of the body or a pattern (`*`, `?`, `[abc]`). "
        'A setting that is not given has the value for all bodies. A setting under the name of '
        'the body overrides patterns, and later patterns override earlier ones. '
        '`bodies.NAME.validation.max_speed` is the same as `bodies.NAME.max_speed`.', '',
        markdown_table(tuple(BODY_PARAMETERS.values()), seen)))
