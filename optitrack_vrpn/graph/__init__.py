# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS graph: names of nodes, conflicting publishers, domains."""

from importlib import import_module
from typing import Any

#: Public names by file, which is imported when a name is first used: ROS loads slowly.
_FILES = {
    'conflicts': 'LINGERS ONE_NAME ONE_TOPIC qos_remedies',
    'conflicts_ros': 'ConflictingPublishers describe_mismatch DuplicateNames TURN_NS',
    'domain_io': 'claim_domain DomainClaim DOMAINS in_use isolate own_domain',
    'node_names': 'base_name full_name NAMELESS state_services',
    'one_publisher': 'Arrival OnePublisher Publisher STEADY',
    'one_publisher_ros': 'OneSubscription publishers_of',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE)


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)
