# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Shed load: leave out whole frames while this computer cannot process all of them.

After a hiccup, a queue is worked off and everything is published. In a standing queue every pose
waits as long as the one before. The least wait over a time tells the two apart (Nichols and
Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012: CoDel). While the queue stands, frames
are left out until the rest is fresh.
"""

from optitrack_vrpn.pipeline.channel import Channel

#: A least wait (ns) above this, for this long (ns), is a standing queue. Chosen: a tenth of the
#: default greatest age, and longer than any usual stall. Halved, hiccups cost poses; doubled,
#: poses are older before anything is done.
STANDING_NS = 50_000_000
PATIENCE_NS = 1_000_000_000
#: While load is shed, a frame that waited longer than this (ns) may be left out. Chosen: two
#: frames at 100 Hz. Halved, more frames than needed go; doubled, poses are that much older.
FRESH_NS = 20_000_000
#: It is left out at once for so long (ns) after the last one; later, when waits have been above
#: FRESH_NS for HICCUP_NS (ns). Chosen; halved or doubled, a queue is cut sooner or later.
PRESSED_NS = 1_000_000_000
HICCUP_NS = 100_000_000
#: No more than so many frames in a row, so that a tenth of them is published under any load.
MOST_IN_A_ROW = 9
#: After this long (ns) without a frame left out it is over. Chosen; halved or doubled, a computer
#: at its limit reports the change more or less often.
CALM_NS = 10_000_000_000
#: A pause (ns) between two looks after which nothing is known of the queue. Chosen: longer than
#: the interval of the slowest usual sender. Halved, slow senders never have a standing queue.
PAUSE_NS = 250_000_000


class LoadShedder:
    """
    Watch how long poses wait, and choose the frames that are left out.

    A frame is what comes until a body comes again; it is left out whole, so that not only the
    bodies at its end lose poses.

    :ivar shedding: whether frames may be left out at present.
    """

    def __init__(self) -> None:
        self.shedding = False
        self._waited_ns = 0
        # When was last looked, when the wait was short and when next to none, and when a frame
        # was left out.
        self._looked_ns = self._short_ns = self._fresh_ns = self._shed_ns = -PAUSE_NS
        self._turn = 0
        self._in_a_row = 0

    def look(self, waited_ns: int, now_ns: int) -> bool:
        """
        Take note of a wait; call it with every datagram or piece of a stream.

        :param waited_ns: from its arrival until now (ns).
        :param now_ns: the present, on a clock that never steps.
        :returns: whether ``shedding`` has changed.
        """
        self._waited_ns = waited_ns
        if waited_ns <= STANDING_NS or now_ns - self._looked_ns >= PAUSE_NS:
            self._short_ns = now_ns
        if waited_ns <= FRESH_NS:
            self._fresh_ns = now_ns
        self._looked_ns = now_ns
        if not self.shedding:
            if now_ns - self._short_ns < PATIENCE_NS:
                return False
            self.shedding = True
            self._shed_ns = now_ns
            return True
        if now_ns - self._shed_ns < CALM_NS:
            return False
        self.shedding = False
        self._in_a_row = 0
        return True

    def sheds(self, body: Channel) -> bool:
        """
        Return whether a body's pose is to be left out; ask once for each pose while ``shedding``.

        :param body: whose pose it is.
        """
        if body.turn == self._turn:
            self._turn += 1
            now_ns = self._looked_ns
            if self._waited_ns > FRESH_NS and self._in_a_row < MOST_IN_A_ROW and (
                    now_ns - self._shed_ns < PRESSED_NS
                    or now_ns - self._fresh_ns >= HICCUP_NS):
                self._in_a_row += 1
                self._shed_ns = now_ns
            else:
                self._in_a_row = 0
        body.turn = self._turn
        return self._in_a_row > 0
