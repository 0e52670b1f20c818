# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find processes of this machine that run the node, in case the ROS graph does not show them."""

from __future__ import annotations

import os
from pathlib import Path
import pwd

from optitrack_vrpn.doctor.results import discovery_variables, LocalProcess

_NODE = b'optitrack_vrpn_node'
#: Chosen: limit of the listed processes, above any use.
_MOST = 20


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
            '' if own else _user(owner)))
    return tuple(found[:_MOST])


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _variables(folder: Path) -> dict[str, str] | None:
    try:
        lines = (folder / 'environ').read_text(errors='replace').split('\0')
    except OSError:
        return None
    return discovery_variables(dict(line.split('=', 1) for line in lines if '=' in line))
