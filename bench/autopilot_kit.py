# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Server, node, bridges and fake autopilots, and an evaluation of every sent message.

The bodies move without noise on curves that never repeat, so that the numbers of a message
identify its frame; the server reports when that frame was due.
"""

from contextlib import closing, ExitStack
import math
import time
from typing import NamedTuple

from fault_kit import Server
import numpy as np
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig, FakeServer
from rosgraph import NodeProcess, wait_until
from scipy.spatial.transform import Rotation
from serial_autopilot import SerialFakeServer

RATE = 120.0
#: Float32 of positions up to some metres.
SAME_M = 5e-6
NED_FROM_MOTIVE = Rotation.from_matrix([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
GAP_S = 0.2
#: Period (s) of the motion of the first body; no multiple of it is a multiple of a second.
MOTION_S = 7.318309886


def scenario(faults=(), frame_faults=(), rate=RATE, period_s=MOTION_S):
    """
    Make a scenario of two bodies, of which the first has faults.

    :param period_s: of the motion of the first body.
    """
    return {'rate': rate, 'faults': list(frame_faults), 'bodies': [
        {'name': name, 'faults': list(faults) if name == 'cf1' else [], 'motion': {
            'type': 'figure_eight', 'centre': [0, 1.2, 3 * i], 'length': 1.5, 'width': 0.7,
            'climb': 0.3, 'period': period_s + 0.618 * i}}
        for i, name in enumerate(('cf1', 'cf2'))]}


def faulty(times, every_s, period_s):
    """
    Make a scenario with the four faults of a body, again and again.

    :param times: begin and end (s) of 'silent', 'frozen', 'teleported' and 'swapped'.
    :param every_s: the faults' period.
    :param period_s: of the motion of the first body.
    """
    times = {name: {'start': begin, 'end': end, 'every': every_s}
             for name, (begin, end) in times.items()}
    return scenario(
        [{'type': 'occlusion', 'mode': 'silent', **times['silent']},
         {'type': 'occlusion', 'mode': 'frozen', **times['frozen']},
         {'type': 'teleport', **times['teleported']}],
        [{'type': 'swap_labels', 'bodies': ['cf1', 'cf2'], **times['swapped']}],
        period_s=period_s)


class Verdict(NamedTuple):
    """
    Evaluation of the messages to one autopilot.

    :ivar messages: how many.
    :ivar wrong: not the true pose of the frame that the stamp names.
    :ivar backwards: the stamp is not later than the one before.
    :ivar oldest_ms: greatest time from the frame to the arrival.
    :ivar oldest_stamp_ms: greatest age by the stamp.
    :ivar counters: reset counter after each change, with the first.
    :ivar gaps: gaps of more than 0.2 s between stamps.
    :ivar stamps: all stamps (ns).
    :ivar rate_hz: of the stamps, without gaps.
    :ivar silent_gaps: gaps after which the reset counter was the same as before.
    """

    messages: int
    wrong: int
    backwards: int
    oldest_ms: float
    oldest_stamp_ms: float
    counters: list[int]
    gaps: int
    stamps: list[int]
    rate_hz: float
    silent_gaps: int


class Flight:
    """
    One session.

    :ivar servers: simulated Motives, in order.
    :ivar fakes: by the name of the autopilot.
    :ivar bridges: processes, likewise.
    """

    def __init__(self, mapping, folder):
        self._stack = ExitStack()
        self._folder = folder
        self.servers = [self._stack.enter_context(closing(Server(mapping)))]
        self.fakes = {}
        self.bridges = {}
        self.node = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def start_node(self, **parameters):
        """Start the node; with velocities."""
        arguments = []
        for name, value in {'autostart': 'true', 'server': '127.0.0.1',
                            'port': self.servers[-1].port,
                            'outputs': '[pose, odom, status]', **parameters}.items():
            arguments += ['-p', f'{name}:={value}']
        self.node = self._stack.enter_context(NodeProcess(*arguments))
        return self.node

    def start_bridge(self, autopilot, serial=False, armed=False, **parameters):
        """Start a bridge and its fake autopilot, whose clock is another one and 40 ppm fast."""
        fake = FakeAutopilot(FakeConfig(
            autopilot, epoch_ns=time.time_ns(), boot_ns=50_000_000_000, skew_ppm=40.0,
            timesync_hz=50.0, convergence=100, armed=armed))
        server = self._stack.enter_context(
            SerialFakeServer(fake, f'{self._folder}/tty-{autopilot}') if serial
            else FakeServer(fake))
        arguments = ['-r', f'__node:=bridge_{autopilot}']
        for name, value in {'body': 'cf1', 'autopilot': autopilot, 'autostart': 'true',
                            'connection': server.connection, **parameters}.items():
            arguments += ['-p', f'{name}:={value}']
        self.fakes[autopilot] = server
        self.bridges[autopilot] = self._stack.enter_context(
            NodeProcess(*arguments, tool='mavlink_bridge'))
        return server

    def seconds(self):
        """Return the time of the scenario."""
        return (time.time_ns() - self.servers[-1].origin_ns) / 1e9

    def until(self, seconds):
        """Wait until a time of the scenario."""
        wait_until(lambda: self.seconds() >= seconds, 900.0, f'second {seconds}')

    def heard(self, autopilot):
        """Return the messages so far."""
        return list(self.fakes[autopilot].heard)

    def judge(self, autopilot, begin_ns=0, body='cf1'):
        """
        Compare messages with the truth.

        :param begin_ns: messages that arrived before this are left out (host's clock).
        """
        heard = [one for one in self.heard(autopilot) if one.arrival_ns >= begin_ns]
        stamps = [one.message.time_usec * 1000 for one in heard]
        spaces = np.diff(stamps) / 1e9
        frames = [self.frame_of(one, body) for one in heard]
        known = [(one, frame) for one, frame in zip(heard, frames) if frame is not None]
        counters = [one.message.reset_counter for one in heard]
        steady = spaces[spaces < GAP_S]
        return Verdict(
            len(heard), len(heard) - len(known), int(np.sum(spaces <= 0)),
            max(((one.arrival_ns - due) / 1e6 for one, due in known), default=math.nan),
            max((one.arrival_ns - stamp) / 1e6 for one, stamp in zip(heard, stamps)),
            [counters[0], *(b for a, b in zip(counters, counters[1:]) if a != b)],
            int(np.sum(spaces > GAP_S)), stamps, 1 / np.mean(steady),
            sum(space > GAP_S and a == b
                for space, a, b in zip(spaces, counters, counters[1:])))

    def frame_of(self, heard, body):
        """Find the frame that a message shows near its stamp: when it was due, or None."""
        fields = heard.message.to_dict()
        for server in self.servers:
            seconds = (fields['time_usec'] * 1000 - server.origin_ns) / 1e9
            nearest = round(seconds * server.scenario.rate)
            if nearest < 0:
                continue
            # The stamp is some milliseconds late until the node has learnt the clocks.
            numbers = np.arange(max(0, nearest - 12), nearest + 3)
            truth = server.world.truth(body, numbers / server.scenario.rate)
            places = NED_FROM_MOTIVE.apply(truth.position)
            distance = np.linalg.norm(
                places - [fields['x'], fields['y'], fields['z']], axis=1)
            row = int(np.argmin(distance))
            w, x, y, z = fields['q']
            attitude = NED_FROM_MOTIVE * Rotation.from_quat(
                truth.quat_xyzw[row]) * NED_FROM_MOTIVE.inv()
            if distance[row] < SAME_M and (
                    Rotation.from_quat((x, y, z, w)) * attitude.inv()).magnitude() < 1e-5:
                return server.origin_ns + numbers[row] * 1e9 / server.scenario.rate
        return None
