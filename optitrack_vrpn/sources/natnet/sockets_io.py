# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets of a NatNet client: commands, multicast data, search for servers; read one datagram."""

import errno
import select
import socket
import struct
from typing import NamedTuple

from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.sources.addresses_io import broadcast_addresses, local_address
from optitrack_vrpn.sources.natnet import codec
from optitrack_vrpn.sources.natnet.constants import NEWEST, SERVER_INFO
from optitrack_vrpn.sources.natnet.messages import ServerInfo
from optitrack_vrpn.sources.sockets_io import (
    ANCILLARY_SIZE, ask_for_stamps, datagram_socket, kernel_time_ns, RECEIVE_BUFFER)
from optitrack_vrpn.sources.vrpn.handshake_io import Waiting
from optitrack_vrpn.units import NS_PER_S

#: Linux option: whether a socket receives data of groups that only other sockets joined.
_IP_MULTICAST_ALL = 49
#: Chosen: maximum number of servers in one search, as a limit for floods of forged answers.
MOST_SERVERS = 32
#: Chosen: duration of a search and period of its requests (s). Servers answer within milliseconds.
_SEARCH_S = 1.0
_SEARCH_AGAIN_S = 0.4


def command_socket(local: str) -> socket.socket:
    """
    Open the socket for commands and unicast data.

    :raises TransportError: if the address is not available.
    """
    sock = datagram_socket(local)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    ask_for_stamps(sock)
    return sock


def multicast_socket(group: str, port: int, local: str) -> socket.socket:
    """
    Open a socket for multicast data on one network card; several programs can share the port.

    :param local: address of the card that joins the group.
    :raises TransportError: if another program has the port without sharing, or the card cannot
        join.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        try:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        except OSError:
            pass    # not Linux; source addresses are compared anyway
        sock.bind((group, port))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack(
            '4s4s', socket.inet_aton(group), socket.inet_aton(local)))
    except OSError as error:
        sock.close()
        hint = ('another program uses that port and does not share it'
                if error.errno == errno.EADDRINUSE else
                'set interface to the network card that reaches the Motive PC')
        raise TransportError(
            f'cannot join {group} port {port} on {local} ({error.strerror}): {hint}') from None
    ask_for_stamps(sock)
    return sock


class Arrival(NamedTuple):
    """A received datagram: size in the buffer, kernel time (ns, system time), source."""

    size: int
    kernel_ns: 'int | None'
    address: tuple[str, int]


def receive_into(sock: socket.socket, buffer: memoryview) -> 'Arrival | None':
    """Read a datagram; return None if none is waiting."""
    try:
        size, ancillary, _, address = sock.recvmsg_into([buffer], ANCILLARY_SIZE)
    except (BlockingIOError, InterruptedError):
        return None
    except ConnectionError:
        return None    # ICMP error for an earlier datagram: nothing listens at its destination
    return Arrival(size, kernel_time_ns(ancillary), (address[0], address[1]))


def send_discovery(sock: socket.socket, port: int, name: str, local: str = '') -> None:
    """
    Send a discovery to all servers that this machine can reach, including its own.

    :param local: address of the only network card to search; '' for all.
    :raises TransportError: if nothing could be sent.
    """
    datagram = codec.encode_hello(name, NEWEST, discovery=True)
    failure = None
    sent = 0
    for address in (*broadcast_addresses(local), '255.255.255.255', '127.0.0.1'):
        try:
            sock.sendto(datagram, (address, port))
            sent += 1
        except OSError as error:
            failure = error
    if not sent:
        raise TransportError(f'cannot search for Motive ({failure}): is a network card up?')


def discovered(
    datagram: bytes, address: tuple[str, int], found: dict[str, ServerInfo],
) -> None:
    """Store the answer of a server under its address."""
    try:
        message_id, payload = codec.decode_message(datagram)
        if message_id == SERVER_INFO and len(found) < MOST_SERVERS:
            found[address[0]] = codec.decode_server_info(payload)
    except RemoteProtocolError:
        pass    # another service uses that port


def find_server(waiting: Waiting, port: int, interface: str) -> str:
    """
    Search the networks of this computer for the one NatNet server.

    :param port: its command port.
    :param interface: network card to search; '' for all.
    :returns: its address.
    :raises TransportError: if none or several answered, or the card cannot be used.
    """
    found: dict[str, ServerInfo] = {}
    local = local_address('127.0.0.1', port, interface) if interface else ''
    buffer = memoryview(bytearray(65536))
    with command_socket(local or '0.0.0.0') as sock:
        now_ns = waiting.now_ns()
        end_ns = now_ns + int(_SEARCH_S * NS_PER_S)
        again_ns = now_ns
        while now_ns < end_ns:
            if now_ns >= again_ns:
                send_discovery(sock, port, 'optitrack_vrpn', local)
                again_ns = now_ns + int(_SEARCH_AGAIN_S * NS_PER_S)
            waiting.wait(min(end_ns, again_ns), (sock, select.POLLIN))
            while (arrival := receive_into(sock, buffer)) is not None:
                discovered(bytes(buffer[:arrival.size]), arrival.address, found)
                if waiting.now_ns() >= end_ns:
                    break    # a flood of answers must not prolong the search
            now_ns = waiting.now_ns()
    return choose_server(found)


def choose_server(found: dict[str, ServerInfo]) -> str:
    """
    Return the address of the one server that answered.

    :raises TransportError: if none or several answered.
    """
    # A server on this machine answers from both addresses.
    others = [address for address in found if not address.startswith('127.')]
    addresses = others or list(found)
    if len(addresses) == 1:
        return addresses[0]
    if not addresses:
        raise TransportError(
            'no Motive answered a NatNet discovery: is NatNet streaming on in Motive, does a '
            'firewall block UDP port 1510, is the network card (interface) correct? Or set server '
            'to the address of the Motive PC')
    listed = ', '.join(f'{address} ({found[address].name!r})' for address in addresses[:8])
    raise TransportError(
        f'{len(addresses)} servers answered a NatNet discovery: {listed}; set server to one of '
        'them, or interface to the network card of one')
