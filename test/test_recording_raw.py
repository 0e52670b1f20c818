# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Raw recordings: replayed captures of the real library, and exact repetition of live runs."""

import io
import random
import struct
import tracemalloc

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers.vrpn.codec import (
    encode_message, encode_name, encode_text, SENDER_DESCRIPTION, TEXT_TYPE, TYPE_DESCRIPTION)
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.takes.record.capture_io import load_sessions
from optitrack_vrpn.takes.record.pcap import (
    file_header, Packet, packet_bytes, read_packets, TCP, UDP)
from optitrack_vrpn.takes.record.raw_capture import arrivals, stamped
from optitrack_vrpn.takes.record.raw_recorder_io import PcapWriter, RawSink
from optitrack_vrpn.takes.record.raw_session import (
    clip, first_sender_time_ns, NameRemover, scale_times)
from optitrack_vrpn.takes.record.record_command import Lines
from optitrack_vrpn.takes.take_io import load_take
import pcap
import pytest
from raw_kit import capture, plain, poses, sent
import sessions

CAPTURES = ('motive_like_5x240', 'udp_lob', 'tcp_only')


# -- reading captures -----------------------------------------------------------------------------

@pytest.mark.parametrize('name', [
    *CAPTURES, 'late_server_then_restart', 'two_clients', 'vrpn_server_spin'])
def test_sessions_are_those_that_the_tests_cut_by_hand(name):
    found = load_sessions(capture(name))
    expected = sessions.sessions(name)
    assert [s.client for s in found] == [s.client for s in expected]
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
    found = [pose for arrival in arrivals(session) for pose in poses(arrival.events)]
    assert found == sent(name)
    assert len(found) > 60


def test_a_file_that_is_no_capture_is_refused_with_what_to_do(tmp_path):
    (tmp_path / 'a.pcap').write_bytes(b'hello')
    with pytest.raises(ConfigurationError, match='a.pcap'):
        load_sessions(tmp_path / 'a.pcap')
    (tmp_path / 'b.pcap').write_bytes(b'\x0a\x0d\x0d\x0a' + bytes(100))
    with pytest.raises(ConfigurationError, match='editcap'):
        load_sessions(tmp_path / 'b.pcap')
    (tmp_path / 'c.pcap').write_bytes(file_header())
    with pytest.raises(ConfigurationError, match='no VRPN conversation'):
        load_sessions(tmp_path / 'c.pcap')


def server_segment(packets):
    """Return the middle one of the TCP segments with data of the server."""
    found = [packet for packet in packets if packet.proto == TCP and packet.payload
             and packet.sport == 3883]
    return found[len(found) // 2]


def test_a_segment_that_was_not_captured_is_reported(tmp_path):
    (whole,) = load_sessions(capture('tcp_only'))
    packets = packets_of('tcp_only')
    packets.remove(server_segment(packets))
    (cut,) = load_sessions(written(tmp_path / 'cut.pcap', packets))
    assert whole.cut == ''
    assert 'not captured' in cut.cut
    sizes = [sum(len(action.data) for action in each.read()) for each in (cut, whole)]
    assert 0 < sizes[0] < sizes[1]
    take = load_take(tmp_path / 'cut.pcap')
    assert take.cut == cut.cut


def test_truncated_packets_are_refused_with_what_to_do(tmp_path):
    packets, snap = packets_of('tcp_only'), 70
    raw = bytearray(written(tmp_path / 'cut.pcap', packets).read_bytes())
    at = raw.index(packet_bytes(server_segment(packets)))
    (size,) = struct.unpack_from('<I', raw, at + 8)
    del raw[at + 16 + snap:at + 16 + size]
    struct.pack_into('<I', raw, at + 8, snap)
    (tmp_path / 'cut.pcap').write_bytes(raw)
    with pytest.raises(ConfigurationError, match='cut.pcap: .* tcpdump -s 0'):
        load_sessions(tmp_path / 'cut.pcap')


def parsed(data):
    """Read the packets of a capture in memory."""
    return list(read_packets(io.BytesIO(data).read))


@given(st.data())
@settings(max_examples=60)
def test_a_damaged_capture_gives_packets_or_the_one_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp('damaged')
    raw = bytearray(capture('udp_lob').read_bytes()[:6000])
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(24, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(24, len(raw))):]
    (folder / 'x.pcap').write_bytes(bytes(raw))
    try:
        found = load_sessions(folder / 'x.pcap')
    except ConfigurationError:
        return
    for session in found:
        list(arrivals(session))


@given(st.lists(st.tuples(
    st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=100), st.integers(-2**62, 2**62)),
    max_size=5))
def test_packets_written_are_read_by_two_readers(tmp_path_factory, rows):
    packets = [Packet(time_ns, UDP, '192.168.1.20', 3883, '10.0.0.1', 40001, data, 0, 0, offset)
               for time_ns, data, offset in rows]
    packets.append(Packet(1_790_000_000_123_456_789, TCP, '127.0.0.1', 3883, '127.0.0.1', 40001,
                          b'hello', pcap.ACK, 77, 5))
    path = written(tmp_path_factory.getbasetemp() / 'x.pcap', packets)
    assert parsed(path.read_bytes()) == packets
    assert [tuple(found) for found in pcap.packets(path)] == [
        tuple(packet)[:9] for packet in packets]


def packets_of(name):
    return parsed(capture(name).read_bytes())


def written(path, packets, foreign=False):
    """
    Write a capture.

    :param foreign: as another program does, without the difference of the clocks.
    """
    rows = [bytearray(packet_bytes(packet)) for packet in packets]
    for row in rows if foreign else ():
        row[16:28] = bytes(range(1, 13))    # Ethernet addresses hold that difference
    path.write_bytes(file_header() + b''.join(rows))
    return path


def test_swapped_packets_are_put_in_order(tmp_path):
    packets = packets_of('motive_like_5x240')
    shuffled = random.Random(7)
    swapped = sorted(packets, key=lambda p: p.time_ns + shuffled.randrange(50_000_000))
    assert swapped != packets
    (session,) = load_sessions(
        written(tmp_path / 'swapped.pcap', swapped, foreign=True))
    (expected,) = load_sessions(capture('motive_like_5x240'))
    assert list(session.read()) == list(expected.read())
    assert session[:4] == expected[:4]


def tap(path):
    """Give a writer of a capture, and a sink that taps into it."""
    writer = PcapWriter(path)
    return writer, RawSink(lambda packets: [writer.write(packet, 0) for packet in packets])


def recorded(path, actions, times):
    """Tap what a server sent, at other times: (arrival, host clock less arrival clock) each."""
    writer, sink = tap(path)
    # The kernel may have received the first bytes before the conversation was begun here.
    begin_ns, offset_ns = times[0]
    sink.tap('begin', b'', begin_ns + 400_000, offset_ns, '10.0.0.2', '10.0.0.1')
    for action, (arrival_ns, offset_ns) in zip(actions, times):
        sink.tap(action.kind, action.data, arrival_ns, offset_ns, '10.0.0.2', '10.0.0.1')
    writer.close()
    (session,) = load_sessions(path)
    return session


@given(st.sampled_from(['motive_like_5x240', 'udp_lob', 'late_server_then_restart']),
       st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_a_capture_without_names_has_the_same_poses(tmp_path_factory, name, chance):
    path = tmp_path_factory.mktemp('capture') / 'sent.pcap'
    writer, remover = PcapWriter(path), NameRemover()
    sink = RawSink(lambda packets: [writer.write(packet, 0) for packet in packets], remover)
    played = load_sessions(capture(name))
    for session in played:
        sink.tap('begin', b'', session.begin_ns, 0, '10.77.1.2', '10.77.1.3')
        for action in session.read():
            data = action.data
            while data:    # a stream arrives in any pieces
                size = chance.choice([1, 7, 100, len(data)]) if action.kind == 'tcp' else len(data)
                sink.tap(action.kind, data[:size], action.time_ns, 0, '10.77.1.2', '10.77.1.3')
                data = data[size:]
    writer.close()
    before, after = ([pose for session in each for arrival in arrivals(session)
                      for pose in poses(arrival.events)] for each in (played, load_sessions(path)))
    assert [pose[1:] for pose in after] == [pose[1:] for pose in before] and len(after) > 60
    renamed = {(one[0], other[0]) for one, other in zip(before, after)}
    assert len(renamed) == len({one for one, _ in renamed}) == len({other for _, other in renamed})
    content = path.read_bytes()
    for one, other in renamed:
        assert len(one) == len(other) and one.encode() not in content
    for packet in read_packets(io.BytesIO(content).read):
        assert {packet.src, packet.dst} == {'192.0.2.1', '192.0.2.2'}


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
    session = recorded(tmp_path / 'stepped.pcap', actions, times)
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
    writer, sink = tap(tmp_path / 'long.pcap')
    sink.tap('begin', b'', 0, 5, '10.0.0.2', '10.0.0.1')
    count = 0
    while count < 8_000:
        for action in actions if not count else actions[-500:]:
            sink.tap(action.kind, action.data, count * 10**6, 5, '10.0.0.2', '10.0.0.1')
            count += 1
    writer.close()
    size = (tmp_path / 'long.pcap').stat().st_size
    tracemalloc.start()
    try:
        (session,) = load_sessions(tmp_path / 'long.pcap')
        assert sum(1 for _ in session.read()) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 4e6
    assert peak < 1e6


# -- live and repeated ----------------------------------------------------------------------------

def test_a_part_keeps_names_and_a_rate_scales_times():
    (session,) = load_sessions(capture('tcp_only'))
    whole = [p for a in arrivals(session) for p in poses(a.events)]
    actions = list(clip(session, 10**9, 2 * 10**9))
    part = [p for a in arrivals(session._replace(read=lambda: actions)) for p in poses(a.events)]
    assert 0 < len(part) < len(whole)
    assert part == [p for p in whole if part[0][1] <= p[1] <= part[-1][1]]
    origin = first_sender_time_ns(actions)
    scaled = [actions[0], *(a._replace(data=scale_times(a.data, origin, 2.0))
                            for a in actions[1:])]
    fast = [p for a in arrivals(session._replace(read=lambda: scaled)) for p in poses(a.events)]
    for slow, quick in zip(part, fast):
        assert quick[1] - origin == pytest.approx((slow[1] - origin) / 2, abs=1000)
        assert quick[2:] == slow[2:]


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
