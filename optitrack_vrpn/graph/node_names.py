# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of nodes in the ROS graph: base name, namespace and full name."""

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
