# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of a stream, for the rules: counters, states and times; no text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.stats import Intervals, IntervalStatistics
from optitrack_vrpn.drivers.driver import LinkStatus
from optitrack_vrpn.stream.bodies.states import BodyStatus, Disposition, State
from optitrack_vrpn.stream.clock.types import ClockStatus
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.reports import ServerTexts
from optitrack_vrpn.stream.roster import TrackedBody

#: The dispositions that count the poses withheld in a state, and those that are no fault.
_UNUSABLE = {
    State.FROZEN: ('repeat',), State.ZEROED: ('zeroed',),
    State.UNTRACKED: ('not_tracked', 'mean_error'),
    State.INVALID: ('not_finite', 'norm', 'shared_name'),
    State.JUMPED: ('moved_too_far', 'turned_too_far', 'jumped')}
_NOT_COUNTED = ('duplicate', 'out_of_order')
#: Share of poses or of time below which a fault is not reported: usual wireless losses stay below.
MUCH = 0.01
#: Fewest frames that are reported as a fault, and fewest poses that show a fault of the server.
ENOUGH_FRAMES, ENOUGH_POSES = 3, 10
_NO_INTERVALS = Intervals()
_NO_TWIN = ('', 0.0)
#: Counters of the protocol for what the node ignores.
_IGNORED = ('malformed', 'bad_time', 'unknown_type', 'names_refused')
#: Two bodies that are closer (m) for as long (ns) share their markers: real bodies cannot be
#: there. As in the report of a take.
_SAME_PLACE_M, _SAME_PLACE_NS = 0.001, 2_000_000_000
#: Chosen: distance from the origin (m) that no capture volume has: positions beyond it are usually
#: in millimetres, in which 1 m is ten times this limit.
_FAR_M = 100.0
#: Chosen: length of the window in which losses are counted (s).
LOSS_WINDOW_S = 5.0
#: Chosen: shares of lost messages that start and end a fault, with hysteresis between them.
LOSSY_SHARE, CLEAR_SHARE = 0.03, 0.01
#: Chosen: smallest number of messages, and of lost messages, from which a share is computed.
_FEWEST_MESSAGES = 10


@dataclass(frozen=True)
class LossFacts:
    """
    The losses of the last seconds, or of an observation.

    :ivar share: share of lost messages; NaN while unknown.
    :ivar lossy: whether they are a fault.
    :ivar unread: whether the receive buffer of this computer was full.
    :ivar window_s: time in which they were counted (s); 0 for the whole observation.
    """

    share: float = math.nan
    lossy: bool = False
    unread: bool = False
    window_s: float = LOSS_WINDOW_S


#: Losses of a protocol that does not count them.
NO_LOSS = LossFacts()


class _Counted(NamedTuple):
    """The counters at one time."""

    now_ns: int
    messages: int
    lost: int
    unread: int


class LossWindow:
    """Follow the share of a server's messages that is lost."""

    def __init__(self) -> None:
        self.facts = NO_LOSS
        self._samples: deque[_Counted] = deque()

    def update(self, counters: Mapping[str, int], dropped_unread: int, now_ns: int) -> LossFacts:
        """
        Process the counters of the connection; call it about once a second.

        :param counters: counters of all conversations; without loss counters nothing is known.
        :param dropped_unread: datagrams that the kernel dropped because its buffer was full, in
            this conversation.
        :param now_ns: present time on a clock that does not step (ns).
        """
        samples = self._samples
        new = _Counted(now_ns, counters.get('messages', 0), counters.get('udp_lost', 0),
                       dropped_unread)
        samples.append(new)
        window_ns = round(LOSS_WINDOW_S * 1e9)
        # The period of the calls varies slightly: keep the sample closest to the window's length.
        while len(samples) > 2 and now_ns - samples[1].now_ns >= 0.95 * window_ns:
            samples.popleft()
        old = samples[0]
        received, lost = new.messages - old.messages, max(new.lost - old.lost, 0)
        # A shorter window is not evaluated: a reordered message counts as lost until it arrives.
        if now_ns - old.now_ns < 0.95 * window_ns or received + lost < _FEWEST_MESSAGES:
            self.facts = NO_LOSS
            return self.facts
        share = lost / (received + lost)
        lossy = share >= CLEAR_SHARE and (self.facts.lossy or (
            share > LOSSY_SHARE and lost >= _FEWEST_MESSAGES))
        unread = new.unread - old.unread if new.unread >= old.unread else new.unread
        self.facts = LossFacts(share, lossy, lossy and unread > 0)
        return self.facts


@dataclass(frozen=True)
class RateFacts:
    """
    The frame rates of bodies (Hz).

    :ivar rates: of each body.
    :ivar expected_hz: the cameras' rate if the user states it, or 0.
    :ivar others_hz: that of the fastest body if ``rates`` does not contain it.
    :ivar unsent: share of frames that the sender left out.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    expected_hz: float = 0.0
    others_hz: float = 0.0
    unsent: float = 0.0

    @property
    def fastest_hz(self) -> float:
        """Return the rate of the fastest body, 0 without any."""
        return max(self.rates.values(), default=0.0)

    @property
    def usual_hz(self) -> float:
        """Return the rate that each body should have."""
        return self.expected_hz or max(self.others_hz, self.fastest_hz)

    @property
    def slow(self) -> list[tuple[float, str]]:
        """Return the bodies whose known rate is below the usual one, the slowest first."""
        # Fraction of the fastest body's or of the cameras' rate below which a rate is reported.
        return sorted((rate, name) for name, rate in self.rates.items()
                      if 0.0 < rate < 0.9 * self.usual_hz)

    @property
    def slow_cameras(self) -> bool:
        """Return whether all of several bodies are slower than the user expects."""
        return self.expected_hz > 0.0 and len(self.rates) > 1 and (
            len(self.slow) == len(self.rates))


@dataclass
class BodyFacts:
    """
    One body during an observation.

    :ivar status: its state at the end.
    :ivar intervals: its frames, by sender time.
    :ivar returns: how often it became TRACKED again.
    :ivar exchanged: a body at whose place it was seen for a while; '' for none.
    :ivar all_too_old: whether poses arrive, but all are too old to be published.
    :ivar held: why time alone does not end its jump; '' if it does, or if there is none.
    :ivar held_s: how long it has lasted (s).
    :ivar accept_service: the service by which the user accepts the pose it jumped to; '' for none.
    :ivar lacking: what the server's motions lack, so that they are not published: codes of rules.
    :ivar twin: a body in the same place for so long that they share their markers; '' for none.
    :ivar twin_m: distance to that one (m).
    :ivar far_m: how far its last pose is from the origin (m), if no capture volume is so large.
    """

    status: BodyStatus
    intervals: Intervals = field(default_factory=Intervals)
    returns: int = 0
    exchanged: str = ''
    all_too_old: bool = False
    held: str = ''
    held_s: float = 0.0
    accept_service: str = ''
    far_m: float = 0.0
    twin: str = ''
    twin_m: float = 0.0
    lacking: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return its name in Motive."""
        return self.status.name

    @property
    def state(self) -> State:
        """Return its state at the end."""
        return self.status.state

    @property
    def detail(self) -> str:
        """Return the detail of its state; for STALE its duration until now."""
        if self.state is State.STALE and math.isfinite(self.status.age_s):
            return f'no valid pose for the last {self.status.age_s:.1f} s'
        return printable(self.status.detail, 160)

    @property
    def other(self) -> str:
        """Return the body with which it exchanged its name, at the end or before; '' for none."""
        return self.status.swapped_with or self.exchanged

    @property
    def of_the_unit(self) -> tuple[State, ...]:
        """Return the states that follow from a wrong unit: the body seems faster than any."""
        return (State.NEW, State.JUMPED) if self.far_m else ()

    @property
    def judged(self) -> int:
        """Return the number of poses that could have been published."""
        return self.status.good + sum(
            count for reason, count in self.status.withheld.items() if reason not in _NOT_COUNTED)

    @property
    def unusable(self) -> dict[State, int]:
        """Return the number of poses that were withheld in each state that withholds some."""
        return {state: sum(self.status.withheld.get(reason, 0) for reason in reasons)
                for state, reasons in _UNUSABLE.items()}

    @property
    def missing_share(self) -> float:
        """Return the share of its frames that are missing in short gaps."""
        missing, frames = self.intervals.missing, self.intervals.frames
        return missing / (missing + frames) if missing >= ENOUGH_FRAMES else 0.0


@dataclass(eq=False)
class GraphFacts:
    """
    What a node finds in the ROS graph about itself, and in its settings about bodies.

    :ivar name: its full name.
    :ivar same_name: number of other nodes of this name.
    :ivar sharing: other nodes that publish on its topics, with one such topic of each.
    :ivar parents: TF frames with two parents: its own, and that of another publisher.
    :ivar unmatched: names and patterns of its settings that match no body, in words.
    """

    name: str = ''
    same_name: int = 0
    sharing: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unmatched: Sequence[str] = ()


#: The graph of an observation without ROS.
NO_GRAPH = GraphFacts()


@dataclass
class StreamFacts:
    """
    All frames of an observation.

    :ivar poses: number of poses.
    :ivar bodies: the bodies that sent them.
    :ivar all_intervals: the frames of all bodies together, by sender time.
    :ivar counters: counters of the protocol, and values of the kernel for the sockets.
    :ivar quiet_s: time from the last pose to the end (s).
    :ivar more_bodies: poses of bodies beyond the limit.
    :ivar messages: warnings of the client.
    :ivar ended: why the connection failed or ended early, or ''.
    :ivar clock: estimate of the sender's clock.
    :ivar stalled_s: the longest time for which this computer stood still (s).
    :ivar loopback: whether no network lies between the sender and this computer.
    :ivar loss: the losses of the last seconds, where they are followed.
    :ivar shedding: whether frames are left out because this computer cannot keep up.
    :ivar shed: number of poses left out for that.
    :ivar lean: whether outputs beside the poses were left out of late, for the same reason.
    :ivar lean_poses: number of poses published without them.
    :ivar only_ignored: number of bodies that arrive, if none of them is selected.
    :ivar max_age_s: largest age of a pose that is published (s).
    :ivar rate: the rates that are judged.
    :ivar graph: the ROS graph, as the node sees it.
    :ivar link: the connection, with what is known of the server.
    :ivar texts: the last texts of the server.
    :ivar up_axis: the up axis of the settings; 'raw' if poses are published as they are sent; ''
        without settings.
    """

    poses: int = 0
    bodies: tuple[BodyFacts, ...] = ()
    all_intervals: Intervals = field(default_factory=Intervals)
    counters: dict[str, int] = field(default_factory=dict)
    quiet_s: float = 0.0
    more_bodies: int = 0
    messages: tuple[str, ...] = ()
    ended: str = ''
    clock: Optional[ClockStatus] = None
    stalled_s: float = 0.0
    loopback: bool = False
    loss: LossFacts = NO_LOSS
    shedding: bool = False
    shed: int = 0
    lean: bool = False
    lean_poses: int = 0
    only_ignored: int = 0
    max_age_s: float = math.inf
    rate: RateFacts = RateFacts()
    graph: GraphFacts = NO_GRAPH
    link: LinkStatus = field(default_factory=LinkStatus)
    texts: ServerTexts = field(default_factory=ServerTexts)
    up_axis: str = ''

    @property
    def ignored(self) -> dict[str, int]:
        """Return the counters of what the node ignores."""
        return {name: self.counters.get(name, 0) for name in _IGNORED}

    @property
    def rates(self) -> dict[str, float]:
        """Return the frame rate of each body (Hz), by sender time, without gaps."""
        return {body.name: 1.0 / body.intervals.interval_s for body in self.bodies
                if body.intervals.interval_s > 0.0}

    @property
    def lost_share(self) -> float:
        """Return the share of poses that the network lost."""
        lost = self.counters.get('udp_lost', 0)
        return lost / (lost + max(self.counters.get('messages', self.poses), 1))

    @property
    def losses(self) -> LossFacts:
        """Return the losses of the last seconds, else those of the whole observation."""
        return self.loss if self.loss is not NO_LOSS else LossFacts(
            self.lost_share, self.lost_share > MUCH,
            self.counters.get('dropped_unread', 0) > 0, 0.0)

    def appeared_s(self, body: BodyFacts) -> float:
        """Return how long after the first body another one appeared (s)."""
        return (body.intervals.first_ns - self.all_intervals.first_ns) * 1e-9

    @property
    def common_share(self) -> float:
        """Return the share of frames that are missing for every body."""
        return min((body.missing_share for body in self.bodies
                    if body.intervals.frames >= ENOUGH_POSES), default=0.0)

    @property
    def unsent_share(self) -> float:
        """Return the share of frames that were never sent; 0 below the detection limit."""
        lost = self.lost_share
        unsent = self.common_share - lost
        # Loss is counted in messages, not frames, so that the two may differ by this much.
        return unsent if unsent > MUCH + 0.2 * lost else 0.0


class Twins:
    """Find bodies that are in one place: Motive solves one set of markers twice."""

    def __init__(self) -> None:
        self._since_ns: dict[tuple[str, str], int] = {}
        self._twins: dict[str, tuple[str, float]] = {}

    def update(self, channels: Iterable[TrackedBody], now_ns: int) -> None:
        """
        Compare the places of all tracked bodies; call it about once a second or more often.

        :param now_ns: present time on the arrival clock (ns).
        """
        places = sorted(
            (good[1], channel.names.motive) for channel in channels
            if channel.gate.state is State.TRACKED
            and (good := channel.gate.hypotheses.last_good) is not None)
        since_ns: dict[tuple[str, str], int] = {}
        self._twins = {}
        for at, (place, name) in enumerate(places):
            for other_place, other in places[at + 1:]:
                if other_place[0] - place[0] > _SAME_PLACE_M:
                    break    # they are sorted by x
                distance = math.dist(place, other_place)
                if distance > _SAME_PLACE_M:
                    continue
                pair = min(name, other), max(name, other)
                since_ns[pair] = self._since_ns.get(pair, now_ns)
                if now_ns - since_ns[pair] >= _SAME_PLACE_NS:
                    self._twins[name], self._twins[other] = (other, distance), (name, distance)
        self._since_ns = since_ns

    def of(self, name: str) -> tuple[str, float]:
        """Return the body in the same place and its distance (m); '' and 0 without one."""
        return self._twins.get(name, _NO_TWIN)


class Observation:
    """
    Collect what the rules need of a stream, beside the status of each body; in bounded memory.

    :param most: largest number of bodies.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all = IntervalStatistics()
        self._of_bodies: dict[str, IntervalStatistics] = {}
        self._tracked: dict[str, int] = {}
        self._exchanged: dict[str, str] = {}

    def add(
        self, name: str, time_ns: int, position: Sequence[float], quat_xyzw: Sequence[float],
    ) -> None:
        """Add a pose of a body and its sender time (ns)."""
        statistics = self._of_bodies.get(name)
        if statistics is None:
            if len(self._of_bodies) >= self._most:
                return
            statistics = self._of_bodies[name] = IntervalStatistics()
        for each in (statistics, self._all):
            each.update(time_ns, position, quat_xyzw)

    def changed(self, name: str, after: State) -> None:
        """Note the new state of a body."""
        if after is State.TRACKED:
            self._tracked[name] = self._tracked.get(name, 0) + 1

    def exchanged(self, name: str, other: str) -> None:
        """Note that a body was seen at the place of another one."""
        self._exchanged[name] = other

    def fill(
        self, seen: StreamFacts, channels: Iterable[TrackedBody], now_ns: int, twins: Twins,
    ) -> None:
        """Write the bodies and the frames of all into the result."""
        # Gaps do not affect these intervals; they affect the node's own estimate for some seconds.
        intervals = {name: one.intervals() for name, one in self._of_bodies.items()}
        seen.bodies = tuple(facts_of_body(
            channel, now_ns, twins.of(name := channel.names.motive),
            intervals.get(name, _NO_INTERVALS),
            max(0, self._tracked.get(name, 0) - 1), self._exchanged.get(name, ''))
            for channel in channels)
        seen.all_intervals = self._all.intervals()


def facts_of_body(
    channel: TrackedBody, now_ns: int, twin: tuple[str, float] = _NO_TWIN,
    intervals: Intervals = _NO_INTERVALS, returns: int = 0, exchanged: str = '',
) -> BodyFacts:
    """
    Return the facts of a body of a pipeline.

    :param now_ns: present time on the arrival clock (ns).
    :param twin: the body in the same place, and its distance; see ``Twins.of``.
    :param intervals: its frames, where they were observed, like the next two.
    """
    gate = channel.gate
    held, last = gate.held, gate.last_pose
    far_m = max(map(abs, last[0])) if last is not None else 0.0
    return BodyFacts(
        channel.status(now_ns), intervals, returns, exchanged, channel.all_too_old, held,
        gate.hypotheses.lasted_s if held else 0.0, channel.accept_service,
        far_m if far_m > _FAR_M else 0.0, *twin, frozenset(channel.lacking))


def facts_of_pipeline(
    pipeline: Pipeline, loss: LossFacts = NO_LOSS, facts: Optional[StreamFacts] = None,
) -> StreamFacts:
    """
    Return the facts of a pipeline without those of its bodies.

    :param loss: losses of the connection.
    :param facts: where to write them.
    """
    if facts is None:
        facts = StreamFacts()
    facts.loss = loss
    facts.shedding = pipeline.config.keep_up and pipeline.shedder.shedding
    facts.shed = pipeline.dropped[Disposition.SHED.value]
    facts.lean = pipeline.shedder.lean_of_late
    facts.lean_poses = pipeline.shedder.lean_poses
    facts.only_ignored = pipeline.roster.only_ignored
    facts.max_age_s = pipeline.config.max_age_s
    facts.more_bodies = pipeline.roster.refused
    facts.clock, facts.texts = pipeline.clock_status(), pipeline.texts
    return facts
