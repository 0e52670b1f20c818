# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start the node by its lifecycle services, subscribe to its topics, and collect statistics."""

from collections import deque
import math
import time
from typing import Any, Callable, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.names import ros_name
from optitrack_vrpn.core.rotation import angles_from_quat
from optitrack_vrpn.core.settings.parameters import sift
from optitrack_vrpn.core.stats import spread
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.node.base.tool_node import BackgroundNode, ToolNode
from optitrack_vrpn.node.graph.conflicts import full_name, NAMELESS
from optitrack_vrpn.sim.demo.view import BodyRow, Endpoint, foreign
from optitrack_vrpn.stream.bodies.settings import Selection
from rcl_interfaces.srv import GetParameters
from rclpy.expand_topic_name import expand_topic_name
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: Chosen: stored poses per body, 8 s at 240 Hz.
_KEPT = 2000
#: Best effort matches every publisher, with any reliability.
_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Time after which a request is repeated (s): an answer is lost if the server has not discovered
#: its reader yet. Chosen.
_ASK_AGAIN_S = 2.0
#: The transitions to the state active, each with its states before and after.
_STEPS = (
    ('configure', Transition.TRANSITION_CONFIGURE,
     State.PRIMARY_STATE_UNCONFIGURED, State.PRIMARY_STATE_INACTIVE),
    ('activate', Transition.TRANSITION_ACTIVATE,
     State.PRIMARY_STATE_INACTIVE, State.PRIMARY_STATE_ACTIVE),
)

#: What a pose and its transform have in common: parent frame, stamp and position.
_Key = tuple[str, int, float, float, float]


def _key(header: Any, position: Any) -> _Key:
    stamp = header.stamp
    return (header.frame_id, stamp.sec * NS_PER_S + stamp.nanosec,
            position.x, position.y, position.z)


def _rate(times: Any) -> float:
    """Return the events per second of an array of times (s); 0 if it is not defined."""
    span = float(times[-1] - times[0]) if len(times) > 2 else 0.0
    return (len(times) - 1) / span if span > 0.0 else 0.0


class BodyTopic:
    """Statistics of one body's received poses."""

    def __init__(self) -> None:
        self.count = 0
        self.stamps: deque[float] = deque(maxlen=_KEPT)
        self.arrivals: deque[float] = deque(maxlen=_KEPT)
        self.pose: Optional[PoseStamped] = None
        self.keys: deque[_Key] = deque(maxlen=_KEPT)
        self.frame = ''
        self.origin = 0

    def take(self, message: PoseStamped) -> None:
        """Add one pose with its arrival."""
        now = time.time_ns()
        key = _key(message.header, message.pose.position)
        stamp_ns = key[1]
        if not self.count:
            self.origin = stamp_ns
        self.count += 1
        # Relative to the first stamp: a double holds Unix seconds to 0.24 us only.
        self.stamps.append((stamp_ns - self.origin) * 1e-9)
        self.arrivals.append((now - self.origin) * 1e-9)
        self.pose = message
        if not self.frame:
            self.keys.append(key)

    def row(self, name: str, ned: bool, transforms: int) -> BodyRow:
        """
        Return the statistics.

        :param ned: whether the poses are in NED.
        :param transforms: number of transforms of its frame.
        """
        message = self.pose
        if message is None:
            return BodyRow(name, 0, 0.0, 0.0, None, math.nan, math.nan, math.nan, math.nan, 0)
        stamps, arrivals = np.array(self.stamps), np.array(self.arrivals)
        size = min(len(stamps), len(arrivals))
        stamps, arrivals = stamps[:size], arrivals[:size]
        known = size > 2
        p, q = message.pose.position, message.pose.orientation
        yaw = math.degrees(angles_from_quat((q.x, q.y, q.z, q.w)).yaw)
        # A heading is the yaw of NED; that of ENU is from east and runs the other way.
        position, heading = (((p.y, p.x, -p.z), yaw) if ned else ((p.x, p.y, p.z), 90.0 - yaw))
        return BodyRow(
            name, self.count,
            _rate(stamps), _rate(arrivals),
            position, heading % 360.0,
            spread((arrivals - stamps)[:size * known]).median,
            spread(np.diff(stamps)[:size * known]).std,
            spread(np.diff(arrivals)[:size * known]).std,
            transforms)


class DemoView(BackgroundNode):
    """
    The node of the demo that subscribes to the shown node.

    :param target: name of the lifecycle node.
    """

    def __init__(self, target: str) -> None:
        super().__init__(f'{target}_view')
        self._target = target
        self._client = self.node.create_client(ChangeState, f'/{target}/change_state')
        # Readers are discovered in the order of their creation: a node that answers this client
        # has discovered the client above too.
        self._asker = self.node.create_client(GetParameters, f'/{target}/get_parameters')
        self._watcher = self.node.create_client(GetState, f'/{target}/get_state')
        self.node.create_subscription(
            DiagnosticArray, '/diagnostics', self._take_diagnostics, 10)
        self.node.create_subscription(TFMessage, '/tf', self._take_tf, _QOS)
        self._bodies: dict[str, BodyTopic] = {}
        self._transforms: dict[str, int] = {}
        self._children: dict[_Key, str] = {}
        self._template = ''
        self._ned = False
        #: The bodies selected in the node's parameters.
        self.selection = Selection()
        #: Whether the node broadcasts transforms.
        self.transforms_wanted = True
        self.clock: dict[str, str] = {}
        self.connection = ''
        #: The last error of the connection; the node may have connected again since.
        self.trouble = ''

    def bring_up(
        self, timeout_s: float, check: Callable[[], None], names: Sequence[str] = (),
    ) -> None:
        """
        Configure and activate the node through its lifecycle services.

        :param check: called often meanwhile; raises if the node has ended.
        :param names: Motive's names of the expected bodies.
        :raises TransportError: if it does not answer or a transition fails, or if another node
            publishes on the same topics.
        :raises ConfigurationError: if its parameters enable no topic of poses.
        """
        deadline = time.monotonic() + timeout_s
        for client in (self._client, self._asker, self._watcher):
            while not client.wait_for_service(timeout_sec=0.1):
                check()
                if time.monotonic() > deadline:
                    raise TransportError(
                        f'the node {self._target} did not appear in {timeout_s:g} s; is the '
                        'loopback interface up (ip link show lo)?')
        self._read_parameters(deadline, check)
        others = self.others([self.topic(ros_name(name)) for name in names])
        if others:
            raise TransportError(
                f'other publishers are on the topics of the demo in this ROS domain: '
                f'{"; ".join(others)}. Nothing was published; omit --domain, or give another')
        for label, number, before, after in _STEPS:
            state = self._state(deadline, check)
            if state.id == before:
                self._change(label, number, after, deadline, check)

    def _change(
        self, label: str, number: int, after: int, deadline: float, check: Callable[[], None],
    ) -> None:
        """
        Make a transition; its end shows by the answer or by the new state.

        :raises TransportError: if it fails, or does not end in time.
        """
        future = self._client.call_async(
            ChangeState.Request(transition=Transition(id=number)))
        state = State(label='unknown')
        asked, again = None, time.monotonic() + _ASK_AGAIN_S
        while not future.done():
            check()
            now = time.monotonic()
            if now > deadline:
                raise TransportError(f'{label} did not end in time; the node is {state.label}')
            if now > again:    # the answer may be lost
                if asked is not None and asked.done():
                    state = asked.result().current_state
                    if state.id == after:
                        return
                # Chosen: period of the state requests while a transition's answer can be lost (s).
                asked, again = self._watcher.call_async(GetState.Request()), now + 0.5
            time.sleep(0.01)
        # A node with autostart can have made the transition itself.
        if not future.result().success and self._state(deadline, check).id != after:
            raise TransportError(f'{label} failed; the reason is in the log of the node')

    def _state(self, deadline: float, check: Callable[[], None]) -> Any:
        """
        Return the node's lifecycle state, after the end of a transition.

        An answer also shows that the node has discovered this reader.
        """
        while True:
            state = self._ask(
                self._watcher, GetState.Request(), 'its state', deadline, check).current_state
            if state.id <= State.PRIMARY_STATE_FINALIZED:
                return state
            time.sleep(0.05)

    def _ask(
        self, client: Any, request: Any, what: str, deadline: float, check: Callable[[], None],
    ) -> Any:
        """
        Send an idempotent request repeatedly until there is an answer.

        :raises TransportError: if there is none in time.
        """
        futures: list[Any] = []
        while not any(future.done() for future in futures):
            check()
            if time.monotonic() > deadline:
                raise TransportError(f'the node {self._target} does not report {what}')
            futures.append(client.call_async(request))
            again = min(time.monotonic() + _ASK_AGAIN_S, deadline)
            while not futures[-1].done() and time.monotonic() < again:
                time.sleep(0.01)
        return next(future.result() for future in futures if future.done())

    def _read_parameters(self, deadline: float, check: Callable[[], None]) -> None:
        """Read the node's topic templates, outputs and selection of bodies."""
        names = ['topics.pose', 'topics.pose_ned', 'outputs', 'bodies.allow', 'bodies.deny']
        answer = self._ask(
            self._asker, GetParameters.Request(names=names), 'its parameters', deadline, check)
        values = dict(zip(names, map(parameter_value_to_python, answer.values)))
        pose, pose_ned, outputs = (values[name] for name in names[:3])
        if not {'pose', 'pose_ned'} & set(outputs):
            raise ConfigurationError(
                'outputs contains neither pose nor pose_ned: there are no poses to show')
        self._ned = 'pose' not in outputs
        self.transforms_wanted = not {'tf', 'tf_ned'}.isdisjoint(outputs)
        self._template = str(pose_ned if self._ned else pose)
        # Invalid values are replaced by defaults here; the node reports them.
        self.selection = sift(Selection, values, 'bodies.')[0]

    def others(self, topics: Sequence[str] = ()) -> list[str]:
        """
        Find publishers that are not the demo's.

        :param topics: topics besides /tf and those of the bodies seen so far.
        :returns: one line for each foreign node; empty if the demo is alone.
        """
        seen = [self.topic(name) for name in list(self._bodies)]    # grows meanwhile
        watched = {'/tf', '/tf_static'} if self.transforms_wanted else set()
        endpoints = [
            Endpoint(topic, full_name(info.node_name, info.node_namespace))
            for topic in sorted(watched.union(seen, topics))
            for info in self.node.get_publishers_info_by_topic(topic)
            if info.node_name != NAMELESS]
        own = f'/{self._target}'
        nodes = [full_name(*pair) for pair in self.node.get_node_names_and_namespaces()]
        return foreign(endpoints, [own], nodes.count(own))

    def topic(self, name: str) -> str:
        """Return the topic of a body's poses."""
        return str(expand_topic_name(
            self._template.replace('{body}', name), self._target, '/'))

    def rows(self) -> list[BodyRow]:
        """Return the statistics of each body seen so far, in the order of names."""
        return [
            body.row(name, self._ned, self._transforms.get(self._frame(body), 0))
            for name, body in sorted(self._bodies.items())]

    def _frame(self, topic: BodyTopic) -> str:
        """
        Find the frame of a body: that of the transform equal to one of its poses.

        The name of the frame is not used, because users choose it by template or per body.
        """
        if not topic.frame:
            children = self._children.copy()
            topic.frame = next(
                (children[key] for key in list(topic.keys) if key in children), '')
        return topic.frame

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        prefix = f'{self._target}: '
        for status in message.status:
            if not status.name.startswith(prefix):
                continue
            what = status.name[len(prefix):]
            if what == 'clock':
                self.clock = {pair.key: pair.value for pair in status.values}
            elif what == 'connection':
                self.connection = status.message
                if status.level == DiagnosticStatus.ERROR:
                    self.trouble = status.message
            elif what.startswith('body ') and self._template:
                self._subscribe(what[len('body '):])

    def _subscribe(self, name: str) -> None:
        if name in self._bodies:
            return
        topic = self._bodies[name] = BodyTopic()
        callback: Any = topic.take
        self.node.create_subscription(PoseStamped, self.topic(name), callback, _QOS)

    def _take_tf(self, message: TFMessage) -> None:
        for transform in message.transforms:
            child = transform.child_frame_id
            self._transforms[child] = self._transforms.get(child, 0) + 1
            self._children[_key(transform.header, transform.transform.translation)] = child
        # Chosen: stored transforms that no pose has identified yet. It bounds the memory.
        while len(self._children) > 20_000:
            del self._children[next(iter(self._children))]


#: Time of discovery on one computer (s). Chosen: Fast DDS repeats its announcements every 3 s by
#: default, and half of the first ones are missed on a loaded computer (measured: 5 of 6 searches
#: took 2.5 to 2.7 s).
LOOK_S = 4.0


def publishers_below(namespace: str, look_s: float = LOOK_S) -> list[str]:
    """
    List the nodes that publish on topics below a namespace.

    :param namespace: with a slash in front.
    :param look_s: time of the search (s).
    :returns: one line for each node; none if the namespace is free.
    """
    found: list[str] = []
    with ToolNode('optitrack_vrpn_demo_look', start_parameter_services=False,
                  enable_rosout=False) as look:
        deadline = time.monotonic() + look_s
        # A publisher can be discovered before the name of its node.
        while time.monotonic() < deadline and (
                not found or any(NAMELESS in line for line in found)):
            time.sleep(0.1)
            found = foreign([
                Endpoint(topic, full_name(info.node_name, info.node_namespace))
                for topic, _ in look.node.get_topic_names_and_types()
                if topic.startswith(f'{namespace}/')
                for info in look.node.get_publishers_info_by_topic(topic)], (), 0)
    return found
