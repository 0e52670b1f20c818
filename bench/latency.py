# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the way of a pose from the server's socket to a subscriber in another process.

    make bench                              a few minutes; tables, latency.json and two pictures
    make bench ARGS=--quick                 one point, to see that it works
    make bench ARGS=--write-docs            renew docs/evidence/performance.md too

Real processes on the loopback interface with real DDS: a sender that writes the time into every
pose, a bridge, and a subscriber that takes the poses as bytes. Five bridges take turns:

    floor         the barest bridge in Python: datagram in, ready-made bytes out (latency_floor.py)
    node          this node with poses and TF in ENU
    floor all on  the floor with as many messages as `all on`, which are the least that it takes
    all on        this node with NED, odometry, velocities, covariances, all subscribed to
    polled        PyPI's motioncapture at 100 Hz and rclpy messages (latency_polled.py)

More can be asked for with --bridges: `calm floor` and `calm floor all on`, the floors with what
drivers/client_io.py does; `floor poses` and `node poses`, which publish no TF; `natnet`, this node
with poses and TF in ENU, from a sender of NatNet; `plain` and `plain all on`, this node without
compiled modules.
--vrpn-mocap PATH adds the C++ client vrpn_mocap, whose executable (client_node) that is, polling
at 100 Hz, its default, and at 1000 Hz; it publishes poses alone. --before DIRECTORY adds another
checkout of this package as `before` and `before all on`, without compiled modules, and --peer
COMMAND any other client for VRPN as `peer`, in which {port} and {bodies} are replaced. It has to
publish /bodyNNN/pose along the sender's axes; what it does not publish is not counted.
--best-effort measures every bridge with best effort subscribers too, --best-effort only no others.
--receiver PATH replaces latency_receiver.py by an executable that takes its options and commands
and gives its answers, as one in C++: the processor time of the receiver adds to every latency.
--sender PATH replaces latency_sender.py likewise, for example by a server of the VRPN library.
"""

import argparse
import contextlib
import functools
import json
import os
from pathlib import Path
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from builds import variables_of
from latency_bridges import (
    BEST_EFFORT, BRIDGES, command_of, MORE_BRIDGES, POLL_RATES, vrpn_mocap_bridges)
from latency_tables import (
    client_table, side_by_side, summary, tables, write_block)

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
from optitrack_vrpn import RUNS  # noqa: E402
from optitrack_vrpn.cli.signals_io import end_with  # noqa: E402
from optitrack_vrpn.node.graph.domain_io import (  # noqa: E402
    claim_domain, DomainClaim, isolate, own_domain)
HERE = ROOT / 'bench'
DOCS = ROOT / 'docs' / 'evidence' / 'performance.md'
POINTS = ((1, 240), (20, 240), (50, 240), (100, 240))
#: Further tables of the documents: page, and the function that writes the table.
BLOCKS = {
    'vrpn_mocap': (DOCS, client_table),
    'natnet': (ROOT / 'docs' / 'evidence' / 'natnet.md',
               functools.partial(side_by_side, bridges=('node', 'natnet')))}
SETTLE_S = 1.5
#: ROS domains of this process, which it holds until its end.
CLAIMS: list[DomainClaim] = []


class Child:
    """
    A process of the measurement, which reads and answers lines; it ends with this process.

    :param command: arguments for Python, or the absolute path of a program and its arguments.
    :param variables: its environment.
    """

    def __init__(self, command, variables):
        # A separate program is named by its path.
        words = [] if os.path.isabs(command[0]) else [sys.executable]
        self.log = tempfile.TemporaryFile('w+', errors='replace')
        self.started_ns = time.monotonic_ns()
        self.process = subprocess.Popen(
            [*words, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env=variables, cwd=HERE, start_new_session=True,
            preexec_fn=functools.partial(end_with, os.getpid()))

    def line(self):
        """Read a line of its output."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f'{self.process.args} ended:\n{self.said()}')
        return line

    def said(self):
        """Read the end of what it logged."""
        self.log.seek(0)
        return self.log.read()[-3000:]

    def ask(self, command):
        """Send a command and read the answer."""
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()
        return json.loads(self.line())

    def cpu_ns(self):
        """Add up the processor time of all its threads."""
        folder = f'/proc/{self.process.pid}/task'
        total = 0
        for thread in os.listdir(folder):
            with contextlib.suppress(OSError), open(f'{folder}/{thread}/schedstat') as stream:
                total += int(stream.read().split()[0])
        if total:
            return total
        with open(f'/proc/{self.process.pid}/stat') as stream:    # to a hundredth of a second
            fields = stream.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) * (10**9 // os.sysconf('SC_CLK_TCK'))

    def resident_mb(self):
        """Read how much memory it occupies."""
        with open(f'/proc/{self.process.pid}/status') as stream:
            for line in stream:
                if line.startswith('VmRSS:'):
                    return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        """End it in order; SIGTERM, as a job in the background ignores SIGINT."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.log.close()


def environment():
    """
    Make the variables of all processes: a domain of their own on this machine alone.

    What a missed announcement of DDS takes is no bridge's doing: all of them find each other soon.
    """
    variables = dict(os.environ)
    # Installed packages have byte code; with this variable each start would compile this one.
    variables.pop('PYTHONDONTWRITEBYTECODE', None)
    profile = str(ROOT / 'config' / 'fast_discovery.xml')
    variables.update(
        FASTRTPS_DEFAULT_PROFILES_FILE=profile, FASTDDS_DEFAULT_PROFILES_FILE=profile,
        # The installed package comes first, if this process has it.
        PYTHONPATH=os.pathsep.join(filter(None, [os.environ.get('PYTHONPATH'), str(ROOT)])))
    CLAIMS.append(claim_domain({own_domain()}))
    isolate(variables, CLAIMS[-1].domain)
    return variables


def measure(bridge, bodies, rate, seconds, variables, others):
    """
    Start everything, let it settle, and take the figures of one run.

    :returns: latencies (us), losses, processor time a pose (us) and share of a core (%),
        resident memory (MB), seconds from the bridge's start until the server streams to it and
        until its first pose has reached the subscriber, which DDS has to discover first.
    """
    bridge, best_effort = bridge.removesuffix(BEST_EFFORT), bridge.endswith(BEST_EFFORT)
    own = dict(variables)
    if bridge.startswith(('plain', 'before')):
        own = variables_of(
            others.before if bridge.startswith('before') else ROOT, True, variables)
    with contextlib.ExitStack() as stack:
        def start(*command, variables=variables):
            child = Child(command, variables)
            stack.callback(child.stop)
            return child

        sender = start('latency_sender_natnet.py' if bridge == 'natnet' else
                       others.sender or 'latency_sender.py',
                       '--bodies', str(bodies), '--rate', str(rate))
        receiver = start(others.receiver or 'latency_receiver.py', '--bodies', str(bodies), *(
            ['--everything'] if bridge.endswith('all on') else []), *(
            ['--best-effort'] if best_effort else []))
        port = int(sender.line())
        receiver.line()
        time.sleep(0.3)
        command, order = command_of(bridge, port, bodies, best_effort, others)
        child = start(*command, variables=own)
        first = receiver.ask('wait 30')
        if first['first_ns'] is None:
            raise RuntimeError(
                f'{bridge} with {bodies} bodies at {rate} Hz: no poses ({first}):\n{child.said()}')
        streamed_ns = int(sender.line())
        time.sleep(SETTLE_S)
        receiver.ask('forget')
        began, cpu = time.monotonic_ns(), child.cpu_ns()
        time.sleep(seconds)
        cpu, lasted = child.cpu_ns() - cpu, time.monotonic_ns() - began
        figures = receiver.ask(f'collect {order}')
        if not figures['latencies_us']:
            raise RuntimeError(f'{bridge} with {bodies} bodies at {rate} Hz: no pose in '
                               f'{seconds:g} s; the load of this computer is {load():.0f}')
        figures.update(
            cpu_percent=100.0 * cpu / lasted,
            # Of the poses that were sent; the polled bridge looks at fewer.
            cpu_us=cpu / 1e3 / (bodies * rate * lasted / 1e9),
            resident_mb=child.resident_mb(),
            connected_s=(streamed_ns - child.started_ns) / 1e9,
            first_pose_s=(first['first_ns'] - child.started_ns) / 1e9)
        return figures


def load():
    """Return how busy the machine is; what else runs on it is in the figures."""
    return os.getloadavg()[0]


def run(points, bridges, repetitions, seconds, others):
    """
    Measure all bridges at all points, in turn, several times over.

    :param others: the options --peer, --vrpn-mocap, --receiver, --sender and --before.
    """
    variables = environment()
    runs = {}
    for repetition in range(repetitions):
        for bodies, rate in points:
            # The load of the machine can change between the first and the last bridge.
            order = bridges if repetition % 2 == 0 else bridges[::-1]
            for bridge in order:
                figures = measure(bridge, bodies, rate, seconds, variables, others)
                runs.setdefault((bodies, rate, bridge), []).append(figures)
                ordered = sorted(figures['latencies_us'])
                print(f'{repetition + 1}/{repetitions}  {bodies:3} x {rate:4} Hz  {bridge:20} '
                      f'p50 {statistics.median(ordered):8.0f} us  '
                      f'{figures["cpu_percent"]:5.1f} % of a core  '
                      f'lost {figures["lost"] + figures["tf_lost"]}',
                      file=sys.stderr, flush=True)
    return runs


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='one point, once, briefly')
    parser.add_argument('--repetitions', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=3.0, help='measured, of every run')
    parser.add_argument('--points', nargs='+', metavar='BODIESxHZ')
    parser.add_argument('--bridges', nargs='+', choices=BRIDGES + MORE_BRIDGES, default=BRIDGES)
    parser.add_argument('--best-effort', nargs='?', const='too', choices=('too', 'only'),
                        help='and such subscribers too, or no others')
    parser.add_argument('--before', type=Path, metavar='DIRECTORY', help='another checkout')
    parser.add_argument('--peer', metavar='COMMAND', help='another client for VRPN')
    parser.add_argument('--vrpn-mocap', type=os.path.abspath, metavar='PATH',
                        help="the C++ client's executable")
    parser.add_argument('--poll-rates', nargs='+', type=int, default=POLL_RATES, metavar='HZ',
                        help='of the C++ client')
    parser.add_argument('--receiver', type=os.path.abspath, metavar='PATH',
                        help='an executable in place of latency_receiver.py')
    parser.add_argument('--sender', type=os.path.abspath, metavar='PATH',
                        help='an executable in place of latency_sender.py')
    parser.add_argument('--output', type=Path, default=HERE / 'results', help='a folder')
    parser.add_argument('--write-docs', action='store_true', help='renew the page')
    parser.add_argument(
        '--write-block', choices=tuple(BLOCKS), help='renew one of its other tables alone')
    arguments = parser.parse_args()
    for path in filter(None, (arguments.vrpn_mocap, arguments.receiver, arguments.sender)):
        if not os.access(path, os.X_OK):
            parser.error(f'{path} is no executable')
    points, repetitions, seconds = POINTS, arguments.repetitions, arguments.seconds
    if arguments.points:
        points = [tuple(map(int, point.split('x'))) for point in arguments.points]
    if arguments.quick:
        points, repetitions, seconds = [(1, 240)], 1, 1.5
    # Ended from outside, it ends its processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    before = load()
    if RUNS != 'compiled':
        print(f'the node runs {RUNS}: start this by make bench', file=sys.stderr)
    bridges = list(arguments.bridges)
    if arguments.before:
        arguments.before = arguments.before.resolve()
        bridges += ['before'] + ['before all on'] * ('all on' in bridges)
    if arguments.peer:
        bridges.append('peer')
    bridges += vrpn_mocap_bridges(arguments.vrpn_mocap, arguments.poll_rates)
    best_effort = [bridge + BEST_EFFORT for bridge in bridges] if arguments.best_effort else []
    bridges = best_effort if arguments.best_effort == 'only' else bridges + best_effort
    runs = run(points, tuple(bridges), repetitions, seconds, arguments)
    result = summary(runs)
    result['machine'] = {
        'processors': os.cpu_count(), 'machine': platform.machine(),
        'system': f'{platform.system()} {platform.release()}',
        'python': platform.python_version(), 'ros': os.environ.get('ROS_DISTRO') or 'jazzy (PyPI)',
        'node': RUNS, 'load_before': round(before, 2), 'repetitions': repetitions,
        'seconds': seconds}
    text = tables(result)
    print(text)
    if arguments.write_block:
        page, table = BLOCKS[arguments.write_block]
        write_block(page, arguments.write_block, table(result))
        return 0
    arguments.output.mkdir(parents=True, exist_ok=True)
    places = [arguments.output]
    if arguments.write_docs:
        places.append(ROOT / 'docs' / 'img')
        write_block(DOCS, 'bench', text)
    (arguments.output / 'latency.json').write_text(json.dumps(result, indent=1) + '\n')
    try:
        import latency_plot
    except ImportError as error:
        print(f'no pictures: {error}', file=sys.stderr)
        return 0
    for place in places:
        latency_plot.distributions(runs, place / 'latency.png')
        latency_plot.scaling(result, place / 'latency_scaling.png')
    print(f'figures and pictures are in {os.path.relpath(arguments.output)}', file=sys.stderr)
    return 0


if __name__ == '__main__':
    sys.exit(main())
