# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure many robots on one network, each with its own pose.

    make bench-swarm                        five runs
    make bench-swarm ARGS=--quick           one short run with two robots
    make bench-swarm ARGS=--write-docs      the same into docs/swarm.md, docs/data and docs/img

It needs root: every robot is a process in a network namespace, behind an access point of 54 Mbit/s
in each direction (htb); frames are dropped at the robots' cards (nftables).
"""

import argparse
import contextlib
import os
from pathlib import Path
import re
import signal
import statistics
import sys
import tempfile
import time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[len(sys.path):] = [str(ROOT), str(ROOT / 'bench')]
import numpy as np  # noqa: E402
from optitrack_vrpn.cli.child_io import addresses_of, start_tool, texts_of  # noqa: E402
import swarm_figures as figures  # noqa: E402
from swarm_network import (  # noqa: E402
    Air, Bridge, GROUND, make_ground, NoNetwork, own_namespace, Robot)

TICKS = os.sysconf('SC_CLK_TCK')
OWN_HZ = 50.0
RATES_HZ = {'own': OWN_HZ, 'poses': 100.0}
LOSSES = (0, 1, 5, 10, 20)
#: Announcements of Fast DDS are repeated every 3 s.
IDLE_S = 3.0
GONE_S = 10.0
FAULTS = ('out of range', 'stops reading')
SERVER_PORT = 11811
#: Files with settings of the middleware, by address; removed at the end.
PROFILES: dict[str, Any] = {}


def peer_profile(address):
    """Give the variables with which a program announces itself to one address alone."""
    if address not in PROFILES:
        stream = PROFILES[address] = tempfile.NamedTemporaryFile('w', suffix='.xml')
        stream.write((ROOT / 'config' / 'swarm_robot.xml').read_text().replace(
            '192.168.1.5', address))
        stream.flush()
    return {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SYSTEM_DEFAULT', **dict.fromkeys(
        ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE'),
        PROFILES[address].name)}


def environment(discovery, number=None):
    """Give the variables of the middleware on a robot, or on the ground station without one."""
    variables = {'ROS_DOMAIN_ID': '0', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET',
                 # No shared memory: robots of a lab do not share a machine.
                 'FASTDDS_BUILTIN_TRANSPORTS': 'UDPv4'}
    if discovery == 'server':
        variables['ROS_DISCOVERY_SERVER'] = f'{GROUND}:{SERVER_PORT}'
    if number is None:
        return variables
    if discovery == 'static':
        variables.update(ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST', ROS_STATIC_PEERS=GROUND)
    if discovery in ('peer', 'domain'):
        variables.update(peer_profile(GROUND))
    if discovery == 'domain':
        variables['ROS_DOMAIN_ID'] = str(number + 1)
    return variables


def spent_s(pid):
    """Read the processor time of a process (s)."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine():
    """Read the busy and the whole time of all processors (ticks)."""
    values = [int(word) for word in Path('/proc/stat').read_text().split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


class Swarm:
    """
    Robots, node and simulated Motive.

    :param count: number of robots.
    :param discovery: one of ``DISCOVERIES``.
    :param rate: frames per second of Motive.
    :param outputs: outputs of the node.
    """

    def __init__(self, count, discovery, rate, outputs):
        self._count, self._discovery, self._rate = count, discovery, rate
        self._outputs, self._children, self.robots, self._bridges = outputs, [], [], []
        self._air = None

    def __enter__(self):
        try:
            os.environ.pop('ROS_DISCOVERY_SERVER', None)
            os.environ.update(environment(self._discovery))
            for number in range(self._count):    # one by one, so that an error ends those made
                self.robots.append(Robot(number))
            self._air = Air([robot.card for robot in self.robots])
            names = [robot.body for robot in self.robots]
            if self._discovery == 'server':
                start_tool('discovery_server', ['--port', str(SERVER_PORT)], self._children)
            self.sim = start_tool('motive_sim', [
                '--names', *names, '--rate', str(self._rate), '--protocol', 'vrpn', '--port', '0',
                '--noise-mm', '0.1', '--noise-deg', '0.05', '--jitter-ms', '0.3', '--skew-ppm',
                '40'], self._children)
            (host, port), = addresses_of(self.sim, 'the simulated Motive', 15.0)
            self.node = start_tool('optitrack_vrpn_node', [
                '--ros-args', '-p', 'autostart:=true', '-p', f'server:={host}', '-p',
                f'port:={port}', '-p', f'outputs:=[{", ".join(self._outputs)}]'],
                self._children)
            # Publishers exist from the first pose of a body on.
            texts_of(self.node, re.compile(r'NEW -> TRACKED'), 'the node', 30.0)
            if self._discovery == 'domain':
                for number in range(self._count):
                    self._bridges.append(Bridge(
                        number, self._outputs[0], peer_profile('127.0.0.1')))
                time.sleep(2.0 + 0.1 * self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in (*self.robots, *self._bridges):
            one.close()
        for child in self._children[::-1]:
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(signal.SIGCONT)
            child.stop()

    def counters(self):
        """Give packets and bytes at all robots' cards, and frames on the air."""
        return np.array([*np.sum([robot.counters() for robot in self.robots], axis=0),
                         self._air.frames()])

    def each(self, *command, robots=None):
        """Give a command to robots at the same time, and wait for all answers."""
        robots = self.robots if robots is None else robots
        for robot in robots:
            robot.ask(*command)
        return [robot.answer() for robot in robots]

    def listen(self, output):
        """Subscribe every robot to an output."""
        for robot in self.robots:
            robot.ask('listen', output, robot.body)
        for robot in self.robots:
            robot.answer()

    def start(self):
        """
        Start all robots at once, while no pose flows, and count the packets.

        :returns: columns of a row.
        """
        self.sim.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        before = self.counters()
        for robot in self.robots:
            robot.ask('start', environment(self._discovery, robot.number))
        for robot in self.robots:
            robot.answer()
        self.listen(self._outputs[0])
        time.sleep(IDLE_S)
        ready = self.counters()
        time.sleep(IDLE_S)
        start, idle = (ready - before).tolist(), ((self.counters() - ready) / IDLE_S).tolist()
        self.sim.process.send_signal(signal.SIGCONT)
        return {'frames': start[2], 'packets': start[0], 'megabytes': round(start[1] / 1e6, 3),
                'idle_frames_s': round(idle[2], 1), 'idle_kilobytes_s': round(idle[1] / 1e3, 2)}

    def lose(self, percent):
        """Let every robot lose a share of the frames."""
        for robot in self.robots:
            robot.lose(percent)

    def wait(self, robots=None, timeout_s=10.0):
        """Wait until each robot has a pose; gives the seconds it took, and how many have none."""
        waiting, began = list(self.robots if robots is None else robots), time.monotonic()
        every = len(waiting)
        while waiting and time.monotonic() - began < timeout_s:
            waiting = [robot for robot, found in zip(waiting, self.each('take', robots=waiting))
                       if not found]
            time.sleep(0.05)
        if len(waiting) == every:
            raise RuntimeError(f'no robot has a pose after {timeout_s:g} s; the node:\n'
                               f'{self.node.text()}')
        return time.monotonic() - began, len(waiting)

    def measure(self, output, seconds, robots=None):
        """
        Measure a stream.

        :returns: columns of a row.
        """
        robots = self.robots if robots is None else robots
        self.each('take', robots=robots)
        before = (self.counters(), spent_s(self.node.process.pid), machine())
        begin_ns = time.time_ns()
        time.sleep(seconds)
        end_ns = time.time_ns()
        took, counts = (end_ns - begin_ns) / 1e9, self.counters() - before[0]
        node_s = spent_s(self.node.process.pid) - before[1]
        busy, whole = (now - then for now, then in zip(machine(), before[2]))
        taken = self.each('take', robots=robots)
        period_ns = round(1e9 / RATES_HZ.get(output, self._rate))
        ages = np.concatenate([figures.ages_ms(found, begin_ns, end_ns) for found in taken])
        if not len(ages):
            ages = np.array([np.inf])
        return {'kilobytes_s': round(float(counts[1]) / took / len(self.robots) / 1e3, 2),
                'p50_ms': round(float(np.percentile(ages, 50)), 2),
                'p99_ms': round(float(np.percentile(ages, 99)), 2),
                'missed_percent': round(100 * statistics.mean(figures.share_without(
                    found, begin_ns, end_ns, period_ns) for found in taken), 2),
                'node_percent': round(100 * node_s / took, 1),
                'machine_percent': round(100 * busy / whole)}

    def p99_of_others(self):
        """Measure the age of the newest pose at all robots but the last (ms)."""
        return self.measure(self._outputs[0], GONE_S, self.robots[:-1])['p99_ms']

    def fail(self, fault, before):
        """
        Let the last robot fail.

        :param before: p99 at the others before (ms).
        :returns: columns of a row.
        """
        last = self.robots[-1]
        if fault == 'out of range':
            last.link(False)
        else:
            last.signal(signal.SIGSTOP)
        during = self.p99_of_others()
        if fault == 'out of range':
            last.link(True)
        else:
            last.signal(signal.SIGCONT)
        self.each('take', robots=[last])
        return {'before_ms': before, 'during_ms': during, 'ratio': round(during / before, 3),
                'back_s': round(self.wait([last])[0], 2)}


def session(number, count, discovery, options, rows):
    """Measure one number of robots with one discovery: all figures that belong to it."""
    where = {'run': number, 'discovery': discovery, 'robots': count}
    with Swarm(count, discovery, options.rate, options.outputs) as swarm:
        rows['starts'].append({**where, **swarm.start()})
        first = discovery == options.discovery[0]
        # The others with every second number of robots: they show the same.
        every = first and count in options.robots[::-2]
        outputs = options.outputs if every else options.outputs[:1]
        for output in outputs:
            swarm.listen(output)
            mute = swarm.wait()[1]
            time.sleep(0.5)
            rows['streams'].append({**where, 'output': output, 'loss': 0, 'mute': mute,
                                    **swarm.measure(output, options.seconds)})
        if first and count == options.some:
            swarm.listen(options.outputs[0])
            swarm.wait()
            for loss in options.losses[1:]:
                swarm.lose(loss)
                rows['streams'].append({
                    **where, 'output': options.outputs[0], 'loss': loss, 'mute': 0,
                    **swarm.measure(options.outputs[0], options.seconds)})
            swarm.lose(0)
            if number % 2 and options.faults:
                before = swarm.p99_of_others()
                rows['faults'] += [{'run': number, 'fault': fault, **swarm.fail(fault, before)}
                                   for fault in options.faults]


def discoveries(number, count, options):
    """
    Give the discoveries to measure with so many robots.

    All of them with the largest and the third largest number, in every second run; the first one
    always.
    """
    every = number % 2 and count in options.robots[-3::2]
    return options.discovery if every else options.discovery[:1]


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='one short run')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--minutes', type=float, default=15.0, help='begin no run that ends later')
    parser.add_argument('--robots', type=int, nargs='+', default=[1, 2, 4, 8, 16, 32])
    parser.add_argument('--discovery', nargs='+', choices=tuple(figures.DISCOVERIES),
                        default=list(figures.DISCOVERIES)[:4],
                        help='the first one with all numbers of robots')
    parser.add_argument('--outputs', nargs='+', default=['own', 'poses', 'tf'],
                        help='the first one is also measured with loss and faults')
    parser.add_argument('--losses', type=int, nargs='+', help='%% of the frames')
    parser.add_argument('--faults', nargs='*', default=FAULTS, choices=FAULTS)
    parser.add_argument('--some', type=int, default=8, help='robots with loss and faults')
    parser.add_argument('--rate', type=float, default=100.0, help='of Motive (Hz)')
    parser.add_argument('--seconds', type=float, default=2.0, help='of each measurement')
    parser.add_argument('--mbit', type=float, default=54.0, help='of the access point')
    parser.add_argument('--output', type=Path, default=ROOT / 'bench' / 'results')
    parser.add_argument('--write-docs', action='store_true')
    options = parser.parse_args()
    if options.quick:
        options.runs, options.robots, options.seconds, options.faults = 1, [2], 1.5, []
        options.some = 2
    options.losses = options.losses or (LOSSES[::3] if options.quick else LOSSES)
    if options.write_docs:
        options.output = ROOT / 'docs' / 'data'
    began, load = time.monotonic(), os.getloadavg()[0]
    try:
        own_namespace()
        make_ground(options.mbit)
    except NoNetwork as error:
        print(f'swarm: {error}', file=sys.stderr)
        return 2
    rows = {'starts': [], 'streams': [], 'faults': []}
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    runs = longest_s = 0
    try:
        while runs < options.runs and (
                time.monotonic() - began + longest_s < 60 * options.minutes):
            runs, run_began = runs + 1, time.monotonic()
            for count in options.robots:
                for discovery in discoveries(runs, count, options):
                    print(f'{time.monotonic() - began:5.0f} s: run {runs}, {discovery}, '
                          f'{count} robots', file=sys.stderr, flush=True)
                    session(runs, count, discovery, options, rows)
                    for name, found in rows.items():
                        if found:
                            figures.write_rows(options.output / f'swarm_{name}.csv', found)
            longest_s = max(longest_s, time.monotonic() - run_began)
    except KeyboardInterrupt:
        print('swarm: interrupted', file=sys.stderr)
        return 130
    text = (f'`make bench-swarm`: medians of {runs} runs (least to largest; all discoveries and '
            f'the faults in {(runs + 1) // 2} of them), Motive at {options.rate:g} Hz, load of '
            f'the machine {load:.0f} before and {os.getloadavg()[1]:.0f} after on '
            f'{os.cpu_count()} cores, {(time.monotonic() - began) / 60:.0f} minutes.\n\n'
            + figures.tables(**rows))
    print(text)
    picture = options.output / 'swarm_curves.svg'
    if options.write_docs:
        picture = ROOT / 'docs' / 'img' / 'swarm_curves.svg'
        page = ROOT / 'docs' / 'evidence' / 'swarm.md'
        begin, end = (f'<!-- bench/swarm.py: {word} -->' for word in ('begin', 'end'))
        before, _, rest = page.read_text().partition(begin)
        page.write_text(f'{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}')
    figures.draw(rows['starts'], rows['streams'], picture)
    return 0


if __name__ == '__main__':
    sys.exit(main())
