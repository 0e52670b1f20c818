# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What of the topics of ROS reaches the pages of the dashboard, and what of the pages ROS."""

import asyncio
import json
import struct
import time

from dashboard_kit import aiohttp, connect, Published, run, Served, until
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import Point, TransformStamped, WrenchStamped
from hypothesis import assume, given, strategies as st
from optitrack_vrpn.takes.dashboard.feed_ros import part_of
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from rosgraph import NodeProcess, Observer
from server_kit import free_port
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

MARKUP = '<img/src=x/onerror=alert(1)>'


@pytest.fixture(scope='module')
def served(tmp_path_factory):
    served = Served('--takes', tmp_path_factory.mktemp('takes'))
    yield served
    served.close()


def test_bodies_of_ros_arrive_with_markup_as_text(served):
    with Observer() as observer:
        published = Published(observer.node, ['drone', MARKUP])

        async def work(session):
            async with connect(session, served) as socket:
                frames, found = [], None
                async for message in socket:
                    published.publish(message='é<b>')
                    if message.type is aiohttp.WSMsgType.BINARY:
                        frames.append(message.data)
                    else:
                        found = json.loads(message.data)
                        moved = len({frame[12:] for frame in frames}) > 2
                        if len(found['bodies']) == 2 and moved and all(
                                one['sign'] == 'ok' for one in found['bodies']):
                            break
                drone, other = sorted(found['bodies'], key=lambda one: one['name'], reverse=True)
                assert (drone['name'], other['name']) == ('drone', MARKUP)
                kind, _, count, age = struct.unpack_from('<BBHf', frames[-1])
                places = {index: x for index, _, x, *_ in struct.iter_unpack(
                    '<HH7f', frames[-1][8:])}
                assert (kind, count) == (1, 2) and age < 1.0
                assert 0 < places[drone['index']] <= published.step
                published.publish('STALE', 'out of view')
                lost = await until(socket, lambda one: any(
                    body['state'] == 'STALE' for body in one['bodies']))
                line, = [one for one in lost['findings'] if 'STALE' in one['text']]
                assert len(line['bodies']) == 2 and line['remedy']
        run(work)


def test_start_and_stop_of_two_pages_at_once_are_both_answered_and_shown_to_both(served):
    with NodeProcess('-p', f'port:={free_port()}', '-p', 'autostart:=true'):
        async def work(session):
            async with connect(session, served) as first, connect(session, served) as second:
                # At once: a page that is not read is cut.
                await asyncio.gather(*(until(page, lambda one: one['control']['systems'] and one[
                    'control']['systems'][0]['state'] == 'active') for page in (first, second)))
                await asyncio.gather(*(page.send_json({
                    'type': kind, 'id': by, 'session': 'take_1', 'by': by})
                    for page, kind, by in ((first, 'start', 'Ada'), (second, 'stop', 'Bob'),
                                           (second, 'start', 'Cy'))))
                return await asyncio.gather(*(until(page, lambda one: [
                    bool(row['answers']) for row in one['control']['commands']] == [True] * 3)
                    for page in (first, second)))
        shown = run(work)
    for rows in (one['control']['commands'] for one in shown):
        assert sorted((row['kind'], row['by'].split()[0]) for row in rows) == [
            ('START', 'Ada'), ('START', 'Cy'), ('STOP', 'Bob')]
        assert all([one['system'] for one in row['answers']] == ['optitrack_vrpn']
                   and not row['no_answer'] for row in rows)


def test_a_node_of_this_package_is_read_at_30_hz_and_need_not_publish_on_tf(served):
    port = free_port()
    with NodeProcess('--port', port, '--bodies', 2, '--rate', 120, '--motion', 'figure_eight',
                     tool='motive_sim', ros=False), \
            NodeProcess('-p', f'port:={port}', '-p', 'autostart:=true'), Observer() as observer:
        async def work(session):
            async with connect(session, served) as socket:
                # Bodies of the tests above are silent by then, and their /tf is not read either.
                await until(socket, lambda one: [body['sign'] for body in one['bodies'] if body[
                    'node'] == 'optitrack_vrpn'] == ['ok'] * 2 and (
                        observer.node.count_subscribers('/tf'),
                        observer.node.count_subscribers('/_tf_view')) == (0, 1))
                views = observer.listen(TFMessage, '/_tf_view', 100)
                every = observer.transforms()
                while len(views.messages()) < 30 or len(every.messages()) < 100:
                    await until(socket, lambda one: True)
                return [{(one.header.stamp.sec, one.header.stamp.nanosec, one.child_frame_id): (
                    one.header.frame_id, one.transform) for message in topic.messages()
                    for one in message.transforms} for topic in (views, every)]
        views, every = run(work)
    common = views.keys() & every.keys()
    assert len(common) >= 30 and all(views[key] == every[key] for key in common)
    stamps = sorted({seconds * 10**9 + nanoseconds for seconds, nanoseconds, _ in views})
    assert (stamps[-1] - stamps[0]) / (len(stamps) - 1) > 32e6


@pytest.mark.timed
def test_a_killed_node_has_no_body_that_is_live_or_waits(served):
    with Observer() as observer:
        published = Published(observer.node, ['drone'])

        async def work(session):
            async with connect(session, served) as socket:
                while not [one for one in (await until(socket, lambda one: True))['bodies']
                           if (one['name'], one['sign']) == ('drone', 'ok')]:
                    published.publish()
                words, began = [], time.monotonic()
                while not words or words[-1] != 'NO NEWS':
                    row, = [one for one in (await until(socket, lambda one: True))['bodies']
                            if one['name'] == 'drone']
                    words.append(row['state'])
                    assert row['sign'] == 'lost' or time.monotonic() - began < 1.5
                return words
        words = run(work)
    assert [word for word in dict.fromkeys(words) if word != 'TRACKED'] == [
        'NO POSE', 'NO NEWS'], words


def test_skeletons_and_force_plates_are_read_only_while_a_page_shows_them(served):
    figure = Marker(type=Marker.LINE_LIST, points=[
        Point(x=1.0, y=2.0, z=3.0), Point(x=1.0, y=2.0, z=4.0)])
    plate = TransformStamped(child_frame_id='plate_7')
    plate.transform.translation.x = plate.transform.rotation.x = 1.0    # its z points down
    plate.transform.rotation.w = 0.0
    wrench = WrenchStamped()
    wrench.header.frame_id = 'plate_7'
    wrench.wrench.force.z = -500.0
    with Observer() as observer:
        publishers = [observer.node.create_publisher(kind, topic, 1) for kind, topic in (
            (MarkerArray, '/lab/skeletons'), (WrenchStamped, '/lab/plate_7/wrench'),
            (TFMessage, '/tf'))]
        messages = MarkerArray(markers=[figure]), wrench, TFMessage(transforms=[plate])

        async def work(session):
            async with connect(session, served) as socket:
                await until(socket, lambda one: True)
                assert [one.get_subscription_count() for one in publishers[:2]] == [0, 0]
                await socket.send_json({'type': 'markers', 'on': True})
                async for message in socket:
                    plate.header.stamp = observer.node.get_clock().now().to_msg()
                    for publisher, one in zip(publishers, messages):
                        publisher.publish(one)
                    if message.type is aiohttp.WSMsgType.BINARY and message.data[0] == 3 and (
                            message.data[2] == 4):
                        break
                lines = [*struct.iter_unpack('<6fI', message.data[8:])]
                assert (1.0, 2.0, 3.0, 1.0, 2.0, 4.0, 0) in lines
                assert pytest.approx((1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 2)) in lines, '1 m is 1000 N'
                async for message in socket:    # none stays when no more arrive
                    if message.type is aiohttp.WSMsgType.BINARY and (
                            message.data[:4] == b'\3\0\0\0'):
                        break
        run(work)


def test_messages_of_ros_that_cannot_be_read_end_nothing(served):
    with Observer() as observer:
        tf = observer.node.create_publisher(TFMessage, '/tf', 10)
        good = serialize_message(TFMessage(transforms=[TransformStamped(child_frame_id='a')]))

        async def work(session):
            async with connect(session, served) as socket:
                for data in (good[:-8], good[:8] + b'\xff' * 40,
                             b'\0\1\0\0\xff\xff\xff\xff', good):
                    tf.publish(bytes(data))
                    await until(socket, lambda one: True)
        run(work)
    assert served.process.process.poll() is None


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_messages_of_the_same_bodies_are_recognised(world, name, other):
    def written(child, number):
        one = TransformStamped(child_frame_id=child)
        one.header.frame_id, one.header.stamp.sec = world, number
        one.transform.translation.x = float(number)
        return part_of(serialize_message(TFMessage(transforms=[one])))
    assume('\0' not in world + name + other)
    assert written(name, 1) == written(name, 2)
    assert (written(name, 1) == written(other, 1)) is (name == other)
    assert part_of(b'') == (0, b'')


def test_stop_is_refused_while_a_bridge_says_that_its_vehicle_is_armed(served):
    said = "/bridge_cf1 sends the poses of 'cf1', and the vehicle is armed"

    def bridge(publisher, armed, stop='refused'):
        publisher.publish(DiagnosticStatus(
            name='/bridge_cf1', hardware_id='cf1', message='the vehicle is armed', values=[
                KeyValue(key='armed', value=armed), KeyValue(key='stop', value=stop)]))

    async def work(session):
        with Observer() as observer:
            latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            publisher = observer.node.create_publisher(
                DiagnosticStatus, '/armed_vehicles', latched)
            async with connect(session, served) as socket:
                for released in (('false',), ('true', 'allowed')):
                    bridge(publisher, 'true')
                    await until(socket, lambda one: said in one['control']['armed'])
                    await socket.send_json({'type': 'stop', 'id': '7', 'session': 'armed'})
                    answer = await until(socket, lambda one: one['id'] == '7', 'refused')
                    assert said in answer['text']
                    bridge(publisher, *released)
                    await until(socket, lambda one: not one['control']['armed'])
                    assert (await until(socket, lambda one: one['control']['vehicles']))[
                        'control']['vehicles'] == [
                            {'body': 'cf1', 'bridge': '/bridge_cf1',
                             'armed': released[0] == 'true'}]
                bridge(publisher, 'unknown')
                shown = await until(socket, lambda one: one['control']['armed'])
                assert 'armed' not in [one['session'] for one in shown['control']['commands']]
                # A bridge that was killed refuses STOP for 3 s only.
                gone = await until(socket, lambda one: not one['control']['armed'])
                assert 2.0 < gone['time'] - shown['time'] < 8.0
    run(work)
