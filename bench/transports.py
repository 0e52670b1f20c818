# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compare poses by TCP with poses by UDP: latency, jitter, and the effect of 1 % lost packets.

    python3 bench/transports.py                        the simulator; needs root, some 3 minutes
    python3 bench/transports.py --server PATH          also a server of the VRPN library
    python3 bench/transports.py --write-docs           renew docs/evidence/performance.md

The server runs in its own network namespace behind a link that loses packets
(test/relay_kit.py). The transports take turns, run by run. Only the client is measured: no ROS.

``PATH PORT BODIES RATE`` must serve bodies with the seconds and nanoseconds of CLOCK_MONOTONIC at
sending in x and y, and print a line once it listens.
"""

import argparse
import json
from pathlib import Path
import platform
import statistics
import subprocess
import sys
import time

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[len(sys.path):] = [str(ROOT), str(ROOT / 'test')]

from latency_tables import percentile, write_block    # noqa: E402
from optitrack_vrpn.drivers.config import ClientConfig, LinkConfig  # noqa: E402
from optitrack_vrpn.drivers.frames import Frame  # noqa: E402
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient  # noqa: E402
from relay_kit import PacketRelay    # noqa: E402

DOCS = ROOT / 'docs' / 'evidence' / 'performance.md'
WAYS = ('tcp', 'udp')
SETTLE_S = 1.0
#: A pose this late cannot be used by a controller at 240 Hz; its share is reported.
LATE_MS = 20.0


class Timer:
    """
    A sink that notes when each pose was sent and when it was received.

    :ivar poses: (sent, received), both on CLOCK_MONOTONIC (ns).
    """

    def __init__(self):
        self.poses = []

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        """Note poses."""
        now_ns = time.monotonic_ns()
        self.poses += [
            (round(event.position[0]) * 10**9 + round(event.position[1]), now_ns)
            for item in events if isinstance(item, Frame) for event in item.bodies]

    def link_changed(self, change):
        """Ignore changes."""


def listen(host, port, way, seconds):
    """Receive for a while and print what arrived, as JSON."""
    timer = Timer()
    client = VrpnClient(ClientConfig(
        server=host, port=port, link=LinkConfig(connection=way)), timer)
    client.start()
    deadline = time.monotonic() + 20.0
    while not timer.poses and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(SETTLE_S)
    begin = time.monotonic_ns()
    time.sleep(seconds)
    end = time.monotonic_ns()
    client.stop()
    print(json.dumps({'begin': begin, 'end': end, 'poses': timer.poses}))


def figures(run, bodies, rate):
    """
    Turn what a client received into figures.

    :returns: latencies (ms) of each pose; ages (ms) of the newest pose, sampled each millisecond;
        the share of the frames that never arrived.
    """
    begin, end = run['begin'], run['end']
    poses = [(sent, got) for sent, got in run['poses'] if begin <= sent < end - 10**9]
    latencies = sorted((got - sent) / 1e6 for sent, got in poses)
    ages, newest, at = [], None, 0
    arrivals = run['poses']
    for now in range(begin, end, 10**6):
        while at < len(arrivals) and arrivals[at][1] <= now:
            newest = max(newest or 0, arrivals[at][0])
            at += 1
        if newest:
            ages.append((now - newest) / 1e6)
    expected = (end - 10**9 - begin) / 1e9 * rate * bodies
    return {'latencies': latencies, 'ages': sorted(ages),
            'lost': max(0.0, 1.0 - len(poses) / expected)}


def serve(link, server, bodies, rate):
    """Start a server behind the link; return the process and its port."""
    if server:
        port = 20000 + int(time.monotonic() * 7) % 9000    # a closed one lingers for a while
        command = [server, str(port), str(bodies), str(rate)]
    else:
        scenario = {'bodies': bodies, 'rate': rate, 'stamp_in_pose': True}
        command = [sys.executable, str(HERE / 'fault_server.py'), json.dumps(scenario),
                   link.server, '0']
    process = subprocess.Popen(
        [*link.prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = process.stdout.readline()
    return process, port if server else json.loads(said)['port']


def measure(link, server, way, bodies, rate, seconds):
    """Take the figures of one run."""
    process, port = serve(link, server, bodies, rate)
    try:
        out = subprocess.run(
            [sys.executable, __file__, '--listen', link.server, str(port), way, str(seconds)],
            check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return figures(json.loads(out), bodies, rate)


def row(name, loss, way, runs):
    """Write one row: medians over the runs, the worst of all runs, poses lost on average."""
    def median(kind, share):
        return statistics.median(percentile(run[kind], share) for run in runs)

    pooled = [x for run in runs for x in run['latencies']]
    late = sum(x > LATE_MS for x in pooled) / len(pooled)
    jitter = statistics.median(statistics.pstdev(run['latencies']) for run in runs)
    lost = statistics.mean(run['lost'] for run in runs)
    return (
        f'| {name} | {loss:.0%} | {way} | {median("latencies", 0.5):.2f} '
        f'| {median("latencies", 0.99):.2f} | {median("latencies", 0.999):.2f} '
        f'| {max(pooled):.1f} | {jitter:.2f} | {late:.2%} | {lost:.2%} '
        f'| {median("ages", 0.99):.1f} | {median("ages", 0.999):.1f} |')


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--server', help='a server of the VRPN library, see above')
    parser.add_argument('--bodies', type=int, default=20)
    parser.add_argument('--rate', type=int, default=240)
    parser.add_argument('--seconds', type=float, default=6.0)
    parser.add_argument('--repetitions', type=int, default=3)
    parser.add_argument('--loss', type=float, nargs='+', default=[0.0, 0.01])
    parser.add_argument('--write-docs', action='store_true')
    options = parser.parse_args()
    servers = {'simulator': None, **({'VRPN library': options.server} if options.server else {})}
    runs = {}
    for _ in range(options.repetitions):
        for name, server in servers.items():
            for loss in options.loss:
                for way in WAYS:
                    with PacketRelay(loss) as link:
                        runs.setdefault((name, loss, way), []).append(measure(
                            link, server, way, options.bodies, options.rate, options.seconds))
    lines = [
        f'{options.bodies} bodies at {options.rate} Hz, Linux {platform.release().split("-")[0]}, '
        f'medians of {options.repetitions} interleaved runs of {options.seconds:g} s; latency '
        'from the send call to the client, jitter its standard deviation; age of the '
        'newest pose, sampled each millisecond (at best 0 to one frame)', '',
        '| server | loss | by | p50 ms | p99 ms | p99.9 ms | max ms | jitter ms '
        f'| later than {LATE_MS:g} ms | lost | age p99 ms | age p99.9 ms |',
        '|---|---|---|---|---|---|---|---|---|---|---|---|',
        *(row(*key, several) for key, several in sorted(runs.items()))]
    print('\n'.join(lines))
    if options.write_docs:
        write_block(DOCS, 'transports', '\n'.join(lines))


if __name__ == '__main__':
    if sys.argv[1:2] == ['--listen']:
        listen(sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
    else:
        main()
