# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find who publishes below a namespace, before a simulation publishes there too."""

import time

from optitrack_vrpn.node.base.tool_node import ToolNode
from optitrack_vrpn.node.graph.conflicts import full_name, NAMELESS

#: Time of discovery on one computer (s). Chosen: Fast DDS repeats its announcements every 3 s by
#: default, and half of the first ones are missed on a loaded computer (measured: 5 of 6 searches
#: took 2.5 to 2.7 s).
LOOK_S = 4.0


def publishers_below(namespace: str, look_s: float = LOOK_S) -> list[str]:
    """
    List the nodes that publish on topics below a namespace.

    :param namespace: with a slash in front.
    :param look_s: time of the search (s).
    :returns: one line for each node; none if the namespace is free.
    """
    found: dict[str, set[str]] = {}
    with ToolNode('optitrack_vrpn_look', start_parameter_services=False,
                  enable_rosout=False) as look:
        deadline = time.monotonic() + look_s
        # A publisher can be discovered before the name of its node.
        while time.monotonic() < deadline and (
                not found or any(NAMELESS in node for node in found)):
            time.sleep(0.1)
            found = {}
            for topic, _ in look.node.get_topic_names_and_types():
                if topic.startswith(f'{namespace}/'):
                    for info in look.node.get_publishers_info_by_topic(topic):
                        found.setdefault(full_name(
                            info.node_name, info.node_namespace), set()).add(topic)
    return [f'{node} publishes on {", ".join(sorted(topics)[:3])}'
            for node, topics in sorted(found.items())]
