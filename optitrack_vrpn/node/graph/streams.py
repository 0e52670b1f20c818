# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bind a subscription to the messages of one publisher; pure.

rclpy gives no identity of the publisher with a message. What identifies it is that its messages
continue each other: the sequence number, which each publisher counts for itself, the stamp, and
the pose. A ``Binding`` sorts the messages into streams by these three, and uses one stream:

- A message that does not continue the bound stream is never used, whoever comes and goes.
- Another stream is bound only after the bound one has been silent for ``SILENT_NS``, when its
  messages continue each other, and no other publisher is heard.
- Two streams whose messages could be taken for each other are not used, neither of them, until
  that has not happened for ``SILENT_NS``.
- A stream whose content differed from that of the bound one at one time, as poses in other axes,
  is not bound while the caller says so (``strict``), as for an armed vehicle.

Silence counts in attended time (``AttendedTime``): a receiver that was suspended has heard
nothing, and that proves nothing about the publishers.
"""

from __future__ import annotations

from collections import deque
import statistics
from typing import Callable, Generic, NamedTuple, Optional, Sequence, TypeVar

#: Silence (ns) after which a publisher counts as ended. Chosen: far above the longest interval of
#: poses in use (30 Hz), below the 4.5 s after which PX4 ends a flight without poses.
SILENT_NS = 1_000_000_000
#: Time (ns) for which the messages of a stream are observed before it is bound, so that a second
#: publisher is heard. Chosen: nine intervals at 30 Hz.
LISTEN_NS = 300_000_000
#: Longest step of attended time (ns) between two calls. Chosen: callers tick every 0.1 s.
ATTENDED_NS = 250_000_000
#: Messages that can be missing in the queue of a subscription (its depth) at once.
_QUEUE = 10
#: Step of the numbers over a time in which nothing was sent: messages that can be lost at its
#: begin and end. Chosen: with 10 % of loss more are lost once in ten thousand such times.
_LOST = 5
#: States of a stream that are remembered, to compare it with another one: as many as the queue
#: of a subscription can delay.
_RECENT = 10
#: Messages of two topics are of one time if their stamps differ by less (ns): a frame at 200 Hz.
_SAME_NS = 5_000_000
#: A message can be confused with the next ones of a stream, so many are lost.
_NEXT = 2
#: The contents of two streams are compared if their stamps differ by less (ns): the distance of
#: two frames at 30 Hz, the lowest rate in use.
_NEAR_NS = 40_000_000
#: Streams that are remembered beside the bound one.
_MOST_STREAMS = 8

#: A time (ns) before all others.
_NEVER = -10 * SILENT_NS

V = TypeVar('V')


class AttendedTime:
    """
    Time in which the receiver could hear messages: the sum of short steps (ns).

    :ivar now_ns: attended time since the first call (ns).
    """

    def __init__(self, longest_ns: int = ATTENDED_NS) -> None:
        self._longest_ns = longest_ns
        self._last_ns: Optional[int] = None
        self.now_ns = 0

    def advance(self, monotonic_ns: int) -> int:
        """Process a call at a time on a monotonic clock (ns); return the attended time."""
        if self._last_ns is not None:
            self.now_ns += max(0, min(monotonic_ns - self._last_ns, self._longest_ns))
        self._last_ns = monotonic_ns
        return self.now_ns


class StreamMessage(NamedTuple, Generic[V]):
    """
    What identifies a message.

    :ivar sequence: its number, counted by its publisher for each topic; None if unknown.
    :ivar stamp_ns: stamp of its content (ns); 0 if it has none.
    :ivar values: its content, for ``reach``.
    """

    sequence: Optional[int]
    stamp_ns: int
    values: V


#: Whether values can follow others after a time (s), as those of ``reach``.
Reach = Callable[[V, V, float], bool]


class _State(NamedTuple, Generic[V]):
    message: StreamMessage[V]
    heard_ns: int


class _Fit(NamedTuple):
    """
    How closely a message follows; the smaller fit is the closer one.

    :ivar late: whether more messages fit into the time than the numbers say, as after a silence.
    :ivar step: difference of the numbers.
    :ivar after_ns: time between (ns).
    """

    late: bool
    step: int
    after_ns: int


class _Stream(Generic[V]):
    """
    Messages of one topic that continue each other.

    :ivar newest: the last one.
    :ivar heard_ns: attended time of the last one (ns).
    :ivar since_ns: that of the first one after the last silence (ns).
    :ivar count: number of messages since then.
    :ivar proven_ns: last time at which it was certainly of another publisher than another stream
        (ns): their numbers did not rise together.
    :ivar confused_ns: last time at which a message could be of this stream or of another (ns).
    :ivar differs: whether its content differed from that of the bound stream when both were last
        compared.
    """

    def __init__(self, reach: Reach[V], message: StreamMessage[V], now_ns: int) -> None:
        self._reach = reach
        self._states: deque[_State[V]] = deque(maxlen=_RECENT)
        self._intervals: deque[float] = deque(maxlen=60)
        self._usual_ns = 0.0
        self.newest = message
        self.heard_ns = self.since_ns = now_ns
        self.count = self._added = 0
        self.proven_ns = self.confused_ns = _NEVER
        self.differs = False
        self.add(message, now_ns)

    def add(self, message: StreamMessage[V], now_ns: int) -> None:
        """Add a message that continues this stream."""
        if self._states:
            fit = _between(self._states[-1], message, now_ns)
            if fit.step > 0 and fit.after_ns > 0:
                self._measure(fit.after_ns / fit.step)
        if now_ns - self.heard_ns < SILENT_NS:
            self.count += 1
        else:
            self.count, self.since_ns = 1, now_ns
        if message.sequence is None and self.count >= 5:
            self.proven_ns = now_ns     # without numbers: what goes on beside another one
        self.heard_ns, self.newest = now_ns, message
        self._states.append(_State(message, now_ns))

    def _measure(self, interval_ns: float) -> None:
        """Update the mean interval without pauses (ns); that of a decimated stream alternates."""
        self._intervals.append(interval_ns)
        self._added += 1
        if self._added < 8 or self._added % 8 == 0:
            limit_ns = 1.9 * statistics.median(self._intervals)
            self._usual_ns = statistics.fmean(
                each for each in self._intervals if each <= limit_ns)

    def fit(self, message: StreamMessage[V], now_ns: int) -> Optional[_Fit]:
        """Return how a message continues this stream, None if it does not."""
        last = self._states[-1]
        fit = _between(last, message, now_ns)
        if fit.step < 1:
            return None
        after_ns, usual_ns = fit.after_ns, self._usual_ns
        if not (message.stamp_ns and last.message.stamp_ns):
            if fit.step > (_QUEUE + 1.1 * after_ns / usual_ns if usual_ns else 1):
                return None
        elif not usual_ns:
            if fit.step != 1 or after_ns <= 0:
                return None
        elif fit.step == 1 and after_ns < -2.0 * usual_ns:
            after_ns = round(usual_ns)      # the clock of the stamps was set back
        elif after_ns <= 0 or not self._in_time(message, now_ns) or (
                # Nothing was sent between, as of a body out of view, or all of it, and lost.
                fit.step > _LOST and fit.step < 0.9 * after_ns / usual_ns - 1.0):
            return None
        reaches = self._reach(last.message.values, message.values, max(after_ns, 0) * 1e-9)
        late = bool(usual_ns) and after_ns > (fit.step + 0.6) * usual_ns
        return _Fit(late, fit.step, after_ns) if reaches else None

    def _in_time(self, message: StreamMessage[V], now_ns: int) -> bool:
        """
        Return whether as many messages as the number says fit into the time since any state.

        A state can be late, and the next one not; fewer messages are those of a body out of view.
        """
        return any(after_ns >= (0.98 * step - 0.6) * self._usual_ns for _, step, after_ns in (
            _between(state, message, now_ns) for state in self._states))

    def could_contain(self, message: StreamMessage[V], now_ns: int) -> bool:
        """Return whether a message could be one of the next of a recent state of this stream."""
        usual_ns = self._usual_ns or 10_000_000
        for state in self._states:
            _, step, after_ns = _between(state, message, now_ns)
            if 1 <= step <= _NEXT and abs(after_ns - step * usual_ns) <= 0.6 * usual_ns and (
                    self._reach(state.message.values, message.values, after_ns * 1e-9)):
                return True
        return False

    def same_content(self, message: StreamMessage[V]) -> Optional[bool]:
        """Return whether a message of another stream agrees with this one; None if unknown."""
        stamped = [(abs(message.stamp_ns - state.message.stamp_ns), state.message)
                   for state in self._states if message.stamp_ns and state.message.stamp_ns]
        apart_ns, nearest = min(stamped, key=lambda one: one[0], default=(_NEAR_NS, message))
        return None if apart_ns >= _NEAR_NS else self._reach(
            nearest.values, message.values, apart_ns * 1e-9)


def _between(state: _State[V], message: StreamMessage[V], now_ns: int) -> _Fit:
    """Return the step of the numbers and the time (ns) from a state to a message."""
    before = state.message
    after_ns = now_ns - state.heard_ns
    if message.stamp_ns and before.stamp_ns:
        after_ns = message.stamp_ns - before.stamp_ns
    step = 1
    if message.sequence is not None and before.sequence is not None:
        step = message.sequence - before.sequence
    return _Fit(False, step, after_ns)


class Binding(Generic[V]):
    """
    Use the messages of one publisher of one topic.

    :param reach: whether values can follow others.
    :ivar refused: number of messages that were not used.
    :ivar resumed: whether the last message that was used begins, but is of the publisher before:
        its numbers go on after a silence, and continue those of no other publisher.
    """

    def __init__(self, reach: Reach[V]) -> None:
        self.resumed = False
        self._reach = reach
        self._time = AttendedTime()
        self._streams: list[_Stream[V]] = []
        self._bound: Optional[_Stream[V]] = None
        self._last: Optional[_Stream[V]] = None     # that of the last message
        self._several_ns = _NEVER
        self._interrupted = self._ambiguous = False
        self.refused = 0

    def tick(self, monotonic_ns: int) -> None:
        """Process the time; call it about ten times a second."""
        self._time.advance(monotonic_ns)

    @property
    def bound(self) -> bool:
        """Return whether the messages of a publisher are used."""
        return self._bound is not None and not self._lately(self._bound.confused_ns)

    @property
    def several(self) -> bool:
        """Return whether several publishers were heard in the last second."""
        return self._lately(self._several_ns)

    @property
    def differing(self) -> bool:
        """Return whether the only publishers in the last second differed from the bound one."""
        heard = [stream for stream in self._streams if self._lately(stream.heard_ns)]
        return bool(heard) and all(stream.differs for stream in heard)

    @property
    def heard(self) -> bool:
        """Return whether any message arrived in the last second."""
        return any(self._lately(stream.heard_ns) for stream in self._streams)

    def accept(
        self, message: StreamMessage[V], monotonic_ns: int, strict: bool = False,
    ) -> Optional[bool]:
        """
        Decide about a message.

        :param monotonic_ns: present time on a monotonic clock (ns).
        :param strict: a publisher whose content differed from that of the bound one is not bound.
        :returns: None if it must not be used; else whether something before it is missing: it is
            the first of a publisher, or follows a time in which none could be used.
        """
        now_ns = self._time.advance(monotonic_ns)
        before, newest = self._last, None if self._last is None else self._last.newest
        stream = self._last = self._stream_of(message, now_ns)
        if before is not None and before is not stream and newest is not None:
            self._prove(before, newest, stream, message)
        self._compare(stream, message)
        if self._others(stream):
            self._several_ns = now_ns
        begins = stream is self._bound and stream.count == 1
        new = self._bind(stream, strict)
        begins = begins or new
        if stream is not self._bound or self._lately(stream.confused_ns):
            self.refused += 1
            self._interrupted = self._interrupted or stream is self._bound
            return None
        self.resumed = begins and not (
            new or self._interrupted or self._ambiguous or message.sequence is None)
        begins = begins or self._interrupted
        self._interrupted = False
        return begins

    def _lately(self, at_ns: int) -> bool:
        return self._time.now_ns - at_ns < SILENT_NS

    def _stream_of(self, message: StreamMessage[V], now_ns: int) -> _Stream[V]:
        """Add a message to the stream that it continues most closely; else begin one."""
        fits = [(fit, i) for i, stream in enumerate(self._streams)
                if (fit := stream.fit(message, now_ns)) is not None]
        bound = self._bound
        self._ambiguous = len(fits) > 1
        if bound is not None and self._lately(bound.heard_ns) and any(
                self._streams[i] is bound for _, i in fits):
            # Only a stream of another publisher takes a message from the bound one.
            fits = [(fit, i) for fit, i in fits if self._streams[i] is bound or (
                self._lately(self._streams[i].heard_ns) and (
                    self._streams[i].proven_ns > _NEVER or self._streams[i].count >= 5))]
        if fits:
            stream = self._streams[min(fits)[1]]
            stream.add(message, now_ns)
            return stream
        if len(self._streams) > _MOST_STREAMS:
            self._streams.remove(min(
                (one for one in self._streams if one is not self._bound),
                key=lambda one: one.heard_ns))
        self._streams.append(_Stream(self._reach, message, now_ns))
        return self._streams[-1]

    def _prove(
        self, before: _Stream[V], newest: StreamMessage[V], stream: _Stream[V],
        message: StreamMessage[V],
    ) -> None:
        """Note two publishers: the numbers of one would rise from one message to the next."""
        if self._lately(before.heard_ns) and (
                message.sequence is not None and newest.sequence is not None
                and message.sequence <= newest.sequence):
            before.proven_ns = stream.proven_ns = self._several_ns = self._time.now_ns

    def _compare(self, stream: _Stream[V], message: StreamMessage[V]) -> None:
        """Find out whether a message could be of another publisher as well."""
        for other in self._others(stream):
            if other.could_contain(message, self._time.now_ns):
                other.confused_ns = stream.confused_ns = self._time.now_ns
            if self._bound in (stream, other) and (
                    same := other.same_content(message)) is not None:
                (other if stream is self._bound else stream).differs = not same

    def _others(self, stream: _Stream[V]) -> list[_Stream[V]]:
        """List the streams of now that are certainly of other publishers."""
        if not self._lately(stream.proven_ns):
            return []
        return [other for other in self._streams if other is not stream
                and self._lately(other.heard_ns) and self._lately(other.proven_ns)]

    def _bind(self, stream: _Stream[V], strict: bool) -> bool:
        """Bind a stream if the bound one has ended and no other, which may be bound, is heard."""
        bound = self._bound
        if stream is bound or (bound is not None and self._lately(bound.heard_ns)) or (
                stream.count < 2 or self._time.now_ns - stream.since_ns < LISTEN_NS
                or self._lately(stream.confused_ns) or (strict and stream.differs)
                or any(not (strict and other.differs) for other in self._others(stream))):
            return False
        self._bound = stream
        stream.differs = False
        self._interrupted = False
        return True


class TopicsBinding(Generic[V]):
    """
    Use the messages of one publisher of several topics with the same content, as poses.

    Each topic has a ``Binding``. While messages of one topic are used, those of another one are
    used only if both had the same content at one time.

    :ivar topics: bindings by topic.
    :ivar changed: whether the last message that was used can be of another publisher than the one
        used before it.
    """

    def __init__(self, topics: Sequence[str], reach: Reach[V]) -> None:
        self._reach = reach
        self.topics = {topic: Binding(reach) for topic in topics}
        self._time = AttendedTime()
        self._recent: dict[str, deque[StreamMessage[V]]] = {
            topic: deque(maxlen=_RECENT) for topic in topics}
        self._same: dict[frozenset[str], bool] = {}
        self._used: tuple[str, int] = ('', _NEVER)
        self._interrupted = dict.fromkeys(topics, False)
        self._refused = 0
        # Numbers of publishers: one is new until it is known as that of another topic.
        self._publishers = dict.fromkeys(topics, 0)
        self._publisher = self._newest_publisher = 0    # that of the last message used
        self.changed = False

    def tick(self, monotonic_ns: int) -> None:
        """Process the time; call it about ten times a second."""
        self._time.advance(monotonic_ns)
        for binding in self.topics.values():
            binding.tick(monotonic_ns)

    @property
    def bound(self) -> bool:
        """Return whether the messages of a publisher are used."""
        return any(one.bound for one in self.topics.values())

    @property
    def several(self) -> list[str]:
        """List the topics with several publishers in the last second."""
        several = {topic for topic, one in self.topics.items() if one.several}
        several.update(*(pair for pair, same in self._same.items() if not same and all(
            self.topics[topic].heard for topic in pair)))
        return sorted(several)

    @property
    def differing(self) -> bool:
        """Return whether only publishers are heard whose content differed from the bound one's."""
        heard = [one for one in self.topics.values() if one.heard]
        return bool(heard) and all(one.differing for one in heard)

    @property
    def refused(self) -> int:
        """Return the number of messages that were not used."""
        return self._refused + sum(one.refused for one in self.topics.values())

    def accept(
        self, topic: str, message: StreamMessage[V], monotonic_ns: int, strict: bool = False,
    ) -> Optional[bool]:
        """Decide about a message of a topic; see ``Binding.accept``."""
        self.tick(monotonic_ns)
        now_ns = self._time.now_ns
        binding = self.topics[topic]
        begins = binding.accept(message, monotonic_ns, strict)
        if begins:
            self._recent[topic].clear()
            self._same = {pair: same for pair, same in self._same.items() if topic not in pair}
            if not binding.resumed:
                self._newest_publisher += 1
                self._publishers[topic] = self._newest_publisher
        if begins is not None or not binding.bound:
            self._recent[topic].append(message)
            self._compare(topic, message)
        if begins is None:
            return None
        if not self._agrees(topic, now_ns):
            self._interrupted[topic] = True
            self._refused += 1
            return None
        used = self._used[0]
        if self._same.get(frozenset((topic, used)), False) and (
                self._publishers[used] == self._publisher):
            self._publishers[topic] = self._publisher
        self.changed = self._publishers[topic] != self._publisher
        self._publisher = self._publishers[topic]
        self._used = topic, now_ns
        begins = begins or self._interrupted[topic]
        self._interrupted[topic] = False
        return begins

    def _compare(self, topic: str, message: StreamMessage[V]) -> None:
        """Compare a message with those of other topics of the same time."""
        for name, recent in self._recent.items():
            if name == topic:
                continue
            for other in recent:
                apart_ns = abs(other.stamp_ns - message.stamp_ns)
                if apart_ns <= _SAME_NS:
                    self._same[frozenset((topic, name))] = self._reach(
                        other.values, message.values, apart_ns * 1e-9)

    def _agrees(self, topic: str, now_ns: int) -> bool:
        name, at_ns = self._used
        if now_ns - at_ns < SILENT_NS:
            return name == topic or self._same.get(frozenset((topic, name)), False)
        return all(self._same.get(frozenset((topic, other)), False)
                   for other, binding in self.topics.items() if other != topic and binding.heard)
