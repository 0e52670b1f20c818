# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide which streaming ids have a certain name, and when to request the model definitions.

A frame contains streaming ids only. Motive gives the id of a deleted body to the next new one, so
a name from old definitions can belong to another body. A name is withheld from the first sign of a
change until definitions arrive that were requested after that sign:

- a frame with the flag "model list changed", frame numbers that start again, or a pause in the
  stream: the names of all ids;
- an id that the previous frame did not contain: the name of this id;
- definitions that give an id another name: this id for a short time, since frames and definitions
  can overtake each other.

Lost frames may have contained such a flag: they cause a request but withhold no name.
"""

from collections import deque
from collections.abc import Mapping
from typing import Optional

from optitrack_vrpn.natnet.constants import FRAME_MODELS_CHANGED, MARKER_SETS_AND_BODIES
from optitrack_vrpn.natnet.messages import Frame
from optitrack_vrpn.units import NS_PER_MS, NS_PER_S

#: Chosen: request intervals (ns) while names are withheld, and otherwise. Motive 2.1 answered
#: within 0.8 ms in a capture. Halved, twice the requests; doubled, the interruption after a lost
#: datagram is twice as long.
_URGENT_NS = 100 * NS_PER_MS
_AGAIN_NS = 500 * NS_PER_MS
#: Chosen: 8 requests at least 50 ms apart, then two per second, even if the list changes often.
#: With half of the times or double the number the server gets more requests; the opposite prolongs
#: the interruption by a change that follows others.
_LEAST_NS = 50 * NS_PER_MS
_BURST = 8
_BURST_NS = 4 * NS_PER_S
#: Chosen: request interval (ns) after lost frames. Halved, twice the requests on a lossy network;
#: doubled, the lost flag of a change is noticed later.
_AFTER_LOSS_NS = 5 * NS_PER_S
#: Chosen: an answer that arrives later than this (ns) is treated as lost. Halved, the answer of a
#: slow server can count for a later request; doubled, after a lost answer the next ones count as
#: older for twice as long, and names are withheld longer.
_LATEST_ANSWER_NS = NS_PER_S
#: Chosen: a pause (ns) in which Motive can load another project; longer frame intervals are
#: accepted if the interval before was long too. Halved, shorter network stalls withhold names;
#: doubled, a project that loads in less than 1 s is not noticed by its pause.
_PAUSE_NS = 500 * NS_PER_MS
_PAUSE_INTERVALS = 4
#: Chosen: a flag that stays set for longer (ns) does not mark a change. Halved, a change that
#: lasts is taken for a flag that is always set; doubled, a server that always sets it delays the
#: first poses by 1 s.
_LONGEST_FLAG_NS = 500 * NS_PER_MS
#: Chosen: an id with a new name is withheld for this time (ns); frames are at most some
#: milliseconds behind the definitions. Halved, frames up to 50 ms behind are safe; doubled, a
#: renamed body is without poses for twice as long.
_SETTLING_NS = 100 * NS_PER_MS
#: Chosen: frame numbers may fall by this much when datagrams overtake each other; a larger fall is
#: a restart of the server. Double treats a restart within 128 frames as overtaking.
_LATE_FRAMES = 64
#: Chosen: time (ns) after which withheld names are reported. Halved, lost answers are reported;
#: doubled, the user waits longer for the reason.
_OVERDUE_NS = NS_PER_S


class ModelList:
    """
    Keep the certain names of streaming ids.

    :param now_ns: present time (ns) on a monotonic clock, as all times here.
    :ivar names: certain names by streaming id.
    :ivar revision: changes with ``names``.
    """

    def __init__(self, now_ns: int) -> None:
        self.names: Mapping[int, str] = {}
        self.revision = 0
        self._stated: dict[int, str] = {}
        #: Time of the latest sign of a change: for all ids, and for single ids.
        self._all_uncertain_ns: Optional[int] = None
        self._uncertain_ns: dict[int, int] = {}
        #: End of the time for which a renamed id is withheld.
        self._settling_ns: dict[int, int] = {}
        self._withheld_since_ns: Optional[int] = now_ns    # no name is known yet
        self._reported = False
        self._ids: Optional[list[int]] = None
        self._number: Optional[int] = None
        self._change_number = -1 << 62
        self._frame_ns = now_ns
        self._interval_ns = 0
        self._flag_since_ns: Optional[int] = None
        self._due_ns: Optional[int] = None
        self._repeated = False
        self._masked = True
        self._sent_ns: deque[int] = deque(maxlen=_BURST)
        self._unanswered_ns: deque[int] = deque(maxlen=_BURST)
        self._loss_ns = now_ns - _AFTER_LOSS_NS

    # -- requests ------------------------------------------------------------------------------

    def ask(self, now_ns: int) -> None:
        """Request the definitions, unless a request is waiting already."""
        if self._due_ns is None:
            self._due_ns = self._allowed_ns(now_ns)
            self._repeated = False

    def lost(self, now_ns: int) -> None:
        """Request the definitions after lost frames, at a low rate."""
        if now_ns - self._loss_ns >= _AFTER_LOSS_NS:
            self._loss_ns = now_ns
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
        if self._repeated or not self._sent_ns:
            self._masked = not self._masked
        self._repeated = True
        self._sent_ns.append(now_ns)
        self._unanswered_ns.append(now_ns)
        pause_ns = _AGAIN_NS if self._withheld_since_ns is None else _URGENT_NS
        self._due_ns = self._allowed_ns(now_ns + pause_ns)
        return MARKER_SETS_AND_BODIES if self._masked else None

    def _allowed_ns(self, wanted_ns: int) -> int:
        sent = self._sent_ns
        if sent:
            wanted_ns = max(wanted_ns, sent[-1] + _LEAST_NS)
        if len(sent) == _BURST:
            wanted_ns = max(wanted_ns, min(sent[0] + _BURST_NS, sent[-1] + _AGAIN_NS))
        return wanted_ns

    # -- answers -------------------------------------------------------------------------------

    def described(self, names: Mapping[int, str], now_ns: int) -> None:
        """
        Process definitions.

        :param names: name of each streaming id that has exactly one.
        """
        unanswered = self._unanswered_ns
        while unanswered and now_ns - unanswered[0] > _LATEST_ANSWER_NS:
            unanswered.popleft()
        # Answers do not identify their request. The oldest one is assumed, so that an answer is
        # never treated as newer than it is.
        asked_ns = unanswered.popleft() if unanswered else None
        if self._stated:
            for streaming_id in self._ids or ():
                name = names.get(streaming_id)
                if name is not None and name != self._stated.get(streaming_id):
                    self._settling_ns[streaming_id] = now_ns + _SETTLING_NS
        self._stated = dict(names)
        if asked_ns is not None:
            if self._all_uncertain_ns is not None and self._all_uncertain_ns < asked_ns:
                self._all_uncertain_ns = None
            self._uncertain_ns = {
                streaming_id: since_ns for streaming_id, since_ns in self._uncertain_ns.items()
                if since_ns >= asked_ns}
        self._due_ns = None
        if self._all_uncertain_ns is not None or self._uncertain_ns:
            self.ask(now_ns)
        else:
            self._withheld_since_ns = None
            self._reported = False
        self._renew()

    @property
    def uncertain(self) -> bool:
        """Return whether any name is withheld."""
        return self._withheld_since_ns is not None or bool(self._settling_ns)

    def overdue(self, now_ns: int) -> bool:
        """Return True once per period in which names are withheld for long."""
        began_ns = self._withheld_since_ns
        if began_ns is None or self._reported or now_ns - began_ns < _OVERDUE_NS:
            return False
        self._reported = True
        return True

    # -- frames --------------------------------------------------------------------------------

    def follow(self, frame: Frame, arrival_ns: int) -> bool:
        """
        Check a frame for signs of a change.

        :returns: whether the frame agrees with ``names``; False for a frame from before a change
            that arrives after it.
        """
        ids = [body[0] for body in frame.bodies]
        last = self._number
        pause_ns = arrival_ns - self._frame_ns
        if (ids == self._ids and last is not None and 0 <= frame.number - last
                and pause_ns < _PAUSE_NS and not self._settling_ns
                and not frame.params & FRAME_MODELS_CHANGED):
            self._number = frame.number
            self._frame_ns = arrival_ns
            self._interval_ns = pause_ns
            self._flag_since_ns = None
            return True
        return self._examine(frame, ids, arrival_ns, pause_ns)

    def _examine(self, frame: Frame, ids: list[int], arrival_ns: int, pause_ns: int) -> bool:
        number, last = frame.number, self._number
        paused = pause_ns >= max(_PAUSE_NS, _PAUSE_INTERVALS * self._interval_ns)
        flagged = bool(frame.params & FRAME_MODELS_CHANGED)
        if not paused and last is not None and 0 < last - number < _LATE_FRAMES:
            if flagged and number > self._change_number:
                self._all_uncertain_ns = arrival_ns
                self._withhold(number, arrival_ns)
            return number >= self._change_number
        if not flagged:
            self._flag_since_ns = None
        elif self._flag_since_ns is None:
            self._flag_since_ns = arrival_ns
        lasting = flagged and arrival_ns - (self._flag_since_ns or 0) >= _LONGEST_FLAG_NS
        if paused or (flagged and not lasting) or (last is not None and number < last):
            self._all_uncertain_ns = arrival_ns
            self._withhold(number, arrival_ns)
        elif lasting:
            self.ask(arrival_ns)
        if self._ids is not None and ids != self._ids:
            for streaming_id in set(ids).difference(self._ids):
                self._uncertain_ns[streaming_id] = arrival_ns
                self._withhold(number, arrival_ns)
            for streaming_id in set(self._uncertain_ns).difference(ids):
                del self._uncertain_ns[streaming_id]    # it is withheld when it returns
        ended = [streaming_id for streaming_id, end_ns in self._settling_ns.items()
                 if arrival_ns >= end_ns]
        for streaming_id in ended:
            del self._settling_ns[streaming_id]
        if ended:
            self._renew()
        self._ids = ids
        self._number = number
        self._frame_ns = arrival_ns
        self._interval_ns = pause_ns
        return True

    def _withhold(self, number: int, now_ns: int) -> None:
        self._change_number = number
        if self._withheld_since_ns is None:
            self._withheld_since_ns = now_ns
            # A request that waits for its repetition does not confirm later signs.
            self._due_ns = None
        self.ask(now_ns)
        self._renew()

    def _renew(self) -> None:
        withheld = self._uncertain_ns.keys() | self._settling_ns.keys()
        names = {} if self._all_uncertain_ns is not None else {
            streaming_id: name for streaming_id, name in self._stated.items()
            if streaming_id not in withheld}
        if names != self.names:
            self.names = names
            self.revision += 1
