# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Leave poses out, evenly, while this computer has more to do than it can.

A queue that is worked off is no reason to lose anything: after a hiccup everything goes out. A
queue that stands is: every pose waits in it as long as the one before, and none is the better for
it. What tells the two apart is the least wait over a time (Nichols and Jacobson, "Controlling
Queue Delay", ACM Queue 10(5), 2012). While it stands, frames are left out until the rest is fresh.
"""

from optitrack_vrpn.pipeline.channel import Channel

#: The least wait (ns) that makes a queue stand, and for how long it has to.
STANDING_NS = 50_000_000
PATIENCE_NS = 1_000_000_000
#: While poses are thinned, a frame that waited longer than this (ns) is left out: at once for some
#: time (ns) after the last such, else when waits have been that long for a little while.
FRESH_NS = 20_000_000
PRESSED_NS = 1_000_000_000
HICCUP_NS = 100_000_000
#: No more than so many frames in a row, so that something goes out of whatever is overloaded.
MOST_IN_A_ROW = 9
#: After this long (ns) without a frame left out it is over.
CALM_NS = 10_000_000_000
#: A pause between two looks (ns) after which nothing is known of the queue.
PAUSE_NS = 250_000_000


class Backlog:
    """
    Watch how long poses wait, and choose those that are left out.

    A frame is what comes until a body comes again; it is left out whole, so that the bodies at
    its end are not the ones that pay.

    :ivar thinning: whether frames may be left out at present.
    """

    def __init__(self) -> None:
        self.thinning = False
        self._waited_ns = 0
        # When was last looked, when the wait was short and when next to none, and when a frame
        # was left out.
        self._looked_ns = self._short_ns = self._fresh_ns = self._left_out_ns = -PAUSE_NS
        self._turn = 0
        self._in_a_row = 0

    def look(self, waited_ns: int, now_ns: int) -> bool:
        """
        Take note of a wait, with every datagram or piece of a stream.

        :param waited_ns: from its arrival until now (ns).
        :param now_ns: the present, on a clock that never steps.
        :returns: whether ``thinning`` has changed.
        """
        self._waited_ns = waited_ns
        if waited_ns <= STANDING_NS or now_ns - self._looked_ns >= PAUSE_NS:
            self._short_ns = now_ns
        if waited_ns <= FRESH_NS:
            self._fresh_ns = now_ns
        self._looked_ns = now_ns
        if not self.thinning:
            if now_ns - self._short_ns < PATIENCE_NS:
                return False
            self.thinning = True
            self._left_out_ns = now_ns
            return True
        if now_ns - self._left_out_ns < CALM_NS:
            return False
        self.thinning = False
        self._in_a_row = 0
        return True

    def leaves_out(self, body: Channel) -> bool:
        """
        Tell whether a body's pose is to be left out; ask once for each pose while ``thinning``.

        :param body: whose pose it is.
        """
        if body.turn == self._turn:
            self._turn += 1
            now_ns = self._looked_ns
            if self._waited_ns > FRESH_NS and self._in_a_row < MOST_IN_A_ROW and (
                    now_ns - self._left_out_ns < PRESSED_NS
                    or now_ns - self._fresh_ns >= HICCUP_NS):
                self._in_a_row += 1
                self._left_out_ns = now_ns
            else:
                self._in_a_row = 0
        body.turn = self._turn
        return self._in_a_row > 0
