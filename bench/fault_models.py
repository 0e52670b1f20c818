# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Faults of what NatNet carries beside rigid bodies: bones, unlabelled markers, force plates.

Every published bone, marker and force is compared with the closed form from which the simulator
makes it, which identifies its frame; a row has the counts of all three kinds.
"""

from collections import Counter
import json
import math
import time

from fault_kit import MAX_AGE_S, RATE, scenario, Session, word, WRITING_S
from fault_protocol import title
from geometry_msgs.msg import WrenchStamped
import numpy as np
from optitrack_vrpn.sim.figure import BONES_51, SimFigure
from optitrack_vrpn.sim.natnet_models import force, SAMPLES
from optitrack_vrpn.stream.server_data import POINT
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rosgraph import wait_until
from sensor_msgs.msg import PointCloud2
from tf2_msgs.msg import TFMessage

_MARKERS = 2
_KINDS = ('bones', 'markers', 'plates')
#: Positions are 4-byte floats; a frame of the figure is 12 mm from the next.
_SAME_M, _SAME_N = 1e-5, 1e-2
_NS = 1_000_000_000


class Models:
    """
    A node that publishes all three kinds, and what was heard.

    :param faults: of the skeleton, as in a scenario.
    """

    def __init__(self, faults=()):
        self.session = Session(1)
        self.heard = {kind: [] for kind in _KINDS}
        self._natnet = {'skeletons': 1, 'unlabelled': _MARKERS, 'markers': 0, 'plates': 1,
                        'version': '4.4', 'skeleton_faults': list(faults)}

    def __enter__(self):
        session = self.session.__enter__()
        try:
            self._start(session)
        except BaseException:
            session.__exit__(None, None, None)
            raise
        return self

    def _start(self, session):
        node, qos = session.observer.node, QoSProfile(depth=20000)
        self._subscriptions = [
            node.create_subscription(kind, topic, self._taker(name, kind), qos, raw=True)
            for name, kind, topic in (
                ('bones', TFMessage, '/tf'), ('markers', PointCloud2, '/markers'),
                ('plates', WrenchStamped, '/Plate_1/wrench'))]
        self.server = self.serve()
        session.start_node(
            self.server.port, outputs='[pose, status, skeleton_tf, markers, wrench]')
        wait_until(lambda: all(len(box) > 20 for box in self.heard.values()), 60.0,
                   'messages of every kind')
        time.sleep(1.0)
        session.skipped_before = {id(self.server): self.server.ask('count')['skipped']}
        self.steady_ns = time.time_ns()

    def __exit__(self, *error):
        self.session.__exit__(*error)

    def serve(self, **where):
        """Start a server."""
        return self.session.server(scenario(1, natnet=self._natnet), **where)

    def _taker(self, name, kind):
        box = self.heard[name]

        def take(data, info):
            message = deserialize_message(bytes(data), kind)
            if name != 'bones':
                box.append((info['source_timestamp'], message.header.stamp, message))
                return
            bones = [one for one in message.transforms
                     if one.child_frame_id.startswith('Skeleton_1_')]
            if bones:
                box.append((info['source_timestamp'], bones[0].header.stamp, bones))
        return take

    def back(self, since_ns):
        """Wait until every kind is heard after a time; return the time of the last first one."""
        def first():
            return [next((at for at, _, _ in list(box) if at > since_ns), None)
                    for box in self.heard.values()]
        wait_until(lambda: None not in first(), 90.0, 'every kind again')
        return max(first())

    def row(self, name, begin_ns, end_ns):
        """Wait for the end of a case and sum it up."""
        back_ns = self.back(end_ns)
        time.sleep(1.5)
        noticed = self.session.noticed(begin_ns)
        return {
            'name': title(name), 'note': '',
            'noticed_s': None if noticed is None else (noticed[0] - begin_ns) / 1e9,
            'word': '' if noticed is None else 'lost' if 'not tracked' in noticed[1] else word(
                noticed[1]),
            'recovered_s': (back_ns - end_ns) / 1e9,
            **self.judge(self.steady_ns, time.time_ns())}

    def judge(self, begin_ns, end_ns):
        """Compare what was published with the closed forms; counts as ``Session.judge``."""
        counts = Counter(dict.fromkeys(('poses', 'stale', 'wrong', 'repeated', 'backwards'), 0))
        ages, errors, seen = [], [], {kind: set() for kind in _KINDS}
        for kind in _KINDS:
            last_ns = 0
            for at_ns, stamp, message in list(self.heard[kind]):
                if not begin_ns <= at_ns <= end_ns:
                    continue
                counts['poses'] += 1
                stamp_ns = stamp.sec * _NS + stamp.nanosec
                counts['backwards'] += stamp_ns <= last_ns
                last_ns = stamp_ns
                found = self._find(kind, message, stamp_ns)
                if found is None:
                    counts['wrong'] += 1
                    continue
                server, number = found
                counts['repeated'] += found in seen[kind]
                seen[kind].add(found)
                due_ns = self.session.servers[server].origin_ns + number * _NS / RATE
                ages.append((at_ns - due_ns) / 1e9)
                errors.append((stamp_ns - due_ns) / 1e9)
        counts['stale'] = sum(age > MAX_AGE_S + WRITING_S for age in ages)
        made = {(index, number) for index, server in enumerate(self.session.servers)
                for number in range(
                    math.ceil((max(begin_ns, server.begin_ns) - server.origin_ns) * RATE / _NS),
                    math.floor((min(end_ns - _NS // 2, server.end_ns) - server.origin_ns)
                               * RATE / _NS) + 1)}
        return {**counts, 'skipped_frames': self.session.skipped(),
                'made': len(_KINDS) * len(made),
                'lost': sum(len(made - found) for found in seen.values()), 'least_ms': 0.0,
                'oldest_ms': 1e3 * max(ages, default=0.0),
                'stamp_error_ms': 1e3 * max(errors, default=0.0, key=abs)}

    def _find(self, kind, message, stamp_ns):
        """Find server and frame of a message: the stamp says where to look."""
        for index, server in enumerate(self.session.servers):
            near = round((stamp_ns - server.origin_ns) * RATE / 1e9)
            for number in sorted(range(near - 60, near + 3), key=lambda one: abs(one - near)):
                due_ns = server.origin_ns + number * _NS / RATE
                sent = server.begin_ns - _NS <= due_ns <= server.end_ns
                if sent and _MATCHES[kind](message, number):
                    return index, number
        return None


def _bones_match(message, number):
    positions, quats = _FIGURE.at(np.array((number / RATE,)))
    for one in message:
        bone = _BONES[one.child_frame_id.removeprefix('Skeleton_1_')]
        place, turn = one.transform.translation, one.transform.rotation
        x, y, z = positions[0, bone]    # ENU is z, x, y; FLU as in the kit
        if math.dist((place.x, place.y, place.z), (z, x, y)) > _SAME_M:
            return False
        qx, qy, qz, qw = quats[0, bone]
        half = math.sqrt(0.5)
        truth = half * np.array((qz + qx, qx - qz, qy + qw, qw - qy))
        if abs(np.dot(truth, (turn.x, turn.y, turn.z, turn.w))) < 1 - 1e-9:
            return False
    return True


def _markers_match(message, number):
    angle = 0.5 * number / RATE
    truth = [(3.0 * math.sin(angle + i), 3.0 * math.cos(angle + i), 0.5 + 0.001 * i)
             for i in range(_MARKERS)]
    found = [point[:3] for point in POINT.iter_unpack(bytes(message.data))]
    return len(found) == _MARKERS and all(
        math.dist(one, other) < _SAME_M for one, other in zip(found, truth))


def _wrench_matches(message, number):
    truth = np.mean([force(0, (number - j / SAMPLES) / RATE) for j in range(SAMPLES)], axis=0)
    linear, angular = message.wrench.force, message.wrench.torque
    found = (linear.x, linear.y, linear.z, angular.x, angular.y, angular.z)
    return np.abs(truth - found).max() < _SAME_N


_FIGURE = SimFigure(BONES_51[:21], 1.5, 0.0)
_BONES = {bone.name: number for number, bone in enumerate(BONES_51)}
_MATCHES = {'bones': _bones_match, 'markers': _markers_match, 'plates': _wrench_matches}


def _with_fault(name, fault, seconds):
    """Let the skeleton have a fault some seconds after the start; the others go on."""
    begin_s = 16.0
    with Models([{**fault, 'start': begin_s, 'end': begin_s + seconds}]) as models:
        begin_ns = models.server.origin_ns + round(begin_s * 1e9)
        if time.time_ns() > begin_ns:
            raise RuntimeError('the node took too long to start')
        time.sleep(max(0.0, (begin_ns - time.time_ns()) / 1e9 + seconds))
        return [models.row(name, begin_ns, begin_ns + round(seconds * 1e9))]


def bones_lost():
    """Skeleton out of view, as Motive states it."""
    return _with_fault('all bones not tracked for 1 s, then in place',
                       {'type': 'occlusion', 'mode': 'frozen'}, 1.0)


def bones_nan():
    """Skeleton without numbers."""
    return _with_fault('all bones NaN for 0.2 s', {'type': 'not_finite'}, 0.2)


def bones_jump():
    """Skeleton somewhere else."""
    return _with_fault('all bones teleported by 1 m for 1 s',
                       {'type': 'teleport', 'offset': [1.0, 0.0, 0.0]}, 1.0)


def models_killed():
    """Kill the server and start it again."""
    with Models() as models:
        begin = time.time_ns()
        models.server.kill()
        time.sleep(3.0)
        again = models.serve(port=models.server.port)
        return [models.row('bones, markers, plate: server killed, there again after 3 s', begin,
                           again.begin_ns)]


def models_impaired():
    """Lose, repeat and overtake datagrams."""
    with Models() as models:
        begin = time.time_ns()
        models.server.ask('network ' + json.dumps(
            {'loss': 0.05, 'duplicate': 0.1, 'reorder': 0.05, 'reorder_ms': 25.0}))
        time.sleep(8.0)
        return [models.row(
            'bones, markers, plate: datagrams lost (5 %), twice (10 %), overtaken (5 %)', begin,
            begin)]


CASES = {'bones_lost': bones_lost, 'bones_nan': bones_nan, 'bones_jump': bones_jump,
         'models_killed': models_killed, 'models_impaired': models_impaired}
