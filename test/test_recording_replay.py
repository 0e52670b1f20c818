# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Replays of captures on real sockets, and raw recordings of them: every bit, and every loss."""

import socket
import threading

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers import sockets_io
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.record.raw_events import arrivals, stamped
from optitrack_vrpn.takes.record.raw_recorder_io import KINDS, LostDatagrams, RawSink, record_raw
from optitrack_vrpn.takes.record.raw_session import RawSession
from optitrack_vrpn.takes.record.record_command import main
from optitrack_vrpn.takes.record.replay_command import main as replay
from optitrack_vrpn.takes.record.replay_io import ReplayConfig, ReplayServer
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import capture, load_sessions, plain, poses, sent
from transport_kit import client, link, Recorder


class LiveNode(RawSink, Recorder):
    """What the node does with events, with a recording of its input."""

    def __init__(self, path):
        Recorder.__init__(self)
        self.writer = BagWriter(path)
        RawSink.__init__(self, lambda items: [self.writer.write(item, 1) for item in items])
        self.pipeline = Pipeline(PipelineConfig())
        self.samples = []

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        self.samples += self.pipeline.process(events, arrival_ns, host_minus_arrival_ns).samples
        self.pipeline.tick(arrival_ns)
        Recorder.receive(self, events, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change):
        if change.data is LinkState.CONNECTED:
            self.pipeline.reconnected()
        Recorder.link_changed(self, change)


@pytest.mark.network
@pytest.mark.parametrize('way', ['udp', 'tcp'])
def test_stamps_of_a_recording_equal_the_live_ones(
        tmp_path, way):
    (session,) = load_sessions(capture('motive_like_5x240'))
    sink = LiveNode(tmp_path / 'live.mcap')
    with ReplayServer([session], ReplayConfig(end_s=1.5)) as server:
        with client(server.port, sink, link=link(connection=way)):
            assert server.finished.wait(20.0)
            sink.wait(lambda: len(sink.samples) > 500)
    sink.writer.close()
    live = plain(sink.samples)
    again = plain(sample for sample, _ in stamped(
        load_sessions(tmp_path / 'live.mcap'), Pipeline(PipelineConfig())))
    assert again == live
    assert len({name for name, *_ in live}) == 5


@pytest.mark.network
@pytest.mark.parametrize('way', ['udp', 'tcp'])
def test_a_replay_sends_every_bit_at_the_recorded_rate(way):
    (session,) = load_sessions(capture('udp_lob'))
    with ReplayServer([session], ReplayConfig(end_s=1.5)) as server:
        with client(server.port, link=link(connection=way)) as (_, sink):
            assert server.finished.wait(20.0)
            sink.wait(lambda: len(sink.poses) >= 40)
    found = poses(sink.poses)
    assert found == sent('udp_lob')[:len(found)]
    # never early, and the delay of a busy machine is the server's own
    first, last = sink.batches[2][1], sink.batches[-1][1]
    assert last - first > 1.0e9


@pytest.mark.network
def test_a_restart_in_the_capture_is_a_restart_of_the_replay():
    played = load_sessions(capture('late_server_then_restart'))
    assert len(played) == 2
    with ReplayServer(played, ReplayConfig(rate=20.0)) as server:
        with client(server.port, link=link(connection='tcp')) as (running, sink):
            assert server.finished.wait(30.0)
            sink.wait(lambda: len(sink.poses) > 60)
            assert running.status().sessions == 2


@pytest.mark.network
def test_a_loop_begins_again():
    (session,) = load_sessions(capture('udp_lob'))
    with ReplayServer([session], ReplayConfig(rate=50.0, end_s=2.0, loop=True)) as server:
        with client(server.port, link=link(connection='tcp')) as (_, sink):
            sink.wait(lambda: sum(p == sink.poses[0] for p in sink.poses) >= 3)


@pytest.mark.network
def test_datagrams_lost_in_a_full_buffer_are_counted(monkeypatch):
    """The thread that reads stands still for a while, as on a starved machine."""
    monkeypatch.setattr(sockets_io, 'RECEIVE_BUFFER', 4096)
    (session,) = load_sessions(capture('udp_lob'))
    held, taken = threading.Event(), []

    class Held(Recorder, RawSink):

        def __init__(self):
            Recorder.__init__(self)
            RawSink.__init__(self, self.take)

        def take(self, packets):
            taken.extend(item for item in packets if isinstance(item, Message)
                         and item.channel_id == KINDS.index('vrpn/udp') + 1)
            if taken:
                held.wait(20.0)

    sink = Held()
    with ReplayServer([session], ReplayConfig(rate=20.0)) as server:
        with client(server.port, sink, link=link(connection='udp')) as (running, _):
            assert server.finished.wait(20.0)
            lost = LostDatagrams()
            lost.note(running.status().queue['dropped_unread'])
            held.set()
            count = sum(action.kind == 'udp' for action in session.read())
            sink.wait(lambda: len(taken) + lost.total >= count)
    assert len(taken) + lost.total == count
    assert lost.total > 10


def test_losses_of_several_connections_are_added_up():
    lost = LostDatagrams()
    for count in (0, 3, None, 3, 0, 2, 5, None):
        lost.note(count)
    assert lost.total == 8


@pytest.mark.network
def test_a_raw_recording_of_a_running_server_holds_all_it_sent(tmp_path):
    (session,) = load_sessions(capture('udp_lob'))
    with ReplayServer([session], ReplayConfig(end_s=1.0)) as server:
        said = []
        problem = record_raw(
            tmp_path / 'raw.mcap', 'vrpn', '127.0.0.1', server.port, 3.0,
            lambda *row: said.append(row), 0, server.finished)
        assert problem == ''
    (found,) = load_sessions(tmp_path / 'raw.mcap')
    recorded = [pose for arrival in arrivals(found) for pose in poses(arrival.items)]
    assert recorded == sent('udp_lob')[:len(recorded)]
    assert len(recorded) >= 27
    with pytest.raises(ConfigurationError, match='exists already'):
        record_raw(tmp_path / 'raw.mcap', 'vrpn', '127.0.0.1', 1, 1.0, print, 0)


@pytest.mark.network
def test_a_raw_recording_of_no_server_is_a_problem(tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as closed:
        port = closed.getsockname()[1]
    for _ in range(2):    # no empty file remains that blocks the same command
        problem = record_raw(
            tmp_path / 'raw.mcap', 'vrpn', '127.0.0.1', port, 0.2, lambda *_: None, 0)
        assert 'no server was' in problem
    assert not [*tmp_path.iterdir()]


def test_a_protocol_that_was_not_recorded_is_refused(capsys):
    assert replay([str(capture('udp_lob')), '--protocol', 'natnet', '--port', '0']) == 64
    out, err = capsys.readouterr()
    said, = err.splitlines()
    assert not out and said.endswith('contains no natnet, only vrpn: leave out --protocol')


def test_a_silent_conversation_ends_the_replay():
    empty = RawSession('vrpn', '127.0.0.1', '127.0.0.1', 0, 0, lambda: iter(()))
    with ReplayServer([empty], ReplayConfig()) as server:
        with socket.create_connection(('127.0.0.1', server.port), 5.0):
            assert server.finished.wait(5.0)


@pytest.mark.network
def test_one_command_captures_what_can_be_sent(tmp_path, capsys):
    (session,) = load_sessions(capture('udp_lob'))
    with ReplayServer([session], ReplayConfig()) as server:
        assert main([
            '--capture', '--server', f'127.0.0.1:{server.port}', '--seconds', '4', '-o',
            str(tmp_path / 'sent.mcap')]) == 0
    said = capsys.readouterr().out
    assert '3 bodies (body0' in said and 'names, texts and addresses are replaced' in said
    assert b'rigid_body' not in (tmp_path / 'sent.mcap').read_bytes()
    assert len(load_take(tmp_path / 'sent.mcap').bodies) == 3
