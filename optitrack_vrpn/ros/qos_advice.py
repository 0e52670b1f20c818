# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Remedies for subscribers with an incompatible quality of service."""

from rclpy.qos import qos_policy_name_from_kind, QoSPolicyKind


def what_helps(topic: str, policy: int) -> str:
    """
    Describe the incompatible policy and its remedy.

    :param topic: the resolved topic.
    :param policy: kind of the policy, from the middleware's event.
    """
    try:
        name = qos_policy_name_from_kind(policy)
    except ValueError:    # a policy that this rclpy does not know
        name = f'of policy {policy}'
    if policy == QoSPolicyKind.RELIABILITY:
        offer, ask = 'is best effort', 'best effort'
        more = ('; or set qos.reliability: reliable in this node, then clean up and configure '
                'it')
    elif policy == QoSPolicyKind.DURABILITY:
        offer, ask, more = 'is volatile, because old poses are of no use', 'volatile', ''
    else:
        offer, ask, more = 'does not offer this policy', 'the default', ''
    return (f'a subscriber of {topic} receives nothing: it requests more {name} than this node '
            f'offers: the node {offer}; request {ask} in the subscriber{more}')
