# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Inject every fault into closed-form trajectories and compare the published poses with the truth.

    python -m bench.bodies                 print the table
    python -m bench.bodies --write-docs    and put the diagram of states into docs/bodies.md
    python -m bench.bodies --write-diagram put only this diagram there
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
import math
from pathlib import Path
import random
import statistics
from typing import NamedTuple

from optitrack_vrpn.core.rotation import (
    angle_between, from_rotation_vector, multiply, normalised, Quat, Vector)
from optitrack_vrpn.stream.bodies import swap
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import mermaid, State
from optitrack_vrpn.stream.bodies.times import Epoch
from optitrack_vrpn.stream.bodies.tracker import Tracker

DOCS = Path(__file__).resolve().parent.parent / 'docs' / 'bodies.md'
EVENTS = 12
PERIOD_S = 6.0
BAD_POSITION = 0.005
BAD_ATTITUDE = math.radians(2.0)
NAN = math.nan


class Pose(NamedTuple):
    """A pose: position (m) and attitude."""

    position: Vector
    quat: Quat


def drone(t: float) -> Pose:
    """Fly figures of eight at up to 2.5 m/s, nose along a slow turn, tilting."""
    tilt = from_rotation_vector((0.2 * math.sin(2.1 * t), 0.2 * math.cos(1.7 * t), 0.0))
    yaw = (0.0, 0.0, math.sin(0.35 * t), math.cos(0.35 * t))
    return Pose(
        (2.0 * math.sin(0.9 * t), 1.2 * math.sin(1.8 * t), 1.5 + 0.3 * math.sin(0.5 * t)),
        multiply(yaw, tilt))


def wand(t: float) -> Pose:
    """Wave a wand by hand: up to 4 m/s and 6 rad/s."""
    turn = from_rotation_vector((
        1.0 * math.sin(5.0 * t), 0.8 * math.sin(3.3 * t), 0.9 * math.cos(4.1 * t)))
    return Pose(
        (4.5 + 0.6 * math.sin(5.0 * t), -3.0 + 0.5 * math.sin(4.0 * t),
         1.2 + 0.2 * math.cos(6.0 * t)), turn)


def rover(t: float) -> Pose:
    """Drive a circle at half a metre a second."""
    return Pose(
        (-4.0 + math.cos(0.5 * t), 3.0 + math.sin(0.5 * t), 0.1),
        (0.0, 0.0, math.sin(0.25 * t), math.cos(0.25 * t)))


def toy(t: float) -> Pose:
    """Move slightly about the world's origin, like a body that was created there."""
    turn = from_rotation_vector((0.03 * math.sin(3.0 * t), 0.0, 0.02 * math.cos(2.0 * t)))
    return Pose((0.01 * math.sin(3.0 * t), 0.01 * math.cos(2.0 * t), 0.01), turn)


TRUTH: dict[str, Callable[[float], Pose]] = {
    'drone': drone, 'wand': wand, 'rover': rover, 'toy': toy}


class Frame(NamedTuple):
    """What arrives of one body in one frame."""

    sender_ns: int
    body: str
    pose: Pose
    fresh: bool = True


Fault = Callable[[int, 'Event', str, Frame, 'Scene'], list[Frame]]
"""Turn a frame (its number in the event, the event, the body, the frame, the scene) into what
arrives instead."""


@dataclass
class Event:
    """One fault of one body: from frame ``first`` for ``length`` frames."""

    body: str
    first: int
    length: int
    kept: dict[str, Pose] = field(default_factory=dict)


class Scene(NamedTuple):
    """The true, noisy poses of all bodies in one frame."""

    number: int
    time_ns: int
    poses: dict[str, Pose]


@dataclass(frozen=True)
class Case:
    """
    A fault, its duration (s; 0 is one frame), and the affected bodies.

    ``legitimate`` faults send no untrue pose; they only send some twice or late.
    """

    name: str
    fault: Fault
    length_s: float
    every_body: bool = False
    legitimate: bool = False
    hits: tuple[str, ...] = ('drone', 'wand')


def silent(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Send nothing."""
    return []


def frozen(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Repeat the pose before the event."""
    return [frame._replace(pose=event.kept[body])]


def zeroed(quat: Quat) -> Fault:
    """Send zeros with this attitude."""
    def fault(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
        return [frame._replace(pose=Pose((0.0, 0.0, 0.0), quat))]
    return fault


def turned(axis: Vector, degrees: float) -> Fault:
    """Turn the body about its own axis: a symmetry of its markers."""
    scale = math.radians(degrees) / math.hypot(*axis)
    turn = from_rotation_vector((axis[0] * scale, axis[1] * scale, axis[2] * scale))

    def fault(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
        pose = frame.pose
        return [frame._replace(pose=Pose(pose.position, multiply(pose.quat, turn)))]
    return fault


def moved(x: float, y: float, z: float) -> Fault:
    """Displace the body."""
    def fault(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
        p = frame.pose.position
        return [frame._replace(pose=Pose((p[0] + x, p[1] + y, p[2] + z), frame.pose.quat))]
    return fault


def scattered(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Displace the body by another distance in every frame."""
    draw = random.Random(event.first * 1000 + k)
    p = frame.pose.position
    return [frame._replace(pose=Pose(
        (p[0] + draw.choice((-1, 1)) * draw.uniform(1, 4), p[1] + draw.uniform(-4, 4), p[2]),
        normalised((draw.gauss(0, 1), draw.gauss(0, 1), draw.gauss(0, 1), draw.gauss(0, 1)))))]


def replaced(position: Vector | None, quat: Quat | None) -> Fault:
    """Send numbers that are not a pose."""
    def fault(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
        return [frame._replace(pose=Pose(position or frame.pose.position,
                                         quat or frame.pose.quat))]
    return fault


def label_taken(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Show the rover, or the drone for the rover, under this body's name."""
    other = 'drone' if body == 'rover' else 'rover'
    return [frame._replace(pose=scene.poses[other])]


def exchanged(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Exchange drone and wand; the others keep their names."""
    other = {'drone': 'wand', 'wand': 'drone'}.get(body, body)
    return [frame._replace(pose=scene.poses[other])]


def exchanged_with_outliers(
    k: int, event: Event, body: str, frame: Frame, scene: Scene,
) -> list[Frame]:
    """Exchange drone and wand; every 40th frame is turned over, every 100th elsewhere."""
    frames = exchanged(k, event, body, frame, scene)
    if k % 40 == 39:
        frames = turned((1, 0, 0), 180)(k, event, body, frames[0], scene)
    if k % 100 == 99:
        frames = moved(0.0, 0.0, 1.0)(k, event, body, frames[0], scene)
    return frames


def dropped(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Lose every third frame."""
    return [] if k % 3 == 0 else [frame]


def duplicated(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Send every frame twice."""
    return [frame, frame._replace(fresh=False)]


def reordered(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Let every second frame be followed by the one before it, late."""
    if k % 2 == 0:
        event.kept['late' + body] = frame.pose
        event.kept['time' + body] = Pose((float(frame.sender_ns), 0, 0), frame.pose.quat)
        return []
    late = Frame(int(event.kept['time' + body].position[0]), body, event.kept['late' + body],
                 False)
    return [frame, late]


def lost_then(fault: Fault, share: float = 0.5) -> Fault:
    """Be silent for a part of the event, then return with another fault."""
    def both(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
        if k < share * event.length:
            return []
        return fault(k, event, body, frame, scene)
    return both


def restarted(k: int, event: Event, body: str, frame: Frame, scene: Scene) -> list[Frame]:
    """Restart the sender time, lower or higher by turns (see ``stream``)."""
    return [frame]


CASES = (
    Case('silent for 0.4 s', silent, 0.4),
    Case('silent for 2 s', silent, 2.0),
    Case('frozen for 0.1 s', frozen, 0.1),
    Case('frozen for 1 s', frozen, 1.0),
    Case('zeroed, zero attitude, 0.5 s', zeroed((0.0, 0.0, 0.0, 0.0)), 0.5),
    Case('zeroed, identity attitude, 0.5 s', zeroed((0.0, 0.0, 0.0, 1.0)), 0.5),
    Case('zeroed at the origin, 0.5 s', zeroed((0.0, 0.0, 0.0, 1.0)), 0.5, hits=('toy',)),
    Case('zeroed at the origin, one frame', zeroed((0.0, 0.0, 0.0, 1.0)), 0.0, hits=('toy',)),
    Case('label of another body, 0.5 s', label_taken, 0.5),
    Case('flip by 180 degrees, 0.5 s', turned((0, 0, 1), 180), 0.5),
    Case('flip by 120 degrees, 0.5 s', turned((1, 1, 1), 120), 0.5),
    Case('flip by 90 degrees, 0.5 s', turned((1, 0, 0), 90), 0.5),
    Case('flip by 180 degrees, 1.5 s', turned((0, 1, 0), 180), 1.5),
    Case('flip by 180 degrees, 4 s', turned((1, 0, 0), 180), 4.0),
    Case('flip, one frame', turned((1, 0, 0), 180), 0.0),
    Case('drone silent 0.3 s, then flipped 0.3 s', lost_then(turned((0, 0, 1), 180)), 0.6,
         hits=('drone',)),
    Case('teleport by 1 m, 0.3 s', moved(0.8, 0.6, 0.0), 0.3),
    Case('teleport by 3 m, 1.5 s', moved(0.0, 3.0, 0.0), 1.5),
    Case('single outlier of 1 m', moved(0.0, 0.0, 1.0), 0.0),
    Case('another place each frame, 0.5 s', scattered, 0.5),
    Case('NaN position, one frame', replaced((NAN, NAN, NAN), None), 0.0),
    Case('NaN attitude, 0.2 s', replaced(None, (NAN, NAN, NAN, NAN)), 0.2),
    Case('infinite position, one frame', replaced((math.inf, 0.0, 0.0), None), 0.0),
    Case('quaternion of norm 0.9, 0.2 s', replaced(None, (0.0, 0.0, 0.0, 0.9)), 0.2),
    Case('every third frame dropped, 1 s', dropped, 1.0),
    Case('every frame duplicated, 1 s', duplicated, 1.0, legitimate=True),
    Case('every second frame late, 1 s', reordered, 1.0, legitimate=True),
    Case('two bodies exchange names, 0.5 s', exchanged, 0.5, every_body=True),
    Case('two bodies exchange names, 1.5 s', exchanged, 1.5, every_body=True),
    Case('two bodies exchange names, 4 s', exchanged, 4.0, every_body=True),
    Case('two bodies exchange names permanently', exchanged, 1e6, every_body=True),
    Case('two bodies exchange names out of sight, 0.3 s, for 1 s', lost_then(exchanged, 0.3 / 1.3),
         1.3, every_body=True),
    Case('two bodies exchange names out of sight, permanently', lost_then(exchanged, 3e-7), 1e6,
         every_body=True),
    Case('two bodies exchange names permanently, with outliers', exchanged_with_outliers, 1e6,
         every_body=True),
    Case('sender clock restarts or steps', restarted, 0.0, every_body=True),
)


@dataclass
class Outcome:
    """Results of a case for the affected bodies."""

    events: int = 0
    bad_sent: int = 0
    bad_out: int = 0
    withheld: list[int] = field(default_factory=list)
    notice_ms: list[float] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    resets: int = 0


def plan(case: Case, rate: float) -> list[Event]:
    """Place the events of a case, at odd times, by turns on drone and wand."""
    draw = random.Random(case.name)
    length = max(1, round(case.length_s * rate))
    count = 1 if case.length_s > PERIOD_S else EVENTS
    return [
        Event(case.hits[i % len(case.hits)], round((2 + i * PERIOD_S + draw.uniform(0, 1)) * rate),
              length) for i in range(count)]


def stream(case: Case, rate: float, events: list[Event], noise: float,
           seed: int) -> Iterator[tuple[int, int, list[Frame], Event | None]]:
    """Make the frames of a case one by one, as they arrive."""
    draws = {body: random.Random(f'{seed} {body}') for body in TRUTH}
    last = Scene(-1, 0, {})
    pending = list(events)
    event: Event | None = None
    epoch = 1_234_567_000_000
    for number in range(round((3 + len(events) * PERIOD_S) * rate)):
        t = number / rate
        poses = {}
        for body, truth in TRUTH.items():
            p, q = truth(t)
            draw = draws[body]
            poses[body] = Pose(
                (p[0] + draw.gauss(0, noise), p[1] + draw.gauss(0, noise),
                 p[2] + draw.gauss(0, noise)),
                multiply(from_rotation_vector((
                    draw.gauss(0, noise), draw.gauss(0, noise), draw.gauss(0, noise))), q))
        scene = Scene(number, round(t * 1e9), poses)
        if pending and number == pending[0].first:
            event = pending.pop(0)
            event.kept.update(last.poses)
            if case.fault is restarted:
                epoch = 50_000_000_000 if epoch > 1e12 else 1_234_567_000_000
        frames: list[Frame] = []
        for body in TRUTH:
            frame = Frame(scene.time_ns + epoch, body, poses[body])
            k = number - event.first if event else -1
            if event and 0 <= k < event.length and (case.every_body or body == event.body):
                frames += case.fault(k, event, body, frame, scene)
            else:
                frames.append(frame)
        yield scene.time_ns, epoch, frames, event
        last = scene


def run(case: Case, rate: float, config: BodyConfig | None = None, noise: float = 0.0003,
        seed: int = 1) -> Outcome:
    """
    Send a case through the state machine and compare what comes out with the truth.

    A pose that goes out is bad when it is not the true pose of its sender time within 5 mm and
    2 degrees, or goes out twice. A pose is good when it is the true one, arrives first and is
    withheld all the same.
    """
    bodies = {name: Tracker(name, config) for name in TRUTH}
    for each in bodies.values():
        each.compare_with(lambda *arguments: swap.find_swap(
            arguments[0], bodies.values(), *arguments[1:]))
    events = plan(case, rate)
    outcome = Outcome(events=len(events))
    lag_ns = 2_000_000
    counted = dict.fromkeys(TRUTH, 0)
    first_bad: dict[str, int] = {}
    was: Event | None = None
    next_tick = 0
    hit: tuple[str, ...] = ()
    last_epoch = None

    def close() -> None:
        if was is not None:
            outcome.withheld.extend(counted[name] for name in hit)

    for time_ns, epoch, frames, event in stream(case, rate, events, noise, seed):
        if event is not was:
            close()
            was = event
            counted = dict.fromkeys(TRUTH, 0)
            first_bad = {}
            hit = ('drone', 'wand') if case.every_body else (event.body if event else '',)
        now = time_ns + lag_ns
        while next_tick <= now:
            for body in bodies.values():
                body.tick(next_tick)
            swap.review(bodies.values())
            next_tick += 20_000_000
        if last_epoch is not None and epoch < last_epoch and frames:
            for body in bodies.values():    # as the clock model does
                body.restart(Epoch(frames[0].sender_ns, now))
        last_epoch = epoch
        if event and case.fault is silent and event.body not in first_bad:
            first_bad[event.body] = now
        for frame in frames:
            body = bodies[frame.body]
            truth = TRUTH[frame.body]((frame.sender_ns - epoch) * 1e-9)
            good = frame.fresh and _close(frame.pose, truth)
            if not good and not case.legitimate:
                outcome.bad_sent += 1
                first_bad.setdefault(frame.body, now)
            quat = body.update(frame.sender_ns, now, frame.pose.position, frame.pose.quat)
            if quat is not None:
                if not frame.fresh or not _close(Pose(frame.pose.position, quat), truth):
                    outcome.bad_out += 1
            elif good and event is not None:
                counted[frame.body] += 1
        for body in bodies.values():
            jumped = False
            for change in body.take_changes():
                jumped |= change.after is State.JUMPED
                if event and change.after is not State.TRACKED:
                    outcome.states.add(change.after.value)
                    if body.name in first_bad:
                        outcome.notice_ms.append(
                            (change.time_ns - first_bad.pop(body.name)) * 1e-6)
            if jumped:
                swap.review(bodies.values())
    close()
    outcome.resets = sum(body.resets for body in bodies.values())
    return outcome


def _close(pose: Pose, truth: Pose) -> bool:
    """Return whether a pose is the true one but for noise."""
    if not math.isfinite(sum(pose.position) + sum(pose.quat)):
        return False
    return (math.dist(pose.position, truth.position) < BAD_POSITION
            and abs(math.hypot(*pose.quat) - 1.0) < 1e-3
            and angle_between(normalised(pose.quat), truth.quat) < BAD_ATTITUDE)


def table(rate: float = 240.0, slow: float = 60.0) -> str:
    """Make the table, in Markdown."""
    lines = [
        f'{EVENTS} events each (one for "permanently"), on a drone at up to 2.5 m/s and a wand at '
        'up to 4 m/s and',
        f'6 rad/s, noise 0.3 mm and 0.3 mrad, default thresholds. Two figures: at {rate:.0f} Hz / '
        f'at {slow:.0f} Hz.',
        '',
        '| Fault | Bad poses sent | Bad poses out | Good withheld, worst event | '
        'Noticed after (median, ms) | States | Resets |',
        '|---|--:|--:|--:|--:|---|--:|']
    for case in CASES:
        outcomes = [run(case, each) for each in (rate, slow)]
        cells = [
            ' / '.join(str(value) for value in values) for values in (
                [o.bad_sent for o in outcomes], [o.bad_out for o in outcomes],
                [max(o.withheld, default=0) for o in outcomes],
                [f'{statistics.median(o.notice_ms):.0f}' if o.notice_ms else '-'
                 for o in outcomes])]
        states = ', '.join(sorted(outcomes[0].states | outcomes[1].states)) or '-'
        resets = ' / '.join(str(o.resets) for o in outcomes)
        lines.append(f'| {case.name} | ' + ' | '.join(cells) + f' | {states} | {resets} |')
    return '\n'.join(lines)


def write_block(path: Path, marker: str, text: str) -> None:
    """Replace what stands between two marker comments of a document."""
    begin, end = f'<!-- {marker}: begin -->', f'<!-- {marker}: end -->'
    document = path.read_text(encoding='utf-8')
    head, rest = document.split(begin)
    path.write_text(head + begin + '\n' + text + '\n' + end + rest.split(end)[1],
                    encoding='utf-8')


def main() -> None:
    """Print the table; write the diagram into the documentation if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--write-docs', action='store_true', help='update the diagram in docs/bodies.md too')
    parser.add_argument(
        '--write-diagram', action='store_true', help='update this diagram, and end')
    arguments = parser.parse_args()
    if arguments.write_diagram or arguments.write_docs:
        write_block(DOCS, 'transitions', mermaid())
    if not arguments.write_diagram:
        print(table())


if __name__ == '__main__':
    main()
