# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests of bodies: a body on a closed-form path, and hand-worked quaternions."""

import math

from optitrack_vrpn.stream.bodies.tracker import Tracker

MS = 1_000_000
STEP = 5 * MS
#: Turned over, about the body's x.
OVER = (1.0, 0.0, 0.0, 0.0)


class Feed:
    """Feed a body at 200 Hz along a line at 1 m/s, turning at 1 rad/s."""

    def __init__(self, config=None, name='body', start=0.0, origin=False):
        self.y, self.z = (0.0, 0.01) if origin else (0.5, 1.0)
        self.body = Tracker(name, config)
        self.frame = 0
        self.start = start
        self.out = []
        self.withheld = {}

    def pose(self, ahead=0):
        t = (self.frame + ahead) * STEP * 1e-9
        return (self.start + t, self.y, self.z), (0.0, 0.0, math.sin(t / 2), math.cos(t / 2))

    def send(self, position=None, quat=None):
        p, q = self.pose()
        t = self.frame * STEP
        self.frame += 1
        return self.update(t, t + MS, position or p, quat or q)

    def update(self, t, receive_ns, position, quat):
        """Pass a pose on to the gate; poses that it withholds are counted by reason."""
        out = self.body.update(t, receive_ns, position, quat)
        if out is None:
            reason = self.body.reason.value
            self.withheld[reason] = self.withheld.get(reason, 0) + 1
        return out

    def good(self, count):
        return [self.send() is not None for _ in range(count)]

    def elsewhere(self, count, shift=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0, 1.0)):
        """Send poses that are shifted, and turned about the body's axes; gives which go out."""
        out = []
        for _ in range(count):
            p, q = self.pose()
            out.append(self.send(
                tuple(a + b for a, b in zip(p, shift)), times(q, turn)) is not None)
        return out

    def skip(self, count, tick=True):
        for _ in range(count):
            self.frame += 1
            if tick:
                self.body.tick(self.frame * STEP)

    def hold(self, ms, count=30, tick=True):
        """Send frames that the network holds back; gives which go out."""
        begin = self.frame * STEP
        if tick:
            self.body.tick(begin - STEP + ms * MS)
        out = []
        for _ in range(count):
            t = self.frame * STEP
            pose = self.pose()
            self.frame += 1
            out.append(self.update(t, max(t, begin - STEP + ms * MS) + MS, *pose) is not None)
        return out

    def states(self):
        return [change.after for change in self.body.take_changes()]


def tracked(config=None, **kwargs):
    feed = Feed(config, **kwargs)
    feed.good(40)
    feed.states()
    return feed


def times(p, q):
    """Multiply quaternions by the textbook."""
    a, b, c, d = p
    x, y, z, w = q
    return (d * x + w * a + b * z - c * y, d * y + w * b + c * x - a * z,
            d * z + w * c + a * y - b * x, d * w - a * x - b * y - c * z)
