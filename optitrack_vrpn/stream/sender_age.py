# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the sender's stamps with this computer's clock, where they are published unchanged."""

from typing import Final

from optitrack_vrpn.core.units import NS_PER_S

#: Chosen: time over which the least age is taken (ns). The delays of a network last shorter.
_WINDOW_NS: Final = NS_PER_S
#: Ages (ns) above which the sender's clock is behind. Chosen: 50 ms above the 10 ms that exposure,
#: processing and network usually take.
_USUAL_NS: Final = 60_000_000


class SenderAge:
    """
    Find stamps of ``stamps.mode: sender`` that are in the future or older than usual.

    :param max_age_ns: largest age, ahead and back, of published poses (ns).
    :ivar text: what is wrong with the sender's clock; '' if it agrees.
    """

    def __init__(self, max_age_ns: int) -> None:
        self._max_age_ns = max_age_ns
        self.text = ''
        self._least_ns = 0
        self._since_ns = -1

    def observe(self, stamp_ns: int, now_ns: int) -> bool:
        """
        Process the stamp of a frame.

        :param now_ns: its arrival by this computer's clock (ns).
        :returns: whether ``text`` has become another one that is to be reported.
        """
        age_ns = now_ns - stamp_ns
        if self._since_ns < 0 or now_ns < self._since_ns:
            self._since_ns, self._least_ns = now_ns, age_ns
        self._least_ns = min(self._least_ns, age_ns)
        if now_ns - self._since_ns < _WINDOW_NS:
            return False
        before, self.text = self.text, self._judge(self._least_ns)
        self._since_ns = -1
        return bool(self.text) and not before

    def _judge(self, age_ns: int) -> str:
        """Describe the least age of a window."""
        if 0 <= age_ns <= _USUAL_NS:
            return ''
        size = f'{abs(age_ns) / NS_PER_S:.3f} s'
        text = (f'stamps of the sender are {size} in the future' if age_ns < 0 else
                f'stamps of the sender are {size} old when they arrive')
        if abs(age_ns) > self._max_age_ns:
            text += (': no pose is published (stamps.max_age_s); for a sender whose clock counts '
                     'from its start set stamps.max_age_s: 0')
        return (f'{text}; set the clocks of both computers by NTP or PTP, or stamps.mode: '
                'tracking, which follows the clock of the sender')
