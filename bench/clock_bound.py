# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bound the error of stamps from below, by oracles that know all but one thing.

    python bench/clock_bound.py                 polls at 240 Hz, 25 ppm apart; swells to 1.5 ms

*Polls.* A frame waits for the next poll. The wait falls (or rises) by the difference of the two
rates and steps by one interval when a poll has overtaken a frame. The oracle knows the delay
without the wait, the interval, both rates, and that frames are polled: everything but the first
wait, which may be anything up to an interval. After a time t without a step, it knows that the
wait is between 0 and interval - drift t; the middle of these has the least possible largest
error. From the first step on it knows the wait exactly.

*Swells.* Load that rises and falls gives the same arrivals as a clock that is slewed there and
back. The oracle knows the floor in both cases without error, and that it is one of the two; it
does not know which. It may give the middle, or decide for the clock after some seconds; then its
error under a slew is limited by the slew of these seconds.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

START_S = 10.0


def oracle_errors(
    first_wait_us: float, interval_us: float, drift_ppm: float, seconds: float,
) -> NDArray[np.float64]:
    """Return the size of the oracle's error in each tenth of a second from ``START_S`` on (us)."""
    t = np.arange(START_S, seconds, 0.1)
    wait = first_wait_us - drift_ppm * t
    middle = (interval_us - drift_ppm * t) / 2.0
    size: NDArray[np.float64] = np.where(wait >= 0.0, np.abs(wait - middle), 0.0)
    return size


def swell_errors(
    rise_us: float, length_s: float, every_s: float, lag_s: float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """
    Return the size of the oracle's errors under load and under a slew (us), over one period.

    :param lag_s: time after which it decides for the clock; None for the middle of the two.
    """
    t = np.arange(0.0, every_s, 0.01)
    passed = t - (every_s - length_s) / 2.0
    rise = rise_us * np.clip(1.0 - np.abs(2.0 * passed / length_s - 1.0), 0.0, None)
    share = 0.5 if lag_s is None else (passed > lag_s).astype(np.float64)
    return share * rise, (1.0 - share) * rise


def main() -> None:
    """Print both bounds."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--rate', type=float, default=240.0, help='frames a second')
    parser.add_argument('--ppm', type=float, default=25.0, help='difference of the rates')
    parser.add_argument('--seconds', type=float, default=900.0)
    parser.add_argument('--swell', type=float, default=1500.0, help='largest load (us)')
    parser.add_argument('--length', type=float, default=60.0, help='of the swell (s)')
    args = parser.parse_args()
    interval = 1e6 / args.rate
    waits = (np.arange(1000) + 0.5) / 1000.0 * interval
    sizes = [oracle_errors(wait, interval, args.ppm, args.seconds) for wait in waits]
    p99 = [float(np.percentile(size, 99)) for size in sizes]
    worst = [float(size.max()) for size in sizes]
    print('| oracle, us | least | median | largest |\n|---|---|---|---|')
    for name, found in (('p99', p99), ('worst', worst)):
        print(f'| {name} | {min(found):.0f} | {np.median(found):.0f} | {max(found):.0f} |')
    print('\n| oracle of swells every 300 s, p99 / worst, us | load | slew |\n|---|---|---|')
    for lag, text in ((None, 'gives the middle'), (4.0, 'decides for the clock after 4 s'),
                      (10.0, 'after 10 s'), (1e3, 'decides for load')):
        cells = [f'{np.percentile(size, 99):.0f} / {size.max():.0f}'
                 for size in swell_errors(args.swell, args.length, 300.0, lag)]
        print(f'| {text} | ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
