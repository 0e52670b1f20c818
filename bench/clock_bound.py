# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bound the error of stamps from below where frames are polled at nearly their own rate.

    python bench/clock_bound.py                 240 Hz, polls 25 ppm apart, 15 minutes

A frame waits for the next poll. The wait falls (or rises) by the difference of the two rates and
steps by one interval when a poll has overtaken a frame. The oracle knows the delay without the
wait, the interval, both rates, and that frames are polled: everything but the first wait, which
may be anything up to an interval. After a time t without a step, it knows that the wait is
between 0 and interval - drift t; the middle of these has the least possible largest error. From
the first step on it knows the wait exactly.
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


def main() -> None:
    """Print the bound for first waits from nothing to one interval."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--rate', type=float, default=240.0, help='frames a second')
    parser.add_argument('--ppm', type=float, default=25.0, help='difference of the rates')
    parser.add_argument('--seconds', type=float, default=900.0)
    args = parser.parse_args()
    interval = 1e6 / args.rate
    waits = (np.arange(1000) + 0.5) / 1000.0 * interval
    sizes = [oracle_errors(wait, interval, args.ppm, args.seconds) for wait in waits]
    p99 = [float(np.percentile(size, 99)) for size in sizes]
    worst = [float(size.max()) for size in sizes]
    print('| oracle, us | least | median | largest |\n|---|---|---|---|')
    for name, found in (('p99', p99), ('worst', worst)):
        print(f'| {name} | {min(found):.0f} | {np.median(found):.0f} | {max(found):.0f} |')


if __name__ == '__main__':
    main()
