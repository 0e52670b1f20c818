# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Trace the processor time of a pose in the node, and what the latest poses wait for.

    make bench-trace                     three tables; needs root and perf

The bridges of ``latency.py`` take turns, with its sender and receiver. Figures of each turn:

- the parts of a pose's processor time: perf samples the stacks of the bridge (cpu-clock), and the
  innermost function of this package or library of the middleware decides the part of a sample;
- wake-ups: how often the threads of the bridge have gone to sleep and were preempted;
- what poses wait for: perf records which thread each processor runs (sched_switch, sched_waking).
  The time of each pose between its sending and its arrival in the subscriber is divided by what
  the bridge's thread, and then the subscriber, did meanwhile.

perf takes processor time itself: latencies are for comparison within one table.
"""

import argparse
from collections import Counter
import contextlib
import os
from pathlib import Path
import re
import statistics
import subprocess
import sys
import tempfile
import time

from latency import Child, DOCS, environment, load, RUNS
from latency_bridges import command_of
from latency_tables import percentile, write_block

SETTLE_S = 2.0
#: Samples of the stacks a second of processor time.
_SAMPLES_HZ = 4000
#: Part by the module of a compiled function.
PARTS = {part: tuple(modules.split()) for part, modules in {
    'wait, read': 'loop_io sockets_io',
    'decode': 'driver connection codec commands frames losses messages layouts reports '
              'numbering model_list latency_floor',
    'clock': 'source sender_clock line pace round_trips difference',
    'gate': 'tracker judge hypotheses limits swap times poses states',
    'axes, stages': 'axes rotation pipeline batch roster load_shedding estimator stats',
    'write messages': 'receiver cdr throttle body_output publishers shared_output'}.items()}
_PART_OF = {module: part for part, modules in PARTS.items() for module in modules}
_MIDDLEWARE = re.compile(r'lib(rmw|rcl|fast|dds)|_rclpy')
#: Functions of Python in which a thread waits and reads, for the floor, which is not compiled.
_READING = ('sock_recv', 'select_poll')
_COMPILED = re.compile(r'CPy(?:Def|Py)_(\w+)')
ROWS = (*PARTS, 'garbage collection', 'interpreter', 'middleware', 'threads of DDS',
        'executor, ticker')
GROUPS = (('half of the poses', 0.25, 0.75), ('1 % latest', 0.99, 1.0), ('0.1 %', 0.999, 1.0))
WAITS = ('until it is woken', 'waits for a processor', 'works', 'waits for a lock', 'subscriber')


def threads(pid):
    """Read of each thread: processor time (ns), sleeps, preemptions and name."""
    found = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        folder = Path(f'/proc/{pid}/task/{tid}')
        with contextlib.suppress(OSError):
            switches = [int(number) for number in re.findall(
                r'ctxt_switches:\s+(\d+)', (folder / 'status').read_text())]
            found[int(tid)] = (int((folder / 'schedstat').read_text().split()[0]), *switches,
                               (folder / 'comm').read_text().strip())
    return found


def passed(before, after):
    """Subtract what ``threads`` gave, of each thread that existed."""
    return {tid: (*(b - a for a, b in zip(before[tid][:3], after[tid][:3])), after[tid][3])
            for tid in after if tid in before}


def perf(seconds, *arguments):
    """Record for some seconds; return the file of the recording."""
    folder = tempfile.mkdtemp(prefix='trace')
    file = f'{folder}/perf'
    subprocess.run(['perf', 'record', '-q', '-k', 'CLOCK_MONOTONIC', '-o', file, *arguments, '--',
                    'sleep', str(seconds)], check=True, stdout=subprocess.DEVNULL)
    return file


def script(file, fields):
    """Read a recording as lines, and delete it."""
    with subprocess.Popen(['perf', 'script', '--ns', '--no-inline', '-F', fields, '-i', file],
                          text=True, errors='replace', stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        yield from process.stdout
    os.remove(file)
    os.rmdir(os.path.dirname(file))


# -- parts of the processor time ------------------------------------------------------------------

def part_of(stack):
    """Find the part of a sample by its stack, of (function, file), innermost first."""
    for function, file in stack:
        if function.startswith('gc_collect'):
            return 'garbage collection'
        if function.startswith(_READING):
            return 'wait, read'
        if _MIDDLEWARE.search(os.path.basename(file)):
            return 'middleware'
        found = _COMPILED.match(function)
        for word in found[1].split('___')[:2] if found else ():    # with the package or without
            if word in _PART_OF:
                return _PART_OF[word]
    return 'interpreter'


def parts(file, client, names):
    """
    Count the samples of each part.

    :param client: thread that receives and publishes.
    :param names: names of the others.
    """
    counts, tid, stack = Counter(), None, []
    for line in [*script(file, 'tid,ip,sym,dso'), '']:
        words = line.split()
        if len(words) == 1:
            tid = int(words[0])
        elif words:
            stack.append((words[1], words[-1].strip('()')))
        elif tid is not None:
            counts[part_of(stack) if tid == client else
                   'threads of DDS' if names.get(tid, '').startswith('dds') else
                   'executor, ticker'] += 1
            tid, stack = None, []
    return counts


# -- what a pose waits for ------------------------------------------------------------------------

_SWITCH = re.compile(r'prev_pid=(\d+) .*prev_state=(\S+) .*next_pid=(\d+)')
_WAKING = re.compile(r' pid=(\d+) ')


def states(file, client, sender):
    """
    List (time in ns, new state) of a thread: 'sleeps', 'ready' or 'runs'.

    'woken' is 'ready' by another thread than the sender's.
    """
    found = []
    for line in script(file, 'tid,time,event,trace'):
        head, _, rest = line.strip().partition(': ')
        tid, time_text = head.split()
        now = int(time_text.replace('.', ''))
        if 'sched_switch' in rest:
            before, state, after = _SWITCH.search(rest).groups()
            if int(after) == client:
                found.append((now, 'runs'))
            elif int(before) == client:
                found.append((now, 'ready' if state.startswith('R') else 'sleeps'))
        else:
            woken = _WAKING.search(rest)
            if woken and int(woken[1]) == client:
                found.append((now, 'ready' if int(tid) == sender else 'woken'))
    return found


def divide(sent, taken, changes, at):
    """
    Divide the time of a pose by what the bridge's thread did.

    :param at: index of the first change of state after ``sent``.
    :returns: times (ns) as in ``WAITS``. A sleep ends by the sender's datagram or by another
        thread, which released a lock; after the last one the subscriber has the pose.
    """
    spent = dict.fromkeys(WAITS, 0)
    state, since = changes[at - 1][1] if at else 'sleeps', sent
    for now, new in [*_until(changes, at, taken), (taken, '')]:
        if state == 'runs':
            spent['works'] += now - since
        elif state in ('ready', 'woken'):
            spent['waits for a processor'] += now - since
        else:
            spent['subscriber' if not new else 'waits for a lock' if new == 'woken' else
                  'until it is woken'] += now - since
        state, since = new, now
    return spent


def _until(changes, at, end):
    """Yield changes before a time."""
    while at < len(changes) and changes[at][0] < end:
        yield changes[at]
        at += 1


def waits(poses, changes):
    """Return the mean of each wait (us), and of all, of each group of ``GROUPS``."""
    at, divided = 0, []
    for sent, taken in poses:
        while at < len(changes) and changes[at][0] < sent:
            at += 1
        divided.append((taken - sent, divide(sent, taken, changes, at)))
    divided.sort(key=lambda one: one[0])
    table = {}
    for name, first, last in GROUPS:
        group = divided[int(first * len(divided)):int(last * len(divided))]
        table[name] = {'all': statistics.fmean(total for total, _ in group) / 1e3, **{
            wait: statistics.fmean(spent[wait] for _, spent in group) / 1e3 for wait in WAITS}}
    return table


# -- measurement ----------------------------------------------------------------------------------

def measure(bridge, bodies, rate, seconds, variables):
    """Run one bridge; return its figures of one turn."""
    with contextlib.ExitStack() as stack:
        def start(*command):
            child = Child(command, variables)
            stack.callback(child.stop)
            return child

        sender = start('latency_sender.py', '--bodies', str(bodies), '--rate', str(rate))
        receiver = start('latency_receiver.py', '--bodies', str(bodies), *(
            ['--everything'] if bridge.endswith('all on') else []))
        port = int(sender.line())
        receiver.line()
        time.sleep(0.3)
        command, order = command_of(bridge, port, bodies, False, argparse.Namespace())
        child = start(*command)
        if receiver.ask('wait 30')['first_ns'] is None:
            raise SystemExit(f'{bridge}: no poses:\n{child.said()}')
        time.sleep(SETTLE_S)
        receiver.ask('forget')
        pid = child.process.pid
        before, begun = threads(pid), time.monotonic()
        time.sleep(seconds)
        spent = passed(before, threads(pid))
        poses = bodies * rate * (time.monotonic() - begun)
        latencies = sorted(taken - sent for sent, taken in receiver.ask(f'trace {order}'))
        # DDS names its threads; of Python's the one with the poses takes the most time.
        client = max((tid for tid, one in spent.items() if not one[3].startswith('dds')),
                     key=lambda tid: spent[tid][0])
        sampled = parts(perf(seconds, '-e', 'cpu-clock', '-F', str(_SAMPLES_HZ), '--call-graph',
                             'dwarf,16384', '-p', str(pid)), client,
                        {tid: one[3] for tid, one in spent.items()})
        receiver.ask('forget')
        file = perf(seconds, '-a', '-e', 'sched:sched_switch', '-e', 'sched:sched_waking')
        traced = receiver.ask(f'trace {order}')
        changes = states(file, client, sender.process.pid)
        cpu = sum(one[0] for one in spent.values()) / 1e3 / poses
        own = spent[client][0] / 1e3 / poses
        mine = sum(count for part, count in sampled.items() if part in ROWS[:-2])
        others = {'threads of DDS': 0.0, 'executor, ticker': 0.0}
        for tid, one in spent.items():
            if tid != client:
                others['threads of DDS' if one[3].startswith('dds') else 'executor, ticker'] += (
                    one[0] / 1e3 / poses)
        return {
            'parts': {**{part: own * sampled[part] / max(mine, 1) for part in ROWS[:-2]},
                      **others},
            'cpu': cpu, 'samples': mine,
            'p50': percentile(latencies, 0.5) / 1e3, 'p99': percentile(latencies, 0.99) / 1e3,
            'p999': percentile(latencies, 0.999) / 1e3,
            'sleeps': spent[client][1] / poses * bodies,
            'preempted': spent[client][2] / seconds,
            'other sleeps': sum(
                one[1] for tid, one in spent.items() if tid != client) / seconds,
            'heartbeats': sum(
                one[1] for one in spent.values() if one[3].startswith('dds.ev')) / seconds,
            'waits': waits([one for one in traced if changes and
                            changes[0][0] < one[0] and one[1] < changes[-1][0]], changes)}


def median(turns, *path):
    """Return the median over turns of a figure."""
    values = []
    for turn in turns:
        for key in path:
            turn = turn[key]
        values.append(turn)
    return statistics.median(values)


def tables(found, points, bridges):
    """Write all tables as Markdown."""
    lines = []
    for point in points:
        bodies, rate = point
        turns = [found[point, bridge] for bridge in bridges]
        head = ' | '.join(bridges)
        lines += [f'**{bodies} x {rate} Hz**', '', f'| processor time, us a pose | {head} |',
                  '|---|' + '---|' * len(bridges)]
        for part in ROWS:
            lines.append(f'| {part} | ' + ' | '.join(
                f'{median(each, "parts", part):.1f}' for each in turns) + ' |')
        lines.append('| all | ' + ' | '.join(
            f'{median(each, "cpu"):.1f}' for each in turns) + ' |')
        lines.append('| all / ' + bridges[0] + ' | ' + ' | '.join('{:.2f}'.format(
            statistics.median(turn['cpu'] / base['cpu'] for turn, base in zip(each, turns[0])))
            for each in turns) + ' |')
        for name, key, figure in (
                ('p50, ms', 'p50', '{:.2f}'), ('p99, ms', 'p99', '{:.2f}'),
                ('p99.9, ms', 'p999', '{:.2f}')):
            lines.append(f'| {name} | ' + ' | '.join(
                figure.format(median(each, key) / 1e3) for each in turns) + ' |')
        for name, key in (('sleeps of the thread with the poses, a frame', 'sleeps'),
                          ('its preemptions, a second', 'preempted'),
                          ('sleeps of all other threads, a second', 'other sleeps'),
                          ("those of DDS's thread of heartbeats", 'heartbeats')):
            lines.append(f'| {name} | ' + ' | '.join(
                f'{median(each, key):.1f}' for each in turns) + ' |')
        lines += ['', '| us of a pose, mean | bridge | all | ' + ' | '.join(WAITS) + ' |',
                  '|---|---|---|' + '---|' * len(WAITS)]
        for group, _, _ in GROUPS:
            for bridge, each in zip(bridges, turns):
                lines.append(f'| {group} | {bridge} | ' + ' | '.join(
                    f'{median(each, "waits", group, wait):.0f}' for wait in ('all', *WAITS))
                    + ' |')
        lines.append('')
    return '\n'.join(lines).rstrip()


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--points', nargs='+', default=['1x240', '20x240'], metavar='BODIESxHZ')
    parser.add_argument('--bridges', nargs='+', help='of those of latency.py', default=[
        'calm floor', 'node', 'calm floor poses', 'node poses'])
    parser.add_argument('--seconds', type=float, default=4.0, help='of each of three recordings')
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--write-docs', action='store_true', help='renew the page')
    arguments = parser.parse_args()
    points = [tuple(map(int, point.split('x'))) for point in arguments.points]
    variables, found, before = environment(), {}, load()
    for turn in range(arguments.turns):
        for bodies, rate in points:
            for bridge in arguments.bridges[::1 if turn % 2 == 0 else -1]:
                figures = measure(bridge, bodies, rate, arguments.seconds, variables)
                found.setdefault(((bodies, rate), bridge), []).append(figures)
                print(f'{turn + 1}/{arguments.turns} {bodies} x {rate} {bridge}: '
                      f'{figures["cpu"]:.1f} us a pose, {figures["samples"]} samples',
                      file=sys.stderr, flush=True)
    text = (f'Node {RUNS}, {os.cpu_count()} cores, {arguments.turns} turns of '
            f'{arguments.seconds:g} s; load before: {before:.1f}\n\n'
            + tables(found, points, arguments.bridges))
    print(text)
    if arguments.write_docs:
        write_block(DOCS, 'trace', text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
