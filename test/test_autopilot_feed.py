# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Random operation of a bridge: publishers, vehicles, links, commands and faults in any order."""

import math
import random

from optitrack_vrpn.control.armed import Claim
from optitrack_vrpn.core.doubt import Doubt
from optitrack_vrpn.guests.autopilot.gate import Gate, MAX_AHEAD_NS, Output, Use, Withheld
from optitrack_vrpn.guests.autopilot.messages import make_message, VisionSample
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Vehicle
from optitrack_vrpn.node.graph.reach import pose_reach
from optitrack_vrpn.node.graph.status_binding import StatusBinding
from optitrack_vrpn.node.graph.streams import StreamMessage, TopicsBinding
import pytest
from vehicle_kit import MS, sent_by, START

STEP_NS = 10 * MS
MAX_AGE_NS = 90 * MS
POSE = '/cf1/pose'


def yawed(degrees):
    """Give a quaternion, rotated about the vertical."""
    half = math.radians(0.5 * degrees)
    return (0.0, 0.0, math.sin(half), math.cos(half))


class Node:
    """A node that publishes the body's poses in axes of its own."""

    def __init__(self, number, first, degrees):
        self.number = number
        self.sequence = first
        self.degrees = degrees
        self.alive = self.sending = True


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
        self.heard = {}
        self.discontinuity = False
        self.turned, self.doubt = 0.0, Doubt()  # wrong attitude that the node accepted by time
        self.at_arming = None
        self.sent = None       # (stamp, counter, number of the node, yaw) of the last sample sent
        self.kept = None       # attitude that was sent to an armed vehicle
        self.restarted = False
        self.count = 0
        self.configure(self.random.randrange(256))

    def configure(self, counter):
        chosen = plan(self.settings)
        self.vehicle = Vehicle(self.settings, chosen)
        self.gate = Gate(chosen, counter, self.kept)
        self.binding = TopicsBinding((POSE,), pose_reach)
        self.status_binding = StatusBinding()
        self.report()
        self.gate.active = True
        self.beat_ns.clear()
        self.at_arming = self.bound = None
        self.interrupted()

    def report(self):
        self.gate.status(self.state, self.resets, self.doubt)

    def interrupted(self):
        self.discontinuity = self.sent is not None

    # -- what happens at random ----------------------------------------------------------------

    def start_node(self):
        self.numbers += 1
        # Nodes of one launch file begin to count together.
        first = self.random.choice([0, 0, self.random.randrange(100_000)])
        self.nodes.append(Node(self.numbers, first, self.random.choice([0, 0, 90, 180])))

    def end_node(self):
        if self.nodes:
            self.nodes.pop(self.random.randrange(len(self.nodes)))

    def kill_node(self):
        del self.nodes[:1]

    def respawn(self):
        degrees = self.nodes[0].degrees if self.nodes else 0
        self.kill_node()
        self.start_node()
        self.nodes[-1].degrees, self.nodes[-1].sequence = degrees, 0

    def turn(self):
        """Let the node accept an attitude by time alone, as after a wrong solution."""
        self.withhold()
        angle = self.random.choice([30.0, 90.0, 180.0])
        self.turned, self.doubt = angle, Doubt(self.doubt.times + 1, angle)
        self.resets += 1
        self.report()
        self.interrupted()

    def withhold(self):
        """Let time pass in which the nodes publish nothing of the body."""
        sending = [node.sending for node in self.nodes]
        for node in self.nodes:
            node.sending = False
        for _ in range(150):
            self.step()
        for node, before in zip(self.nodes, sending):
            node.sending = before

    def settle(self):
        """Let the attitude return, or let the user accept it."""
        if self.turned and self.random.random() < 0.5:
            self.withhold()
            self.turned = 0.0
            self.resets += 1
            self.interrupted()
            self.doubt = self.doubt._replace(degrees=0.0)
        else:
            self.doubt = self.doubt._replace(degrees=0.0)
            if self.at_arming is not None:
                self.at_arming = self.doubt
        self.report()

    def pause_node(self):
        for node in self.nodes:
            node.sending = self.random.random() < 0.7

    def one_node(self):
        """End the confusion: one node, as after the user has acted."""
        del self.nodes[:]
        self.start_node()

    def track(self):
        self.state = self.random.choice(['TRACKED', 'TRACKED', 'STALE', 'JUMPED', ''])
        self.report()

    def reset_body(self):
        self.resets += 1
        self.state = 'TRACKED'
        self.report()
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
        refusal = Claim('/bridge', 'cf1', armed, self.settings.stop_while_armed).refusal
        assert bool(refusal) == (armed and not self.settings.stop_while_armed)
        if not refusal:
            self.gate.end()
            self.interrupted()

    def start(self):
        self.gate.active = True

    def configure_again(self):
        """Configure it again, or start it again after a crash: it remembers what it has sent."""
        self.configure(self.gate.reset_counter + 1)
        self.restarted = True

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
        self.binding.tick(self.now)
        for system, beating in self.beating.items():
            if beating and (self.now // STEP_NS + 40 * system) % 100 == 0:
                self.beat_ns[system] = self.now
                self.vehicle.receive(sent_by(make_message(
                    'HEARTBEAT', autopilot=12, base_mode=128 * self.armed[system]), system),
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
            node.sequence += 1
            if self.random.random() < 0.9:     # best effort loses some
                self.offer(node, self.now - age_ns)

    def offer(self, node, stamp_ns):
        yaw = node.degrees + self.turned
        angle = math.radians(node.degrees)
        sample = VisionSample(stamp_ns, (3.0 * math.cos(angle), 3.0 * math.sin(angle), 1.0),
                              yawed(yaw))
        begins = self.binding.accept(POSE, StreamMessage(
            node.sequence, stamp_ns, (sample.position, sample.quat_xyzw)), self.now,
            self.vehicle.armed)
        if begins is not None:
            if self.bound is not None and self.bound is not node:
                # Another node: after a second of silence, or where nothing tells them apart.
                silent = self.now - self.heard[self.bound.number] >= 950 * MS
                assert silent or self.bound.degrees == node.degrees
            self.bound = node
        armed = self.vehicle.armed
        if armed and self.at_arming is None:
            self.at_arming = self.doubt
        elif not armed:
            self.at_arming = None
            if self.vehicle.system:
                self.restarted = False
        self.gate.arm(armed if self.vehicle.system else None)
        use = self.gate.use(sample, begins, Output(
            self.vehicle.may_send, self.moved + self.vehicle.interruptions, 0), self.now,
            self.binding.changed)
        self.heard[node.number] = self.now
        if use is not Use.SEND:
            return
        self.count += 1
        counter = self.gate.reset_counter
        # Nothing is sent that is refused, old, early or not tracked.
        assert self.gate.active and self.state == 'TRACKED'
        assert -MAX_AHEAD_NS <= self.now - stamp_ns <= MAX_AGE_NS
        heard = {system for system, at in self.beat_ns.items() if self.now - at <= 3000 * MS}
        assert self.target or self.vehicle.armed or heard <= {self.vehicle.system}
        # No attitude that differs by more than 45 degrees while armed, without a sight of why.
        if armed:
            assert abs(self.doubt.degrees - self.at_arming.degrees) <= 45.0
        # Each discontinuity counts, in a byte.
        assert 0 <= counter <= 255
        if self.sent is not None:
            last_ns, last, number, last_yaw, was_armed = self.sent
            if self.discontinuity or number != node.number or stamp_ns - last_ns > 200 * MS:
                assert counter != last
            if armed and was_armed and (number != node.number or self.restarted):
                turn = abs(math.remainder(yaw - last_yaw, 360.0))
                assert turn <= 45.0, 'another node with other axes, or the bridge started again'
            assert stamp_ns > last_ns
        self.sent = (stamp_ns, counter, node.number, yaw, armed)
        self.kept = sample.quat_xyzw if armed else None
        self.discontinuity = self.restarted = False


OPERATIONS = (
    World.start_node, World.end_node, World.kill_node, World.respawn, World.pause_node,
    World.one_node, World.one_node, World.track, World.track, World.reset_body, World.arm,
    World.appear, World.alone, World.move, World.stop, World.start, World.start,
    World.configure_again, World.hold, World.turn, World.turn, World.settle, World.settle,
    World.delay, World.delay)


@pytest.mark.computes
@pytest.mark.parametrize('part', range(8))
def test_one_publisher_fresh_poses_and_a_count_of_every_discontinuity(part):
    sent = 0
    for seed in range(part * 400, part * 400 + 400):
        world = World(seed)
        for _ in range(world.random.randrange(3, 12)):
            for _ in range(world.random.choice([1, 5, 30, 130])):
                world.step()
            world.random.choice(OPERATIONS)(world)
        sent += world.count
    assert sent > 4000, 'most of the time nothing is wrong'


@pytest.mark.parametrize('seed', range(200))
def test_an_armed_vehicle_that_turns_out_of_view_gets_the_poses_of_its_node_again(seed):
    """With one node no pose waits, at each of several occlusions, on one topic or two."""
    chance = random.Random(seed)
    gate = Gate(plan(BridgeSettings(body='cf1')))
    topics = chance.choice([[POSE], ['odom', POSE]])
    binding = TopicsBinding(topics, pose_reach)
    gate.status('TRACKED', 0, Doubt())
    gate.active = True
    gate.arm(True)
    turn_deg_s = chance.uniform(10.0, 200.0)
    rate_hz = chance.choice([50, 100, 240])
    loss = chance.choice([0.0, 0.0, 0.1])
    hidden = [(at, at + chance.uniform(0.1, 3.5)) for at in (2.0, 7.0, 12.0)]
    sent, seen = [], []
    number = odometry_at = 0
    for i in range(17 * rate_hz):
        at = i / rate_hz
        now = START + i * 1000 * MS // rate_hz
        binding.tick(now)
        if any(begin <= at < end for begin, end in hidden):
            continue
        number += 1
        seen.append(at)
        quat = yawed(turn_deg_s * at)
        for topic in topics:
            if chance.random() < loss:
                continue
            begins = binding.accept(
                topic, StreamMessage(number, now, ((1.0, 0.0, 1.0), quat)), now, True)
            if begins is not None and topic == 'odom':
                odometry_at = now
            elif topic == POSE and now - odometry_at < 500 * MS:
                if begins:      # as the bridge: odometry comes before the pose
                    gate.interrupt()
                continue
            use = gate.use(VisionSample(now, (1.0, 0.0, 1.0), quat), begins, Output(
                True, 0, now - 10 * MS if sent else 0), now + MS, binding.changed)
            if use is Use.SEND:
                sent.append(at)
    assert not gate.doubt and not gate.withheld[Withheld.DOUBTFUL]
    late = [min(one for one in sent if one >= end) - min(one for one in seen if one >= end)
            for _, end in hidden]
    assert max(late) <= 0.02 + (0.1 if loss else 0.0), late
