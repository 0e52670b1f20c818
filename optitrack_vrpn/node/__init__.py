# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The lifecycle node."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.node.body_output import BodyOutput, fill_of, message_type, supports_raw_cdr
    from optitrack_vrpn.node.body_settings import (
        BodySettings, is_fixed_setting, sift_body_settings)
    from optitrack_vrpn.node.command import check
    from optitrack_vrpn.node.configuration import make_configuration
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    from optitrack_vrpn.node.publishers import Publishers
    from optitrack_vrpn.node.receiver import (
        publish_samples, publish_server_motion, publish_view, Receiver, TurnLock)
    from optitrack_vrpn.node.report import (
        body_entry, clock_entry, frames_entry, Level, link_entry, MAX_REASON)
    from optitrack_vrpn.node.settings import FrameSettings, NodeSettings
    from optitrack_vrpn.node.shared_output import FrameCollector, NamedPose, SharedOutput
    from optitrack_vrpn.node.status import StatusReporter
    from optitrack_vrpn.node.supervision import Supervision
    from optitrack_vrpn.node.topic_kinds import DEFAULT_OUTPUTS, KINDS
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('optitrack_vrpn_node', 'command:main',
     'the lifecycle node: motion capture in, PoseStamped and TF out'),
)
NODES = (
    ('optitrack_vrpn', 'settings:NodeSettings', 'body_settings'),
)
