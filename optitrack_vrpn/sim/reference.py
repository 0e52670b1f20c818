# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reference of all settings of a scenario, generated from their declarations."""

import dataclasses
from dataclasses import MISSING
from typing import Any

from optitrack_vrpn.settings import allowed
from optitrack_vrpn.sim.faults import BODY_FAULTS, FRAME_FAULTS
from optitrack_vrpn.sim.motion import MOTIONS
from optitrack_vrpn.sim.scenario_io import Body, Clock, Network, Noise, Scenario, Server


def reference() -> str:
    """
    Generate the reference of scenario files.

    :returns: Markdown; docs/motive_sim.md contains it unchanged.
    """
    parts = [
        _table('The scenario itself', Scenario),
        _table('`bodies`: each of the list', Body),
        _table('`noise`', Noise),
        _table('`clock`', Clock),
        _table('`network`', Network),
        _table('`server`', Server),
        *(_table(f'`motion: {{type: {name}}}`', cls) for name, cls in MOTIONS.items()),
        *(_table(f'`faults` of a body: `type: {name}`', cls)
          for name, cls in BODY_FAULTS.items()),
        *(_table(f'`faults` of the scenario: `type: {name}`', cls)
          for name, cls in FRAME_FAULTS.items()),
    ]
    return '\n'.join(parts)


def _table(title: str, cls: type[Any]) -> str:
    lines = [f'#### {title}', '']
    summary = (cls.__doc__ or '').strip().split('\n\n')[0]
    if title.startswith(('`motion', '`faults')):
        lines += [' '.join(summary.split()), '']
    lines += ['| key | default | allowed | meaning |', '|---|---|---|---|']
    for field in dataclasses.fields(cls):
        lines.append(f'| `{field.name}` | {_default(field)} | {_allowed(field)} | '
                     f'{field.metadata["doc"]} |')
    return '\n'.join((*lines, ''))


def _default(field: 'dataclasses.Field[Any]') -> str:
    value = field.default
    if value is MISSING:
        return 'required'
    if value is None:
        return 'none'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return '[' + ', '.join(f'{item:g}' for item in value) + ']'
    if dataclasses.is_dataclass(value):
        return 'see below'
    return f'{value:g}' if isinstance(value, float) else str(value)


def _allowed(field: 'dataclasses.Field[Any]') -> str:
    if field.metadata['tags']:
        return 'see below'
    if isinstance(field.default, bool):
        return 'true, false'
    return allowed(field.metadata) or field.metadata['unit']
