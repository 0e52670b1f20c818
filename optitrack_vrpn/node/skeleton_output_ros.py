# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Publish skeletons and force plates: TF of bones, line figures, rigid bodies, wrenches.

Nothing is computed for an output without subscribers; but the gate sees every frame while one of
the outputs of skeletons has some.
"""

from collections.abc import Callable, Collection
import importlib
from typing import Any

from geometry_msgs.msg import Point, Pose, WrenchStamped
import numpy as np
from optitrack_vrpn.core.severity import Severity, WARN
from optitrack_vrpn.drivers.frames import Plate
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base.cdr import stamp_bytes, time_of, TransformWriter
from optitrack_vrpn.node.body_output import message_type
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.roster import StampedExtras
from optitrack_vrpn.stream.skeletons.bone_names import frame_name
from optitrack_vrpn.stream.skeletons.plates import (
    channel_order, plate_frame, SampleTimes, wrenches)
from optitrack_vrpn.stream.skeletons.settings import SkeletonSettings
from optitrack_vrpn.stream.skeletons.stage import Axes, Figure, relative, SkeletonStage

#: Outputs of skeletons.
SKELETON_KINDS = ('skeleton_tf', 'skeletons', 'bones')
_KINDS = (*SKELETON_KINDS, 'wrench')
#: Topics with one publisher for each plate.
_PER_MODEL = ('wrench',)
#: Chosen: radius of joints and width of lines (m) in rviz; markers disappear after 0.5 s.
_JOINT_M, _LINE_M, _LIFE_NS = 0.04, 0.02, 500_000_000


class SkeletonOutput:
    """
    Publish skeletons and plates; the node holds its lock around every call.

    :param create: creates a publisher from message type, topic and kind.
    :param destroy: retires publishers.
    :param send_tf: publishes the bytes of a TFMessage, or transforms as objects.
    :param as_bytes: whether transforms are written as bytes.
    """

    def __init__(
        self, create: Callable[[Any, str, str], Any], destroy: Callable[[Any], None],
        send_tf: Callable[[list[Any]], None], as_bytes: bool,
    ) -> None:
        self._create, self._destroy = create, destroy
        self._send_tf, self._as_bytes = send_tf, as_bytes
        self._publishers: dict[tuple[str, str], Any] = {}
        self._outputs: frozenset[str] = frozenset()
        self._heard: frozenset[str] = frozenset()
        self._settings = SkeletonSettings()
        self._world = ''
        self._writers: dict[tuple[str, str], TransformWriter] = {}
        self._taken: frozenset[str] = frozenset()
        self._events: list[tuple[Severity, object, str]] = []
        self._stage = SkeletonStage(lambda *event: self._events.append(event))
        self._sample_times = SampleTimes()

    def create_publishers(
        self, outputs: Collection[str], settings: SkeletonSettings, world: str,
    ) -> None:
        """Create and destroy publishers for the settings."""
        if world != self._world:
            self._writers.clear()
        self._outputs, self._settings, self._world = frozenset(outputs), settings, world
        for kind, model in list(self._publishers):
            if kind not in self._outputs:
                self._destroy(self._publishers.pop((kind, model)))
        for kind in _KINDS:
            if kind in self._outputs and kind not in (*_PER_MODEL, 'skeleton_tf'):
                self._publisher(kind)

    def _publisher(self, kind: str, model: str = '') -> Any:
        found = self._publishers.get((kind, model))
        if found is None:
            found = self._publishers[kind, model] = self._create(
                message_type(KINDS[kind]), KINDS[kind].topic.replace('{model}', model), kind)
        return found

    def listen(self, tf_heard: bool, frames: Collection[str]) -> None:
        """
        Find the outputs with subscribers.

        :param frames: frame ids of rigid bodies, which no bone may have.
        """
        heard = {kind for (kind, _), publisher in self._publishers.items()
                 if publisher.get_subscription_count()}
        if tf_heard:
            heard.update({'skeleton_tf', 'wrench'})
        self._heard = frozenset(heard & self._outputs)
        self._taken = frozenset(frames)

    @property
    def topics(self) -> list[str]:
        """List the resolved names of the topics."""
        return [publisher.topic_name for publisher in self._publishers.values()]

    def take_events(self) -> list[tuple[Severity, object, str]]:
        """Return severity, key and text of the events since the last call."""
        events, self._events = self._events, []
        return events

    def publish(
        self, stamped: StampedExtras, config: PipelineConfig, clock: Callable[[], int],
        allowance_ns: int,
    ) -> None:
        """
        Publish what a frame contains beside rigid bodies.

        :param config: axes, thresholds and offsets.
        :param clock: reads the present time (ns).
        :param allowance_ns: largest difference to a stamp (ns), see ``publish_samples``.
        """
        stamp_ns, time_ns, extras, arrival_ns, epoch = stamped

        def fresh() -> bool:
            """Check the age at each publication: those before it take milliseconds."""
            return clock() <= stamp_ns + allowance_ns
        if self._heard.intersection(SKELETON_KINDS):
            self._stage.restart(epoch)
            figures = [figure for skeleton in extras.skeletons if (
                figure := self._stage.convert(
                    skeleton, time_ns, config, self._settings.names, arrival_ns)) is not None]
            if fresh():
                self._publish_figures(figures, stamp_ns, fresh)
        if 'wrench' in self._outputs and extras.plates:
            axes = Axes(config.axes, config.estimate.world_from_mocap)
            self._sample_times.follow(stamp_ns)
            for plate in extras.plates:
                if fresh():
                    self._publish_plate(plate, axes, stamp_ns, fresh)

    # -- skeletons -----------------------------------------------------------------------------

    def _publish_figures(
        self, figures: list[Figure], stamp_ns: int, fresh: Callable[[], bool],
    ) -> None:
        heard = self._heard
        stamp = stamp_bytes(stamp_ns)
        if 'skeleton_tf' in heard:
            pieces: list[Any] = []
            for figure in figures:
                self._transforms(figure, stamp, pieces)
            if pieces and fresh():
                self._send_tf(pieces)
        shown = [figure for figure in figures if figure.valid.any()]
        if 'skeletons' in heard:
            drawing = self._drawing(shown, time_of(stamp))
            if fresh():
                self._publishers['skeletons', ''].publish(drawing)
        if 'bones' in heard and shown:
            bodies = self._bodies(shown, time_of(stamp))
            if fresh():
                self._publishers['bones', ''].publish(bodies)

    def _transforms(self, figure: Figure, stamp: bytes, pieces: list[Any]) -> None:
        positions, quats, valid = (
            (figure.positions, figure.quats_xyzw, figure.valid)
            if self._settings.tf_parent == 'world' else relative(figure))
        parents = figure.model.parents
        for i, (position, quat, good) in enumerate(zip(
                positions.tolist(), quats.tolist(), valid.tolist())):
            name = figure.names[i]
            if not good or name in self._taken:
                continue
            above = self._world
            if self._settings.tf_parent == 'bone' and parents[i] >= 0:
                above = figure.names[parents[i]]
            writer = self._writers.get((above, name)) or self._writer(above, name)
            pieces.append((writer.other if pieces else writer.first)(stamp, position, quat))
        if not self._taken.isdisjoint(figure.names):
            self._events.append((WARN, ('bone frame', figure.name), (
                f'bones of {figure.name} have no TF: rigid bodies have their frame ids (switch '
                'Skeleton as Rigid Body off in Motive, or select other names)')))

    def _writer(self, parent: str, child: str) -> TransformWriter:
        writer = messages.transform_writer(parent, child, self._as_bytes)
        self._writers[parent, child] = writer
        return writer

    def _drawing(self, figures: list[Figure], stamp: Any) -> Any:
        """Draw lines between bones and a sphere for each."""
        visualization = importlib.import_module('visualization_msgs.msg')
        array = visualization.MarkerArray()
        for number, figure in enumerate(figures):
            lines, joints = (visualization.Marker(ns=figure.name, id=i) for i in (0, 1))
            lines.type, joints.type = visualization.Marker.LINE_LIST, \
                visualization.Marker.SPHERE_LIST
            lines.scale.x = _LINE_M
            joints.scale.x = joints.scale.y = joints.scale.z = _JOINT_M
            places = [Point(x=x, y=y, z=z) for x, y, z in figure.positions.tolist()]
            good = figure.valid.tolist()
            joints.points = [place for place, seen in zip(places, good) if seen]
            for i, parent in enumerate(figure.model.parents):
                if parent >= 0 and good[i] and good[parent]:
                    lines.points += [places[parent], places[i]]
            for one in (lines, joints):
                one.header.stamp, one.header.frame_id = stamp, self._world
                one.pose.orientation.w = 1.0
                one.lifetime.nanosec = _LIFE_NS
                one.color.r, one.color.g, one.color.b, one.color.a = (
                    (0.2, 0.6, 1.0, 1.0), (1.0, 0.6, 0.2, 1.0), (0.4, 0.9, 0.4, 1.0))[number % 3]
            array.markers += [lines, joints]
        return array

    def _bodies(self, figures: list[Figure], stamp: Any) -> Any:
        posed = [messages.Posed(name, messages.set_pose(Pose(), position, quat))
                 for figure in figures for name, position, quat, good in zip(
                     figure.names, figure.positions.tolist(), figure.quats_xyzw.tolist(),
                     figure.valid.tolist()) if good]
        found = messages.make_rigid_bodies(posed, None, messages.Head(0, stamp, self._world))
        found.header.stamp, found.header.frame_id = stamp, self._world
        return found

    # -- force plates --------------------------------------------------------------------------

    def _publish_plate(
        self, plate: Plate, axes: Axes, stamp_ns: int, fresh: Callable[[], bool],
    ) -> None:
        name = frame_name(plate.model.name, 'plate')
        frame, order = plate_frame(plate.model), channel_order(plate.model)
        if frame is None or order is None or not plate.model.calibrated:
            self._events.append((WARN, ('plate', name), (
                f'force plate {plate.model.name!r} is not published: ' + (
                    'its channels are raw voltages: set calibrated force in Motive'
                    if not plate.model.calibrated else 'its corners span no rectangle'
                    if frame is None else f'its channels {plate.model.channels} are not Fx to '
                    'Mz'))))
            return
        publisher = self._publisher('wrench', name)
        if 'wrench' not in self._heard and not publisher.get_subscription_count():
            return
        table = wrenches(plate, order)
        if not len(table):
            return
        stamps = self._sample_times.times(len(table)) if self._settings.wrench == 'all' else []
        if not stamps:
            table, stamps = table.mean(axis=0, keepdims=True), [stamp_ns]
        for row, when in zip(table.tolist(), stamps):
            if not fresh():
                return
            message = WrenchStamped()
            message.header.stamp = time_of(stamp_bytes(when))
            message.header.frame_id = name
            force, torque = message.wrench.force, message.wrench.torque
            force.x, force.y, force.z, torque.x, torque.y, torque.z = row
            publisher.publish(message)
        # A plate's own axes are those of its corners: turned like the world, not like a body.
        place = axes.positions(np.array((frame.position,)))[0]
        writer = self._writers.get((self._world, name)) or self._writer(self._world, name)
        transform = writer.first(
            stamp_bytes(stamp_ns), place.tolist(), axes.frame(frame.quat_xyzw))
        if fresh():
            self._send_tf([transform])

    def close(self) -> None:
        """Destroy all publishers."""
        for publisher in self._publishers.values():
            self._destroy(publisher)
        self._publishers.clear()
        self._heard = frozenset()
