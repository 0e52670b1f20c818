# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the cases of ``clock_stranger.py`` through the pipeline, and print what was published.

    python bench/clock_judge.py

A pose is old if its true age, above the least delay of its path, is more than ``stamps.max_age_s``
and 10 ms. A silence is a time in which live frames arrive and none is published.
"""

from __future__ import annotations

import math
from multiprocessing import Pool
import os
from pathlib import Path
import sys
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from clock_sessions import LIVE_S  # noqa: E402
import clock_stranger  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn.drivers.frames import Body, Frame  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.pipeline import Pipeline  # noqa: E402

OLD_S = PipelineConfig().max_age_s + 0.01
SEEDS = 3
#: Number and seed of each case.
TASKS = [(number, seed) for number in range(10) for seed in range(SEEDS)]


class Judgement(NamedTuple):
    """One case: shares of frames, seconds, and microseconds of the stamps of live frames."""

    name: str
    live: int
    published: float
    old: int
    oldest_s: float
    median_us: float
    p99_us: float
    within: float
    silent_s: float


def judge(task: tuple[int, int]) -> Judgement:
    """Run a case, by its number and seed."""
    number, seed = task
    case = clock_stranger.cases(seed)[number]
    pipeline = Pipeline(PipelineConfig())
    pipeline.reconnected()
    errors, ages, within = [], [], 0
    live = published = 0
    since, longest = math.nan, 0.0
    rows = zip(case.sender_ns.tolist(), case.monotonic_ns.tolist(), case.arrival_ns.tolist(),
               case.true_ns.tolist(), strict=True)
    ticked = 0
    for sender_ns, monotonic_ns, arrival_ns, true_ns in rows:
        at, age = monotonic_ns * 1e-9, (arrival_ns - true_ns) * 1e-9
        turn = 0.5 * at + at * 1e9 % 7.0 * 1e-7
        body = Body('wand', 0, sender_ns, (0.5 * math.cos(turn), 1.0, 0.5 * math.sin(turn)),
                    (0.0, 0.0, 0.0, 1.0))
        samples = pipeline.process([Frame(sender_ns, [body])], monotonic_ns,
                                   arrival_ns - monotonic_ns, monotonic_ns).samples
        if monotonic_ns - ticked > 100_000_000:
            ticked = monotonic_ns
            pipeline.tick(monotonic_ns)
        is_live = age <= LIVE_S
        live += is_live
        if samples or not is_live:
            longest = max(longest, 0.0 if math.isnan(since) else at - since)
            since = math.nan
        elif math.isnan(since):
            since = at
        for sample in samples:
            published += is_live
            ages.append(age)
            error = (sample.stamp_ns - true_ns) * 1e-3
            if age <= OLD_S:
                errors.append(abs(error))
                within += abs(error) <= pipeline.stamps.uncertainty_s() * 1e6
    return Judgement(
        case.name, live, published / live, sum(age > OLD_S for age in ages), max(ages),
        float(np.median(errors)), float(np.percentile(errors, 99)), within / len(errors), longest)


def table(rows: list[Judgement]) -> str:
    """Return the cases as Markdown, the worst seed of each figure."""
    lines = ['| case | live frames published | old poses; oldest, s | stamps p50; p99, us | '
             'within the uncertainty | longest silence, s |', '|---|---|---|---|---|---|']
    for name in dict.fromkeys(row.name for row in rows):
        of = [row for row in rows if row.name == name]
        lines.append(
            f'| {name} | {100 * min(row.published for row in of):.1f} % | '
            f'{max(row.old for row in of)}; {max(row.oldest_s for row in of):.2f} | '
            f'{max(row.median_us for row in of):.0f}; {max(row.p99_us for row in of):.0f} | '
            f'{100 * min(row.within for row in of):.1f} % | '
            f'{max(row.silent_s for row in of):.1f} |')
    return '\n'.join(lines)


if __name__ == '__main__':
    with Pool(os.cpu_count()) as processes:
        print(table(processes.map(judge, TASKS, chunksize=1)))
