# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start and stop capture systems together; see docs/mocap_control.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.mocap_control.controller_ros import MocapController
    from optitrack_vrpn.mocap_control.endpoint_ros import (
        CONTROL_QOS, Dialect, find_dialects, INFO_LISTENER_QOS, install_messages)
    from optitrack_vrpn.mocap_control.participant_ros import ControlledLifecycleNode, MocapControl
    from optitrack_vrpn.mocap_control.protocol import Command, ControlConfig, GENERATIONS, Kind
    from optitrack_vrpn.mocap_control.round import Answer, KnownSystem, Listeners, Round
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('mocap_control', 'command:main', 'start, stop and list capture systems over mocap control'),
)
