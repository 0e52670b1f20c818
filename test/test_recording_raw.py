# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Raw recordings: replayed captures of the real library, and exact repetition of live runs."""

import io
import os
import random
import struct
import threading
import tracemalloc

from hypothesis import given, settings, strategies as st
from natnet_kit import following, simulated
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers.frames import Body, Frame, RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.connection import NatNetConnection
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions, encode_definitions
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.frames import decode_frame, encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, Held, MessageId, NatNetFrame, ServerInfo)
from optitrack_vrpn.drivers.natnet.reports import Translator
from optitrack_vrpn.drivers.vrpn.codec import (
    encode_message, encode_name, encode_text, SENDER_DESCRIPTION, TEXT_TYPE, TYPE_DESCRIPTION)
from optitrack_vrpn.sim.natnet import NatNetWorld
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import SimFrame as WorldFrame
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.takes.record.bag_io import recover
from optitrack_vrpn.takes.record.raw_events import arrivals, stamped
from optitrack_vrpn.takes.record.raw_names import NameRemover
from optitrack_vrpn.takes.record.raw_read_io import load_raw
from optitrack_vrpn.takes.record.raw_recorder_io import record_raw
from optitrack_vrpn.takes.record.raw_session import (
    Action, clip, first_sender_time_ns, RawSession, scale_times)
from optitrack_vrpn.takes.record.record_command import Lines
from optitrack_vrpn.takes.record.replay_io import ReplayConfig
from optitrack_vrpn.takes.record.replay_natnet_io import NatNetReplay
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import capture, load_sessions, plain, poses, sent, tap
import sessions
from transport_kit import wait_until

CAPTURES = ('motive_like_5x240', 'udp_lob', 'tcp_only')


# -- reading captures -----------------------------------------------------------------------------

@pytest.mark.parametrize('name', [
    *CAPTURES, 'late_server_then_restart', 'two_clients', 'vrpn_server_spin'])
def test_sessions_are_those_that_the_tests_cut_by_hand(name):
    found = load_sessions(capture(name))
    expected = sessions.sessions(name)
    assert [s.local for s in found] == [s.client[0] for s in expected]
    for ours, theirs in zip(found, expected):
        for kind in ('tcp', 'udp'):
            ours_bytes = b''.join(a.data for a in ours.read() if a.kind == kind)
            theirs_bytes = b''.join(a.data for a in theirs.server_actions if a.kind == kind)
            # what follows the last whole message is left out
            assert theirs_bytes.startswith(ours_bytes)
            assert len(theirs_bytes) - len(ours_bytes) < 200


@pytest.mark.parametrize('name', CAPTURES)
def test_poses_of_a_capture_are_those_sent_to_the_last_bit(name):
    (session,) = load_sessions(capture(name))
    found = [pose for arrival in arrivals(session) for pose in poses(arrival.items)]
    assert found == sent(name)
    assert len(found) > 60


def test_a_file_without_a_conversation_is_refused_with_what_to_do(tmp_path):
    (tmp_path / 'a.pcap').write_bytes(b'\xd4\xc3\xb2\xa1' + bytes(100))
    with pytest.raises(ConfigurationError, match='raw_from_pcap'):
        load_take(tmp_path / 'a.pcap')
    tap(tmp_path / 'b.mcap')[0].close()
    with pytest.raises(ConfigurationError, match='no conversation'):
        load_raw(tmp_path / 'b.mcap')


def check_damaged(path, content, seed):
    """Damage a recording at random: no pose has other values, and no loss is silent."""
    chance = random.Random(seed)
    raw = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at, size = chance.randrange(60, len(raw)), chance.choice([1, 4, 40, 2000])
        raw[at:at + size] = chance.choice([bytes(size), chance.randbytes(size), b'', bytes(3)])
    if chance.random() < 0.3:
        del raw[chance.randrange(60, len(raw)):]
    path.write_bytes(bytes(raw))
    try:
        return load_raw(path)
    except ConfigurationError:
        return None


def test_a_damaged_raw_recording_tells_what_is_lost(tmp_path):
    path, content = tmp_path / 'x.mcap', short_recording()
    path.write_bytes(content)
    whole = [pose for session in load_sessions(path) for a in arrivals(session)
             for pose in poses(a.items)]
    for seed in range(int(os.environ.get('DAMAGED_FILES', '300'))):
        found = check_damaged(path, content, seed)
        if found is None:
            continue
        left = iter(whole)
        kept = [pose for session in found.sessions for a in arrivals(session)
                for pose in poses(a.items)]
        assert all(pose in left for pose in kept), seed
        assert kept == whole or found.damaged or found.missing or found.cut, seed


def short_recording():
    """Make a recording with many chunks."""
    (played,) = load_sessions(capture('tcp_only'))
    path = capture('tcp_only').parent / 'short.mcap'
    if not path.exists():
        writer, sink = tap(path)
        sink.tap('vrpn/begin', b'', 0, 5, '10.0.0.2', '10.0.0.1')
        for number, action in enumerate(played.read()):
            sink.tap(f'vrpn/{action.kind}', action.data, number * 10**6, 5, '10.0.0.2', '10.0.0.1')
            if number % 8 == 0:
                writer.flush()
        writer.close()
    return path.read_bytes()


def test_forty_zeroed_bytes_are_told_and_cost_what_follows_by_tcp(tmp_path):
    raw = bytearray(short_recording())
    raw[len(raw) // 3:len(raw) // 3 + 40] = bytes(40)
    (tmp_path / 'bad.mcap').write_bytes(raw)
    found = load_raw(tmp_path / 'bad.mcap')
    assert found.damaged and found.missing
    (tmp_path / 'whole.mcap').write_bytes(short_recording())
    whole, kept = ([action.data for action in load_sessions(path)[0].read()]
                   for path in (tmp_path / 'whole.mcap', tmp_path / 'bad.mcap'))
    assert 0 < len(kept) < len(whole) and kept == whole[:len(kept)]
    assert 'by TCP is missing' in found.sessions[0].cut
    take = load_take(tmp_path / 'bad.mcap')
    assert take.damaged and take.missing


def test_a_killed_raw_recorder_leaves_a_recording(tmp_path):
    (tmp_path / 'cut.mcap').write_bytes(short_recording()[:-3000])
    found = load_raw(tmp_path / 'cut.mcap')
    assert 'up to a second' in found.cut
    assert len(list(found.sessions[0].read())) > 10
    assert recover(tmp_path / 'cut.mcap')[1].reason
    assert load_raw(tmp_path / 'cut.mcap').cut == ''
    assert not (tmp_path / 'metadata.yaml').exists()


def recorded(path, actions, times):
    """Tap what a server sent, at other times: (arrival, host clock less arrival clock) each."""
    writer, sink = tap(path)
    # The kernel may have received the first bytes before the conversation was begun here.
    begin_ns, offset_ns = times[0]
    sink.tap('vrpn/begin', b'', begin_ns + 400_000, offset_ns, '10.0.0.2', '10.0.0.1')
    for action, (arrival_ns, offset_ns) in zip(actions, times):
        sink.tap(f'vrpn/{action.kind}', action.data, arrival_ns, offset_ns, '10.0.0.2',
                 '10.0.0.1')
    writer.close()
    (session,) = load_sessions(path)
    return session


@given(st.sampled_from(['motive_like_5x240', 'udp_lob', 'late_server_then_restart']),
       st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_a_capture_without_names_has_the_same_poses(tmp_path_factory, name, chance):
    path = tmp_path_factory.mktemp('capture') / 'sent.mcap'
    writer, sink = tap(path, NameRemover())
    played = load_sessions(capture(name))
    for session in played:
        sink.tap('vrpn/begin', b'', session.begin_ns, 0, '10.77.1.2', '10.77.1.3')
        for action in session.read():
            data = action.data
            while data:    # a stream arrives in any pieces
                size = chance.choice([1, 7, 100, len(data)]) if action.kind == 'tcp' else len(data)
                sink.tap(f'vrpn/{action.kind}', data[:size], action.time_ns, 0, '10.77.1.2',
                         '10.77.1.3')
                data = data[size:]
    writer.close()
    before, after = ([pose for session in each for arrival in arrivals(session)
                      for pose in poses(arrival.items)] for each in (played, load_sessions(path)))
    assert [pose[1:] for pose in after] == [pose[1:] for pose in before] and len(after) > 60
    renamed = {(one[0], other[0]) for one, other in zip(before, after)}
    assert len(renamed) == len({one for one, _ in renamed}) == len({other for _, other in renamed})
    content = b''.join(action.data for session in load_sessions(path) for action in session.read())
    for one, other in renamed:
        assert len(one) == len(other) and one.encode() not in content
    assert {(session.server, session.local) for session in load_sessions(path)} == {
        ('192.0.2.1', '192.0.2.2')}


def test_a_capture_has_no_texts():
    def message(sender, kind, payload):
        return encode_message(sender, kind, payload, 0, 0)

    remover = NameRemover()
    data = (message(3, TYPE_DESCRIPTION, encode_name(TEXT_TYPE))
            + message(1, SENDER_DESCRIPTION, encode_name('Ada'))
            + message(1, 3, encode_text('Bob')) + message(1, 9, b'Eve of an unknown type'))
    found = remover.datagram(data)
    assert len(found) == len(data) and TEXT_TYPE.encode() in found
    short = message(ord('A'), SENDER_DESCRIPTION, encode_name('A'))    # 'A' in the head too
    assert remover.datagram(short) == message(
        ord('A'), SENDER_DESCRIPTION, encode_name('b'))
    assert not any(name in found for name in (b'Ada', b'Bob', b'Eve'))


def test_a_set_clock_changes_neither_order_nor_stamps(tmp_path):
    """The host's clock jitters against the arrival clock, and is set back and ahead."""
    (played,) = load_sessions(capture('motive_like_5x240'))
    actions = list(played.read())[:900]
    noise = random.Random(1)
    times = []
    for number, action in enumerate(actions):
        step_ns = {0: 0, 1: -3_000_000_000, 2: 3600_000_000_000}[number // 300]
        times.append((
            # Two that arrived together have one arrival time, in the order of reading.
            action.time_ns - played.begin_ns + 10**9 - number % 2,
            1_790_000_000_000_000_000 + step_ns + noise.randrange(2_000_000)))
    times = [(max(t for t, _ in times[:n + 1]), offset) for n, (_, offset) in enumerate(times)]
    session = recorded(tmp_path / 'stepped.mcap', actions, times)
    again = list(session.read())
    assert [(a.kind, a.data) for a in again] == [(a.kind, a.data) for a in actions]
    assert [(a.arrival_ns, a.host_minus_arrival_ns) for a in again] == times
    # The stamps are those that the node would have given at these times.
    retimed = [action._replace(time_ns=arrival_ns + offset_ns, host_minus_arrival_ns=offset_ns)
               for action, (arrival_ns, offset_ns) in zip(actions, times)]
    live = [sample for sample, _ in stamped(
        [session._replace(read=lambda: retimed)], Pipeline(PipelineConfig()))]
    found = [sample for sample, _ in stamped([session], Pipeline(PipelineConfig()))]
    assert plain(found) == plain(live)
    assert len(found) > 1000
    # It is played by the arrival clock: without the hour.
    assert session.end_ns - session.begin_ns < 10 * 10**9


def test_a_long_recording_is_read_in_constant_memory(tmp_path):
    (played,) = load_sessions(capture('motive_like_5x240'))
    actions = list(played.read())
    writer, sink = tap(tmp_path / 'long.mcap')
    sink.tap('vrpn/begin', b'', 0, 5, '10.0.0.2', '10.0.0.1')
    count = 0
    while count < 40_000:
        for action in actions if not count else actions[-500:]:
            sink.tap(f'vrpn/{action.kind}', action.data, count * 10**6, 5, '10.0.0.2', '10.0.0.1')
            writer.tick(count * 10**6 + 1)
            count += 1
    writer.close()
    tracemalloc.start()
    try:
        (session,) = load_sessions(tmp_path / 'long.mcap')
        assert sum(1 for _ in session.read()) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6    # some chunks


# -- live and repeated ----------------------------------------------------------------------------

def test_a_part_keeps_names_and_a_rate_scales_times():
    (session,) = load_sessions(capture('tcp_only'))
    whole = [p for a in arrivals(session) for p in poses(a.items)]
    actions = list(clip(session, 10**9, 2 * 10**9))
    part = [p for a in arrivals(session._replace(read=lambda: actions)) for p in poses(a.items)]
    assert 0 < len(part) < len(whole)
    assert part == [p for p in whole if part[0][1] <= p[1] <= part[-1][1]]
    origin = first_sender_time_ns(actions)
    scaled = [actions[0], *(a._replace(data=scale_times(a.data, origin, 2.0))
                            for a in actions[1:])]
    fast = [p for a in arrivals(session._replace(read=lambda: scaled)) for p in poses(a.items)]
    for slow, quick in zip(part, fast):
        assert quick[1] - origin == pytest.approx((slow[1] - origin) / 2, abs=1000)
        assert quick[2:] == slow[2:]


# -- NatNet ---------------------------------------------------------------------------------------

def record_natnet(path, motive, remover=None):
    """Record some hundred frames, however busy the machine is."""
    ended = threading.Event()

    def report(elapsed_s, messages, *rest):
        if messages > 500:
            ended.set()
    assert record_raw(path, 'natnet', '127.0.0.1', motive.port_of('natnet'), 30.0, report, 0,
                      ended, remover) == ''


@pytest.fixture(scope='module')
def natnet_recording(tmp_path_factory):
    """Record a simulated Motive raw; give the file, and what another client received."""
    path = tmp_path_factory.mktemp('natnet') / 'take.mcap'
    with simulated(bodies=3) as motive, following(motive) as (sink, _):
        sink.wait_for_bodies()
        record_natnet(path, motive)
    return path, sink


@pytest.mark.network
def test_a_raw_recording_of_natnet_has_the_frames_of_the_server(natnet_recording):
    path, sink = natnet_recording
    (session,) = load_sessions(path)
    assert (session.protocol, session.cut) == ('natnet', '')
    items = [item for arrival in arrivals(session) for item in arrival.items]
    frames = [item for item in items if isinstance(item, Frame)]
    # As live, frames wait for the first measurements of the clock.
    assert [isinstance(item, RoundTrip) for item in items].index(False) >= 16
    live = {frame.sender_time_ns: frame.bodies for frame in sink.frames}
    both = [frame for frame in frames if frame.sender_time_ns in live]
    assert len(both) > 200
    assert all(frame.bodies == live[frame.sender_time_ns] for frame in both)
    take = load_take(path)
    assert len(take.bodies) == 3 and all(len(body.rows) > 200 for body in take.bodies.values())
    # the sender's clock is that of this computer: the stamps are those of the exposures
    (body, *_) = take.bodies.values()
    late_ms = (body.table()['arrival'] - body.table()['stamp']) / 1e6
    assert 3.0 < sorted(late_ms)[len(late_ms) // 2] < 9.0


@pytest.mark.parametrize('version', ['2.9', '3.0', '3.1', '4.0', '4.1', '4.4'])
def test_names_of_natnet_are_replaced_in_every_version(version):
    """Numbers stay; so do names of one letter, which could be numbers."""
    world = NatNetWorld(scenario_from_mapping({
        'bodies': ['Ada Lovelace', 'q'], 'protocol': 'natnet',
        'natnet': {'version': version, 'markers': 3, 'skeletons': 1}}), ['Ada Lovelace', 'q'])
    remover, number = NameRemover(), world.version
    remover.clean('natnet/udp', codec.encode_server_info(ServerInfo(
        'Motive', (3, 1, 0, 0), number, 10_000_000, 1511, True, '239.1.2.3')))
    described = encode_definitions(world.definitions, number)
    clean = remover.clean('natnet/udp', described)
    assert len(clean) == len(described) and b'Ada' not in clean
    before, after = (decode_definitions(codec.decode_message(data)[1], number)
                     for data in (described, clean))
    assert [body.streaming_id for body in after.bodies] == [
        body.streaming_id for body in before.bodies]
    assert [body.name for body in after.bodies] == [name.decode() for name in remover.bodies]
    assert remover.bodies[1:] == [b'q'] and remover.bodies[0].startswith(b'body')
    assert not {bone.name for one in after.skeletons for bone in one.bones if len(bone.name) > 2
                } & {bone.name for one in before.skeletons for bone in one.bones}
    frame = encode_frame(world.frame(WorldFrame(1, [], 0), 0, 0), number)
    payload = codec.decode_message(frame)[1]
    marker_set = b'Ada Lovelace\0' + struct.pack('<i3f', 1, 1.0, 2.0, 3.0)
    at = 12 if number >= (4, 1) else 8
    full = codec.encode_message(MessageId.FRAME, payload[:4] + struct.pack('<i', 1) + (
        struct.pack('<i', len(marker_set)) if at == 12 else b'') + marker_set + payload[at:])
    clean = remover.clean('natnet/udp', full)
    assert len(clean) == len(full) and b'Ada' not in clean
    assert remover.bodies[0] + b'\0' in clean
    # From 3.0 on the latency is NaN, of compiled code another object each time.
    before, after = (decode_frame(codec.decode_message(data)[1], number)._replace(latency=0.0)
                     for data in (full, clean))
    assert after == before
    assert remover.clean('natnet/udp', full[:-30] + b'Bob')[4:] == bytes(len(full) - 31)


@pytest.mark.parametrize('version', [(3, 0), (4, 1)])
def test_names_that_are_not_utf8_are_replaced_and_no_number_changes(version):
    remover, name = NameRemover(), b'Ren\xe9e'
    remover.clean('natnet/udp', codec.encode_server_info(ServerInfo(
        'Motive', (3, 1, 0, 0), version, 10_000_000, 1511, True, '239.1.2.3')))
    described = encode_definitions(Definitions(bodies=(
        BodyDefinition(name.decode(errors='surrogateescape'), 1),)), version)
    clean = remover.clean('natnet/udp', described)
    (shown,) = remover.bodies
    assert clean == described.replace(name, shown) and name not in clean and b'Ren' not in shown
    sets = name + b'\0' + struct.pack('<i3f', 1, 1.0, 2.0, 3.0)
    frame = codec.encode_message(MessageId.FRAME, struct.pack('<ii', 1, 1) + (
        struct.pack('<i', len(sets)) if version >= (4, 1) else b'') + sets)
    assert remover.clean('natnet/udp', frame) == frame.replace(name, shown)


@pytest.mark.parametrize('seed', range(20))
def test_frames_of_natnet_are_those_that_a_starved_client_had(seed):
    """Whether a name is confirmed depends on when requests were sent, before or after frames."""
    chance = random.Random(seed)
    world = NatNetWorld(scenario_from_mapping({
        'bodies': ['wand'], 'protocol': 'natnet', 'natnet': {'version': '2.9'}}), ['wand'])
    version, connection, translator = world.version, NatNetConnection(0), Translator(0)
    answers = {
        MessageId.CONNECT: codec.encode_server_info(ServerInfo(
            'Motive', (1, 9, 0, 0), version, 0, 0, None, '')),
        MessageId.REQUEST_MODEL_DEFINITIONS: encode_definitions(world.definitions, version),
        MessageId.REQUEST: codec.encode_response(0)}
    actions, waiting, had, now_ns, number = [], [], [], 0, 0
    while number < 600:
        now_ns += chance.choice([200_000, 1_000_000, 5_000_000, 40_000_000, 300_000_000])
        while number * 5_000_000 < now_ns:
            number += 1
            at_ns = number * 5_000_000
            pose = Body('wand', 0, at_ns, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
            waiting.append((at_ns, encode_frame(world.frame(
                WorldFrame(number, [pose], at_ns), at_ns, at_ns), version)))
        for arrival_ns, data in sorted(waiting):
            actions.append(Action(arrival_ns, 'udp', data))
            for event in connection.receive(data, arrival_ns):
                if isinstance(event, ServerInfo):
                    for command in ServerWatch.QUESTIONS:
                        connection.request(command)
                if isinstance(event, Held):
                    translator.names = event.names
                    had.append(translator.frame(event.frame))
                elif isinstance(event, NatNetFrame):
                    translator.names = connection.models.names
                    had.append(translator.frame(event))
                if translator.unknown:    # as live, ids without a name are asked for
                    translator.unknown = ()
                    connection.models.ask(now_ns)
        waiting = []
        for data in connection.due(now_ns):
            now_ns += chance.randrange(50_000)
            actions.append(Action(now_ns, 'sent', data))
            kind, _ = codec.decode_message(data)
            if kind in answers and chance.random() < 0.9:
                waiting.append((now_ns + 100_000, answers[kind]))
    session = RawSession('natnet', '', '', 0, now_ns, lambda: iter(actions))
    found = [item for arrival in arrivals(session) for item in arrival.items]
    assert found == had
    assert sum(bool(frame.bodies) for frame in found) > 100


@pytest.mark.network
def test_protocol_auto_is_recorded_too(tmp_path):
    writer, sink = tap(tmp_path / 'take.mcap')
    with simulated(bodies=2) as motive, following(motive, protocol='auto', sink=sink):
        wait_until(lambda: writer.messages > 200)
    writer.close()
    (session, *_) = load_sessions(tmp_path / 'take.mcap')
    assert session.protocol == 'natnet'
    assert len(load_take(tmp_path / 'take.mcap').bodies) == 2


@pytest.mark.network
def test_a_damaged_raw_recording_of_natnet_has_no_wrong_pose(natnet_recording, tmp_path):
    path, _ = natnet_recording
    content, whole = path.read_bytes(), natnet_poses(load_raw(path))
    for seed in range(40):
        found = check_damaged(tmp_path / 'x.mcap', content, seed)
        kept = natnet_poses(found) if found is not None else set()
        assert kept <= whole, seed
        assert kept == whole or found is None or found.damaged or found.missing or found.cut, seed


def natnet_poses(recording):
    return {body for session in recording.sessions for arrival in arrivals(session)
            for item in arrival.items if isinstance(item, Frame) for body in item.bodies}


@pytest.mark.network
@pytest.mark.parametrize('rate', [1.0, 4.0])
def test_a_replay_of_natnet_serves_the_frames_to_a_client(natnet_recording, rate):
    path, live = natnet_recording
    (session,) = load_sessions(path)
    with NatNetReplay([session], ReplayConfig(rate=rate)) as server:
        with following(server.port) as (sink, running):
            assert server.finished.wait(20.0)
            sink.wait(lambda: len(sink.frames) > 100 / rate)
            assert not running.status().counters.get('malformed')
    ours = {body[3:5] for body in live.bodies}
    found = [body for frame in sink.frames for body in frame.bodies]
    assert found and all(body[3:5] in ours for body in found)
    times = [frame.sender_time_ns for frame in sink.frames]
    steps = sorted(late - early for early, late in zip(times, times[1:]))
    assert steps[len(steps) // 2] == pytest.approx(5e6 / rate, rel=0.2)
    first, last = sink.echoes[0], sink.echoes[-1]    # the clock of the frames goes on
    assert last.sender_ns - first.sender_ns == pytest.approx(
        last.sent_ns - first.sent_ns, rel=0.05, abs=2e6)
    assert abs(last.sender_ns - times[-1]) < 3e9


@pytest.mark.network
def test_a_capture_of_natnet_without_names_has_the_same_poses(tmp_path):
    path, remover = tmp_path / 'sent.mcap', NameRemover()
    names = ['Ada Lovelace', 'quadrotor', 'q']
    with simulated(bodies=names,
                   natnet={'markers': 3, 'version': '4.1'}) as motive:
        with following(motive) as (sink, _):
            record_natnet(path, motive, remover)
    content = b''.join(action.data for action in load_sessions(path)[0].read())
    assert not any(name.encode() in content for name in names[:2])
    found = {body.name: body for arrival in arrivals(load_sessions(path)[0])
             for item in arrival.items if isinstance(item, Frame) for body in item.bodies}
    assert set(found) == {name.decode() for name in remover.bodies} and len(found) == 3
    live = {body[3:5] for body in sink.bodies}
    assert sum(body[3:5] in live for body in found.values()) == 3


# -- progress -------------------------------------------------------------------------------------

def test_each_line_of_a_recording_has_its_own_rate():
    stream = io.StringIO()
    lines = Lines(stream)
    for elapsed_s, messages in ((2.0, 500), (60.0, 500), (61.0, 800), (90.0, 3700)):
        lines.show(elapsed_s, messages, 1000000, 2000000000, 0, 0, '3 topics')
    lines.end()
    rates = [line.split(', ')[1] for line in stream.getvalue().splitlines()]
    assert rates[0] == '250/s' and rates[1] == '0/s'


def test_the_updated_line_of_a_recording_is_shorter_than_the_terminal(monkeypatch):
    monkeypatch.setenv('COLUMNS', '60')
    stream = io.StringIO()
    monkeypatch.setattr(stream, 'isatty', lambda: True)
    Lines(stream).show(36000.0, 10**9, 10**12, 10**12, 1000, 1000, 'poses are arriving')
    assert len(stream.getvalue().strip('\r').partition('\x1b')[0]) == 59
