# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The host's clock against the clock of the arrivals: steps, slews, noisy readings."""

import random

from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.rules import of_log
import pytest

MS = 1_000_000
S = 1_000 * MS
UNIX = 1_700_000_000 * S
FRAME = 4_166_667


def stream(source, host_at, frames, seed=1, start=0, skew=30e-6):
    """Stamp frames of 240 Hz; return (true host time, stamp) of each."""
    rnd = random.Random(seed)
    seen = []
    for i in range(start, start + frames):
        raw = 50 * S + i * FRAME + int(i * FRAME * skew)
        arrival = raw + 20_000 + int(rnd.expovariate(1 / 80e3))
        reading = host_at(arrival) + rnd.randrange(-300, 300)
        stamp = source.stamp(7 * S + i * FRAME, arrival, reading)
        seen.append((raw + host_at(raw), stamp))
    return seen


def worst_us(seen):
    return max(abs(stamp - true - 20_000) for true, stamp in seen if stamp is not None) / 1e3


def test_a_step_of_the_host_is_followed():
    """Forward, frames prove first that they are fresh: the computer may have been suspended."""
    source = StampSource(StampConfig())
    stream(source, lambda raw: UNIX, 240 * 60)
    for number, step in enumerate((50 * MS, 0, 3 * S, -3600 * S), start=1):
        after = stream(source, lambda raw, to=UNIX + step: to, 2400, seed=number,
                       start=240 * 60 + 2400 * (number - 1))
        assert worst_us(after) < 30, step
        withheld = sum(stamp is None for _, stamp in after)
        # Back by less than a second, stamps wait until they rise again.
        assert withheld < 90 if step != -50 * MS else 0 < withheld < 40
        status = source.status()
        assert status.epoch == status.restarts['host_stepped'] == number
        (line,) = of_log(StreamFacts(clock=status))
        before = (0, 50 * MS, 0, 3 * S)[number - 1]
        assert len(source.changes) == 1
        assert f'stamp epoch {number} begins: the host clock stepped by' in line.text
        assert f'{(step - before) / 1e6:+.0f}' in line.text
        source.changes.clear()


@pytest.mark.parametrize('ppm', [500.0, -500.0, 80_000.0])
def test_a_slew_of_the_host_ends_no_epoch(ppm):
    source = StampSource(StampConfig())
    stream(source, lambda raw: UNIX, 240 * 60)
    begin = 50 * S + 240 * 60 * FRAME
    after = stream(source, lambda raw: UNIX + int((raw - begin) * ppm * 1e-6), 2400,
                   start=240 * 60)
    # Readings out of the ordinary are believed one frame later: 2 us at ntpd's fastest slew,
    # 0.3 ms at chrony's.
    assert worst_us(after) < 30 + abs(ppm) * 1e-6 * (FRAME / 1e3 + 400)
    assert source.status().epoch == 0


def test_without_a_raw_clock_arrivals_show_the_step():
    source = StampSource(StampConfig())
    for i in range(240 * 60):
        source.stamp(i * FRAME, UNIX + i * FRAME + 80_000 * (i % 3))
    # back: frames would have arrived early, and are withheld until they are fresh
    stamps = [source.stamp(i * FRAME, UNIX - 50 * MS + i * FRAME + 80_000 * (i % 3))
              for i in range(14400, 21600)]
    assert None not in stamps[130:]
    assert source.status().restarts == {'offset_changed': 1}
    # ahead: only time can tell it from load
    for i in range(21600, 21600 + 20 * 240):
        stamp = source.stamp(i * FRAME, UNIX + 30 * MS + i * FRAME + 80_000 * (i % 3))
        if i > 21600 + 3 * 240:
            assert abs(stamp - UNIX - 30 * MS - i * FRAME) < 50_000
    assert source.status().restarts == {'offset_changed': 2}
    assert not any(change.run_ended for change in source.changes)
