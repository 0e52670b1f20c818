# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node in this process: failures around it, and settings that take effect at once."""

import itertools
import threading

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn.core.errors import OptitrackVrpnError
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.drivers.table import make_source
from optitrack_vrpn.guests.machine.axis_bridge_ros import AxisBridge
from optitrack_vrpn.guests.machine.gantry_controller_ros import GantryController
from optitrack_vrpn.node.node import OptitrackVrpnNode
from optitrack_vrpn.node.publishers import Publishers
import pytest
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.timer import Timer
from rosgraph import NodeHere, silence, stamp_ns, wait_until
from world import bug, held, logged, parameters, refusing, released, WatchedNode

pytestmark = [pytest.mark.ros, pytest.mark.network]
LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def test_a_bug_in_configure_does_not_end_the_node(
        user, motive, console):
    port, makers = motive('wand'), [bug, make_source]
    with NodeHere(parameters(port), source_of=lambda *given: makers.pop(0)(*given)) as here:
        assert not user.transition('configure')
        log = logged(console, 'ArithmeticError: made up')
        assert 'Traceback' in log
        assert user.state() == 'unconfigured'
        assert not [p for p in here.node.publishers if 'tf' in p.topic_name]
        assert user.transition('configure') and user.transition('activate')
        user.poses('/wand/pose').wait(10)


@pytest.mark.parametrize('error, after', [
    (ArithmeticError, 'unconfigured'), (OptitrackVrpnError, 'inactive')])
def test_autostart_tells_of_an_activation_that_fails(user, console, error, after):
    def failing(topic, _):
        if topic.endswith('tf_static'):
            raise error('made up')
    with NodeHere(parameters(3883, autostart=True), cls=WatchedNode, sending=failing):
        logged(console, f'autostart stops: activate failed; the node is {after}')
        assert user.state() == after


def test_a_frame_lost_to_a_bug_costs_no_other(user, motive, console):
    calls = itertools.count(1)

    def failing(topic, _):
        if topic == 'wand/pose' and next(calls) == 20:
            bug()
    with NodeHere(parameters(motive('wand'), autostart=True), cls=WatchedNode, sending=failing):
        topic = user.poses('/wand/pose')
        topic.wait(100)
        logged(console, 'ArithmeticError: made up')
        stamps = [stamp_ns(message) for message in topic.messages()]
        assert stamps == sorted(set(stamps))


def test_a_bug_in_the_watchdog_ends_neither_it_nor_the_node(
        user, motive, console):
    looks = []

    class Failing(OptitrackVrpnNode):

        def count_publishers(self, *arguments, **options):
            looks.append(arguments)
            if len(looks) == 1:
                bug()
            return super().count_publishers(*arguments, **options)
    with NodeHere(parameters(motive('wand'), autostart=True), cls=Failing):
        logged(console, 'bug in tick')
        assert user.state() == 'active'
        wait_until(lambda: len(looks) > 3, what='ticks')


@pytest.mark.parametrize('names', [('tf', 'wand'), ('wand', 'tf')])
def test_a_body_whose_topic_is_refused_costs_the_others_nothing(
        user, motive, console, names):
    """Its plain topic would be that of the transforms, which has another type."""
    with NodeHere(parameters(motive(*names), autostart=True, topics__pose='{body}'),
                  cls=WatchedNode, creating=refusing('tf')):
        topic = user.poses('/wand')
        topic.wait(100)
        log = logged(console, "'tf' cannot be")
        assert log.count('cannot be published') == 1
        messages = pytest.importorskip('mocap4r2_control_msgs.msg')
        infos = user.listen(messages.MocapInfo, '/mocap4r2_environment', LATCHED)
        # They are told after the first poses.
        wait_until(lambda: any('/wand' in info.topics for info in infos.messages()),
                   what='word to controllers')


def test_a_slow_new_body_delays_no_other(user, motive):
    released = threading.Event()

    def slow(topic, _):
        assert not topic.startswith('slow/') or released.wait(30.0)
    with NodeHere(parameters(motive('wand', 'slow'), autostart=True), cls=WatchedNode,
                  creating=slow):
        try:
            user.poses('/wand/pose').wait(100)
            assert '/slow/pose' not in user.topics()
        finally:
            released.set()
        user.poses('/slow/pose').wait(10)


class LastStatus(dict):
    """Last status that the node published, by body; subscribers may miss it on a busy machine."""

    def note(self, topic, message):
        if topic.endswith('/status'):
            self[topic.partition('/')[0]] = deserialize_message(message, DiagnosticStatus)


def test_latched_messages_end_with_their_subject(user, motive):
    last_status = LastStatus()
    with NodeHere(parameters(motive('wand', 'ghost'), autostart=True), cls=WatchedNode,
                  sending=last_status.note):
        states = user.listen(DiagnosticStatus, '/ghost/status', LATCHED)
        states.wait(1)
        assert user.set(bodies__deny=['ghost']) == ''
        last = last_status['ghost']
        assert (last.level, last.message) == (DiagnosticStatus.STALE, 'no longer selected')
        assert last.name == states.messages()[0].name
        wait_until(lambda: not user.node.count_publishers('/ghost/status'))
        late = user.listen(DiagnosticStatus, '/ghost/status', LATCHED)
        silence([late])
        assert len(late) == 0

        def worlds():
            static = user.transforms(static=True)
            static.wait(1)
            return [t.child_frame_id for t in static.messages()[-1].transforms]
        assert worlds() == ['optitrack_ned']
        assert user.set(outputs=['pose', 'tf', 'status']) == ''
        assert worlds() == []
        assert user.set(outputs=['pose', 'pose_ned', 'tf', 'tf_ned', 'status']) == ''
        assert worlds() == ['optitrack_ned']


def test_a_body_and_status_that_leave_together_are_not_tracked_any_more(user, motive):
    last_status = LastStatus()
    with NodeHere(parameters(motive('wand', 'ghost'), autostart=True), cls=WatchedNode,
                  sending=last_status.note) as here:
        wait_until(lambda: [
            each.message.count('TRACKED') for each in last_status.values()] == [1, 1])
        changes = [Parameter('bodies.deny', value=['ghost']), Parameter('outputs', value=['pose'])]
        assert here.run(lambda: here.node.set_parameters_atomically(changes)).successful
        assert [each.level for each in last_status.values()] == 2 * [DiagnosticStatus.STALE]
        wait_until(lambda: user.topics() == ['/wand/pose'])


def test_the_last_status_of_a_body_at_cleanup_is_not_tracked(user, motive):
    with NodeHere(parameters(motive('wand'), autostart=True)):
        states = user.listen(DiagnosticStatus, '/wand/status', LATCHED)
        wait_until(lambda: any('TRACKED' in each.message for each in states.messages()))
        assert user.transition('deactivate') and user.transition('cleanup')
        wait_until(lambda: states.messages(-1)[0].level == DiagnosticStatus.STALE)


def test_an_outage_is_logged_again_after_the_node_is_configured_again(
        user, unused_port, console):
    """What the user changed in between may not have helped."""
    with NodeHere(parameters(unused_port)):
        for _ in range(2):
            assert user.transition('configure')
            logged(console, f'port {unused_port} of')
            assert user.transition('cleanup')
            logged(console, 'stopped')


def test_a_timer_that_an_executor_has_found_due_can_be_called_after_a_cleanup():
    """An executor of several threads calls it then; an exception would end the executor."""
    with NodeHere(parameters(3883), spin=False) as here:
        executor = SingleThreadedExecutor(context=here.context)
        executor.add_node(here.node)
        here.node.trigger_configure()
        while True:
            due, entity, _ = executor.wait_for_ready_callbacks(timeout_sec=20.0)
            if isinstance(entity, Timer):
                break
            due()
        here.node.trigger_cleanup()
        due()
        assert due.exception() is None


def test_a_change_of_outputs_that_the_middleware_refuses_changes_nothing(
        user, motive, console):
    with NodeHere(parameters(motive('wand'), autostart=True), cls=WatchedNode,
                  creating=refusing('wand/odom')) as here:
        user.poses('/wand/pose').wait(10)
        changes = [Parameter('bodies.deny', value=['wand']), Parameter('outputs', value=['odom'])]
        here.run(lambda: here.node.set_parameters_atomically(changes))
        logged(console, 'another type')
        user.poses('/wand/pose').wait(10)
        assert 'status' in user.get('outputs') and list(user.get('bodies.deny')) == ['']
        assert user.set(outputs=['pose', 'twist']) == ''    # the next change is applied
        assert here.node.configuration.settings.outputs == ('pose', 'twist')


def test_a_change_that_another_callback_refuses_never_runs(user, motive):
    with NodeHere(parameters(motive('wand'), autostart=True), cls=WatchedNode) as here:
        user.poses('/wand/pose').wait(10)
        before = here.node.configuration

        def refuse(_):
            seen.append(here.node.configuration)
            return SetParametersResult(successful=False, reason='not now')
        # rclpy calls the newest callback first: this one comes after the node's own.
        seen, own = [], list(here.node._on_set_parameters_callbacks)
        here.node._on_set_parameters_callbacks.append(refuse)
        assert own and user.set(outputs=['odom']) == 'not now'
        assert seen == [before] and here.node.configuration is before
        here.node._on_set_parameters_callbacks.remove(refuse)
        assert user.set(outputs=['odom']) == ''
        assert here.node.configuration.settings.outputs == ('odom',)


def test_a_body_that_appears_during_a_refused_change_of_outputs_is_published(
        user, motive, monkeypatch):
    prepare = Publishers.prepare
    changing, prepared = threading.Event(), threading.Event()

    def creating(topic, _):
        if topic.endswith('/odom'):
            changing.set()
            assert prepared.wait(30.0)
            raise RuntimeError('another type')

    def late(self, channel):
        if channel.names.motive == 'late':
            assert changing.wait(30.0)
            prepared.set()
        return prepare(self, channel)
    monkeypatch.setattr(Publishers, 'prepare', late)
    with NodeHere(parameters(motive('wand', 'late'), autostart=True), cls=WatchedNode,
                  creating=creating):
        user.poses('/wand/pose').wait(10)
        user.set(outputs=['odom'])
        user.poses('/late/pose').wait(10)
        assert 'status' in user.get('outputs')


def test_a_shared_topic_that_the_middleware_refuses_leaves_nothing_behind(
        user, console):
    refused = [refusing('pose_array')]
    with NodeHere(parameters(3883, outputs=['tf', 'pose_array']), cls=WatchedNode,
                  creating=lambda *given: [refuse(*given) for refuse in refused]) as here:
        before = held(here.node)
        assert not user.transition('configure')
        refused.clear()
        logged(console, 'another type')
        wait_until(lambda: released(here.node, before), what='release')
        assert user.transition('configure')


@pytest.mark.parametrize('cls', [OptitrackVrpnNode, AxisBridge, GantryController])
def test_no_timer_follows_the_system_clock(cls):
    """Set back by an hour, it would stop them for an hour."""
    with NodeHere({'autostart': True}, spin=False, cls=cls) as here:
        assert {timer.clock.clock_type for timer in here.node.timers} == {ClockType.STEADY_TIME}


def test_the_executor_of_a_node_that_publishes_sleeps(user, motive):
    """Each call of a timer would make it visit all entities, while poses wait."""
    with NodeHere(parameters(motive('wand'), autostart=True)) as here:
        user.poses('/wand/pose').wait(1)
        user.listen(DiagnosticArray, '/diagnostics', 10).wait(1)
        assert all(timer.is_canceled() for timer in here.node.timers)


def test_cleanup_does_not_wait_for_new_publishers(
        user, motive):
    """Hundreds of bodies take seconds, in which no service would answer."""
    bodies, prepared, ending = 'abc', set(), threading.Event()

    def slow(topic, _):
        if topic[:2] in {f'{body}/' for body in bodies}:
            prepared.add(topic[0])
            assert ending.wait(30.0)

    class Noting(Worker):

        def stop(self):
            ending.set()
            super().stop()
    with NodeHere(parameters(motive(*bodies)), cls=WatchedNode, creating=slow,
                  ticker_of=Noting) as here:
        assert user.transition('configure')
        wait_until(lambda: prepared and len(here.node.pipelines[0].bodies) == 3)
        assert user.transition('cleanup')
        assert len(prepared) == 1


def test_a_parameter_that_is_set_during_a_transition_is_refused():
    """As by another thread. Otherwise its value would be shown, and another one used."""
    reasons = []

    class Backend:

        def __init__(self, *_):
            self.start()    # before there is a pipeline

        def start(self):
            reasons.append(here.node.set_parameters(
                [Parameter('bodies.deny', value=['ghost'])])[0].reason)

        def stop(self):
            pass
    with NodeHere(parameters(3883), spin=False, source_of=Backend) as here:
        assert here.node.trigger_configure().name == 'SUCCESS'
        assert ['the parameter again' in reason for reason in reasons] == [True, True]
        assert here.node.get_parameter('bodies.deny').value == ['']
