# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure what each mechanism of the path of the clock is for: sessions with and without it.

    python bench/clock_ablation.py                       all mechanisms; some minutes
    python bench/clock_ablation.py --without bend

Each mechanism is switched off in a copy of the package, by replacing a piece of its text; the
copy stamps the same frames. The table lists what changes by more than 20 %, of each mechanism in
the three sessions that change most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
import importlib
import math
from multiprocessing import Pool
import os
from pathlib import Path
import shutil
import sys
import tempfile
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
from clock import write_block  # noqa: E402
from clock_scenarios import hard_scenarios, main_scenarios, more_scenarios  # noqa: E402
from clock_sim import Frames, Scenario, simulate  # noqa: E402
import numpy as np  # noqa: E402

PACKAGE = 'optitrack_vrpn'
HOST_NS = 100_000_000_000_000_000
LIMIT = 1.2
"""Ratio from which a figure counts as changed."""
SESSIONS = (
    'wired 240 Hz', 'WiFi 120 Hz', 'busy: 60 s spikes every 3 min', 'events',
    'WiFi 30 Hz', 'polled every 10 ms', 'load 80 of every 100 s', 'load wanders, 0.2 ms, 30 s',
    'delays fivefold and back', 'wired, as slow as WiFi, wired', 'delay jumps 2 ms up, down',
    'load swells for 60 s to 1.5 ms', 'sender disciplined in steps of 5 to 60 ppm',
    '5 ppm in waves, load of 30 s', 'polled at 240 Hz', 'host steps, load 20 s later')
RAW = ('load swells for 60 s to 1.5 ms', 'polled at 240 Hz')
"""Sessions on a host with a raw clock."""
# Mechanism: file, text, text without the mechanism.
MECHANISMS = {
    'bend': ('path.py', 'slewable = self.slewable', 'slewable = False'),
    'bends only where a clock is slewed': (
        'path.py', 'slewable = self.slewable', 'slewable = True'),
    'other rate after a restart': ('path.py', 'if self._prior is not UNKNOWN:', 'if False:'),
    'bend within a block': ('path.py', '(since + SAME_TIME_S, 0), ', ''),
    'bend during load': ('path.py', ', (since, _LATER)', ''),
    'no bend': ('path.py', 'if falls and falls[-1][0] == t and self._end_t', 'if False and 0'),
    'fall': ('path.py', 'if off < (-0.5 if again else -1.0) * least and', 'if False and'),
    'smaller falls after a fall': ('path.py', '(-0.5 if again else -1.0)', '-1.0'),
    'jump': ('path.py', 'if found is None and lifted > JUMP_BLOCKS and lifted % 2 == 0:',
             'if False:'),
    'pattern': ('path.py', 'if found is None and lifted >= 4 and lifted % 3 == 1:', 'if False:'),
    'bounds of polled frames': (
        'path.py', 'self._waits.update(t, y, self.wait_ns * 1e-3)',
        'self._waits.update(t, y, 0.0)'),
    'bounded cost of load': ('cost.py', 'share = 1.0 + off * off / LOAD', 'share = 1.0'),
    'double weight below': ('cost.py', 'BELOW = 2.0', 'BELOW = 1.0'),
    'depth of the floor': (
        'path.py', 'self._depth = (ABOVE_FLOOR', 'self._depth = 0.0 * (ABOVE_FLOOR'),
    'dips of averaged minima': (
        'path.py', 'max(first.dip, second.dip, first.x - first.y, second.x - second.y)',
        '-math.inf'),
    'scatter bounded by the lowest': (
        'path.py', 'if len(single) > 16:', 'if False:'),
    'rate kept by a restart': (
        'path.py', '_KNOWN_RATE = 1.0', '_KNOWN_RATE = 100.0'),
    'uncertainty: path': ('path.py', 'path = 3.0 * math.sqrt(self._var) * fit', 'path = 0.0'),
    'uncertainty: scatter': ('path.py', '1.5 * self._scale * fit', '0.0'),
    'uncertainty: lag': ('path.py', '2.0 * abs(self._lag)', '0.0'),
    'uncertainty: fit of the minima': (
        'path.py', 'fit = math.sqrt(self._ratio)', 'fit = 1.0'),
    'uncertainty: replaced line': ('path.py', ' + self._off_replaced()', ''),
    'uncertainty: lowest recent minimum': ('path.py', 'max(total, path + above)', 'total'),
}


class Found(NamedTuple):
    """Figures of a session: errors and uncertainty in us."""

    p99: float
    worst: float
    covered: float
    uncertainty: float


def sessions(seconds: float) -> Iterator[tuple[Scenario, bool]]:
    """Give the sessions, and whether the host has a raw clock."""
    every = {s.name: s for s in [
        *main_scenarios(seconds), *more_scenarios(seconds), *hard_scenarios(seconds)]}
    for name in SESSIONS:
        yield every[name], False
    for name in RAW:
        yield replace(every[name], name=f'{name}, raw clock'), True


def clock_without(mechanism: tuple[str, str, str] | None) -> Any:
    """Import the clock from a copy of the package, without a mechanism."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / PACKAGE, Path(folder) / PACKAGE)
        if mechanism is not None:
            file, text, without = mechanism
            module = Path(folder) / PACKAGE / 'clock' / file
            source = module.read_text(encoding='utf-8')
            if source.count(text) != 1:
                raise SystemExit(f'{file}: expected once, found {source.count(text)}: {text!r}')
            module.write_text(source.replace(text, without), encoding='utf-8')
        kept = {name: sys.modules.pop(name) for name in list(sys.modules)
                if name.split('.')[0] == PACKAGE}
        # Of the copy, the source is to be used, not the compiled modules of the package.
        finders, compiled = sys.meta_path[:], os.environ.get('OPTITRACK_VRPN_COMPILE', '')
        sys.meta_path[:] = [
            finder for finder in finders if type(finder).__module__.split('.')[0] != PACKAGE]
        os.environ['OPTITRACK_VRPN_COMPILE'] = '0'
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(f'{PACKAGE}.clock')
        finally:
            sys.meta_path[:] = finders
            os.environ['OPTITRACK_VRPN_COMPILE'] = compiled
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split('.')[0] == PACKAGE]:
                del sys.modules[name]
            sys.modules.update(kept)


def measure(clock: Any, frames: Frames, raw: bool) -> Found:
    """Stamp the frames of a session; return its figures."""
    host = HOST_NS if raw else 0
    source = clock.StampSource(clock.StampConfig())
    second = (frames.arrival - frames.arrival[0]) // 1_000_000_000
    ends = np.flatnonzero(np.diff(second, append=-1)).tolist()
    times, arrivals = frames.sender_time.tolist(), frames.arrival.tolist()
    stamps: list[int] = []
    known = np.full(int(second[-1]) + 1, np.nan)
    begin = 0
    for end in ends:
        # A frame that is refused is none of these sessions'.
        stamps += [source.stamp(times[k], arrivals[k], host) for k in range(begin, end + 1)]
        known[second[end]] = source.uncertainty_s() * 1e6
        begin = end + 1
    size = np.abs(np.array(stamps) - host - frames.arrival - frames.truth) / 1e3
    size, second = size[frames.settled], second[frames.settled]
    worst = np.zeros(len(known))
    np.maximum.at(worst, second, size)
    judged = (worst > 0.0) & ~np.isnan(known)
    return Found(float(np.percentile(size, 99)), float(size.max()),
                 float(np.mean(worst[judged] <= known[judged])), float(np.median(known[judged])))


def run(task: tuple[Scenario, float, bool, list[str]]) -> list[Found]:
    """Return the figures of a session, whole and without each mechanism."""
    scenario, seconds, raw, names = task
    frames = simulate(scenario, seconds, 1)
    return [measure(clock_without(each), frames, raw)
            for each in [None, *(MECHANISMS[name] for name in names)]]


def changes(before: Found, after: Found) -> tuple[float, str]:
    """Describe what changed; return the logarithm of the largest ratio, and a text or nothing."""
    parts = []
    most = 0.0
    for name, a, b in (('p99', before.p99, after.p99), ('worst', before.worst, after.worst),
                       ('uncertainty', before.uncertainty, after.uncertainty)):
        if not 1.0 / LIMIT < b / a < LIMIT and abs(b - a) > 3.0:
            parts.append(f'{name} {a:.0f} → {b:.0f}')
            most = max(most, abs(math.log(b / a)))
    if abs(after.covered - before.covered) > 0.01:
        parts.append(f'covered {100.0 * before.covered:.0f} → {100.0 * after.covered:.0f} %')
    return most, ', '.join(parts)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--seconds', type=float, default=900.0)
    parser.add_argument('--without', choices=MECHANISMS, help='this mechanism alone')
    parser.add_argument('--write-docs', action='store_true', help='renew the table of docs/')
    args = parser.parse_args()
    os.nice(5)
    names = [args.without] if args.without else list(MECHANISMS)
    tasks = [(s, args.seconds, raw, names) for s, raw in sessions(args.seconds)]
    with Pool() as pool:
        rows = dict(zip([s.name for s, *_ in tasks], pool.map(run, tasks, chunksize=1),
                        strict=True))
    lines = ['| without | session | change, us |', '|---|---|---|']
    for k, name in enumerate(names, start=1):
        found = [(*changes(row[0], row[k]), session) for session, row in rows.items()]
        changed = sorted((each for each in found if each[1]), reverse=True)[:3]
        for i, (_, text, session) in enumerate(changed or [(0.0, '-', 'none')]):
            lines.append(f'| {"" if i else name} | {session} | {text} |')
    print(*lines, sep='\n')
    if args.write_docs:
        write_block(ROOT / 'docs' / 'stamps_measured.md', 'bench-ablation', '\n'.join(lines))


if __name__ == '__main__':
    main()
