# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The conversations of both protocols without sockets: captures, faults, random operation."""

import math
import random

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.config import LinkConfig
from optitrack_vrpn.drivers.driver import (
    Connected, Deliver, Finish, Join, NEVER_NS, Send, SendTimed)
from optitrack_vrpn.drivers.frames import Frame, RoundTrip
from optitrack_vrpn.drivers.link_rules import first, SILENCE, SilenceFacts
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.driver import FIRST_ECHOES, NatNetDriver
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, MessageId, NatNetBody, NatNetFrame, ServerInfo)
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.vrpn.driver import VrpnDriver
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.pipeline import Pipeline
import pytest
from rawvrpn import COOKIE
import sessions
from transport_kit import name, PREAMBLE

S = 10**9
HERE = ('127.0.0.1', 4000)
VERSION = (4, 1)
MOTIVE = ServerInfo('Motive', (3, 1, 0, 0), VERSION, 10_000_000, 1511, False, '')
BODIES = Definitions((BodyDefinition('wand', 1),))


def taken(driver):
    actions, driver.actions = driver.actions, []
    return actions


def of_kind(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def greeted(**settings):
    """Make a driver of VRPN whose server has sent its greeting and its names."""
    driver = VrpnDriver('192.0.2.1', **settings)
    driver.begin(0)
    driver.feed('vrpn/tcp', COOKIE + PREAMBLE, 0)
    return driver


# -- VRPN -----------------------------------------------------------------------------------------

@pytest.mark.parametrize('name', ['motive_like_5x240', 'udp_lob', 'tcp_only'])
def test_a_capture_gives_its_poses_with_every_bit(name):
    driver, found = VrpnDriver('192.0.2.1'), []
    (session,) = sessions.sessions(name)
    for action in session.server_actions:
        for item in driver.feed(f'vrpn/{action.kind}', action.data, action.time_ns):
            if isinstance(item, Frame):
                found += item.bodies
    expected = sessions.sent(name, 'pose')
    assert [(body.name, body.sender_time_ns, body.position, body.quat_xyzw) for body in found] == [
        (row.body, row.sender_time_ns, row.vector, row.quat_xyzw) for row in expected]


@pytest.mark.parametrize(('udp', 'changes_way', 'datagrams', 'datagrams_next'), [
    (HERE, True, 0, False), (HERE, True, 1, None), (HERE, False, 0, None),
    (None, True, 0, True), (None, False, 0, None)])
def test_a_connection_without_data_is_followed_by_one_of_the_other_way(
        udp, changes_way, datagrams, datagrams_next):
    driver = greeted(udp=udp, changes_way=changes_way)
    for _ in range(datagrams):
        driver.feed('vrpn/udp', b'', 0)
    assert ('poses by TCP' in driver.give_up('no pose')) is (datagrams_next is False)
    assert driver.datagrams_next is datagrams_next


def test_a_connection_whose_poses_came_by_tcp_is_followed_by_one_of_its_kind():
    driver = VrpnDriver('192.0.2.1', changes_way=True)
    (session,) = sessions.sessions('tcp_only')
    for action in session.server_actions:
        driver.feed(f'vrpn/{action.kind}', action.data, action.time_ns)
    driver.give_up('no pose for 10 s')
    assert driver.datagrams_next is None


def test_names_are_asked_for_once_a_second_until_they_answer_and_five_times_at_most():
    driver, asked = greeted(), 0
    taken(driver)
    for now_ns in range(0, 20 * S, S // 10):
        if now_ns >= driver.next_due_ns:
            driver.due(now_ns)
            asked += len(of_kind(taken(driver), Send))
    assert asked == 5 and driver.next_due_ns == NEVER_NS


def test_the_names_of_a_server_and_their_answers_are_facts():
    driver = VrpnDriver('192.0.2.1')
    (session,) = sessions.sessions('udp_lob')
    for action in session.server_actions:
        driver.feed(f'vrpn/{action.kind}', action.data, action.time_ns)
    senders = driver.known.senders
    assert not senders.pop('VRPN Control')
    assert len(senders) == 3 and all(senders.values())


def test_a_server_of_ever_new_names_fills_no_memory():
    driver = greeted()
    driver.feed('vrpn/tcp', b''.join(name(5, f'body {n}') for n in range(5000)), 0)
    assert len(driver.known.senders) == 2000


def test_a_server_without_a_greeting_is_reported_then_left():
    driver = VrpnDriver('192.0.2.1', LinkConfig(attempt_s=3.0, blocked_s=130.0))
    driver.begin(0)
    assert [type(action) for action in taken(driver)] == [Send]
    driver.due(2 * S)
    assert not driver.actions
    driver.due(3 * S)
    (said,) = taken(driver)
    assert 'no VRPN greeting within 3 s' in said.text and driver.next_due_ns == 130 * S
    driver.due(130 * S)
    (end,) = of_kind(taken(driver), Finish)
    assert 'within 130 s' in end.reason


def test_what_came_before_a_fault_of_the_stream_is_passed_on():
    driver = greeted()
    (session,) = sessions.sessions('tcp_only')
    data = b''.join(action.data for action in session.server_actions)
    other, poses = VrpnDriver('192.0.2.1'), 0
    poses = sum(len(item.bodies) for item in other.feed('vrpn/tcp', data + bytes(24), 0)
                if isinstance(item, Frame))
    assert poses == len(sessions.sent('tcp_only', 'pose'))
    with pytest.raises(RemoteProtocolError):
        other.due(other.next_due_ns)
    driver.due(0)


# -- NatNet ---------------------------------------------------------------------------------------

def frame(number, ids=(1,), exposure=None):
    ticks = 10_000_000 + number * 41_667 if exposure is None else exposure
    bodies = [NatNetBody(one, 1.0 + 1e-3 * number, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1)
              for one in ids]
    return encode_frame(NatNetFrame(
        number, bodies, [], 0.0, 0, 0, number / 240, ticks, ticks + 1000, ticks + 50_000,
        0, 0, 0), VERSION)


class Motive:
    """
    A server of one body that answers what a driver sends, after a delay, or loses it.

    :param chance: decides about losses; None for none.
    """

    def __init__(self, chance=None, loss=0.0):
        self._chance, self._loss = chance, loss
        self.waiting = []

    def hear(self, actions, now_ns):
        for action in actions:
            if isinstance(action, SendTimed):
                action = Send(action.make(now_ns))
            if not isinstance(action, Send) or (
                    self._chance and self._chance.random() < self._loss):
                continue
            kind, payload = codec.decode_message(action.data)
            answer = {
                MessageId.CONNECT: lambda: codec.encode_server_info(MOTIVE),
                MessageId.REQUEST_MODEL_DEFINITIONS: lambda: encode_definitions(BODIES, VERSION),
                MessageId.ECHO_REQUEST: lambda data=payload: codec.encode_echo_response(
                    codec.decode_echo_request(data), now_ns // 100)}.get(kind)
            if answer is not None:
                self.waiting.append((now_ns + 300_000, answer()))

    def answers(self, now_ns):
        due = [data for at_ns, data in self.waiting if at_ns <= now_ns]
        self.waiting = [one for one in self.waiting if one[0] > now_ns]
        return due


def stream(driver, motive, seconds, step_ns=1_000_000, chance=None, loss=0.0):
    """Let a server stream at 240 Hz to a driver; give items with their arrivals, and actions."""
    items, did, number, now_ns = [], [], 0, 0
    driver.begin(now_ns)
    while now_ns < seconds * S:
        actions = taken(driver)
        did += actions
        motive.hear(actions, now_ns)
        now_ns += step_ns
        arrived = motive.answers(now_ns)
        while number * S / 240 < now_ns:
            number += 1
            if not (chance and chance.random() < loss):
                arrived.append(frame(number, exposure=(now_ns - 5_000_000) // 100 + 10**9))
        for data in arrived:
            found = driver.feed('natnet/udp', memoryview(data), now_ns)
            before = taken(driver)
            did += before
            motive.hear(before, now_ns)
            items += [(item, one.arrival_ns) for one in of_kind(before, Deliver)
                      for item in one.items]
            items += [(item, now_ns) for item in found]
        if now_ns >= driver.next_due_ns:
            driver.due(now_ns)
            assert driver.next_due_ns > now_ns or driver.actions
    return items, did


def test_frames_have_their_names_after_the_greeting_and_the_first_round_trips():
    driver = NatNetDriver(NatNetConfig(), 0, ('192.0.2.1', 1510), '192.0.2.2')
    items, did = stream(driver, Motive(), 2)
    frames = [item for item, _ in items if isinstance(item, Frame) and item.bodies]
    assert {body.name for one in frames for body in one.bodies} == {'wand'}
    assert len(frames) > 300
    kinds = [type(item) for item, _ in items]
    assert kinds[:kinds.index(Frame)].count(RoundTrip) >= FIRST_ECHOES
    (connected,) = of_kind(did, Connected)
    assert 'Motive' in connected.text and connected.transport == 'natnet unicast'
    assert not of_kind(did, (Finish, Join))
    assert driver.counters()['echoes'] >= FIRST_ECHOES
    assert not [one for one in of_kind(did, Event) if one.severity != INFO]


@pytest.mark.parametrize('seed', range(10))
def test_frames_keep_their_order_and_arrivals_whatever_the_network_loses(seed):
    chance = random.Random(seed)
    loss = chance.choice([0.02, 0.2, 0.5])
    driver = NatNetDriver(NatNetConfig(), 0, ('192.0.2.1', 1510), '192.0.2.2', attempt_s=60.0)
    items, did = stream(driver, Motive(chance, loss), 5, chance=chance, loss=loss)
    frames = [(item.sender_time_ns, arrival_ns) for item, arrival_ns in items
              if isinstance(item, Frame)]
    assert len(frames) > 100
    assert frames == sorted(frames) and len(set(frames)) == len(frames)
    assert not of_kind(did, Finish)


def test_a_server_that_never_answers_ends_the_attempt():
    driver = NatNetDriver(NatNetConfig(), 0, ('192.0.2.1', 1510), '192.0.2.2', attempt_s=3.0)
    driver.begin(0)
    ended = []
    for now_ns in range(0, 5 * S, S // 10):
        driver.due(now_ns)
        ended += [now_ns for action in taken(driver) if isinstance(action, Finish)]
    assert ended[0] == 31 * S // 10


def test_silence_without_a_frame_names_the_way_that_frames_should_come():
    for multicast, text in ((True, 'by multicast 239.1.2.3 port 1511 on 192.0.2.2'),
                            (False, 'UDP from port 1511 of 192.0.2.1')):
        driver = NatNetDriver(NatNetConfig(), 0, ('192.0.2.1', 1510), '192.0.2.2')
        driver.feed('natnet/udp', codec.encode_server_info(
            MOTIVE._replace(multicast=multicast, group='239.1.2.3' if multicast else '')), 0)
        assert bool(of_kind(taken(driver), Join)) is multicast
        facts = SilenceFacts(1.0, False, '192.0.2.1', '192.0.2.2', driver.known.data_port,
                             driver.known.group)
        assert text in first(SILENCE, facts).line
        assert first(SILENCE, facts._replace(framed=True)).code == 'no pose yet'
        assert first(SILENCE, facts._replace(framed=True, posed=True)).code == 'silent'


# -- both, at random ------------------------------------------------------------------------------

def damaged(data, chance, share):
    """Change a bit of some data, or cut it, with a chance."""
    data = bytearray(data)
    if data and chance.random() < share:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data[:len(data) if chance.random() > share else chance.randrange(65)])


def pieces(name, chance):
    """Give pieces of the conversation of a protocol and their times; some are damaged."""
    share = chance.choice([0.0, 0.002, 0.05])
    if name == 'natnet':
        yield 'natnet/udp', codec.encode_server_info(MOTIVE), 0
        yield 'natnet/udp', encode_definitions(BODIES, VERSION), 0
        for number in range(1, 400):
            others = [codec.encode_server_info(MOTIVE), encode_definitions(BODIES, VERSION),
                      codec.encode_response(0), frame(max(1, number - 3)), frame(number, (1, 2))]
            for data in [frame(number), chance.choice(others)][:chance.choice([1, 1, 1, 2])]:
                yield 'natnet/udp', damaged(data, chance, share), number * S // 240
        return
    (session,) = sessions.sessions('motive_like_5x240')
    first_ns = session.server_actions[0].time_ns
    for action in session.server_actions[:400]:
        yield (f'vrpn/{action.kind}', damaged(action.data, chance, share / 5),
               action.time_ns - first_ns)


def keeps_promises(found, newest, host_ns):
    """Require of what would be published: finite, of unit norm, rising, not too old."""
    for channel, stamp_ns, _, position, quat, motion, _ in found.samples:
        assert all(map(math.isfinite, position)) and abs(math.hypot(*quat) - 1.0) < 1e-6
        assert 0 <= host_ns - stamp_ns <= 250_000_000
        assert stamp_ns > newest.get(channel, 0)
        newest[channel] = stamp_ns
        assert motion is None or all(map(math.isfinite, (
            number for part in motion[1:] for number in part)))
    for report in found.motions:
        assert all(map(math.isfinite, (*report.linear, *report.angular)))


@pytest.mark.parametrize('name', ['vrpn', 'natnet'])
def test_damaged_bytes_end_a_conversation_or_publish_only_what_is_promised(name):
    host_minus_arrival_ns, published = 1_700_000_000 * S, 0
    for seed in range(20):
        chance = random.Random(seed)
        driver = VrpnDriver('192.0.2.1', udp=HERE) if name == 'vrpn' else NatNetDriver(
            NatNetConfig(wanted=frozenset({'markers', 'skeletons'})), 1000 * S, HERE)
        pipeline, newest = Pipeline(PipelineConfig(
            server_motion=True, estimate=EstimateConfig(estimate_motion=True))), {}
        now_ns = 1000 * S
        driver.begin(now_ns)
        for channel, data, at_ns in pieces(name, chance):
            now_ns = 1000 * S + at_ns
            try:
                if now_ns >= driver.next_due_ns:
                    driver.due(now_ns)
                items = driver.feed(channel, memoryview(data), now_ns)
            except RemoteProtocolError as error:
                assert str(error)
                break
            assert all(item.sender_time_ns >= 0 for item in items if isinstance(item, Frame))
            found = pipeline.process(items, now_ns, host_minus_arrival_ns, now_ns)
            keeps_promises(found, newest, now_ns + host_minus_arrival_ns)
            assert all(event.text.isprintable() for event in pipeline.take_events())
            published += len(found.samples)
            if of_kind(taken(driver), Finish):
                break
        driver.end(now_ns)
        assert all(value >= 0 for value in driver.counters().values())
    assert published > 1000
