# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Gather what decides about the transport: routes and firewalls."""

import ipaddress
import json
import os
import shutil
import subprocess

from optitrack_vrpn.drivers.vrpn.request_memory_io import RequestMemory, time_text
from optitrack_vrpn.drivers.vrpn.transport import (
    choose_transport, closes_input, HostFacts, Request, TransportChoice)

#: Of the command that lists the rules of a firewall, in ms on an idle computer (s).
_COMMAND_S = 2.0
#: The bit of CAP_NET_ADMIN in the effective capabilities (linux/capability.h).
_NET_ADMIN = 1 << 12


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
    stored = memory.read()
    request = stored.request
    if request is Request.PENDING and not stored.left_s(pending_s, now_s):
        request = Request.NONE    # its result is not known; the server is free again
    own = address.startswith('127.') or address == local
    direct = find_route(address)
    return choose_transport(connection, HostFacts(
        own=own, direct=direct,
        wsl=is_wsl(), firewall='' if own else find_firewall(),
        request=request, since=time_text(stored.time_s)))


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
