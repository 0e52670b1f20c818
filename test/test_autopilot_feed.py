# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Random operation of a bridge: publishers, vehicles, links, commands and faults in any order."""

from collections import deque
import random

from optitrack_vrpn.guests.autopilot.gate import (
    Feed, Gate, MAX_AHEAD_NS, Output, stop_refusal, Use)
from optitrack_vrpn.guests.autopilot.messages import Sample
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Incoming, Vehicle
from optitrack_vrpn.node.graph.conflicts import Arrival, OnePublisher, Publisher, STEADY
import pytest
from vehicle_kit import MS, START

STEP_NS = 10 * MS
MAX_AGE_NS = 90 * MS
TOPICS = ('/cf1/status', '/cf1/odom', '/cf1/pose')
LEASE = 2000     # steps for which a killed node stays in the graph


class Node:
    """A node that publishes the body's poses in axes of its own."""

    def __init__(self, name, number, first):
        self.publisher = Publisher(name, number.to_bytes(16, 'big'))
        self.number = number
        self.sequence = first
        self.alive = self.sending = True
        self.left = LEASE


class World:
    """A bridge between random nodes and random vehicles."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = START
        self.target = self.random.choice([0, 1])
        self.settings = BridgeSettings(
            body='cf1', target_system=self.target,
            stop_while_armed=self.random.random() < 0.2)
        self.nodes, self.numbers = [], 0
        self.start_node()
        self.beating = {1: True, 2: False}
        self.armed = {1: False, 2: False}
        self.beat_ns = {}
        self.state, self.resets = 'TRACKED', 0
        self.moved, self.delay_ns = 0, 2 * MS
        self.heard = deque(maxlen=STEADY)
        self.discontinuity = False
        self.sent = None       # (stamp, counter, number of the node) of the last sample sent
        self.count = 0
        self.configure(self.random.randrange(256))

    def configure(self, counter):
        chosen = plan(self.settings)
        self.vehicle = Vehicle(self.settings, chosen)
        self.feed = Feed(
            Gate(chosen, counter), OnePublisher(TOPICS, self.look))
        self.feed.gate.status(self.state, self.resets)
        self.feed.active = True
        self.beat_ns.clear()
        self.interrupted()

    def interrupted(self):
        self.discontinuity = self.sent is not None

    def look(self, topic):
        return [node.publisher for node in self.nodes]

    # -- what happens at random ----------------------------------------------------------------

    def start_node(self):
        self.numbers += 1
        # Nodes of one launch file begin to count together.
        first = self.random.choice([0, 0, self.random.randrange(100_000)])
        self.nodes.append(Node(
            self.random.choice(['/mocap', '/mocap', '/other']), self.numbers, first))

    def end_node(self):
        if self.nodes:
            self.nodes.pop(self.random.randrange(len(self.nodes)))

    def kill_node(self):
        for node in self.nodes[:1]:
            node.alive = False

    def respawn(self):
        self.kill_node()
        self.start_node()
        self.nodes[-1].publisher = self.nodes[-1].publisher._replace(
            node=self.nodes[0].publisher.node)

    def pause_node(self):
        for node in self.nodes:
            node.sending = self.random.random() < 0.7

    def one_node(self):
        """End the confusion: one node, as after the user has acted."""
        del self.nodes[:]
        self.start_node()

    def track(self):
        self.state = self.random.choice(['TRACKED', 'TRACKED', 'STALE', 'JUMPED', ''])
        self.feed.gate.status(self.state, self.resets)

    def reset_body(self):
        self.resets += 1
        self.state = 'TRACKED'
        self.feed.gate.status(self.state, self.resets)
        self.interrupted()

    def arm(self):
        system = self.random.choice([1, 2])
        self.armed[system] = not self.armed[system]

    def appear(self):
        system = self.random.choice([1, 1, 2])
        self.beating[system] = not self.beating[system]

    def alone(self):
        self.beating = {1: True, 2: False}

    def move(self):
        self.moved += 1
        self.interrupted()

    def stop(self):
        """Send STOP of mocap control without names."""
        armed = self.vehicle.armed
        refusal = stop_refusal(self.settings.stop_while_armed, armed, '/bridge')
        assert bool(refusal) == (armed and not self.settings.stop_while_armed)
        if not refusal:
            self.feed.end()
            self.interrupted()

    def start(self):
        self.feed.active = True

    def configure_again(self):
        self.configure(self.feed.gate.reset_counter + 1)

    def hold(self):
        """Hold the bridge: what its queue keeps arrives late and at once."""
        begin = self.now
        self.now += self.random.randrange(50, 3000) * MS
        for node in self.nodes:
            if node.alive and node.sending:
                lost = (self.now - begin) // STEP_NS - 10
                node.sequence += max(lost, 0)
        for age in range(10, 0, -1):
            self.publish(age * STEP_NS)

    def delay(self):
        self.delay_ns = self.random.choice([2, 2, 30, 95, 300, -15, -25]) * MS

    # -- time ----------------------------------------------------------------------------------

    def step(self):
        self.now += STEP_NS
        for node in self.nodes:
            if not node.alive:
                node.left -= 1
        self.nodes = [node for node in self.nodes if node.left > 0]
        for system, beating in self.beating.items():
            if beating and (self.now // STEP_NS + 40 * system) % 100 == 0:
                self.beat_ns[system] = self.now
                self.vehicle.receive(Incoming('HEARTBEAT', system, 1, {
                    'autopilot': 12, 'base_mode': 128 * self.armed[system]}),
                    self.now, self.now)
        before = self.vehicle.interruptions
        self.vehicle.tick(self.now, self.now)
        if self.vehicle.interruptions != before:
            self.interrupted()
        self.publish(self.delay_ns)

    def publish(self, age_ns):
        nodes = [node for node in self.nodes if node.alive and node.sending]
        self.random.shuffle(nodes)
        for node in nodes:
            node.sequence += self.random.choice([1, 1, 1, 1, 2])     # best effort loses some
            self.offer(node, self.now - age_ns)

    def offer(self, node, stamp_ns):
        matched = len(self.nodes)
        use = self.feed.offer(
            Sample(stamp_ns, (float(node.number), 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
            Arrival(TOPICS[1], (matched,) * 3, node.sequence),
            Output(self.vehicle.may_send, self.moved + self.vehicle.interruptions, 0), self.now)
        self.heard.append(node.number)
        if use is not Use.SEND:
            return
        self.count += 1
        counter = self.feed.gate.reset_counter
        # Nothing is sent that is refused, old, early or not tracked.
        assert self.feed.active and self.state == 'TRACKED'
        assert -MAX_AHEAD_NS <= self.now - stamp_ns <= MAX_AGE_NS
        heard = {system for system, at in self.beat_ns.items() if self.now - at <= 3000 * MS}
        assert self.target or self.vehicle.armed or heard <= {self.vehicle.system}
        # The axes of one node only.
        assert len({one.publisher.node for one in self.nodes}) == 1
        if matched > 1:    # a node whose numbers another continues has been silent since
            heard = [*self.heard]
            assert sum(a != b for a, b in zip(heard, heard[1:])) <= 1 and heard[-1] == node.number
        # Each discontinuity counts, in a byte.
        assert 0 <= counter <= 255
        if self.sent is not None:
            last_ns, last, number = self.sent
            if self.discontinuity or number != node.number or stamp_ns - last_ns > 200 * MS:
                assert counter != last
            assert stamp_ns > last_ns
        self.sent = (stamp_ns, counter, node.number)
        self.discontinuity = False


OPERATIONS = (
    World.start_node, World.end_node, World.kill_node, World.respawn, World.pause_node,
    World.one_node, World.one_node, World.track, World.track, World.reset_body, World.arm,
    World.appear, World.alone, World.move, World.stop, World.start, World.start,
    World.configure_again, World.hold, World.delay, World.delay)


#: Seeds in which a node continued the numbers of another one, after a few messages or a silence.
FOUND = 9019, 26938, 200545


@pytest.mark.parametrize('part', range(8))
def test_one_publisher_fresh_poses_and_a_count_of_every_discontinuity(part):
    sent = 0
    for seed in (*range(part * 400, part * 400 + 400), *FOUND):
        world = World(seed)
        for _ in range(world.random.randrange(3, 12)):
            for _ in range(world.random.choice([1, 5, 30, 130])):
                world.step()
            world.random.choice(OPERATIONS)(world)
        sent += world.count
    assert sent > 4000, 'most of the time nothing is wrong'
