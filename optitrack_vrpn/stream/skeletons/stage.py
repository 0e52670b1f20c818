# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From the skeletons of a frame to checked bones in the user's world."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.core.arrays import quat_multiply, quat_rotate
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.rotation import compose, multiply, Quat, Transform
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.drivers.frames import Skeleton, SkeletonModel
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import Disposition
from optitrack_vrpn.stream.bodies.times import Epoch
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.skeletons.bone_names import converted, frame_name, plain
from optitrack_vrpn.stream.skeletons.plates import quat_of_axes

Array = NDArray[np.float64]
_UNKNOWN: Quat = (0.0, 0.0, 0.0, 1.0)
#: Chosen: time (ns) without a valid bone after which a skeleton is reported as lost.
_LOST_NS = 500_000_000
#: Chosen: skeletons that are kept; Motive's library holds 100.
_MOST = 200


class Axes:
    """
    Linear maps from the sender's axes to the user's world, for arrays.

    :param axes: axes of the sender.
    :param world_from_mocap: the mocap world in the user's world.
    """

    def __init__(self, axes: AxesConfig, world_from_mocap: Transform) -> None:
        maps = frame_maps(axes)
        rotation = Transform((0.0, 0.0, 0.0), world_from_mocap.quat_xyzw)
        self._position = np.array([
            compose(rotation, Transform(maps.position_to_enu(unit))).position
            for unit in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))])
        self._origin = np.array(world_from_mocap.position)
        self._turn = quat_of_axes(self._position.T)
        # Conversions of quaternions are linear too.
        self._quat = np.array([
            compose(rotation, Transform((0.0, 0.0, 0.0), maps.quat_to_enu(unit))).quat_xyzw
            for unit in ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0),
                         (0.0, 0.0, 0.0, 1.0))])

    def positions(self, values: Array) -> Array:
        """Convert the positions of n points, (n, 3)."""
        found: Array = values @ self._position + self._origin
        return found

    def quats(self, values: Array) -> Array:
        """Convert attitudes (n, 4) of Motive's bodies to those of FLU."""
        found: Array = values @ self._quat
        return found

    def frame(self, quat_xyzw: Quat) -> Quat:
        """Convert the attitude of a frame whose own axes stay: turn it like a vector."""
        return multiply(self._turn, quat_xyzw)


class Figure(NamedTuple):
    """
    A skeleton to be published.

    :ivar name: its part of topics and frames.
    :ivar names: full names of the bones, ``<skeleton>_<bone>``.
    :ivar bones: short names, in the chosen convention.
    :ivar standard: short names in Motive's convention as far as they are known.
    :ivar positions: (n, 3) m in the user's world (ENU).
    :ivar quats_xyzw: (n, 4) FLU to ENU, unit norm.
    :ivar valid: (n,) which may be published.
    """

    model: SkeletonModel
    name: str
    names: tuple[str, ...]
    bones: tuple[str, ...]
    positions: Array
    quats_xyzw: Array
    valid: NDArray[np.bool_]


class _Known:
    """What is kept of one skeleton."""

    def __init__(
        self, model: SkeletonModel, convention: str, now_ns: int, config: BodyConfig,
    ) -> None:
        self.model = model
        self.convention = convention
        self.config = config
        self.trackers = [Tracker(bone, config) for bone in model.bones]
        self.name = frame_name(model.name, 'skeleton')
        self.bones = converted(model.bones, model.name, convention)
        self.names = tuple(f'{self.name}_{frame_name(bone)}' for bone in self.bones)
        self.seen_ns = now_ns
        self.lost: Optional[bool] = None

    def check(
        self, skeleton: Skeleton, time_ns: int, arrival_ns: int, config: BodyConfig,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return the attitudes of the bones, of unit norm, and which may be published."""
        if config is not self.config:
            self.config = config
            for tracker in self.trackers:
                tracker.config = config
        quats: list[Quat] = []
        valid: list[bool] = []
        for tracker, (x, y, z), (a, b, c, d), tracked in zip(
                self.trackers, skeleton.positions.tolist(), skeleton.quats_xyzw.tolist(),
                skeleton.valid.tolist()):
            quat = None
            if tracked:
                quat = tracker.update(time_ns, arrival_ns, (x, y, z), (a, b, c, d))
            else:
                tracker.refuse(
                    time_ns, arrival_ns, (x, y, z), (a, b, c, d), Disposition.NOT_TRACKED)
            tracker.changes.clear()    # only a skeleton as a whole is reported
            valid.append(quat is not None)
            quats.append(quat or _UNKNOWN)
        return np.array(quats).reshape(-1, 4), np.array(valid, dtype=bool)


class SkeletonStage:
    """
    Check and convert skeletons.

    :param report: takes severity, key and text of an event for the user.
    """

    def __init__(self, report: Callable[[Severity, object, str], None]) -> None:
        self._report = report
        self._known: dict[str, _Known] = {}
        self._epoch: Optional[Epoch] = None
        self._axes: tuple[Any, Any, Axes] = (
            None, None, Axes(AxesConfig(), Transform()))

    def restart(self, epoch: Optional[Epoch]) -> None:
        """
        Continue on the sender's restarted clock, as ``Tracker.restart`` does for bodies.

        :param epoch: the begin of the sender's present clock; nothing happens if it is known.
        """
        if epoch is None or epoch is self._epoch:
            return
        self._epoch = epoch
        for known in self._known.values():
            known.seen_ns = epoch.time_ns
            for tracker in known.trackers:
                tracker.restart(epoch)

    def convert(
        self, skeleton: Skeleton, time_ns: int, config: PipelineConfig, convention: str,
        arrival_ns: int,
    ) -> Optional[Figure]:
        """
        Check and convert one skeleton of a frame.

        :param time_ns: time on the sender's clock.
        :param convention: see ``bone_names.converted``.
        :param arrival_ns: arrival of the frame (ns).
        :returns: None if another skeleton has the same name in ROS.
        """
        model = skeleton.model
        known = self._of(model, convention, time_ns, config.body)
        if known is None:
            return None
        quats, valid = known.check(skeleton, time_ns, arrival_ns, config.body)
        self._follow(known, bool(valid.any()), time_ns)
        axes = self._axes_of(config)
        with np.errstate(all='ignore'):    # bones that are not valid can be any numbers
            positions = axes.positions(skeleton.positions)
        return Figure(model, known.name, known.names, known.bones, positions,
                      axes.quats(quats), valid)

    def _axes_of(self, config: PipelineConfig) -> Axes:
        axes, world = config.axes, config.estimate.world_from_mocap
        if self._axes[0] is not axes or self._axes[1] is not world:
            self._axes = axes, world, Axes(axes, world)
        return self._axes[2]

    def _of(
        self, model: SkeletonModel, convention: str, now_ns: int, config: BodyConfig,
    ) -> Optional[_Known]:
        known = self._known.get(model.name)
        if known is not None and known.model is model and known.convention == convention:
            return known
        name = frame_name(model.name, 'skeleton')
        other = next((one for one in self._known.values()
                      if one.name == name and one.model.name != model.name), None)
        if other is not None or (known is None and len(self._known) >= _MOST):
            self._report(ERROR, ('skeleton name', model.name), (
                f'skeleton {model.name!r} is not published: ' + (
                    f'{other.model.name!r} has the same name in ROS; rename one in Motive'
                    if other else f'there are more than {_MOST}')))
            return None
        bones = [plain(bone, model.name) for bone in model.bones]
        if len(set(map(frame_name, bones))) < len(bones):
            self._report(ERROR, ('bone name', model.name), (
                f'skeleton {model.name!r} is not published: two of its bones have the same name '
                'in ROS'))
            return None
        if known is None:
            self._report(INFO, ('skeleton', model.name), (
                f'new skeleton {model.name!r} with {len(bones)} bones is {name} in ROS'))
        known = self._known[model.name] = _Known(model, convention, now_ns, config)
        return known

    def _follow(self, known: _Known, seen: bool, now_ns: int) -> None:
        """Report a skeleton of which no bone is valid, and its return."""
        if seen:
            known.seen_ns = now_ns
            if known.lost:
                self._report(INFO, ('skeleton back', known.model.name, now_ns), (
                    f'skeleton {known.model.name!r} is tracked again'))
            known.lost = False
        elif not known.lost and now_ns - known.seen_ns > _LOST_NS:
            known.lost = True
            self._report(WARN, ('skeleton lost', known.model.name, now_ns), (
                f'skeleton {known.model.name!r} is not tracked: none of its bones is published'))


def relative(figure: Figure) -> tuple[Array, Array, NDArray[np.bool_]]:
    """
    Compute bones in their parents; roots stay in the world.

    :returns: positions, attitudes, and which are valid: those whose parent is valid too.
    """
    parents = np.array(figure.model.parents)
    child = parents >= 0
    up = np.where(child, parents, 0)
    back = figure.quats_xyzw[up] * np.array((-1.0, -1.0, -1.0, 1.0))
    away = figure.positions - figure.positions[up]
    place = quat_rotate(back, away)
    turn = quat_multiply(back, figure.quats_xyzw)
    rows = child[:, None]
    return (np.where(rows, place, figure.positions), np.where(rows, turn, figure.quats_xyzw),
            figure.valid & (~child | figure.valid[up]))
