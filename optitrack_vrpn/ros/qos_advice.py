# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What helps a subscriber whose quality of service the poses do not match."""

from rclpy.qos import qos_policy_name_from_kind, QoSPolicyKind


def what_helps(topic: str, policy: int) -> str:
    """
    Say what does not match and what to do about it.

    :param topic: the resolved topic.
    :param policy: kind of the policy, as the middleware reports it.
    """
    try:
        name = qos_policy_name_from_kind(policy)
    except ValueError:    # a policy that this rclpy does not know
        name = f'of policy {policy}'
    if policy == QoSPolicyKind.RELIABILITY:
        offer, ask = 'is best effort', 'best effort'
        more = ('; or give this node qos.reliability: reliable, which takes a cleanup and a '
                'configure')
    elif policy == QoSPolicyKind.DURABILITY:
        offer, ask, more = 'is volatile, since nobody needs an old pose', 'volatile', ''
    else:
        offer, ask, more = 'promises nothing of the kind', 'the default', ''
    return (f'a subscriber of {topic} gets nothing, since it asks for more {name} than there is: '
            f'this node {offer}; let the subscriber ask for {ask}{more}')
