# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the topics that the page shows, and send the commands of mocap control.

An executor visits every entity for each message, which is too slow for fifty status topics. No
executor runs here: the loop of the server calls ``poll``, which takes the waiting messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
import math
import struct
import time
from typing import Any, Optional

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.srv import GetState
from optitrack_vrpn.control.armed import ArmedVehicles, claim_of, TOPIC
from optitrack_vrpn.control.endpoint_ros import (
    CONTROL_QOS, Dialect, find_dialects, INFO_LISTENER_QOS, install_messages)
from optitrack_vrpn.control.protocol import Kind
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.node.base.tool_node import ToolNode
from optitrack_vrpn.node.graph.conflicts import base_name, full_name, state_services
from optitrack_vrpn.takes.dashboard.control import ControlLog, System
from optitrack_vrpn.takes.dashboard.lab import (
    BONE, Lab, line_frame, LIVE_S, marker_frame, plate_lines)
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import PointCloud2
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

NODE = 'optitrack_vrpn_dashboard'
#: Chosen: periods (s) of reading the slow topics, of searching the graph, and of asking for
#: lifecycle states.
_SLOW_S, _LOOK_S, _STATE_S = 0.1, 1.0, 1.0
#: Chosen: time for which a system that left the graph without a message is shown (s).
_GONE_S = 60.0
#: Chosen: new subscriptions of one search, a millisecond each, and all of status topics.
_AT_ONCE, _MOST_STATUS = 20, 600
#: Chosen: messages of one topic that are read at once.
_MOST_MESSAGES = 100
#: Chosen: messages of /tf that wait: those of a period (33 ms) at 240 Hz in six parts. A frame of
#: many bodies has several parts, each with other bodies, if the node received it so.
_TF_QOS = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Chosen: time for which /tf is read after the last page (s), for a page that is opened again.
_UNWATCHED_S = 60.0
_STATUS_QOS = QoSProfile(depth=5, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_BRIDGES_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_NEWEST_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_STATUS, _CLOUD = 'diagnostic_msgs/msg/DiagnosticStatus', 'sensor_msgs/msg/PointCloud2'
#: The output of the node for this page; largest number of such topics, of vehicles, of figures.
_TF, _TF_VIEW, _MOST_VIEWS = 'tf2_msgs/msg/TFMessage', '_tf_view', 20


class Feed:
    """
    The node of the dashboard.

    :param ros_arguments: ``--ros-args`` and what follows.
    :param lab: gets reports and transforms.
    :param control: gets commands and acknowledgements.
    :param complain: called with each problem.
    :ivar marker_data: binary frame of the last markers; empty without.
    :ivar line_data: likewise of skeletons and force plates.
    :ivar armed: why STOP is refused, because a bridge says that its vehicle is armed; '' else.
    :ivar vehicles: what the bridges report of their vehicles: ``body``, ``bridge``, ``armed``.
    :ivar control_problem: why there is no mocap control; '' if there is.
    """

    def __init__(self, ros_arguments: Sequence[str], lab: Lab, control: ControlLog,
                 complain: Callable[[str], None]) -> None:
        self._lab, self._control, self._complain = lab, control, complain
        self._tool = ToolNode(NODE, ros_arguments)
        self._node = self._tool.node
        self._group = MutuallyExclusiveCallbackGroup()
        self._tf: dict[str, Any] = {}
        self._tf_topics: set[str] = set()
        lab.reading_since = math.inf
        self._watched_at = -math.inf
        self._diagnostics = self._subscribe(DiagnosticArray, '/diagnostics', 100)
        self._status: dict[str, Any] = {}
        self._clouds: dict[str, Any] = {}
        dialects, problems = find_dialects(['auto'])
        self.control_problem = '' if dialects else '; '.join([*problems, install_messages()])
        self.armed = ''
        self.vehicles: list[dict[str, Any]] = []
        self._vehicles = ArmedVehicles()
        self._bridges = self._subscribe(DiagnosticStatus, TOPIC, _BRIDGES_QOS)
        self._lines = [_ControlLine(self, dialect) for dialect in dialects]
        self._clients: dict[str, Any] = {}
        self._own_stamps: set[int] = set()
        self._left: dict[str, float] = {}
        self._due = [0.0, 0.0, 0.0]    # slow topics, graph, states
        self.marker_data = self.line_data = b''
        self._figures: dict[str, Any] = {}
        self._lines_of: dict[str, tuple[float, list[Any]]] = {}
        self._markers_wanted = False
        self._markers_at = math.inf

    def close(self) -> None:
        """Leave the graph."""
        self._tool.__exit__()

    def _subscribe(self, kind: Any, topic: str, qos: Any, raw: bool = False) -> Any:
        return self._node.create_subscription(
            kind, topic, lambda message: None, qos, raw=raw, callback_group=self._group)

    def poll(self, now: float) -> bool:
        """
        Take the waiting messages; a message that cannot be read is reported, not raised.

        :returns: whether the control topics brought something.
        """
        self._guard(self._take_transforms, now)
        changed = bool(self._guard(self._take_control, now))
        for at, (period, work) in enumerate((
                (_SLOW_S, self._take_slow), (_LOOK_S, self._look), (_STATE_S, self._ask))):
            if now >= self._due[at]:
                self._due[at] = now + period
                self._guard(work, now)
        return changed

    def _guard(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception as error:    # of any layer of ROS: no peer may end the page
            self._complain(f'{type(error).__name__}: {error}')
            return None

    # -- topics --------------------------------------------------------------------------------

    def _take_transforms(self, now: float) -> None:
        newest: dict[Any, bytes] = {}
        for subscription in self._tf.values():
            for data, _ in taken(subscription):
                newest.pop(part := part_of(data), None)    # so that the newest comes last
                newest[part] = data
        for data in newest.values():
            self._guard(self._add_transforms, data, now)

    def _add_transforms(self, data: bytes, now: float) -> None:
        for one in deserialize_message(data, TFMessage).transforms:
            stamp, p, q = one.header.stamp, one.transform.translation, one.transform.rotation
            self._lab.add_transform(
                one.header.frame_id.lstrip('/'), one.child_frame_id.lstrip('/'),
                stamp.sec * 1_000_000_000 + stamp.nanosec,
                (p.x, p.y, p.z, q.x, q.y, q.z, q.w), now)

    def _take_slow(self, now: float) -> None:
        for subscription in (self._diagnostics, *self._status.values()):
            for message, info in taken(subscription):
                at = now - waited_s(info)
                for status in getattr(message, 'status', (message,)):
                    self._lab.add_report(StatusReport.of(status), at)
        now_ns = round(now * 1e9)
        for message, _ in taken(self._bridges):
            self._vehicles.heard(claim_of(
                message.name, message.hardware_id, StatusReport.of(message).values), now_ns)
        self.armed = printable(self._vehicles.refusal(now_ns), 300)
        self.vehicles = [
            {'body': printable(claim.body, 80), 'bridge': printable(claim.bridge, 80),
             'armed': claim.armed} for claim in self._vehicles.present(now_ns)[:_MOST_VIEWS]]
        for line in self._lines:
            for message, _ in taken(line.info):
                name, topics = line.dialect.read_info(message)
                name = printable(name, 80)
                if len(self._control.systems) < 100:
                    self._control.systems.setdefault(name, System(name)).topics = len(topics)
        for client in self._clients.values():
            with client.handle:
                header, answer = client.handle.take_response(GetState.Response)
            if header is not None:
                name = base_name(client.srv_name.removesuffix('/get_state'))
                self._lab.set_state(name, answer.current_state.label, now)
        self._take_figures(now)
        for subscription in self._clouds.values():
            for cloud, _ in taken(subscription):
                self.marker_data, self._markers_at = marker_frame(points_of(cloud), 0.0), now
        if self.marker_data and now - self._markers_at > LIVE_S:
            self.marker_data = marker_frame((), 0.0)    # old markers must not look live
            self._markers_at = math.inf
        self._lab.forget(now)

    def _take_figures(self, now: float) -> None:
        """Take lines of skeletons and forces of plates; those that have ended are not shown."""
        for name, subscription in self._figures.items():
            for message, _ in taken(subscription):
                if hasattr(message, 'wrench'):
                    plate, force = message.header.frame_id.lstrip('/'), message.wrench.force
                    if len(self._lab.plates) < _MOST_VIEWS:
                        self._lab.plates.setdefault(plate, ())
                    pose = self._lab.plates.get(plate)
                    lines = plate_lines(pose, (force.x, force.y, force.z)) if pose else []
                else:
                    lines = [
                        ((one.x, one.y, one.z), (two.x, two.y, two.z), BONE)
                        for marker in message.markers if marker.type == marker.LINE_LIST
                        for one, two in zip(marker.points[::2], marker.points[1::2])]
                self._lines_of[name] = now, lines
        present = [lines for at, lines in self._lines_of.values() if now - at < LIVE_S]
        if present or self.line_data:
            data = line_frame(line for lines in present for line in lines)
            self.line_data = data if data != self.line_data else self.line_data

    def watch(self, pages: bool, markers: bool) -> None:
        """
        Set what pages show now; the node computes transforms and markers only for subscribers.

        :param pages: whether any page is open.
        :param markers: whether any shows markers.
        """
        if pages or self._watched_at == math.inf:
            self._watched_at = math.inf if pages else time.monotonic()
            self._guard(self._follow_transforms)
        self._markers_wanted = markers
        if not markers:
            self.marker_data = self.line_data = b''
            self._lab.plates.clear()

    def _follow_transforms(self) -> None:
        """Subscribe to topics with transforms while pages are open."""
        now = time.monotonic()
        wanted = self._tf_topics if now - self._watched_at <= _UNWATCHED_S else set()
        for name in self._tf.keys() - wanted:
            self._drop(self._tf, name)
        for name in wanted - self._tf.keys():
            self._tf[name] = self._subscribe(TFMessage, name, _TF_QOS, raw=True)
            self._lab.reading_since = now
        if not self._tf:
            self._lab.reading_since = math.inf

    def _look_for_transforms(self, names: Iterable[str], now: float) -> None:
        """Choose the topics: those for viewers, and /tf for nodes with bodies but without one."""
        views = [name for name in names if base_name(name) == _TF_VIEW][:_MOST_VIEWS]
        offer = {entry.node_name for name in views
                 for entry in self._node.get_publishers_info_by_topic(name)}
        others = {body.node for body in self._lab.bodies.values()
                  if not body.report.silent(now)} - offer
        self._tf_topics = {*views, *(('/tf',) if others or self._lab.plates else ())}
        self._follow_transforms()

    # -- graph ---------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Find topics of bodies, markers and systems."""
        topics = self._node.get_topic_names_and_types()
        new = [name for name, types in topics if _STATUS in types and name not in self._status]
        for name in new[:_AT_ONCE]:
            if len(self._status) < _MOST_STATUS:
                self._status[name] = self._guard(
                    self._subscribe, DiagnosticStatus, name, _STATUS_QOS)
        present = {name for name, _ in topics}
        for name in list(self._status):
            if self._status[name] is None or name not in present or (
                    name not in new and not self._node.count_publishers(name)):
                self._drop(self._status, name)
        clouds = [name for name, types in topics if _CLOUD in types
                  and 'marker' in base_name(name)][:4] if self._markers_wanted else []
        for name in [name for name in self._clouds if name not in clouds]:
            self._drop(self._clouds, name)
        for name in clouds:
            if name not in self._clouds:
                self._clouds[name] = self._subscribe(PointCloud2, name, _NEWEST_QOS)
        self._look_for_figures(topics)
        self._look_for_transforms(
            (name for name, types in topics if _TF in types), now)
        self._look_for_systems(now)

    def _look_for_figures(self, topics: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Subscribe to skeletons and force plates while a page shows markers."""
        wanted = {} if not self._markers_wanted else {
            name: kind for name, types in topics for kind, last in (
                (MarkerArray, 'skeletons'), (WrenchStamped, 'wrench'))
            if base_name(name) == last and (
                f'{kind.__module__.partition(".")[0]}/msg/{kind.__name__}' in types)}
        for name in self._figures.keys() - wanted:
            self._drop(self._figures, name)
            self._lines_of.pop(name, None)
        for name in [*wanted][:_MOST_VIEWS]:
            if name not in self._figures:
                self._figures[name] = self._subscribe(wanted[name], name, _NEWEST_QOS)

    def _drop(self, subscriptions: dict[str, Any], name: str) -> None:
        subscription = subscriptions.pop(name)
        if subscription is not None:
            self._node.destroy_subscription(subscription)

    def _look_for_systems(self, now: float) -> None:
        """Compare the known systems with the nodes that listen to commands."""
        own = full_name(self._node.get_name(), self._node.get_namespace())
        listening = {
            full_name(entry.node_name, entry.node_namespace) for line in self._lines
            for entry in self._node.get_subscriptions_info_by_topic(line.publisher.topic_name)}
        services = dict(state_services(self._node.get_service_names_and_types()))
        nodes = {name for name in services if name in listening or base_name(name) in (
            self._lab.nodes)} - {own}
        for name in list(self._clients):
            if name not in nodes:
                self._node.destroy_client(self._clients.pop(name))
                self._lab.forget_state(base_name(name))
        for name in nodes - self._clients.keys():
            client = self._guard(self._node.create_client, GetState, services[name])
            if client is not None:
                self._clients[name] = client
        systems = self._control.systems
        names = {base_name(name) for name in listening & services.keys() - {own}}
        for name in names - systems.keys():
            systems[name] = System(name)
        heard = {base_name(name) for name in listening}
        for name, system in list(systems.items()):
            system.state = self._lab.states.get(name, '')
            system.mute = self._lab.mute(name, now)
            system.heard |= name in heard
            # A system behind a bridge is in no graph.
            system.gone = system.heard and name not in heard
            if not system.gone:
                self._left.pop(name, None)
            elif not system.topics or now - self._left.setdefault(name, now) > _GONE_S:
                del systems[name]    # it announces no topics, or is gone for long
                self._left.pop(name, None)

    def _ask(self, now: float) -> None:
        """Ask lifecycle nodes for their states; ``_take_slow`` takes the answers."""
        for client in self._clients.values():
            if client.service_is_ready():
                client.remove_pending_request(client.call_async(GetState.Request()))

    # -- mocap control -------------------------------------------------------------------------

    def command(
        self, kind: Kind, session_id: str, by: str, now: float, systems: Sequence[str] = (),
    ) -> str:
        """
        Send a command.

        :param systems: names of the systems that it addresses; all without any.
        :returns: '' or why it was not sent.
        """
        if not self._lines:
            return self.control_problem
        if kind is Kind.STOP and self.armed and not systems:
            return f'STOP is refused: {self.armed}'
        stamp = self._node.get_clock().now()
        self._own_stamps.add(stamp.nanoseconds)
        self._control.add(kind, session_id, tuple(systems), by, now, stamp.nanoseconds)
        for line in self._lines:
            line.publisher.publish(line.dialect.write(
                kind, stamp.to_msg(), self._node.get_name(), session_id, list(systems)))
        self._due[2] = now + 0.2    # states follow the command
        return ''

    def _take_control(self, now: float) -> bool:
        changed = False
        for line in self._lines:
            for message, info in taken(line.control):
                command = line.dialect.read(message)
                if command.stamp_ns in self._own_stamps and (
                        command.source == self._node.get_name()):
                    continue
                self._control.record(
                    command, now - waited_s(info), info['received_timestamp'] or time.time_ns())
                self._due[2] = min(self._due[2], now + 0.1)
                changed = True
        return changed


class _ControlLine:
    """Publisher and subscriptions of one generation."""

    def __init__(self, feed: Feed, dialect: Dialect) -> None:
        self.dialect = dialect
        control, info = dialect.generation.topics(True)
        self.control = feed._subscribe(dialect.control_type, control, CONTROL_QOS)
        self.info = feed._subscribe(dialect.info_type, info, INFO_LISTENER_QOS)
        self.publisher = feed._node.create_publisher(dialect.control_type, control, CONTROL_QOS)


def taken(subscription: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Take the waiting messages of a subscription, oldest first."""
    if subscription is None:
        return
    with subscription.handle:
        for _ in range(_MOST_MESSAGES):
            found: Optional[tuple[Any, dict[str, Any]]] = subscription.handle.take_message(
                subscription.msg_type, subscription.raw)
            if found is None:
                return
            yield found


def part_of(data: bytes) -> tuple[int, bytes]:
    """
    Return what TFMessages of the same bodies have in common: length, and the first two names.

    Only the newest of them is decoded, which takes 1.5 ms with 50 bodies.
    """
    end = 20 + int.from_bytes(data[16:20], 'little')
    end += -end % 4
    return len(data), data[16:end + 4 + int.from_bytes(data[end:end + 4], 'little')]


def waited_s(info: dict[str, Any]) -> float:
    """Return for how long a message has waited here (s), by the middleware's time of arrival."""
    arrival_ns = info['received_timestamp']
    return min(max((time.time_ns() - arrival_ns) * 1e-9, 0.0), 1.0) if arrival_ns else 0.0


def points_of(cloud: Any) -> Iterator[tuple[float, float, float, int]]:
    """Read place and body (0: none) of points; nothing if the cloud has other fields."""
    offsets = {field.name: field.offset for field in cloud.fields}
    if cloud.is_bigendian or not {'x', 'y', 'z'} <= offsets.keys() or cloud.point_step < 12:
        return
    data = bytes(cloud.data)
    for at in range(0, min(len(data), 5000 * cloud.point_step) - cloud.point_step + 1,
                    cloud.point_step):
        x, y, z = (struct.unpack_from('<f', data, at + offsets[key])[0] for key in 'xyz')
        body, labelled = (struct.unpack_from('<I', data, at + offsets[key])[0]
                          if key in offsets else 1 for key in ('body', 'labelled'))
        yield x, y, z, body if labelled else 0
