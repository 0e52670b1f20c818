# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the stamps with the most difficult senders and networks, in a minute.

    python bench/clock_hard.py                      15 minutes of simulated time each
    python bench/clock_hard.py --only ticks

Frames pass the whole pipeline as one moving body, so that withheld poses are counted. The table
contains the error of the published stamps, the share of seconds whose error lies within the
published uncertainty, that uncertainty (median) over the p99 of the error, and the error of
``restamp --smooth``, which sees no raw clock.
"""

from __future__ import annotations

import argparse
import math
from multiprocessing import Pool
import os
from pathlib import Path
import sys
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from clock import write_block  # noqa: E402
from clock_scenarios import hard_scenarios, main_scenarios, more_scenarios  # noqa: E402
from clock_sim import Floats, Frames, Scenario, simulate  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn.clock import StampConfig, StampSource  # noqa: E402
from optitrack_vrpn.clock.smoother import Recording, REFUSED  # noqa: E402
from optitrack_vrpn.pipeline.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.pipeline.pipeline import Pipeline  # noqa: E402
from optitrack_vrpn.vrpn.messages import PoseReport  # noqa: E402

SECONDS = 900.0
HOST_NS = 100_000_000_000_000_000
CALM = ('wired 240 Hz', 'wired 360 Hz', '1000 Hz', 'skew 200 ppm')


def run(task: tuple[Scenario, float, int, bool]) -> dict[str, Any]:
    """
    Publish one session.

    The last field of the task is True if the host has a raw clock, which no daemon adjusts.
    """
    scenario, seconds, seed, raw = task
    frames = simulate(scenario, seconds, seed)
    host = HOST_NS if raw else 0
    pipeline = Pipeline(PipelineConfig())
    error = np.full(len(frames.arrival), np.nan)
    second = (frames.arrival - frames.arrival[0]) // 1_000_000_000
    known = np.full(int(second[-1]) + 1, np.nan)
    last = 0
    pairs = zip(frames.sender_time.tolist(), frames.arrival.tolist(), second.tolist(),
                strict=True)
    for k, (sender_ns, arrival_ns, now) in enumerate(pairs):
        if now != last:
            known[last] = pipeline.stamps.status().uncertainty_s * 1e6
            last = now
        turn = k * 1e-3
        report = PoseReport('wand', 0, sender_ns, (
            0.5 * math.cos(turn), 1.0, 0.5 * math.sin(turn)), (0.0, 0.0, 0.0, 1.0))
        for sample in pipeline.process([report], arrival_ns, host):
            error[k] = (sample.stamp_ns - host - arrival_ns - float(frames.truth[k])) / 1e3
    known[last] = pipeline.stamps.status().uncertainty_s * 1e6
    counts = frames.settled
    size = np.abs(error[counts & ~np.isnan(error)])
    worst = np.zeros(len(known))
    counted = counts & ~np.isnan(error)
    np.maximum.at(worst, second[counted], np.abs(error[counted]))
    judged = np.zeros(len(known), dtype=bool)
    judged[second[counted]] = True
    judged &= ~np.isnan(known)
    return {
        'name': scenario.name + (', raw clock' if raw else ''),
        'smoothed': None if raw else smoothed(frames),
        'p99': float(np.percentile(size, 99)), 'worst': float(size.max()),
        'covered': float(np.mean(worst[judged] <= known[judged])),
        'uncertainty': float(np.median(known[judged])),
        'published': float(np.mean(~np.isnan(error))),
        'restarts': dict(pipeline.stamps.status().restarts),
    }


def smoothed(frames: Frames) -> Floats:
    """Return the size of the error of ``restamp --smooth`` where it counts (us)."""
    recording = Recording(StampSource(StampConfig()))
    for pair in zip(frames.sender_time.tolist(), frames.arrival.tolist(), strict=True):
        recording.add(*pair)
    stamps = np.array(recording.smooth(), dtype=np.int64)
    size: Floats = np.abs((stamps - frames.arrival) - frames.truth) / 1e3
    return size[frames.settled & (stamps != REFUSED)]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the sessions as Markdown."""
    lines = ['| | p99, us | worst, us | seconds within the uncertainty | '
             'uncertainty (median), us | uncertainty / p99 | poses published | '
             'restamp --smooth: p99, us | worst, us | epochs ended |',
             '|---|---|---|---|---|---|---|---|---|---|']
    for row in rows:
        ended = ', '.join(f'{n} {k}' for k, n in row['restarts'].items()) or '-'
        size = row['smoothed']
        after = '- | -' if size is None else f'{np.percentile(size, 99):.1f} | {size.max():.0f}'
        lines.append(
            f'| {row["name"]} | {row["p99"]:.1f} | {row["worst"]:.0f} | '
            f'{row["covered"] * 100:.1f} % | {row["uncertainty"]:.0f} | '
            f'{row["uncertainty"] / row["p99"]:.1f} | '
            f'{row["published"] * 100:.1f} % | {after} | {ended} |')
    return '\n'.join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--seconds', type=float, default=SECONDS)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='', help='sessions whose name contains this')
    parser.add_argument('--all', action='store_true', help='the sessions of clock.py as well')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--write-docs', action='store_true', help='renew the table of docs/')
    args = parser.parse_args()
    os.nice(5)
    hard = hard_scenarios(args.seconds)
    scenarios = [(s, raw) for s in hard for raw in (
        (False, True) if 'swell' in s.name else (False,))]
    # A repeat would have another pose here, as a frame of the same tick has.
    others = [s for s in main_scenarios(args.seconds) + more_scenarios(args.seconds)
              if not s.duplicates]
    names = {s.name for s in hard}
    scenarios += [(s, False) for s in others
                  if (args.all and s.name not in names) or s.name in CALM]
    with Pool(args.jobs) as pool:
        rows = pool.map(run, [(s, args.seconds, args.seed, raw) for s, raw in scenarios
                              if args.only in s.name + ', raw clock' * raw], chunksize=1)
    text = f'{args.seconds:g} s each, seed {args.seed}.\n\n{table(rows)}'
    print(text)
    if args.write_docs:
        write_block(ROOT / 'docs' / 'stamps_measured.md', 'bench-hard', text)


if __name__ == '__main__':
    main()
