# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The NatNet client on real sockets, against the simulated Motive and against hostile peers."""

from dataclasses import replace
import math
import socket
import sys

from natnet_kit import client_config, simulated, Sink
from optitrack_vrpn.client.link import LinkState
from optitrack_vrpn.errors import (
    BackendUnavailableError, ConfigurationError, TransportError)
from optitrack_vrpn.natnet import codec
from optitrack_vrpn.natnet.choice_io import AutoBackend
from optitrack_vrpn.natnet.client_io import NatNetClient
from optitrack_vrpn.natnet.constants import MODEL_DEFINITIONS, REQUEST_MODEL_DEFINITIONS
from optitrack_vrpn.natnet.factory_io import make_backend
from optitrack_vrpn.natnet.messages import Definitions, ServerInfo
from optitrack_vrpn.natnet.recording import without_ended_recordings
from optitrack_vrpn.natnet.settings import NatNetConfig
from optitrack_vrpn.natnet.sockets_io import choose_server
from optitrack_vrpn.sim.scenario_io import Network, scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.vrpn.messages import PoseReport
import pytest
from relay_kit import Relay
from server_kit import free_port
from transport_kit import wait_until

pytestmark = pytest.mark.network


class Running:
    """A client that runs."""

    def __init__(self, motive, natnet=None, protocol='natnet', **rest):
        self.sink = Sink()
        natnet = {'port': getattr(motive, 'natnet_port', motive),
                  **(natnet or {})}
        self.client = make_backend(
            protocol, client_config(**rest), NatNetConfig(**natnet), self.sink)

    def __enter__(self):
        self.client.start()
        return self.sink, self.client

    def __exit__(self, *error):
        self.client.stop()


@pytest.mark.parametrize('version', ['2.7', '2.9', '3.0', '4.0', '4.1', '4.2'])
@pytest.mark.parametrize('multicast', [False, True])
def test_bodies_come_with_names_times_and_flags(version, multicast):
    with simulated(['Wand', '1drone'], motion='still', natnet={
            'version': version, 'multicast': multicast, 'data_port': free_port()}) as server:
        # Before 3.0 a server states neither port nor group.
        natnet = {'data_port': server.scenario.natnet.data_port}
        with Running(server, natnet) as (sink, client):
            sink.wait(lambda: len(sink.bodies) >= 20, 'bodies')
            assert client.status().state is LinkState.STREAMING
            assert {body.sender for body in sink.bodies} == {'Wand', '1drone'}
            for body in sink.bodies:
                position = server.world.truth(body.sender, 0.0).position[0]
                assert math.dist(body.position, position) < 1e-6
                assert body.valid and body.mean_error == pytest.approx(0.0003)
            timed = version >= '3.0'
            assert {frame.timed for frame in sink.frames} == {timed}
            assert bool(sink.echoes) == timed
            if timed:
                # Frames wait for the first round trips, which their stamps need.
                kinds = [type(events[0]).__name__ for events, _, _ in sink.batches]
                assert kinds[0] == 'EchoReport'
                assert all(3e6 < frame.processing_ns < 1e9 for frame in sink.frames)
            times = [frame.sender_time_ns for frame in sink.frames]
            assert times == sorted(times)


def test_several_clients_on_one_machine_share_the_multicast_port():
    with simulated(natnet={'multicast': True, 'data_port': free_port()}) as server:
        with Running(server) as (one, _), Running(server) as (other, _):
            one.wait(lambda: len(one.frames) > 5, 'frames')
            other.wait(lambda: len(other.frames) > 5, 'frames')


def test_several_unicast_clients_do_not_disturb_each_other():
    with simulated(natnet={'version': '4.2'}) as server:
        with Running(server) as (one, _), Running(server, {'bitstream': '3.0'}) as (old, _):
            one.wait(lambda: len(one.frames) > 5, 'frames')
            old.wait(lambda: len(old.frames) > 5, 'frames')
            # The server tells which bitstream it sends; none is guessed.
        assert server.wait_for_clients(0)


def test_the_client_stays_known_to_a_server_that_forgets_silent_ones():
    with simulated(natnet={'client_timeout': 1.5}) as server, Running(server) as (sink, _):
        sink.wait(lambda: len(sink.frames) > 20, 'frames')
        seen = len(sink.frames)
        sink.wait(lambda: len(sink.frames) > seen + 500, 'frames for 2.5 s')
        assert not server.counters.dropped['timeout']


@pytest.mark.parametrize('protocol', ['natnet', 'vrpn'])
def test_the_network_of_a_connected_client_can_be_changed(protocol):
    ports = {'natnet': {'port': 0}} if protocol == 'natnet' else {}
    scenario = scenario_from_mapping({'bodies': 1, 'rate': 200, 'protocol': protocol, **ports})
    with MotiveSimServer(scenario, port=0) as server, Running(
            server, protocol=protocol, port=server.port or 3883) as (sink, _):
        sink.wait(lambda: sink.batches and server.clients, 'a frame')
        server.set_network(Network(outages=((0.0, 1e9),)))
        sink.wait(lambda: sink.changes[-1].data is LinkState.SILENT, 'silence')


def test_a_restarted_server_is_followed():
    with simulated() as server, Running(server) as (sink, _):
        sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
        server.restart(0.2)
        seen = len(sink.bodies)
        sink.wait(lambda: len(sink.bodies) > seen + 5, 'bodies after the restart')


def test_new_bodies_are_named_when_the_list_changes():
    with simulated(['Wand']) as server, Running(server) as (sink, _):
        sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
        server.pause()
        server.natnet.world.set_models(['Wand', 'New'])
        server.resume()
        sink.wait_for('bodies changed')
        sink.wait(lambda: sink.bodies[-1].sender == 'New', 'the new body')


@pytest.mark.parametrize('damaged', [None, codec.encode_message(MODEL_DEFINITIONS, b'\1\0\0')])
def test_missing_or_unreadable_descriptions_are_reported(damaged):
    def replace_descriptions(data, answer):
        if codec.decode_message(data)[0] != REQUEST_MODEL_DEFINITIONS:
            return data
        if damaged is not None:
            answer(damaged)
        return None
    with simulated(['Wand']) as server, Relay(
            server.natnet_port, replace_descriptions) as relay, Running(relay.port) as (sink, _):
        sink.wait_for('has not described')
        if damaged is not None:
            sink.wait_for('byte')
        assert not sink.bodies


@pytest.mark.parametrize('group', ['0.0.0.0', '255.255.255.255', '10.0.0.5'])
def test_a_stated_group_that_is_no_multicast_address_is_ignored(group):
    info = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, True, group)
    assert codec.decode_server_info(codec.encode_server_info(info)[4:]).group == ''


def test_markers_without_bodies_do_not_count_as_poses():
    with simulated(['Wand'], natnet={'markers': 2}) as server:
        server.natnet.world.frame = no_bodies(server.natnet.world.frame)
        with Running(server, {'markers': True}) as (sink, client):
            sink.wait(lambda: len(sink.markers) > 5, 'markers')
            assert client.status().state is not LinkState.STREAMING


def no_bodies(frame):
    return lambda *args: frame(*args)._replace(bodies=[])


def test_bodies_that_share_a_streaming_id_are_refused():
    from optitrack_vrpn.natnet.messages import BodyDefinition
    from optitrack_vrpn.natnet.reports import name_table
    definitions = Definitions((
        BodyDefinition('One', 1), BodyDefinition('Two', 1),
        BodyDefinition('Three', 3)))
    table = name_table(definitions)
    assert table.names == {3: 'Three'} and table.shared_ids == {1: ('One', 'Two')}


def test_bodies_that_share_a_name_are_refused():
    from optitrack_vrpn.natnet.facts import ServerWatch
    from optitrack_vrpn.natnet.messages import BodyDefinition
    from optitrack_vrpn.natnet.reports import name_table
    definitions = Definitions((
        BodyDefinition('One', 1), BodyDefinition('One', 2),
        BodyDefinition('Three', 3)))
    table = name_table(definitions)
    assert table.names == {3: 'Three'} and table.shared_names == ('One',)
    assert ["are named 'One'" in remark.text
            for remark in ServerWatch().definitions(definitions, table)] == [True]


@pytest.mark.parametrize(('waiting', 'sent'), [
    (['SetRecordTakeName,a', 'StartRecording'], ['SetRecordTakeName,a', 'StartRecording']),
    (['StopRecording'], ['StopRecording']),
    (['SetRecordTakeName,a', 'StartRecording', 'StopRecording'], []),
    (['StartRecording', 'StopRecording', 'SetRecordTakeName,b', 'StartRecording'],
     ['SetRecordTakeName,b', 'StartRecording']),
    (['StopRecording', 'StartRecording', 'StopRecording'], ['StopRecording'])])
def test_a_recording_that_has_ended_before_motive_is_there_is_not_begun(waiting, sent):
    assert without_ended_recordings(waiting) == sent


def test_a_server_that_comes_after_the_session_records_nothing():
    with simulated() as server:
        sink = Sink()
        client = make_backend('natnet', client_config(), NatNetConfig(port=server.natnet_port),
                              sink)
        client.record('late')
        client.stop_recording()
        client.start()
        try:
            sink.wait_for('recorded none')
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            assert not server.natnet.takes
        finally:
            client.stop()


def test_markers_come_on_request_only():
    with simulated(natnet={'markers': 3}) as server:
        with Running(server) as (sink, _):
            sink.wait(lambda: len(sink.frames) > 5, 'frames')
            assert not sink.markers
        with Running(server, {'markers': True}) as (sink, _):
            sink.wait(lambda: len(sink.markers) > 2, 'markers')
            assert [m.marker_id for m in sink.markers[0].markers] == [
                body << 16 | member for body in (1, 2) for member in (1, 2, 3)]


def test_a_take_that_is_played_is_not_live():
    with simulated(natnet={'edit_mode': True}) as server:
        with Running(server) as (sink, _):
            sink.wait_for('plays a take')
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            assert not any(body.valid for body in sink.bodies)
        with Running(server, {'playback': True}) as (sink, _):
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            assert all(body.valid for body in sink.bodies)


def test_recording_is_started_and_stopped_under_the_given_name():
    with simulated() as server, Running(server) as (sink, client):
        sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
        client.record('session,7')
        sink.wait_for('Motive records')
        assert server.natnet.world.recording and server.natnet.takes == ['session_7']
        client.stop_recording()
        sink.wait_for('Motive stopped recording')
        assert not server.natnet.world.recording


def test_a_stop_just_before_the_client_ends_reaches_motive():
    with simulated() as server:
        with Running(server) as (sink, client):
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            client.record('session')
            sink.wait_for('Motive records')
            client.stop_recording()
        wait_until(lambda: not server.natnet.world.recording)


def test_datagrams_of_other_hosts_are_refused_and_rubbish_harms_nothing():
    with simulated() as server, Relay(server.natnet_port) as relay, \
            Running(relay.port) as (sink, client):
        sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
        (_, port), = relay.clients
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(('127.0.0.2', 0))
            for _ in range(20):
                other.sendto(codec.encode_message(9), ('127.0.0.1', port))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as same:
            same.bind(('127.0.0.1', 0))
            for size in range(0, 400, 7):
                same.sendto(bytes((size * 31 + k * 7) % 256 for k in range(size)),
                            ('127.0.0.1', port))
        sink.wait(lambda: client.status().counters['malformed'] > 5, 'malformed')
        sink.wait(lambda: sink.said('127.0.0.2 was refused'), 'the other host')
        seen = len(sink.bodies)
        sink.wait(lambda: len(sink.bodies) > seen + 5, 'bodies')
        assert client.status().unexpected_peers == 20
        assert client.status().sessions == 1


def test_a_server_that_does_not_answer_is_reported_and_tried_again():
    with Running(free_port(), attempt_s=0.2) as (sink, client):
        sink.wait_for('NatNet command port')
        sink.wait(lambda: client.status().failures >= 2, 'further attempts')


def test_discovery_needs_exactly_one_server():
    info = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, False, '0.0.0.0')
    assert choose_server({'10.0.0.5': info}) == '10.0.0.5'
    assert choose_server({'127.0.0.1': info}) == '127.0.0.1'
    assert choose_server({'127.0.0.1': info, '10.0.0.5': info}) == '10.0.0.5'
    with pytest.raises(TransportError, match='no Motive answered'):
        choose_server({})
    with pytest.raises(TransportError, match='2 servers answered'):
        choose_server({'10.0.0.5': info, '10.0.0.6': info})


def test_the_one_server_on_this_machine_is_found_by_discovery():
    with simulated() as server:
        with Running(server, server='auto') as (sink, client):
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            assert client.status().server.startswith('127.0.0.1')


def test_auto_prefers_natnet_and_says_why():
    with simulated(protocol='both') as server:
        with Running(server, protocol='auto', port=server.port) as (sink, client):
            sink.wait_for('NatNet is used')
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            assert not sink.of(PoseReport)
            assert client.status().transport == 'natnet unicast'


def test_auto_falls_back_to_vrpn_and_says_why():
    with simulated(protocol='vrpn') as server:
        with Running(free_port(), protocol='auto', port=server.port, attempt_s=0.4) as (
                sink, client):
            sink.wait_for('VRPN is used')
            sink.wait(lambda: len(sink.of(PoseReport)) > 5, 'poses')
            assert sink.said('NatNet does not')
            assert not sink.bodies
            client.record('x')
            sink.wait_for('start a recording')


def test_auto_passes_no_frame_before_the_connection_is_announced():
    class Slow(Sink):
        """Take the announcement only after the server has sent 20 more frames."""

        frames_before = None

        def link_changed(self, change):
            if change.data is LinkState.CONNECTED:
                sent = server.counters.frames
                wait_until(lambda: server.counters.frames > sent + 20)
                self.frames_before = len(self.frames)
            super().link_changed(change)
    sink = Slow()
    with simulated() as server:
        backend = make_backend(
            'auto', client_config(), NatNetConfig(port=server.natnet_port), sink)
        backend.start()
        try:
            sink.wait(lambda: len(sink.frames) > 5, 'frames')
        finally:
            backend.stop()
    assert sink.frames_before == 0
    states = [change.data for change in sink.changes]
    assert states[states.index(LinkState.CONNECTED) + 1] is LinkState.STREAMING


def test_auto_reports_a_recording_that_was_requested_before_vrpn_was_chosen():
    with simulated(protocol='vrpn') as server:
        with Running(free_port(), protocol='auto', port=server.port, attempt_s=0.4) as (
                sink, client):
            sink.wait(lambda: sink.changes, 'an attempt by NatNet')
            client.record('early')
            assert not sink.said('start a recording')
            sink.wait_for('start a recording')
            assert sink.said('VRPN is used')


def test_auto_refuses_a_vrpn_backend_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, 'vrpn', None)
    config = replace(client_config(), backend='python_vrpn', trackers=('wand',))
    with pytest.raises(BackendUnavailableError, match='python-vrpn'):
        make_backend('auto', config, NatNetConfig(), Sink())


def test_settings_that_cannot_be_are_refused():
    for wrong in ({'bitstream': '9'}, {'bitstream': '1.0'}, {'group': '10.0.0.1'},
                  {'transport': 'tcp'}, {'port': 0}):
        with pytest.raises(ConfigurationError):
            NatNetConfig(**wrong)
    with pytest.raises(ConfigurationError, match='needs protocol'):
        make_backend('vrpn', client_config('auto'), NatNetConfig(), Sink())
    assert isinstance(make_backend('auto', client_config(), NatNetConfig(), Sink()), AutoBackend)
    client = NatNetClient(client_config(), NatNetConfig(), Sink())
    client.stop()
    with pytest.raises(TransportError):
        client.start()
