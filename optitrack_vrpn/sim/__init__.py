# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive: motion, faults, network impairments, servers."""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from optitrack_vrpn.sim.acceptor_io import Acceptor, raw_clock_ns
    from optitrack_vrpn.sim.command import announce, serve
    from optitrack_vrpn.sim.impairments import Link
    from optitrack_vrpn.sim.motion import arranged, MotionState
    from optitrack_vrpn.sim.natnet import NatNetWorld
    from optitrack_vrpn.sim.scenario_io import (
        load_scenario, MAX_BODIES, named_bodies, Network, Scenario, scenario_from_mapping, Server)
    from optitrack_vrpn.sim.server_io import MotiveSimServer
    from optitrack_vrpn.sim.stream import Counters
    from optitrack_vrpn.sim.world import World

#: Imported at first use: numpy takes long.
_MODULES = {
    'acceptor_io': ('Acceptor', 'raw_clock_ns'), 'command': ('announce', 'serve'),
    'impairments': ('Link',), 'motion': ('MotionState', 'arranged'), 'natnet': ('NatNetWorld',),
    'scenario_io': ('MAX_BODIES', 'Network', 'Scenario', 'Server', 'load_scenario',
                    'named_bodies', 'scenario_from_mapping'),
    'server_io': ('MotiveSimServer',), 'stream': ('Counters',), 'world': ('World',)}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    'Acceptor', 'Counters', 'Link', 'MAX_BODIES', 'MotionState', 'MotiveSimServer', 'NatNetWorld',
    'Network', 'Scenario', 'Server', 'World', 'announce', 'arranged', 'load_scenario',
    'named_bodies', 'raw_clock_ns', 'scenario_from_mapping', 'serve']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)


#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('motive_sim', 'command:main', 'a simulated Motive that streams bodies over VRPN and NatNet'),
)
