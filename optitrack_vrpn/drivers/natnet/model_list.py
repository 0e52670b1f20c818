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
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Optional

from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.natnet.messages import (
    ASSET_KEY, Frame, FRAME_MODELS_CHANGED, Model, PLATE_KEY, SKELETON_KEY, type_mask)

#: Chosen: request intervals (ns) while names are not confirmed, and otherwise. Motive 2.1 answered
#: within 0.8 ms in a capture.
_URGENT_NS = 40 * NS_PER_MS
_AGAIN_NS = 500 * NS_PER_MS
#: Chosen: requests are at least 20 ms apart, and at most 30 in 2 s, even if the list changes
#: often or many frames are lost; after 8 without an answer they are 0.5 s apart.
_LEAST_NS = 20 * NS_PER_MS
_BURST = 30
_BURST_NS = 2 * NS_PER_S
_UNANSWERED = 8
#: Chosen: an answer that arrives later than this (ns) is treated as lost; frames overtake answers
#: by less.
_LATEST_ANSWER_NS = 100 * NS_PER_MS
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
#: Chosen: time (ns) after which withheld names are reported.
_OVERDUE_NS = NS_PER_S


class ModelList:
    """
    Keep the confirmed models of ids.

    :param now_ns: present time (ns) on a monotonic clock, as all times here.
    :param mask: mask of the types to request from servers that do not answer an empty request.
    :ivar names: confirmed models by id.
    :ivar revision: changes with ``names``.
    :ivar signs: number of signs of a change. Between two signs, an id with an equal name in the
        definitions before and after has had it all the time.
    """

    def __init__(self, now_ns: int, mask: int = type_mask(frozenset(), (0, 0))) -> None:
        self._mask = mask
        self.names: Mapping[int, Model] = {}
        self.revision = 0
        self.signs = 0
        self._stated: dict[int, Model] = {}
        #: Time of the latest sign of a change, by id.
        self._signs_ns: dict[int, int] = {}
        self._withheld_since_ns: Optional[int] = now_ns    # no name is known yet
        self._reported = False
        self._ids: list[int] = []
        self._number: Optional[int] = None
        self._change_number = -1 << 62
        self._frame_ns = now_ns
        self._interval_ns = 0
        self._flag_since_ns: Optional[int] = None
        self._due_ns: Optional[int] = None
        self._repeated = False
        self._masked = True
        self._sent_ns: deque[int] = deque(maxlen=_BURST)
        self._unanswered_ns: deque[int] = deque(maxlen=_UNANSWERED)

    # -- requests ------------------------------------------------------------------------------

    def ask(self, now_ns: int) -> None:
        """Request the definitions, unless a request is waiting already."""
        if self._due_ns is None:
            self._due_ns = self._allowed_ns(now_ns)
            self._repeated = False

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
        urgent = self.uncertain and len(self._unanswered_ns) < _UNANSWERED
        self._due_ns = self._allowed_ns(now_ns + (_URGENT_NS if urgent else _AGAIN_NS))
        return self._mask if self._masked else None

    def _allowed_ns(self, wanted_ns: int) -> int:
        sent = self._sent_ns
        if sent:
            wanted_ns = max(wanted_ns, sent[-1] + (_LEAST_NS if self.uncertain else _AGAIN_NS))
        if len(sent) == _BURST:
            wanted_ns = max(wanted_ns, min(
                sent[0] + _BURST_NS, sent[-1] + _BURST_NS // _BURST))
        return wanted_ns

    # -- answers -------------------------------------------------------------------------------

    def described(self, names: Mapping[int, Model], now_ns: int) -> None:
        """
        Process definitions.

        :param names: model of each id that has exactly one.
        """
        unanswered = self._unanswered_ns
        while unanswered and now_ns - unanswered[0] > _LATEST_ANSWER_NS:
            unanswered.popleft()
        # Answers do not identify their request. The oldest one is assumed, so that an answer is
        # never treated as newer than it is.
        asked_ns = unanswered.popleft() if unanswered else None
        if asked_ns is not None:
            self._signs_ns = {
                key: sign_ns for key, sign_ns in self._signs_ns.items() if sign_ns >= asked_ns}
        renamed = [key for key in self._ids if self._stated
                   and names.get(key) not in (None, self._stated.get(key))]
        self._signs_ns.update(dict.fromkeys(renamed, now_ns + _SETTLING_NS))
        self.signs += bool(renamed)
        self._stated = dict(names)
        self._due_ns = None
        if self._signs_ns:
            self._withheld_since_ns = self._withheld_since_ns or now_ns
            self.ask(max(now_ns, min(self._signs_ns.values()) + 1))
        else:
            self._withheld_since_ns, self._reported = None, False
        self._renew()

    @property
    def uncertain(self) -> bool:
        """Return whether any name is not confirmed."""
        return self._withheld_since_ns is not None

    @property
    def all_uncertain(self) -> bool:
        """Return whether the ids of the last frame had names, none of which is confirmed now."""
        return not self.names and bool(self._stated) and all(
            key in self._signs_ns for key in self._ids)

    def overdue(self, now_ns: int) -> bool:
        """Return True once per period in which names are not confirmed for long."""
        began_ns = self._withheld_since_ns
        if began_ns is None or self._reported or now_ns - began_ns < _OVERDUE_NS:
            return False
        self._reported = True
        return True

    # -- frames --------------------------------------------------------------------------------

    def follow(self, frame: Frame, arrival_ns: int, lost: bool = False) -> bool:
        """
        Check a frame for signs of a change.

        :param lost: whether frames before it are missing.
        :returns: whether the frame agrees with ``names``; False for a frame from before a change
            that arrives after it.
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

    def _examine(self, frame: Frame, ids: list[int], arrival_ns: int, lost: bool) -> bool:
        number, last = frame.number, self._number
        paused = arrival_ns - self._frame_ns >= max(
            _PAUSE_NS, _PAUSE_INTERVALS * self._interval_ns)
        flagged = bool(frame.params & FRAME_MODELS_CHANGED)
        if not paused and last is not None and 0 < last - number < _LATE_FRAMES:
            if flagged and number > self._change_number:
                self._withhold({*ids, *self._ids, *self._stated}, number, arrival_ns)
            return number >= self._change_number
        if not flagged:
            self._flag_since_ns = None
        elif self._flag_since_ns is None:
            self._flag_since_ns = arrival_ns
        lasting = flagged and arrival_ns - (self._flag_since_ns or 0) >= _LONGEST_FLAG_NS
        if paused or lost or (flagged and not lasting) or last is None or number < last:
            self._withhold({*ids, *self._stated}, number, arrival_ns)
        elif lasting:
            self.ask(arrival_ns)
        if last is not None and ids != self._ids:
            for key in self._signs_ns.keys() - ids:
                del self._signs_ns[key]    # it is withheld when it returns
            self._withhold(set(ids).difference(self._ids), number, arrival_ns)
        return True

    def _withhold(self, ids: Iterable[int], number: int, now_ns: int) -> None:
        signs = {key: max(now_ns, self._signs_ns.get(key, now_ns)) for key in ids}
        if not signs:
            return
        self._signs_ns.update(signs)
        self.signs += 1
        self._change_number = number
        if self._withheld_since_ns is None:
            self._withheld_since_ns = now_ns
            # A request that waits for its repetition does not confirm later signs.
            self._due_ns = None
        self.ask(now_ns)
        self._due_ns = min(self._due_ns or now_ns, self._allowed_ns(now_ns))
        self._renew()

    def _renew(self) -> None:
        names = {key: name for key, name in self._stated.items() if key not in self._signs_ns}
        if names != self.names:
            self.names = names
            self.revision += 1


def other_keys(frame: Frame) -> list[int]:
    """Return the keys of the models of a frame beside rigid bodies."""
    return [key | one[0] & 0xffffffff for key, found in (
        (SKELETON_KEY, frame.skeletons), (ASSET_KEY, frame.assets), (PLATE_KEY, frame.plates))
        for one in found]
