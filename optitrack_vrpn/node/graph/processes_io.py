# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find the processes of this computer that run the node, and dead Discovery Servers."""

import os
from pathlib import Path
import pwd
import re
import socket

from optitrack_vrpn.node.graph.processes import discovery_variables, LocalProcess

_NODE = b'optitrack_vrpn_node'


def local_nodes(proc: str = '/proc') -> tuple[LocalProcess, ...]:
    """
    List the processes of this machine that run the node, in the order of their ids.

    Processes of other users show their command line but not their environment.

    :param proc: the process file system, see proc(5).
    """
    found = []
    folders = [path for path in Path(proc).glob('[0-9]*') if path.name.isdigit()]
    for folder in sorted(folders, key=lambda path: int(path.name)):
        try:
            words = (folder / 'cmdline').read_bytes().split(b'\0')
            if not any(word.rsplit(b'/', 1)[-1] == _NODE for word in words[:4]):
                continue
            # The name in parentheses can contain spaces; the state follows it.
            state = (folder / 'stat').read_text(errors='replace').rpartition(')')[2].split()[0]
            owner = folder.stat().st_uid
        except (OSError, IndexError):
            continue    # the process has ended
        own = owner == os.getuid()
        found.append(LocalProcess(
            int(folder.name), state in 'Tt', _variables(folder) if own else None,
            '' if own else _user(owner), own and _apart(folder)))
    # Chosen: limit of the listed processes, above any use.
    return tuple(found[:20])


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _apart(folder: Path) -> bool:
    """Return whether a process has another /dev/shm than this one."""
    try:
        its, own = (folder / 'root' / 'dev' / 'shm').stat(), os.stat('/dev/shm')
    except OSError:
        return False    # unknown
    return (its.st_dev, its.st_ino) != (own.st_dev, own.st_ino)


def _variables(folder: Path) -> dict[str, str] | None:
    try:
        lines = (folder / 'environ').read_text(errors='replace').split('\0')
    except OSError:
        return None
    return discovery_variables(dict(line.split('=', 1) for line in lines if '=' in line))


#: Default port of a Discovery Server (Fast DDS documentation).
_SERVER_PORT = 11811
#: Chosen: time (s) in which the refusal of a datagram returns, and how many are sent.
_REFUSAL_S, _SENT = 0.2, 3


def dead_servers(servers: str) -> tuple[str, ...]:
    """
    List the Discovery Servers on whose port nothing listens.

    A computer answers a datagram to a closed port with an ICMP error; a server, or a firewall,
    does not answer. Servers that are not given as an IPv4 address are not asked.

    :param servers: as in ROS_DISCOVERY_SERVER: ADDRESS:PORT, separated by semicolons.
    """
    found = []
    for one in filter(None, servers.split(';')):
        match = re.fullmatch(r'(\d+\.\d+\.\d+\.\d+)(?::(\d{1,5}))?', one.strip())
        if match and _refuses(match[1], int(match[2] or _SERVER_PORT)):
            found.append(one.strip())
    return tuple(found)


def _refuses(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_REFUSAL_S)
        try:
            sock.connect((address, port))
            for _ in range(_SENT):
                sock.send(b'\0')
                try:
                    sock.recv(1)
                except TimeoutError:
                    return False
        except ConnectionRefusedError:
            return True
        except (OSError, OverflowError):
            pass
    return False
