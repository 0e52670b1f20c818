# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide which ids have a confirmed model, and when to request the model definitions.

The model of a rigid body is its name; that of a skeleton, trained marker set or force plate is its
whole definition. A frame contains ids only. Motive gives the id of a deleted body to the next new
one, so a name from old definitions can belong to another body. From a sign of a change on, an id
has no confirmed name until definitions arrive that were requested after that sign. The signs are:

- for all ids: a frame with the flag "model list changed", lost frames, which may have contained
  it, frame numbers that start again, a pause in the stream, the first frame;
- for an id that the previous frame did not contain: that frame;
- for an id with another name in new definitions: a time after them, since frames and definitions
  can overtake each other.

Definitions also confirm the frames that were held before their request: an id that has the same
name in the definitions before and after has had it in between.

An answer does not identify its request, and a datagram can be late or arrive twice. An answer is
as old as the oldest request that it may belong to: all requests since ``_late_ns`` are possible.
Requests therefore come in rounds with a pause of that length between them. The requests of a round
are copies, sent one after the other until an answer arrives, so that one lost datagram costs no
round.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Optional

from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.driver import NEVER_NS
from optitrack_vrpn.drivers.natnet.messages import (
    ASSET_KEY, FRAME_MODELS_CHANGED, Model, NatNetFrame, PLATE_KEY, SKELETON_KEY, type_mask)

#: Chosen: copies of a request in a round, and their distance (ns). At 20 % loss each way 0.36 of
#: the exchanges fail, and 0.017 of the rounds.
_COPIES = 4
_COPY_NS = 5 * NS_PER_MS
#: Chosen: least time (ns) by which an answer can be late; a LAN answers within some ms (Motive 2.1
#: in a capture: 0.8 ms). Observed delays, times ``_MARGIN``, raise it for ``_REMEMBER_NS``.
_LATE_NS = 50 * NS_PER_MS
_MARGIN = 1.25
_REMEMBER_NS = 10 * NS_PER_S
#: Chosen: after this number of requests without an answer, 0.3 s, they are 0.5 s apart (ns).
_UNANSWERED = 5 * _COPIES
_AGAIN_NS = 500 * NS_PER_MS
#: Chosen: the definitions are requested again after this time (ns), because Motive does not flag
#: every new name.
_REFRESH_NS = 3 * NS_PER_S
#: Chosen: longest time (ns) without confirmed names after which equal definitions still show that
#: nothing changed in between. A change that is undone within it may not be noticed.
_UNDONE_NS = 200 * NS_PER_MS
#: Chosen: a pause (ns) in which Motive can load another project; longer frame intervals are
#: accepted if the interval before was long too.
_PAUSE_NS = 500 * NS_PER_MS
_PAUSE_INTERVALS = 4
#: Chosen: a flag that stays set for longer (ns) does not mark a change.
_LONGEST_FLAG_NS = 500 * NS_PER_MS
#: Chosen: definitions with another name for an id are confirmed by others after this time (ns);
#: frames are at most some milliseconds behind the definitions.
_SETTLING_NS = 100 * NS_PER_MS
#: Chosen: frame numbers may fall by this much when datagrams overtake each other; a larger fall is
#: a restart of the server.
_LATE_FRAMES = 64
#: Chosen: longest time (ns) for which a frame waits for the confirmation of its names.
_HOLD_NS = 100 * NS_PER_MS


class ModelList:
    """
    Keep the confirmed models of ids.

    :param now_ns: present time (ns) on a monotonic clock, as all times here.
    :param mask: mask of the types to request from servers that do not answer an empty request.
    :ivar names: confirmed models by id.
    :ivar revision: changes with ``names``.
    :ivar refresh_ns: time at which the definitions are requested again without a sign.
    """

    def __init__(self, now_ns: int, mask: int = type_mask(frozenset(), (0, 0))) -> None:
        self._mask = mask
        self.names: Mapping[int, Model] = {}
        self.revision = 0
        self.refresh_ns = now_ns + _REFRESH_NS
        #: The latest definitions, and the last time at which all of them were certain.
        self._stated: dict[int, Model] = {}
        self._certain_ns = now_ns
        #: The first frame in which an id certainly had its present name, for ids that had another.
        self._since: dict[int, int] = {}
        #: Time of the latest sign of a change, and from which time on a request confirms a new
        #: name, by id.
        self._signs_ns: dict[int, int] = {}
        self._settled_ns: dict[int, int] = {}
        #: Number of the frame after each gap, and its arrival.
        self._gaps: deque[tuple[int, int]] = deque(maxlen=_LATE_FRAMES)
        self._withheld_since_ns: Optional[int] = now_ns    # no name is known yet
        self._ids: list[int] = []
        self._number: Optional[int] = None
        self._frame_ns = now_ns
        self._interval_ns = 0
        self._flag_since_ns: Optional[int] = None
        self._due_ns: Optional[int] = None
        self._asked_ns: deque[int] = deque(maxlen=64)
        self._copies = 0
        self._unanswered = 0
        self._masked = False
        self._late_ns = _LATE_NS
        self._late_until_ns = now_ns

    # -- requests ------------------------------------------------------------------------------

    def ask(self, now_ns: int) -> None:
        """Request the definitions, unless a request is due already."""
        if self._due_ns is None:
            self._due_ns = self._next_round_ns(now_ns)

    def refresh(self, now_ns: int) -> None:
        """Request the definitions if none have been requested for long."""
        if now_ns >= self.refresh_ns:
            self.refresh_ns = now_ns + _REFRESH_NS
            self.ask(now_ns)

    @property
    def next_due_ns(self) -> Optional[int]:
        """Return the time of the next request; None if none is due."""
        return self._due_ns

    def request_mask(self, now_ns: int) -> Optional[int]:
        """
        Note that a request is sent now.

        :returns: mask of the types to request; None for an empty request. One observed Motive 3.1
            answers only a mask of types that it knows; other versions answered an empty request.
        """
        urgent = self.uncertain and self._unanswered < _UNANSWERED
        if self._copies == 0 or self._copies >= (_COPIES if urgent else 1):
            self._masked = self._masked ^ (self._copies > 0)    # the form was not answered
            self._copies = 0
        self._copies += 1
        self._unanswered += 1
        self._asked_ns.append(now_ns)
        self._due_ns = now_ns + (
            _AGAIN_NS if not urgent else
            _COPY_NS if self._copies < _COPIES else self._late_ns)
        return self._mask if self._masked else None

    def prefer_mask(self, now_ns: int) -> None:
        """Request known types only from now on."""
        if not self._masked:
            self._masked = True
            self.ask(now_ns)

    def _next_round_ns(self, wanted_ns: int) -> int:
        asked = self._asked_ns
        return max(wanted_ns, asked[-1] + (
            self._late_ns if self.uncertain else _AGAIN_NS)) if asked else wanted_ns

    def delayed(self, delay_ns: int, now_ns: int) -> None:
        """
        Process an observed delay of the network (ns).

        :param delay_ns: that of a round trip, or by which a datagram came late.
        """
        late_ns = int(_MARGIN * delay_ns)
        if late_ns >= self._late_ns or now_ns >= self._late_until_ns:
            self._late_ns = max(late_ns, _LATE_NS)
            self._late_until_ns = now_ns + _REMEMBER_NS

    # -- answers -------------------------------------------------------------------------------

    def described(
        self, names: Mapping[int, Model], now_ns: int,
    ) -> tuple[Mapping[int, Model], int]:
        """
        Process definitions.

        :param names: model of each id that has exactly one.
        :returns: the models of frames that arrived before a time, and that time (ns).
        """
        asked_ns = next((sent for sent in self._asked_ns if sent >= now_ns - self._late_ns), None)
        if asked_ns is None:
            if self._asked_ns:
                self.delayed(now_ns - self._asked_ns[-1], now_ns)
            return {}, 0
        self._copies = self._unanswered = 0
        self.refresh_ns = now_ns + _REFRESH_NS
        first, recent = not self._stated, now_ns - self._certain_ns <= max(
            _UNDONE_NS, _PAUSE_INTERVALS * self._interval_ns)
        self._signs_ns = {
            key: sign_ns for key, sign_ns in self._signs_ns.items() if sign_ns >= asked_ns}
        for key in [key for key, at_ns in self._settled_ns.items() if at_ns < asked_ns]:
            del self._settled_ns[key]
            self._since[key] = (self._number or 0) + 1
        if not first:
            self._settled_ns.update(
                (key, now_ns + _SETTLING_NS) for key in self._stated.keys() | names.keys()
                if names.get(key) != self._stated.get(key))
        self._stated, self._certain_ns = dict(names), asked_ns
        self._due_ns = None
        waiting = [*self._signs_ns.values(), *self._settled_ns.values()]
        if waiting:
            self._withheld_since_ns = self._withheld_since_ns or now_ns
            self.ask(max(now_ns, min(waiting) + 1))
        else:
            self._withheld_since_ns = None
        self._renew()
        return {key: name for key, name in names.items() if key not in self._settled_ns
                } if recent and not first else {}, asked_ns

    def names_at(
        self, number: int, names: Optional[Mapping[int, Model]] = None,
    ) -> Mapping[int, Model]:
        """
        Return the models of the ids of a frame, which may be a late one.

        :param names: models of its time; the confirmed ones by default.
        """
        since = self._since
        return {key: name for key, name in (self.names if names is None else names).items()
                if since.get(key, number) <= number}

    @property
    def uncertain(self) -> bool:
        """Return whether any name is not confirmed."""
        return self._withheld_since_ns is not None

    @property
    def all_uncertain(self) -> bool:
        """Return whether the ids of the last frame had names, none of which is confirmed now."""
        return not self.names and bool(self._stated) and all(
            key in self._signs_ns or key in self._settled_ns for key in self._ids)

    @property
    def ids(self) -> list[int]:
        """Return the ids of the last frame."""
        return self._ids

    def unconfirmed_s(self, now_ns: int) -> float:
        """Return for how long names have not been confirmed (s)."""
        began_ns = self._withheld_since_ns
        return 0.0 if began_ns is None else (now_ns - began_ns) / NS_PER_S

    # -- frames --------------------------------------------------------------------------------

    def follow(self, frame: NatNetFrame, arrival_ns: int, lost: bool = False) -> bool:
        """
        Check a frame for signs of a change.

        :param lost: whether frames before it are missing.
        :returns: whether it is the latest frame; False for one that others have overtaken.
        """
        ids = [body[0] for body in frame.bodies]
        if frame.skeletons or frame.assets or frame.plates:
            ids += other_keys(frame)
        last = self._number
        pause_ns = arrival_ns - self._frame_ns
        if not (ids == self._ids and last is not None and 0 <= frame.number - last
                and pause_ns < _PAUSE_NS and not lost
                and not frame.params & FRAME_MODELS_CHANGED):
            if not self._examine(frame, ids, arrival_ns, lost):
                return False
        else:
            self._flag_since_ns = None
        self._ids, self._number = ids, frame.number
        self._frame_ns, self._interval_ns = arrival_ns, pause_ns
        return True

    def _examine(self, frame: NatNetFrame, ids: list[int], arrival_ns: int, lost: bool) -> bool:
        number, last = frame.number, self._number
        paused = arrival_ns - self._frame_ns >= max(
            _PAUSE_NS, _PAUSE_INTERVALS * self._interval_ns)
        flagged = bool(frame.params & FRAME_MODELS_CHANGED)
        if not paused and last is not None and 0 < last - number < _LATE_FRAMES:
            # The gap that it left was a sign; its own flag adds nothing.
            gap_ns = next((at_ns for after, at_ns in self._gaps if after > number), arrival_ns)
            self.delayed(2 * (arrival_ns - gap_ns), arrival_ns)    # request and answer
            return False
        if lost:
            self._gaps.append((number, arrival_ns))
        if not flagged:
            self._flag_since_ns = None
        elif self._flag_since_ns is None:
            self._flag_since_ns = arrival_ns
        lasting = flagged and arrival_ns - (self._flag_since_ns or 0) >= _LONGEST_FLAG_NS
        if last is None or number < last:    # the numbers start again
            self._since.clear()
            self._gaps.clear()
        if paused or lost or (flagged and not lasting) or last is None or number < last:
            self._withhold({*ids, *self._stated}, arrival_ns)
        elif lasting:
            self.ask(arrival_ns)
        if last is not None and ids != self._ids:
            self._withhold(set(ids).difference(self._ids), arrival_ns)
        return True

    def _withhold(self, ids: Iterable[int], now_ns: int) -> None:
        signs = {key: max(now_ns, self._signs_ns.get(key, now_ns)) for key in ids}
        if not signs:
            return
        self._signs_ns.update(signs)
        if self._withheld_since_ns is None:
            self._withheld_since_ns = now_ns
            self._certain_ns = max(self._certain_ns, self._frame_ns)
        if self._unanswered < _UNANSWERED:
            # What is due is a copy, or a round that confirms this sign too, or a slow repetition.
            self._due_ns = min(self._due_ns or now_ns + _AGAIN_NS, self._next_round_ns(now_ns))
        self._renew()

    def _renew(self) -> None:
        names = {key: name for key, name in self._stated.items()
                 if key not in self._signs_ns and key not in self._settled_ns}
        if names != self.names:
            self.names = names
            self.revision += 1


def other_keys(frame: NatNetFrame) -> list[int]:
    """Return the keys of the models of a frame beside rigid bodies."""
    return [key | one[0] & 0xffffffff for key, found in (
        (SKELETON_KEY, frame.skeletons), (ASSET_KEY, frame.assets), (PLATE_KEY, frame.plates))
        for one in found]


class HeldFrames:
    """
    Frames without any confirmed name, for which definitions are under way.

    :ivar frames: the frames and their arrivals (ns), in the order of their numbers.
    """

    def __init__(self) -> None:
        self.frames: list[tuple[NatNetFrame, int]] = []

    @property
    def until_ns(self) -> int:
        """Return when one of them has waited too long (ns)."""
        return min((arrival_ns for _, arrival_ns in self.frames), default=NEVER_NS) + _HOLD_NS

    def add(self, frame: NatNetFrame, arrival_ns: int) -> None:
        """Hold a frame."""
        insort(self.frames, (frame, arrival_ns), key=lambda held: held[0].number)

    def release(
        self, models: ModelList, now_ns: int, stable: Mapping[int, Model], until_ns: int,
    ) -> list[tuple[NatNetFrame, int, Mapping[int, Model]]]:
        """
        Return the frames whose names are known now, and those that have waited too long.

        :param stable: models of the frames that arrived before a time.
        :param until_ns: that time.
        :returns: frames, arrivals (ns) and names.
        """
        if not self.frames:
            return []
        found: list[tuple[NatNetFrame, int, Mapping[int, Model]]] = []
        held, self.frames = self.frames, []
        waiting = models.all_uncertain
        for frame, arrival_ns in held:
            if arrival_ns < until_ns:
                found.append((frame, arrival_ns, models.names_at(frame.number, stable)))
            elif not waiting:
                found.append((frame, arrival_ns, models.names_at(frame.number)))
            elif now_ns - arrival_ns < _HOLD_NS:
                self.frames.append((frame, arrival_ns))
            else:
                found.append((frame, arrival_ns, {}))
        return found
