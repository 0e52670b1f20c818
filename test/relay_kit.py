# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What stands between clients and a server, and impairs the network: the relay of tests and benches.

``Relay`` (datagrams) and ``VrpnRelay`` are programs on this machine. ``PacketRelay`` relays the IP
packets of another network namespace, so that TCP repeats what is lost; it needs root. All use the
impairments of the simulated Motive.
"""

import contextlib
import fcntl
import itertools
import os
import select
import socket
import struct
import subprocess
import threading
import time

from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.scenario_io import Network
from server_kit import drain, pair_of_sockets, REQUEST
from two_networks import inside

_UDP_DESCRIPTION = -3
_TUNSETIFF = 0x400454CA    # linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_COUNT = itertools.count()


def impairments(**network):
    """Make the impairments of one link, which are those of the simulated Motive."""
    return ImpairedLink(Network(**network), 1, 1, lambda now_ns: now_ns / 1e9)


class Background:
    """Call ``turn`` again and again in a thread, from the entry of a ``with`` block to its end."""

    def __init__(self):
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping = True
        self._thread.join()
        self.close()

    def _run(self):
        while not self._stopping:
            self.turn()

    def turn(self):
        """Do one step, of some 0.1 s at most."""
        raise NotImplementedError

    def close(self):
        """Close the sockets, after the last turn."""
        raise NotImplementedError


class Between(Background):
    """
    Stand between clients and a server; lose datagrams, or hold them up.

    :ivar link: the impairments of datagrams.
    :ivar holding: whether datagrams to clients are held up.
    :ivar held: what ``deliver`` gets when the datagrams are released.
    """

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.link = impairments()
        self.hole_open = self.holding = False
        self.held = []

    def hole(self, open_):
        """Lose all datagrams; or end that."""
        with self.lock:
            self.hole_open = open_
            self.link.set_network(Network(loss=float(open_)))

    def hold(self, on):
        """Hold datagrams up; or release them in one burst, every 30th ahead of the one before."""
        with self.lock:
            self.holding = on
            held, self.held = self.held, []
            for at in range(29, len(held), 30):
                held[at - 1], held[at] = held[at], held[at - 1]
            for at, each in enumerate(held):
                self.deliver(*each)
                # A tenth of the time in which they were sent: more does not fit into a socket.
                time.sleep(0.001 if at % 10 else 0.002)

    def deliver(self, *each):
        """Send a datagram that was held up."""
        raise NotImplementedError


class Relay(Between):
    """
    Pass datagrams between NatNet clients and a server, by unicast.

    :param server_port: the command port of the server.
    :param rule: called with each datagram of a client; returns what the server gets, or None for
        nothing, and optionally answers the client itself with its second argument.
    :ivar port: the command port that clients find.
    """

    def __init__(self, server_port, rule=lambda data, answer: data):
        super().__init__()
        self._server = ('127.0.0.1', server_port)
        self._rule = rule
        self._front = self._socket()
        self.port = self._front.getsockname()[1]
        self._backs = {}

    @staticmethod
    def _socket():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(('127.0.0.1', 0))
        sock.setblocking(False)
        return sock

    @property
    def clients(self):
        """Return the addresses of the clients."""
        return list(self._backs)

    def close(self):
        """Close all sockets."""
        for sock in (self._front, *self._backs.values()):
            sock.close()

    def half_open(self):
        """Let the server lose every client: what a client sends comes from an unknown port."""
        with self.lock:
            for address, sock in self._backs.items():
                sock.close()
                self._backs[address] = self._socket()

    def deliver(self, data, client):
        """Send a datagram to a client."""
        self._front.sendto(data, client)

    def turn(self):
        """Pass on what has arrived."""
        with self.lock:
            owners = {sock: address for address, sock in self._backs.items()}
            ready, _, _ = select.select([self._front, *owners], [], [], 0.01)
            for sock in ready:
                with contextlib.suppress(OSError):
                    self._pass_on(sock, owners.get(sock))
        time.sleep(0)

    def _pass_on(self, sock, client):
        data, address = sock.recvfrom(65536)
        if not self.link.datagram(time.monotonic_ns()):
            return
        if client is None:
            if address not in self._backs:
                self._backs[address] = self._socket()
            passed = self._rule(data, lambda answer: self._front.sendto(answer, address))
            if passed is not None:
                self._backs[address].sendto(passed, self._server)
        elif self.holding:
            self.held.append((data, client))
        else:
            self.deliver(data, client)


class Pair:
    """
    One client's conversation with the server, by way of the relay.

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


class VrpnRelay(Between):
    """
    Pass the connections of VRPN clients on, by TCP and UDP.

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
        """Ask the server as the client asked the relay."""
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


class PacketRelay(Background):
    """
    A network namespace for the server or a client, and a link to it that loses packets.

    Two TUN devices are joined by a thread, which adds some 0.1 ms. No netem module is needed.

    :param loss: share of the packets that are lost, in both directions.
    :ivar link: the impairments; only losses are used.
    :ivar name: name of the namespace.
    :ivar server, client: the addresses in the namespace and here.
    :ivar prefix: the words before a command that is to run in the namespace.
    """

    def __init__(self, loss=0.0):
        super().__init__()
        number = os.getpid() % 250 + 1
        self._net = f'10.{214 + next(_COUNT) % 16}.{number}'
        self.link = impairments(loss=loss)
        self.server, self.client = f'{self._net}.2', f'{self._net}.1'
        self.name = f'relay{number}'
        self._cards = f'tuna{number}', f'tunb{number}'
        self.prefix = ['ip', 'netns', 'exec', self.name]
        self._fds = []

    def __enter__(self):
        try:
            self._ip(f'netns add {self.name}')
            self._fds.append(self._tun(self._cards[0]))
            with inside(self.name):
                self._fds.append(self._tun(self._cards[1]))
            for address, card, place in ((self.client, self._cards[0], []),
                                         (self.server, self._cards[1], ['-n', self.name])):
                self._ip(f'addr add {address}/24 dev {card}', place)
                self._ip(f'link set {card} up', place)
            self._ip('link set lo up', ['-n', self.name])
        except BaseException:
            self.close()
            raise
        return super().__enter__()

    def close(self):
        """Remove the devices and the namespace."""
        for fd in self._fds:
            os.close(fd)
        with contextlib.suppress(subprocess.SubprocessError):
            self._ip(f'netns del {self.name}')

    def hole(self, open_):
        """Lose every packet; or end that."""
        self.link.set_network(Network(loss=float(open_)))

    def change_client_address(self):
        """Change the address of this end, as a new lease does."""
        old, self.client = self.client, f'{self._net}.3'
        self._ip(f'addr del {old}/24 dev {self._cards[0]}')
        self._ip(f'addr add {self.client}/24 dev {self._cards[0]}')

    def turn(self):
        """Pass on the packets that wait."""
        ready, _, _ = select.select(self._fds, [], [], 0.1)
        for fd in ready:
            with contextlib.suppress(OSError):    # read empty, or the other end is full
                while True:
                    packet = os.read(fd, 2048)
                    if self.link.datagram(time.monotonic_ns()):
                        os.write(self._fds[fd == self._fds[0]], packet)

    @staticmethod
    def _tun(name):
        """Make a TUN device in the present namespace; return its file descriptor."""
        fd = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack('16sH22x', name.encode(), _IFF_TUN | _IFF_NO_PI))
        return fd

    @staticmethod
    def _ip(command, inside=()):
        subprocess.run(['ip', *inside, *command.split()], check=True, capture_output=True)


def packet_relay_allowed():
    """Return whether this process may make a packet relay."""
    if os.geteuid():
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError), PacketRelay():
        return True
    return False
