# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Data of the real VRPN library through sockets and the running node to a ROS subscriber.

Server, node and subscriber are apart: recorded bytes on real sockets, the node in its own process,
raw subscriptions here. What must arrive is in the ``.sent.csv.gz`` beside each recording. Every
session is played to the inactive node first, so that its topics are there and matched when it
counts: then no pose may be missing.
"""

from collections import defaultdict
import threading

import numpy as np
import pytest
from rosgraph import NodeProcess, Observer, position, quat_xyzw, stamp_ns, wait_until
from scipy.spatial.transform import Rotation
from server_kit import ReplayServer
import sessions

pytestmark = [pytest.mark.ros, pytest.mark.network]

#: Motive's names and what they are in ROS: a space, a digit at the head, a slash, a hyphen.
NAMES = {
    'Rigid Body 1': 'Rigid_Body_1', '1drone': 'body_1drone', 'wand': 'wand',
    'drone/left': 'drone/left', 'Umbrella-2': 'Umbrella_2', 'rigid_body_1': 'rigid_body_1',
    'rigid_body_2': 'rigid_body_2', 'rigid_body_3': 'rigid_body_3',
}
WORLDS = {'pose': 'optitrack', 'pose_ned': 'optitrack_ned'}
RECORDED = ('motive_like_5x240', 'udp_lob', 'tcp_only')
#: How long a body that returns turned is withheld, and after which time out of view (bodies.md).
HOLD_NS = MEMORY_NS = 10**9


def views(rows, before):
    """
    Split what was sent of one body where it was out of view.

    :param before: the row before the first one.
    :returns: for each part, whether it begins turned, and its rows.
    """
    parts = []
    for last, row in zip([before, *rows], rows):
        if not parts or not 0 < row.sender_time_ns - last.sender_time_ns <= MEMORY_NS:
            turn = Rotation.from_quat(last.quat_xyzw).inv() * Rotation.from_quat(row.quat_xyzw)
            parts.append((turn.magnitude() > np.radians(60.0), []))
        parts[-1][1].append(row)
    return parts


def published(rows, messages):
    """
    Leave out what was withheld at the begin of each view; an attitude seen before is held shorter.

    Everything from the first published pose of a view to its end must have been published.
    """
    kept = []
    for turned_, part in views(rows, rows[-1]):
        if len(kept) >= len(messages):
            return rows    # more are to come
        stamp = stamp_ns(messages[len(kept)])
        first_ns = part[0].sender_time_ns
        assert first_ns <= stamp <= first_ns + (HOLD_NS if turned_ else 0)
        kept += [row for row in part if row.sender_time_ns >= stamp]
    return kept


def turned(world, rows):
    """
    Turn what was sent into a world, as the original package is known to do it.

    :returns: positions (n, 3) and attitudes (n, 4), x y z w.
    """
    x, y, z = np.array([row.vector for row in rows]).T
    a, b, c, d = np.array([row.quat_xyzw for row in rows]).T
    if world == 'pose':
        quats = Rotation.from_quat(np.stack((c, a, b, d), axis=1)) * Rotation.from_euler(
            'z', 90, degrees=True)
        return np.stack((z, x, y), axis=1), quats.as_quat()
    return np.stack((x, z, -y), axis=1), np.stack((a, c, -b, d), axis=1)


def check_values(positions, quats, world, rows):
    """Compare to 1e-12; q and -q are one attitude, but the sign must not flip on the way."""
    expected_positions, expected_quats = turned(world, rows)
    np.testing.assert_allclose(positions, expected_positions, rtol=0, atol=1e-12)
    signs = np.sign(np.sum(np.array(quats) * expected_quats, axis=1, keepdims=True))
    np.testing.assert_allclose(quats, signs * expected_quats, rtol=0, atol=1e-12)


def check_poses(messages, world, rows):
    """Compare the poses of one topic with what was sent of its body."""
    assert len(messages) == len(rows)
    assert {message.header.frame_id for message in messages} == {WORLDS[world]}
    check_values([position(m.pose) for m in messages],
                 [quat_xyzw(m.pose) for m in messages], world, rows)


def by_body(rows):
    """Sort what was sent by body, order kept."""
    sorted_ = defaultdict(list)
    for row in rows:
        sorted_[row.body].append(row)
    return sorted_


class Gate:
    """Lets one session pass each time it is opened, however late that is seen."""

    def __init__(self):
        self._passes = threading.Semaphore(0)
        self.set = self._passes.release

    def is_set(self):
        return self._passes.acquire(blocking=False)


class Setup:
    """Server, node and observer; the server stops before each session's first pose."""

    def __init__(self, played, way, real_time, *arguments):
        self.gate = Gate()
        self.server = ReplayServer(
            played, gate=self.gate, hold_before=2, real_time=real_time)
        self.way = way
        self.arguments = arguments
        self.to_come = len(played)

    def __enter__(self):
        self.server.__enter__()
        self.node = NodeProcess(
            '-p', 'server:=127.0.0.1', '-p', f'port:={self.server.port}',
            '-p', f'connection:={self.way}', '-p', 'connect.retry_max_s:=0.05',
            '-p', 'validation.acquire_frames:=1', '-p', 'qos.depth:=20000',
            '-p', 'load_shedding:=false', *self.arguments)
        self.observer = Observer()
        assert self.observer.transition('configure')
        return self

    def __exit__(self, *_):
        print(self.node.log)    # pytest shows it when the test has failed
        self.observer.close()
        self.node.__exit__()
        self.server.__exit__()

    def play(self):
        """Play the next session to its end."""
        wait_until(self.server.held.is_set, what='the client')
        begun = len(self.server.ways)
        self.gate.set()
        self.to_come -= 1
        if self.to_come:
            wait_until(lambda: len(self.server.ways) > begun and self.server.held.is_set(), 40.0,
                       'the next session')
        else:
            self.server.wait(40.0)

    def subscribe(self, bodies, depth=20000):
        """Subscribe to all poses of some bodies."""
        return {(body, world): self.observer.poses(f'/{NAMES[body]}/{world}', depth)
                for body in bodies for world in WORLDS}

    def activate(self, topics):
        """Activate once every subscription is connected and has got nothing."""
        # The publishers' side of it is sure once the node answers `transition`.
        wait_until(lambda: all(topic.matched == 1 for topic in topics), what='all topics')
        assert not any(len(topic) for topic in topics), 'an inactive node has published'
        assert self.observer.transition('activate')


@pytest.mark.parametrize('way', ['udp', 'tcp'])
def test_every_sent_pose_is_published_with_every_digit(way):
    """
    As fast as the client reads; what arrives at once is told apart by the sender's clock.

    But for a second at most for which a body that turned out of view is withheld.
    """
    played = [session for name in RECORDED for session in sessions.sessions(name)]
    sent = [row for name in RECORDED for row in sessions.sent(name, 'pose')]
    bodies = by_body(sent)
    assert set(bodies) == set(NAMES)
    with Setup([*played, *played], way, False, '-p', 'stamps.mode:=sender',
               '-p', 'stamps.max_age_s:=0.0') as setup:
        topics = setup.subscribe(bodies)
        for _ in played:
            setup.play()
        expected = {f'/{NAMES[body]}/{world}' for body in bodies for world in WORLDS}
        # Topics are made beside the stream, and found by others when they get to it.
        wait_until(lambda: set(setup.observer.topics()) == expected, what=f'just {expected}')
        setup.activate(topics.values())
        for _ in played:
            setup.play()
        for (body, _), topic in topics.items():
            wait_until(lambda t=topic, rows=bodies[body]: (
                len(t) >= len(published(rows, t.messages()))), 20.0, f'all poses of {body}')
        assert setup.server.ways == [way] * 2 * len(played) and not setup.server.interrupted
        for (body, world), topic in topics.items():
            messages = topic.messages()
            rows = published(bodies[body], messages)
            check_poses(messages, world, rows)
            assert [stamp_ns(m) for m in messages] == [row.sender_time_ns for row in rows]
        # It is turned by 119 degrees after 2 s out of view: exactly 1 s is withheld.
        assert len(topics['1drone', 'pose']) == len(bodies['1drone']) - 240
