# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Skeletons and force plates: bones are checked, named and published."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.skeletons.bone_names import BONES, CONVENTIONS, converted
    from optitrack_vrpn.skeletons.gate import BoneGate
    from optitrack_vrpn.skeletons.joints import joint_angles
    from optitrack_vrpn.skeletons.live_io import LiveSkeleton
    from optitrack_vrpn.skeletons.output_ros import SKELETON_KINDS, SkeletonOutput
    from optitrack_vrpn.skeletons.plates import (
        channel_order, plate_frame, SampleTimes, wrenches)
    from optitrack_vrpn.skeletons.settings import SkeletonSettings
    from optitrack_vrpn.skeletons.stage import Axes, Figure, relative, SkeletonStage
else:
    __all__, __getattr__ = lazy(globals())
