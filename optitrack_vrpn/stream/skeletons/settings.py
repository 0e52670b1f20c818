# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the outputs of skeletons and force plates."""

from dataclasses import dataclass

from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.stream.skeletons.bone_names import CONVENTIONS


@checked
@dataclass(frozen=True)
class SkeletonSettings:
    """Skeletons and force plates."""

    names: str = setting('motive', choices=('motive', *CONVENTIONS), doc=(
        'names of bones: as Motive sends them, or those of FBX or BVH files'))
    tf_parent: str = setting('world', choices=('world', 'bone'), doc=(
        'parent frame of a bone in TF: the world, or its parent bone'))
    wrench: str = setting('mean', choices=('mean', 'all'), doc=(
        'forces of a frame: their mean, or each sample, evenly spaced in the frame interval'))
