# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The content of /diagnostics about faults, as a monitor receives it."""

from fnmatch import fnmatch
import importlib.util
from pathlib import Path
import random
import re
import socket
import statistics
import sys
import time
import types

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn.node.status import StatusReporter
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest
from rclpy.clock import Clock
from rosgraph import NodeHere, Observer, silence, stamp_ns, wait_until
from server_kit import FakeServer
from transport_kit import message, name, pose, say_hello

pytestmark = [pytest.mark.ros, pytest.mark.network]
PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'diagnostics.md'


def node_of(port, **more):
    return NodeHere({
        'server': '127.0.0.1', 'port': port, 'connection': 'udp', 'autostart': True, **more})


def latest(topic):
    """Give the newest statuses by their names, without the node's."""
    return {status.name.partition(': ')[2]: status
            for message in topic.messages(-1) for status in message.status}


# -- what a server does to the node, counted ------------------------------------------------------

FRAME_US = 10_000
#: Names that the server has described, and numbers that it has not.
BODY, BUTTON, NOBODY, NOTHING = 1, 5, 77, 99


class Trouble:
    """
    A server that does once whatever may go wrong on the way, and then is silent.

    :ivar datagrams: how many it has sent, once it is done; 0 before.
    """

    def __init__(self):
        self.datagrams = 0

    def datagrams_in_order(self):
        """Give the datagrams, None where one is left out."""
        number = 0

        def numbered(data):
            nonlocal number
            number += 1
            return data[:20] + number.to_bytes(4, 'big') + data[24:]

        def frames(begin, end):
            return [numbered(pose(BODY, 10**6 + k * FRAME_US, k * 1e-3))
                    for k in range(begin, end)]
        yield from frames(0, 100)
        frames(100, 103)                                    # lost
        yield from frames(103, 120)
        yield from frames(120, 121) * 2                     # came twice
        yield from frames(121, 140)
        yield from reversed(frames(140, 142))               # overtaken
        yield from frames(142, 160)
        yield numbered(pose(NOBODY))
        yield numbered(message(BODY, NOTHING, b''))
        yield numbered(message(BODY, BUTTON, b''))
        wrong = numbered(pose(BODY))
        yield wrong[:8] + (10**6).to_bytes(4, 'big') + wrong[12:]    # microseconds
        yield bytes(24)
        yield numbered(pose(BODY))[:40]
        yield from frames(160, 400)
        # A sender that has begun again.
        yield from (numbered(pose(BODY, k * FRAME_US, 0.4 + k * 1e-3)) for k in range(1, 101))

    def serve(self, server, sock):
        """Shake hands, stream, and keep the connection."""
        heard = say_hello(sock)
        sock.sendall(name(BUTTON, 'vrpn_Button Change', -2) + name(5000, 'out of range'))
        target = ('127.0.0.1', int.from_bytes(heard[36:40], 'big'))
        time.sleep(0.2)    # what was said by TCP comes first
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(('127.0.0.2', 0))
            other.sendto(pose(), target)
        due, last = time.monotonic(), 10**6 - FRAME_US
        datagrams = list(self.datagrams_in_order())
        for data in datagrams:
            # Frames come when they say; what is between them takes no time.
            sent = int.from_bytes(data[4:8], 'big') * 10**6 + int.from_bytes(data[8:12], 'big')
            if 0 < sent - last < 10 * FRAME_US:
                due, last = due + (sent - last) * 1e-6, sent
            elif sent == FRAME_US:
                due, last = due + FRAME_US * 1e-6, sent
            time.sleep(max(0.0, due - time.monotonic()))
            server.udp.sendto(data, target)
        self.datagrams = len(datagrams)
        server.hold(sock)


@pytest.fixture(scope='module')
def troubled():
    """Give the values by status that such a server leads to, and messages of the time after."""
    trouble = Trouble()
    with FakeServer(trouble.serve) as server, Observer() as observer:
        topic = observer.listen(DiagnosticArray, '/diagnostics', 100)
        with node_of(server.port, **{
                # No hiccup of this machine is silence, or makes poses too old to go out.
                'validation.stale_after_s': 2.0, 'stamps.max_age_s': 10.0, 'load_shedding': False,
                'lowpass.cutoff_hz': 20.0}):
            wait_until(lambda: trouble.datagrams, 60.0, 'the end of the stream')

            def stale():
                status = latest(topic).get('body body')
                return status is not None and status.level == DiagnosticStatus.STALE
            wait_until(stale, 30.0, 'STALE')
            topic.wait(len(topic) + 3)
            messages = topic.messages()
    statuses = {status.name.partition(': ')[2]: {pair.key: pair.value for pair in status.values}
                for status in messages[-1].status}
    return trouble, statuses, messages


def test_what_went_wrong_on_the_way_is_counted_by_kind(troubled):
    trouble, statuses, _ = troubled
    values = statuses['connection']
    assert int(values['datagrams']) == trouble.datagrams
    assert {key: values[key] for key in (
        'udp_lost', 'udp_repeated', 'udp_reordered', 'malformed', 'bad_time', 'unknown_sender',
        'unknown_type', 'other_type', 'names_refused', 'unexpected_peers_refused', 'sessions',
        'failed_attempts', 'transport')} == {
            # Three frames, and the datagram that was cut off before its number could count.
            'udp_lost': '4', 'udp_repeated': '1', 'udp_reordered': '1', 'malformed': '2',
            'bad_time': '1', 'unknown_sender': '1', 'unknown_type': '1', 'other_type': '1',
            'names_refused': '1', 'unexpected_peers_refused': '1', 'sessions': '1',
            'failed_attempts': '0', 'transport': 'udp'}
    assert int(values['poses']) == 397 + 1 + 100
    # With four that are no poses of the body, and five names by TCP.
    assert int(values['messages']) == 397 + 1 + 100 + 4 + 5


def test_what_went_wrong_with_a_body_is_counted_by_kind(troubled):
    _, statuses, _ = troubled
    values = statuses['body body']
    assert {key: values[key] for key in (
        'motive_name', 'state', 'gaps', 'lost_frames', 'duplicates', 'too_old',
        'withheld_duplicate', 'resets')} == {
            # The frame that was overtaken was missing, too, when the next one came.
            'motive_name': 'body', 'state': 'STALE', 'gaps': '2', 'lost_frames': '4',
            'duplicates': '1', 'too_old': '0', 'withheld_duplicate': '1', 'resets': '1'}
    # One was overtaken; the others came before it was certain that the sender had restarted.
    assert 1 < int(values['out_of_order']) == int(values['withheld_out_of_order']) < 60
    withheld = sum(int(value) for key, value in values.items() if key.startswith('withheld_'))
    # A few more began the conversation, before it was known that they were no backlog.
    # Frames prove for half a second that they are fresh.
    assert 400 < int(values['good']) + withheld < 498
    assert 400 < int(values['published']) <= int(values['good'])
    assert float(values['rate_hz']) == float(values['nominal_rate_hz']) == pytest.approx(100, 0.01)
    assert float(values['age_s']) >= 2.0
    p50, p99, jitter = (float(values[key]) for key in (
        'latency_p50_us', 'latency_p99_us', 'jitter_p99_us'))
    assert 0.0 < p50 <= p99 < 2e6
    assert jitter == pytest.approx(p99 - p50, abs=0.2)


def test_frames_and_clock_are_reported(troubled):
    _, statuses, _ = troubled
    frames = statuses['frames']
    assert (frames['dropped_duplicate'], frames['dropped_too_old']) == ('1', '0')
    assert 1 < int(frames['dropped_out_of_order']) < 60
    for kind in ('work', 'wait', 'latency'):
        p50, p99, largest = (
            float(frames[f'{kind}_{field}_us']) for field in ('p50', 'p99', 'largest'))
        assert 0.0 <= p50 <= p99 <= largest < 5e6 and largest > 0.0
    clock = statuses['clock']
    assert (clock['mode'], clock['epoch'], clock['epochs_ended_sender_restarted']) == (
        'tracking', '1', '1')
    assert 50 < int(clock['samples']) <= 100


def keys_of_page():
    """Give the keys of each section of the page, patterns among them."""
    sections = re.split(r'^#### `(.*)`$', PAGE.read_text(), flags=re.MULTILINE)
    return {title: [key for line in text.splitlines() if line.startswith('| `')
                    for key in re.findall('`([^`]+)`', line.split('|')[1])]
            for title, text in zip(sections[1::2], sections[2::2])}


def test_every_key_is_on_the_page_and_the_page_has_no_other(troubled):
    _, statuses, _ = troubled
    page = keys_of_page()
    assert set(page) == {'connection', 'clock', 'frames', 'body NAME'}
    for title, patterns in page.items():
        emitted = set(statuses[title.replace('NAME', 'body')])
        assert len(patterns) == len(set(patterns)) > 3
        assert {key for key in emitted
                if not any(fnmatch(key, pattern) for pattern in patterns)} == set(), title
        unread = {'unread_udp_bytes', 'unread_tcp_bytes', 'dropped_unread'}
        elsewhere = set() if sys.platform.startswith('linux') else unread
        assert {pattern for pattern in patterns if not any(
            fnmatch(key, pattern) for key in emitted)} <= elsewhere, title


class Body:
    """What the order of the reports needs of a body."""

    gate = types.SimpleNamespace(rate_hz=1.0)

    def __init__(self, number):
        self.number = number


def test_each_body_is_reported_once_a_period_and_few_at_once(monkeypatch):
    """Ticks come at any times, and bodies at any of them."""
    chance, period_ns = random.Random(3), 10**9
    reporter = StatusReporter(types.SimpleNamespace(
        get_fully_qualified_name=lambda: '/node'), None, None)
    published, arrays = [], []
    monkeypatch.setattr(reporter, '_publish', lambda bodies, _: (
        published.append(bodies) or {body: (body.number, now) for body in bodies}))
    monkeypatch.setattr(reporter, '_diagnose', lambda bodies, *_: arrays.append((now, bodies)))
    bodies, now, most, gaps = [], 0, 0, {}
    while now < 400 * period_ns:
        now += chance.choice([10**6, 10**8, 101 * 10**6, 13 * 10**7])
        if len(bodies) < 60 and chance.random() < 0.02:
            bodies.append(Body(len(bodies)))
        changed = [body for body in bodies if chance.random() < 0.01]
        published.clear()
        reporter.report(bodies, changed, now)
        most = max([most, *map(len, published)])
        for body in {body for group in published for body in group}:
            gaps.setdefault(body.number, []).append(now)
        if arrays and arrays[-1][0] == now:
            assert [number for number, _ in arrays[-1][1]] == list(range(len(bodies)))
            assert all(now - at < 1.3 * period_ns for _, at in arrays[-1][1])
    assert len(arrays) == pytest.approx(400, abs=2) and len(bodies) == 60
    assert most <= 20    # of sixty
    for times in gaps.values():
        assert max(after - before for before, after in zip(times, times[1:])) < 1.5 * period_ns


@pytest.mark.parametrize('period_s, looks, arrays', [
    (1.0, 100, 100), (0.25, 400, 400), (10.0, 100, 10), (2.5, 120, 40)])
def test_the_log_looks_each_second_also_where_diagnostics_are_rare(
        monkeypatch, period_s, looks, arrays):
    reporter = StatusReporter(types.SimpleNamespace(
        get_fully_qualified_name=lambda: '/node'), None, None)
    reporter._diagnostics.period_s = period_s
    found = []
    monkeypatch.setattr(reporter, '_diagnose', lambda *of: found.append(of[-1]))
    for now_ns in range(0, 100 * 10**9 + 1, 5 * 10**7):
        reporter.report([], [], now_ns)
    assert (len(found), sum(found)) == (looks, arrays)


# -- diagnostic_updater ---------------------------------------------------------------------------

class Updater:
    """What the node uses of diagnostic_updater, made like the real one."""

    def __init__(self, node, period=1.0):
        self.node = node
        self.publisher = node.create_publisher(DiagnosticArray, '/diagnostics', 1)
        self.period = node.declare_parameter('diagnostic_updater.period', period).value
        self.timer = node.create_timer(self.period, self.update)

    def update(self):
        self.publish([])

    def publish(self, statuses):
        array = DiagnosticArray(status=statuses)
        array.header.stamp = Clock().now().to_msg()
        for status in statuses:
            status.name = f'{self.node.get_name()}: {status.name}'
        self.publisher.publish(array)


@pytest.fixture
def updater(monkeypatch):
    """Have diagnostic_updater installed: the real one, or what is like it."""
    if importlib.util.find_spec('diagnostic_updater') is None:
        monkeypatch.setitem(
            sys.modules, 'diagnostic_updater', types.SimpleNamespace(Updater=Updater))


def test_diagnostic_updater_publishes_where_it_is_installed(updater):
    scenario = scenario_from_mapping({'bodies': ['wand'], 'rate': 100})
    with MotiveSimServer(scenario, port=0) as sim, Observer() as observer, node_of(
            sim.port, **{'diagnostic_updater.period': 0.2}) as here:
        names = {'connection', 'clock', 'frames', 'body wand'}

        def all_four():
            topic = observer.listen(DiagnosticArray, '/diagnostics', 100)
            wait_until(lambda: set(latest(topic)) == names, 20.0, 'all four')
            return topic
        for _ in range(2):
            topic = all_four()
            assert {status.name for message in topic.messages() for status in message.status} <= {
                f'optitrack_vrpn: {name}' for name in names}
            status = latest(topic)['connection']
            assert status.hardware_id == f'127.0.0.1:{sim.port}'
            assert {pair.key for pair in status.values} >= {'udp_lost', 'sessions'}
            assert observer.node.count_publishers('/diagnostics') == 1
            assert observer.transition('deactivate') and observer.transition('cleanup')
            silence([topic], 0.5)
            assert observer.transition('configure') and observer.transition('activate')
        topic = all_four()
        topic.wait(len(topic) + 10)
        messages = topic.messages()
        assert all(message.status and not any(
            'starting up' in status.message for status in message.status) for message in messages)
        times = [stamp_ns(message) * 1e-9 for message in messages]
        intervals = [after - before for before, after in zip(times, times[1:])]
        assert statistics.median(intervals) == pytest.approx(0.2, abs=0.1)
        assert here.failure is None
