# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What Fast DDS keeps in shared memory, and what it leaves there if a program is killed.

Each participant reads from a port, a file with a queue. A program that is killed leaves its port,
and a program that comes later uses what it finds, with the length of that queue.
"""

from pathlib import Path
import re

FOLDER = Path('/dev/shm')
#: Ports of a domain: OMG formal/2022-04-01, 9.6.2.
_PORT_BASE, _DOMAIN_GAIN = 7400, 250
#: Fast DDS 2 and 3 differ in the first word.
_PORT = re.compile(r'(?:sem\.)?fast(?:rtps|dds)_port(\d+)(?:_el|_sl|_mutex)?')


def clear_ports(domain):
    """
    Remove the ports of a domain that no program uses.

    :param domain: one that this process has reserved.
    """
    first = _PORT_BASE + _DOMAIN_GAIN * domain
    for path in FOLDER.glob('*fast*_port*'):
        found = _PORT.fullmatch(path.name)
        if found and int(found[1]) in range(first, first + _DOMAIN_GAIN):
            path.unlink(missing_ok=True)
