# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A walking figure of 21 or 51 bones in closed form, in Motive's axes: x forward, y up, z right.

The hip walks on a circle to the left; each joint turns about axes of its bone with a sine of the
phase of the step. Poses are products of constant offsets and these turns. Names and order of the
first 21 bones are those of Motive's skeletons; the names of fingers are not confirmed.
"""

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from optitrack_vrpn.core.arrays import quat_multiply, quat_rotate
from optitrack_vrpn.sim.motion import Array, quat_from_rotation_vector

#: Chosen: an adult of 1.75 m who walks 1.2 m/s with 0.9 steps pairs a second, the hip 0.95 m high.
_SPEED, _STEP_HZ, _HIP_HEIGHT, _BOB = 1.2, 0.9, 0.95, 0.02


class Bone(NamedTuple):
    """
    A bone: number of its parent (0 for none), place in it (m), and its turn about z and y.

    :ivar swing: mean and amplitude (rad) about z, which lifts what points along x.
    :ivar phase: phase of the swing in the pair of steps (rad).
    :ivar twist: amplitude (rad) about y.
    """

    name: str
    parent: int
    offset: tuple[float, float, float]
    swing: tuple[float, float] = (0.0, 0.0)
    phase: float = 0.0
    twist: float = 0.0


def _side(letter: str, side: float, first: int, phase: float) -> list[Bone]:
    """Make shoulder, arm and hand of one side; ``side`` is -1 for left."""
    return [
        Bone(f'{letter}Shoulder', 3, (0.0, 0.2, 0.05 * side)),
        Bone(f'{letter}UArm', first, (0.0, 0.0, 0.13 * side), (0.0, 0.35), phase + np.pi),
        Bone(f'{letter}FArm', first + 1, (0.0, -0.28, 0.0), (0.4, 0.2), phase + np.pi),
        Bone(f'{letter}Hand', first + 2, (0.0, -0.26, 0.0), (0.1, 0.05), phase)]


def _leg(letter: str, side: float, first: int, phase: float) -> list[Bone]:
    return [
        Bone(f'{letter}Thigh', 1, (0.0, -0.05, 0.09 * side), (0.05, 0.45), phase),
        Bone(f'{letter}Shin', first, (0.0, -0.42, 0.0), (-0.4, 0.4), phase + 1.2),
        Bone(f'{letter}Foot', first + 1, (0.0, -0.4, 0.0), (0.1, 0.25), phase + 2.0),
        Bone(f'{letter}Toe', first + 2, (0.13, -0.05, 0.0), (0.0, 0.2), phase + 2.6)]


def _fingers(letter: str, side: float, hand: int, first: int) -> list[Bone]:
    found = []
    for finger, name in enumerate(('Thumb', 'Index', 'Middle', 'Ring', 'Pinky')):
        for joint in range(3):
            number = first + 3 * finger + joint
            offset = ((0.02 * (2 - finger), -0.09, 0.01 * side) if not joint else
                      (0.0, -0.03, 0.0))
            found.append(Bone(f'{letter}{name}{joint + 1}', number - 1 if joint else hand, offset,
                              (-0.2, 0.15), 0.5 * finger))
    return found


_TRUNK = [
    Bone('Hip', 0, (0.0, 0.0, 0.0), twist=0.05), Bone('Ab', 1, (0.0, 0.1, 0.0), twist=0.05),
    Bone('Chest', 2, (0.0, 0.2, 0.0), twist=-0.15), Bone('Neck', 3, (0.0, 0.25, 0.0)),
    Bone('Head', 4, (0.0, 0.12, 0.0), (0.0, 0.03), 0.0, 0.08)]
#: The bones by number, from 1.
BONES_51 = (
    *_TRUNK, *_side('L', -1.0, 6, 0.0), *_side('R', 1.0, 10, np.pi), *_leg('L', -1.0, 14, 0.0),
    *_leg('R', 1.0, 18, np.pi), *_fingers('L', -1.0, 9, 22), *_fingers('R', 1.0, 13, 37))
BONES_21 = BONES_51[:21]


class SimFigure:
    """
    One walking figure.

    :param bones: its bones.
    :param radius: radius of its way (m).
    :param phase: its place on the way at time 0, as a fraction.
    """

    def __init__(self, bones: Sequence[Bone], radius: float = 1.5, phase: float = 0.0) -> None:
        self.bones = tuple(bones)
        self._radius = radius
        self._phase = phase

    def at(self, time: Array) -> tuple[Array, Array]:
        """
        Evaluate all bones in the world.

        :param time: (n,) seconds.
        :returns: positions (n, bones, 3) in metres, and quaternions (n, bones, 4), x y z w.
        """
        step = math.tau * _STEP_HZ * time + math.tau * self._phase
        way = _SPEED / self._radius * time + math.tau * self._phase
        n, count = len(time), len(self.bones)
        position, quat = np.zeros((n, count, 3)), np.zeros((n, count, 4))
        for i, bone in enumerate(self.bones):
            local = self._turn(bone, step)
            if not bone.parent:
                place = np.stack((
                    self._radius * np.cos(way), _HIP_HEIGHT + _BOB * np.sin(2 * step),
                    -self._radius * np.sin(way)), axis=-1)
                heading = quat_from_rotation_vector(
                    (way + np.pi / 2)[:, None] * np.array((0.0, 1.0, 0.0)))
                position[:, i], quat[:, i] = place, quat_multiply(heading, local)
                continue
            parent = bone.parent - 1
            position[:, i] = position[:, parent] + quat_rotate(
                quat[:, parent], np.broadcast_to(np.array(bone.offset), (n, 3)))
            quat[:, i] = quat_multiply(quat[:, parent], local)
        return position, quat

    @staticmethod
    def _turn(bone: Bone, step: Array) -> Array:
        mean, amplitude = bone.swing
        swing = mean + amplitude * np.sin(step + bone.phase)
        twist = bone.twist * np.sin(step)
        return quat_multiply(
            quat_from_rotation_vector(twist[:, None] * np.array((0.0, 1.0, 0.0))),
            quat_from_rotation_vector(swing[:, None] * np.array((0.0, 0.0, 1.0))))
