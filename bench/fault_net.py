# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Networks with faults: a proxy on the loopback interface, and a network namespace if allowed."""

import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import time

from relay_kit import Between
from server_kit import drain, pair_of_sockets, REQUEST

_UDP_DESCRIPTION = -3


class Pair:
    """
    One client's conversation with the server, by way of the proxy.

    :ivar client, server: TCP sockets to either.
    :ivar relay: takes the server's datagrams in the client's place.
    :ivar client_port: where the client takes its datagrams; 0 until it has said so.
    """

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.relay = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.relay.bind(('127.0.0.1', 0))
        self.client_port = 0
        self._head = bytearray()

    def close(self):
        """Close all of it."""
        for sock in (self.client, self.server, self.relay):
            sock.close()

    def from_client(self, data):
        """Put the relay's port where the client describes its own; gives what to send on."""
        if self._head is None:
            return data
        self._head += data
        if len(self._head) < 48:
            return b''
        data, self._head = self._head, None
        port, kind = struct.unpack_from('>ii', data, 36)
        if kind == _UDP_DESCRIPTION:
            self.client_port = port
            struct.pack_into('>i', data, 36, self.relay.getsockname()[1])
        return bytes(data)


class Proxy(Between):
    """
    A proxy between clients and a server on this machine, for both kinds of connection.

    :param server_port: the server's port.
    :ivar port: the port for clients.
    """

    def __init__(self, server_port):
        super().__init__()
        self._server = ('127.0.0.1', server_port)
        self._listener, self._udp = pair_of_sockets()
        self.port = self._udp.getsockname()[1]
        self._pairs = []
        self._dead = []

    def close(self):
        """Close all sockets."""
        for pair in self._pairs + self._dead:
            pair.close()
        self._listener.close()
        self._udp.close()

    def deliver(self, pair, data):
        """Send a datagram to a client."""
        pair.relay.sendto(data, ('127.0.0.1', pair.client_port))

    def half_open(self):
        """Make the server lose every client, without notice to the clients."""
        with self.lock:
            for pair in self._pairs:
                pair.server.close()
                pair.relay.close()
            self._dead += self._pairs
            self._pairs = []

    def turn(self):
        """Pass on what has arrived; a hole drops datagrams and delays TCP, as packet loss does."""
        with self.lock:
            hole = self.hole_open
            if hole:
                for sock in (self._udp, *(pair.relay for pair in self._pairs)):
                    sock.setblocking(False)
                    drain(sock)
            else:
                self._pass_all_on()
        time.sleep(0.01 if hole else 0)

    def _pass_all_on(self):
        owners = {sock: pair for pair in self._pairs
                  for sock in (pair.client, pair.server, pair.relay)}
        ready, _, _ = select.select([self._listener, self._udp, *owners], [], [], 0.01)
        for sock in ready:
            if sock is self._listener:
                self._add(sock.accept()[0], socket.create_connection(self._server, 1.0))
            elif sock is self._udp:
                self._ask(sock.recvfrom(2048)[0])
            elif owners[sock] in self._pairs:
                try:
                    self._pass_on(owners[sock], sock)
                except OSError:
                    self._drop(owners[sock])

    def _ask(self, request):
        """Ask the server as the client asked the proxy."""
        match = REQUEST.fullmatch(request)
        if match is None:
            return
        with socket.create_server(('127.0.0.1', 0)) as back, contextlib.suppress(OSError):
            back.settimeout(0.5)
            self._udp.sendto(b'127.0.0.1 %d\0' % back.getsockname()[1], self._server)
            server = back.accept()[0]
            try:
                client = socket.create_connection((match[1].decode(), int(match[2])), 0.5)
            except OSError:
                server.close()
                raise
            self._add(client, server)

    def _add(self, client, server):
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(2.0)
        self._pairs.append(Pair(client, server))

    def _pass_on(self, pair, sock):
        data = sock.recv(65536)
        if sock is pair.relay:
            if pair.client_port and self.holding:
                self.held.append((pair, data))
            elif pair.client_port:
                self.deliver(pair, data)
        elif not data:
            self._drop(pair)
        elif sock is pair.client:
            pair.server.sendall(pair.from_client(data))
        else:
            pair.client.sendall(data)

    def _drop(self, pair):
        pair.close()
        self._pairs.remove(pair)


def namespaces_allowed():
    """Return whether this process may make network namespaces."""
    if os.geteuid() or not shutil.which('ip'):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError), Namespace():
        return True
    return False


class Namespace:
    """
    A network namespace for the server, joined to this one by a pair of virtual cards.

    :ivar name: its name for ``ip netns exec``.
    :ivar server, client: the addresses at either end.
    """

    def __init__(self):
        number = os.getpid() % 250 + 1
        self.name = f'motive{number}'
        self._here, self._there = f'lab{number}', f'mot{number}'
        self._net = f'10.213.{number}'
        self.server, self.client = f'{self._net}.2', f'{self._net}.1'

    def __enter__(self):
        try:
            self._ip(f'netns add {self.name}')
            self._ip(f'link add {self._here} type veth peer name {self._there} netns {self.name}')
            self._ip(f'addr add {self.client}/24 dev {self._here}')
            self._ip(f'link set {self._here} up')
            self._ip(f'addr add {self.server}/24 dev {self._there}', there=True)
            self._ip(f'link set {self._there} up', there=True)
            self._ip('link set lo up', there=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for command in (f'link del {self._here}', f'netns del {self.name}'):
            with contextlib.suppress(subprocess.SubprocessError):
                self._ip(command)

    @property
    def prefix(self):
        """Return the words before a command that is to run inside."""
        return ['ip', 'netns', 'exec', self.name]

    def hole(self, open_):
        """Drop every packet in both directions silently (unused link address); or end that."""
        nobody = 'lladdr 02:00:00:00:00:99 nud permanent'
        for other, card, there in ((self.server, self._here, False),
                                   (self.client, self._there, True)):
            self._ip(f'neigh replace {other} {nobody} dev {card}' if open_
                     else f'neigh del {other} dev {card}', there)

    def change_client_address(self):
        """Change the address of this end, as a new lease does."""
        old, self.client = self.client, f'{self._net}.3'
        self._ip(f'addr del {old}/24 dev {self._here}')
        self._ip(f'addr add {self.client}/24 dev {self._here}')

    def _ip(self, command, there=False):
        inside = ['-n', self.name] if there else []
        subprocess.run(['ip', *inside, *command.split()], check=True, capture_output=True)
