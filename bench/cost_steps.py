# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
This package's own share of a pose, in one process, without sockets and DDS; see ``cost.py``.

Datagrams of bodies that move go through the decoder, the pipeline and the hot path; functions
that would publish do nothing. A step's figure is the least mean of many rounds, so that other
load hardly shows. Processes take turns, and the median of their figures counts.

With cold caches those of the processor are overwritten before each datagram, and a step's figure
is the least median of a round: a node that waits for the next frame finds its code and data in
the caches only in part.
"""

import json
import math
from pathlib import Path
import statistics
import subprocess
import sys
import time

from builds import ROOT, variables_of

HERE = Path(__file__).resolve()
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
        settings = configuration.settings

        class Silent:
            handle = type('Handle', (), {
                'publish_raw': staticmethod(len),
                'get_subscription_count': staticmethod(lambda: 1)})

        def discovered(channel):
            output = BodyOutput(channel, lambda *_: Silent(), lambda _: None, True)
            output.create_publishers(settings)
            self.outputs[channel] = output

        self.outputs = {}
        self.pipeline = Pipeline(configuration.pipeline, discovered)
        self.tf_way = tf_message, len

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
        from optitrack_vrpn.drivers.vrpn.driver import UDP, VrpnDriver
        from optitrack_vrpn.node.receiver import publish_samples
        clock = time.perf_counter_ns
        driver = VrpnDriver()
        driver.connection = self.connection
        feed, process = driver.feed, self.pipeline.process
        published = 0
        for time_ns, datagrams in several:
            arrival_ns = time_ns + 2_000_000
            for data in datagrams:
                before()
                begun = clock()
                items = feed(UDP, data, arrival_ns)
                decoded = clock()
                samples = process(items, arrival_ns, 0, arrival_ns).samples
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
        for name, outputs in OUTPUTS.items() for bodies in arguments.bodies}))


def run(variant, arguments, cold):
    """Measure one variant in its own process."""
    checkout, plain = variant
    done = subprocess.run(
        [sys.executable, str(HERE.with_name('cost.py')), 'steps', '--here', '--size',
         str(arguments.size), '--rounds', str(arguments.rounds), '--bodies',
         *map(str, arguments.bodies), *(['--cold'] if cold else [])],
        env=variables_of(checkout, plain), check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def rows(variants, arguments, cold, steps):
    """Measure the variants in turns; return the rows of a table."""
    figures = {name: [] for name in variants}
    for turn in range(arguments.repetitions):
        for name in list(variants)[::1 if turn % 2 else -1]:
            figures[name].append(run(variants[name], arguments, cold))
    base, lines = figures[next(iter(variants))], []
    for point in base[0]:
        for step in steps:
            cells = [f'{statistics.median(one[point][step] for one in several):.2f}'
                     for several in figures.values()]
            ratios = ['{:.2f}'.format(statistics.median(
                one[point][step] / of[point][step] for one, of in zip(several, base)))
                for several in list(figures.values())[1:]]
            lines.append(f'| {point.replace(" all on", ", all on")}, '
                         f'{"cold" if cold else "warm"}, {step} | '
                         + ' | '.join(cells + ratios) + ' |')
    return lines


def add_arguments(parser):
    """Add the arguments of this measurement."""
    parser.add_argument('--against', type=Path, help='another checkout, as plain Python')
    parser.add_argument('--cold', action='store_true', help='with cold caches')
    parser.add_argument('--plain', action='store_true', help='nothing compiled')
    parser.add_argument('--rounds', type=int, default=30)
    parser.add_argument('--size', type=int, default=400, help='poses of a round')
    parser.add_argument('--bodies', type=int, nargs='+', default=BODIES)
    parser.add_argument('--repetitions', type=int, default=5)
    parser.add_argument('--here', action='store_true', help='as JSON, of this process')


def table(arguments):
    """Measure; return the table."""
    variants = {} if arguments.plain else {'compiled': (ROOT, False)}
    variants['plain'] = ROOT, True
    if arguments.against:
        variants['other'] = arguments.against.resolve(), True
    names = list(variants)
    heads = names + [f'{name} / {names[0]}' for name in names[1:]]
    lines = [f'| bodies, caches, step (us a pose) | {" | ".join(heads)} |',
             '|---' * (1 + len(heads)) + '|']
    whole = arguments.write_docs
    for cold in (False, True) if whole else (arguments.cold,):
        lines += rows(variants, arguments, cold, STEPS[-1:] if whole else STEPS)
    return lines
