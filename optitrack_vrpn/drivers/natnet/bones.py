# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert the skeletons of NatNet frames to arrays, in the order of their definitions."""

from collections.abc import Sequence
from typing import Union

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.drivers.frames import Skeleton, SkeletonModel
from optitrack_vrpn.drivers.natnet import messages
from optitrack_vrpn.drivers.natnet.messages import (
    AssetDefinition, BodyDefinition, SkeletonDefinition)

Array = NDArray[np.float64]

#: The fields of ``messages.BODY``.
_ROW = np.dtype([('id', '<i4'), ('position', '<f4', 3), ('quat', '<f4', 4), ('error', '<f4'),
                 ('params', '<i2')])
_LOW = 0xffff
#: Chosen: largest difference (m) between a position and the offset of a definition that are equal.
_EQUAL_M = 1e-6


class Bones:
    """
    The bones of one skeleton or trained marker set.

    :param definition: its definition.
    :ivar model: the neutral description.
    :ivar looks_local: whether the last frame looked as if it contained poses relative to the
        parents; such bones are invalid.
    """

    def __init__(self, definition: Union[SkeletonDefinition, AssetDefinition]) -> None:
        if isinstance(definition, SkeletonDefinition):
            bodies, number = definition.bones, definition.skeleton_id
        else:
            bodies, number = definition.bodies, definition.asset_id
        bodies, parents = _sorted(bodies)
        self.model = SkeletonModel(
            definition.name, tuple(body.name for body in bodies), parents,
            tuple(body.offset for body in bodies))
        self._number = number & _LOW
        self._ids = np.array([body.streaming_id & _LOW for body in bodies], dtype=np.int64)
        self._offsets = np.array(self.model.offsets, dtype=np.float64).reshape(-1, 3)
        self._children = np.array([parent >= 0 for parent in parents], dtype=bool)
        self.looks_local = False

    def convert(self, rows: bytes, live: bool) -> Skeleton:
        """
        Convert the bones of a frame.

        :param rows: as in ``messages.Skeleton``.
        :param live: whether the poses are live; else none is valid.
        """
        with np.errstate(all='ignore'):    # the gate refuses what is not finite
            return self._convert(np.frombuffer(rows, dtype=_ROW), live)

    def _convert(self, table: NDArray[np.void], live: bool) -> Skeleton:
        n = len(self._ids)
        ids = table['id'].astype(np.int64)
        low, high = ids & _LOW, ids >> 16 & _LOW
        own = (high == self._number) | (high == 0)
        if len(table) == n and own.all() and np.array_equal(low, self._ids):
            chosen = table
            valid = (chosen['params'] & messages.BODY_TRACKING_VALID).astype(bool)
        else:
            chosen, valid = self._ordered(table, low, own)
        positions = chosen['position'].astype(np.float64)
        quats = chosen['quat'].astype(np.float64)
        if not live:
            valid = np.zeros(n, dtype=bool)
        self.looks_local = self._seems_local(positions)
        if self.looks_local:
            valid = np.zeros(n, dtype=bool)
        return Skeleton(self.model, positions, quats, valid)

    def _ordered(
        self, table: NDArray[np.void], low: NDArray[np.int64], own: NDArray[np.bool_],
    ) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """Order the bones of a frame; a bone that is missing or occurs twice is invalid."""
        chosen = np.zeros(len(self._ids), dtype=_ROW)
        chosen['position'] = chosen['quat'] = np.nan
        valid = np.zeros(len(self._ids), dtype=bool)
        for i, number in enumerate(self._ids.tolist()):
            found = np.flatnonzero(own & (low == number))
            if len(found) == 1:
                chosen[i] = table[found[0]]
                valid[i] = bool(table[found[0]]['params'] & messages.BODY_TRACKING_VALID)
        return chosen, valid

    def _seems_local(self, positions: Array) -> bool:
        """Return whether every bone lies where the definition places it in its parent."""
        if np.count_nonzero(self._children) < 2:
            return False
        away = np.abs(positions - self._offsets)[self._children]
        return bool((away < _EQUAL_M).all() and self._offsets[self._children].any())


def _sorted(
    bodies: Sequence[BodyDefinition],
) -> tuple[tuple[BodyDefinition, ...], tuple[int, ...]]:
    """
    Order bones so that parents come first.

    :returns: bones and the index of each parent; a bone in a loop has no parent.
    """
    numbers = {body.streaming_id & _LOW: body for body in bodies}
    order: list[BodyDefinition] = []
    places: dict[int, int] = {}
    parents: list[int] = []
    waiting = list(bodies)
    loop = False
    while waiting:
        left = []
        for body in waiting:
            parent = -1 if loop or _root(body, numbers) else places.get(body.parent & _LOW)
            if parent is None:
                left.append(body)
                continue
            loop = False
            parents.append(parent)
            places[body.streaming_id & _LOW] = len(order)
            order.append(body)
        loop = len(left) == len(waiting)
        waiting = left
    return tuple(order), tuple(parents)


def _root(body: BodyDefinition, numbers: dict[int, BodyDefinition]) -> bool:
    return body.parent <= 0 or (body.parent & _LOW) not in numbers or (
        body.parent & _LOW == body.streaming_id & _LOW)
