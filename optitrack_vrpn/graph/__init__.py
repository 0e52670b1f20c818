# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS graph: names of nodes, conflicting publishers, domains."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.graph.conflicts import (
        Arrival, base_name, full_name, LINGERS, NAMELESS, ONE_NAME, ONE_TOPIC, OnePublisher,
        Publisher, qos_remedies, state_services, STEADY)
    from optitrack_vrpn.graph.conflicts_ros import (
        ConflictingPublishers, describe_mismatch, DuplicateNames, informed, matched_publishers,
        OneSubscription, publishers_of, TURN_NS)
    from optitrack_vrpn.graph.domain_io import (
        claim_domain, DomainClaim, DOMAINS, in_use, isolate, own_domain)
else:
    __all__, __getattr__ = lazy(globals())
