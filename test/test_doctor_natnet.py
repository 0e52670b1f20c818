# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor and NatNet: on, off, silent, without bodies, on the wrong card, too new."""

import contextlib
import os
import socket
import threading

import doctor_kit
from doctor_results import heard, result
from natnet_kit import simulated
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import LinkStatus, ServerFacts
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.client_io import NatNetClient
from optitrack_vrpn.drivers.natnet.messages import ServerInfo
from optitrack_vrpn.drivers.natnet.probe_io import NatNetSurroundings
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.telling.doctor import command as doctor
from optitrack_vrpn.telling.doctor.probes_io import listen
from optitrack_vrpn.telling.doctor.results import Tried
import pytest

examine = doctor_kit.examine
network = pytest.mark.network


def natnet_levels(result):
    return result.levels('natnet', 'data', 'natnet-clock')


@network
def test_nothing_is_wrong_with_a_healthy_natnet_server(examine):
    with simulated(['Wand', 'bodys']) as server:
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.port_of('natnet')))
    assert natnet_levels(result) == ['OK'] * 3, result.checks
    for check in ('udp', 'tcp', 'handshake'):
        assert '(protocol natnet)' in result.found(check)
    assert result.values('bodies')['tracked'] == 2
    assert result.values('natnet-clock')['processing_ms'] > 4.0
    assert result.code == (1 if result.level('clock') == 'WARN' else 0)    # on a busy machine


@network
def test_what_motive_states_and_its_times_are_facts_of_the_nodes_client():
    with simulated(['Wand']) as server:
        settings = NatNetConfig(port=server.port_of('natnet'))
        found = listen(lambda sink: NatNetClient(
            ClientConfig('127.0.0.1'), settings, sink), 1.0, 3.0)
    assert found.link.known.up_axis == 'y' and found.poses
    assert 0.0 < found.link.known.round_trip_s < 0.1 and found.processing_s > 0.004


@network
def test_the_server_is_searched_as_by_the_node(examine, unused_port):
    with simulated(['Wand']) as server:
        arguments = ('--natnet-port', str(server.port_of('natnet')))
        result = examine(unused_port, '--protocol', 'natnet', *arguments, server='auto')
        assert natnet_levels(result) == ['OK'] * 3
        result.judged('name', 'OK', "'auto' is 127.0.0.1")
        examine(unused_port, *arguments, server='auto').judged(
            'name', 'FAIL', 'protocol vrpn cannot be searched')
    result = examine(unused_port, '--protocol', 'natnet', *arguments, server='auto')
    result.judged('name', 'FAIL', 'no Motive answered', 'interface')


@network
def test_both_protocols_are_examined_with_auto(examine):
    with simulated(['Wand'], protocol='both') as server:
        result = examine(
            server.port, '--protocol', 'auto', '--natnet-port', str(server.port_of('natnet')))
    assert natnet_levels(result) == ['OK'] * 3
    assert result.level('data') in ('OK', 'WARN') and result.level('tcp') == 'OK'
    assert result.level('senders') == 'OK'
    result.judged('also', 'OK', 'VRPN answers too', 'of 1 body', 'of NatNet')
    assert result.values('also')['poses'] > 10


@network
def test_bodies_that_only_one_protocol_sends_are_named(examine):
    with simulated(['Wand', 'Box'], protocol='both') as server:
        server.call(lambda: server.serving('natnet').world.set_models(['Box']))
        result = examine(
            server.port, '--protocol', 'auto', '--natnet-port', str(server.port_of('natnet')))
    result.judged('also', 'OK', "only by VRPN: 'Wand'")


@network
@pytest.mark.parametrize('served, wanted, levels, said', [
    ('natnet', 'vrpn', {'natnet': 'OK', 'tcp': 'FAIL'}, ('tcp', 'protocol: natnet')),
    ('natnet', 'auto', {'natnet': 'OK', 'data': 'OK', 'natnet-clock': 'OK', 'tcp': 'SKIP'},
     ('tcp', 'the node uses NatNet')),
    ('vrpn', 'auto', {'natnet': 'SKIP', 'tcp': 'OK', 'data': 'OK'},
     ('natnet', 'the node uses VRPN')),
    ('vrpn', 'natnet', {'natnet': 'FAIL', 'tcp': 'OK', 'handshake': 'OK'},
     ('natnet', 'protocol: vrpn or auto'))])
def test_the_protocol_that_the_server_does_not_speak_is_judged_by_what_was_asked_for(
        examine, unused_port, served, wanted, levels, said):
    with simulated(['Wand'], protocol=served) as server:
        result = examine(
            server.port if served == 'vrpn' else unused_port, '--protocol', wanted,
            '--natnet-port', str(server.port_of('natnet')) if served == 'natnet' else '9',
            timeout=0.5)
    assert {check: result.level(check) for check in levels} == levels
    assert not said or said[1] in f'{result.found(said[0])} {result.advice(said[0])}'
    # A busy machine may have warnings of its own.
    assert (result.code == 2) is ('FAIL' in levels.values())


@network
def test_a_program_that_holds_the_data_port_is_named(examine):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, \
            simulated(['Wand'], natnet={'multicast': True}) as server:
        port = server.serving('natnet').data_port
        other.bind(('239.255.42.99', port))
        result = examine(1, '--protocol', 'natnet', '--natnet-port',
                         str(server.port_of('natnet')), timeout=1.0)
    result.judged('natnet', 'FAIL', f'port {port}',
                  advice=[f'(process {os.getpid()})', 'end '])
    assert 'firewall' not in result.advice('natnet')


@network
def test_a_server_without_frames_and_one_that_plays_a_take(examine):
    with simulated(['Wand']) as server:
        server.pause()
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.port_of('natnet')),
                         timeout=1.0)
        assert result.level('data') == 'FAIL'
        assert 'Broadcast Frame Data' in result.advice('data')
    with simulated(['Wand'], natnet={'edit_mode': True}) as server:
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.port_of('natnet')))
        assert result.level('data') == 'WARN'
        assert 'plays a take' in result.found('data')
        assert 'live mode' in result.advice('data')
        result.judged('bodies', 'FAIL', 'plays a take', advice=['live mode'])
        assert 'cameras' not in result.advice('bodies'), 'no body is out of view'


def test_the_head_of_the_report_names_the_port_of_the_protocol(capsys):
    for arguments, port in ((['--protocol', 'natnet', '--natnet-port', '9'], 9),
                            (['--protocol', 'vrpn', '--port', '9'], 9),
                            (['--protocol', 'natnet'], 1510)):
        doctor.main(['--server', 'name.invalid', '--no-ros', *arguments])
        assert capsys.readouterr().out.startswith(f'doctor: name.invalid port {port}, protocol')


def facts(version='4.1', multicast=True, counters=None, ended='', unused=False, around=(),
          **changes):
    """Make the facts of a NatNet server; without a version it has not answered."""
    probed = heard(counters=counters or {}, ended=ended, **{
        'poses': 0, 'bodies': (), 'listened_s': 2.0 if version else 0.0, **changes})
    probed.by, probed.unused = 'natnet', unused
    probed.stream.link = LinkStatus(known=ServerFacts(
        name='Motive', stated_version=version, multicast=multicast,
        group='239.255.42.99' if multicast else '',
        data_port=1511, round_trip_s=9e-4))
    probed.tried = {'natnet': Tried(
        True, ClientConfig(), NatNetConfig(), probed.stream, None, NatNetSurroundings(*around))}
    return probed


MUTE = 'no answer on port 1510: does a firewall drop it?'


@pytest.mark.parametrize('found, level, words', [
    ({'version': '', 'ended': MUTE}, ERROR, 'firewall'),
    ({'version': '', 'ended': MUTE, 'around': (True,)}, ERROR, 'Local Interface'),
    ({'version': '', 'ended': 'it answered, but it cannot be used: x'}, ERROR, 'Motive 1.7'),
    ({'version': '', 'ended': MUTE, 'unused': True}, ERROR, 'its cable'),
    ({'version': '4.6'}, WARN, 'natnet.bitstream'),
    ({}, INFO, '')])
def test_each_answer_of_the_command_port_says_what_to_do(found, level, words):
    one = result('natnet', facts(**found))
    assert one.severity is level and words in one.advice, one


@pytest.mark.parametrize('found, counters, level, words', [
    ({}, {'malformed': 9}, ERROR, 'natnet.bitstream'),
    ({'around': (False, 'eth1', '192.168.1.20')}, {}, ERROR, 'interface: eth1'),
    ({'around': (False, 'eth1', '10.0.0.9')}, {}, ERROR, 'server: 10.0.0.9'),
    ({'multicast': False}, {}, ERROR, 'jumbo'),
    ({'multicast': False}, {'echoes': 20}, ERROR, '--network host'),
    ({'multicast': False}, {'echoes': 20}, ERROR, '1511'),
    ({}, {'messages': 100}, ERROR, 'Rigid Bodies')])
def test_each_silence_says_what_to_do(found, counters, level, words):
    one = result('data', facts(counters=counters, **found))
    assert one.severity is level and words in one.advice, one


@pytest.mark.parametrize('counters, processing_s, level, words', [
    ({'messages': 9}, 5.4e-3, WARN, 'latency_ms'),
    ({'messages': 9, 'echoes': 20}, 0.0, WARN, 'transmission'),
    ({'messages': 9, 'echoes': 20}, 5.4e-3, INFO, ''), ({}, 0.0, None, '')])
def test_echoes_and_exposure_times(counters, processing_s, level, words):
    one = result('natnet-clock', facts(counters=counters, processing_s=processing_s))
    assert one.severity is level and words in one.advice, one


@network
@pytest.mark.parametrize('kind, words', [
    ('closed', 'nothing listens'), ('mute', 'did not answer'), ('garbage', 'cannot be used'),
    ('old', 'NatNet 2.5')])
def test_a_command_port_without_a_usable_server(examine, unused_port, kind, words):
    old = codec.encode_server_info(ServerInfo('Motive', (1, 5, 0, 0), (2, 5), 0, 0, None, ''))

    def answer(peer):
        with contextlib.suppress(OSError):
            while True:
                data, address = peer.recvfrom(2048)
                if not data:
                    return
                if kind != 'mute':
                    peer.sendto(old if kind == 'old' else b'\1\2\3', address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(('127.0.0.1', 0))
        port = peer.getsockname()[1]
        if kind == 'closed':
            peer.close()
        else:
            threading.Thread(target=answer, args=(peer,), daemon=True).start()
        result = examine(
            unused_port, '--protocol', 'natnet', '--natnet-port', str(port), timeout=0.5)
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)    # ends the thread
    result.judged('natnet', 'FAIL', words)
