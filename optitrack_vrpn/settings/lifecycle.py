# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings that every node with ``SettingsNode`` as its base has; their classes derive from it."""

from dataclasses import dataclass

from optitrack_vrpn.settings.schema import Change, setting


@dataclass(frozen=True)
class LifecycleSettings:
    """The transitions that a node makes by itself after its start."""

    autostart: bool = setting(False, change=Change.START,
                              doc='configure and activate without a lifecycle manager')
    activate: bool = setting(True, change=Change.START,
                             doc='false: autostart leaves the node inactive, for mocap control')
