# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Multicast on a computer with two network cards; needs permission for network namespaces."""

import contextlib
import socket

import doctor_kit
from natnet_kit import following, simulated
from optitrack_vrpn.drivers.natnet import codec
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


def joined(server, address, **config):
    """Follow the Motive PC by an address, and never connect again."""
    return following(server, server=address, reconnect_after_s=0.0, **config)


def test_multicast_comes_by_the_card_towards_the_server(networks):
    with motive(networks, networks.lab[1]) as server:
        with joined(server, networks.lab[1]) as (sink, client):
            sink.wait_for_bodies()
            assert client.status().transport == 'natnet multicast'
            assert client.status().local == networks.lab[0]


@pytest.mark.parametrize('interface', ['lab0', '10.214.1.1'])
def test_the_card_can_be_named(networks, interface):
    with motive(networks, networks.lab[1]) as server:
        with joined(server, networks.lab[1], interface=interface) as (sink, _):
            sink.wait_for_bodies()


def test_a_search_covers_every_network_or_the_named_card(networks):
    with motive(networks, '0.0.0.0') as server:
        with joined(server, 'auto', interface='lab0') as (sink, client):
            sink.wait_for_bodies()
            assert client.status().server.startswith(networks.lab[1])
        with joined(server, 'auto') as (sink, _):
            # It answers in both networks, and no one can tell that it is one.
            sink.wait_for('2 servers answered')
            assert sink.said(networks.lab[1]) and sink.said(networks.office[1])


def test_the_doctor_names_the_right_card(networks, examine):
    with motive(networks, networks.lab[1]) as server:
        with joined(server, networks.lab[1], interface='office0') as (sink, _):
            sink.wait_for('connected to')
            sink.wait_for('no frame arrives by multicast 239.255.42.99 port 1511 on '
                          + networks.office[0])
            assert sink.said('Set interface to the network card')
            result = examine(
                1, '--protocol', 'natnet', '--natnet-port', str(server.port_of('natnet')),
                '--interface', 'office0', server=networks.lab[1], timeout=1.0)
            assert not sink.bodies
    assert result.level('natnet') == 'OK'
    assert result.level('data') == 'FAIL'
    assert f'no frame on {networks.office[0]}, but frames on lab0' in result.found('data')
    assert 'interface: lab0' in result.advice('data')


def test_a_server_that_sends_by_another_network_is_named(networks, examine):
    with motive(networks, '0.0.0.0') as server:
        with joined(server, networks.office[1], interface='lab0') as (sink, client):
            sink.wait(lambda: client.status().refused == {networks.lab[1]: 'a datagram'})
            assert not sink.bodies
        result = examine(
            1, '--protocol', 'natnet', '--natnet-port', str(server.port_of('natnet')),
            server=networks.office[1], timeout=1.0)
    assert result.level('data') == 'FAIL'
    assert f'server: {networks.lab[1]}' in result.advice('data')


def test_a_data_port_held_by_another_program_is_named(networks):
    with motive(networks, networks.lab[1]) as server, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(('0.0.0.0', 1511))
        with joined(server, networks.lab[1]) as (sink, _):
            sink.wait_for('cannot join 239.255.42.99 port 1511')
            assert sink.said('which uses the port and does not share it')


def test_multicast_of_other_hosts_is_refused(networks):
    with motive(networks, networks.lab[1]) as server:
        with joined(server, networks.lab[1]) as (sink, client):
            sink.wait_for_bodies()
            with two_networks.inside(networks.motive):
                forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with forger:
                forger.bind((networks.other, 0))
                forger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                                  socket.inet_aton(networks.other))
                for _ in range(20):
                    forger.sendto(codec.encode_message(9), ('239.255.42.99', 1511))
            sink.wait(lambda: client.status().unexpected_peers == 20)
            assert client.status().refused == {networks.other: 'a datagram'}
            sink.wait_for_bodies()
            assert client.status().sessions == 1
