# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Servers that describe or answer otherwise than expected, on real sockets."""

import socket
import struct

from natnet_kit import following, simulated
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.commands import Commands
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, MessageId)
from optitrack_vrpn.drivers.sockets_io import broadcast_addresses, local_address
import pytest
from relay_kit import Relay

UNKNOWN = struct.pack('<i', 9) + b'thing\0' + struct.pack('<2i', 1, 2)


def describing(version, change, *names):
    """Answer requests for definitions with a changed list of bodies."""
    packed = encode_definitions(Definitions(tuple(
        BodyDefinition(name, number) for number, name in enumerate(names, 1))), version)
    described = codec.encode_message(MessageId.MODEL_DEFINITIONS, change(packed[4:]))

    def rule(data, answer):
        if codec.decode_message(data)[0] != MessageId.REQUEST_MODEL_DEFINITIONS:
            return data
        answer(described)
        return None
    return rule


@pytest.mark.network
@pytest.mark.parametrize('version', [(3, 1), (4, 0)])
def test_an_unknown_description_does_not_silence_the_bodies_before_it(version):
    def change(payload):
        return struct.pack('<i', 3) + payload[4:] + UNKNOWN

    with simulated(2, natnet={'version': '{}.{}'.format(*version)}) as server, \
            Relay(server.port, describing(version, change, 'alpha', 'beta')) as relay, \
            following(relay.port) as (sink, client):
        sink.wait(lambda: client.status().known.unread_types == (9,))
        sink.wait(lambda: {'alpha', 'beta'} <= {body.name for body in sink.bodies})


@pytest.mark.network
def test_names_that_are_not_utf_8_stay_different():
    def change(payload):
        return payload.replace(b'AAAA', b'\xb1\xe3\xcc\xa8').replace(b'BBBB', b'\xc9\xe3\xcf\xf1')

    with simulated(2) as server, Relay(server.port, describing(
            (4, 1), change, 'AAAA', 'BBBB')) as relay, following(relay.port) as (sink, _):
        sink.wait(lambda: len({body.name for body in sink.bodies}) == 2)
        assert r'\xc9\xe3\xcf\xf1' in {body.name for body in sink.bodies}


@pytest.mark.network
@pytest.mark.parametrize('bitstream', ['4.5', '4.4'])
def test_natnet_4_5_is_accepted(bitstream):
    with simulated(['alpha'], natnet={'version': '4.5'}) as server, \
            following(server, natnet={'bitstream': bitstream}) as (sink, _):
        sink.wait_for_bodies()
        assert not sink.said('newer')


@pytest.mark.network
def test_a_simulator_that_is_bound_to_one_address_answers_a_broadcast():
    address = local_address('192.0.2.1', 1, '') if broadcast_addresses() else ''
    if not address or not broadcast_addresses(address):
        pytest.skip('no network card with broadcasts')
    with simulated(1, server={'port': 0, 'host': address}) as server, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.settimeout(2.0)
        sock.sendto(codec.encode_hello('test', (4, 1), discovery=True), (
            broadcast_addresses(address)[0], server.port))
        data, (source, _) = sock.recvfrom(65536)
        assert codec.decode_message(data)[0] == MessageId.SERVER_INFO and source == address


@pytest.mark.network
@pytest.mark.parametrize('plates, samples', [(0, 0), (1, 10)])
def test_the_simulator_states_its_analog_samples(plates, samples):
    with simulated(1, natnet={'plates': plates}) as server, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2.0)
        sock.sendto(codec.encode_request('AnalogSamplesPerMocapFrame'),
                    ('127.0.0.1', server.port_of('natnet')))
        assert codec.response_int(codec.decode_message(sock.recv(65536))[1]) == samples


def test_answers_that_come_1_2_s_late_belong_to_no_other_question():
    second, names = 10**9, ['FrameRate', 'UnitsToMillimeters', 'UpAxis']
    commands = Commands()
    for name in names:
        commands.request(name)
    answers, found = [], []
    for step in range(1_200):
        now = step * second // 50
        assert not commands.give_up(now)
        if (request := commands.due(now)) is not None:
            answers.append((now + 12 * second // 10, codec.decode_request(
                codec.decode_message(request)[1])))
        while answers and answers[0][0] <= now:
            _, asked = answers.pop(0)
            command = commands.answered(now)
            assert command in (None, asked)
            found += [command] if command else []
    assert found == names
