# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the stamps with known truth, and run random sessions.

    python bench/clock.py                           15 minutes of simulated time for each row
    python bench/clock.py --only WiFi --seconds 3600

The table has the error of the stamps, the share of seconds whose largest error is within the
stated uncertainty, and the median of that uncertainty over the 95th percentile of the errors plus
50 us. Load is drawn at a constant height and with a spread of a quarter of it. Ten cases that were
written without knowledge of the estimator (``clock_judge.py``) and random sessions
(``clock_sessions.py``) follow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
import math
from multiprocessing import Pool
import os
from pathlib import Path
import re
import sys
import time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import clock_judge  # noqa: E402
import clock_sessions  # noqa: E402
from clock_sim import Case, cases, Frames, simulate  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn import RUNS  # noqa: E402
from optitrack_vrpn.stream.clock.source import StampSource  # noqa: E402
from optitrack_vrpn.stream.clock.types import StampConfig  # noqa: E402

SECONDS = 900.0
COVERED, WIDE, FLOOR_US = 0.95, 5.0, 50.0


def stamp_all(source: StampSource, frames: Frames) -> tuple[Any, Any]:
    """Return error (us, NaN without a stamp) and stated uncertainty (us) of each frame."""
    error = np.full(len(frames.arrival), np.nan)
    known = np.full(len(frames.arrival), np.nan)
    uncertainty = math.nan
    echoes = iter(frames.echoes)
    echo = next(echoes, None)
    pairs = zip(frames.sender.tolist(), frames.arrival.tolist(), strict=True)
    for k, (sender_ns, arrival_ns) in enumerate(pairs):
        while echo is not None and echo[0] <= k:
            source.echo(*echo[1:])
            echo = next(echoes, None)
        stamp = source.stamp(sender_ns, arrival_ns, 0, 0, source.coarse)
        if source.times is not None:
            source.judge('wand', k, sender_ns, arrival_ns)
        if stamp is not None:
            error[k] = (stamp - arrival_ns - float(frames.truth[k])) / 1e3
        if k % 24 == 0:
            uncertainty = source.uncertainty_s() * 1e6
        known[k] = uncertainty
    return error, known


def run(task: tuple[Case, int]) -> dict[str, Any]:
    """Stamp one session."""
    case, seed = task
    frames = simulate(case, seed)
    source = StampSource(StampConfig())
    source.reconnected()
    error, known = stamp_all(source, frames)
    size = np.abs(error)
    counts = frames.judged & ~np.isnan(size)
    second = (frames.arrival - frames.arrival[0]) // 1_000_000_000
    beyond = np.full(int(second[-1]) + 1, -np.inf)
    np.maximum.at(beyond, second[counts], (size - known)[counts])
    seen = np.isfinite(beyond)
    p95 = float(np.percentile(size[counts], 95))
    return {
        'name': case.name, 'aim': case.aim_us, 'unobservable': case.unobservable,
        'p99': float(np.percentile(size[counts], 99)), 'worst': float(size[counts].max()),
        'covered': float(np.mean(beyond[seen] <= 0.0)),
        'wide': float(np.median(known[counts])) / (p95 + FLOOR_US / WIDE),
        'published': float(np.mean(~np.isnan(error[frames.judged]))),
        'restarts': source.status().restarts, 'fault': source.status().sender_fault}


def missed(row: dict[str, Any]) -> str:
    """Return which aims a row misses, '' for none."""
    return ', '.join(text for text, failed in (
        ('error', row['p99'] > row['aim']),
        ('uncertainty', row['covered'] < COVERED and not row['unobservable']),
        ('width', row['wide'] > WIDE and not row['unobservable'])) if failed)


def table(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return the rows as Markdown; load of constant delay, then load with spread."""
    lines = ['| | p99 / worst, us | with spread | aim | seconds within the uncertainty | '
             'with spread '
             '| uncertainty / p95 | published | changes | missed |',
             '|---|---|---|---|---|---|---|---|---|---|']
    for row, spread in pairs:
        aim = '-' if math.isnan(row['aim']) else f'{row["aim"]:g}'
        said = ', '.join(f'{n} {k}' for k, n in row['restarts'].items()) or row['fault'] or '-'
        note = '; '.join(filter(None, (
            missed(row), missed(spread) and f'with spread: {missed(spread)}',
            row['unobservable'] and f'not observable: {row["unobservable"]}'))) or '-'
        lines.append(
            f'| {row["name"]} | {row["p99"]:.0f} / {row["worst"]:.0f} | {spread["p99"]:.0f} / '
            f'{spread["worst"]:.0f} | {aim} | {row["covered"] * 100:.1f} % | '
            f'{spread["covered"] * 100:.1f} % | {row["wide"]:.1f} | '
            f'{row["published"] * 100:.1f} % | {said} | {note} |')
    return '\n'.join(lines)


def cost_us(make: Callable[[], Callable[[int, int], Any]], frames: Frames) -> tuple[float, float]:
    """
    Return the processor time of a message and of the longest call, the best of three runs (us).

    Of each call the shortest of the runs counts: what else the computer does is left out.
    """
    times, arrivals = frames.sender.tolist(), frames.arrival.tolist()
    best, least = math.inf, [math.inf] * len(times)
    for _ in range(3):
        place = make()
        begin = time.process_time()
        for sender_time, arrival in zip(times, arrivals, strict=True):
            place(sender_time, arrival)
        best = min(best, (time.process_time() - begin) / len(times) * 1e6)
        place = make()
        for k, (sender_time, arrival) in enumerate(zip(times, arrivals, strict=True)):
            at = time.perf_counter()
            place(sender_time, arrival)
            least[k] = min(least[k], time.perf_counter() - at)
    return best, max(least) * 1e6


def write_block(path: Path, name: str, text: str) -> None:
    """Replace what stands between a page's markers of that name."""
    page = path.read_text(encoding='utf-8')
    found = re.compile(rf'(<!-- {name} -->\n).*?(<!-- /{name} -->)', re.S)
    if not found.search(page):
        raise SystemExit(f'{path}: no markers <!-- {name} --> … <!-- /{name} -->')
    path.write_text(found.sub(lambda m: f'{m[1]}{text}\n{m[2]}', page), encoding='utf-8')


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--seconds', type=float, default=SECONDS)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='', help='rows whose name contains this')
    parser.add_argument('--sessions', type=int, default=clock_sessions.SESSIONS,
                        help='number of random sessions')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--write-docs', action='store_true', help='renew the table of docs/')
    args = parser.parse_args()
    os.nice(5)
    begin = time.monotonic()
    cost, longest = cost_us(lambda: StampSource(StampConfig()).stamp,
                            simulate(Case('cost', seconds=330.0), args.seed))
    chosen = [case for case in cases(args.seconds) if args.only in case.name]
    with Pool(args.jobs) as pool:
        rows = pool.map(run, [(replace(case, spread=spread), args.seed)
                              for case in chosen for spread in (False, True)], chunksize=1)
        outcomes = pool.map(clock_sessions.run, range(args.sessions)) if args.sessions else []
        judged = pool.map(clock_judge.judge, clock_judge.TASKS, chunksize=1)
    text = (f'{args.seconds:g} s each, seed {args.seed}; {cost:.2f} us a message, longest call '
            f'{longest:.0f} us ({RUNS}); all in {(time.monotonic() - begin) / 60.0:.1f} min.\n\n'
            f'{table(list(zip(rows[::2], rows[1::2], strict=True)))}')
    text += f'\n\n{clock_judge.table(judged)}'
    if outcomes:
        text += f'\n\n{clock_sessions.summary(outcomes)}'
    print(text)
    if args.write_docs:
        write_block(ROOT / 'docs' / 'evidence' / 'stamps.md', 'bench-clock', text)


if __name__ == '__main__':
    main()
