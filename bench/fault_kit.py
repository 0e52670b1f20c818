# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The real node, servers with faults, and an evaluation with the true poses.

The bodies move without noise on curves that never repeat, so that the numbers of a published pose
identify its frame. Published poses are received as bytes, with the time at which the writer wrote
them.
"""

from contextlib import ExitStack
import json
import math
from pathlib import Path
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus
from fault_protocol import (
    NATNET, parameters as protocol_parameters, relay_to, title, with_protocol)
from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import World
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rosgraph import NodeProcess, Observer, position, quat_xyzw, wait_until
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

HERE = Path(__file__).resolve().parent
RATE = 100.0
#: The node publishes no pose older than this (stamps.max_age_s), and takes a moment to write it.
MAX_AGE_S = 0.25
WRITING_S = 0.1
SAME = 1e-6
LOG = re.compile(r'\[(INFO|WARN|ERROR)\] \[(\d+)\.(\d{9})\] \[[^\]]*\]: (.*)')


class Heard(NamedTuple):
    """
    One pose that was published.

    :ivar at_ns: when it was written, on the host's clock.
    """

    at_ns: int
    stamp_ns: int
    position: tuple[float, float, float]
    quat_xyzw: tuple[float, float, float, float]


def scenario(bodies=3, **more):
    """Make a scenario of bodies that fly apart from each other and never come by a place twice."""
    listed = [{'name': f'body{i}', 'motion': {
        'type': 'figure_eight', 'centre': [0, 1 + 3 * (i // 5), 5 * (i % 5)], 'length': 1.5,
        'width': 0.7, 'climb': 0.3, 'period': 7.318309886 + 0.6180339887 * i}}
        for i in range(bodies)]
    return with_protocol({'bodies': listed, 'rate': RATE, **more})


class Server:
    """
    A simulated Motive in its own process.

    :param mapping: the scenario.
    :param prefix: what to put before the command.
    :ivar origin_ns: when its frame 0 was due, on the host's clock.
    :ivar away: stretches (ns, host's clock) in which it sent nothing.
    """

    def __init__(self, mapping, port=0, host='127.0.0.1', prefix=()):
        self.scenario = scenario_from_mapping(mapping)
        self.world = World(self.scenario)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(HERE / 'fault_server.py'), json.dumps(mapping), host,
             str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self._answer()
        self.port, self.origin_ns = said['port'], said['origin_ns']
        self.begin_ns = time.time_ns()
        self.end_ns = 1 << 62
        self.away = []

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError('the simulated Motive did not start')
        return json.loads(line)

    def ask(self, command):
        """Give it a command and wait for its answer."""
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()
        return self._answer()

    def kill(self):
        """Kill the process."""
        self.end_ns = time.time_ns()
        self.process.kill()
        self.process.wait()

    def stop_for(self, seconds):
        """Stop the process, and let it go on after a while."""
        begin = time.time_ns()
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)
        # It takes a turn to see that the frames of the stretch are past.
        self.away.append((begin, time.time_ns() + 50_000_000))

    def close(self):
        """End it."""
        self.end_ns = min(self.end_ns, time.time_ns())
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def true_frames(self, begin_ns, end_ns):
        """
        List the true poses that it sent in a stretch of time.

        :returns: (body, frame) pairs.
        """
        first = max(0, math.ceil((max(begin_ns, self.begin_ns) - self.origin_ns) * RATE / 1e9))
        last = math.floor((min(end_ns, self.end_ns) - self.origin_ns) * RATE / 1e9)
        found = []
        times = np.arange(first, last + 1) / RATE
        truth = {name: self.world.truth(name, times) for name in self.world.names}
        for number in range(first, last + 1):
            due = self.origin_ns + number * 1e9 / RATE
            if any(begin <= due <= end for begin, end in self.away):
                continue
            frame = self.world.frame(number)
            if not frame.copies:
                continue
            for report in frame.reports:
                state = truth[report.name]
                row = number - first
                if (math.dist(report.position, state.position[row]) < SAME
                        and abs(np.dot(report.quat_xyzw, state.quat_xyzw[row])) > 1 - SAME):
                    found.append((report.name, number))
        return found


class Session:
    """
    One case: node, servers, listener.

    :param bodies: how many.
    :param listen: subscribe to their poses.
    :ivar servers: those that ran, in order.
    :ivar heard: what was published, by body.
    :ivar reported: (time, whether all is well, state) from the status of every body.
    """

    def __init__(self, bodies, listen=True):
        self.names = [f'body{i}' for i in range(bodies)]
        self.servers = []
        self.heard = {name: [] for name in self.names}
        self.reported = {name: [] for name in self.names}
        self.node = None
        self.observer = None
        self.skipped_before = {}
        self._listen = listen
        self._stack = ExitStack()

    def __enter__(self):
        if not self._listen or self.observer is not None:
            return self    # entered already, with a server and a node in it
        self.observer = self._stack.enter_context(Observer('judge'))
        qos = QoSProfile(depth=20000, reliability=ReliabilityPolicy.RELIABLE)
        self._subscriptions = [self.observer.node.create_subscription(
            PoseStamped, f'/{name}/pose', self._taker(self.heard[name]), qos, raw=True)
            for name in self.names]
        self._subscriptions += [self.observer.node.create_subscription(
            DiagnosticStatus, f'/{name}/status', self._noter(self.reported[name]), qos)
            for name in self.names]
        return self

    def __exit__(self, *_):
        self._stack.close()

    @staticmethod
    def _taker(box):
        def take(data, info):
            message = deserialize_message(bytes(data), PoseStamped)
            stamp, pose = message.header.stamp, message.pose
            box.append(Heard(
                info['source_timestamp'], stamp.sec * 10**9 + stamp.nanosec,
                position(pose), quat_xyzw(pose)))
        return take

    @staticmethod
    def _noter(box):
        def note(status, info):
            box.append((info['source_timestamp'], status.level == DiagnosticStatus.OK,
                        status.message.partition(':')[0]))
        return note

    def server(self, mapping, **where):
        """Start a server."""
        server = Server(mapping, **where)
        self.servers.append(server)
        self._stack.callback(server.close)
        return server

    def start_node(self, port, server='127.0.0.1', **parameters):
        """Start the node."""
        arguments = []
        for name, value in {'autostart': 'true', 'server': server,
                            **protocol_parameters(port), 'outputs': '[pose, status]',
                            **parameters}.items():
            arguments += ['-p', f'{name.replace("__", ".")}:={value}']
        self.node = self._stack.enter_context(NodeProcess(*arguments))
        return self.node

    def hold(self, thing):
        """Enter something that ends with the session."""
        return self._stack.enter_context(thing)

    def steady(self, seconds=1.5):
        """Wait until every body is heard, and a little more; return the time."""
        try:
            wait_until(lambda: all(len(box) > 20 for box in self.heard.values()), 60.0,
                       'poses of every body')
        except AssertionError as error:
            counts = {name: len(box) for name, box in self.heard.items()}
            raise AssertionError(f'{error}: {counts}; the node said\n{self.node.log}') from None
        time.sleep(seconds)
        self.skipped_before = {id(server): server.ask('count')['skipped']
                               for server in self.servers}
        return time.time_ns()

    def skipped(self):
        """Count the frames that servers skipped since all was well: the machine stood still."""
        return sum(
            server.ask('count')['skipped'] - self.skipped_before[id(server)]
            for server in self.servers
            if id(server) in self.skipped_before and server.process.poll() is None)

    def back(self, since_ns, timeout_s=90.0):
        """Wait until every body was heard after a time; return the time of the last first pose."""
        def first():
            return [next((heard.at_ns for heard in list(box) if heard.at_ns > since_ns), None)
                    for box in list(self.heard.values())]
        wait_until(lambda: None not in first(), timeout_s, 'poses of every body again')
        return max(first())

    def noticed(self, since_ns, pattern=r'.*', levels=('WARN', 'ERROR')):
        """Find the node's first word on it: (time, first part of the text), or None."""
        for line in list(self.node.lines):
            match = LOG.match(line)
            if (match and match[1] in levels and re.search(pattern, match[4])
                    and int(match[2] + match[3]) >= since_ns):
                return int(match[2] + match[3]), match[4]
        return None

    def judge(self, begin_ns, end_ns, names=None, fault_ns=0):
        """
        Compare what was published in a stretch of time with the truth.

        :param fault_ns: when the fault began; the least age of what was published before is the
            network's, and in every stamp, since no receiver can see it.
        :returns: counts, and the greatest age and error of a stamp.
        """
        tables = []
        for server in self.servers:
            count = int((min(server.end_ns, time.time_ns()) - server.origin_ns) * RATE / 1e9) + 2
            tables.append({name: _table(server.world, name, count) for name in self.names})
        counts = dict.fromkeys(('poses', 'stale', 'wrong', 'repeated', 'backwards'), 0)
        ages, errors, calm = [], [], []
        seen = set()
        for name in names or self.names:
            last_stamp = 0
            for heard in list(self.heard[name]):
                if heard.at_ns < min(begin_ns, fault_ns):
                    key = self._find(tables, name, heard)
                    if key is not None:
                        calm.append(self._age(heard, key))
                if not begin_ns <= heard.at_ns <= end_ns:
                    continue
                counts['poses'] += 1
                counts['backwards'] += heard.stamp_ns <= last_stamp
                last_stamp = heard.stamp_ns
                key = self._find(tables, name, heard)
                if key is None:
                    counts['wrong'] += 1
                    continue
                counts['repeated'] += key in seen
                seen.add(key)
                ages.append(self._age(heard, key))
                errors.append(ages[-1] - (heard.at_ns - heard.stamp_ns) / 1e9)
                if heard.at_ns < fault_ns:
                    calm.append(ages[-1])
        made = {(i, *frame) for i, server in enumerate(self.servers)
                for frame in server.true_frames(begin_ns, end_ns - 500_000_000)
                if names is None or frame[0] in names}
        least = min(calm, default=0.0)
        counts['stale'] = sum(age - least > MAX_AGE_S + WRITING_S for age in ages)
        return {**counts, 'skipped_frames': self.skipped(),
                'made': len(made), 'lost': len(made - seen), 'least_ms': 1e3 * least,
                'oldest_ms': 1e3 * max(ages, default=0.0),
                'stamp_error_ms': 1e3 * max(errors, default=0.0, key=abs)}

    def _age(self, heard, key):
        """Return how long after its frame a pose was published (s)."""
        return (heard.at_ns - self.servers[key[0]].origin_ns - key[2] * 1e9 / RATE) / 1e9

    @staticmethod
    def _find(tables, name, heard):
        """Look up which frame of which server a pose is."""
        for number, table in enumerate(tables):
            tree, attitudes = table[name]
            distance, index = tree.query(heard.position)
            if distance < SAME and abs(np.dot(heard.quat_xyzw, attitudes[index])) > 1 - SAME:
                return number, name, int(index)
        return None


def _table(world, name, count):
    """Make the true poses of a body in ENU, by scipy: north is Motive's x, up its y."""
    state = world.truth(name, np.arange(count) / RATE)
    position = state.position[:, [2, 0, 1]]
    enu_from_motive = Rotation.from_matrix([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    motive_from_flu = Rotation.from_matrix([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    attitude = enu_from_motive * Rotation.from_quat(state.quat_xyzw) * motive_from_flu
    return cKDTree(position), attitude.as_quat()


# -- a case -------------------------------------------------------------------------------------

BODIES = 3


def row(session, name, judged_from_ns, begin_ns, end_ns, *, settle_s=1.5, recovers=True,
        lag_ns=0, note=''):
    """Wait for the end of a case and sum it up; ``lag_ns`` is how long poses may still come."""
    back_ns = session.back(end_ns + lag_ns) if recovers else None
    time.sleep(settle_s)
    noticed = session.noticed(begin_ns)
    return {
        'name': title(name), 'note': note,
        'noticed_s': None if noticed is None else (noticed[0] - begin_ns) / 1e9,
        'word': '' if noticed is None else word(noticed[1]),
        'recovered_s': None if back_ns is None else (back_ns - end_ns) / 1e9,
        **session.judge(judged_from_ns, time.time_ns(), fault_ns=begin_ns)}


def word(text):
    """Shorten a line of the log to the state that it names."""
    match = re.search(r'-> ([A-Z]+)', text) or re.match(r'(\w+):', text)
    return match[1] if match else text[:40]


def running(mapping=None, bodies=BODIES, relayed=False, connection='auto', **parameters):
    """
    Make a session in which the node streams; for cases that begin so.

    :param relayed: whether a relay stands between the node and the server.
    :param connection: the node's parameter; ``udp`` for faults of datagrams: ``auto`` takes TCP.
    :returns: the session, the relay or else the server, and the time from which poses are judged.
    """
    session = Session(bodies)
    session.__enter__()
    try:
        server = session.server(mapping or scenario(bodies))
        followed = session.hold(relay_to(server.port)) if relayed else server
        session.start_node(followed.port, connection=connection, **parameters)
        steady = session.steady()
        if connection != 'auto' and not NATNET:
            assert any(f'poses by {connection.upper()}' in line for line in session.node.lines)
        return session, followed, steady
    except BaseException:
        session.__exit__()
        raise
