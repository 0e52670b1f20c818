# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The start of the node: time until its first pose, processor time and memory; see ``cost.py``.

Sender and subscriber (those of ``latency.py``) run already; each start is a process with
default settings. The bridges take turns, forwards and backwards.
"""

import contextlib
import os
from pathlib import Path
import statistics
from types import SimpleNamespace

from builds import ROOT, variables_of
from latency import Child, environment
from latency_bridges import command_of

_HEAD = ('| start until the first pose | connected s, median (least) | first pose s, median '
         '(least) | first pose s, 9 of 10 | processor time s, median (least) | MB |\n'
         '|---|---|---|---|---|---|')


def start(bridge, bodies, rate, variables):
    """
    Start a bridge once.

    :returns: seconds until the server streams to it and until its first pose has reached the
        subscriber, and until then processor time of all threads (s) and resident memory (MB).
    """
    with contextlib.ExitStack() as stack:
        def child(*command, variables=variables):
            started = Child(command, variables)
            stack.callback(started.stop)
            return started

        plain = variables_of(ROOT, True, variables) if bridge == 'plain' else variables
        counts = '--bodies', str(bodies)
        sender = child('latency_sender.py', *counts, '--rate', str(rate))
        receiver = child('latency_receiver.py', *counts)
        port = int(sender.line())
        receiver.line()
        command, _ = command_of(
            bridge, port, bodies, False, SimpleNamespace(peer=None, vrpn_mocap=None))
        started = child(*command, variables=plain)
        first = receiver.ask('wait 30')
        if first['first_ns'] is None:
            raise SystemExit(f'{bridge}: no poses ({first}):\n{started.said()}')
        return ((int(sender.line()) - started.started_ns) / 1e9,
                (first['first_ns'] - started.started_ns) / 1e9,
                started.cpu_ns() / 1e9, started.resident_mb())


def add_arguments(parser):
    """Add the arguments of this measurement."""
    parser.add_argument('--against', type=Path, help='another checkout, compiled if it is')
    parser.add_argument('--repetitions', type=int, default=10)
    parser.add_argument('--bodies', type=int, default=1)
    parser.add_argument('--rate', type=int, default=240, help='(Hz)')
    parser.add_argument('--bridges', nargs='+', default=('floor', 'node', 'plain'),
                        help='of those of latency.py')


def table(arguments):
    """Measure; return the table."""
    variables = environment()
    variants = {name: (name, variables) for name in arguments.bridges}
    if arguments.against:
        variants['other'] = 'node', {**variables, 'PYTHONPATH': os.pathsep.join(
            [str(arguments.against.resolve()), variables['PYTHONPATH']])}
    figures = {name: [] for name in variants}
    for turn in range(arguments.repetitions):
        for name in list(variants)[::1 if turn % 2 else -1]:
            bridge, own = variants[name]
            figures[name].append(start(bridge, arguments.bodies, arguments.rate, own))
    lines = [_HEAD]
    for name, several in figures.items():
        connected, first, cpu, memory = (sorted(column) for column in zip(*several))
        median = statistics.median
        lines.append(
            f'| {name} | {median(connected):.2f} ({connected[0]:.2f}) | '
            f'{median(first):.2f} ({first[0]:.2f}) | {first[len(first) * 9 // 10 - 1]:.2f} | '
            f'{median(cpu):.2f} ({cpu[0]:.2f}) | {median(memory):.0f} |')
    return lines
