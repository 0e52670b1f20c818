# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The NatNet client on real sockets, against the simulated Motive and against hostile peers."""

from dataclasses import replace
import math
import socket

from natnet_kit import client_config, following, simulated, Sink
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.automatic_io import AutomaticSource
from optitrack_vrpn.drivers.choice import Patience
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.frames import Body, Frame
from optitrack_vrpn.drivers.link import link_event, LinkState
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.client_io import (
    choose_server, without_ended_recordings)
from optitrack_vrpn.drivers.natnet.messages import MessageId, ServerInfo
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.table import (
    make_source, protocols_of, source_settings, SourceOptions)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
import pytest
from relay_kit import Relay
from server_kit import FakeServer, free_port
from transport_kit import stream, wait_until

pytestmark = pytest.mark.network


@pytest.mark.parametrize('version', ['2.7', '2.9', '3.0', '4.0', '4.1', '4.2'])
@pytest.mark.parametrize('multicast', [False, True])
def test_bodies_come_with_names_times_and_flags(version, multicast):
    with simulated(['Wand', '1drone'], motion='still', natnet={
            'version': version, 'multicast': multicast, 'data_port': free_port()}) as server:
        served = server.serving('natnet')
        heard, execute = [], served.execute
        served.execute = lambda *request: heard.append(request[0]) or execute(*request)
        # Before 3.0 a server states neither port nor group.
        natnet = {'data_port': server.scenario.natnet.data_port}
        with following(server, natnet) as (sink, client):
            sink.wait_for_bodies(20)
            assert client.status().state is LinkState.STREAMING
            assert {body.name for body in sink.bodies} == {'Wand', '1drone'}
            for body in sink.bodies:
                position = server.world.truth(body.name, 0.0).position[0]
                assert math.dist(body.position, position) < 1e-6
                assert body.valid and body.mean_error == pytest.approx(0.0003)
            timed = version >= '3.0'
            assert bool(sink.echoes) == timed
            # Before 3.0 a server does not say that it sends multicast.
            assert (MessageId.KEEP_ALIVE in heard) is not (multicast and timed)
            if timed:
                # Frames wait for the first round trips, which their stamps need.
                assert sink.events[0] is sink.echoes[0]
                assert all(3e6 < frame.processing_ns < 1e9 for frame in sink.frames)
            times = [frame.sender_time_ns for frame in sink.frames]
            assert times == sorted(times)


@pytest.mark.parametrize('natnet', [
    {'multicast': True, 'client_timeout': 1.0}, {'version': '4.2'}],
    ids=['multicast', 'two bitstreams'])
def test_clients_on_one_machine_do_not_disturb_each_other(natnet):
    with simulated(natnet={'data_port': free_port(), **natnet}) as server:
        with following(server) as (one, _), following(server, {'bitstream': '3.0'}) as (other, _):
            one.wait_for_bodies()
            other.wait_for_bodies()
        wait_until(lambda: not server.clients)


@pytest.mark.parametrize('rate', [0.5, 1.03])
def test_stamps_do_not_rely_on_a_counter_of_a_wrong_frequency(rate):
    with simulated() as server:
        before = server.serving('natnet').world.ticks
        server.serving('natnet').world.ticks = lambda ns: round(rate * before(ns))
        with following(server) as (sink, _):
            sink.wait_for('times as fast')
            seen = len(sink.frames)
            sink.wait_for_bodies(20)
            assert not any(frame.processing_ns for frame in sink.frames[seen:])
            assert not seen or rate > 0.9


class Stamped(Sink):
    """
    Give all reports to a pipeline.

    :ivar ages: the present minus the stamp (ns) of every pose that would be published.
    """

    def __init__(self):
        super().__init__()
        self.pipeline = Pipeline(PipelineConfig())
        self.clock = HostClock()
        self.ages = []

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        now_ns = self.clock.now_ns()
        self.ages += [now_ns + host_minus_arrival_ns - sample.stamp_ns
                      for sample in self.pipeline.process(
                          events, arrival_ns, host_minus_arrival_ns, now_ns).samples]
        super().receive(events, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change):
        if change.data is LinkState.CONNECTED:
            self.pipeline.reconnected()
        super().link_changed(change)


@pytest.mark.parametrize('protocol', ['natnet', 'auto'])
def test_frames_without_times_are_stamped_by_arrival_from_the_first_on(protocol):
    with simulated(2, natnet={'ticks': False}) as server, following(
            server, sink=Stamped(), protocol=protocol) as (sink, _):
        sink.wait(lambda: len(sink.ages) > 100)
    assert not sink.echoes and not any(frame.processing_ns for frame in sink.frames)
    # All but those of the first half second, and what a busy machine delays.
    assert len(sink.ages) > 0.2 * len(sink.bodies)
    assert max(sink.ages) < 250_000_000
    assert sum('no times of its clock' in change.text for change in sink.changes) == 1
    assert LinkState.LOST not in sink.states


def test_a_restarted_server_is_followed():
    with simulated() as server, following(server) as (sink, _):
        sink.wait_for_bodies()
        server.restart(0.2)
        sink.wait_for_bodies()


@pytest.mark.parametrize(('waiting', 'sent'), [
    (['SetRecordTakeName,a', 'StartRecording'], ['SetRecordTakeName,a', 'StartRecording']),
    (['StopRecording'], ['StopRecording']),
    (['SetRecordTakeName,a', 'StartRecording', 'StopRecording'], []),
    (['StartRecording', 'StopRecording', 'SetRecordTakeName,b', 'StartRecording'],
     ['SetRecordTakeName,b', 'StartRecording']),
    (['StopRecording', 'StartRecording', 'StopRecording'], ['StopRecording'])])
def test_an_ended_recording_is_not_begun_later(waiting, sent):
    assert without_ended_recordings(waiting) == sent


def test_a_server_that_comes_after_the_session_records_nothing():
    with simulated() as server, Relay(server.port_of('natnet')) as relay:
        relay.hole(True)
        with following(relay.port) as (sink, client):
            client.record('late')
            client.stop_recording()
            relay.hole(False)
            sink.wait_for('recorded none')
            sink.wait_for_bodies()
            assert not server.serving('natnet').takes


def test_a_recording_has_its_name_and_ends_with_the_client():
    with simulated() as server:
        with following(server) as (sink, client):
            sink.wait_for_bodies()
            client.record('session,7')
            sink.wait_for('Motive records')
            served = server.serving('natnet')
            assert served.world.recording and served.takes == ['session_7']
            client.stop_recording()
        wait_until(lambda: not server.serving('natnet').world.recording)


def test_other_hosts_are_refused_and_rubbish_harms_nothing():
    with simulated() as server, Relay(server.port_of('natnet')) as relay, \
            following(relay.port) as (sink, client):
        sink.wait_for_bodies()
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
        sink.wait(lambda: client.status().counters['malformed'] > 5)
        sink.wait(lambda: client.status().refused == {'127.0.0.2': 'a datagram'})
        sink.wait_for_bodies()
        assert client.status().unexpected_peers == 20
        assert client.status().sessions == 1


@pytest.mark.parametrize('addresses, chosen', [
    (['10.0.0.5'], '10.0.0.5'), (['127.0.0.1'], '127.0.0.1'),
    (['127.0.0.1', '10.0.0.5'], '10.0.0.5'), ([], 'no Motive answered'),
    (['10.0.0.5', '10.0.0.6'], '2 servers answered')])
def test_discovery_needs_exactly_one_server(addresses, chosen):
    info = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, False, '0.0.0.0')
    found = dict.fromkeys(addresses, info)
    if chosen in found:
        assert choose_server(found) == chosen
    else:
        with pytest.raises(TransportError, match=chosen):
            choose_server(found)


def test_discovery_finds_a_server_on_this_machine():
    with simulated() as server, following(server, server='auto') as (sink, client):
        sink.wait_for_bodies()
        assert client.status().server.startswith('127.0.0.1')


def test_auto_prefers_natnet_and_says_why():
    with simulated(protocol='both') as server:
        with following(server, protocol='auto', port=server.port) as (sink, client):
            sink.wait(lambda: any(change.severity == INFO and 'NatNet is used' in change.text
                                  for change in sink.changes))
            sink.wait_for_bodies()
            assert not sink.vrpn_frames
            assert client.status().transport == 'natnet unicast'


def test_auto_falls_back_to_vrpn_which_cannot_record():
    with simulated(protocol='vrpn') as server:
        with following(free_port(), protocol='auto', port=server.port, attempt_s=0.4) as (
                sink, client):
            sink.wait(lambda: sink.changes)
            client.record('early')
            assert not sink.said('start a recording')
            sink.wait_for('start a recording')
            sink.wait_for('NatNet does not')
            assert sink.said('VRPN is used')
            sink.wait(lambda: len(sink.vrpn_frames) > 5)
            assert len(sink.vrpn_frames) == len(sink.frames)
            client.stop_recording()
            sink.wait_for('stop a recording')


def test_auto_passes_no_frame_before_its_connection():
    class Slow(Sink):
        """Take the announcement only after the server has sent 20 more frames."""

        frames_before = None

        def link_changed(self, change):
            if change.data is LinkState.CONNECTED:
                sent = server.counters.frames
                wait_until(lambda: server.counters.frames > sent + 20)
                self.frames_before = len(self.frames)
            super().link_changed(change)
    with simulated() as server, following(server, protocol='auto', sink=Slow()) as (sink, _):
        sink.wait_for_bodies()
    assert sink.frames_before == 0
    assert sink.states[sink.states.index(LinkState.CONNECTED) + 1] is LinkState.STREAMING


def test_a_stream_that_ended_is_replaced_by_that_of_the_other_protocol():
    sink, quick = Sink(), Patience(1_500_000_000, 300_000_000)
    with simulated(protocol='vrpn') as vrpn, simulated() as server:
        config = client_config(port=vrpn.port, attempt_s=0.3)
        settings = replace(source_settings(), natnet=NatNetConfig(port=server.port))
        client = AutomaticSource(('natnet', 'vrpn'), lambda protocol, gate, answered: make_source(
            protocol, config, settings, gate, SourceOptions()), sink, quick)
        client.start()
        try:
            sink.wait_for_bodies()
            server.stop()
            sink.wait_for('are tried again')
            sink.wait_for('VRPN is used')
            sink.wait(lambda: sink.vrpn_frames)
            assert client.status().transport in ('udp', 'tcp')
        finally:
            client.stop()


def test_a_client_that_is_being_stopped_passes_no_frame_on():
    class Late:
        """A client whose thread delivers a frame while it is stopped."""

        def __init__(self, gate):
            self.gate = gate

        def start(self):
            self.gate.link_changed(link_event(INFO, 'poses', LinkState.STREAMING))
            self.deliver()

        def deliver(self):
            self.gate.receive([Frame(1, [Body('wand', 0, 1, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0))])],
                              1, 0)

        stop = deliver
    sink = Sink()
    client = AutomaticSource(
        ('natnet', 'vrpn'), lambda protocol, gate, answered: Late(gate), sink,
        Patience(1_500_000_000, 300_000_000))
    client.start()
    try:
        sink.wait(lambda: sink.frames)
    finally:
        client.stop()
    assert len(sink.frames) == 1


@pytest.mark.parametrize('protocol', ['natnet', 'vrpn'])
def test_an_interface_of_another_network_than_the_server_is_named(protocol, unused_port):
    port = {'natnet': {'port': unused_port}} if protocol == 'natnet' else {'port': unused_port}
    with following(unused_port, protocol=protocol, interface='127.0.0.2', **(
            {} if protocol == 'natnet' else port)) as (sink, _):
        sink.wait_for('interface is 127.0.0.2, but the route to 127.0.0.1 leaves from 127.0.0.1')


@pytest.mark.parametrize('config, own, found', [
    ({}, {}, ('natnet', 'vrpn')), ({'server': 'auto'}, {}, ('natnet',)),
    ({'port': 4000}, {}, ('vrpn',)), ({'port': 4000}, {'port': 4001}, ('natnet', 'vrpn')),
    ({'backend': 'python_vrpn', 'trackers': ('a',)}, {}, ('vrpn',))])
def test_who_names_the_port_of_vrpn_alone_means_vrpn(config, own, found):
    settings = replace(source_settings(), natnet=NatNetConfig(**own))
    assert protocols_of('auto', ClientConfig(**config), settings) == found
    assert protocols_of('vrpn', ClientConfig(**config), settings) == ('vrpn',)


@pytest.mark.parametrize('connection', ['auto', 'tcp'])
def test_vrpn_is_not_connected_by_tcp_beside_natnet_that_answers(connection):
    """Unless the user asks for TCP; here nothing takes requests of VRPN by UDP."""
    with simulated(protocol='natnet') as server, FakeServer(stream, udp=False) as vrpn:
        server.serving('natnet').deliver = lambda *_: None    # it answers and sends no frames
        with following(server, protocol='auto', port=vrpn.port, connection=connection) as (
                sink, _):
            if connection == 'auto':
                sink.wait_for('not connected by TCP')
                assert not vrpn.connections
            else:
                sink.wait(lambda: vrpn.connections)
