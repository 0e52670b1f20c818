# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Gather what decides about the transport: routes, firewalls, remembered UDP requests."""

import datetime
import ipaddress
import json
import os
from pathlib import Path
import shutil
import subprocess
import threading

from optitrack_vrpn.core.state_io import state_folder
from optitrack_vrpn.drivers.vrpn.transport import (
    choose_transport, closes_input, describe_request, HostFacts, Request, TransportChoice)

#: Of the command that lists the rules of a firewall, in ms on an idle computer (s).
_COMMAND_S = 2.0
#: The bit of CAP_NET_ADMIN in the effective capabilities (linux/capability.h).
_NET_ADMIN = 1 << 12


class RequestMemory:
    """
    The UDP request that one host sent to one server, in a file beyond the life of the process.

    It is written before the request is sent, so that a client that ends in between counts as well.
    Where the file cannot be written, all clients of this process share the entry.

    :param local, server: IPv4 addresses of the two hosts.
    :param port: port of the server; a request without a known answer concerns that port only.
    """

    _lock = threading.Lock()
    _unsaved: dict[Path, tuple[Request, float]] = {}

    def __init__(self, local: str, server: str, port: int = 0) -> None:
        self._port = port
        self.path = state_folder() / f'udp_request_{local}_{server}.json'

    def read(self) -> tuple[Request, float]:
        """
        Return the state of the last request and its time (system time, s).

        An entry that cannot be understood counts as unanswered: the safe side.
        """
        try:
            entry = json.loads(self.path.read_text())
            request, time_s = Request(entry['request']), float(entry['time'])
            if request is Request.PENDING and entry.get('port', 0) not in (0, self._port):
                return Request.NONE, 0.0
            return request, time_s
        except (FileNotFoundError, NotADirectoryError):
            with self._lock:
                return self._unsaved.get(self.path, (Request.NONE, 0.0))
        except (OSError, ValueError, KeyError, TypeError):
            return Request.UNANSWERED, 0.0

    def write(self, request: Request, time_s: float) -> str:
        """
        Replace the entry.

        :param time_s: time of the request (system time, s).
        :returns: why the file could not be written, or ''.
        """
        with self._lock:
            self._unsaved.pop(self.path, None)
            try:
                if request is Request.NONE:
                    self.path.unlink(missing_ok=True)
                    return ''
                self.path.parent.mkdir(parents=True, exist_ok=True)
                part = self.path.with_suffix(f'.{os.getpid()}.{threading.get_ident()}')
                part.write_text(json.dumps({
                    'request': request.value, 'time': time_s, 'port': self._port}) + '\n')
                part.replace(self.path)
            except OSError as error:
                self._unsaved[self.path] = (request, time_s)
                return f'{self.path} ({error.strerror})'
        return ''

    def describe(self) -> str:
        """Describe the entry for the user; '' if there is none."""
        request, time_s = self.read()
        return describe_request(request, _text(time_s), str(self.path))


def remembered_request(local: str, server: str) -> str:
    """Describe the UDP request that is remembered for a pair of hosts; '' if there is none."""
    return RequestMemory(local, server).describe()


def find_transport(
    connection: str, local: str, server: tuple[str, int], pending_s: float, now_s: float,
) -> TransportChoice:
    """
    Choose the transport between this host and a server.

    :param connection: 'auto', 'udp' or 'tcp'.
    :param local: IPv4 address of this host.
    :param server: IPv4 address and port of the server.
    :param pending_s: time for which a request may block the server (s).
    :param now_s: system time (s).
    """
    if connection != 'auto':
        return choose_transport(connection, HostFacts())
    address, port = server
    memory = RequestMemory(local, address, port)
    request, time_s = memory.read()
    if request is Request.PENDING and not 0.0 <= now_s - time_s < pending_s:
        request = Request.NONE    # nobody knows any more; the server is free again
    own = address.startswith('127.') or address == local
    direct = find_route(address)
    return choose_transport(connection, HostFacts(
        own=own, direct=direct,
        wsl=is_wsl(), firewall='' if own else find_firewall(),
        request=request, since=_text(time_s)))


def _text(time_s: float) -> str:
    """Format a system time for the user."""
    if not time_s:
        return 'an unknown time'
    return datetime.datetime.fromtimestamp(time_s).strftime('%Y-%m-%d %H:%M:%S')


def find_route(server: str, root: str = '/') -> bool:
    """
    Return whether a server is in a directly connected network, of whatever kind of card.

    Behind a NAT, such as that of a container's bridge, the route to a server has a gateway.

    :param root: root of the file system.
    """
    # The network of this thread, which need not be that of the process.
    rows = [line.split() for line in
            _read(root, 'proc/thread-self/net/route').splitlines()[1:]]
    address = int(ipaddress.IPv4Address(server))
    best = -1, 0    # mask, gateway
    for row in rows:
        if len(row) < 8:
            continue
        target, gateway, mask = (
            int.from_bytes(int(row[column], 16).to_bytes(4, 'little'), 'big')
            for column in (1, 2, 7))
        if address & mask == target and mask > best[0]:
            best = mask, gateway
    mask, gateway = best
    return mask >= 0 and not gateway


def is_wsl(root: str = '/') -> bool:
    """
    Return whether this is Linux inside Windows, whose firewall drops what connects to it.

    :param root: root of the file system.
    """
    return 'microsoft' in _read(root, 'proc/sys/kernel/osrelease').lower()


def find_firewall(root: str = '/') -> str:
    """
    Return the name of this host's active firewall, or '' if none was found.

    The rules of nftables can be read by root only. Otherwise a service that is active or enabled
    is the evidence; rules that were loaded by hand are not found.

    :param root: root of the file system.
    """
    lines = _read(root, 'etc/ufw/ufw.conf').lower().splitlines()
    if any(line.replace(' ', '') == 'enabled=yes' for line in lines):
        return 'ufw'
    for folder in ('sys/fs/cgroup', 'sys/fs/cgroup/systemd'):
        if os.path.isdir(os.path.join(root, folder, 'system.slice/firewalld.service')):
            return 'firewalld'
    rules = _read(root, 'etc/nftables.conf')
    enabled = any(os.path.lexists(os.path.join(
        root, f'etc/systemd/system/{target}.target.wants/nftables.service'))
        for target in ('sysinit', 'multi-user', 'basic'))
    if enabled and 'hook input' in rules and ('drop' in rules or 'reject' in rules):
        return 'nftables'
    saved = _read(root, 'etc/iptables/rules.v4') + _read(root, 'etc/sysconfig/iptables')
    if any(line in saved for line in (':INPUT DROP', '-A INPUT -j DROP', '-A INPUT -j REJECT')):
        return 'iptables'
    if root == '/':
        if closes_input(_ruleset()):
            return 'nftables'
        if any(line in _command('iptables', '-S', 'INPUT') for line in (
                '-P INPUT DROP', '-A INPUT -j DROP', '-A INPUT -j REJECT')):
            return 'iptables'
    return ''


def _ruleset() -> object:
    """Return the decoded ruleset of nftables; None if it cannot be read."""
    try:
        return json.loads(_command('nft', '-j', 'list', 'ruleset'))
    except ValueError:
        return None


def _command(name: str, *arguments: str) -> str:
    """Run a command that needs the right to administer the network; '' if it does not work."""
    capabilities = next((line for line in _read('/', 'proc/thread-self/status').splitlines()
                         if line.startswith('CapEff:')), 'CapEff: 0')
    path = shutil.which(name, path='/usr/sbin:/sbin:/usr/bin:/bin')
    if path is None or not int(capabilities.split()[1], 16) & _NET_ADMIN:
        return ''
    try:
        return subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_COMMAND_S,
            stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.SubprocessError):
        return ''


def _read(root: str, path: str) -> str:
    """Read a text file; '' if it cannot be read."""
    try:
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''
