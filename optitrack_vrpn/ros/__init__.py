# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of nodes, messages as bytes, and what commands need of rclpy."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.ros.cdr import (
        Fill, pack_stamp, serialisation_template, stamp_bytes, tf_message, time_of,
        transform_template, TransformWriter, UnsupportedCdr, Write)
    from optitrack_vrpn.ros.lifecycle_node import fits, refusal, SafeLifecycleNode
    from optitrack_vrpn.ros.managed_node import entry, ManagedNode, SettingsNode
    from optitrack_vrpn.ros.node_command import run_node, run_node_by_parameters
    from optitrack_vrpn.ros.node_parts import DeferredDestruction, ros_is_up, ThrottledLog, Ticker
    from optitrack_vrpn.ros.process import explained, files_given, is_for, nodes_of, run
    from optitrack_vrpn.ros.tf import StaticTransformBroadcaster, tf_publisher
    from optitrack_vrpn.ros.tool_node import (
        ask_all, BackgroundNode, checked_topic, SLICE_S, ToolNode)
else:
    __all__, __getattr__ = lazy(globals())
