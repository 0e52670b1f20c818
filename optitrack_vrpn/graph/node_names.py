# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of nodes in the graph of ROS 2: base name, namespace, and both together."""

#: What ROS 2 calls a node of which it has found a publisher or subscription and not yet the name,
#: or that is none of its own.
NAMELESS = '_NODE_NAME_UNKNOWN_'


def full_name(name: str, namespace: str) -> str:
    """Join a node's base name and namespace."""
    return f'{namespace.rstrip("/")}/{name}'


def base_name(name: str) -> str:
    """Take the namespace off a full name."""
    return name.rpartition('/')[2]
