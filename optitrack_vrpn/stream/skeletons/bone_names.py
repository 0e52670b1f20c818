# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Names of the bones of Motive's skeletons in four conventions.

The names of the first 21 bones by Motive are those of its files; that of the FBX convention are
those that retargeting programs read. The names of fingers by Motive, the whole BVH convention
(Biovision's names), and that for Unreal Engine (the names of Epic's mannequin) are not confirmed
by a real Motive.
"""

import re

from optitrack_vrpn.core.names import MAX_ROS_NAME

Names = tuple[str, str, str, str]
#: Motive, FBX, BVH, Unreal Engine: the trunk, then one side without its letter or word.
_TRUNK: tuple[Names, ...] = (
    ('Hip', 'Hips', 'Hips', 'pelvis'), ('Ab', 'Spine', 'Chest', 'spine_01'),
    ('Chest', 'Spine1', 'Chest2', 'spine_02'), ('Neck', 'Neck', 'Neck', 'neck_01'),
    ('Head', 'Head', 'Head', 'head'))
_ARM: tuple[Names, ...] = (
    ('Shoulder', 'Shoulder', 'Collar', 'clavicle'), ('UArm', 'Arm', 'Shoulder', 'upperarm'),
    ('FArm', 'ForeArm', 'Elbow', 'lowerarm'), ('Hand', 'Hand', 'Wrist', 'hand'))
_LEG: tuple[Names, ...] = (
    ('Thigh', 'UpLeg', 'Hip', 'thigh'), ('Shin', 'Leg', 'Knee', 'calf'),
    ('Foot', 'Foot', 'Ankle', 'foot'), ('Toe', 'ToeBase', 'Toe', 'ball'))
_FINGERS: tuple[Names, ...] = tuple(
    (f'{finger}{joint}', f'Hand{finger}{joint}', f'{finger}{joint}',
     f'{finger.lower()}_0{joint}')
    for finger in ('Thumb', 'Index', 'Middle', 'Ring', 'Pinky') for joint in (1, 2, 3))


def _sided(bones: tuple[Names, ...], side: str) -> list[Names]:
    return [(side[0] + motive, side + fbx, side + bvh, f'{unreal}_{side[0].lower()}')
            for motive, fbx, bvh, unreal in bones]


#: All bones in Motive's order, from number 1.
BONES: tuple[Names, ...] = (
    *_TRUNK, *_sided(_ARM, 'Left'), *_sided(_ARM, 'Right'), *_sided(_LEG, 'Left'),
    *_sided(_LEG, 'Right'), *_sided(_FINGERS, 'Left'), *_sided(_FINGERS, 'Right'))
#: The column of each convention in which bones can be published.
CONVENTIONS = {'fbx': 1, 'bvh': 2}
#: What separates the name of a skeleton from that of a bone.
_SEPARATORS = ':_'
_OTHER = re.compile(r'[^A-Za-z0-9]+')


def plain(name: str, skeleton: str = '') -> str:
    """Remove the name of the skeleton before a bone's name, as in ``Bob_Hip`` or ``Bob:Hip``."""
    rest = name.removeprefix(skeleton) if skeleton else name
    if rest and rest != name and rest[0] in _SEPARATORS:
        return rest[1:]
    return name.rpartition(':')[2]


def converted(names: tuple[str, ...], skeleton: str, convention: str) -> tuple[str, ...]:
    """
    Convert the names of a skeleton's bones.

    Which convention the names have is decided for all of them together, because the same name can
    mean different bones: BVH's ``Chest`` is Motive's ``Ab``.

    :param convention: 'motive' (as they are, without the skeleton's name), 'fbx' or 'bvh'.
    :returns: the names in their order; those that no convention has stay.
    """
    short = tuple(plain(name, skeleton) for name in names)
    if convention not in CONVENTIONS:
        return short
    given = max(range(4), key=lambda column: (
        len({bone[column] for bone in BONES}.intersection(short)), -column))
    table = {bone[given]: bone[CONVENTIONS[convention]] for bone in BONES}
    return tuple(table.get(name, name) for name in short)


def frame_name(text: str, kind: str = '') -> str:
    """
    Return the part of a frame id or topic for a bone, skeleton or plate.

    :param kind: prefix of a name that begins with a digit, as serial numbers of plates do: ROS
        accepts no such topic.
    """
    name = _OTHER.sub('_', text)[:MAX_ROS_NAME].strip('_') or 'unnamed'
    return f'{kind}_{name}' if kind and name[0].isdigit() else name
