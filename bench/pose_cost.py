# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure this package's own share of a pose, in one process, without sockets and DDS.

    python bench/pose_cost.py                        compiled and plain, in turns
    python bench/pose_cost.py --against OTHER        and another checkout, plain
    python bench/pose_cost.py --instructions         instructions a pose (valgrind)
    python bench/pose_cost.py --write-docs     warm and cold, into docs/evidence/performance.md
    python bench/pose_cost.py --cold                 with cold caches, as in a node with one body

Datagrams of bodies that move go through the decoder, the pipeline and the hot path; functions
that would publish do nothing. A step's figure is the least mean of many rounds, so that other
load hardly shows. Processes take turns, and the median of their figures counts.

With ``--cold`` the caches of the processor are overwritten before each datagram, and a step's
figure is the least median of a round: a node that waits for the next frame finds its code and data
in the caches only in part.
"""

import argparse
import json
import math
from pathlib import Path
import re
import statistics
import subprocess
import sys
import time

from builds import variables_of
from latency_tables import write_block

HERE = Path(__file__).resolve()
ROOT = HERE.parent.parent
BODIES = (1, 20)
STEPS = ('decode', 'process', 'publish', 'together')
OUTPUTS = {
    '': ['pose', 'tf', 'status'],
    ' all on': ['pose', 'tf', 'status', 'pose_ned', 'tf_ned', 'pose_cov', 'odom', 'twist',
                'accel']}
NS = 1_000_000_000
_START_NS = 1_700_000_000 * NS
_FRAME_NS = NS // 240
#: Together more than the second-level cache of any processor in use.
_BALLAST, _ZEROS = bytearray(4 << 20), bytes(4 << 20)


def frames(bodies, count):
    """Encode so many frames of bodies on circles, as a server does; gives time and datagrams."""
    from optitrack_vrpn.drivers.vrpn.codec import MAX_DATAGRAM_SIZE, POSE_MESSAGE
    most = MAX_DATAGRAM_SIZE // POSE_MESSAGE.size
    sequence = 0
    for number in range(count):
        time_ns = _START_NS + number * _FRAME_NS
        datagrams = []
        for first in range(0, bodies, most):
            data = b''
            for body in range(first, min(bodies, first + most)):
                angle = 0.002 * number + body
                data += POSE_MESSAGE.pack(
                    POSE_MESSAGE.size, time_ns // NS, time_ns % NS // 1000, 1 + body, 4, sequence,
                    0, math.cos(angle), 1.0, math.sin(angle), 0.0, math.sin(angle / 2), 0.0,
                    math.cos(angle / 2))
                sequence += 1
            datagrams.append(data)
        yield time_ns, datagrams


class OwnShare:
    """
    Decoder, pipeline and hot path of so many bodies.

    :param outputs: the parameter ``outputs``; every topic has a subscriber.
    """

    def __init__(self, bodies, outputs):
        from optitrack_vrpn.drivers.vrpn.codec import LocalNames, POSE_MESSAGE, POSE_TYPE
        from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
        from optitrack_vrpn.node.base.cdr import tf_message
        from optitrack_vrpn.node.body_output import BodyOutput
        from optitrack_vrpn.node.configuration import make_configuration
        from optitrack_vrpn.node.receiver import publish_samples
        from optitrack_vrpn.stream.pipeline import Pipeline
        names = LocalNames()
        ids = [names.sender_id(f'body{body}') for body in range(bodies)]
        kind = names.type_id(POSE_TYPE)
        self.connection, peer = VrpnConnection(), VrpnConnection(names)
        peer.receive_stream(self.connection.data_to_send())
        self.connection.receive_stream(peer.data_to_send())
        peer.describe(0)
        self.connection.receive_stream(peer.data_to_send())
        self._ids = ids, kind, POSE_MESSAGE
        configuration = make_configuration({'server': '127.0.0.1', 'outputs': outputs})
        # Checkouts to compare with, as 558f473, have another name for them.
        settings = getattr(configuration, 'settings', None) or configuration.publish

        class Silent:
            handle = type('Handle', (), {'publish_raw': staticmethod(len)})

            def get_subscription_count(self):
                return 1

        def discovered(channel):
            output = BodyOutput(channel, lambda *_: Silent(), lambda _: None, True)
            output.create_publishers(settings)
            self.outputs[channel] = output

        self.outputs = {}
        self.pipeline = Pipeline(configuration.pipeline, discovered)
        self.tf_way = tf_message, len
        if publish_samples.__module__.endswith('publishers'):    # an older checkout
            self.tf_way = lambda pieces: len(tf_message(pieces))

    def encoded(self, count, first=0):
        """Encode frames with this connection's numbers of senders and type."""
        from optitrack_vrpn.drivers.vrpn.codec import POSE_MESSAGE as LAYOUT
        ids, kind, _ = self._ids
        for time_ns, datagrams in frames(len(ids), count):
            turned = []
            for data in datagrams:
                turned.append(b''.join(
                    LAYOUT.pack(*fields[:3], ids[fields[3] - 1], kind, *fields[5:])
                    for fields in LAYOUT.iter_unpack(data)))
            yield time_ns, turned

    def run(self, several, spent, before=lambda: None):
        """
        Process frames; add the nanoseconds of each step.

        :param before: called before each datagram.
        """
        from optitrack_vrpn.drivers.vrpn.frames import to_frames
        from optitrack_vrpn.node.receiver import publish_samples
        clock = time.perf_counter_ns
        receive, process = self.connection.receive_datagram, self.pipeline.process
        published = 0
        for time_ns, datagrams in several:
            arrival_ns = time_ns + 2_000_000
            for data in datagrams:
                before()
                begun = clock()
                items = to_frames(receive(data))
                decoded = clock()
                found = process(items, arrival_ns, 0, arrival_ns)
                samples = getattr(found, 'samples', found)    # a list in an older checkout
                processed = clock()
                publish_samples(samples, self.outputs, self.tf_way, time.monotonic_ns, 1 << 62)
                done = clock()
                published += len(samples)
                for step, ns in zip(STEPS, (
                        decoded - begun, processed - decoded, done - processed, done - begun)):
                    spent[step].append(ns)
        return published


def evict():
    """Overwrite the caches of the processor."""
    _BALLAST[:] = _ZEROS


def measure(bodies, outputs, rounds, size, cold):
    """
    Return the least mean of a round, in microseconds a pose, of each step; the median if cold.

    :param size: poses of a round.
    """
    share = OwnShare(bodies, outputs)
    count = max(1, size // bodies)
    several = list(share.encoded((rounds + 1) * count))
    share.run(several[:count], {step: [] for step in STEPS})
    best = dict.fromkeys(STEPS, math.inf)
    for number in range(1, rounds + 1):
        spent = {step: [] for step in STEPS}
        poses = share.run(several[number * count:(number + 1) * count], spent,
                          *([evict] if cold else []))
        if poses < bodies * count:
            raise SystemExit(f'{poses} of {bodies * count} poses were published')
        for step in STEPS:
            ns = statistics.median(spent[step]) * len(spent[step]) if cold else sum(spent[step])
            best[step] = min(best[step], ns / 1e3 / poses)
    return best


def in_this_process(arguments):
    """Print the figures of every point as JSON."""
    print(json.dumps({
        f'{bodies}{name}': measure(
            bodies, outputs, arguments.rounds, arguments.size, arguments.cold)
        for name, outputs in OUTPUTS.items() for bodies in arguments.bodies
        if arguments.only in (None, f'{bodies}{name}')}))


def command(variant, arguments, more=()):
    """Make the command and the variables that measure one variant."""
    checkout, plain = variant
    variables = variables_of(checkout, plain)
    return [sys.executable, str(HERE), '--here', '--size', str(arguments.size), '--bodies',
            *map(str, arguments.bodies), *(['--cold'] if arguments.cold else []), *more], variables


def run(variant, arguments, more=(), before=()):
    """Measure one variant in its own process."""
    words, variables = command(variant, arguments, more)
    return subprocess.run(
        [*before, *words], env=variables, check=True, capture_output=True, text=True)


def instructions(variant, arguments, point):
    """Count the instructions of a pose: those of a long run less those of a short one."""
    counts = []
    for rounds in (1, 5):
        done = run(variant, arguments, ['--only', point, '--rounds', str(rounds)], [
            'valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null'])
        counts.append(int(re.search(r'Collected : (\d+)', done.stderr)[1]))
    poses = 4 * max(1, arguments.size // int(point.split()[0])) * int(point.split()[0])
    return (counts[1] - counts[0]) / poses


def rows(variants, arguments, points):
    """Measure the variants in turns; return the rows of a table."""
    figures = {name: [] for name in variants}
    for turn in range(arguments.repetitions):
        for name in list(variants)[::1 if turn % 2 else -1]:
            done = run(variants[name], arguments, ['--rounds', str(arguments.rounds)])
            figures[name].append(json.loads(done.stdout))
    steps = STEPS[-1:] if arguments.write_docs else STEPS
    caches = 'cold' if arguments.cold else 'warm'
    return [
        f'| {point.replace(" all on", ", all on")}, {caches}, {step} | ' + ' | '.join(
            f'{statistics.median(one[point][step] for one in several):.2f}'
            for several in figures.values()) + ' |'
        for point in points for step in steps]


def main():
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--against', type=Path, help='another checkout of this package')
    parser.add_argument('--instructions', action='store_true', help='count instead of time')
    parser.add_argument('--write-docs', action='store_true')
    parser.add_argument('--cold', action='store_true', help='with cold caches')
    parser.add_argument('--repetitions', type=int, default=5)
    parser.add_argument('--rounds', type=int, default=30)
    parser.add_argument('--size', type=int, default=400, help='poses of a round')
    parser.add_argument('--bodies', type=int, nargs='+', default=BODIES)
    parser.add_argument('--only', help=argparse.SUPPRESS)
    parser.add_argument('--here', action='store_true', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        in_this_process(arguments)
        return 0
    variants = {'compiled': (ROOT, False), 'plain': (ROOT, True)}
    if arguments.against:
        variants['other'] = (arguments.against.resolve(), True)
    points = [f'{bodies}{name}' for name in OUTPUTS for bodies in arguments.bodies]
    if arguments.instructions:
        print('| bodies | ' + ' | '.join(variants) + ' |\n|---' * 1 + '|---' * len(variants) + '|')
        for point in points:
            print(f'| {point} | ' + ' | '.join(
                f'{instructions(variant, arguments, point):.0f}'
                for variant in variants.values()) + ' |', flush=True)
        return 0
    lines = [f'| bodies, caches, step (us a pose) | {" | ".join(variants)} |',
             '|---' * (1 + len(variants)) + '|']
    for cold in (False, True) if arguments.write_docs else (arguments.cold,):
        arguments.cold = cold
        lines += rows(variants, arguments, points)
    print('\n'.join(lines))
    if arguments.write_docs:
        write_block(ROOT / 'docs' / 'evidence' / 'performance.md', 'own', '\n'.join(lines))
    return 0


if __name__ == '__main__':
    sys.exit(main())
