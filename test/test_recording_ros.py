# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The recorder in the ROS graph: published messages are in the bag, whoever started it."""

import contextlib
import itertools
import json
from pathlib import Path
import re
import signal
import time

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, TransformStamped
from optitrack_vrpn.control.protocol import ControlConfig
from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.takes.assess.rules import findings
from optitrack_vrpn.takes.record.recorder_ros import Recorder, RecorderConfig
from optitrack_vrpn.takes.take_io import load_take
from optitrack_vrpn.takes.topics import TopicChoice
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from recording_kit import by_mcap, by_rosbags
from rosgraph import NodeHere, NodeProcess, Observer, wait_until
from sensor_msgs.msg import Imu
from tf2_msgs.msg import TFMessage

pytest.importorskip('mcap', reason='an independent reader')
pytest.importorskip('rosbags', reason='an independent reader')
pytestmark = [pytest.mark.ros]


def pose(number):
    message = PoseStamped()
    message.header.stamp.sec, message.header.stamp.nanosec = 1_790_000_000, number * 1000
    message.header.frame_id = 'optitrack'
    message.pose.position.x = 0.1 * number
    message.pose.orientation.w = 1.0
    return message


@pytest.fixture
def graph(tmp_path, observer):
    """Make recorders, and publishers beside them."""
    class Graph:
        node = observer.node
        folder = tmp_path
        bag = tmp_path / 'take' / 'take.mcap'

        def recorder(self, control=None, folder='take', **config):
            here = NodeHere(
                cls=Recorder, system_ns=config.pop('system_ns', time.time_ns),
                config=RecorderConfig(self.folder / folder, **config),
                control=control or ControlConfig(generations=('none',)))
            return made.enter_context(here).node

        def publisher(self, kind, topic, latched=False, reliable=True):
            return self.node.create_publisher(kind, topic, QoSProfile(
                depth=1000, reliability=ReliabilityPolicy.RELIABLE if reliable
                else ReliabilityPolicy.BEST_EFFORT,
                durability=DurabilityPolicy.TRANSIENT_LOCAL if latched
                else DurabilityPolicy.VOLATILE))

    with contextlib.ExitStack() as made:
        yield Graph()


def messages(rows, topic, kind=PoseStamped):
    """Give the messages of a topic; bytes would differ in CDR's padding, which is not zeroed."""
    return [deserialize_message(row[3], kind) for row in rows if row[0] == topic]


def taken(node, topic):
    return sum(reader.sequence for reader in node._intake.readers
               if reader.metadata.name == topic)


def matched(publisher):
    wait_until(lambda: publisher.get_subscription_count() == 1, what='the recorder')


def test_the_settings_of_the_publishers_are_in_the_bag(graph):
    graph.node.declare_parameter('stamps.mode', '<sender>')
    graph.node.declare_parameter('axes', [1, 2])
    wand = graph.publisher(PoseStamped, '/wand/pose')
    node = graph.recorder()
    assert node.trigger_configure().name == 'SUCCESS'
    matched(wand)
    assert node.trigger_activate().name == 'SUCCESS'
    wand.publish(pose(1))
    wand.publish(pose(2))
    name = graph.node.get_fully_qualified_name()
    wait_until(lambda: name in node._settings.found, what='the parameters')
    wait_until(lambda: node.progress().status.messages >= 2, what='messages')
    assert node.trigger_deactivate().name == 'SUCCESS'
    found = json.loads(load_take(graph.folder / 'take').notes[f'settings of {name}'])
    assert (found['stamps.mode'], found['axes']) == ('<sender>', [1, 2])


def test_every_message_is_recorded_bit_for_bit_with_its_qos(graph):
    wand = graph.publisher(PoseStamped, '/wand/pose')
    drone = graph.publisher(PoseStamped, '/drone/left/pose', reliable=False)
    static = graph.publisher(TFMessage, '/tf_static', latched=True)
    ignored = graph.publisher(Imu, '/imu')
    fixed = TFMessage(transforms=[TransformStamped(child_frame_id='optitrack_ned')])
    static.publish(fixed)
    node = graph.recorder()
    assert node.trigger_configure().name == 'SUCCESS'
    for publisher in (wand, drone, static):
        matched(publisher)
    wait_until(lambda: taken(node, '/tf_static') == 1, what='the latched transform')
    before_ns = time.time_ns()
    assert node.trigger_activate().name == 'SUCCESS'
    for number in range(300):
        wand.publish(pose(number))
        drone.publish(pose(1000 + number))
    late = graph.publisher(PoseStamped, '/late/pose')
    matched(late)
    late.publish(pose(7))
    wait_until(lambda: node.progress().status.messages >= 602, what='messages')
    assert ignored.get_subscription_count() == 0
    assert node.trigger_deactivate().name == 'SUCCESS'
    assert node.finished == (graph.folder / 'take', '')
    found = by_mcap(graph.bag)
    assert messages(found, '/wand/pose') == [pose(n) for n in range(300)]
    assert messages(found, '/drone/left/pose') == [pose(1000 + n) for n in range(300)]
    assert messages(found, '/late/pose') == [pose(7)]
    assert messages(found, '/tf_static', TFMessage) == [fixed]
    # log time is the arrival, publish time when the publisher sent; players begin with the
    # earliest, so that latched messages from before have the time of the start
    for name, log_ns, publish_ns, _ in found:
        assert publish_ns <= log_ns + 1_000_000
        assert before_ns <= log_ns
        if name != '/tf_static':
            assert before_ns - 1_000_000 <= publish_ns
            assert log_ns - publish_ns < 5e9
    _, connections = by_rosbags(graph.folder / 'take')
    offered = {c.topic: c.ext.offered_qos_profiles[0] for c in connections}
    assert offered['/tf_static'].durability.name == 'TRANSIENT_LOCAL'
    assert offered['/drone/left/pose'].reliability.name == 'BEST_EFFORT'
    assert offered['/wand/pose'].reliability.name == 'RELIABLE'


def test_a_clock_set_while_recording_is_logged_kept_and_reported(graph, console):
    """The recorder's view of the system clock is set; that of the middleware cannot be."""
    step_ns, looks = [0], []

    def system_ns():
        looks.append(step_ns[0])
        return time.time_ns() + step_ns[0]
    wand = graph.publisher(PoseStamped, '/wand/pose')
    node = graph.recorder(system_ns=system_ns)
    node.trigger_configure()
    matched(wand)
    node.trigger_activate()
    wand.publish(pose(1))
    # It compares the clocks before the step and after it; a busy machine may cost a comparison.
    before = len(looks)
    wait_until(lambda: len(looks) >= before + 3, what='looks at the clock')
    step_ns[0] = -3 * 10**9
    log = []

    def logged():
        log.append(console.unread())
        return re.search(r'WARN.* was set by ([-+.\d]+) s', ''.join(log))
    found = wait_until(logged, what='the step')
    # The clock may be slewed by 0.5 ms/s meanwhile, and each look may err by half a millisecond.
    assert float(found[1]) == pytest.approx(-3.0, abs=0.005)
    wand.publish(pose(2))
    wait_until(lambda: node.progress().status.messages >= 2, what='messages')
    node.trigger_deactivate()
    assert node.finished == (graph.folder / 'take', '')
    assert messages(by_mcap(graph.bag), '/wand/pose') == [pose(1), pose(2)]
    take = load_take(graph.bag)
    (step,) = take.notes['clock_steps'].split(', ')
    assert int(step.split(': ')[1]) == pytest.approx(-3e9, abs=5e6)
    assert any('clock' in finding.text and finding.severity is ERROR
               for finding in findings(take, []))


def test_a_publisher_that_returns_with_another_qos_is_recorded(graph, console):
    """A subscription with the QoS of the first publisher receives nothing of the second."""
    wand = graph.publisher(PoseStamped, '/wand/pose')
    node = graph.recorder()
    node.trigger_configure()
    matched(wand)
    node.trigger_activate()
    wand.publish(pose(1))
    wait_until(lambda: taken(node, '/wand/pose') == 1, what='the first pose')
    graph.node.destroy_publisher(wand)
    wand = graph.publisher(PoseStamped, '/wand/pose', reliable=False)
    matched(wand)
    wand.publish(pose(2))
    wait_until(lambda: node.progress().status.messages >= 2, what='messages')
    node.trigger_deactivate()
    assert messages(by_mcap(graph.bag), '/wand/pose') == [pose(1), pose(2)]
    assert re.search('WARN.*/wand/pose.* best_effort', console.unread())


def test_a_topic_that_the_middleware_refuses_does_not_end_the_recording(graph, console):
    """Fast DDS has one type for each topic of a process, here that of the recorder's publisher."""
    node = graph.recorder()
    node.create_publisher(Imu, '/wand/pose', 10)
    with Observer('other') as other:
        other.node.create_publisher(PoseStamped, '/wand/pose', 10)
        drone = graph.publisher(PoseStamped, '/drone/pose')
        node.trigger_configure()
        matched(drone)
        node.trigger_activate()
        wait_until(lambda: re.search('WARN.*/wand/pose .*not recorded', console.unread()))
        drone.publish(pose(1))
        wait_until(lambda: node.progress().status.messages == 1, what='the pose')


def test_a_failure_of_the_middleware_ends_the_recording_as_an_error(graph, console):
    """The thread that reads the messages would end, and the file would look intact."""
    wand = graph.publisher(PoseStamped, '/wand/pose')
    node = graph.recorder()
    node.trigger_configure()
    matched(wand)
    node.trigger_activate()
    wand.publish(pose(1))
    wait_until(lambda: node.progress().status.messages == 1, what='the pose')
    (reader,) = node._intake.readers
    whole, reader.subscription = reader.subscription, Broken(reader.subscription)
    wait_until(lambda: node.progress().fault, what='the failure')
    wait_until(lambda: re.search('ERROR.*can no longer be received', console.unread()))
    reader.subscription = whole
    node.trigger_deactivate()
    assert 'can no longer be received' in node.finished[1]
    assert 'can no longer be received' in load_take(graph.folder / 'take').notes['stopped']
    assert node.trigger_activate().name == 'FAILURE'


class Broken:
    """A subscription whose messages cannot be read."""

    def __init__(self, whole):
        self.qos_profile = whole.qos_profile

    @property
    def handle(self):
        raise RuntimeError('no handle')


def test_losses_with_two_publishers_are_counted_in_their_own_session(graph):
    """The respawn of a node is a second publisher; the first recording had the losses."""
    wands = [graph.publisher(PoseStamped, '/wand/pose', reliable=False) for _ in range(2)]
    for number in range(500):
        wands[0].publish(pose(number))    # it has run for some time
    node = graph.recorder(folder='takes', sessions=True)
    node.trigger_configure()
    for wand in wands:
        matched(wand)
    node.trigger_activate()
    for number in range(20):
        for wand in wands:
            wand.publish(pose(number))
    wait_until(lambda: node.progress().status.messages == 40, what='the poses')
    with node._intake._lock:    # nothing is read meanwhile
        for number in range(1500):
            for wand in wands:
                wand.publish(pose(number))
    for wand in wands:
        wand.publish(pose(7))
    # more messages than a reader keeps were sent
    wait_until(lambda: node.progress().status.messages + node.progress().lost == 40 + 3002)
    assert node.progress().lost >= 1000
    node.trigger_deactivate()
    assert 'lost on the way' in node.finished[1]
    node.trigger_activate()
    wands[1].publish(pose(8))
    wait_until(lambda: node.progress().status.messages >= 1, what='the pose')
    node.trigger_deactivate()
    assert node.finished[1] == ''


@pytest.mark.parametrize('bodies, problem', [
    (('dorne*',), '--bodies dorne* matches nothing'), ((), '')])
def test_a_recording_without_the_bodies_that_were_asked_for_is_no_success(graph, bodies, problem):
    """Without a further topic it is: launch files name topics that a robot may not have."""
    status = graph.publisher(DiagnosticArray, '/diagnostics')
    drone = graph.publisher(PoseStamped, '/drone_1/pose')
    node = graph.recorder(choice=TopicChoice(
        bodies=('drone*', *bodies), topics=('/camera/absent',)))
    node.trigger_configure()
    node.trigger_activate()
    for publisher, message in ((status, DiagnosticArray()), (drone, pose(1))):
        matched(publisher)
        publisher.publish(message)
    wait_until(lambda: node.progress().status.messages >= 2, what='the messages')
    node.trigger_deactivate()
    assert node.finished[1] == problem


def test_a_recording_without_any_message_names_the_topics_that_were_asked_for(graph):
    node = graph.recorder(choice=TopicChoice(topics=('/camera/absent',)))
    node.trigger_configure()
    node.trigger_activate()
    node.trigger_deactivate()
    assert node.finished[1].endswith('; --topic /camera/absent matches nothing')


def test_each_session_of_mocap_control_has_its_file(graph):
    control = pytest.importorskip('mocap4r2_control_msgs.msg', reason='control messages')
    node = graph.recorder(
        ControlConfig(configure_on_start=True), folder='takes', sessions=True)
    heard = []
    graph.node.create_subscription(
        control.Control, '/mocap4r2_control',
        lambda message: heard.append((message.control_type, message.session_id)), 100)
    commands = graph.node.create_publisher(control.Control, '/mocap4r2_control', 100)
    wait_until(lambda: commands.get_subscription_count() >= 2, what='the recorder')
    wand = graph.publisher(PoseStamped, '/wand/pose')

    def command(kind, session, answer):
        commands.publish(control.Control(
            control_type=kind, session_id=session, mocap4r2_source='tester',
            mocap4r2_systems=['recorder']))
        wait_until(lambda: (answer, session) in heard, what=f'the answer to {kind}')

    kinds = control.Control
    for session in ('take 7', 'take/8'):
        command(kinds.START, session, kinds.ACK_START)
        matched(wand)
        before = taken(node, '/wand/pose')
        wand.publish(pose(7))
        wait_until(lambda before=before: taken(node, '/wand/pose') > before, what='the pose')
        command(kinds.STOP, session, kinds.ACK_STOP)
    folders = sorted(path.name for path in (graph.folder / 'takes').iterdir())
    assert [name.rpartition('_')[0] for name in folders] == ['take_7', 'take_8']
    for name in folders:
        path = graph.folder / 'takes' / name / f'{name}.mcap'
        assert messages(by_mcap(path), '/wand/pose') == [pose(7)]


def test_the_command_records_until_it_is_interrupted(graph):
    wand = graph.publisher(PoseStamped, '/wand/pose')
    with NodeProcess('-o', graph.folder / 'take', tool='record', ros=False) as process:
        process.wait_for('recording')
        matched(wand)
        for number in range(50):
            wand.publish(pose(number))
        process.wait_for(r'50 messages, .* 1 topic\b', 10.0)
        code, _ = process.end()
    assert code == 0, process.log
    assert len(by_mcap(graph.bag)) == 50
    assert 'recorded 50 messages' in process.log
    assert 'Failed to publish' not in process.log


def is_stopped(pid):
    """Return whether a process does not run since it was sent SIGSTOP."""
    return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'T'


def test_a_loss_is_no_success(graph):
    """More messages than a reader keeps, while the recorder does not run."""
    wand = graph.publisher(PoseStamped, '/wand/pose', reliable=False)
    with NodeProcess('-o', graph.folder / 'take', tool='record', ros=False) as process:
        process.wait_for('recording')
        matched(wand)
        wand.publish(pose(0))
        process.wait_for(r'1 message, ', 25.0)
        process.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.process.pid))
        for number in range(1, 4000):
            wand.publish(pose(number))
        process.process.send_signal(signal.SIGCONT)
        numbers = itertools.count(4000)

        def told():
            # What comes after a loss tells the middleware of it.
            wand.publish(pose(next(numbers)))
            return 'lost on the way' in process.log    # a line each 10 s
        wait_until(told, 40.0)
        code, _ = process.end()
    assert code == 1
    assert len(by_mcap(graph.bag)) < next(numbers) - 1
