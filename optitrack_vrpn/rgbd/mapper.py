# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Map a place: append keyframes, the graph of the motions between them, the corrected path, the map.

Odometry edges join successive keyframes; loop edges join keyframes of the same place. The variance
of an odometry edge is the growth of the variance of its pose plus that of the settings. Where
odometry lost track, its variance grows by a large amount, so the loops determine the result.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording import slerp, Trajectory
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.features import FeatureSettings
from optitrack_vrpn.rgbd.images import Bytes, Depth, grey_of, pack_depth, unpack_depth
from optitrack_vrpn.rgbd.keyframes import (
    CloudSettings, is_due, Keyframe, KeyframeSettings, points_of, voxel_means)
from optitrack_vrpn.rgbd.loops import describe, Loop, LoopSettings, Places
from optitrack_vrpn.rgbd.posegraph import diagonal_information, Edge, optimise_without_outliers
from optitrack_vrpn.rgbd.transforms import transformed
from optitrack_vrpn.settings import checked, section, setting
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]

#: Chosen: standard deviations (m, rad) of an unknown motion between keyframes, such as between a
#: loaded map and a new run; they allow any motion.
_UNKNOWN_M, _UNKNOWN_RAD = 100.0, 3.0


@checked
@dataclass(frozen=True)
class GraphSettings:
    """The pose graph."""

    odometry_m: float = setting(
        0.01, unit='m', low=1e-5, high=10.0,
        doc='least standard deviation of the translation between successive keyframes by '
        'odometry')
    odometry_rad: float = setting(
        0.005, unit='rad', low=1e-5, high=3.0,
        doc='least standard deviation of the rotation between them')
    path_length: int = setting(
        100000, low=100, high=10000000,
        doc='most poses of the path; when it is full, every second pose is dropped')


@checked
@dataclass(frozen=True)
class MapperSettings:
    """Settings of the mapping method."""

    keyframes: KeyframeSettings = section(KeyframeSettings(), doc='selection of keyframes')
    cloud: CloudSettings = section(CloudSettings(), doc='clouds')
    loops: LoopSettings = section(LoopSettings(), doc='loop edges')
    graph: GraphSettings = section(GraphSettings(), doc='the pose graph')


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
class _Path:
    """Poses by odometry, with bounded memory."""

    most: int
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
    :ivar refused: frames that were due but exceeded ``keyframes.most``.
    """

    def __init__(self, settings: Optional[MapperSettings] = None) -> None:
        self.settings = settings or MapperSettings()
        self.keyframes: list[Keyframe] = []
        self.loops: list[LoopEdge] = []
        self.refused = 0
        self._places = Places(self.settings.loops)
        self._path = _Path(self.settings.graph.path_length)
        self._clouds: dict[int, tuple[NDArray[np.float32], Bytes]] = {}
        self._alone = False    # True: no odometry edge joins the next keyframe to the last one

    # -- input ---------------------------------------------------------------------------------

    def add_pose(self, stamp_ns: int, odometry: Floats) -> None:
        """
        Append a pose to the path.

        :param odometry: 4x4 pose of the camera in the frame of the odometry.
        """
        self._path.add(stamp_ns, odometry)

    def is_due(self, odometry: Floats) -> bool:
        """Return True if a frame at a pose must become a keyframe."""
        last = self.keyframes[-1].odometry if self.keyframes and not self._alone else None
        if not is_due(odometry, last, self.settings.keyframes):
            return False
        if len(self.keyframes) >= self.settings.keyframes.most:
            self.refused += 1
            return False
        return True

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
        packed = pack_depth(depth)
        view = describe(grey_of(colour), unpack_depth(packed), camera, self.settings.loops,
                        self._limits())
        pose = odometry if not self.keyframes else self.keyframes[-1].correction @ odometry
        return self._append(Keyframe(
            len(self.keyframes), stamp_ns, odometry, variances, pose, np.array(colour), packed,
            camera, view, bool(self.keyframes) and not self._alone))

    def restore(self, keyframes: list[Keyframe], path: Optional[Trajectory] = None) -> None:
        """
        Replace the map by keyframes of an earlier run, and compute their views.

        Only loops join the next new keyframe to them.

        :param path: poses by odometry.
        :raises ImageError: if a keyframe is inconsistent; the map then stays unchanged.
        """
        described = []
        for keyframe in keyframes:
            view = describe(grey_of(keyframe.colour), unpack_depth(keyframe.depth),
                            keyframe.camera, self.settings.loops, self._limits())
            described.append((keyframe, view))
        self.clear()
        for keyframe, view in described:
            keyframe.view = view
            self._append(keyframe)
        if path is not None:
            for stamp, pose in zip(path.stamps_ns.tolist(), path.matrices):
                self._path.add(stamp, pose)
        self._alone = True

    def clear(self) -> None:
        """Delete all keyframes, loops and the path."""
        self.keyframes, self.loops, self._alone, self.refused = [], [], False, 0
        self._places = Places(self.settings.loops)
        self._path = _Path(self.settings.graph.path_length)
        self._clouds.clear()

    def start_run(self) -> None:
        """Begin a new run of odometry with an unknown origin."""
        self._alone = bool(self.keyframes)

    # -- graph ---------------------------------------------------------------------------------

    def find_loops(self, number: int) -> int:
        """
        Search earlier keyframes for the place of a keyframe.

        :returns: number of added loops.
        """
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
        edges = []
        for before, after in zip(self.keyframes, self.keyframes[1:]):
            edges.append(Edge(
                before.number, after.number, np.linalg.inv(before.odometry) @ after.odometry,
                self._information(before, after)))
        edges.extend(Edge(each.start, each.end, each.loop.transform, each.loop.information, True)
                     for each in self.loops)
        return edges

    def solve(self) -> Solved:
        """
        Optimise the graph, and move the keyframes.

        :raises ConfigurationError: without keyframes.
        """
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
        points, colours = points_of(keyframe, self.settings.cloud)
        return transformed(keyframe.pose, points), colours

    def map_cloud(self) -> tuple[Floats, Bytes]:
        """Return the points of all keyframes in the map, one for each voxel, and their colours."""
        settings = self.settings.cloud
        clouds = []
        for keyframe in self.keyframes:
            points, colours = self._thinned(keyframe)
            points = transformed(keyframe.pose, points)
            low = points[:, 2] <= settings.max_z_m
            clouds.append((points[low], colours[low]))
        if not clouds:
            return np.zeros((0, 3)), np.zeros((0, 3), np.uint8)
        return voxel_means(np.concatenate([each[0] for each in clouds]),
                           np.concatenate([each[1] for each in clouds]), settings.voxel_m)

    # -- parts ---------------------------------------------------------------------------------

    def _append(self, keyframe: Keyframe) -> Keyframe:
        keyframe.number = len(self.keyframes)
        self.keyframes.append(keyframe)
        self._places.add(keyframe.view)
        self._alone = False
        return keyframe

    def _thinned(self, keyframe: Keyframe) -> tuple[Floats, Bytes]:
        """Return the points of a keyframe in its optical frame, one for each voxel."""
        known = self._clouds.get(keyframe.number)
        if known is None:
            settings = self.settings.cloud
            points, colours = voxel_means(*points_of(keyframe, settings), settings.voxel_m)
            known = self._clouds[keyframe.number] = points.astype(np.float32), colours
        return known[0].astype(float), known[1]

    def _limits(self) -> FeatureSettings:
        cloud = self.settings.cloud
        return FeatureSettings(max_range_m=cloud.max_range_m, max_stdev_m=cloud.max_stdev_m,
                               depth_noise=cloud.depth_noise)

    def _information(self, before: Keyframe, after: Keyframe) -> Floats:
        if not after.joined:
            return diagonal_information(_UNKNOWN_M, _UNKNOWN_RAD)
        graph = self.settings.graph
        least = graph.odometry_m ** 2, graph.odometry_rad ** 2
        grown = [max(0.0, b - a) for a, b in zip(before.variances, after.variances)]
        return diagonal_information(*(float(np.sqrt(a + b)) for a, b in zip(least, grown)))

    def _guess(self, poses: Floats) -> Floats:
        """
        Place each run without odometry to the runs before by its loop with the most inliers.

        Without this, the optimisation would begin at arbitrary poses.
        """
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
