# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Processes of this computer that run the node, and what decides whether they are discovered."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from optitrack_vrpn.core.names import printable

#: The environment variables that decide which nodes discover each other, with their defaults.
DISCOVERY_VARIABLES = {
    'ROS_DOMAIN_ID': '0', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET', 'ROS_LOCALHOST_ONLY': '0',
    'ROS_STATIC_PEERS': '', 'ROS_DISCOVERY_SERVER': '', 'RMW_IMPLEMENTATION': 'rmw_fastrtps_cpp'}


def discovery_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the discovery variables of an environment; an empty one counts as not set."""
    return {name: environment.get(name) or default
            for name, default in DISCOVERY_VARIABLES.items()}


class LocalProcess(NamedTuple):
    """
    A process of this machine that runs the node.

    :ivar pid: its process id.
    :ivar stopped: True if it is stopped, by SIGSTOP or a debugger.
    :ivar variables: its discovery variables; None if they are unknown.
    :ivar user: its user if that is another than the doctor's; else ''.
    :ivar apart: whether its /dev/shm is another than the doctor's, as in a container.
    """

    pid: int
    stopped: bool
    variables: Optional[Mapping[str, str]]
    user: str = ''
    apart: bool = False


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


#: What lets programs exchange data that do not share memory; Fast DDS 2.11 and later read it.
UDP_ONLY = 'FASTDDS_BUILTIN_TRANSPORTS=UDPv4'


def without_shared_memory(processes: Sequence[LocalProcess]) -> tuple[str, str]:
    """
    Explain why a node of this computer is listed and its data does not arrive.

    Programs of one computer exchange data by shared memory. Those of two users may not read each
    other's, and one in a container has a /dev/shm of its own, while both still find each other.

    :returns: finding and remedy; both empty without such a process.
    """
    for one in processes:
        if one.user:
            return (f'process {one.pid} runs the node as {printable(one.user, 40)}: programs of '
                    'two users on one computer exchange no data by shared memory',
                    f'run both as one user, or start both with {UDP_ONLY}')
        if one.apart:
            return (f'process {one.pid} runs the node with another /dev/shm, as in a container: '
                    'no data passes by shared memory',
                    'share it (docker run --ipc host), or start both programs with '
                    f'{UDP_ONLY}')
    return '', ''
