# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the node for a long time with faults every minute, and check its resources.

    make soak                             an hour: 20 bodies at 240 Hz
    make soak ARGS='--minutes 15'
    make soak ARGS='--protocol natnet'
    make soak ARGS='--protocol natnet --multicast'

Every minute Motive restarts with a new clock, bodies go out of view in three ways, datagrams are
lost throughout; with NatNet the bodies also exchange their streaming ids. Memory, threads and file
descriptors of the node's process are read every five seconds. The exit code is 1 if one of them
grows, or if poses do not come back.
"""

import argparse
import json
import os
from pathlib import Path
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / 'test')]
LISTENED = 2
#: Growth from the second quarter to the last that is taken for noise of the allocator.
NOISE_MB = 2.0


class Reading(NamedTuple):
    """What the node's process occupied at a time (s since the beginning)."""

    at_s: float
    rss_mb: float
    threads: int
    files: int
    cpu_s: float
    poses: int


def read(pid, at_s, poses):
    """Read /proc for a process."""
    with open(f'/proc/{pid}/status') as stream:
        fields = dict(line.split(':', 1) for line in stream)
    with open(f'/proc/{pid}/stat') as stream:
        times = stream.read().rpartition(')')[2].split()[11:13]
    return Reading(
        at_s, int(fields['VmRSS'].split()[0]) / 1024, int(fields['Threads']),
        len(os.listdir(f'/proc/{pid}/fd')),
        sum(map(int, times)) / os.sysconf('SC_CLK_TCK'), poses)


def verdict(readings):
    """
    Judge whether anything grew, from the second quarter to the last.

    The first quarter is left out: caches fill, the allocator finds its size.

    :returns: what grew, a sentence each; empty where nothing did.
    """
    quarter = len(readings) // 4
    early, late = readings[quarter:2 * quarter], readings[-quarter:]
    if not quarter:
        return ['too few readings to judge']
    found = []
    # Medians: the node holds fewer while the server is absent, and sometimes more when it returns.
    for name, noise, what in (('rss_mb', NOISE_MB, 'memory (MB)'), ('threads', 0, 'threads'),
                              ('files', 0, 'files')):
        before, after = (statistics.median(getattr(r, name) for r in part)
                         for part in (early, late))
        if after - before > noise:
            found.append(f'{what} grew from {before:.5g} to {after:.5g}')
    if late[-1].poses <= late[0].poses:
        found.append('no poses came any more')
    return found


def scenario(bodies, rate, period, natnet):
    """Make what is streamed: something is wrong at every time, everything once a period."""
    listed = []
    for number in range(bodies):
        fault = {'type': 'occlusion', 'mode': ('silent', 'frozen', 'zeroed')[number % 3],
                 'start': period * (0.1 + 0.6 * number / bodies), 'every': period}
        fault['end'] = fault['start'] + 0.03 * period
        listed.append({
            'name': f'body{number}', 'faults': [fault] if number >= LISTENED else [],
            'motion': {'type': 'figure_eight', 'centre': [0, 1, 3 * number]}})
    return {
        'bodies': listed, 'rate': rate, 'noise': {'position_mm': 0.1, 'attitude_deg': 0.03},
        'natnet': natnet, 'network': {'loss': 0.02, 'jitter_ms': 0.2, 'reorder': 0.001},
        'faults': [
            {'type': 'restart', 'at': 0.85 * period, 'downtime': 1.0, 'every': period},
            {'type': 'drop_frames', 'probability': 0.1, 'start': 0.7 * period,
             'end': 0.75 * period, 'every': period}]}


def soak(total_s, bodies, rate, period_s, interval_s, natnet):
    """
    Run it.

    :param natnet: settings of the simulated Motive for NatNet.
    :returns: the readings, the node's log, how often the server accepted it.
    """
    from fault_kit import Server
    from fault_protocol import NATNET, parameters, with_protocol
    from rosgraph import NodeProcess, Observer, wait_until
    readings = []
    edits = 0
    server = Server(with_protocol(scenario(bodies, rate, period_s, natnet)))
    # By UDP, because the network's losses only delay TCP, which ``auto`` takes.
    way = [word for name, value in {'connection': 'udp', **parameters(server.port)}.items()
           for word in ('-p', f'{name}:={value}')]
    try:
        with Observer('soak') as observer, NodeProcess(
                '-p', 'autostart:=true', '-p', 'server:=127.0.0.1', *way) as node:
            topics = [observer.poses(f'/body{i}/pose', depth=100) for i in range(LISTENED)]
            wait_until(lambda: all(map(len, topics)), 60.0, 'poses')
            begin = time.monotonic()
            heard = 0
            while time.monotonic() - begin < total_s:
                time.sleep(interval_s)
                heard += sum(topic.discard() for topic in topics)
                readings.append(read(node.process.pid, time.monotonic() - begin, heard))
                if NATNET and readings[-1].at_s > period_s * (edits + 0.5):
                    edits += 1
                    names = [f'body{number}' for number in range(bodies)]
                    server.ask(' '.join(['models', *names[::-1 if edits % 2 else 1]]))
                if not len(readings) % max(1, round(60 / interval_s)):
                    print(line(readings[-1]), flush=True)
            log = list(node.lines)
            connections = server.ask('count')['accepted']
            code, _ = node.end()
        if code:
            log.append(f'[ERROR] the node ended with exit code {code}')
    finally:
        server.close()
    return readings, log, connections


def line(reading):
    """Write a reading."""
    return (f'{reading.at_s / 60:6.1f} min: {reading.rss_mb:.1f} MB, {reading.threads} threads, '
            f'{reading.files} files, {reading.cpu_s / reading.at_s:.0%} of a processor, '
            f'{reading.poses} poses of {LISTENED} bodies heard')


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=60.0)
    parser.add_argument('--seconds', type=float, help='instead of minutes, for tests')
    parser.add_argument('--bodies', type=int, default=20)
    parser.add_argument('--rate', type=float, default=240.0)
    parser.add_argument('--protocol', choices=('vrpn', 'natnet'), default='vrpn')
    parser.add_argument('--multicast', action='store_true', help='of NatNet')
    parser.add_argument('--json', metavar='FILE', help='write the readings there')
    arguments = parser.parse_args()
    os.environ['FAULT_PROTOCOL'] = arguments.protocol    # read by fault_protocol
    total_s = arguments.seconds or 60.0 * arguments.minutes
    period_s = min(60.0, total_s / 2)
    interval_s = min(5.0, total_s / 24)
    from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate, own_domain
    with claim_domain({own_domain()}) as claim, tempfile.TemporaryDirectory() as logs:
        isolate(os.environ, claim.domain)
        os.environ['ROS_LOG_DIR'] = logs
        readings, log, connections = soak(
            total_s, arguments.bodies, arguments.rate, period_s, interval_s,
            {'multicast': arguments.multicast})
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([r._asdict() for r in readings]))
    quarter = len(readings) // 4
    errors = [entry for entry in log if '[ERROR]' in entry]
    print(line(readings[-1]))
    print(f'{arguments.bodies} bodies at {arguments.rate:g} Hz by {arguments.protocol}'
          f'{" multicast" * arguments.multicast} for '
          f'{total_s / 60:.1f} min, {connections} connections, {len(log)} lines of log, '
          f'{len(errors)} errors')
    for name in ('rss_mb', 'threads', 'files'):
        values = [getattr(reading, name) for reading in readings[quarter:]]
        print(f'{name}: {min(values):.5g} to {max(values):.5g} after the first quarter, '
              f'{values[-1]:.5g} at the end')
    found = verdict(readings) + errors[:5]
    # With multicast the frames go on after a restart without another request.
    if connections < total_s // period_s and not arguments.multicast:
        found.append(f'only {connections} connections')
    print('\n'.join(found) if found else 'flat')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
