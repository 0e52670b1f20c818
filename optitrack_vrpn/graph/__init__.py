# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS graph: names of nodes, conflicting publishers, domains."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'conflicts': 'LINGERS ONE_NAME ONE_TOPIC qos_remedies',
    'conflicts_ros': 'ConflictingPublishers describe_mismatch DuplicateNames TURN_NS',
    'domain_io': 'claim_domain DomainClaim DOMAINS in_use isolate own_domain',
    'node_names': 'base_name full_name NAMELESS state_services',
    'one_publisher': 'Arrival OnePublisher Publisher STEADY',
    'one_publisher_ros': 'OneSubscription publishers_of',
})
