# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What is known of bodies and nodes, and how old it is.

``now`` is a time on a clock that does not step (s). A body is live if its node reports it as
TRACKED now and a new transform of it arrived within ``LIVE_S``; the page shows every other body as
lost, at its last place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
import math
import struct
from typing import Any, Optional

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.rotation import rotate
from optitrack_vrpn.core.severity import INFO, STALE
from optitrack_vrpn.core.status import number_of, StatusReport
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.stream.bodies.states import State

#: Age of the last transform above which a body is not live (s): half a second is the loss that
#: autopilots report.
LIVE_S = 0.5
#: Chosen: longest silence of a node's reports (s), in periods of its reports, and at least.
_PERIODS, _LEAST_SILENCE_S = 2.5, 3.0
#: Chosen: time for the first transform of a new body, or after /tf is read again (s).
_FIRST_S = 1.0
#: Chosen: time after which a body or node without news is removed (s).
_FORGET_S = 120.0
#: Chosen: length of the history of a body (s), and the period of its positions (s).
HISTORY_S, _PLACE_S = 60.0, 0.2
#: Chosen: least time between two counted reports, and time over which the rate is shown (s).
_APART_S, _RATE_S = 0.4, 2.5
#: Largest numbers of bodies (the node has as many) and of nodes.
_MOST_BODIES, _MOST_NODES = 500, 50
#: Larger numbers of a pose are no news: floats of the frames cannot hold them.
_LARGEST = 1e30
#: A frame of the WebSocket: kind, reserved, number of entries, age of the newest transform (s).
_HEAD = struct.Struct('<BBHf')
#: A body in it: index, age (ms), pose. A marker: place, streaming id of its body (0: none).
_BODY, _MARKER = struct.Struct('<HH7f'), struct.Struct('<3fI')
#: A line: its ends (m), and what it is.
_LINE = struct.Struct('<6fI')
BODIES, MARKERS, LINES = 1, 2, 3
BONE, PLATE, FORCE = range(3)
#: Chosen: length of a force in the view (m/N), and half the length of the axes of a plate (m).
_M_PER_N, _PLATE_M = 0.001, 0.25


@dataclass
class LabReport:
    """
    A diagnostic with the time of its arrival.

    :ivar period_s: longest recent time between two of them (s), without a single gap.
    :ivar gap_s: time between the last two (s).
    """

    level: int = STALE
    message: str = ''
    values: Mapping[str, str] = field(default_factory=dict)
    at: float = -math.inf
    period_s: float = 1.0
    gap_s: float = math.inf

    def update(self, level: int, message: str, values: Mapping[str, str], now: float) -> None:
        """Replace it by a new one."""
        if math.isfinite(self.at):
            gap = now - self.at    # one long gap is a node that was started again
            self.period_s = min(max(min(gap, self.gap_s), 0.9 * self.period_s, 1.0), 30.0)
            self.gap_s = gap
        self.level, self.message, self.values, self.at = level, message, values, now

    def silent(self, now: float) -> bool:
        """Return whether the next one is overdue."""
        return now - self.at > max(_PERIODS * self.period_s, _LEAST_SILENCE_S)


@dataclass
class LabBody:
    """
    One body.

    :ivar index: its number in binary frames.
    :ivar name: its name in ROS.
    :ivar frame: its frame on /tf; ``world`` the parent, '' for any that is not of NED.
    :ivar pose: its last transform; empty before the first.
    :ivar pose_at: arrival of that.
    :ivar first_at: arrival of its first report.
    :ivar lost_at: last moment at which it was not live, after it was.
    :ivar counts: arrivals of the last reports, with the number of published poses.
    :ivar rates: times of reports, rate (Hz) of the poses published since the one before, and their
        median latency (ms); NaN without poses.
    :ivar places: time and position.
    """

    index: int
    name: str
    node: str
    report: LabReport = field(default_factory=LabReport)
    frame: str = ''
    world: str = ''
    pose: tuple[float, ...] = ()
    stamp_ns: int = 0
    pose_at: float = -math.inf
    first_at: float = -math.inf
    lost_at: float = -math.inf
    counts: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=60))
    rates: deque[tuple[float, ...]] = field(default_factory=lambda: deque(maxlen=120))
    places: deque[tuple[float, ...]] = field(
        default_factory=lambda: deque(maxlen=round(HISTORY_S / _PLACE_S)))

    def count(self, now: float, published: Optional[float], latency_ms: Optional[float]) -> None:
        """
        Take the number of poses that were published up to a report.

        The rate in the report is that of the sender's stamps, which losses do not lower.
        """
        if published is None or (self.counts and published < self.counts[-1][1]):
            self.counts.clear()    # the node was configured again
        if published is None:
            return
        if self.counts and now - self.counts[-1][0] >= _APART_S:
            before_at, before = self.counts[-1]
            rate = (published - before) / (now - before_at)
            self.rates.append((now, rate, latency_ms if rate and latency_ms else math.nan))
        elif self.counts:    # the same report on another topic, or a change between two
            return
        self.counts.append((now, published))
        while len(self.counts) > 2 and now - self.counts[1][0] >= _RATE_S:
            self.counts.popleft()

    @property
    def rate_hz(self) -> Optional[float]:
        """Return the rate of published poses in the last reports (Hz); None without them."""
        if len(self.counts) < 2 or self.counts[-1][1] == self.counts[-2][1]:
            return None
        (first_at, first), (last_at, last) = self.counts[0], self.counts[-1]
        return (last - first) / (last_at - first_at)

    def condition(
        self, now: float, inactive: bool = False, reading_since: float = -math.inf,
    ) -> tuple[str, str, str]:
        """
        Judge the body.

        :param inactive: whether its node is known not to be active.
        :param reading_since: since when its transforms are awaited.
        :returns: its sign (``ok``, ``warn`` or ``lost``), a word and the reason.
        """
        state = self.report.values.get('state', 'UNKNOWN')
        if self.report.silent(now):
            return 'lost', 'NO NEWS', f'{self.node} has not reported it since'
        if self.report.level == STALE and state != State.STALE.value:
            return 'lost', 'REMOVED', self.report.message
        if state != State.TRACKED.value:
            return 'lost', state, self.report.message.removeprefix(f'{state}: ')
        if inactive:
            return 'lost', 'INACTIVE', f'{self.node} is not active: it publishes no poses'
        if now - self.pose_at > LIVE_S:
            begin = reading_since if self.pose else max(reading_since, self.first_at)
            if now - begin < _FIRST_S:
                return 'lost', 'WAITING', 'for its first transform'
            return 'lost', 'NO POSE', f'no transform of {self.frame or self.name}' + (
                ': is the node active, and is tf_view or tf among its outputs?'
                if not self.pose else
                f' any more: has {self.node} ended?' if now - self.report.at > (
                    1.2 * self.report.period_s) else
                ' any more: is this computer or the network too slow?')
        warn = self.report.level != INFO
        return 'warn' if warn else 'ok', state, self.report.message if warn else ''


class Lab:
    """All bodies and nodes."""

    def __init__(self) -> None:
        self.bodies: dict[str, LabBody] = {}
        self.nodes: dict[str, dict[str, LabReport]] = {}
        #: Lifecycle states by the base name of the node.
        self.states: dict[str, str] = {}
        self.newest_at = -math.inf
        #: Since when /tf is read; infinite while it is not.
        self.reading_since = -math.inf
        self._answers: dict[str, LabReport] = {}
        self._active_since: dict[str, float] = {}
        self._by_frame: dict[str, LabBody] = {}
        #: Transforms of frames that are no bodies: those of force plates.
        self.plates: dict[str, tuple[float, ...]] = {}
        self._last_index = 0

    def add_report(self, report: StatusReport, now: float) -> None:
        """Take a diagnostic of the node of this package; others are ignored."""
        node, message = printable(report.node), printable(report.message, 800)
        level, subject, values = report.severity, report.subject, report.values
        if report.body and 'state' in values:
            self._update_body(node, printable(report.body), level, message, values, now)
        elif subject in ('connection', 'clock', 'frames') and (
                node in self.nodes or len(self.nodes) < _MOST_NODES):
            self.nodes.setdefault(node, {}).setdefault(subject, LabReport()).update(
                level, message, values, now)

    def _update_body(self, node: str, name: str, level: int, message: str,
                     values: Mapping[str, str], now: float) -> None:
        key = f'{node}: {name}'
        body = self.bodies.get(key)
        if body is None:
            if len(self.bodies) >= _MOST_BODIES:
                return
            self._last_index = self._last_index % 65535 + 1
            body = self.bodies[key] = LabBody(
                self._last_index, name, node, first_at=now)
        body.report.update(level, message, values, now)
        frame = values.get('frame', name)
        if frame != body.frame:
            self._by_frame.pop(body.frame, None)
            body.frame = frame
        self._by_frame[frame], body.world = body, values.get('world', '')
        body.count(now, number_of(values, 'published'), number_of(values, 'latency_p50_us', 1e-3))
        if values['state'] != State.TRACKED.value and body.pose:
            body.lost_at = now

    def add_transform(
        self, parent: str, child: str, stamp_ns: int, pose: tuple[float, ...], now: float,
    ) -> None:
        """
        Take a transform; one with the stamp of the last is no news.

        :param pose: x, y, z (m), and the quaternion x, y, z, w.
        """
        if child in self.plates and all(math.isfinite(x) and abs(x) < _LARGEST for x in pose):
            self.plates[child] = pose
        body = self._by_frame.get(child)
        if body is None or stamp_ns == body.stamp_ns or not all(map(math.isfinite, pose)) or (
                max(map(abs, pose)) > _LARGEST) or (
                parent != body.world if body.world else parent.endswith('_ned')):
            return
        body.pose, body.stamp_ns, body.pose_at = pose, stamp_ns, now
        self.newest_at = now
        if not body.places or now - body.places[-1][0] >= _PLACE_S:
            body.places.append((now, *pose[:3]))

    def forget(self, now: float) -> None:
        """Remove what has not been heard of for long."""
        for key, body in list(self.bodies.items()):
            if now - max(body.report.at, body.pose_at) > _FORGET_S:
                del self.bodies[key]
                if self._by_frame.get(body.frame) is body:
                    del self._by_frame[body.frame]
        for name, reports in list(self.nodes.items()):
            if all(now - one.at > _FORGET_S for one in reports.values()):
                del self.nodes[name]

    def set_state(self, node: str, label: str, now: float) -> None:
        """Take the lifecycle state of a node, by its base name."""
        if label == 'active' and self.states.get(node, label) != label:
            self._active_since[node] = now
        self.states[node] = label
        self._answers.setdefault(node, LabReport()).update(INFO, label, {}, now)

    def forget_state(self, node: str) -> None:
        """Remove the lifecycle state of a node that has left the graph."""
        self.states.pop(node, None)
        self._answers.pop(node, None)

    def mute(self, node: str, now: float) -> bool:
        """Return whether a node that has stated its lifecycle state does not answer any more."""
        return node in self._answers and self._answers[node].silent(now)

    def waiting_since(self, node: str) -> float:
        """Return since when transforms of a node are awaited; infinite while none is read."""
        return max(self.reading_since, self._active_since.get(node, -math.inf))

    def inactive(self, node: str) -> bool:
        """Return whether a node is known not to be active."""
        return self.states.get(node, 'active') not in ('active', 'deactivating', 'unknown')

    def body_rows(self, now: float) -> list[dict[str, Any]]:
        """Describe all bodies for the page."""
        rows = []
        for body in self.bodies.values():
            sign, word, reason = body.condition(
                now, self.inactive(body.node), self.waiting_since(body.node))
            if sign == 'lost' and body.pose and word != 'WAITING':
                body.lost_at = now
            # Figures of poses that are published now; after STOP a node repeats its last ones.
            rate = body.rate_hz if sign != 'lost' else None
            values = body.report.values if rate else {}
            rows.append({
                'index': body.index, 'name': body.name, 'node': body.node,
                'motive_name': printable(body.report.values.get('motive_name', '')), 'sign': sign,
                'state': word, 'reason': reason,
                'rate_hz': rate and round(rate, 2),
                'latency_ms': number_of(values, 'latency_p50_us', 1e-3),
                'jitter_ms': number_of(values, 'jitter_p99_us', 1e-3),
                'lost_s': age(now, body.lost_at), 'age_s': age(now, body.pose_at),
                'report_age_s': age(now, body.report.at),
                'position': [round(x, 4) for x in body.pose[:3]],
                'quat_xyzw': [round(x, 5) for x in body.pose[3:]]})
        return rows

    def node_rows(self, now: float) -> list[dict[str, Any]]:
        """Describe connection, clock and frames of all nodes for the page."""
        return [self._node_row(name, reports, now) for name, reports in self.nodes.items()]

    def _node_row(self, name: str, reports: dict[str, LabReport], now: float) -> dict[str, Any]:
        silent = all(one.silent(now) for one in reports.values())
        # The figures of clock and frames are those of the last poses.
        streams = not silent and not self.inactive(name) and reports.get(
            'connection', LabReport()).message.startswith(_STREAMING)
        shown = _OF_CONNECTION | _OF_STREAM if streams else frozenset() if silent \
            else _OF_CONNECTION
        return {
            'name': name, 'state': self.states.get(name, ''), 'silent': silent,
            'age_s': age(now, max(one.at for one in reports.values())),
            **{subject: {
                'level': one.level if streams or subject == 'connection' else STALE,
                'message': one.message if streams or subject == 'connection' else 'no poses now',
                'values': {key: printable(value) for key, value in one.values.items()
                           if key in shown}}
               for subject, one in reports.items()}}

    def frame(self, now: float) -> bytes:
        """Return the binary frame of all bodies with a recent transform."""
        recent = [body for body in self.bodies.values() if now - body.pose_at < 2.0 * LIVE_S]
        return _HEAD.pack(BODIES, 0, len(recent), now - self.newest_at) + b''.join(
            _BODY.pack(body.index, min(round(1000 * (now - body.pose_at)), 65535),
                       *body.pose) for body in recent)

    def history(self, index: int, now: float) -> Optional[dict[str, Any]]:
        """Return the last minute of a body, with times relative to now (s)."""
        for body in self.bodies.values():
            if body.index == index:
                return {'body': index, **{
                    name: [[round(row[0] - now, 2), *(
                        round(x, 4) if math.isfinite(x) else None for x in row[1:])]
                        for row in rows if now - row[0] <= HISTORY_S]
                    for name, rows in (('rates', body.rates), ('places', body.places))}}
        return None


def marker_frame(points: Iterable[tuple[float, float, float, int]], age_s: float) -> bytes:
    """Return the binary frame of markers: place (m) and streaming id of the body, 0 for none."""
    found = [point for point in points if all(map(math.isfinite, point))][:65535]
    return _HEAD.pack(MARKERS, 0, len(found), age_s) + b''.join(
        _MARKER.pack(*point) for point in found)


def line_frame(lines: Iterable[tuple[tuple[float, ...], tuple[float, ...], int]]) -> bytes:
    """Return the binary frame of lines: begin and end (m), and ``BONE``, ``PLATE``, ``FORCE``."""
    found = [line for line in lines if all(map(math.isfinite, (*line[0], *line[1])))][:65535]
    return _HEAD.pack(LINES, 0, len(found), 0.0) + b''.join(
        _LINE.pack(*begin, *end, kind) for begin, end, kind in found)


def plate_lines(
    pose: tuple[float, ...], force: tuple[float, float, float],
) -> list[tuple[tuple[float, ...], tuple[float, ...], int]]:
    """
    Draw a force plate.

    :param pose: its transform: x, y, z (m), and the quaternion x, y, z, w.
    :param force: in its frame (N).
    :returns: its two horizontal axes, and the force from its middle; nothing without attitude.
    """
    place, norm = pose[:3], math.hypot(*pose[3:])
    if not norm:
        return []    # no attitude
    quat = pose[3] / norm, pose[4] / norm, pose[5] / norm, pose[6] / norm

    def at(x: float, y: float, z: float) -> tuple[float, ...]:
        return tuple(a + b for a, b in zip(place, rotate(quat, (x, y, z))))
    x, y, z = (_M_PER_N * newtons for newtons in force)
    return [(at(-_PLATE_M, 0.0, 0.0), at(_PLATE_M, 0.0, 0.0), PLATE),
            (at(0.0, -_PLATE_M, 0.0), at(0.0, _PLATE_M, 0.0), PLATE),
            (place, at(x, y, z), FORCE)]


def age(now: float, at: float) -> Optional[float]:
    """Return the time since a moment (s); None if it never was."""
    return round(now - at, 3) if math.isfinite(at) else None


#: Values of the diagnostics that the page shows: always, and while poses are published.
_OF_CONNECTION = frozenset(('server', 'transport', 'udp_lost_percent', 'sessions', 'pose_path'))
_OF_STREAM = frozenset((
    'mode', 'epoch', 'learnt', 'offset_s', 'skew_ppm', 'uncertainty_us', 'arrival_jitter_p99_us',
    'latency_p50_us', 'latency_p99_us'))
_STREAMING = LinkState.STREAMING.value
