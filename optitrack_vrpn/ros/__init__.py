# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of nodes, messages as bytes, and what commands need of rclpy."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'cdr': 'Fill serialisation_template stamp_bytes tf_message time_of '
           'transform_template TransformWriter UnsupportedCdr Write',
    'deferred_destruction': 'DeferredDestruction',
    'lifecycle_node': 'fits refusal SafeLifecycleNode',
    'log': 'ros_is_up ThrottledLog',
    'managed_node': 'entry ManagedNode SettingsNode',
    'node_command': 'run_node run_node_by_parameters',
    'params_files': 'files_given is_for nodes_of',
    'run': 'explained run',
    'tf': 'StaticTransformBroadcaster tf_publisher',
    'ticker_io': 'Ticker',
    'tool_node': 'ask_all BackgroundNode checked_topic SLICE_S ToolNode',
})
