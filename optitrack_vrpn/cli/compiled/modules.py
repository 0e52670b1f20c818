# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Which modules are compiled, and how their compiled form is recognised.

There is one copy of the source. Compiled modules lie in a folder whose name holds a hash of that
source and the interpreter's binary interface. A folder of another name is not used, so that an
edited file, another checkout or another Python always runs from its own source.
"""

from collections.abc import Iterable
import hashlib

#: Modules that are compiled: what a pose passes, and what it calls.
MODULES = tuple(f'optitrack_vrpn.{package}.{name}' for package, names in {
    'core': ('axes', 'rotation', 'throttle'),
    'drivers': ('frames', 'sockets_io'),
    'drivers.vrpn': ('codec', 'connection', 'frames', 'session_io'),
    'drivers.natnet': (
        'codec', 'connection', 'frames', 'layouts', 'messages', 'model_list', 'reports'),
    'stream.clock': (
        'cadence', 'difference', 'epochs', 'estimator', 'filter', 'round_trips', 'segment',
        'source'),
    'stream.motion': ('estimator', 'gains', 'kalman', 'lever_arm', 'rest'),
    'stream.bodies': ('flips', 'jumps', 'limits', 'poses', 'states', 'times', 'validity'),
    'stream': ('coarse_clock', 'load_shedding', 'pipeline', 'roster'),
    'node.base': ('cdr',),
    'node': ('body_output', 'publishers', 'receiver', 'shared_output'),
}.items() for name in names)
#: Files and folders whose contents decide whether compiled modules may be used. More than the
#: modules themselves: mypyc relies on the types and constants of all that they import.
SOURCES = ('cli/compiled/modules.py', 'control', 'core', 'drivers', 'node', 'stream')
#: The environment variable that switches compiled modules off, when they are made and used.
SWITCH = 'OPTITRACK_VRPN_COMPILE'
#: Its values for off; any other, and none, is on.
OFF = ('0', 'no', 'off', 'false')


def folder_name(contents: Iterable[tuple[str, bytes]], tag: str) -> str:
    """Name the folder of modules compiled from files (path, content) for an interpreter."""
    total = hashlib.sha256()
    for path, content in sorted(contents):
        total.update(f'{path}\0{len(content)}\0'.encode())
        total.update(content)
    return f'{tag}-{total.hexdigest()[:24]}'
