# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Takes made by hand, and bags of them, with what a report finds in them."""

import numpy as np
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.assess.rules import findings
from optitrack_vrpn.takes.columns import ROW
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.take import Take, TakeBody
from optitrack_vrpn.takes.take_io import load_take
from optitrack_vrpn.takes.trajectory import Trajectory
from recording_kit import add_topic, BEGIN_NS, cdr, make, pose_cdr, topic as topic_of
from scipy.spatial.transform import Rotation

STILL = (0.0, 0.0, 0.0, 1.0)


def body(name='wand', seconds=10.0, rate=240, noise_m=0.0, noise_deg=0.0, keep=None, move=None):
    rng = np.random.default_rng(3)
    times = np.arange(0, seconds, 1 / rate)
    positions = rng.normal(0, 1, (len(times), 3)) * noise_m + (1.0, 2.0, sum(map(ord, name)))
    if move is not None:
        positions = positions + move(times)[:, None] * (1.0, 0.0, 0.0)
    quats = Rotation.from_rotvec(
        np.radians(noise_deg) * rng.normal(0, 1, (len(times), 3))).as_quat()
    kept = np.ones(len(times), dtype=bool) if keep is None else keep(times)
    stamps = BEGIN_NS + np.round(times * 1e9).astype(np.int64)
    return body_of(name, Trajectory(stamps[kept], positions[kept], quats[kept]))


class PosesInMemory:
    """Poses of a trajectory with their arrivals (ns), as one block."""

    def __init__(self, trajectory, arrivals_ns):
        self._rows = np.empty(len(trajectory), ROW)
        self._rows['stamp'], self._rows['arrival'] = trajectory.stamps_ns, arrivals_ns
        self._rows['pose'] = np.hstack((trajectory.positions, trajectory.quats_xyzw))

    def __len__(self):
        return len(self._rows)

    def table(self):
        return self._rows


def body_of(name, trajectory, states=()):
    return TakeBody(name, PosesInMemory(trajectory, trajectory.stamps_ns + 3_000_000),
                    list(states))


def take_of(*bodies, **more):
    stamps = [stamp for b in bodies for stamp in b.table()['stamp'].tolist()]
    return Take('take', 'bag', {b.name: b for b in bodies}, **more,
                begin_ns=min(stamps, default=0), end_ns=max(stamps, default=0))


def found_in(take):
    return findings(
        take, [body_figures(take, b) for b in take.bodies.values() if len(b.rows) > 1])


def texts(take):
    return [(f.severity, f.text) for f in found_in(take)]


def status(name, state):
    """Give the status of a body at the beginning, and its type."""
    values = [make('diagnostic_msgs/KeyValue', 'state', state)]
    return 'diagnostic_msgs/msg/DiagnosticStatus', [(0.0, cdr(make(
        'diagnostic_msgs/DiagnosticStatus', 0, f'node: body {name}', '', '', values)))]


def written(folder, topics, close=True):
    """
    Write a bag.

    :param topics: by topic its type, and rows of log time (s) and data.
    """
    writer = BagWriter(folder, 'none')
    rows = []
    for channel, (name, (kind, messages)) in enumerate(topics.items(), 1):
        add_topic(writer, topic_of(name, kind), channel)
        rows += [(BEGIN_NS + round(at_s * 1e9), channel, data) for at_s, data in messages]
    for number, (log_ns, channel, data) in enumerate(sorted(rows)):
        writer.write(Message(channel, number, log_ns, log_ns, data), log_ns)
        writer.tick(log_ns)
    if close:
        writer.close()
    return load_take(folder)


def poses_of(x, seconds=4.0, rate=100):
    return [(at, pose_cdr(BEGIN_NS + round(at * 1e9), (x, 0.0, 0.001 * (k % 7)), STILL))
            for k, at in enumerate(np.arange(0.0, seconds, 1 / rate))]
