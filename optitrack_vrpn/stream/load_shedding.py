# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Shed load: leave out whole frames while this computer cannot process all frames.

A queue after a short stall drains, and all its poses are published. In a standing queue every pose
waits as long as the one before. The minimum wait over a period distinguishes the two (Nichols and
Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012: CoDel). While a queue stands, frames
are left out until the others are fresh.

Outputs are left out before frames, and while the queue is still short. When all poses of the last
``HICCUP_NS``, and at least ``LATE_WAITS`` of them, have waited longer than ``PROMPT_NS``, only
every second pose of a body has all outputs; if that is not enough, every ``MOST_EVERY``-th. The
others, and their transforms, are published alone, and no motion is estimated from them. After some
time without a queue the interval is halved. If a queue returns soon, that time is doubled.
"""

from typing import Final

from optitrack_vrpn.stream.roster import TrackedBody

#: The queue stands if the minimum wait exceeds STANDING_NS (ns) for PATIENCE_NS (ns). Chosen: a
#: fifth of the default maximum age, and longer than usual stalls.
STANDING_NS: Final = 50_000_000
PATIENCE_NS: Final = 1_000_000_000
#: While load is shed, a frame that waited longer than this (ns) may be left out. Chosen: two
#: frames at 100 Hz.
FRESH_NS: Final = 20_000_000
#: Such a frame is left out at once if the last one was left out less than PRESSED_NS (ns) ago;
#: otherwise only after all waits have exceeded FRESH_NS for HICCUP_NS (ns). Chosen.
PRESSED_NS: Final = 1_000_000_000
HICCUP_NS: Final = 100_000_000
#: A pose that waited longer than this (ns) stands in a queue. Chosen: as in CoDel, like
#: ``HICCUP_NS``; more than the datagrams of a frame wait for each other.
PROMPT_NS: Final = 5_000_000
#: Least number of consecutive such waits that are a queue: at a low rate one or two late poses
#: last for ``HICCUP_NS``. Chosen.
LATE_WAITS: Final = 3
#: Largest interval of poses with all outputs. Chosen: leaving out outputs does not shorten waits
#: that have another cause, such as another thread that holds the interpreter's lock. At 30 Hz a
#: vehicle still gets 7 messages of odometry a second, and motion is estimated from these poses.
MOST_EVERY: Final = 4
#: Maximum number of consecutive frames left out: at least a tenth of the frames is published under
#: any load. Chosen.
MOST_IN_A_ROW: Final = 9
#: Shedding ends after this time (ns) in which no frame was left out. Chosen.
CALM_NS: Final = 10_000_000_000
#: After a pause (ns) of this length between two calls of ``update``, nothing is assumed about the
#: queue. Chosen: longer than the frame interval of the slowest usual sender.
PAUSE_NS: Final = 250_000_000


class LoadShedder:
    """
    Monitor how long poses wait, and select the frames to be left out.

    A frame ends when one of its bodies comes again. It is left out as a whole; otherwise only the
    last bodies of each frame would lose poses.

    :ivar shedding: whether frames may be left out at present.
    :ivar every: interval of the poses of a body that have all outputs, 1 for all of them.
    :ivar lean_poses: number of poses published without them.
    :ivar lean_of_late: whether that was so in the last ``CALM_NS``, as far as ``end`` was called.
    :ivar idle_ns: time (ns) of the last wait up to ``PROMPT_NS``, set in place of a call of
        ``update`` while nothing is left out.
    """

    def __init__(self) -> None:
        self.shedding = self.lean_of_late = False
        self.every = 1
        self.lean_poses = 0
        # That number, and the time (ns), when ``end`` last found that it had grown.
        self._lean_before, self._lean_ns = 0, -CALM_NS
        # Times (ns) of the last change of ``every`` and of the last wait up to PROMPT_NS.
        self._changed_ns = self._prompt_ns = -PAUSE_NS
        # Whether the last change of ``every`` was an attempt with more outputs.
        self._attempted = False
        # Number of waits since the last one up to PROMPT_NS.
        self._late = 0
        # Time (ns) without a queue after which an attempt is made.
        self._patience_ns = PRESSED_NS
        self.idle_ns = -PAUSE_NS
        self._waited_ns = 0
        # Times of the last call, of the last short wait, of the last wait below FRESH_NS, and of
        # the last frame left out.
        self._looked_ns = self._short_ns = self._fresh_ns = self._shed_ns = -PAUSE_NS
        self._turn = 0
        self._in_a_row = 0

    def update(self, waited_ns: int, now_ns: int) -> None:
        """
        Process a wait; call it with every datagram or piece of a stream, or set ``idle_ns``.

        :param waited_ns: time from arrival until now (ns).
        :param now_ns: present time (ns) on a monotonic clock.
        """
        self._waited_ns = waited_ns
        if self.idle_ns > self._looked_ns:
            self._looked_ns = self._short_ns = self._fresh_ns = self._prompt_ns = self.idle_ns
            self._late = 0
        if waited_ns <= STANDING_NS or now_ns - self._looked_ns >= PAUSE_NS:
            self._short_ns = now_ns
        if waited_ns <= FRESH_NS:
            self._fresh_ns = now_ns
        if waited_ns <= PROMPT_NS or now_ns - self._looked_ns >= PAUSE_NS:
            self._prompt_ns = now_ns
            self._late = 0
        else:
            self._late += 1
        self._thin(now_ns)
        self._looked_ns = now_ns
        if self.shedding:
            self.end(now_ns)
        elif now_ns - self._short_ns >= PATIENCE_NS:
            self.shedding = True
            self._shed_ns = now_ns

    def _thin(self, now_ns: int) -> None:
        """Adapt the interval of the poses with all outputs."""
        since_ns = now_ns - self._changed_ns
        if now_ns - self._prompt_ns >= HICCUP_NS and self._late >= LATE_WAITS:
            if since_ns >= HICCUP_NS and self.every < MOST_EVERY:
                if self._attempted:    # it failed at once, or after it had succeeded for some time
                    self._patience_ns = PRESSED_NS if since_ns >= PRESSED_NS else min(
                        2 * self._patience_ns, CALM_NS)
                self.every, self._changed_ns = 2 * self.every, now_ns
                self._attempted = False
        elif self.every > 1 and since_ns >= self._patience_ns:
            self.every, self._changed_ns = self.every // 2, now_ns
            self._attempted = True

    def end(self, now_ns: int) -> None:
        """
        End the shedding if no frame was left out for ``CALM_NS``; call it also without poses.

        :param now_ns: present time (ns) on the clock of ``update``.
        """
        if self.lean_poses != self._lean_before:
            self._lean_before, self._lean_ns = self.lean_poses, now_ns
        self.lean_of_late = now_ns - self._lean_ns < CALM_NS
        if self.shedding and now_ns - self._shed_ns >= CALM_NS:
            self.shedding = False

    def sheds(self, body: TrackedBody) -> bool:
        """
        Return whether a pose is left out; call it once for each pose while ``shedding``.

        :param body: the body of the pose.
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
