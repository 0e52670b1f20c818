# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""ControlledLifecycleNode in process: threads, parameters, missing packages."""

import threading

from control_graph import (
    ACK_START, ACK_STOP, Controller, hide, latched, old_messages, START, STOP)
from mocap4r2_control_msgs.msg import Control
from optitrack_vrpn.control.participant_ros import ControlledLifecycleNode
from optitrack_vrpn.control.protocol import ControlConfig, GENERATIONS
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.node.base.node_parts import ThrottledLog
import pytest
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter

pytestmark = pytest.mark.ros
NEW_ONLY = ControlConfig(generations=('mocap4r2',))


class SlowSystem(ControlledLifecycleNode):
    """Activates as soon as it may, and keeps what is reported to it."""

    def __init__(self, name, may=None, **kwargs):
        self.may = may
        self.reported = []
        super().__init__(name, **kwargs)

    def on_activate(self, state):
        if self.may:
            assert self.may.wait(60.0)
        return super().on_activate(state)

    def control_start(self, msg):
        self.reported.append(('start', msg.session_id, type(msg.original)))

    def control_stop(self, msg):
        self.reported.append(('stop', msg.session_id, type(msg.original)))


@pytest.fixture(scope='module')
def controller():
    with Controller('inside_controller') as found:
        yield found


def wait_for_text(controller, console, text):
    """Spin until a text is written; return what was written until then."""
    seen = []

    def written():
        seen.append(console.unread())
        return text in ''.join(seen)
    assert controller.spin_until(written)
    return ''.join(seen)


@pytest.fixture
def make(controller):
    made = []

    def make(name, kind=SlowSystem, **kwargs):
        node = kind(name, context=controller.context, **kwargs)
        made.append(node)
        controller.executor.add_node(node)
        controller.acks.clear()
        controller.infos.clear()
        return node
    yield make
    for node in made:
        controller.executor.remove_node(node)
        node.destroy_node()


def test_a_subclass_is_told_of_what_changed_its_state(controller, make, console):
    node = make('counted', control=NEW_ONLY)
    controller.wait_for(1)
    node.trigger_configure()
    for kind in (START, START, STOP, STOP, 9, -1):
        controller.send(kind, ['counted'], 's')
    controller.send(START, ['other'])
    assert len(controller.answers(4)) == 4
    wait_for_text(controller, console, 'unknown type 9')
    # Told of what changed its state, not of what found it so.
    assert node.reported == [('start', 's', Control), ('stop', 's', Control)]
    node.trigger_cleanup()
    controller.send(START, ['counted'])
    wait_for_text(controller, console, 'not acknowledged')
    assert controller.none(0.2)


def test_a_refused_start_names_the_node_in_full(controller, make, console):
    make('waiting', control=NEW_ONLY, namespace='/lab')
    controller.wait_for(1)
    controller.send(START, ['waiting'], 's')
    log = wait_for_text(controller, console, 'not acknowledged')
    assert '(ros2 lifecycle set /lab/waiting configure)' in log


def test_a_command_waits_for_the_transition_that_another_thread_makes(controller, make):
    may = threading.Event()
    node = make('busy', may=may, control=NEW_ONLY)
    controller.wait_for(1)
    node.trigger_configure()
    thread = threading.Thread(target=node.trigger_activate)
    thread.start()
    assert controller.spin_until(lambda: node.lifecycle_label == 'activating')
    controller.send(START, ['busy'], 'a')
    controller.send(STOP, ['busy'], 'b')
    controller.send(START, ['busy'], 'c')
    assert controller.none(0.2)
    may.set()
    assert controller.answers(3) == [
        (ACK_START, 'busy', 'a'), (ACK_STOP, 'busy', 'b'), (ACK_START, 'busy', 'c')]
    thread.join()
    assert node.lifecycle_label == 'active'


def test_a_flood_during_a_transition_is_bounded_and_reported(controller, make, console):
    may = threading.Event()
    node = make('flooded', may=may, control=NEW_ONLY)
    controller.wait_for(1)
    node.trigger_configure()
    thread = threading.Thread(target=node.trigger_activate)
    thread.start()
    assert controller.spin_until(lambda: node.lifecycle_label == 'activating')
    for _ in range(21):
        for _ in range(50):
            controller.send(STOP, ['flooded'], 's')
        controller.spin(0.02)
    wait_for_text(controller, console, 'too many commands')
    controller.spin(0.3)
    may.set()
    assert len(controller.answers(1000)) == 1000
    thread.join()
    assert node.lifecycle_label == 'inactive'
    assert controller.none(0.2)


def test_topics_may_be_announced_from_any_thread(controller, make):
    node = make('announcer', control=NEW_ONLY)
    controller.wait_for(1)
    node.set_info_topics(['/early'])
    controller.spin(0.2)
    assert not controller.infos     # it is not configured
    node.trigger_configure()
    assert controller.spin_until(lambda: controller.infos)
    assert controller.infos[-1].topics == ['/early']

    def bodies_appear():
        for number in range(100):
            node.set_info_topics([f'/body_{n}/pose' for n in range(number + 1)])
    threads = [threading.Thread(target=bodies_appear) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert controller.spin_until(lambda: len(controller.infos[-1].topics) == 100)
    controller.spin(0.2)
    assert len(controller.infos) < 10       # those that appear together are announced together
    node.set_info_topics(controller.infos[-1].topics)
    controller.spin(0.2)
    assert len(controller.infos[-1].topics) == 100
    count = len(controller.infos)
    node.set_info_topics(['/body_0/pose'])
    assert controller.spin_until(lambda: len(controller.infos) == count + 1)
    assert controller.infos[-1].topics == ['/body_0/pose']


class Breaking(ControlledLifecycleNode):
    """Announces a topic, and breaks down in the transitions that it is told to."""

    def __init__(self, name, breaks=(), **kwargs):
        self.breaks = breaks
        super().__init__(name, **kwargs)

    def on_configure(self, state):
        self.set_info_topics([f'/{self.get_name()}/pose'])
        return super().on_configure(state)

    def _break(self, name):
        return getattr(TransitionCallbackReturn, self.breaks.get(name, 'SUCCESS'))

    def on_activate(self, state):
        return self._break('activate')

    def on_cleanup(self, state):
        return self._break('cleanup')

    def on_shutdown(self, state):
        return self._break('shutdown')

    def on_error(self, state):
        if self.breaks.get('error') == 'raise':
            raise RuntimeError('made up')
        return self._break('error')


@pytest.mark.parametrize('moves, breaks, after, topics', [
    (['cleanup'], {}, 'unconfigured', []),
    (['cleanup'], {'cleanup': 'FAILURE'}, 'inactive', ['/leaver/pose']),
    (['activate', 'shutdown'], {'shutdown': 'FAILURE'}, 'finalized', []),
    (['activate'], {'activate': 'ERROR', 'error': 'raise'}, 'finalized', []),
    (['cleanup', 'configure'], {}, 'inactive', ['/leaver/pose']),
])
def test_late_joiners_are_told_of_no_topic_that_is_gone(
        controller, make, moves, breaks, after, topics):
    node = make('leaver', kind=Breaking, breaks=breaks, control=NEW_ONLY)
    node.trigger_configure()
    assert latched('leaver') == [['/leaver/pose']]
    for move in moves:
        getattr(node, f'trigger_{move}')()
    assert node.lifecycle_label == after
    assert latched('leaver') == [topics]


def test_an_expected_error_keeps_the_state_and_is_the_reason_of_a_refusal(
        controller, make, console):
    class Unplugged(ControlledLifecycleNode):

        def on_activate(self, state):
            raise TransportError('no cable')
    node = make('unplugged', kind=Unplugged, control=NEW_ONLY)
    controller.wait_for(1)
    node.trigger_configure()
    controller.send(START, ['unplugged'], 's')
    log = wait_for_text(controller, console, 'not acknowledged')
    assert node.lifecycle_label == 'inactive'
    assert 'cannot activate: no cable' in log and 'Traceback' not in log
    assert log.count('no cable') == 2, 'the reason of the refusal too'


def test_a_fault_is_logged_soon_after_an_information_of_the_same_key(make, console):
    log = ThrottledLog(make('noisy'))
    for severity, text in ((INFO, 'cable-in'), (ERROR, 'cable-out'), (ERROR, 'cable-out')):
        log(severity, text, 'cable')
    written = console.unread()
    assert 'cable-in' in written and written.count('cable-out') == 1


def test_a_state_is_logged_again_with_another_severity_and_not_each_time_it_changes(make, console):
    log = ThrottledLog(make('flapping'))
    for _ in range(10):
        log.state(WARN, 'cable-loose', 'cable')
        log.state(ERROR, 'cable-loose', 'cable')
    written = console.unread()
    assert written.count('cable-loose') == 2
    assert written.index('WARN') < written.index('ERROR')


def test_a_command_in_two_generations_is_acknowledged_in_both(
        controller, make, console):
    node = make('twofold', control=ControlConfig())
    old, kinds = controller.node.create_publisher(old_messages.Control, '/mocap_control', 1000), []
    controller.node.create_subscription(
        old_messages.Control, '/mocap_control', lambda msg: kinds.append(msg.control_type), 1000)
    controller.wait_for(1)
    assert controller.spin_until(lambda: old.get_subscription_count() >= 1)
    node.trigger_configure()

    stamp = controller.node.get_clock().now().to_msg()
    for publisher, kind, source, targets in (
            (old, old_messages.Control, 'mocap_source', 'mocap_systems'),
            (controller.publisher, Control, 'mocap4r2_source', 'mocap4r2_systems')):
        publisher.publish(kind(control_type=START, stamp=stamp, session_id='s', **{
            source: controller.node.get_name(), targets: ['twofold']}))
    assert [answer[:2] for answer in controller.answers(1)] == [(ACK_START, 'twofold')]
    assert controller.spin_until(lambda: ACK_START in kinds)
    assert console.unread().count('now active') == 1
    controller.node.destroy_publisher(old)


# -- generations and parameters -------------------------------------------------------------------


def test_a_wrong_parameter_is_named_and_configure_fails(make, capfd):
    node = make('wrong', parameter_overrides=[Parameter('control.generations', value=['mocap5'])])
    assert node.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert node.lifecycle_label == 'unconfigured'
    logged = capfd.readouterr().err
    assert logged.count("control.generations contains 'mocap5'") == 2
    with pytest.raises(ConfigurationError):
        make('wrong_too', control=ControlConfig(generations=('mocap5',)))


def test_without_any_messages_the_node_works_and_says_so_once(
        make, monkeypatch, capfd):
    hide(monkeypatch, *(generation.package for generation in GENERATIONS))
    node = make('lonely', control=ControlConfig())
    assert node.trigger_configure() is TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() is TransitionCallbackReturn.SUCCESS
    node.set_info_topics(['/x'])
    assert capfd.readouterr().err.count('mocap control is off') == 1
