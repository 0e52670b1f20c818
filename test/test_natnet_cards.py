# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Multicast on a computer with two network cards; needs permission for network namespaces."""

import contextlib
from dataclasses import replace
import socket

import doctor_kit
from natnet_kit import client_config, simulated, Sink
from optitrack_vrpn.natnet import codec
from optitrack_vrpn.natnet.factory_io import make_backend
from optitrack_vrpn.natnet.settings import NatNetConfig
import pytest
import two_networks

pytestmark = [pytest.mark.network, pytest.mark.skipif(
    not two_networks.allowed(), reason='making network namespaces needs rights')]
examine = doctor_kit.examine


@pytest.fixture(scope='module')
def networks():
    with two_networks.TwoNetworks() as networks:
        yield networks


@contextlib.contextmanager
def motive(networks, host):
    """Run a simulated Motive on the Motive PC; multicast leaves it by the laboratory's card."""
    with two_networks.inside(networks.motive):
        with simulated(['Wand'], server={'port': 0, 'host': host}, natnet={
                'multicast': True, 'data_port': 1511}) as server, \
                two_networks.inside(networks.robot):
            yield server


@contextlib.contextmanager
def following(server, address, interface=''):
    sink = Sink()
    config = replace(client_config(address, reconnect_after_s=0.0), interface=interface)
    client = make_backend('natnet', config, NatNetConfig(port=server.natnet_port), sink)
    client.start()
    try:
        yield client, sink
    finally:
        client.stop()


def test_the_group_is_joined_on_the_card_that_reaches_the_server(networks):
    with motive(networks, networks.lab[1]) as server:
        with following(server, networks.lab[1]) as (client, sink):
            sink.wait(lambda: len(sink.bodies) > 20, 'bodies')
            assert client.status().transport == 'natnet multicast'
            assert client.status().local == networks.lab[0]


@pytest.mark.parametrize('interface', ['lab0', '10.214.1.1'])
def test_the_card_can_be_named(networks, interface):
    with motive(networks, networks.lab[1]) as server:
        with following(server, networks.lab[1], interface=interface) as (_, sink):
            sink.wait(lambda: len(sink.bodies) > 20, 'bodies')


def test_several_clients_of_one_computer_share_the_group(networks):
    with motive(networks, networks.lab[1]) as server:
        with following(server, networks.lab[1]) as (_, one), \
                following(server, networks.lab[1]) as (_, other):
            one.wait(lambda: len(one.bodies) > 20, 'bodies')
            other.wait(lambda: len(other.bodies) > 20, 'bodies')


def test_a_search_covers_every_network_and_one_card_alone_where_it_is_named(networks):
    with motive(networks, '0.0.0.0') as server:
        with following(server, 'auto', interface='lab0') as (client, sink):
            sink.wait(lambda: len(sink.bodies) > 20, 'bodies')
            assert client.status().server.startswith(networks.lab[1])
        with following(server, 'auto') as (_, sink):
            # It answers in both networks, and no one can tell that it is one.
            sink.wait_for('2 servers answered')
            assert sink.said(networks.lab[1]) and sink.said(networks.office[1])


def test_the_wrong_card_gets_nothing_and_the_doctor_names_the_right_one(networks, examine):
    with motive(networks, networks.lab[1]) as server:
        with following(server, networks.lab[1], interface='office0') as (_, sink):
            sink.wait_for('connected to')
            result = examine(
                1, '--protocol', 'natnet', '--natnet-port', str(server.natnet_port),
                '--interface', 'office0', server=networks.lab[1], timeout=1.0)
            assert not sink.bodies
    assert result.level('natnet') == 'OK'
    assert result.level('natnet-data') == 'FAIL'
    assert f'no frame on {networks.office[0]}, but frames on lab0' in result.found('natnet-data')
    assert 'interface: lab0' in result.advice('natnet-data')


def test_a_server_known_by_its_address_in_another_network(networks, examine):
    with motive(networks, '0.0.0.0') as server:
        with following(server, networks.office[1], interface='lab0') as (_, sink):
            sink.wait_for(f'a datagram from {networks.lab[1]} was refused')
            assert sink.said(f'set server: {networks.lab[1]}')
            assert not sink.bodies
        result = examine(
            1, '--protocol', 'natnet', '--natnet-port', str(server.natnet_port),
            server=networks.office[1], timeout=1.0)
    assert result.level('natnet-data') == 'FAIL'
    assert f'server: {networks.lab[1]}' in result.advice('natnet-data')


def test_frames_of_another_host_in_the_group_are_refused(networks):
    with motive(networks, networks.lab[1]) as server:
        with following(server, networks.lab[1]) as (client, sink):
            sink.wait(lambda: len(sink.bodies) > 5, 'bodies')
            with two_networks.inside(networks.motive):
                forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with forger:
                forger.bind((networks.other, 0))
                forger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                                  socket.inet_aton(networks.other))
                for _ in range(20):
                    forger.sendto(codec.encode_message(9), ('239.255.42.99', 1511))
            sink.wait(lambda: client.status().unexpected_peers == 20, 'the refusals')
            assert sink.said(f'a datagram from {networks.other} was refused')
            seen = len(sink.bodies)
            sink.wait(lambda: len(sink.bodies) > seen + 5, 'bodies')
            assert client.status().sessions == 1
