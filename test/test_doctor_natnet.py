# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor and NatNet: on, off, silent, without bodies, on the wrong card, too new."""

import doctor_kit
from natnet_kit import simulated
from optitrack_vrpn.doctor import natnet
from optitrack_vrpn.doctor.probe_results import Attempt, NatNetResults, Outcome, ProbeResults
from optitrack_vrpn.doctor.result import Level
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
        assert '(--protocol natnet)' in result.found(check)
    assert "'Wand', 'bodys'" in result.found('natnet-data')
    assert result.values('natnet-clock')['processing_ms'] > 4.0
    assert result.code == 0


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
    ('natnet', {'malformed': 3}, Level.FAIL, 'Motive 1.7'),
    ('natnet', {**GOOD, 'version': (4, 5)}, Level.WARN, 'natnet.bitstream'),
    ('natnet', GOOD, Level.OK, ''),
    ('natnet_data', {**GOOD, 'frames': 0, 'malformed': 9}, Level.FAIL, 'natnet.bitstream'),
    ('natnet_data', {**GOOD, 'frames': 0, 'multicast': True, 'other_card': 'eth1'}, Level.FAIL,
     'interface: eth1'),
    ('natnet_data', {**GOOD, 'frames': 0, 'multicast': True, 'other_card': 'eth1',
                     'other_source': '10.0.0.9'}, Level.FAIL, 'server: 10.0.0.9'),
    ('natnet_data', {**GOOD, 'bodies': ()}, Level.WARN, 'Rigid Bodies'),
    ('natnet_data', GOOD, Level.OK, ''),
    ('natnet_data', {**GOOD, 'bodies': ('Wand', 'b'), 'untracked': ('b',)}, Level.WARN, 'cameras'),
    ('natnet_data', {**GOOD, 'untracked': ('Wand',)}, Level.FAIL, 'cameras'),
    ('natnet_clock', {**GOOD, 'echoes': 0}, Level.WARN, 'latency_ms'),
    ('natnet_clock', {**GOOD, 'processing_ms': 0.0}, Level.WARN, 'transmission'),
    ('natnet_clock', GOOD, Level.OK, ''),
])
def test_each_finding_says_what_to_do(check, found, level, words):
    one = getattr(natnet, f'check_{check}')(facts(**found))
    assert one.level is level, one
    assert words in one.advice


def test_a_mute_command_port_beside_vrpn_is_no_failure():
    seen = facts()
    seen.tcp = Attempt(Outcome.OPEN)
    assert natnet.check_natnet(seen).level is Level.WARN
