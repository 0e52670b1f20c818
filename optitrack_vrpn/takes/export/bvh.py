# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Make a BVH file (Biovision hierarchy) of a skeleton from the transforms of its bones in TF.

The hierarchy is that of TF: each bone in its parent (``skeletons.tf_parent: bone``). A BVH file
has centimetres, y up, one frame time, and for each bone a constant place in its parent; the axes
of bones are those that Motive uses with y up, and x of the world is east.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.stats import array_interval
from optitrack_vrpn.takes.columns import Frame, Poses, Rows, take_rows
from optitrack_vrpn.takes.take import trajectory_of
from optitrack_vrpn.takes.trajectory import interpolate
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
#: Chosen: the longest gap (ns) that is filled by interpolation.
GAP_NS = 100_000_000
#: Order of the rotations in the file, and digits of its numbers: 1e-8 m and 2e-8 rad.
_ORDER, _FORMAT, _CM = 'ZXY', '%.6f', 100.0


class BvhLink(NamedTuple):
    """The poses of one frame in its parent, in blocks."""

    parent: str
    blocks: list[Rows]

    @property
    def rows(self) -> Rows:
        """Return the poses whose stamps rise."""
        table: Rows = np.concatenate(self.blocks)
        last = np.maximum.accumulate(table['stamp'])[:-1]
        return take_rows(table, np.flatnonzero(np.append(True, table['stamp'][1:] > last)))


def add_transforms(links: dict[str, BvhLink], found: Mapping[Frame, Poses]) -> None:
    """Add the transforms of a batch of messages, see ``PoseColumns``."""
    for (child, parent), (_, rows) in sorted(found.items(), key=lambda item: int(
            item[1][1]['stamp'][-1])):
        if child not in links or links[child].parent != parent:    # a user changed a setting
            links[child] = BvhLink(str(parent), [])
        links[child].blocks.append(rows)


class BvhSkeleton(NamedTuple):
    """A tree of frames whose names begin with the name of the skeleton; a parent comes first."""

    name: str
    frames: tuple[str, ...]
    parents: tuple[int, ...]

    def joint(self, number: int) -> str:
        """Return the name of a bone without that of the skeleton."""
        return self.frames[number][len(self.name) + 1:]


def find_skeletons(links: Mapping[str, BvhLink]) -> dict[str, BvhSkeleton]:
    """Find the skeletons among the frames of TF, by name."""
    children: dict[str, list[str]] = {}
    for child, link in links.items():
        children.setdefault(link.parent, []).append(child)
    found = {}
    for root, link in links.items():
        if link.parent in links or root not in children:
            continue
        frames, parents, waiting = [root], [-1], [0]
        while waiting:
            number = waiting.pop()
            for child in children.get(frames[number], ()):
                waiting.append(len(frames))
                frames.append(child)
                parents.append(number)
        name = _common(frames).rpartition('_')[0]
        if name:
            found[name] = BvhSkeleton(name, tuple(frames), tuple(parents))
    return found


def _common(names: Sequence[str]) -> str:
    """Return the longest beginning that all names have."""
    first, last = min(names), max(names)
    return next((first[:i] for i, letter in enumerate(first) if last[i:i + 1] != letter), first)


def choose_skeleton(links: Mapping[str, BvhLink], names: tuple[str, ...]) -> BvhSkeleton:
    """
    Choose the skeleton to export.

    :param names: by name; may be empty if there is one only.
    :raises ConfigurationError: if there is none of that name, or several.
    """
    found = find_skeletons(links)
    if not found:
        raise ConfigurationError(
            'the recording contains no skeleton in TF whose bones are in their parents: record '
            'with outputs skeleton_tf and skeletons.tf_parent bone')
    if len(names) > 1 or (not names and len(found) > 1) or not found.keys() >= set(names):
        raise ConfigurationError(
            f'a BVH file holds one skeleton: choose it with --body ({", ".join(sorted(found))})')
    return found[names[0] if names else next(iter(found))]


class BvhMotion(NamedTuple):
    """
    Poses of all bones in their parents in even steps.

    :ivar step_s: time from frame to frame (s).
    :ivar positions: (frames, bones, 3) m; ``quats_xyzw`` (frames, bones, 4).
    :ivar filled: number of frames that were interpolated.
    :ivar left_out: number of recorded frames that are not in the file.
    """

    step_s: float
    positions: Array
    quats_xyzw: Array
    filled: int
    left_out: int


def make_motion(
    links: Mapping[str, BvhLink], skeleton: BvhSkeleton, start_s: float = 0.0,
    end_s: float = np.inf,
) -> BvhMotion:
    """
    Take the longest part without a gap; frames that lack a bone are interpolated.

    :param start_s: begin, seconds after the first frame; ``end_s`` likewise.

    :raises ConfigurationError: if no two frames follow each other.
    """
    parts = [links[frame].rows for frame in skeleton.frames]
    every = np.unique(np.concatenate([part['stamp'] for part in parts]))
    seconds = (every - every[0]) * 1e-9
    every = every[(seconds >= start_s) & (seconds <= end_s)]
    whole = every
    for part in parts:
        whole = np.intersect1d(whole, part['stamp'], assume_unique=True)
    if len(whole) < 2:
        raise ConfigurationError(
            f'skeleton {skeleton.name}: no two frames contain all its bones')
    # Numbers of frames from one to the next: the sum of their rounded distances does not drift.
    step_ns = array_interval(np.diff(every))
    numbers = np.concatenate(([0], np.cumsum(np.rint(np.diff(whole) / step_ns)))).astype(int)
    keep = np.concatenate(([True], np.diff(numbers) > 0))
    whole, numbers = whole[keep], numbers[keep]
    edges = np.flatnonzero(np.diff(whole) > max(GAP_NS, 1.5 * step_ns)) + 1
    begin, end = max(zip([0, *edges], [*edges, len(whole)]), key=lambda part: part[1] - part[0])
    if end - begin < 2:
        raise ConfigurationError(f'skeleton {skeleton.name}: each frame is followed by a gap')
    stamps, numbers = whole[begin:end], numbers[begin:end] - numbers[begin]
    # The time of a frame that lacks a bone is that of its number.
    times = np.rint(np.interp(np.arange(numbers[-1] + 1), numbers, stamps - stamps[0])).astype(
        np.int64) + stamps[0]
    made = [interpolate(trajectory_of(part[np.searchsorted(part['stamp'], stamps)]), times,
                        int(times[-1] - times[0])) for part in parts]
    positions = np.stack([places for places, _, _ in made], axis=1)
    quats = np.stack([turns for _, turns, _ in made], axis=1)
    count = len(times)
    return BvhMotion((stamps[-1] - stamps[0]) * 1e-9 / numbers[-1], positions, quats,
                     count - len(stamps), len(every) - len(stamps))


class Written(NamedTuple):
    """
    A BVH file.

    :ivar deviation_m: largest distance of a bone from its constant place in its parent.
    """

    text: str
    deviation_m: float


def format_bvh(skeleton: BvhSkeleton, motion: BvhMotion, raw: bool = False) -> Written:
    """
    Write a BVH file.

    :param raw: whether the axes stay as they were recorded; else those of the world (ENU) and of
        the bones (FLU) are turned to y up: x, y, z of the file are x, z, -y.
    """
    axes, signs = ([0, 1, 2], [1.0, 1.0, 1.0]) if raw else ([0, 2, 1], [1.0, 1.0, -1.0])
    positions = motion.positions[:, :, axes] * signs * _CM
    quats = motion.quats_xyzw[:, :, [*axes, 3]] * [*signs, 1.0]
    offsets = np.median(positions, axis=0)
    offsets[0] = 0.0
    away = np.linalg.norm(positions[:, 1:] - offsets[1:], axis=2)
    order = _depth_first(skeleton.parents)
    angles = [_angles(Rotation.from_quat(quats[:, i]).as_matrix()) for i in order]
    table = np.concatenate([positions[:, 0], *angles], axis=1)
    lines = ['HIERARCHY', *_hierarchy(skeleton, offsets, 0, 0), 'MOTION',
             f'Frames: {len(table)}', f'Frame Time: {motion.step_s:.9f}']
    lines += [' '.join([_FORMAT % value for value in row]) for row in table.tolist()]
    return Written('\n'.join(lines) + '\n', float(away.max(initial=0.0)) / _CM)


def _angles(turn: Array) -> Array:
    """
    Convert rotation matrices (n, 3, 3) to degrees about z, the new x and the new y.

    In gimbal lock (x by 90 degrees) the angle about y is 0.
    """
    level = np.hypot(turn[:, 2, 0], turn[:, 2, 2])
    locked = level < 1e-9
    z = np.where(locked, np.arctan2(turn[:, 1, 0], turn[:, 0, 0]),
                 np.arctan2(-turn[:, 0, 1], turn[:, 1, 1]))
    y = np.where(locked, 0.0, np.arctan2(-turn[:, 2, 0], turn[:, 2, 2]))
    found: Array = np.degrees(np.stack((z, np.arctan2(turn[:, 2, 1], level), y), axis=1))
    return found


def _depth_first(parents: tuple[int, ...], number: int = 0) -> list[int]:
    """Return the order of the joints in the file."""
    return [number, *(each for child, parent in enumerate(parents) if parent == number
                      for each in _depth_first(parents, child))]


def _hierarchy(skeleton: BvhSkeleton, offsets: Array, number: int, depth: int) -> list[str]:
    """Write a joint and those below it."""
    space, inner = '\t' * depth, '\t' * (depth + 1)
    turns = ' '.join(f'{axis}rotation' for axis in _ORDER)
    place = ' '.join(_FORMAT % value for value in offsets[number])
    channels = f'3 {turns}' if depth else f'6 Xposition Yposition Zposition {turns}'
    lines = [f'{space}{"JOINT" if depth else "ROOT"} {skeleton.joint(number)}', f'{space}{{',
             f'{inner}OFFSET {place}', f'{inner}CHANNELS {channels}']
    children = [child for child, parent in enumerate(skeleton.parents) if parent == number]
    for child in children:
        lines += _hierarchy(skeleton, offsets, child, depth + 1)
    if not children:    # readers demand an end
        lines += [f'{inner}End Site', f'{inner}{{', f'{inner}\tOFFSET 0.0 0.0 0.0', f'{inner}}}']
    return [*lines, f'{space}}}']
