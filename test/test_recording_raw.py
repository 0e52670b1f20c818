# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Raw recordings: replayed captures of the real library, and exact repetition of live runs."""

import os
import random
import tracemalloc

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers.vrpn.codec import (
    encode_message, encode_name, encode_text, SENDER_DESCRIPTION, TEXT_TYPE, TYPE_DESCRIPTION)
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.takes.record.bag_io import recover
from optitrack_vrpn.takes.record.raw_events import arrivals, stamped
from optitrack_vrpn.takes.record.raw_names import NameRemover
from optitrack_vrpn.takes.record.raw_read_io import load_raw
from optitrack_vrpn.takes.record.raw_session import clip, first_sender_time_ns, scale_times
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import capture, load_damaged, load_sessions, plain, poses, sent, tap
import sessions

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


def test_a_damaged_raw_recording_tells_what_is_lost(tmp_path):
    path, content = tmp_path / 'x.mcap', short_recording()
    path.write_bytes(content)
    whole = [pose for session in load_sessions(path) for a in arrivals(session)
             for pose in poses(a.items)]
    for seed in range(int(os.environ.get('DAMAGED_FILES', '300'))):
        found = load_damaged(path, content, seed)
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
    count = size = 0
    while size < 80e6:
        for action in actions[-500:] if count else actions[:500]:
            data = action.data * (100 if action.kind == 'udp' else 1)
            sink.tap(f'vrpn/{action.kind}', data, count * 10**6, 5, '10.0.0.2', '10.0.0.1')
            writer.tick(count * 10**6 + 1)
            count, size = count + 1, size + len(data)
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
