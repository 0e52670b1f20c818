# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Skeletons, force plates and unlabelled markers of a simulated Motive.

All are functions of the time of the scenario; the faults of skeletons are those of bodies.
"""

import math

import numpy as np

from optitrack_vrpn.drivers.frames import Vector
from optitrack_vrpn.drivers.natnet.messages import (
    Analog, BODY_TRACKING_VALID, BodyDefinition, Definitions, MARKER_UNLABELLED, NatNetMarker,
    NatNetSkeleton, PlateDefinition, SkeletonDefinition)
from optitrack_vrpn.sim.faults import Frames
from optitrack_vrpn.sim.figure import BONES_21, BONES_51, SimFigure
from optitrack_vrpn.sim.impairments import apply_faults, occlusions
from optitrack_vrpn.sim.motion import Array
from optitrack_vrpn.sim.natnet_settings import NatNet

#: Chosen: frames that are computed together.
_BLOCK = 64
#: The layout of ``natnet.BODY``.
_ROW = np.dtype([('id', '<i4'), ('position', '<f4', 3), ('quat', '<f4', 4), ('error', '<f4'),
                 ('params', '<i2')])
_ERROR_M = 0.5e-3
#: Chosen: force plates of 0.6 m by 0.4 m, ten samples a frame, a person of 700 N who steps.
_PLATE_LENGTH, _PLATE_WIDTH = 0.6, 0.4
SAMPLES = 10
_WEIGHT_N = 700.0
_CHANNELS = ('Fx', 'Fy', 'Fz', 'Mx', 'My', 'Mz')
#: Ids of unlabelled markers are those of the point cloud.
_FIRST_POINT = 1001


class Models:
    """
    What a simulated Motive streams beside rigid bodies.

    :param settings: their numbers, and the faults of the first skeleton.
    :param rate: frames per second.
    """

    def __init__(self, settings: NatNet, rate: float) -> None:
        self._settings = settings
        self._rate = rate
        bones = BONES_51 if settings.bones == len(BONES_51) else BONES_21
        self.figures = [
            SimFigure(bones, 1.5 + 0.5 * i, i / max(1, settings.skeletons))
            for i in range(settings.skeletons)]
        self._block_number = -1
        self._block: list[list[bytes]] = []

    def describe(self) -> Definitions:
        """Describe skeletons and force plates."""
        skeletons = tuple(
            SkeletonDefinition(f'Skeleton {i + 1}', i + 1, tuple(
                BodyDefinition(bone.name, number + 1, bone.parent, bone.offset)
                for number, bone in enumerate(figure.bones)))
            for i, figure in enumerate(self.figures))
        plates = tuple(
            PlateDefinition(
                i + 1, f'Plate {i + 1}', _PLATE_WIDTH, _PLATE_LENGTH, (0.0, 0.0, 0.0),
                (0.0,) * 144, corners(i), 2, 0, _CHANNELS)
            for i in range(self._settings.plates))
        return Definitions((), (), skeletons, plates=plates)

    def truth(self, skeleton: int, time: float) -> tuple[Array, Array]:
        """Return positions (n, 3) and attitudes (n, 4) of a skeleton without faults."""
        positions, quats = self.figures[skeleton].at(np.array((time,)))
        return positions[0], quats[0]

    def skeletons(self, number: int) -> tuple[NatNetSkeleton, ...]:
        """Make the skeletons of a frame."""
        block, row = divmod(number, _BLOCK)
        if block != self._block_number:
            frames = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
            self._block = [self._rows(i, frames) for i in range(len(self.figures))]
            self._block_number = block
        return tuple(NatNetSkeleton(i + 1, rows[row]) for i, rows in enumerate(self._block))

    def _rows(self, index: int, frames: Frames) -> list[bytes]:
        figure, rate = self.figures[index], self._rate
        faults = self._settings.skeleton_faults if not index else ()
        lost, _, held = occlusions(faults, frames, rate)
        positions, quats = figure.at(frames / rate)
        old_positions, old_quats = figure.at(held / rate)
        table = np.zeros((len(frames), len(figure.bones)), dtype=_ROW)
        table['id'] = ((index + 1) << 16) + np.arange(1, len(figure.bones) + 1)
        table['params'] = BODY_TRACKING_VALID
        table['error'] = _ERROR_M
        for i in range(len(figure.bones)) if faults else ():
            positions[:, i], quats[:, i] = apply_faults(
                faults, held, rate, old_positions[:, i], old_quats[:, i])
            # Motive states that it does not track a bone; then it sends the last pose.
            table['params'][lost, i] = 0
        table['position'], table['quat'] = positions, quats
        return [row.tobytes() for row in table]

    def unlabelled(self, number: int) -> list[Vector]:
        """Place the unlabelled markers of a frame: they turn about the room."""
        count = self._settings.unlabelled
        angle = 0.5 * number / self._rate
        return [(3.0 * math.cos(angle + i), 0.5 + 0.001 * i, 3.0 * math.sin(angle + i))
                for i in range(count)]

    def markers(self, number: int) -> list[NatNetMarker]:
        """Make the unlabelled markers of the section of labelled ones."""
        return [NatNetMarker(_FIRST_POINT + i, *place, 0.014, MARKER_UNLABELLED, 0.0003)
                for i, place in enumerate(self.unlabelled(number))]

    def plates(self, number: int) -> tuple[Analog, ...]:
        """
        Make the samples of the force plates: a person steps on each, two times a second.

        They are of the interval before the frame's time, the last one at it. Motive sends no times
        of samples and states none; later ones would not exist when a frame is sent at low rates.
        """
        found = []
        for i in range(self._settings.plates):
            samples = [force(i, (number - j / SAMPLES) / self._rate)
                       for j in reversed(range(SAMPLES))]
            found.append(Analog(i + 1, tuple(zip(*samples))))
        return tuple(found)


def corners(index: int) -> tuple[Vector, ...]:
    """Return corners, clockwise from +x +y of the plate: its x is Motive's x, its y its -z."""
    x, half_x, half_y = 1.0 * index, _PLATE_WIDTH / 2, _PLATE_LENGTH / 2
    return tuple((x + sx * half_x, 0.0, -sy * half_y)
                 for sx, sy in ((1, 1), (1, -1), (-1, -1), (-1, 1)))


def force(index: int, time: float) -> tuple[float, ...]:
    """Return forces (N) and moments (N m) on a plate at a time (s)."""
    load = max(0.0, math.sin(2 * math.pi * (2.0 * time + 0.25 * index)))
    return (20.0 * load, 5.0 * load, -_WEIGHT_N * load, 30.0 * load, -15.0 * load, 2.0 * load)
