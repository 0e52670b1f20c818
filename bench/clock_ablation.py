# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure what each mechanism of the path of the clock is for: sessions with and without it.

    python bench/clock_ablation.py                       all mechanisms; some minutes
    python bench/clock_ablation.py --without bend

The block minima of each session are recorded once, from the whole estimator. Each mechanism is
switched off in a copy of the source, by replacing a piece of its text, and the path is computed
again from the same minima. The table lists what changes by more than 20 %, of each mechanism
in the three sessions that change most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
import importlib
import math
import os
from pathlib import Path
import shutil
import sys
import tempfile
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
if __name__ == '__main__':
    # Methods are replaced below, which compiled code would not call.
    os.environ['OPTITRACK_VRPN_COMPILE'] = '0'

from clock import write_block  # noqa: E402
from clock_scenarios import hard_scenarios, main_scenarios, more_scenarios  # noqa: E402
from clock_sim import Scenario, simulate  # noqa: E402
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


def record(scenario: Scenario, seconds: float, raw: bool) -> list[tuple[Any, ...]]:
    """Run the estimator; list what its path is given, and sampled frames with their truth."""
    from optitrack_vrpn.clock import path, StampConfig, StampSource, tracking
    steps: list[tuple[Any, ...]] = []
    placed: list[tuple[int, int]] = []
    rule_type: Any = tracking.TrackingRule
    originals = []

    def note(owner: Any, name: str, make: Any) -> None:
        original = getattr(owner, name)
        originals.append((owner, name, original))

        def noted(self: Any, *args: Any) -> Any:
            result = original(self, *args)
            step = make(self, args)
            if step is not None:
                steps.append(step)
            return result
        setattr(owner, name, noted)

    note(path.ClockPath, 'add', lambda self, args: ('add', *args, self.wait_ns))
    note(path.ClockPath, 'restart', lambda self, args: ('restart',))
    note(rule_type, '_lay', lambda self, args: ('lay',))
    note(rule_type, 'set_slewable', lambda self, args: ('slewable', args[0]))
    note(rule_type, '_close_block', lambda self, args: (
        'close', args[0], self._block_end - self._block_from))
    note(rule_type, 'place', lambda self, args: placed.append(
        (args[0] - self._zero, args[1] - args[0] - self._base)))
    try:
        frames = simulate(scenario, seconds, 1)
        source: Any = StampSource(StampConfig())
        second, every = 0, max(1, round(scenario.rate_hz / 5.0))
        rows = zip(frames.sender_time.tolist(), frames.arrival.tolist(), frames.truth.tolist(),
                   frames.settled.tolist(), strict=True)
        for k, (sender_ns, arrival_ns, truth, settled) in enumerate(rows):
            source.stamp(sender_ns, arrival_ns, HOST_NS if raw else 0)
            if placed and k % every == 0:
                steps.append(('frame', *placed[-1], truth, settled))
            placed.clear()
            now = (arrival_ns - int(frames.arrival[0])) // 1_000_000_000
            if now != second:
                second = now
                other = source.uncertainty_s() * 1e9 - source._rule._path.uncertainty()
                steps.append(('second', other))
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
    return steps


def path_module(mechanism: tuple[str, str, str] | None) -> Any:
    """Import the path from a copy of the package, without a mechanism."""
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
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(f'{PACKAGE}.clock.path')
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split('.')[0] == PACKAGE]:
                del sys.modules[name]
            sys.modules.update(kept)


def play(module: Any, steps: list[tuple[Any, ...]]) -> Found:
    """Compute the path again; return the errors of the line, as ``tracking.py`` lays it."""
    path = module.ClockPath()
    height = slope = worst = 0.0
    end = float('inf')
    errors: list[float] = []
    covered: list[bool] = []
    known: list[float] = []
    for step in steps:
        kind = step[0]
        if kind == 'frame':
            _, t, residual, truth, settled = step
            if t > end and path.blocks:
                height, slope, end = height + (slope - path.rate) * end, path.rate, float('inf')
            if residual < height + slope * t:
                height = residual - slope * t
            if settled:
                errors.append(abs(height + slope * t - residual - truth) / 1e3)
                worst = max(worst, errors[-1])
        elif kind == 'second':
            uncertainty = (path.uncertainty() + step[1]) / 1e3
            if worst and uncertainty == uncertainty:
                covered.append(worst <= uncertainty)
                known.append(uncertainty)
            worst = 0.0
        elif kind == 'add':
            path.wait_ns = step[3]
            path.add(*step[1:3])
        elif kind == 'restart':
            path.restart()
        elif kind == 'lay':
            height, slope, end = 0.0, path.rate, float('inf')
        elif kind == 'slewable':
            path.slewable = step[1]
        elif path.blocks:
            _, t, length = step
            now = height + slope * t
            slope = (path.line(t + length) - now) / length
            height, end = now - slope * t, t + length
    return Found(float(np.percentile(errors, 99)), max(errors), float(np.mean(covered)),
                 float(np.median(known)))


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
    recorded = {s.name: record(s, args.seconds, raw) for s, raw in sessions(args.seconds)}
    whole = path_module(None)
    before = {name: play(whole, steps) for name, steps in recorded.items()}
    lines = ['| without | session | change, us |', '|---|---|---|']
    for name in [args.without] if args.without else MECHANISMS:
        module = path_module(MECHANISMS[name])
        found = [(*changes(before[session], play(module, steps)), session)
                 for session, steps in recorded.items()]
        changed = sorted((each for each in found if each[1]), reverse=True)[:3]
        for k, (_, text, session) in enumerate(changed or [(0.0, '-', 'none')]):
            lines.append(f'| {"" if k else name} | {session} | {text} |')
    print(*lines, sep='\n')
    if args.write_docs:
        write_block(ROOT / 'docs' / 'stamps_measured.md', 'bench-ablation', '\n'.join(lines))


if __name__ == '__main__':
    main()
