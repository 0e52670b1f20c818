# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Joint angles by the names of the draft REP 155, where Motive's bones correspond.

A joint with three angles is the attitude of a bone in its reference: yaw about up, pitch about
left, roll about forward (REP 103), all 0 in the pose of the definition. Elbows, knees and the
waist are the whole angle between two bones, never negative. Which pose is 0 in Motive, and in the
package ``human_description``, was not compared.
"""

import math

import numpy as np

from optitrack_vrpn.core.arrays import quat_multiply
from optitrack_vrpn.core.rotation import angles_from_quat
from optitrack_vrpn.stream.skeletons.bone_names import converted
from optitrack_vrpn.stream.skeletons.stage import Figure

#: Joint, bone, reference.
_THREE = (('head', 'Head', 'Spine1'), ('l_shoulder', 'LeftArm', 'Spine1'),
          ('r_shoulder', 'RightArm', 'Spine1'), ('l_hip', 'LeftUpLeg', 'Hips'),
          ('r_hip', 'RightUpLeg', 'Hips'))
_ONE = (('waist', 'Spine1', 'Hips'), ('l_elbow', 'LeftForeArm', 'LeftArm'),
        ('r_elbow', 'RightForeArm', 'RightArm'), ('l_knee', 'LeftLeg', 'LeftUpLeg'),
        ('r_knee', 'RightLeg', 'RightUpLeg'))


def joint_angles(figure: Figure) -> dict[str, float]:
    """
    Compute the angles (rad) of the joints whose bones are valid.

    :returns: angle by name: ``r_head``, ``y_head``, ``p_head``, ``waist``, ``l_y_shoulder`` ...
    """
    index = {name: i for i, name in enumerate(
        converted(figure.model.bones, figure.model.name, 'fbx'))}
    found: dict[str, float] = {}
    for joint, bone, reference in (*_THREE, *_ONE):
        i, j = index.get(bone), index.get(reference)
        if i is None or j is None or not (figure.valid[i] and figure.valid[j]):
            continue
        back = figure.quats_xyzw[j] * np.array((-1.0, -1.0, -1.0, 1.0))
        x, y, z, w = quat_multiply(back[None], figure.quats_xyzw[i][None])[0].tolist()
        if (joint, bone, reference) in _ONE:
            found[joint] = 2.0 * math.acos(min(1.0, abs(w)))
            continue
        side, _, part = joint.rpartition('_')
        for letter, angle in zip('rpy', angles_from_quat((x, y, z, w))):
            found[f'{side}_{letter}_{part}' if side else f'{letter}_{part}'] = angle
    return found
