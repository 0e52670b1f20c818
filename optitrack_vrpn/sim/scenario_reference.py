# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reference of all settings of a scenario, generated from their declarations."""

import dataclasses
from dataclasses import MISSING
from typing import Any

from optitrack_vrpn.settings import allowed, yaml_value
from optitrack_vrpn.sim.faults import BODY_FAULTS, FRAME_FAULTS
from optitrack_vrpn.sim.motion import MOTIONS
from optitrack_vrpn.sim.scenario_io import Body, Clock, Network, Noise, Scenario, Server
from optitrack_vrpn.sources import load, SOURCES


def reference() -> str:
    """
    Generate the reference of scenario files.

    :returns: Markdown; docs/motive_sim.md contains it unchanged.
    """
    return '\n'.join((
        *(_table(title, {'': cls}) for title, cls in (
            ('The scenario itself', Scenario), ('`bodies`: each of the list', Body),
            ('`noise`', Noise), ('`clock`', Clock), ('`network`', Network), ('`server`', Server),
            *((f'`{name}`', load(kind.server_settings)) for name, kind in SOURCES.items()
              if kind.server_settings))),
        _table('`motion: {type: ...}`', MOTIONS),
        _table('`faults: [{type: ...}]` of a body', BODY_FAULTS),
        _table('`faults: [{type: ...}]` of the scenario', FRAME_FAULTS)))


def _table(title: str, classes: dict[str, type[Any]]) -> str:
    """Write one table for several types; equal rows are written once."""
    lines = [f'#### {title}', '']
    rows: dict[str, list[str]] = {}
    for name, cls in classes.items():
        if name:
            summary = (cls.__doc__ or '').strip().split('\n\n')[0]
            lines.append(f'- `{name}`: {" ".join(summary.split())}'.replace('``', '`'))
        for field in dataclasses.fields(cls):
            rows.setdefault(f'| `{field.name}` | {_default(field)} | {_allowed(field)} | '
                            f'{field.metadata["doc"]} |', []).append(name)
    if '' in classes:
        return '\n'.join((
            *lines, '| key | default | allowed | meaning |', '|---|---|---|---|', *rows, ''))
    return '\n'.join((
        *lines, '', '| types | key | default | allowed | meaning |', '|---|---|---|---|---|',
        *(f'| {"all" if len(names) == len(classes) else ", ".join(names)} {row}'
          for row, names in rows.items()), ''))


def _default(field: 'dataclasses.Field[Any]') -> str:
    value = field.default
    if value is MISSING:
        return 'required'
    if dataclasses.is_dataclass(value):
        return 'see below'
    return 'none' if value is None else yaml_value(value)


def _allowed(field: 'dataclasses.Field[Any]') -> str:
    if field.metadata['tags']:
        return 'see below'
    if isinstance(field.default, bool):
        return 'true, false'
    return allowed(field.metadata) or field.metadata['unit']
