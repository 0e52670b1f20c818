# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Controlled systems in separate processes follow the commonly used controllers.

cam_1 is the example of docs/mocap_control.md, cam_2 the same in a namespace, eager has relative
topics and may be configured by a START, bad fails to activate, gone is shut down.
"""

from pathlib import Path
import time

from control_graph import (
    ACK_START, ACK_STOP, CONTROL, Controller, INFO, LATCHED, old_messages, START, STOP, Systems,
    Tool)
from lifecycle_msgs.srv import GetState
from mocap4r2_control_msgs.msg import Control, MocapInfo
import pytest
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rosgraph import wait_until

pytestmark = pytest.mark.ros
CAM_1, CAM_2, EAGER = '/cam_1', '/lab/a/cam_2', '/lab/b/eager'
IN_ROOT = 4     # systems that listen in the root namespace


@pytest.fixture(scope='module')
def systems(tmp_path_factory):
    found = Systems(tmp_path_factory.mktemp('logs'))
    found.start('cam_1')
    found.start('cam_2', namespace='/lab/a')
    found.start('eager', namespace='/lab/b', parameters=[
        'control.absolute_topics:=false', 'control.configure_on_start:=true'])
    found.start('bad', script=Path(__file__).parent / 'failing_system.py')
    found.start('gone')
    yield found
    found.end()


@pytest.fixture(scope='module')
def controller(systems):
    with Controller() as found:
        found.wait_for(IN_ROOT)
        yield found


@pytest.fixture(scope='module')
def old_controller(systems):
    with Controller(
            'old_controller', control=old_messages.Control, info=old_messages.MocapInfo,
            topics=('/mocap_control', '/mocap_environment'), source='mocap_source',
            targets='mocap_systems') as found:
        found.wait_for(IN_ROOT)
        assert found.state(CAM_1) and found.state(CAM_2)     # they have found it too
        yield found


@pytest.fixture(autouse=True)
def fresh(controller):
    controller.bring(CAM_1, 'inactive')
    controller.bring(CAM_2, 'inactive')
    controller.acks.clear()


# -- the tools that people use --------------------------------------------------------------------

def test_rqt_starts_and_stops_what_is_ticked(controller):
    """START names "", rqt's own "System" and what is ticked; STOP names nobody."""
    controller.send(START, ['', 'System', 'cam_1'], 'take 1')
    assert controller.answers(1) == [(ACK_START, 'cam_1', 'take 1')]
    assert controller.none()
    assert (controller.state(CAM_1), controller.state(CAM_2)) == ('active', 'inactive')
    controller.send(STOP)
    answers = controller.answers(2)
    assert (ACK_STOP, 'cam_1', 'take 1') in answers
    assert (ACK_STOP, 'cam_2') in [answer[:2] for answer in answers]
    assert (controller.state(CAM_1), controller.state(CAM_2)) == ('inactive', 'inactive')


def test_everyone_starts_on_an_empty_list_and_a_namespace_is_no_part_of_a_name(controller):
    controller.send(START, [], 's')
    assert sorted(controller.answers(2)) == [
        (ACK_START, 'cam_1', 's'), (ACK_START, 'cam_2', 's')]
    controller.obeyed(STOP, 'cam_2')
    assert (controller.state(CAM_1), controller.state(CAM_2)) == ('active', 'inactive')


@pytest.mark.parametrize('kind, answer', [(START, ACK_START), (STOP, ACK_STOP)])
def test_mocap4r2cli_hears_the_answer_though_it_listens_late(systems, controller, kind, answer):
    """
    It publishes as soon as it has a publisher, subscribes then, and waits for 0.5 s.

    A busy machine may need longer than that: here it waits for 5 s.
    """
    controller.bring(CAM_1, 'inactive' if kind == START else 'active')
    with Tool('mocap4r2cli') as tool:
        found, heard = [], []
        tool.node.create_subscription(
            MocapInfo, INFO, lambda message: found.append(message.mocap4r2_source), LATCHED)
        assert tool.spin_until(lambda: 'cam_1' in found)
        assert tool.call(GetState, '/cam_1/get_state', GetState.Request())
        begin = time.monotonic()
        publisher = tool.node.create_publisher(Control, CONTROL, 10)
        publisher.publish(Control(
            control_type=kind, stamp=tool.node.get_clock().now().to_msg(),
            mocap4r2_source='mocap4r2cli', session_id='cli_session',
            mocap4r2_systems=['cam_1']))
        time.sleep(0.03)    # an answer that did not wait would be gone by now
        tool.node.create_subscription(Control, CONTROL, heard.append, 10)
        while not heard and time.monotonic() - begin < 5.0:
            tool.executor.spin_once(timeout_sec=0.1)
        assert [(m.control_type, m.mocap4r2_source) for m in heard[:1]] == [(answer, 'cam_1')]
        assert tool.state('/cam_1') == ('active' if kind == START else 'inactive')
        # It shows each announcement as its own system, so there must be one alone.
        assert found.count('cam_1') == 1


def test_both_generations_side_by_side(controller, old_controller):
    old_controller.obeyed(START, 'cam_1', 'old')
    assert controller.none()
    controller.obeyed(START, 'cam_1', 'new')
    controller.send(STOP, ['cam_1'])
    assert controller.answers(1) == [(ACK_STOP, 'cam_1', 'new')]
    assert old_controller.none()
    infos = {info.mocap_source: info for info in old_controller.infos}
    assert list(infos['cam_1'].topics) == ['/cam_1/pose']


# -- acknowledgements -----------------------------------------------------------------------------

def test_a_hundred_alternations_at_speed_lose_no_acknowledgement(controller):
    sent = []
    for number in range(100):
        for kind, answer in ((START, ACK_START), (STOP, ACK_STOP)):
            controller.send(kind, ['cam_1', 'cam_2'], f'{number} {kind}')
            sent.append((answer, f'{number} {kind}'))
    answers = controller.answers(400, 60)
    for name in ('cam_1', 'cam_2'):
        assert [(kind, session) for kind, source, session in answers if source == name] == sent
    assert (controller.state(CAM_1), controller.state(CAM_2)) == ('inactive', 'inactive')


@pytest.mark.parametrize('kind', [START, STOP])
@pytest.mark.parametrize('name, before', [('cam_1', 'unconfigured'), ('gone', 'finalized')])
def test_commands_that_do_not_fit_the_state_are_not_acknowledged(
        systems, controller, kind, name, before):
    controller.bring('/' + name, before)
    controller.send(kind, [name])
    refusal = 'is not acknowledged: the node is ' + before
    wait_until(lambda: refusal in systems.log(name), what=refusal)
    assert controller.none()
    assert controller.state('/' + name) == before


def test_start_configures_where_it_may_in_the_namespace_of_relative_topics(systems, controller):
    with Controller('near_controller', prefix='/lab/b') as near:
        near.wait_for(1)
        # rqt can tick only whom it has heard of.
        assert near.spin_until(lambda: near.infos)
        assert near.infos[0].mocap4r2_source == 'eager' and not near.infos[0].topics
        controller.send(START, ['eager'])   # in the root, where it does not listen
        assert controller.none()
        assert near.state(EAGER) == 'unconfigured'
        near.obeyed(START, 'eager', 's')
        assert near.state(EAGER) == 'active'
        assert near.spin_until(lambda: len(near.infos) > 1)
        assert near.infos[-1].topics == ['/lab/b/eager/pose']
        assert near.infos[-1].ros_version_source == MocapInfo.ROS2


def test_the_example_is_told_of_sessions(systems, controller):
    controller.obeyed(START, 'cam_2', 'take 7')
    controller.obeyed(STOP, 'cam_2')
    assert controller.spin_until(lambda: 'recording ends' in systems.log('cam_2'))
    assert "recording session 'take 7'" in systems.log('cam_2')


@pytest.mark.parametrize('how, reason, after', [
    ('failure', ['no camera answers'], 'inactive'),
    ('raise', ['on_activate', 'RuntimeError: the lens cap is on'], 'unconfigured'),
    ('none', ['on_activate', 'None'], 'unconfigured'),
])
def test_a_failed_activation_is_not_acknowledged_and_its_reason_logged(
        systems, controller, how, reason, after):
    def fail(how):
        controller.call(SetParameters, '/bad/set_parameters', SetParameters.Request(
            parameters=[Parameter('how', value=how).to_parameter_msg()]))
        controller.bring('/bad', 'inactive')
    fail(how)
    controller.send(START, ['bad'])
    for said in (*reason, f'the node is {after}'):
        assert controller.spin_until(lambda said=said: said in systems.log('bad')), said
    assert controller.none()
    assert controller.state('/bad') == after
    # It is none the worse for it; and an error in what a subclass makes of a START is its own.
    fail('')
    controller.obeyed(START, 'bad')
    assert controller.spin_until(lambda: 'no disk' in systems.log('bad'))
    controller.bring('/bad', 'unconfigured')
