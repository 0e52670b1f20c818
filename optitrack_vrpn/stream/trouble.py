# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Say why no frame is stamped, or why the stamps of ``stamps.mode: sender`` are wrong."""

from typing import Final, Optional

from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.stream.clock.types import Trouble

#: Ages (s) above which the sender's clock is behind. Chosen: 50 ms above the 10 ms that exposure,
#: processing and network usually take.
USUAL_S: Final = 0.06


def trouble_text(trouble: Optional[Trouble], max_age_ns: int) -> str:
    """
    Return a sentence with the remedy, '' if there is no trouble.

    :param max_age_ns: largest age, ahead and back, of published poses (ns).
    """
    if trouble is None:
        return ''
    if trouble.event:
        text = (f'no pose is published: since {trouble.event}, for {trouble.for_s:.1f} s, frames '
                'do not arrive at the pace at which they were sent: they come out of a buffer')
        if trouble.falling:
            text += ('. If the server plays a recording faster than real time, set '
                     'stamps.mode: sender and stamps.max_age_s: 0')
        return text
    if trouble.late_s:
        return (f'no pose is published: all frames are {trouble.late_s:.3f} s late: they are '
                f'old, or a clock was set; that is assumed in {trouble.left_s:.1f} s')
    age_s = trouble.age_s
    if 0 <= age_s <= USUAL_S:
        return ''
    text = (f'stamps of the sender are {-age_s:.3f} s in the future' if age_s < 0 else
            f'stamps of the sender are {age_s:.3f} s old when they arrive')
    if abs(age_s) * NS_PER_S > max_age_ns:
        text += (': no pose is published (stamps.max_age_s); for a sender whose clock counts '
                 'from its start set stamps.max_age_s: 0')
    return (f'{text}; set the clocks of both computers by NTP or PTP, or stamps.mode: '
            'tracking, which follows the clock of the sender')
