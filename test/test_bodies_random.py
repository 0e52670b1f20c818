# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Thousands of random sessions of one body with wrong attitudes and turns out of sight.

The motions are closed forms. A session is made of whole arrays; what the tracker publishes is
judged by the truth and by the times of the document, not by the tracker's own limits:

1. No wrong pose is published within its hold, unless one frame's limit lets it through, or the
   motion before a gap explains it, or it was the first ever seen.
2. No right pose is withheld for longer than its hold and 0.2 s.
"""

import math
import random

from conftest import examples
import numpy as np
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.tracker import Tracker
import pytest

S = 1_000_000_000
SMALL = math.radians(60.0)
#: Hold of a turn that is small or was out of sight, and of all others (s).
SHORT_S, LONG_S = 1.0, 2.0
#: Time (s) after a hold within which a right pose is published: three frames at 30 Hz are 0.1 s.
SOON_S = 0.2


def multiply(p, q):
    a, b, c, d = np.moveaxis(p, -1, 0)
    x, y, z, w = np.moveaxis(q, -1, 0)
    return np.stack((d * x + w * a + b * z - c * y, d * y + w * b + c * x - a * z,
                     d * z + w * c + a * y - b * x, d * w - a * x - b * y - c * z), axis=-1)


def conjugate(q):
    return q * (-1.0, -1.0, -1.0, 1.0)


def rotations(axis, angles):
    axis = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    half = np.asarray(angles)[..., None] / 2.0
    return np.concatenate((np.sin(half) * axis, np.cos(half)), axis=-1)


def angle(p, q):
    """Return the angles (rad) between attitudes."""
    return 2.0 * np.arccos(np.minimum(np.abs((p * q).sum(axis=-1)), 1.0))


class Motion:
    """A body at rest, or one that hovers, flies, spins or is waved by hand."""

    def __init__(self, draw):
        self.kind = kind = draw.choice(('rest', 'rest', 'hover', 'fly', 'fly', 'spin', 'wave'))
        self.size = {'rest': 0.0, 'hover': 0.05, 'fly': draw.uniform(0.5, 2.0), 'spin': 0.0,
                     'wave': 0.3}[kind]
        self.pace = {'fly': draw.uniform(0.3, 1.2), 'wave': draw.uniform(2.0, 6.0)}.get(kind, 1.5)
        self.spin = {'fly': draw.uniform(-1.5, 1.5), 'spin': draw.uniform(-3.0, 3.0)}.get(kind, 0)
        self.sway = {'rest': 0.0, 'hover': 0.08, 'wave': draw.uniform(0.3, 1.0)}.get(kind, 0.2)
        self.axis = [draw.gauss(0.0, 1.0) for _ in range(3)]
        self.phase = draw.uniform(0.0, 6.3)

    def at(self, t):
        """Return positions and attitudes at times (s)."""
        swing = self.pace * t + self.phase
        positions = np.stack((self.size * np.cos(swing), self.size * np.sin(swing),
                              1.0 + 0.3 * self.size * np.sin(0.7 * swing)), axis=-1)
        return positions, multiply(
            rotations((0.0, 0.0, 1.0), self.spin * t + 0.5 * self.sway * np.cos(swing)),
            rotations(self.axis, self.sway * np.sin(1.3 * swing)))


class Session:
    """
    The frames of a session.

    ``wrong`` is the rotation by which a sent attitude is wrong, ``began`` the time (s) since which
    it has been so, ``again`` since when the truth is sent; each is NaN where it has no meaning.
    """

    def __init__(self, seed, starved=False):
        self.draw = draw = random.Random(seed)
        self.seed = seed
        self.rate = draw.choice((30, 50, 60, 100, 100, 120, 240))
        self.motion = Motion(draw)
        self.time = 0.0
        self.turn = np.array((0.0, 0.0, 0.0, 1.0))
        #: Chunks of frames without a gap in them: times, turns of the body, wrong rotations,
        #: shifts of the origin, begin of the wrong attitude and of the truth.
        self.chunks = []
        self.log = []
        self.first_wrong = draw.random() < 0.1
        if self.first_wrong:
            self.be_wrong(self.span(0.35, 3.0))
        self.clear(1.2 if self.first_wrong else draw.uniform(1.2, 2.5))
        if self.first_wrong:
            self.clear(2.5)
        for _ in range(2 if draw.random() < 0.2 else 1):
            self.episode()
        self.join(starved)

    def span(self, least, most):
        return math.exp(self.draw.uniform(math.log(least), math.log(most)))

    def episode(self):
        draw = self.draw
        gap = 0.0 if draw.random() < 0.3 else self.span(0.02, 5.0)
        self.time += gap
        if gap > 0.1 and draw.random() < 0.25:
            degrees = min(draw.uniform(10.0, 180.0), math.degrees(10.0 * gap))
            self.log.append(('turned', round(gap, 3), round(degrees)))
            self.turn = multiply(self.turn, rotations(self.some_axis(), math.radians(degrees)))
        else:
            seconds = self.span(0.1, 10.0 if draw.random() < 0.3 else 2.5)
            self.log.append(('gap', round(gap, 3)))
            self.be_wrong(seconds)
            if draw.random() < 0.3:
                gap = self.span(0.02, 2.0)
                self.log.append(('gap after', round(gap, 3)))
                self.time += gap
        self.clear(LONG_S + SOON_S + 0.2)

    def some_axis(self):
        return self.draw.choice((
            (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), [self.draw.gauss(0, 1) for _ in 'xyz']))

    def be_wrong(self, seconds):
        draw = self.draw
        degrees, frames = draw.uniform(10.0, 180.0), draw.randint(1, 4)
        self.log.append(('wrong', round(seconds, 3), round(degrees), frames))
        count = max(1, round(seconds * self.rate))
        share = np.minimum(np.arange(1, count + 1) / frames, 1.0)
        wrong = rotations(self.some_axis(), np.radians(degrees) * share)
        shift = [draw.uniform(-0.1, 0.1) for _ in range(3)] if draw.random() < 0.5 else (0, 0, 0)
        self.add(count, wrong, shift, began=self.time)

    def clear(self, seconds):
        count = round(seconds * self.rate)
        self.add(count, np.tile((0.0, 0.0, 0.0, 1.0), (count, 1)), (0, 0, 0), again=self.time)

    def add(self, count, wrong, shift, began=math.nan, again=math.nan):
        times = self.time + np.arange(count) / self.rate
        self.time += count / self.rate
        self.chunks.append((times, np.tile(self.turn, (count, 1)), wrong, np.tile(shift, (
            count, 1)), np.full(count, began), np.full(count, again)))

    def join(self, starved):
        """Join the chunks, add noise, and drop frames: single ones, or whole blocks."""
        times, turns, wrong, shifts, began, again = (
            np.concatenate(parts) for parts in zip(*self.chunks))
        kept = np.ones(len(times), dtype=bool)
        noise = np.random.default_rng(self.seed)
        self.blocks = []
        if starved:
            for _ in range(self.draw.randint(1, 6)):
                at = self.draw.uniform(0.5, self.time)
                self.blocks.append((at, at + self.span(0.03, 0.8)))
                kept &= (times < at) | (times >= self.blocks[-1][1])
        elif self.draw.random() < 0.2:
            kept = noise.random(len(times)) > 0.05
        times, turns, wrong, shifts, began, again = (
            array[kept] for array in (times, turns, wrong, shifts, began, again))
        self.times, self.wrong, self.turns = times, wrong, turns
        self.began, self.again = began, again
        positions, quats = self.motion.at(times)
        self.rough = self.draw.choice((3e-4, 2e-3))
        self.truth = multiply(multiply(quats, turns), rotations_of(
            noise.normal(0.0, self.rough, (len(times), 3))))
        self.sent = multiply(self.truth, wrong)
        self.positions = positions + noise.normal(0.0, 3e-4, (len(times), 3)) + shifts
        # True turn rate (rad/s) at each time.
        later = self.motion.at(times + 0.01)[1]
        self.rates = angle(quats, later) / 0.01
        self.spins = (multiply(later, conjugate(quats))[:, :3] * 200.0)

    def run(self):
        """Return for each frame whether it is published."""
        tracker = self.tracker = Tracker('body', BodyConfig())
        update, tick = tracker.update, tracker.tick
        stamps = np.rint(self.times * S).astype(np.int64)
        # Frames of a block that the network holds arrive together.
        arrivals = stamps + 2_000_000
        if self.draw.random() < 0.3:
            at = self.draw.uniform(0.5, self.time)
            held = (self.times >= at) & (self.times < at + 0.3)
            arrivals[held] = np.maximum(arrivals[held], round((at + 0.3) * S))
        gaps = np.diff(stamps, prepend=stamps[:1]) > S // 20
        out = []
        for stamp, arrival, position, quat, gap in zip(
                stamps.tolist(), arrivals.tolist(), map(tuple, self.positions.tolist()),
                map(tuple, self.sent.tolist()), gaps.tolist()):
            if gap:
                tick(arrival - S // 100)
            out.append(update(stamp, arrival, position, quat) is not None)
        return np.array(out)

    def judge(self, out):
        """Assert the two rules; return how many wrong and right poses were withheld."""
        context = (self.seed, self.rate, self.motion.kind, self.log, self.blocks)
        times, rate = self.times, self.rate
        last = np.maximum.accumulate(np.where(out, np.arange(len(times)), -1))
        last = np.concatenate(([-1], last[:-1]))    # the published frame before each
        is_wrong = ~np.isnan(self.began)
        frame = min(0.15 + 30.0 * 1.6 / rate, 1.4)
        # Frames that cannot follow the frame before.
        step = angle(self.sent, np.roll(self.sent, 1, axis=0)) - 4.0 * self.rough
        jumps = np.flatnonzero(step > frame)
        # Frames in which what is wrong with the attitude changes by more than that.
        seen = multiply(self.turns, self.wrong)
        changes = np.flatnonzero(angle(seen, np.roll(seen, 1, axis=0)) > frame)
        # Rule 1: a wrong pose that follows no published pose has lasted.
        index = np.flatnonzero(is_wrong & out & (last >= 0))
        found = []
        for i in index.tolist():
            before, several = int(last[i]), jumps[(jumps > last[i]) & (jumps <= i)]
            since = changes[(changes > last[i]) & (changes <= i)]
            if not (len(several) and len(since)) or self.follows(
                    before, range(several[-1], i + 1), frame):
                continue
            off = angle(self.sent[before], self.sent[several[-1]])
            short = off < SMALL + 0.1 or np.diff(times[before:i + 1]).max() > 0.09
            hold = (SHORT_S if short else LONG_S) - 1.5 / rate
            if times[i] - times[since[-1]] < hold and not self.returns(out, before, i, frame):
                found.append((times[i], times[since[-1]], off))
        assert not found, ('wrong', found[:3], context)
        # Rule 2.
        right = ~is_wrong & ~out
        since = times - self.again
        for first in np.unique(self.again[~is_wrong]).tolist():
            phase = self.again == first
            begin = int(np.flatnonzero(phase)[0])
            if not (right & phase).any():
                continue
            bound = self.bound(begin, int(last[begin]), out)
            for at, until in self.blocks:
                if until > first and at < first + 10.0:
                    bound = max(bound, until - first + LONG_S + SOON_S)
            lost = since[right & phase].max()
            assert lost <= bound, ('right', first, lost, bound, context)
        return int((is_wrong & ~out).sum()), int(right.sum())

    def follows(self, before, several, frame):
        """Return whether the motion before a published frame explains one of several after it."""
        dt = self.times[several[0]] - self.times[before]
        if dt * self.rate < 1.6:
            return False
        if self.motion.kind == 'wave':
            return True    # it can be in any attitude
        recent = (self.times > self.times[before] - 2.5) & (self.times <= self.times[before])
        steps = angle(self.sent[1:], self.sent[:-1])[recent[1:]]
        if steps.max() > 0.1 + self.rates[recent].max() / self.rate:
            return True    # what one frame's limit has let through looks like a fast turn
        swing = self.rates[recent].max() + 100.0 * self.rough
        ahead = multiply(rotations_of(self.spins[before] * min(dt, 0.5)), self.sent[before])
        several = self.sent[several[0]:several[0] + min(len(several), 6)]
        off = np.minimum(angle(several, self.sent[before]), angle(several, ahead)).min()
        unknown = 4.0 * self.rough + (0.02 if self.motion.kind == 'rest' else 0.1)
        return off - unknown <= max(
            frame, min(frame + swing * min(dt, 2.0), SMALL))

    def returns(self, out, before, i, frame):
        """Return whether a pose resembles a hypothesis that was published before the last one."""
        seen = multiply(self.turns, self.wrong)
        others = out & (self.times < self.times[before]) & (angle(seen, seen[before]) > 0.1)
        if self.motion.kind not in ('rest', 'hover'):
            return self.tracker.status(0).accepted_by_time > 0    # it turned in each gap
        return (angle(seen[others], seen[i]) < max(SMALL, frame) + 0.1).any()

    def bound(self, begin, before, out):
        """Return how long (s) right poses may be withheld in a phase."""
        if before < 0:
            return SOON_S + (LONG_S if self.first_wrong and begin else 0.0)
        small = angle(self.sent[begin], self.sent[before]) < 0.9 * SMALL and (
            self.motion.kind in ('rest', 'hover')) and math.dist(
                self.positions[begin], self.positions[before]) < 0.03
        return SOON_S + (SHORT_S if small else LONG_S)


def rotations_of(vectors):
    """Convert rotation vectors to attitudes."""
    angles = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.concatenate((
        np.sinc(angles / (2.0 * np.pi)) * vectors / 2.0, np.cos(angles / 2.0)), axis=-1)


def run(seeds, starved=False):
    """Run sessions; return how many wrong and right poses were withheld in all."""
    wrong = right = 0
    for seed in seeds:
        session = Session(seed, starved)
        counts = session.judge(session.run())
        wrong += counts[0]
        right += counts[1]
    return wrong, right


@pytest.mark.computes
def test_wrong_attitudes_and_turns_out_of_sight():
    wrong, _ = run(range(examples(3000)))
    assert wrong > 20 * examples(3000)


@pytest.mark.computes
def test_wrong_attitudes_while_whole_blocks_of_frames_are_lost():
    run(range(examples(1000)), starved=True)
