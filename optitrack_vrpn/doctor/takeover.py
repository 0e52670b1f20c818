# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Take from the running node what the user of the doctor does not state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optitrack_vrpn.doctor.probe_results import LocalProcess, RunningNode
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import printable
from optitrack_vrpn.sources import CONNECTIONS, SOURCES
from optitrack_vrpn.sources.natnet import COMMAND_PORT
from optitrack_vrpn.sources.vrpn import DEFAULT_PORT

#: Settings whose meaning depends on the computer that the node runs on.
_OF_THE_COMPUTER = ('interface', 'advertise')
_ALLOWED = {'protocol': tuple(SOURCES), 'connection': CONNECTIONS}


@dataclass
class Target:
    """
    What the doctor probes, with the names and defaults of the node's parameters.

    :ivar taken: names of the values that are those of the running node.
    :ivar node: full name of that node; '' without one.
    """

    server: str = ''
    port: int = DEFAULT_PORT
    protocol: str = 'vrpn'
    connection: str = 'auto'
    interface: str = ''
    advertise: str = ''
    natnet_port: int = COMMAND_PORT
    taken: tuple[str, ...] = ()
    node: str = ''


def choose_target(
    given: Mapping[str, Any], nodes: Sequence[RunningNode], here: bool,
) -> Target:
    """
    Complete the options of the user by the settings of a running node.

    :param given: options by the names of ``Target``; None where the user gives none.
    :param nodes: running nodes with their settings.
    :param here: whether they run on this computer; else their interface is one of another.
    :raises ConfigurationError: if no option names the server, and the nodes use different ones.
    """
    target = Target(**{name: value for name, value in given.items() if value is not None})
    nodes = [node for node in nodes if _text(node, 'server')]
    if not target.server:
        servers = {_text(node, 'server'): node for node in nodes}
        if len(servers) > 1:
            listed = ', '.join(f'{printable(node.name, 60)} uses {printable(server, 60)}'
                               for server, node in list(servers.items())[:4])
            raise ConfigurationError(
                f'{listed}: name one of the nodes (--node), or the server (--server)')
    same = [node for node in nodes if _text(node, 'server') == target.server]
    nodes = same or nodes
    # Nodes that differ, none of which was named: only the user knows which of them is meant.
    alike = len({tuple(map(str, _settings(node))) for node in nodes}) == 1
    if not alike:
        return target
    target.node = nodes[0].name
    for name, value in zip(_NAMES, _settings(nodes[0])):
        if given.get(name) is None and value is not None and (
                here or name not in _OF_THE_COMPUTER):
            setattr(target, name, value)
            target.taken += (name,)
    return target


_NAMES = ('server', 'port', 'protocol', 'connection', 'interface', 'advertise', 'natnet_port')


def _settings(node: RunningNode) -> list[object]:
    """Return the node's values in the order of ``_NAMES``; None for those that cannot be used."""
    values: list[object] = []
    for name in _NAMES:
        value = node.settings.get(name.replace('natnet_', 'natnet.'))
        right = isinstance(value, int) and 1 <= value <= 65535 if 'port' in name else (
            isinstance(value, str) and value in _ALLOWED.get(name, (value,)))
        values.append(value if right else None)
    return values


def _text(node: RunningNode, name: str) -> str:
    value = node.settings.get(name)
    return value if isinstance(value, str) else ''


def variables_of_node(
    processes: Sequence[LocalProcess], given: Mapping[str, str], defaults: Mapping[str, str],
) -> dict[str, str]:
    """
    Return the discovery variables of this user's node, if the user of the doctor sets none.

    :param processes: the processes of this computer that run the node.
    :param given: the environment of the doctor.
    :param defaults: the discovery variables with their defaults.
    :returns: the variables that differ from their defaults; empty if the user sets one, or if
        there is no node, or several that differ.
    """
    if any(given.get(name) for name in defaults):
        return {}
    found = {tuple(sorted(one.variables.items())) for one in processes
             if one.variables and not one.user}
    return {name: value for name, value in found.pop() if value != defaults[name]} if len(
        found) == 1 else {}
