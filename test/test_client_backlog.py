# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Data delayed on the way are old on arrival and must not be published as current."""

import itertools
import math
import threading
import time

from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.stream.bodies.states import Disposition
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from pipeline_kit import make_pipeline
import pytest
from server_kit import FakeServer
from transport_kit import client, greeted, link, pose, Recorder, wait_until

PERIOD_S = 0.004
HELD_UP_S = 3.0
MAX_AGE_S = 0.25
#: Between a pose's sending and its stamp lie the estimator's error and this machine's scheduling.
SLACK_S = 0.1
#: Motive counts from its own start.
SENDER_START_US = 1_234_567_000


class Clocked:
    """
    A server of bare sockets whose poses tell when they were sent.

    :ivar network_stands: while it is set, what is sent waits on its way.
    :ivar sent_ns: when each frame had been sent, on the arrival clock; x is the frame in
        millimetres.
    :ivar stamped_ns: what its own time says, which is earlier by whatever held the server up.
    """

    def __init__(self, way):
        self.way = way
        self.network_stands = threading.Event()
        self.sent_ns = []
        self.stamped_ns = []

    def __call__(self, server, sock):
        with greeted(sock, self.way) as send:
            began_ns = HostClock.now_ns()
            waiting = []
            for frame in itertools.count():
                due_ns = began_ns + round(frame * PERIOD_S * 1e9)
                while HostClock.now_ns() < due_ns:
                    if server.stopping.wait(max(0.0, (due_ns - HostClock.now_ns()) / 1e9)):
                        return
                now_ns = HostClock.now_ns()
                self.stamped_ns.append(now_ns)
                waiting.append(pose(
                    time_us=SENDER_START_US + (now_ns - began_ns) // 1000, x=frame / 1000.0))
                if not self.network_stands.is_set():
                    send(b''.join(waiting))
                    waiting.clear()
                self.sent_ns.append(HostClock.now_ns())


class Published:
    """
    What one way of stamping lets out.

    :ivar out: (frame, when it went out) of each sample, on the arrival clock.
    :ivar taken: (frame, when it was taken) of each pose.
    """

    def __init__(self, mode):
        self.pipeline = make_pipeline(mode, max_age_s=MAX_AGE_S)
        self.out = []
        self.taken = []
        self.stamps = []

    def process(self, events, arrival_ns, host_minus_arrival_ns):
        now_ns = HostClock.now_ns()
        self.taken += [(round(body.position[0] * 1000), now_ns) for event in events
                       if isinstance(event, Frame) for body in event.bodies]
        found = self.pipeline.process(events, arrival_ns, host_minus_arrival_ns, now_ns)
        for sample in found.samples:
            # The length of the position, whatever axes it is in: y is 2 m and z is 3 m.
            x = math.sqrt(sum(c * c for c in sample.position) - 13.0)
            self.out.append((round(x * 1000), now_ns))
            self.stamps.append(sample.stamp_ns)

    def check(self, server, held_ns, released_ns):
        """Hold what went out against the server's own record of what it sent when."""
        ages = [(now_ns - server.sent_ns[frame]) / 1e9 for frame, now_ns in self.out]
        assert max(ages) < MAX_AGE_S + SLACK_S, 'a stale pose went out as fresh'
        assert all(b >= a for a, b in zip(self.stamps, self.stamps[1:]))
        (channel,) = self.pipeline.bodies
        stale = sum(held_ns <= at_ns < released_ns - MAX_AGE_S * 1e9 for at_ns in server.sent_ns)
        assert stale > 50
        # Whatever was old when its turn came is counted, as old or as coming out of a buffer.
        limit_ns = (MAX_AGE_S + SLACK_S) * 1e9
        least = sum(now_ns - server.sent_ns[n] > limit_ns for n, now_ns in self.taken)
        assert stale * 0.8 <= least <= (
            channel.dropped[Disposition.TOO_OLD] + channel.dropped[Disposition.BACKLOG])
        frames = [frame for frame, _ in self.out]
        assert max(b - a for a, b in zip(frames, frames[1:])) >= stale * 0.8


class Publishing(Recorder):
    """A sink that does what the node does with poses, for several ways of stamping at once."""

    def __init__(self, *modes):
        super().__init__()
        self.published = [Published(mode) for mode in modes]
        self.before = lambda: None

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        self.before()
        for published in self.published:
            published.process(events, arrival_ns, host_minus_arrival_ns)
        super().receive(events, arrival_ns, host_minus_arrival_ns)

    def all_have(self, count):
        """Return whether each way of stamping let so many poses out."""
        return all(len(published.out) >= count for published in self.published)

    def all_past(self, frame):
        """Return whether each way of stamping is past a frame."""
        return all(published.out[-1][0] > frame for published in self.published)


def test_no_stale_pose_is_published_after_a_network_outage():
    clocked, sink = Clocked('tcp'), Publishing('tracking', 'min_offset')
    with FakeServer(clocked) as server:
        with client(server.port, sink, link=link(connection='tcp', silent_after_s=2.0)):
            sink.wait(lambda: sink.all_have(1.2 / PERIOD_S))
            clocked.network_stands.set()
            held_ns, held_frame = HostClock.now_ns(), len(clocked.sent_ns)
            time.sleep(HELD_UP_S)
            sink.wait_state(LinkState.SILENT)
            released_ns, released_frame = HostClock.now_ns(), len(clocked.sent_ns)
            arrived = len(sink.poses)
            clocked.network_stands.clear()
            sink.wait(lambda: sink.all_past(released_frame + 100))
    # All of it came in one burst; nothing was lost in the network.
    assert len(sink.poses) >= arrived + released_frame - held_frame
    for published in sink.published:
        published.check(clocked, held_ns, released_ns)
    assert sink.states.count(LinkState.STREAMING) == 2
    assert LinkState.SILENT in sink.states and LinkState.LOST not in sink.states


@pytest.mark.parametrize(('way', 'modes'), [
    ('udp', ['tracking', 'min_offset', 'arrival']),
    # One read of a stream has one arrival, that of its last byte, which says nothing of the rest.
    ('tcp', ['tracking', 'min_offset'])])
def test_no_stale_pose_is_published_after_a_halted_process(way, modes):
    """The kernel knows when a datagram came, so that even stamps by arrival tell its age."""
    clocked, sink = Clocked(way), Publishing(*modes)
    standing, go_on = threading.Event(), threading.Event()

    def stand_still():
        if sink.all_have(150) and not standing.is_set():
            standing.set()
            go_on.wait(30.0)
    sink.before = stand_still
    with FakeServer(clocked) as server:
        with client(server.port, sink, link=link(connection=way)):
            assert standing.wait(30.0)
            held_ns, held_frame = HostClock.now_ns(), len(clocked.sent_ns)
            time.sleep(0.6)
            wait_until(lambda: len(clocked.sent_ns) > held_frame + 100)   # a busy server too
            time.sleep(MAX_AGE_S + 0.1)
            released_ns, released_frame = HostClock.now_ns(), len(clocked.sent_ns)
            go_on.set()
            sink.wait(lambda: sink.all_past(released_frame + 50))
    for published in sink.published:
        published.check(clocked, held_ns, released_ns)
