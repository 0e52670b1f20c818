# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets of a client, the host's addresses and names, and a waker for a waiting thread."""

import contextlib
import errno
import fcntl
import ipaddress
import os
from pathlib import Path
import select
import socket
import struct
import sys
import termios
import threading
from typing import ClassVar, Final, Optional

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.config import is_ipv4

#: ioctl numbers that read the address and the netmask of a network interface (linux/sockios.h).
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891b
#: Linux option: whether a socket receives data of groups that only other sockets joined.
_IP_MULTICAST_ALL = 49
#: Linux: nanosecond receive time stamps of datagrams and streams. Number of the option and of its
#: control message (asm-generic/socket.h), for Python versions whose socket module lacks it.
SO_TIMESTAMPNS: Final[int] = getattr(socket, 'SO_TIMESTAMPNS', 35)
_SOL_SOCKET: Final[int] = socket.SOL_SOCKET
_TIMESPEC = struct.Struct('@qq')
_UNPACK_TIMESPEC: Final = _TIMESPEC.unpack_from
#: Linux: memory use of a socket's queues (asm-generic/socket.h, linux/sock_diag.h).
_SO_MEMINFO = 55
_MEMINFO = struct.Struct('@9I')
_INT = struct.Struct('@i')
#: Chosen: receive buffer (bytes), which the kernel limits to net.core.rmem_max.
RECEIVE_BUFFER = 4 << 20
#: Chosen: detects a server that disappeared without closing the connection after 10 + 4 * 3 s. The
#: watchdog usually reacts earlier but can be disabled.
_KEEPALIVE = {'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 3, 'TCP_KEEPCNT': 4}
#: Chosen: a kernel stamp older than this belongs to a clock that stepped (ns).
_LONGEST_QUEUE_NS: Final = 60 * NS_PER_S
#: Size of the ancillary data of a read: one time stamp.
ANCILLARY_SIZE: Final = socket.CMSG_SPACE(_TIMESPEC.size)


def ask_for_stamps(sock: socket.socket) -> None:
    """Enable receive time stamps of the kernel where supported."""
    # The option's number has another meaning on other systems.
    if sys.platform.startswith('linux'):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def datagram_socket(local: str) -> socket.socket:
    """
    Open a UDP socket on one local address and a port that the system chooses.

    :raises TransportError: if the address is not available.
    """
    return _bound_socket(local, socket.SOCK_DGRAM, socket.SO_RCVBUF, RECEIVE_BUFFER)


def listening_socket(local: str) -> socket.socket:
    """
    Open a TCP socket that listens for the connect-back of one server; likewise.

    :raises TransportError: if the address is not available.
    """
    return _bound_socket(local, socket.SOCK_STREAM, socket.SO_REUSEADDR, 1)


def _bound_socket(local: str, kind: int, option: int, value: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, option, value)
        sock.bind((local, 0))
        if kind == socket.SOCK_STREAM:
            sock.listen(4)
    except OSError as error:
        sock.close()
        hint = ('check whether the address of the network interface has changed'
                if error.errno == errno.EADDRNOTAVAIL else 'the operating system refuses')
        raise TransportError(f'cannot listen on {local} ({error.strerror}): {hint}') from error
    return sock


def unread(sock: socket.socket, stream: bool) -> Optional[tuple[int, int]]:
    """
    Read the length of the queue of a socket.

    :param stream: whether it is a TCP socket. FIONREAD would report the next datagram only.
    :returns: unread bytes of a stream, or the kernel memory used by unread datagrams (bytes;
        several times their payload), and the number of datagrams dropped because the buffer was
        full. None if the system does not report them.
    """
    try:
        if stream:
            answer = fcntl.ioctl(sock, termios.FIONREAD, bytes(_INT.size))
            return int(_INT.unpack(answer)[0]), 0
        if sys.platform.startswith('linux'):    # the option has another meaning on other systems
            answer = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            figures = _MEMINFO.unpack(answer)
            return int(figures[0]), int(figures[8])
    except (OSError, ValueError, struct.error):    # ValueError: the socket was closed
        pass
    return None


def arrival_time_ns(
    ancillary: list[tuple[int, int, bytes]], host_minus_arrival_ns: int, now_ns: int,
) -> int:
    """
    Find when a datagram arrived, on the arrival clock.

    :param ancillary: ancillary data of ``recvmsg``, with the kernel's receive time if it is
        supported.
    :param host_minus_arrival_ns: system time minus arrival clock (ns).
    :returns: arrival time (ns); the present time if the kernel's is absent or implausible.
    """
    seconds: int    # declared for mypyc, like the next one
    nanoseconds: int
    for level, kind, data in ancillary:
        if level == _SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = _UNPACK_TIMESPEC(data)
            arrival_ns = seconds * NS_PER_S + nanoseconds - host_minus_arrival_ns
            if 0 <= now_ns - arrival_ns < _LONGEST_QUEUE_NS:
                return arrival_ns
    return now_ns


def prepare_stream(sock: socket.socket) -> None:
    """Set the options of a connected TCP socket: no Nagle delay, keepalive probes."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reset_on_close(sock: socket.socket) -> None:
    """
    Close a connection that the server has ended by a reset.

    Otherwise the server's side stays in TIME_WAIT for a minute, in which a VRPN server on Linux
    that is started again cannot bind its port, because the library does not set SO_REUSEADDR.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


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
        hint = (f'end {program_on_udp_port(port) or "the other program"}, which uses the port and '
                f'does not share it (sudo ss -ulnp sport = :{port} shows it), or receive by '
                'unicast'
                if error.errno == errno.EADDRINUSE else
                'set interface to the network card that reaches the Motive PC')
        raise TransportError(
            f'cannot join {group} port {port} on {local} ({error.strerror}): {hint}') from None
    return sock


def program_on_udp_port(port: int, proc: str = '/proc') -> str:
    """
    Name the program that has a UDP port; '' if none is found or it is another user's.

    :param proc: the process file system, see proc(5).
    """
    inodes = set()
    for table in ('udp', 'udp6'):
        with contextlib.suppress(OSError):
            rows = [line.split() for line in
                    (Path(proc, 'net', table)).read_text().splitlines()[1:]]
            inodes |= {f'socket:[{row[9]}]' for row in rows
                       if int(row[1].rpartition(':')[2], 16) == port}
    with contextlib.suppress(OSError):    # a process ended during the search
        for link in Path(proc).glob('[0-9]*/fd/*') if inodes else ():
            with contextlib.suppress(OSError):    # it has ended, or it is another user's
                if os.readlink(link) in inodes:
                    name = (link.parents[1] / 'comm').read_text(errors='replace').strip()
                    return f'{name} (process {link.parents[1].name})'
    return ''


def receive_into(sock: socket.socket, buffer: memoryview) -> Optional[tuple[int, str]]:
    """Read a datagram; return its size and its sender's address, None if none is waiting."""
    try:
        size, address = sock.recvfrom_into(buffer)
    except (BlockingIOError, InterruptedError):
        return None
    except ConnectionError:
        return None    # ICMP error for an earlier datagram: nothing listens at its destination
    return size, address[0]


class Waker:
    """Wake a thread that waits in ``poll``, from any other thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the current or the next wait immediately."""
        try:
            self._writer.send(b'\0')
        except OSError:
            pass  # full: a wake is pending; closed: no thread waits

    def wait(self, timeout_s: float, *others: tuple[socket.socket, int]) -> dict[int, int]:
        """
        Wait until a socket is ready, ``wake`` is called or the timeout has passed.

        :param others: sockets with the poll events to wait for.
        :returns: poll events of the ready sockets, by file descriptor.
        """
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        for sock, events in others:
            poll.register(sock, events)
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000.0))
        if ready.pop(self._reader.fileno(), 0):
            self.drain()
        return ready

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable on a wake."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Discard pending wakes."""
        try:
            while self._reader.recv(64):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()


class Lookup:
    """
    One name resolution in a separate thread, because the system call cannot be interrupted.

    Lookups of the same name are one: the number of threads stays bounded when the resolver hangs
    and the client is started and stopped repeatedly. The caller polls every ``CHECK_NS``.

    :ivar finished: whether ``address`` can be called.
    """

    #: Chosen: much less than a name server takes.
    CHECK_NS: ClassVar[int] = 5 * NS_PER_MS
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _running: ClassVar[dict[str, 'Lookup']] = {}

    def __init__(self, host: str) -> None:
        self.host = host
        self.finished = is_ipv4(host)
        self._addresses = [host]
        self._error = ''

    @classmethod
    def of(cls, host: str) -> 'Lookup':
        """Return the running lookup of a name or address, or begin one."""
        with cls._lock:
            lookup = cls._running.get(host) or cls(host)
            if not lookup.finished and host not in cls._running:
                cls._running[host] = lookup
                threading.Thread(target=lookup._run, name='vrpn lookup', daemon=True).start()
        return lookup

    def _run(self) -> None:
        found: list[str] = []
        try:
            entries = socket.getaddrinfo(self.host, None, socket.AF_INET, socket.SOCK_STREAM)
            found = [str(entry[4][0]) for entry in entries]
        except OSError as error:
            self._error = f' ({error.strerror or error})'
        except Exception:    # UnicodeError
            self._error = ' (it is not a valid host name)'
        self._addresses = list(dict.fromkeys(found))
        with self._lock:
            del self._running[self.host]
        self.finished = True

    def address(self, turn: int = 0) -> str:
        """
        Return one address of the result.

        :param turn: number of the attempt. Successive attempts use successive addresses of a
            computer that has several network interfaces.
        :returns: an IPv4 address.
        :raises TransportError: if the name has no IPv4 address.
        """
        if not self._addresses:
            raise TransportError(
                f'the name {self.host!r} has no IPv4 address{self._error}: check server, or give '
                'the IP address of the Motive PC')
        return self._addresses[turn % len(self._addresses)]


def local_address(server: str, port: int, interface: str) -> str:
    """
    Choose the local address for the communication with a server.

    :param server: its IPv4 address.
    :param interface: an IPv4 address of this computer, the name of a network interface, or ''
        for the address that the system's route to the server uses.
    :raises TransportError: if there is no route, no such interface or no such address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface:
            address = interface if is_ipv4(interface) else card_address(interface)
            try:
                probe.bind((address, 0))
            except OSError as error:
                raise TransportError(
                    f'interface {interface!r}: {address} is not an address of this computer '
                    f'({error.strerror})') from None
            return address
        try:
            probe.connect((server, port))
        except PermissionError:
            raise TransportError(
                f'{server} is a broadcast address, or a routing rule of this computer prohibits '
                'it: set server to the address of the Motive PC, or look at ip rule') from None
        except OSError as error:
            raise TransportError(
                f'no route to {server} ({error.strerror}): check that the network interface is '
                "up and in the server's network") from None
        return str(probe.getsockname()[0])


def wrong_interface(server: str, port: int, interface: str) -> str:
    """
    Return that the route to a server leaves from another card than the one that is set, or ''.

    :param server: its IPv4 address.
    :param interface: the setting, '' for none.
    """
    if not interface:
        return ''
    try:
        used = local_address(server, port, interface)
        routed = local_address(server, port, '')
    except TransportError:
        return ''
    return '' if used == routed else (
        f'interface is {interface}, but the route to {server} leaves from {routed}: set interface '
        f'to {routed}, or remove it')


def broadcast_addresses(local: str = '') -> list[str]:
    """
    List the broadcast addresses of this computer's networks.

    The limited broadcast address reaches only the network of the system's default route.

    :param local: IPv4 address of the only network interface to list; '' for all.
    """
    found = []
    for _, name in socket.if_nameindex():
        try:
            address = _card_value(name, _SIOCGIFADDR)
            network = ipaddress.IPv4Interface(
                f'{address}/{_card_value(name, _SIOCGIFNETMASK)}').network
        except OSError:
            continue    # an interface without an IPv4 address
        if local in ('', address) and network.prefixlen < 31 and not network.is_loopback:
            found.append(str(network.broadcast_address))
    return list(dict.fromkeys(found))


def card_address(name: str) -> str:
    """
    Return the IPv4 address of a network interface.

    :raises TransportError: if there is no such interface, or if it has no IPv4 address.
    """
    try:
        return _card_value(name, _SIOCGIFADDR)
    except OSError as error:
        cards = ', '.join(card for _, card in socket.if_nameindex())
        raise TransportError(
            f'{name!r} is not a network interface with an IPv4 address ({error}): '
            f'set interface to one of {cards}') from None


def card_of(address: str) -> str:
    """Return the network card that has an address; '' if none is found."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(TransportError):
            if card_address(name) == address:
                return name
    return ''


def is_unused(address: str, table: str = '/proc/net/arp') -> bool:
    """
    Return whether ARP requests for an IPv4 address in the local network have no answer.

    :param table: the neighbour table of Linux: the third column is 0x0 before an answer.
    """
    try:
        rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    except OSError:
        return False
    flags = [row[2] for row in rows if len(row) > 2 and row[0] == address]
    return bool(flags) and set(flags) == {'0x0'}


def _card_value(name: str, request: int) -> str:
    """Read an address of a network interface from the system."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(
            probe.fileno(), request, struct.pack('256s', os.fsencode(name)[:15]))
    return socket.inet_ntoa(answer[20:24])
