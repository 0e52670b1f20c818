# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A network that stops for seconds: of what it held, nothing old is published as current.

Sender, network and receiver are simulated, all of them on busy computers. The true time at which
a frame was sent is known.
"""

import random

from pipeline_kit import make_pipeline, pose_report
import pytest

MAX_AGE_S = 0.5
#: Between a pose's sending and its stamp is the estimator's error under this load.
SLACK_S = 0.15
#: Ways to make the sender's times (ns) from when a frame was due and when it was sent.
CLOCKS = {
    'exposure': lambda due, sent: due,
    'software': lambda due, sent: sent,
    'ticks of 1 ms': lambda due, sent: sent // 10**6 * 10**6,
    'ticks of 15.6 ms': lambda due, sent: sent // 15_600_000 * 15_600_000,
}


def sent_frames(rng, period_ns, count, load_ns):
    """Return when each frame was sent (ns): a busy sender is late, and then catches up."""
    sent, at = [], 0.0
    for number in range(count):
        at = max(at, number * period_ns)
        at += rng.expovariate(1.0 / load_ns) if rng.random() < 0.1 else 2000.0
        if load_ns > 5e6 and rng.random() < 0.003:
            at += rng.uniform(0.0, 0.3e9)
        sent.append(int(at))
    return sent


def published(rng, sent, clock, period_ns, held, hold_ns, load_ns, mode='tracking'):
    """Run the frames through a pipeline; give (age in s, stamp) of what it publishes."""
    pipeline = make_pipeline(mode, max_age_s=MAX_AGE_S)
    start_ns = 10**15
    held_ns = sent[held]
    number, now, out = 0, 0, []
    while number < len(sent):
        if held_ns <= now < held_ns + hold_ns:
            now = held_ns + hold_ns
        waiting = number
        while waiting < len(sent) and sent[waiting] <= now:
            waiting += 1
        if waiting == number:
            now = sent[number] + int(rng.expovariate(5.0 / load_ns))
            continue
        size = min(waiting - number, rng.choice([1, 3, 60, 600]))
        batch = [
            pose_report(
                'drone', start_ns + CLOCKS[clock](round(n * period_ns), sent[n]),
                (n / 1000.0, 2.0, 3.0))
            for n in range(number, number + size)]
        arrival = now
        now += int(rng.expovariate(10.0 / load_ns)) + 20_000 * size
        for sample in pipeline.process(batch, arrival, 0, now).samples:
            x = (sum(c * c for c in sample.position) - 13.0) ** 0.5
            out.append(((now - sent[round(1000.0 * x)]) * 1e-9, sample.stamp_ns))
        number += size
    return out


@pytest.mark.parametrize('clock', CLOCKS)
@pytest.mark.parametrize('seed', range(6))
def test_no_pose_that_a_network_held_is_published_as_current(clock, seed):
    rng = random.Random(f'{clock} {seed}')
    period_ns = rng.choice([4e6, 8.333e6])
    load_ns = rng.choice([0.2e6, 2e6, 10e6])
    held, hold_ns = round(rng.choice([1.2e9, 2e9]) / period_ns), rng.choice([1, 3, 5]) * 10**9
    sent = sent_frames(rng, period_ns, held + round((hold_ns + 2e9) / period_ns), load_ns)
    out = published(rng, sent, clock, period_ns, held, hold_ns, load_ns)
    check(out, held)


def check(out, held):
    """Expect the poses before the stall, none that the network held, and stamps that rise."""
    assert len(out) > 0.5 * held
    assert max(age for age, _ in out) < MAX_AGE_S + SLACK_S
    stamps = [stamp for _, stamp in out]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize('seed', range(6))
@pytest.mark.parametrize('held_s', [0.1, 1.2])
@pytest.mark.parametrize('mode', ['min_offset', 'arrival'])
def test_stamps_by_arrival_do_not_make_old_poses_current(mode, held_s, seed):
    """The mode arrival, and min_offset while it learns, stamp what was held as it arrives."""
    rng = random.Random(f'{mode} {held_s} {seed}')
    period_ns, load_ns = rng.choice([4e6, 8.333e6]), rng.choice([0.2e6, 2e6])
    held, hold_ns = round(held_s * 1e9 / period_ns), rng.choice([1, 3, 12]) * 10**9
    sent = sent_frames(rng, period_ns, held + round((hold_ns + 4e9) / period_ns), load_ns)
    out = published(
        rng, sent, rng.choice(list(CLOCKS)), period_ns, held, hold_ns, load_ns, mode)
    check(out, held)
    assert sum(age < 0.1 for age, _ in out) > 0.5e9 / period_ns + held


def live(sender_ms, frames, late_ms=(), waited_ms=0):
    """Give the published ones of frames at 100 Hz in mode arrival; the last are late and wait."""
    pipeline = make_pipeline('arrival', max_age_s=MAX_AGE_S)
    out = []
    for number in range(frames):
        late = number >= frames - len(late_ms)
        arrival = 10**12 + 10**7 * number + (10**6 * late_ms[number - frames] if late else 0)
        report = pose_report(
            'drone', 10**15 + 10**6 * sender_ms(number), (1e-4 * number, 2.0, 3.0))
        if pipeline.process([report], arrival, 0, arrival + 10**6 * waited_ms * late).samples:
            out.append(number)
    return out


@pytest.mark.parametrize('sender_ms, again', [
    (lambda n: 0, 800),                                     # none: stamps are arrivals alone
    (lambda n: 10 * n - 800 * (n >= 300), 380),             # set back
    (lambda n: 10 * n - min(max(10 * n - 3000, 0), 3000), 2010)],
    ids=['constant', 'set back by 0.8 s', 'stopped for 3 s'])
def test_a_senders_clock_that_fails_does_not_make_all_poses_too_old(sender_ms, again):
    out = live(sender_ms, again + 100)
    assert [n for n in out if n >= again] == list(range(again, again + 100))


@pytest.mark.parametrize('late_ms, waited_ms', [(450, 0), (300, 150), (0, 450)])
def test_the_age_is_the_delay_and_the_time_since_the_arrival(late_ms, waited_ms):
    late_ms = [late_ms] * 70    # after a stall, frames are fresh after 0.5 s
    assert 269 in live(lambda n: 10 * n, 270, late_ms, waited_ms)
    assert 269 not in live(lambda n: 10 * n, 270, late_ms, waited_ms + 100)
