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
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.recording.cdr import Leaf, leaves, Path, Types
from optitrack_vrpn.recording.mcap_format import Record
from optitrack_vrpn.units import NS_PER_S

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
    'tf2_msgs/msg/TFMessage': ('transform',)}
TF = 'tf2_msgs/msg/TFMessage'


class Batch(NamedTuple):
    """
    Records of a bag in file order.

    :ivar data: the bytes.
    :ivar offsets: where message records begin, ascending.
    :ivar others: schemas, channels and metadata that were found before or among them.
    """

    data: Bytes
    offsets: Offsets
    others: list[Record]

    def field(self, at: int, code: str) -> npt.NDArray[np.generic]:
        """Return a field of each message record at this offset in it."""
        return gather(self.data, self.offsets + at, code)


def gather(data: Bytes, offsets: Offsets, code: object) -> npt.NDArray[np.generic]:
    """Return the values of a numpy type at any offsets, which must be within the data."""
    dtype = np.dtype(code)  # type: ignore[call-overload]
    count = max(len(data) - dtype.itemsize + 1, 0)
    found: npt.NDArray[np.generic] = np.ndarray(
        (count,), dtype, data, strides=(1,))[offsets]
    return found


class _Part(NamedTuple):
    """One pose of a plan: its child frame ('' but for transforms), its frame, its fields."""

    child: str
    frame: str
    names: list[str]


class _Plan(NamedTuple):
    length: int
    dtype: np.dtype[np.void]
    constants: list[tuple[str, npt.NDArray[np.uint8]]]
    parts: list[_Part]


class PoseColumns:
    """
    Read the poses of one topic.

    :param type_name: a key of ``POSES``.
    :param types: its definition.
    :ivar unread: number of messages that could not be decoded.
    """

    def __init__(self, type_name: str, types: Types) -> None:
        self._type, self._types = type_name, types
        self._plans: list[_Plan] = []
        self.unread = 0

    def read(self, batch: Batch, offsets: Offsets) -> Iterator[tuple[str, bool, Rows]]:
        """
        Read messages of this topic.

        :param offsets: of their records.
        :returns: child frame, whether the frame is in NED, and poses in the order of the records.
        """
        found: dict[tuple[str, bool], list[tuple[Offsets, Rows]]] = {}
        lengths = gather(batch.data, offsets + 1, '<u8').astype(np.int64) - 22
        tried = 0
        while len(offsets):
            if tried == len(self._plans):
                plan = self._plan(batch.data[
                    offsets[0] + DATA_AT:offsets[0] + DATA_AT + lengths[0]].tobytes())
                if plan is None:
                    self.unread += 1
                    offsets, lengths = offsets[1:], lengths[1:]
                    continue
                self._plans.append(plan)
            plan = self._plans[tried]
            tried += 1
            fits = lengths == plan.length
            if not fits.any():
                continue
            table: Any = gather(batch.data, offsets[fits], plan.dtype)
            equal = np.ones(len(table), dtype=bool)
            for name, value in plan.constants:
                equal &= (table[name] == value).all(axis=1)
            if not equal.all():
                table = table[equal]
                fits[np.flatnonzero(fits)[~equal]] = False
            for part in plan.parts:
                found.setdefault((part.child, part.frame.endswith('_ned')), []).append(
                    (offsets[fits], self._rows(table, part)))
            offsets, lengths = offsets[~fits], lengths[~fits]
        del self._plans[:-_MOST_PLANS]
        for (child, ned), parts in found.items():
            rows = parts[0][1] if len(parts) == 1 else np.concatenate([r for _, r in parts])[
                np.argsort(np.concatenate([at for at, _ in parts]), kind='stable')]
            yield child, ned, rows[rows['arrival'] >= 0]

    def _rows(self, table: Any, part: _Part) -> Rows:
        # After the year 2262 an arrival has no int64: it is negative, and left out.
        self.unread += int((table['log'] >= 2**63).sum())
        rows = np.empty(len(table), ROW)
        sec, nanosec, *values = part.names
        rows['stamp'] = table[sec].astype(np.int64) * NS_PER_S + table[nanosec]
        rows['arrival'] = table['log']
        for number, name in enumerate(values):
            rows['pose'][:, number] = table[name]
        return rows

    def _plan(self, data: bytes) -> Optional[_Plan]:
        """Make a plan for messages like this one; None if it cannot be decoded."""
        try:
            found = list(leaves(data, self._types, self._type.replace('/msg/', '/')))
        except (ValueError, KeyError):
            return None
        by_path = {leaf.path: leaf for leaf in found}
        fields, parts = [('log', '<u8', 15)], list[_Part]()
        for base in ([leaf.path[:2] for leaf in found if leaf.path[2:] == ('child_frame_id',)]
                     if self._type == TF else [()]):
            wanted = [(*base, 'header', 'stamp', 'sec'), (*base, 'header', 'stamp', 'nanosec')]
            place = (*base, *POSES[self._type])
            groups = ('translation', 'rotation') if self._type == TF else (
                'position', 'orientation')
            wanted += [(*place, group, axis) for group, axes in zip(groups, ('xyz', 'xyzw'))
                       for axis in axes]
            try:
                chosen = [by_path[path] for path in wanted]
                frame = _text(data, by_path[tuple(base) + ('header', 'frame_id')])
                child = '' if self._type != TF else _text(
                    data, by_path[tuple(base) + ('child_frame_id',)])
            except KeyError:
                return None
            names = [f'{len(parts)}_{number}' for number in range(9)]
            fields += [(name, leaf.code, DATA_AT + leaf.at) for name, leaf in zip(names, chosen)]
            parts.append(_Part(child, frame, names))
        constants = [('0', 0, 4)] + [
            (str(leaf.at), leaf.at, leaf.size) for leaf in found if leaf.code in ('text', 'count')]
        fields += [(name, f'{size}u1', DATA_AT + at) for name, at, size in constants]
        return _Plan(
            len(data), np.dtype({
                'names': [name for name, _, _ in fields],
                'formats': [code for _, code, _ in fields],
                'offsets': [at for _, _, at in fields], 'itemsize': DATA_AT + len(data)}),
            [(name, np.frombuffer(data, np.uint8, size, at)) for name, at, size in constants],
            parts)


def _text(data: bytes, leaf: Leaf) -> str:
    return data[leaf.at + 4:leaf.at + leaf.size].rstrip(b'\0').decode(errors='replace')


def valid(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows are poses: finite, not absurdly far, with a quaternion other than zero."""
    pose = rows['pose']
    with np.errstate(over='ignore', invalid='ignore'):
        norms = np.einsum('ij,ij->i', pose[:, 3:], pose[:, 3:])
        found: npt.NDArray[np.bool_] = (
            (np.abs(pose[:, :3]) < _FARTHEST_M).all(axis=1) & np.isfinite(norms) & (norms > 0))
    return found
