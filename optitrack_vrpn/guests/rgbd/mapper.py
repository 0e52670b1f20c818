# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Map a place: append keyframes, the graph of the motions between them, the corrected path, the map.

Odometry edges join successive keyframes; loop edges join keyframes of the same place. The variance
of an odometry edge is the growth of the variance of its pose plus a constant. Where
odometry lost track, its variance grows by a large amount, so the loops determine the result.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.core.space import slerp
from optitrack_vrpn.guests.rgbd.features import (
    depth_mixture, describe, FeatureTuning, Loop, Places, View)
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, motion_of, transformed
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth, grey_of, pack_depth, unpack_depth
from optitrack_vrpn.guests.rgbd.posegraph import (
    diagonal_information, Edge, optimise_without_outliers)
from optitrack_vrpn.takes.trajectory import Trajectory
from scipy.spatial.transform import Rotation


#: Chosen: pixels with a larger deviation of depth (m), such as those at depth edges, become no
#: points.
_MAX_STDEV_M = 0.03
#: Chosen: least standard deviations of the motion between successive keyframes by odometry (m,
#: rad), and most poses of the path; when it is full, every second pose is dropped.
ODOMETRY_M, ODOMETRY_RAD = 0.01, 0.005
PATH_LENGTH = 100_000


@checked
@dataclass(frozen=True)
class MapperSettings:
    """Settings of the mapping method."""

    keyframe_distance_m: float = setting(
        0.25, unit='m', low=0.0, high=100.0,
        doc='a frame becomes a keyframe when the camera has moved farther since the last one')
    keyframe_angle_rad: float = setting(
        0.35, unit='rad', low=0.0, high=3.2, doc='or has turned by more than this')
    most_keyframes: int = setting(
        2000, low=2, high=100000,
        doc='most keyframes; each takes 0.4 MB at QVGA and 1.6 MB at VGA')
    max_range_m: float = setting(
        5.0, unit='m', low=0.1, high=100.0, doc='pixels farther away become no points')
    depth_noise: float = setting(
        0.001425, unit='1/m', low=0.0, high=0.1,
        doc='standard deviation of the depth z is this times z squared')
    max_z_m: float = setting(
        100.0, unit='m', low=-1000.0, high=1000.0,
        doc='higher points of the map are left out, such as those of a ceiling')
    voxel_m: float = setting(
        0.01, unit='m', low=0.001, high=1.0,
        doc='the points of the map within a cube of this size are replaced by their mean')


@dataclass(eq=False)
class Keyframe:
    """
    A stored frame.

    :ivar number: index, from 0.
    :ivar odometry: 4x4, pose of the camera by odometry, in the frame of the odometry.
    :ivar variances: variances of that pose: of a coordinate (m2) and of a rotation (rad2).
    :ivar pose: 4x4, pose of the camera in the map.
    :ivar colour: (height, width, 3) RGB.
    :ivar depth: (height, width) uint16, millimetres, 0 for none; half the memory
        of float32.
    :ivar view: features for place recognition.
    :ivar joined: the motion since the previous keyframe is known from odometry.
    """

    number: int
    stamp_ns: int
    odometry: Floats
    variances: tuple[float, float]
    pose: Floats
    colour: Bytes
    depth: NDArray[np.uint16]
    camera: Intrinsics
    view: View
    joined: bool = True

    @property
    def correction(self) -> Floats:
        """Return map_from_odometry at this keyframe, 4x4."""
        return self.pose @ np.linalg.inv(self.odometry)


def points_of(keyframe: Keyframe, settings: MapperSettings) -> tuple[Floats, Bytes]:
    """Return points (N, 3; m, optical frame) and colours (N, 3) of a keyframe."""
    depth = unpack_depth(keyframe.depth)
    rows, columns = np.nonzero((depth > 0) & (depth <= settings.max_range_m))
    pixels = np.stack([columns, rows], axis=1).astype(float)
    mean, variance, valid = depth_mixture(depth, pixels, settings.depth_noise)
    valid &= (variance <= _MAX_STDEV_M ** 2) & (mean <= settings.max_range_m)
    return (keyframe.camera.rays(pixels[valid]) * mean[valid][:, None],
            keyframe.colour[rows[valid], columns[valid]])


def voxel_means(points: Floats, colours: Bytes, size_m: float) -> tuple[Floats, Bytes]:
    """Replace the points within each cube of a grid of ``size_m`` by their mean."""
    cells = np.floor(points / size_m).astype(np.int64)
    cells -= cells.min(axis=0, initial=0)
    keys = np.ravel_multi_index(tuple(cells.T), tuple(cells.max(axis=0, initial=0) + 1))
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    means, tones = (np.stack([np.bincount(places, column) for column in columns.T], axis=1)
                    / counts[:, None] for columns in (points, colours))
    return means, np.rint(tones).astype(np.uint8)


def packed_colours(colours: Bytes) -> NDArray[np.float32]:
    """Return colours (N, 3) as 0x00RRGGBB in the bits of a float, (N,), the format of PCL."""
    red, green, blue = np.asarray(colours, np.uint32).reshape(-1, 3).T
    return (red << 16 | green << 8 | blue).astype('<u4').view('<f4')


def pcd_bytes(points: Floats, colours: Bytes) -> bytes:
    """
    Encode a cloud as a binary PCD file of version 0.7 with the fields x, y, z and rgb.

    Layout: Point Cloud Library, "The PCD file format"; rgb is 0x00RRGGBB in the bits of a float.

    :param points: (N, 3), metres.
    :param colours: (N, 3) RGB.
    """
    count = len(points)
    header = (
        '# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z rgb\n'
        f'SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH {count}\nHEIGHT 1\n'
        f'VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {count}\nDATA binary\n')
    rows = np.column_stack([points.astype('<f4'), packed_colours(colours)])
    return header.encode('ascii') + rows.tobytes()


class Solved(NamedTuple):
    """
    Summary of a solution.

    :ivar edges: number of edges, odometry and loops.
    :ivar loops: number of loop edges.
    :ivar outliers: number of loop edges that contradict the rest and were left out.
    :ivar moved_m: greatest displacement of a keyframe (m).
    """

    keyframes: int
    edges: int
    loops: int
    outliers: int
    moved_m: float


class LoopEdge(NamedTuple):
    """Two keyframes of the same place; ``left_out``: an outlier in the last solution."""

    start: int
    end: int
    loop: Loop
    left_out: bool = False


@dataclass
class OdometryPath:
    """Poses by odometry, with bounded memory."""

    most: int = PATH_LENGTH
    every: int = 1
    skipped: int = 0
    stamps: list[int] = field(default_factory=list)
    poses: list[Floats] = field(default_factory=list)

    def add(self, stamp_ns: int, pose: Floats) -> None:
        self.skipped += 1
        if self.skipped < self.every or (self.stamps and stamp_ns <= self.stamps[-1]):
            return
        self.skipped = 0
        self.stamps.append(stamp_ns)
        self.poses.append(pose)
        if len(self.stamps) > self.most:
            self.every *= 2
            del self.stamps[1::2], self.poses[1::2]


class Mapper:
    """
    Store keyframes and their graph.

    The map frame is the odometry frame at the first keyframe.

    :ivar keyframes: all keyframes, in order of time.
    :ivar loops: all loop edges.
    :ivar refused: frames that were due but exceeded ``most_keyframes``.
    """

    def __init__(self, settings: Optional[MapperSettings] = None) -> None:
        self.settings = settings or MapperSettings()
        self.clear()

    def clear(self) -> None:
        """Delete all keyframes, loops and the path."""
        self.keyframes: list[Keyframe] = []
        self.loops: list[LoopEdge] = []
        self.refused = 0
        self._places = Places()
        self._path = OdometryPath()
        self._clouds: dict[int, tuple[NDArray[np.float32], Bytes]] = {}
        self._alone = False    # True: no odometry edge joins the next keyframe to the last one

    # -- input ---------------------------------------------------------------------------------

    def add_pose(self, stamp_ns: int, odometry: Floats) -> None:
        """Append a pose (4x4, camera in the frame of the odometry) to the path."""
        self._path.add(stamp_ns, odometry)

    def is_due(self, odometry: Floats) -> bool:
        """Return True if a frame at a pose is far enough from the last keyframe to become one."""
        limits = self.settings
        if self.keyframes and not self._alone:
            moved, turned = motion_of(np.linalg.inv(self.keyframes[-1].odometry) @ odometry)
            if moved <= limits.keyframe_distance_m and turned <= limits.keyframe_angle_rad:
                return False
        full = len(self.keyframes) >= limits.most_keyframes
        self.refused += full
        return not full

    def add_keyframe(
        self, stamp_ns: int, odometry: Floats, variances: tuple[float, float], colour: Bytes,
        depth: Depth, camera: Intrinsics,
    ) -> Keyframe:
        """
        Store a frame as a keyframe.

        :param odometry: 4x4 pose of the camera in the frame of the odometry.
        :param variances: variances of that pose: of a coordinate (m2) and of a rotation (rad2).
        :param colour: (height, width, 3) RGB.
        :param depth: (height, width), metres, 0 for none.
        :raises ImageError: if the sizes of images and camera differ.
        """
        pose = odometry if not self.keyframes else self.keyframes[-1].correction @ odometry
        keyframe = Keyframe(
            len(self.keyframes), stamp_ns, odometry, variances, pose, np.array(colour),
            pack_depth(depth), camera, View(), bool(self.keyframes) and not self._alone)
        return self._append(keyframe, self._view(keyframe))

    def restore(self, keyframes: list[Keyframe], path: Optional[Trajectory] = None) -> None:
        """
        Replace the map by keyframes of an earlier run, and compute their views.

        Only loops join the next new keyframe to them.

        :param path: poses by odometry.
        :raises ImageError: if a keyframe is inconsistent; the map then stays unchanged.
        """
        views = [self._view(keyframe) for keyframe in keyframes]
        self.clear()
        for keyframe, view in zip(keyframes, views):
            self._append(keyframe, view)
        if path is not None:
            for stamp, pose in zip(path.stamps_ns.tolist(), path.matrices):
                self._path.add(stamp, pose)
        self._alone = True

    def start_run(self) -> None:
        """Begin a new run of odometry with an unknown origin."""
        self._alone = bool(self.keyframes)

    # -- graph ---------------------------------------------------------------------------------

    def find_loops(self, number: int) -> int:
        """Search earlier keyframes for the place of a keyframe; count the added loops."""
        known = {(each.start, each.end) for each in self.loops}
        found = [LoopEdge(start, number, loop) for start, loop in self._places.loops(number)
                 if (start, number) not in known]
        self.loops.extend(found)
        return len(found)

    def generate_graph(self) -> int:
        """Search all loops again, and return their number."""
        self.loops = []
        for number in range(len(self.keyframes)):
            self.find_loops(number)
        return len(self.loops)

    def edges(self) -> list[Edge]:
        """Return the odometry edges, then the loop edges."""
        return [
            *(Edge(before.number, after.number, np.linalg.inv(before.odometry) @ after.odometry,
                   self._information(before, after))
              for before, after in zip(self.keyframes, self.keyframes[1:])),
            *(Edge(each.start, each.end, each.loop.transform, each.loop.information, True)
              for each in self.loops)]

    def solve(self) -> Solved:
        """Optimise the graph, and move the keyframes."""
        if not self.keyframes:
            raise ConfigurationError('there is no keyframe yet')
        before = np.array([each.pose for each in self.keyframes])
        edges = self.edges()
        solution, outliers = optimise_without_outliers(self._guess(before), edges)
        for keyframe, pose in zip(self.keyframes, solution.poses):
            keyframe.pose = pose.copy()
        own = len(edges) - len(self.loops)
        self.loops = [each._replace(left_out=bool(wrong))
                      for each, wrong in zip(self.loops, outliers[own:])]
        moved = np.linalg.norm(solution.poses[:, :3, 3] - before[:, :3, 3], axis=1)
        return Solved(len(self.keyframes), len(edges), len(self.loops),
                      int(np.count_nonzero(outliers)), float(moved.max()))

    # -- results -------------------------------------------------------------------------------

    @property
    def map_from_odometry(self) -> Floats:
        """Return the correction at the last keyframe, 4x4; identity without keyframes."""
        return self.keyframes[-1].correction if self.keyframes else np.eye(4)

    def path(self) -> Trajectory:
        """
        Return the path of the camera in the map.

        Between two keyframes, a pose is interpolated by time between the results of both
        corrections (linear for positions, slerp for rotations).
        """
        if not (self._path.stamps and self.keyframes):
            return self.odometry_path()
        stamps, poses = np.array(self._path.stamps), np.array(self._path.poses)
        corrections = np.array([each.correction for each in self.keyframes])
        marks = np.array([each.stamp_ns for each in self.keyframes])
        after = np.clip(np.searchsorted(marks, stamps, side='right'), 0, len(marks) - 1)
        before = np.maximum(after - 1, 0)
        span = np.maximum(marks[after] - marks[before], 1)
        share = np.clip((stamps - marks[before]) / span, 0.0, 1.0)
        first, second = corrections[before] @ poses, corrections[after] @ poses
        positions = first[:, :3, 3] + share[:, None] * (second[:, :3, 3] - first[:, :3, 3])
        rotations = slerp(Rotation.from_matrix(first[:, :3, :3]),
                          Rotation.from_matrix(second[:, :3, :3]), share)
        return Trajectory(stamps, positions, rotations.as_quat())

    def odometry_path(self) -> Trajectory:
        """Return the path of the camera by odometry alone."""
        return Trajectory.from_matrices(self._path.stamps, self._path.poses)

    def cloud(self, keyframe: Keyframe) -> tuple[Floats, Bytes]:
        """Return the points of a keyframe in the map, (N, 3), and their colours."""
        points, colours = points_of(keyframe, self.settings)
        return transformed(keyframe.pose, points), colours

    def map_cloud(self) -> tuple[Floats, Bytes]:
        """Return the points of all keyframes in the map, one for each voxel, and their colours."""
        settings = self.settings
        points, colours = [np.zeros((0, 3))], [np.zeros((0, 3), np.uint8)]
        for keyframe in self.keyframes:
            if keyframe.number not in self._clouds:
                own, tones = voxel_means(*points_of(keyframe, settings), settings.voxel_m)
                self._clouds[keyframe.number] = own.astype(np.float32), tones
            thinned, tones = self._clouds[keyframe.number]
            own = transformed(keyframe.pose, thinned.astype(float))
            low = own[:, 2] <= settings.max_z_m
            points.append(own[low])
            colours.append(tones[low])
        return voxel_means(np.concatenate(points), np.concatenate(colours), settings.voxel_m)

    # -- parts ---------------------------------------------------------------------------------

    def _append(self, keyframe: Keyframe, view: View) -> Keyframe:
        keyframe.number, keyframe.view = len(self.keyframes), view
        self.keyframes.append(keyframe)
        self._places.add(view)
        self._alone = False
        return keyframe

    def _view(self, keyframe: Keyframe) -> View:
        return describe(
            grey_of(keyframe.colour), unpack_depth(keyframe.depth), keyframe.camera, FeatureTuning(
                max_range_m=self.settings.max_range_m, max_stdev_m=_MAX_STDEV_M,
                depth_noise=self.settings.depth_noise))

    def _information(self, before: Keyframe, after: Keyframe) -> Floats:
        if not after.joined:
            return diagonal_information(100.0, 3.0)    # any motion
        grown = [max(0.0, b - a) for a, b in zip(before.variances, after.variances)]
        return diagonal_information(*(float(np.hypot(least, grown_by ** 0.5)) for least, grown_by
                                      in zip((ODOMETRY_M, ODOMETRY_RAD), grown)))

    def _guess(self, poses: Floats) -> Floats:
        """Place each run at its loop with the most inliers, as a start of the optimisation."""
        guess: Floats = np.array(poses)
        for keyframe in self.keyframes[1:]:
            if keyframe.joined:
                continue
            first = keyframe.number
            last = next((each.number for each in self.keyframes[first + 1:] if not each.joined),
                        len(poses))
            bridge = next((each for each in sorted(self.loops, key=lambda e: -e.loop.inliers)
                           if each.start < first <= each.end < last), None)
            if bridge is not None:
                placed = guess[bridge.start] @ bridge.loop.transform
                guess[first:last] = placed @ np.linalg.inv(guess[bridge.end]) @ guess[first:last]
        return guess
