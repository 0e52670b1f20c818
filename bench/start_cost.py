# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure what the start of the node takes: processor time and memory until it connects.

    python bench/start_cost.py                      compiled, if it is, and plain, in turns
    python bench/start_cost.py --against OTHER      and another checkout, plain
    python bench/start_cost.py --write-docs         and put the table into docs/performance.md

Each start is a process of its own with default settings. It is measured when it logs that it
connects, to a port without a server: all modules are loaded then, and the publishers are created
next. On a busy machine processor time changes less than the time until the first pose.
"""

import argparse
import os
from pathlib import Path
import select
import socket
import statistics
import subprocess
import sys
import time

from latency import DOCS, environment
from latency_tables import write_block
from optitrack_vrpn.cli.signals_io import with_parent

ROOT = Path(__file__).resolve().parent.parent
#: Text of the log line at which a start is measured.
_CONNECTS = 'connecting to 127.0.0.1'


def closed_port():
    """Return a TCP port on which nothing listens."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


def start(checkout, plain, variables, timeout_s):
    """
    Start the node once.

    :returns: processor time of all threads (s), time (s) and resident memory (MB) until it
        connects.
    """
    own = dict(variables, PYTHONPATH=os.pathsep.join([str(checkout), variables['PYTHONPATH']]))
    if plain:
        own['OPTITRACK_VRPN_COMPILE'] = '0'
    begun = time.monotonic()
    node = subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'optitrack_vrpn_node', '--ros-args',
         '-p', 'server:=127.0.0.1', '-p', f'port:={closed_port()}', '-p', 'autostart:=true'],
        env=with_parent(own), cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        text = b''
        while _CONNECTS.encode() not in text:
            left_s = begun + timeout_s - time.monotonic()
            ready = select.select([node.stderr], [], [], max(0.0, left_s))[0]
            piece = os.read(node.stderr.fileno(), 65536) if ready else b''
            if not piece:
                raise SystemExit(f'{checkout}: no connection:\n{text.decode()}')
            text += piece
        lasted_s = time.monotonic() - begun
        tasks = Path(f'/proc/{node.pid}/task')
        cpu_s = sum(int((task / 'schedstat').read_text().split()[0])
                    for task in tasks.iterdir()) / 1e9
        pages = int(Path(f'/proc/{node.pid}/statm').read_text().split()[1])
        return cpu_s, lasted_s, pages * os.sysconf('SC_PAGE_SIZE') / 2**20
    finally:
        node.terminate()
        node.communicate()


def main():
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--against', type=Path, help='another checkout of this package')
    parser.add_argument('--write-docs', action='store_true', help='renew docs/performance.md')
    parser.add_argument('--repetitions', type=int, default=5)
    parser.add_argument('--timeout', type=float, default=60.0, help='of one start (s)')
    arguments = parser.parse_args()
    variants = {'as installed': (ROOT, False), 'plain': (ROOT, True)}
    if arguments.against:
        variants['other'] = (arguments.against.resolve(), True)
    variables = environment()
    figures = {name: [] for name in variants}
    for turn in range(arguments.repetitions):
        for name in list(variants)[::1 if turn % 2 else -1]:
            figures[name].append(start(*variants[name], variables, arguments.timeout))
    lines = ['| start until it connects | processor time s, median (least) | s, median (least) '
             '| MB |', '|---|---|---|---|']
    for name, several in figures.items():
        cpu, lasted, memory = zip(*several)
        lines.append(
            f'| {name} | {statistics.median(cpu):.2f} ({min(cpu):.2f}) | '
            f'{statistics.median(lasted):.2f} ({min(lasted):.2f}) | '
            f'{statistics.median(memory):.1f} |')
    print('\n'.join(lines))
    if arguments.write_docs:
        write_block(DOCS, 'start', '\n'.join(lines))
    return 0


if __name__ == '__main__':
    sys.exit(main())
