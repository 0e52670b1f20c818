# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Search for publishers below a namespace before a demo starts there."""

import time

from optitrack_vrpn.demo.isolation import Endpoint, foreign
from optitrack_vrpn.graph import full_name, NAMELESS
from optitrack_vrpn.ros import ToolNode

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
    found: list[str] = []
    with ToolNode('optitrack_vrpn_demo_look', start_parameter_services=False,
                  enable_rosout=False) as look:
        deadline = time.monotonic() + look_s
        # A publisher can be discovered before the name of its node.
        while time.monotonic() < deadline and (
                not found or any(NAMELESS in line for line in found)):
            time.sleep(0.1)
            found = foreign([
                Endpoint(topic, full_name(info.node_name, info.node_namespace))
                for topic, _ in look.node.get_topic_names_and_types()
                if topic.startswith(f'{namespace}/')
                for info in look.node.get_publishers_info_by_topic(topic)], (), 0)
    return found
