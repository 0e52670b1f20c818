# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Messages are used from one publisher: thousands of streams that come, go, die and overlap."""

from collections import deque
import math
import random

from optitrack_vrpn.node.graph.reach import any_reach, joint_reach, pose_reach
from optitrack_vrpn.node.graph.status_binding import StatusBinding
from optitrack_vrpn.node.graph.streams import (
    AttendedTime, Binding, LISTEN_NS, SILENT_NS, StreamMessage, TopicsBinding)
import pytest

MS = 1_000_000
S = 1000 * MS
START = 1_700_000_000 * S
ODOM, POSE = '/cf1/odom', '/cf1/pose'


def turned(pose, quarter):
    """Give a pose in axes that are turned by quarters about the vertical."""
    (x, y, z), (a, b, c, d) = pose
    for _ in range(quarter):
        x, y = -y, x
        half = math.sqrt(0.5)
        a, b, c, d = half * (a - b), half * (a + b), half * (c + d), half * (d - c)
    return (x, y, z), (a, b, c, d)


def pose_at(ns, chance=None):
    """Give the true pose of a body that flies circles of 1.5 m, 3 m from the origin."""
    t = (ns - START) * 1e-9
    noise = chance.gauss(0.0, 0.0005) if chance else 0.0
    yaw = 0.8 * t
    return ((3.0 + 1.5 * math.cos(yaw) + noise, 1.5 * math.sin(yaw), 1.0 + noise),
            (0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)))


class Node:
    """A publisher of the body's pose, in its axes, with its numbers."""

    def __init__(self, number, quarter, first, rate_hz, phase_ns, topics):
        self.number, self.quarter = number, quarter
        self.sequence = dict.fromkeys(topics, first)
        self.interval_ns = round(1e9 / rate_hz)
        self.phase_ns = phase_ns
        self.alive = True
        self.next_ns = None


class World:
    """Nodes, a body that goes out of view, and a receiver with a queue that is held at times."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.now = START
        self.nodes, self.count = [], 0
        self.queues = {POSE: deque(maxlen=10), ODOM: deque(maxlen=10)}
        self.visible = True
        self.held_until = self.released = 0
        self.topics = self.chance.choice([(POSE,), (ODOM, POSE)])
        self.binding = TopicsBinding(self.topics, pose_reach)
        self.loss = self.chance.choice([0.0, 0.0, 0.05, 0.3])
        self.axes = {}
        self.alike = set()      # nodes of one axes: their messages cannot always be told apart
        self.chances = 0        # numbers that continue those of another node by chance
        self.used = []          # (time, number of the node, begins)
        self.heard = {}         # last time of delivery by number of the node
        self.since = {}         # first time
        self.alone_ns = 0
        self.start_node()

    # -- operations ----------------------------------------------------------------------------

    def start_node(self, quarter=None, first=None):
        if len(self.nodes) >= 3:
            return
        self.count += 1
        chance = self.chance
        quarter = chance.randrange(4) if quarter is None else quarter
        if quarter in self.axes.values():
            self.alike.add(quarter)
        self.axes[self.count] = quarter
        self.nodes.append(Node(
            self.count, quarter,
            first or chance.choice([1, 1, 1, 2, chance.randrange(100_000)]),
            chance.choice([30, 50, 100, 100, 100, 240]), chance.randrange(10 * MS), self.topics))

    def twins(self):
        """Start two nodes of the same axes and rate at once: their numbers are alike."""
        if len(self.nodes) < 2:
            self.start_node()
            one = self.nodes[-1]
            self.start_node(one.quarter, one.sequence[POSE] + self.chance.choice([-1, 0, 1]))
            self.nodes[-1].interval_ns = one.interval_ns

    def end_node(self):
        if self.nodes:
            self.nodes.pop(self.chance.randrange(len(self.nodes)))

    def respawn(self):
        """Kill a node and start it again, in the same axes."""
        if self.nodes:
            old = self.nodes.pop(0)
            self.start_node(old.quarter, 1)

    def hide(self):
        self.visible = not self.visible

    def hold(self):
        self.held_until = self.released = self.now + self.chance.randrange(50, 4000) * MS

    OPERATIONS = (start_node, start_node, twins, end_node, end_node, respawn, hide, hold)

    # -- time ----------------------------------------------------------------------------------

    def step(self, seconds):
        end = self.now + round(seconds * 1e9)
        while self.now < end:
            self.now += 2 * MS
            for node in self.nodes:
                if node.next_ns is None:
                    node.next_ns = self.now + node.phase_ns % node.interval_ns
                while self.visible and node.next_ns <= self.now:
                    self.publish(node, node.next_ns)
                    node.next_ns += node.interval_ns
                node.next_ns = max(node.next_ns, self.now - node.interval_ns)
            if self.now >= self.held_until:
                self.deliver()

    def publish(self, node, at_ns):
        stamp_ns = at_ns + self.chance.randrange(-300_000, 300_000)
        for topic in self.topics:
            node.sequence[topic] += 1
            if self.chance.random() >= self.loss:
                self.queues[topic].append((node, StreamMessage(
                    node.sequence[topic], stamp_ns,
                    turned(pose_at(stamp_ns, self.chance), node.quarter))))

    def deliver(self):
        if self.now % (100 * MS) < 2 * MS:
            self.binding.tick(self.now)
        for topic, queue in self.queues.items():
            while queue:
                node, message = queue.popleft()
                self.since.setdefault(node.number, self.now)
                begins = self.binding.accept(topic, message, self.now)
                if begins is not None:
                    self.check(node, message, begins)
                    self.used.append((self.now, node.number, begins, message))
                self.heard[node.number] = self.now

    def check(self, node, message, begins):
        """Check the invariants for a message that is used."""
        if not self.used:
            assert begins
            return
        at, number, _, before = self.used[-1]
        changed = self.binding.changed
        if number == node.number:
            # A silence and then a hold: as many are missing as of no single cause.
            assert not changed or node.quarter in self.alike or self.released > at
            return
        if self.now - at > 0.5 * SILENT_NS and self.since[node.number] == self.now and not changed:
            # A first message after a hold, with the number that the node before would have now.
            self.chances += 1
            return
        # Another publisher is used after the one before was silent for a second, as something new;
        # else what is used is where the body was: the two cannot be told apart by their poses.
        silent = self.now - self.heard[number] >= SILENT_NS - 50 * MS
        same = self.axes[number] == node.quarter    # twins: either may be used, as something new
        assert same or changed, 'another publisher'
        if not (begins and (silent or same)):
            assert pose_reach(
                before.values, message.values,
                abs(message.stamp_ns - before.stamp_ns) * 1e-9 + 0.01), (number, node.number)
            assert same or abs(message.stamp_ns - before.stamp_ns) < 0.1 * SILENT_NS

    def settle(self):
        """End the confusion: one node, a visible body, a receiver that is not held."""
        while len(self.nodes) > 1:
            self.end_node()
        if not self.nodes:
            self.start_node()
        self.visible, self.held_until = True, 0
        self.loss = min(self.loss, 0.05)
        self.step(1.6 + 1.6)    # the others are heard no more; then the one is taken
        before = len(self.used)
        self.step(0.5)
        number = self.nodes[0].number
        assert len(self.used) - before >= 10, 'poses go on'
        assert {each[1] for each in self.used[before:]} == {number}


@pytest.mark.parametrize('part', range(4))
def test_random_publishers_and_only_one_is_used(part):
    used = changes = chances = 0
    for seed in range(10_000 + part * 150, 10_000 + part * 150 + 150):
        world = World(seed)
        for _ in range(world.chance.randrange(2, 7)):
            world.step(world.chance.choice([0.05, 0.3, 0.7, 1.5]))
            world.chance.choice(World.OPERATIONS)(world)
        world.step(0.5)
        world.settle()
        used += len(world.used)
        numbers = [each[1] for each in world.used]
        changes += sum(a != b for a, b in zip(numbers, numbers[1:]))
        chances += world.chances
    assert chances <= 2
    assert used > 20_000 and changes > 50, 'most of the time something is used'


@pytest.mark.parametrize('seed', range(100))
def test_the_bound_stream_goes_on_while_an_intruder_comes_and_goes(seed):
    """Each message of the bound node is used, none of the intruder, whenever it comes or dies."""
    world = World(seed)
    world.loss = 0.0
    world.step(1.5)
    for _ in range(3):
        bound = world.nodes[0]
        # Not a twin: other axes (any numbers), or other numbers.
        quarter = (bound.quarter + world.chance.choice([1, 2, 3])) % 4
        world.start_node(quarter, world.chance.choice([1, bound.sequence[POSE], 70_000]))
        before = len(world.used)
        length = world.chance.uniform(0.05, 3.0)
        world.step(length)
        world.nodes.pop()
        world.step(world.chance.uniform(0.0, 2.0))
        mine = [each for each in world.used[before:] if each[1] == bound.number]
        assert len(mine) == len(world.used) - before, 'only of the bound node'
        assert not any(each[2] for each in mine), 'without a reset'
        gaps = [b[0] - a[0] for a, b in zip(world.used[before - 1:], world.used[before:])]
        assert max(gaps) <= bound.interval_ns + 12 * MS, max(gaps) / MS


def feed(binding, begin_ns, seconds, quarter=0, first=1, rate_hz=100):
    """Offer the messages of one publisher; return the times (s) of those that are used."""
    used = []
    for i in range(round(seconds * rate_hz)):
        now = begin_ns + i * S // rate_hz
        answer = binding.accept(StreamMessage(
            first + i, now, turned(pose_at(now), quarter)), now)
        if answer is not None:
            used.append(((now - START) * 1e-9, answer))
    return used


@pytest.mark.parametrize('seed', range(100))
def test_who_contradicted_the_bound_stream_is_not_taken_in_its_place_while_strict(seed):
    """
    As for an armed vehicle whose node dies while another node has other axes, or only an offset.

    Its own node, started again, is taken beside the other one; the other one when strict ends.
    """
    chance = random.Random(seed)
    topics = chance.choice([(POSE,), (ODOM, POSE)])
    binding = TopicsBinding(topics, pose_reach)
    quarter = chance.choice([0, 0, 1, 2, 3])
    offset = 0.0 if quarter else chance.choice([-1.0, 1.0]) * chance.uniform(1.2, 6.0)
    rates = chance.choice([100, 240]), chance.choice([50, 100, 240])
    phase = chance.randrange(10 * MS)
    firsts = {'a': chance.choice([1, 5000]), 'b': chance.choice([1, 70_000]), 'c': 1}
    count = dict.fromkeys(firsts, 0)
    due = dict.fromkeys(firsts, 0)
    used = []

    def publish(name, now):
        (x, y, z), quat = turned(pose_at(now, chance), quarter if name == 'b' else 0)
        number = firsts[name] + count[name]
        count[name] += 1
        for topic in topics:
            begins = binding.accept(topic, StreamMessage(
                number, now, ((x + (offset if name == 'b' else 0.0), y, z), quat)), now, strict)
            if begins is not None:
                used.append((now, name, binding.changed))

    def run(seconds, **rate_of):
        """Let nodes publish for a time; give the nodes that were used."""
        nonlocal now
        begin, end = now, now + round(seconds * S)
        for name in rate_of:
            due[name] = max(due[name], begin + (phase if name == 'b' else MS))
        while now < end:
            now += MS
            binding.tick(now)
            for name, rate in rate_of.items():
                if due[name] <= now:
                    publish(name, now)
                    due[name] += S // rate
        return {name for at, name, _ in used if at > begin}

    now, strict = START, True
    assert run(1.5, a=rates[0]) == {'a'}
    assert run(chance.uniform(0.3, 2.0), a=rates[0], b=rates[1]) == {'a'}
    assert run(chance.uniform(1.5, 4.0), b=rates[1]) == set()
    assert binding.differing
    back = now
    assert run(1.0, b=rates[1], c=rates[0]) == {'c'}
    at, _, changed = next(one for one in used if one[0] > back)
    assert changed and at - back < LISTEN_NS + 60 * MS and not binding.differing
    run(1.2, b=rates[1])
    strict = False
    assert run(0.5, b=rates[1]) == {'b'}


def test_two_young_streams_that_cannot_be_told_apart_are_not_used():
    binding = Binding(pose_reach)
    times = []
    for i in range(400):
        now = START + i * 10 * MS
        for number in (0, 1) if i < 200 else (0,):
            at = now + number * MS
            if binding.accept(StreamMessage(1 + i, at, pose_at(at)), at) is not None:
                times.append(i)
    assert times and min(times) >= 200 + 99, 'neither, until one has been alone for a second'
    assert len(times) >= 95


def test_a_held_receiver_has_not_heard_that_a_publisher_is_silent():
    """Its queue kept messages of the intruder alone: the bound one was not silent, it was lost."""
    binding = Binding(pose_reach)
    feed(binding, START, 2.0)
    now = START + 5 * S
    for i in range(10):
        at = now - (10 - i) * 4 * MS
        assert binding.accept(StreamMessage(1000 + i, at, turned(pose_at(at), 1)), now) is None
    assert binding.accept(StreamMessage(501, now, pose_at(now)), now) is False


@pytest.mark.parametrize('sequence, after_ms, quarter', [
    (200, 10, 0), (150, 10, 0), (203, 10, 0), (5000, 10, 0), (201, 1, 0), (201, 10, 1),
    (220, 500, 0)])
def test_what_does_not_continue_is_not_used(sequence, after_ms, quarter):
    """A number again, before, too far; a stamp too near; other axes; a number of another count."""
    binding = Binding(pose_reach)
    feed(binding, START, 2.0)
    at = START + 1990 * MS + after_ms * MS
    assert binding.accept(
        StreamMessage(sequence, at, turned(pose_at(at), quarter)), at) is None


def test_the_odometry_of_another_publisher_is_not_that_of_the_bound_poses():
    binding = TopicsBinding((ODOM, POSE), pose_reach)
    for i in range(600):
        at = START + i * 10 * MS
        mine = binding.accept(POSE, StreamMessage(1 + i, at, pose_at(at)), at)
        if i > 200:
            assert mine is False
            assert binding.accept(
                ODOM, StreamMessage(1 + i, at, turned(pose_at(at), 1)), at) is None
    answers = []
    for i in range(600, 800):    # it is taken when the bound one is silent, as something new
        at = START + i * 10 * MS
        answers.append(binding.accept(ODOM, StreamMessage(1 + i, at, turned(pose_at(at), 1)), at))
    assert answers[:98] == [None] * 98 and answers[102:] == [False] * 98 and (
        answers.count(True) == 1)


def test_two_topics_that_contradict_each_other_from_the_start_are_not_used():
    binding = TopicsBinding((ODOM, POSE), pose_reach)
    for i in range(300):
        at = START + i * 10 * MS
        assert binding.accept(POSE, StreamMessage(1 + i, at, pose_at(at)), at) is None or i < 32
        assert binding.accept(ODOM, StreamMessage(1 + i, at, turned(pose_at(at), 1)), at) is None


def test_bursts_of_one_publisher_do_not_stop_it():
    """A network that bunches messages shifts arrivals, or stamps, and is no second publisher."""
    chance = random.Random(3)
    binding = Binding(pose_reach)
    used = 0
    for i in range(2000):
        at = START + i * 10 * MS + chance.choice([0, 0, 0, 0, 0, 9]) * MS
        used += binding.accept(StreamMessage(1 + i, at, pose_at(at)), at) is not None
        assert not binding.several
    assert used > 1500


def test_the_clock_that_is_set_back_does_not_end_a_stream():
    binding = Binding(pose_reach)
    feed(binding, START, 2.0)
    at = START - 3600 * S
    assert binding.accept(StreamMessage(201, at, pose_at(START + 2 * S)), START + 2 * S) is False
    assert binding.accept(
        StreamMessage(202, at + 10 * MS, pose_at(START + 2010 * MS)), START + 2010 * MS) is False


def test_without_numbers_the_pose_decides():
    binding = Binding(pose_reach)
    used = []
    for i in range(400):
        at = START + i * 10 * MS
        used.append(binding.accept(StreamMessage(None, at, pose_at(at)), at))
        if i > 100:
            assert binding.accept(
                StreamMessage(None, at + MS, turned(pose_at(at), 1)), at) is None
    assert used[100:] == [False] * 300


def test_streams_without_stamps_are_told_by_their_numbers():
    """Targets of a user's program may jump; axes must move."""
    binding = Binding(any_reach)
    used = []
    for i in range(300):
        now = i * 10 * MS
        used.append(binding.accept(StreamMessage(1 + i, 0, i * 100.0), now))
        if i > 100:
            assert binding.accept(StreamMessage(7000 + i, 0, 0.0), now + MS) is None
    assert used[31:] == [False] * 269


def test_axes_follow_if_they_can_have_moved():
    names = ('x', 'yaw')
    nan = math.nan
    for after, seconds, follows in (
            ((0.05, 0.0), 0.01, True), ((2.0, 0.0), 0.01, False), ((1.0, 0.0), 0.1, True),
            ((nan, 0.0), 0.01, True), ((0.0, 2.0 * math.pi), 0.01, True)):
        assert joint_reach((names, (0.0, 0.0)), (names, after), seconds) is follows
    assert not joint_reach((names, (0.0, 0.0)), (('y', 'yaw'), (0.0, 0.0)), 1.0)


def test_attended_time_does_not_count_a_suspension():
    time = AttendedTime()
    assert time.advance(5 * S) == 0
    assert time.advance(5 * S + 100 * MS) == 100 * MS
    assert time.advance(65 * S) == 350 * MS
    assert time.advance(64 * S) == 350 * MS


def test_the_status_of_another_node_is_used_after_a_silence_of_the_first():
    binding, now = StatusBinding(), START
    assert binding.accept('a', now)
    for _ in range(24):
        now += 100 * MS
        binding.tick(now)
        assert not binding.accept('b', now)
    assert binding.accept('a', now)
    now += 60 * S    # a suspension: no silence of the node
    assert not binding.accept('b', now)
    for _ in range(23):
        now += 100 * MS
        binding.tick(now)
    assert binding.accept('b', now) and not binding.accept('a', now)
