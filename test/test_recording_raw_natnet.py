# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Raw recordings of NatNet: recorded, without names, damaged, replayed."""

import random
import struct
import threading

from natnet_kit import following, simulated, Talk
from optitrack_vrpn.drivers.frames import Body, Frame, RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions, encode_definitions
from optitrack_vrpn.drivers.natnet.frames import decode_frame, encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, MessageId, ServerInfo)
from optitrack_vrpn.sim.natnet import NatNetWorld
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import SimFrame as WorldFrame
from optitrack_vrpn.takes.record.raw_events import arrivals
from optitrack_vrpn.takes.record.raw_names import NameRemover
from optitrack_vrpn.takes.record.raw_read_io import load_raw
from optitrack_vrpn.takes.record.raw_recorder_io import record_raw
from optitrack_vrpn.takes.record.raw_session import Action, RawSession
from optitrack_vrpn.takes.record.replay_io import ReplayConfig
from optitrack_vrpn.takes.record.replay_natnet_io import NatNetReplay
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import load_damaged, load_sessions, tap
from transport_kit import wait_until


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
    version = world.version
    info = ServerInfo('Motive', (1, 9, 0, 0), version, 0, 0, None, '')
    talk = Talk(None)
    answers = {
        MessageId.CONNECT: codec.encode_server_info(info),
        MessageId.REQUEST_MODEL_DEFINITIONS: encode_definitions(world.definitions, version),
        MessageId.REQUEST: codec.encode_response(0)}
    actions, waiting, now_ns, number = [], [], 0, 0
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
            talk.receive(data, arrival_ns)
        waiting = []
        for data in talk.due(now_ns):
            now_ns += chance.randrange(50_000)
            actions.append(Action(now_ns, 'sent', data))
            kind, _ = codec.decode_message(data)
            if kind in answers and chance.random() < 0.9:
                waiting.append((now_ns + 100_000, answers[kind]))
    session = RawSession('natnet', '', '', 0, now_ns, lambda: iter(actions))
    found = [item for arrival in arrivals(session) for item in arrival.items]
    assert found == [item for item, _ in talk.passed]
    assert sum(bool(frame.bodies) for frame in found) > 100


@pytest.mark.network
def test_protocol_auto_is_recorded_too(tmp_path):
    writer, sink = tap(tmp_path / 'take.mcap')
    with simulated(bodies=2) as motive, following(motive, protocol='auto', sink=sink):
        wait_until(lambda: writer.messages > 800)
    writer.close()
    (session, *_) = load_sessions(tmp_path / 'take.mcap')
    assert session.protocol == 'natnet'
    assert len(load_take(tmp_path / 'take.mcap').bodies) == 2


@pytest.mark.network
def test_a_damaged_raw_recording_of_natnet_has_no_wrong_pose(natnet_recording, tmp_path):
    path, _ = natnet_recording
    content, whole = path.read_bytes(), natnet_poses(load_raw(path))
    for seed in range(40):
        found = load_damaged(tmp_path / 'x.mcap', content, seed)
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
