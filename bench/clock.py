# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the stamps over simulated hours, beside other rules.

    python bench/clock.py                  all: 5 h, seed 1; some minutes
    python bench/clock.py --hours 0.2      a quick look
    python bench/clock.py --write-docs     also put the tables and the picture into docs/

The tables of docs/stamps_measured.md are those of ``--hours 1``, of ``--hours 5`` (the long
sessions alone), of ``clock_hard.py --all`` and of ``clock_ablation.py``; each has --write-docs.

The error is the stamp minus the frame's true time on the arrival clock with the smallest delay of
the network; it counts after 10 s and outside the recovery time of an event.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
import json
from multiprocessing import Pool
import os
from pathlib import Path
import re
import sys
import time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from clock_baselines import BASELINES  # noqa: E402
import clock_natnet  # noqa: E402
from clock_plot import error_svg  # noqa: E402
from clock_scenarios import main_scenarios, more_scenarios  # noqa: E402
from clock_sim import Floats, Frames, Scenario, simulate  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn import RUNS  # noqa: E402
from optitrack_vrpn.clock import StampConfig, StampSource  # noqa: E402
from optitrack_vrpn.clock.smoother import Recording, REFUSED  # noqa: E402

PLOTTED = 1
CHUNK_S = 2.0
MORE_S = 1800.0
NATNET_S = 3600.0


def errors(frames: Frames, stamps: list[Any]) -> Floats:
    """Return stamp - truth in us; NaN for what was refused."""
    relative = [np.nan if s is None else s - a
                for s, a in zip(stamps, frames.arrival.tolist(), strict=True)]
    result: Floats = (np.array(relative, dtype=np.float64) - frames.truth) / 1e3
    return result


def score(frames: Frames, error: Floats) -> dict[str, float]:
    """Return p99 and worst of the error's size where it counts (us)."""
    size = np.abs(error[frames.settled])
    return {'p99': float(np.percentile(size, 99)), 'worst': float(size.max())}


def interval_jitter(frames: Frames, values: Floats) -> float:
    """Return the standard deviation of value intervals against the true ones (us)."""
    settled = frames.settled[1:] & frames.settled[:-1] & (np.diff(frames.sender_time) > 0)
    return float(np.std(np.diff(values)[settled]))


def run_tracking(frames: Frames) -> tuple[Floats, dict[str, Any]]:
    """
    Stamp all frames with the default mode; report error, coverage of the uncertainty, more.

    ``smoothed`` contains the error of ``restamp --smooth``.
    """
    source = StampSource(StampConfig())
    recording = Recording(source)
    covered = []
    at = 0
    times, arrivals = frames.sender_time.tolist(), frames.arrival.tolist()
    ends = np.searchsorted(
        frames.arrival, np.arange(frames.arrival[0], frames.arrival[-1], CHUNK_S * 1e9)).tolist()
    for end in [*ends[1:], len(times)]:
        for pair in zip(times[at:end], arrivals[at:end], strict=True):
            recording.add(*pair)
        if end > at and recording.stamps[-1] != REFUSED:
            late = arrivals[end - 1] - recording.stamps[-1]
            error = abs(late + float(frames.truth[end - 1])) / 1e9
            known = source.status().uncertainty_s
            if frames.settled[end - 1] and known == known:
                covered.append(error <= known)
        at = end
    status = source.status()
    error = errors(frames, _numbers(recording.stamps))
    smoothed = errors(frames, _numbers(recording.smooth()))
    return error, {
        **score(frames, error), 'smoothed': score(frames, smoothed),
        'covered': float(np.mean(covered)),
        'jitter': interval_jitter(frames, error),
        'arrival_jitter': interval_jitter(frames, -frames.truth / 1e3),
        'restarts': dict(status.restarts),
    }


def _numbers(stamps: Iterable[int]) -> list[int | None]:
    return [None if stamp == REFUSED else stamp for stamp in stamps]


def run_main(task: tuple[Scenario, float, int]) -> dict[str, Any]:
    """Run every method over one long session."""
    scenario, seconds, seed = task
    frames = simulate(scenario, seconds, seed)
    error, tracking = run_tracking(frames)
    row: dict[str, Any] = {'name': scenario.name, 'frames': len(error), 'tracking': tracking}
    lines = {'tracking': per_minute(frames, error)}
    times, arrivals = frames.sender_time.tolist(), frames.arrival.tolist()
    for name, make in BASELINES.items():
        error = errors(frames, list(map(make(), times, arrivals)))
        row[name] = score(frames, error)
        lines[name] = per_minute(frames, error)
    row['lines'] = lines
    return row


def run_more(task: tuple[Scenario, float, int]) -> dict[str, Any]:
    """Run the default mode over one short session."""
    scenario, seconds, seed = task
    return {'name': scenario.name, **run_tracking(simulate(scenario, seconds, seed))[1]}


def per_minute(frames: Frames, error: Floats) -> list[float]:
    """Return the worst error of each minute (us)."""
    minute = ((frames.arrival - frames.arrival[0]) // 60_000_000_000).astype(int)
    worst = np.zeros(int(minute.max()) + 1)
    np.maximum.at(worst, minute, np.where(frames.settled, np.abs(error), 0.0))
    return [round(float(w), 2) for w in worst]


def cost_us(make: Callable[[], Callable[[int, int], Any]], frames: Frames) -> float:
    """Return the processor time for a message, the best of three runs (us)."""
    times, arrivals = frames.sender_time.tolist(), frames.arrival.tolist()
    best = float('inf')
    for _ in range(3):
        place = make()
        begin = time.process_time()
        for sender_time, arrival in zip(times, arrivals, strict=True):
            place(sender_time, arrival)
        best = min(best, (time.process_time() - begin) / len(times) * 1e6)
    return best


def longest_call_us(make: Callable[[], Callable[[int, int], Any]], frames: Frames) -> float:
    """
    Return the processor time of the longest call (us).

    Of each call the shortest of three runs counts: what else the computer does is left out.
    """
    times, arrivals = frames.sender_time.tolist(), frames.arrival.tolist()
    least = [float('inf')] * len(times)
    for _ in range(3):
        place = make()
        for k, (sender_time, arrival) in enumerate(zip(times, arrivals, strict=True)):
            begin = time.perf_counter()
            place(sender_time, arrival)
            least[k] = min(least[k], time.perf_counter() - begin)
    return max(least) * 1e6


def number(value: float) -> str:
    """Format microseconds for a table."""
    return f'{value:.1f}' if value < 99.95 else f'{value:,.0f}'.replace(',', ' ')


def main_table(rows: list[dict[str, Any]], cost: dict[str, float]) -> str:
    """Return the comparison as Markdown."""
    names = list(BASELINES)
    lines = [
        '| p99 / worst of the error, us | tracking | restamp --smooth | '
        + ' | '.join(names) + ' |',
        '|---|' + '---|' * (len(names) + 2),
    ]
    for row in rows:
        found = row['tracking']
        cells = [f'**{number(found["p99"])} / {number(found["worst"])}**',
                 f'{number(found["smoothed"]["p99"])} / {number(found["smoothed"]["worst"])}']
        cells += [f'{number(row[n]["p99"])} / {number(row[n]["worst"])}' for n in names]
        lines.append(f'| {row["name"]} | ' + ' | '.join(cells) + ' |')
    cells = [f'{cost[n]:.1f}' for n in ('tracking', 'restamp --smooth', *names)]
    lines.append(f'| us a message (this package: {RUNS}) | ' + ' | '.join(cells) + ' |')
    lines.append(f'| longest call, us | {cost["longest"]:.0f} |' + ' |' * (len(names) + 1))
    return '\n'.join(lines)


def side_table(rows: list[dict[str, Any]]) -> str:
    """Return what else is known of the tracking mode as Markdown."""
    lines = ['| | interval jitter: arrivals, us | stamps, us | within the published '
             'uncertainty | epochs ended |', '|---|---|---|---|---|']
    for row in rows:
        found = row['tracking']
        ended = ', '.join(f'{n} {k}' for k, n in found['restarts'].items()) or '-'
        lines.append(
            f'| {row["name"]} | {number(found["arrival_jitter"])} | {found["jitter"]:.2f} | '
            f'{found["covered"] * 100:.1f} % | {ended} |')
    return '\n'.join(lines)


def more_table(rows: list[dict[str, Any]]) -> str:
    """Return the short sessions as Markdown."""
    lines = ['| 30 min each | p99, us | worst, us | within the uncertainty '
             '| restamp --smooth: p99, us | worst, us | epochs ended |',
             '|---|---|---|---|---|---|---|']
    for row in rows:
        ended = ', '.join(f'{n} {k}' for k, n in row['restarts'].items()) or '-'
        lines.append(f'| {row["name"]} | {number(row["p99"])} | {number(row["worst"])} | '
                     f'{row["covered"] * 100:.1f} % | {number(row["smoothed"]["p99"])} | '
                     f'{number(row["smoothed"]["worst"])} | {ended} |')
    return '\n'.join(lines)


def smoothing_cost_us(frames: Frames) -> float:
    """Return the processor time for a row of ``restamp --smooth``, without the file (us)."""
    recording = Recording(StampSource(StampConfig()))
    begin = time.process_time()
    for pair in zip(frames.sender_time.tolist(), frames.arrival.tolist(), strict=True):
        recording.add(*pair)
    recording.smooth()
    return (time.process_time() - begin) / len(frames.arrival) * 1e6


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
    parser.add_argument('--hours', type=float, default=5.0, help='length of the long sessions')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='', help='scenarios whose name contains this')
    parser.add_argument('--long', action='store_true', help='the long sessions alone')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--json', type=Path, help='write all figures there')
    parser.add_argument('--plot', type=Path, help='write the picture there (SVG)')
    parser.add_argument('--write-docs', action='store_true', help='renew the tables of docs/')
    args = parser.parse_args()
    os.nice(5)
    seconds = args.hours * 3600.0
    frames = simulate(main_scenarios(seconds)[0], 600.0, args.seed)
    cost = {'tracking': cost_us(lambda: StampSource(StampConfig()).stamp, frames)}
    cost['restamp --smooth'] = smoothing_cost_us(frames)
    cost |= {name: cost_us(make, frames) for name, make in BASELINES.items()}
    loaded = simulate(main_scenarios(600.0)[5], 600.0, args.seed)
    cost['longest'] = longest_call_us(lambda: StampSource(StampConfig()).stamp, loaded)
    with Pool(args.jobs) as pool:
        rows = pool.map(run_main, [
            (s, seconds, args.seed) for s in main_scenarios(seconds) if args.only in s.name],
            chunksize=1)
        more = pool.map(run_more, [
            (s, MORE_S, args.seed) for s in more_scenarios(MORE_S)
            if args.only in s.name and not args.long],
            chunksize=1)
        natnet = pool.map(clock_natnet.run_task, [
            (s, min(seconds, NATNET_S), args.seed)
            for s in clock_natnet.sessions(min(seconds, NATNET_S))
            if args.only in s.name and not args.long],
            chunksize=1)
    natnet_heading = (
        f'{min(seconds, NATNET_S) / 3600:g} h each, seed {args.seed}, `make bench-clock`.')
    how = f'--hours {args.hours:g}' + ' --long' * args.long
    heading = f'{args.hours:g} h each, seed {args.seed}, `make bench-clock ARGS="{how}"`.'
    first = 'bench-long' if args.long else 'bench-main'
    tables = {first: f'{heading}\n\n{main_table(rows, cost)}'}
    if not args.long:
        tables['bench-side'] = side_table(rows)
        tables['bench-more'] = more_table(more)
        tables['bench-natnet'] = f'{natnet_heading}\n\n{clock_natnet.table(natnet)}'
    print(*tables.values(), sep='\n\n')
    if args.json:
        args.json.write_text(json.dumps(
            {'hours': args.hours, 'seed': args.seed, 'cost_us': cost, 'main': rows, 'more': more,
             'natnet': natnet},
            indent=1), encoding='utf-8')
    long_docs = args.write_docs and args.long
    plot = ROOT / 'docs' / 'img' / 'stamp_error.svg' if long_docs else args.plot
    if plot and len(rows) > PLOTTED:
        plot.parent.mkdir(parents=True, exist_ok=True)
        plot.write_text(error_svg(rows[PLOTTED]['name'], rows[PLOTTED]['lines']), encoding='utf-8')
    if args.write_docs:
        for name, text in tables.items():
            write_block(ROOT / 'docs' / 'stamps_measured.md', name, text)


if __name__ == '__main__':
    main()
