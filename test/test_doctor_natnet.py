# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor and NatNet: on, off, silent, without bodies, on the wrong card, too new."""

import contextlib
import os
import socket
import threading

import doctor_kit
from natnet_kit import simulated
from optitrack_vrpn import doctor
from optitrack_vrpn.doctor import (
    Attempt, check_natnet, Level, NatNetResults, Outcome, ProbeResults, Stream)
from optitrack_vrpn.sources.natnet import codec, ServerInfo
import pytest

examine = doctor_kit.examine
network = pytest.mark.network


def natnet_levels(result):
    return result.levels('natnet', 'natnet-data', 'natnet-clock')


@network
def test_nothing_is_wrong_with_a_healthy_natnet_server(examine):
    with simulated(['Wand', 'bodys']) as server:
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.natnet_port))
    assert natnet_levels(result) == ['OK'] * 3, result.checks
    for check in ('udp', 'tcp', 'handshake', 'clock'):
        assert '(protocol natnet)' in result.found(check)
    assert "'Wand', 'bodys'" in result.found('natnet-data')
    assert result.values('natnet-clock')['processing_ms'] > 4.0
    assert result.code == 0


@network
def test_the_server_is_searched_as_by_the_node(examine, unused_port):
    with simulated(['Wand']) as server:
        arguments = ('--natnet-port', str(server.natnet_port))
        result = examine(unused_port, '--protocol', 'natnet', *arguments, server='auto')
        assert natnet_levels(result) == ['OK'] * 3
        result.judged('name', 'OK', "'auto' is 127.0.0.1")
        examine(unused_port, *arguments, server='auto').judged(
            'name', 'FAIL', 'protocol is vrpn')
    result = examine(unused_port, '--protocol', 'natnet', *arguments, server='auto')
    result.judged('name', 'FAIL', 'no Motive answered', 'interface')


@network
def test_both_protocols_are_examined_with_auto(examine):
    with simulated(['Wand'], protocol='both') as server:
        result = examine(
            server.port, '--protocol', 'auto', '--natnet-port', str(server.natnet_port))
    assert natnet_levels(result) == ['OK'] * 3
    assert result.level('data') in ('OK', 'WARN') and result.level('tcp') == 'OK'


@network
def test_natnet_on_and_vrpn_off_is_told_to_a_user_of_vrpn(examine, unused_port):
    with simulated(['Wand']) as server:
        result = examine(unused_port, '--natnet-port', str(server.natnet_port), timeout=0.5)
    assert result.level('natnet') == 'WARN'
    assert 'protocol: natnet' in result.advice('natnet')


@network
def test_vrpn_that_a_user_of_auto_does_not_need_is_no_failure(examine, unused_port):
    with simulated(['Wand']) as server:
        result = examine(unused_port, '--protocol', 'auto', '--natnet-port',
                         str(server.natnet_port), timeout=0.5)
    assert natnet_levels(result) == ['OK'] * 3 and result.level('tcp') == 'WARN'
    assert result.code == 1


@network
def test_natnet_off_and_vrpn_on_is_told_to_a_user_of_auto(examine):
    with simulated(['Wand'], protocol='vrpn') as server:
        result = examine(server.port, '--protocol', 'auto', '--natnet-port', '9', timeout=0.5)
    assert result.level('natnet') == 'WARN'
    assert 'VRPN answers' in result.found('natnet')


@network
def test_vrpn_that_a_user_of_natnet_does_not_ask_for_is_named(examine):
    with simulated(['Wand'], protocol='vrpn') as server:
        result = examine(server.port, '--protocol', 'natnet', '--natnet-port', '9', timeout=0.5)
    result.judged('natnet', 'FAIL', 'VRPN answers', advice=['protocol: vrpn or auto'])
    assert result.levels('tcp', 'handshake') == ['OK', 'OK']


@network
def test_a_program_that_holds_the_data_port_is_named(examine):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, \
            simulated(['Wand'], natnet={'multicast': True}) as server:
        port = server.natnet.data_port
        other.bind(('239.255.42.99', port))
        result = examine(1, '--protocol', 'natnet', '--natnet-port',
                         str(server.natnet_port), timeout=1.0)
    result.judged('natnet', 'FAIL', f'port {port}', f'(process {os.getpid()})',
                  advice=['end that'])
    assert 'firewall' not in result.advice('natnet')


@network
def test_a_server_without_frames_and_one_that_plays_a_take(examine):
    with simulated(['Wand']) as server:
        server.pause()
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.natnet_port),
                         timeout=1.0)
        assert result.level('natnet-data') == 'FAIL'
        assert 'Broadcast Frame Data' in result.advice('natnet-data')
    with simulated(['Wand'], natnet={'edit_mode': True}) as server:
        result = examine(1, '--protocol', 'natnet', '--natnet-port', str(server.natnet_port))
        assert result.level('natnet-data') == 'WARN'
        assert 'plays a take' in result.advice('natnet-data')


def facts(**found):
    return ProbeResults('motive', 3883, protocol='natnet', natnet=NatNetResults(1510, **found))


GOOD = {'name': 'Motive', 'version': (4, 1), 'frames': 100, 'bodies': ('Wand',),
        'listened_s': 1.0, 'echoes': 20, 'round_trip_ms': 0.9, 'processing_ms': 5.4}


@pytest.mark.parametrize('check, found, level, words', [
    ('natnet', {}, Level.FAIL, '1510 and 1511'),
    ('natnet', {'refused': True}, Level.FAIL, 'Local Interface'),
    ('natnet', {'malformed': 3}, Level.FAIL, 'Motive 1.7'),
    ('natnet', {**GOOD, 'version': (4, 5)}, Level.WARN, 'natnet.bitstream'),
    ('natnet', GOOD, Level.OK, ''),
    ('natnet_data', {**GOOD, 'frames': 0, 'malformed': 9}, Level.FAIL, 'natnet.bitstream'),
    ('natnet_data', {**GOOD, 'frames': 0, 'multicast': True, 'other_card': 'eth1'}, Level.FAIL,
     'interface: eth1'),
    ('natnet_data', {**GOOD, 'frames': 0, 'multicast': True, 'other_card': 'eth1',
                     'other_source': '10.0.0.9'}, Level.FAIL, 'server: 10.0.0.9'),
    ('natnet_data', {**GOOD, 'frames': 0, 'multicast': False}, Level.FAIL, 'jumbo'),
    ('natnet_data', {**GOOD, 'bodies': ()}, Level.WARN, 'Rigid Bodies'),
    ('natnet_data', {**GOOD, 'bodies': (), 'unnamed': 100}, Level.FAIL, 'jumbo'),
    ('natnet_data', {**GOOD, 'lost': 10}, Level.WARN, 'cable'),
    ('natnet_data', {**GOOD, 'lost': 10, 'unread': 10}, Level.WARN, 'reduce its load'),
    ('natnet_data', {**GOOD, 'lost': 1}, Level.OK, ''),
    ('natnet_data', GOOD, Level.OK, ''),
    ('natnet_data', {**GOOD, 'bodies': ('Wand', 'b'), 'untracked': ('b',)}, Level.WARN, 'cameras'),
    ('natnet_data', {**GOOD, 'untracked': ('Wand',)}, Level.FAIL, 'cameras'),
    ('natnet_clock', {**GOOD, 'echoes': 0}, Level.WARN, 'latency_ms'),
    ('natnet_clock', {**GOOD, 'processing_ms': 0.0}, Level.WARN, 'transmission'),
    ('natnet_clock', GOOD, Level.OK, ''),
])
def test_each_finding_says_what_to_do(check, found, level, words):
    one = getattr(doctor, f'check_{check}')(facts(**found))
    assert one.level is level, one
    assert words in one.advice


@pytest.mark.parametrize('protocol, version, level, words', [
    ('auto', (7, 38), Level.WARN, 'protocol: vrpn'),
    ('natnet', (7, 38), Level.FAIL, 'protocol: vrpn or auto'),
    ('natnet', None, Level.FAIL, 'Motive running')])
def test_a_mute_command_port_is_no_failure_beside_vrpn_that_serves_the_node(
        protocol, version, level, words):
    seen = facts()
    seen.protocol = protocol
    seen.tcp = Attempt(Outcome.OPEN)
    seen.stream = Stream(transport='tcp', attempt=Attempt(Outcome.OPEN, version=version))
    found = check_natnet(seen)
    assert found.level is level and words in found.advice


def test_an_address_without_a_machine_is_named():
    seen = facts()
    seen.address_unused = True
    assert 'its cable' in check_natnet(seen).advice


@network
@pytest.mark.parametrize('kind, words', [
    ('closed', 'nothing listens'), ('mute', 'no answer'), ('garbage', 'cannot be used'),
    ('old', 'Motive 1.7')])
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
