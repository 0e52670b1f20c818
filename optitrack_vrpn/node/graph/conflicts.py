# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Conflicts in the ROS graph: names, topics, quality of service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Name of a node of which ROS 2 knows an endpoint but not the name: discovery has not finished, or
#: the participant is not a ROS node.
NAMELESS = '_NODE_NAME_UNKNOWN_'


def full_name(name: str, namespace: str) -> str:
    """Join a node's base name and namespace."""
    return f'{namespace.rstrip("/")}/{name}'


def base_name(name: str) -> str:
    """Return a full name without its namespace."""
    return name.rpartition('/')[2]


def state_services(
    services: Iterable[tuple[str, Sequence[str]]],
) -> list[tuple[str, str]]:
    """List the lifecycle nodes: full names, and services that report their states."""
    return [(name.rpartition('/')[0], name) for name, types in services
            if name.endswith('/get_state') and 'lifecycle_msgs/srv/GetState' in types]


#: Words of a policy's name or of the middleware's reason (rmw_dds_common, qos.cpp); the remedy.
_QOS_REMEDIES = {
    ('reliab',): 'request best effort in the subscriber, or set qos.reliability: reliable for the '
                 'node and configure it again',
    ('durability', 'transient local'): 'request durability volatile in the subscriber: poses are '
                                       'not kept for late subscribers',
    ('deadline',): 'request no deadline in the subscriber: the node offers none',
    ('liveliness',): 'request liveliness automatic without lease in the subscriber: the node '
                     'offers no other',
}


def qos_remedies(reason: str) -> list[str]:
    """Return the remedy for each policy that does not match."""
    return [remedy for words, remedy in _QOS_REMEDIES.items()
            if any(word in reason.lower() for word in words)] or [
        'request the default quality of service in the subscriber']
