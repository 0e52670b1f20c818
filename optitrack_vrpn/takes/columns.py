# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the poses of thousands of messages at once with numpy.

The offset of a field depends on the texts before it, so that a plan of offsets holds for messages
of one length with equal texts and counts. It is made from the definition in the bag and the first
message that fits no earlier plan; the texts of every other message are compared with its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.cdr import Leaf, leaves, Path, Types
from optitrack_vrpn.takes.mcap_format import Record

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
#: Offset of the data in a message record.
DATA_AT = 31
#: A pose: stamp and arrival in ns since the Unix epoch, x y z (m) and x y z w.
ROW = np.dtype([('stamp', '<i8'), ('arrival', '<i8'), ('pose', '<f8', 7)])
#: A coordinate (m) beyond this is no position; squares of such numbers overflow.
_FARTHEST_M = 1e100
#: Plans of a topic: sets of transforms, or frames. The oldest gives way to a new one.
_MOST_PLANS = 64

#: Types with poses, and where the pose is in them, the most specific first.
POSES: dict[str, Path] = {
    'geometry_msgs/msg/PoseStamped': ('pose',),
    'geometry_msgs/msg/PoseWithCovarianceStamped': ('pose', 'pose'),
    'nav_msgs/msg/Odometry': ('pose', 'pose'),
    'tf2_msgs/msg/TFMessage': ('transform',),
    'px4_msgs/msg/VehicleOdometry': ()}
TF, PX4 = 'tf2_msgs/msg/TFMessage', 'px4_msgs/msg/VehicleOdometry'


class ColumnBatch(NamedTuple):
    """
    Records of a bag in file order.

    :ivar data: the bytes.
    :ivar offsets: where message records begin, ascending.
    :ivar others: schemas, channels and metadata that were found before or among them.
    """

    data: Bytes
    offsets: Offsets
    others: list[Record]

    def contents(self) -> Iterator[bytes]:
        """Return the data of each message."""
        sizes = self.field(1, '<u8').astype(np.int64) - 22
        for at, size in zip(self.offsets.tolist(), sizes.tolist()):
            yield self.data[at + DATA_AT:at + DATA_AT + size].tobytes()

    def field(self, at: int, code: str) -> npt.NDArray[np.generic]:
        """Return a field of each message record at this offset in it."""
        return gather(self.data, self.offsets + at, code)


class TopicBatch(NamedTuple):
    """
    Messages of one topic.

    :ivar types: the definition of its type; empty if it is not understood.
    :ivar batch: the messages, decompressed.
    """

    topic: str
    type_name: str
    types: Types
    batch: ColumnBatch


def gather(data: Bytes, offsets: Offsets, code: object) -> npt.NDArray[np.generic]:
    """Return the values of a numpy type at any offsets, which must be within the data."""
    dtype = np.dtype(code)  # type: ignore[call-overload]
    count = max(len(data) - dtype.itemsize + 1, 0)
    # Without its fields a row is copied at three times the speed.
    copied = np.dtype((np.void, dtype.itemsize)) if dtype.fields else dtype
    found: npt.NDArray[np.generic] = np.ndarray((count,), copied, data, strides=(1,))[offsets]
    return found.view(dtype)


def take_rows(rows: Rows, index: npt.NDArray[np.intp]) -> Rows:
    """Return rows by their index."""
    return np.take(rows.view(np.dtype((np.void, rows.itemsize))), index).view(rows.dtype)


#: Child frame of a transform ('' of others), and whether the frame is in NED, or its name.
Frame = tuple[str, Union[bool, str]]
#: Channels and poses.
Poses = tuple[npt.NDArray[np.generic], Rows]


class _ColumnPart(NamedTuple):
    """
    One pose of a plan.

    :ivar child: its child frame; '' but for transforms.
    :ivar names: its fields: first the parts of its stamp, then those of the pose.
    :ivar units_ns: unit of each part of the stamp.
    """

    child: str
    frame: str
    names: list[str]
    units_ns: tuple[int, ...] = (NS_PER_S, 1)


class _Plan(NamedTuple):
    length: int
    dtype: np.dtype[np.void]
    constants: list[tuple[str, bytes]]
    parts: list[_ColumnPart]


class PoseColumns:
    """
    Read the poses of all topics that have one type and definition.

    :param type_name: a key of ``POSES``.
    :param types: its definition.
    :param by_parent: whether poses are given by the name of their frame, not by its axes.
    :ivar type_name: its type.
    """

    def __init__(self, type_name: str, types: Types, by_parent: bool = False) -> None:
        self.type_name, self._types, self._by_parent = type_name, types, by_parent
        self._plans: list[_Plan] = []

    def read(self, batch: ColumnBatch, offsets: Offsets) -> tuple[dict[Frame, Poses], list[int]]:
        """
        Read messages of these topics.

        :param offsets: of their records.
        :returns: poses by frame, in the order of the records, and offsets of the messages that
            could not be decoded.
        """
        found: dict[Frame, list[tuple[Offsets, Rows]]] = {}
        unread: list[int] = []
        for plan, table, chosen in self._match(batch, offsets, unread):
            for part in plan.parts:
                found.setdefault(
                    (part.child, part.frame if self._by_parent else part.frame.endswith('_ned')),
                    []).append((chosen, _rows(table, part)))
        result = {}
        for frame, parts in found.items():
            at, rows = parts[0]
            if len(parts) > 1:
                at, rows = (np.concatenate(column) for column in zip(*parts))
                order = np.argsort(at, kind='stable')
                at, rows = at[order], take_rows(rows, order)
            result[frame] = gather(batch.data, at + 9, '<u2'), rows
        return result, unread

    def frames(self, batch: ColumnBatch, offsets: Offsets) -> set[tuple[str, str]]:
        """Return child frame and frame of the poses in messages."""
        return {(part.child, part.frame) for plan, _, _ in self._match(batch, offsets, [])
                for part in plan.parts}

    def _match(
        self, batch: ColumnBatch, offsets: Offsets, unread: list[int],
    ) -> Iterator[tuple[_Plan, Any, Offsets]]:
        """
        Find the plan of each message; make plans for those without.

        :param unread: gets the offsets of messages that could not be decoded.
        :returns: plans with the fields and offsets of their messages.
        """
        lengths = gather(batch.data, offsets + 1, '<u8').astype(np.int64) - 22
        tried = 0
        while len(offsets):
            if tried == len(self._plans):
                plan = self._plan(batch.data[
                    offsets[0] + DATA_AT:offsets[0] + DATA_AT + lengths[0]].tobytes())
                if plan is None:
                    unread.append(int(offsets[0]))
                    offsets, lengths = offsets[1:], lengths[1:]
                    continue
                self._plans.append(plan)
            plan = self._plans[tried]
            tried += 1
            fits = lengths == plan.length
            if not fits.any():
                continue
            chosen = offsets if fits.all() else offsets[fits]
            table: Any = gather(batch.data, chosen, plan.dtype)
            equal = np.ones(len(table), dtype=bool)
            for name, value in plan.constants:
                equal &= table[name] == value
            if not equal.all():
                table, chosen = table[equal], chosen[equal]
                fits[np.flatnonzero(fits)[~equal]] = False
            yield plan, table, chosen
            offsets, lengths = offsets[~fits], lengths[~fits]
        del self._plans[:-_MOST_PLANS]

    def _plan(self, data: bytes) -> Optional[_Plan]:
        """Make a plan for messages like this one; None if it cannot be decoded."""
        try:
            found = list(leaves(data, self._types, self.type_name))
        except (ValueError, KeyError):
            return None
        by_path = {leaf.path: leaf for leaf in found}
        fields, parts = [('log', '<u8', 15)], list[_ColumnPart]()
        if self.type_name == PX4:    # microseconds; NED; w x y z
            try:
                time, position, turn = (
                    by_path[name,] for name in ('timestamp_sample', 'position', 'q'))
            except KeyError:
                return None
            chosen = [time, *(position._replace(at=position.at + position.size // 3 * axis)
                              for axis in range(3)),
                      *(turn._replace(at=turn.at + turn.size // 4 * axis)
                        for axis in (1, 2, 3, 0))]
            parts.append(_ColumnPart('', 'px4_ned', [f'0_{number}' for number in range(8)],
                                     (1000,)))
            fields += [(name, leaf.code, DATA_AT + leaf.at)
                       for name, leaf in zip(parts[0].names, chosen)]
        for base in ([leaf.path[:2] for leaf in found if leaf.path[2:] == ('child_frame_id',)]
                     if self.type_name == TF else [] if self.type_name == PX4 else [()]):
            wanted = [(*base, 'header', 'stamp', 'sec'), (*base, 'header', 'stamp', 'nanosec')]
            place = (*base, *POSES[self.type_name])
            groups = ('translation', 'rotation') if self.type_name == TF else (
                'position', 'orientation')
            wanted += [(*place, group, axis) for group, axes in zip(groups, ('xyz', 'xyzw'))
                       for axis in axes]
            try:
                chosen = [by_path[path] for path in wanted]
                frame = _text(data, by_path[tuple(base) + ('header', 'frame_id')])
                child = '' if self.type_name != TF else _text(
                    data, by_path[tuple(base) + ('child_frame_id',)])
            except KeyError:
                return None
            names = [f'{len(parts)}_{number}' for number in range(9)]
            fields += [(name, leaf.code, DATA_AT + leaf.at) for name, leaf in zip(names, chosen)]
            parts.append(_ColumnPart(child, frame, names))
        # Of a text that is not needed the length alone decides where the other fields are.
        constants = [('0', 0, 4)] + [
            (str(leaf.at), leaf.at, leaf.size if leaf.path[-1] == 'frame_id'
             or self.type_name == TF else 4) for leaf in found if leaf.code in ('text', 'count')]
        fields += [(name, f'S{size}', DATA_AT + at) for name, at, size in constants]
        return _Plan(
            len(data), np.dtype({
                'names': [name for name, _, _ in fields],
                'formats': [code for _, code, _ in fields],
                'offsets': [at for _, _, at in fields], 'itemsize': DATA_AT + len(data)}),
            [(name, data[at:at + size]) for name, at, size in constants],
            parts)


def _rows(table: Any, part: _ColumnPart) -> Rows:
    rows = np.empty(len(table), ROW)
    rows['stamp'] = sum(table[name].astype(np.int64) * unit
                        for name, unit in zip(part.names, part.units_ns))
    log = table['log']
    rows['arrival'] = np.where(log < 1 << 63, log, -1)    # after the year 2262
    for number, name in enumerate(part.names[len(part.units_ns):]):
        rows['pose'][:, number] = table[name]
    return rows


def _text(data: bytes, leaf: Leaf) -> str:
    return data[leaf.at + 4:leaf.at + leaf.size].rstrip(b'\0').decode(errors='replace')


def valid(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows are poses: finite, not absurdly far, with some quaternion."""
    pose = rows['pose']
    with np.errstate(over='ignore', invalid='ignore'):
        norms = np.einsum('ij,ij->i', pose[:, 3:], pose[:, 3:])
        found: npt.NDArray[np.bool_] = np.isfinite(norms) & (norms > 0)
        far = np.abs(pose[:, :3])
        if not far.max(initial=0.0) < _FARTHEST_M:    # seldom, and slow row by row
            found &= (far < _FARTHEST_M).all(axis=1)
    return found
