# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Take from the running node what the user of the doctor does not state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optitrack_vrpn.doctor.results import LocalProcess, RunningNode
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import printable
from optitrack_vrpn.settings import parameters_of, sift
from optitrack_vrpn.sources import (
    ClientConfig, DEFAULT, own_port, port_parameter, source_settings, SOURCES)

#: Parameters of the client that the doctor uses, beside those of each protocol.
_CLIENT = ('server', 'port', 'connection', 'interface')


def target_parameters() -> dict[str, Any]:
    """Return the parameters that decide how a server is reached, by name, without protocol."""
    client = {one.name: one for one in parameters_of(ClientConfig) if one.name in _CLIENT}
    return {**client, **{one.name: one for one in parameters_of(type(source_settings()))}}


def ports() -> dict[str, str]:
    """Return the parameter of the port of each protocol that has its own."""
    return {name: port_parameter(name) for name in SOURCES if own_port(name)}


@dataclass
class Target:
    """
    What the doctor probes.

    :ivar server: the server; '' if nobody names one.
    :ivar protocol: the parameter of that name.
    :ivar values: other parameters, by name; missing ones have their defaults.
    :ivar taken: names of the values that are those of the running node.
    :ivar node: full name of that node; '' without one.
    """

    server: str
    protocol: str
    values: Mapping[str, Any]
    taken: tuple[str, ...] = ()
    node: str = ''

    def config(self, timeout_s: float) -> tuple[ClientConfig, Any]:
        """
        Return the configuration of the client, and the settings of all protocols.

        :param timeout_s: timeout of each wait (s).
        :raises ConfigurationError: for a wrong value.
        """
        config, wrong = sift(ClientConfig, {'server': self.server or 'localhost', **self.values})
        settings, more = sift(type(source_settings()), self.values)
        if wrong or more:
            raise ConfigurationError('\n'.join([*wrong, *more]))
        return replace(config, link=replace(
            config.link, attempt_s=timeout_s, silent_after_s=0.0, reconnect_after_s=0.0)), settings


def choose_target(
    given: Mapping[str, Any], nodes: Sequence[RunningNode], here: bool,
) -> Target:
    """
    Complete the options of the user by the settings of a running node.

    :param given: options by the names of parameters; None where the user gives none.
    :param nodes: running nodes with their settings.
    :param here: whether they run on this computer; else their interface is one of another.
    :raises ConfigurationError: if no option names the server, and the nodes use different ones.
    """
    values = {name: value for name, value in given.items() if value is not None}
    server = values.get('server', '')
    settings = {node.name: _usable(node) for node in nodes if node.settings.get('server')}
    if not server:
        servers = {str(one.get('server')): name for name, one in settings.items()}
        if len(servers) > 1:
            listed = ', '.join(f'{printable(name, 60)} uses {printable(server, 60)}'
                               for server, name in list(servers.items())[:4])
            raise ConfigurationError(
                f'{listed}: name one of the nodes (--node), or the server (--server)')
    settings = {name: one for name, one in settings.items()
                if one.get('server') == server} or settings
    taken: dict[str, Any] = {}
    node = ''
    # Nodes that differ, none of which was named: only the user knows which of them is meant.
    if len({str(one) for one in settings.values()}) == 1:
        node, one = next(iter(settings.items()))
        taken = {name: value for name, value in one.items()
                 if name not in values and (here or name != 'interface')}
    values = {**taken, **values}
    return Target(values.pop('server', ''), values.pop('protocol', DEFAULT), values,
                  tuple(taken), node)


def _usable(node: RunningNode) -> dict[str, Any]:
    """Return those values of a node that are valid; a node of another package has any."""
    usable = {}
    for name, parameter in target_parameters().items():
        if name in node.settings:
            try:
                usable[name] = parameter.check(node.settings[name])
            except ConfigurationError:
                pass
    if node.settings.get('protocol') in SOURCES:
        usable['protocol'] = node.settings['protocol']
    return usable


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
