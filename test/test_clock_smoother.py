# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Stamps of a whole recording, known from both sides (``restamp --smooth``)."""

import csv
from dataclasses import replace
from pathlib import Path
import random
import sys

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

from clock_scenarios import hard_scenarios, WIFI, WIRED  # noqa: E402
from clock_sim import simulate  # noqa: E402
from hypothesis import given, settings, strategies as st  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn.clock import StampConfig, StampSource  # noqa: E402
from optitrack_vrpn.clock.floor import find_floor  # noqa: E402
from optitrack_vrpn.clock.smoother import Recording, REFUSED  # noqa: E402
from optitrack_vrpn.tools.restamp_command import (  # noqa: E402
    format_seconds, main, parse_seconds)
import pytest  # noqa: E402

S = 10**9
SECONDS = 330.0


def both(pairs):
    """Return stamps of the node, smoothed stamps and the recording."""
    recording = Recording(StampSource(StampConfig()))
    for sent, arrival in pairs:
        recording.add(sent, arrival)
    causal = list(recording.stamps)
    return causal, list(recording.smooth()), recording


def worst_us(frames, stamps, since_s=0.0, percentile=100.0):
    """Return a percentile of the error's size (us)."""
    error = np.array(stamps, dtype=np.int64) - frames.arrival - frames.truth
    counts = frames.arrival > frames.arrival[0] + since_s * 1e9
    return float(np.percentile(np.abs(error[counts]), percentile)) / 1e3


# -- the floor, against closed forms -----------------------------------------------------------

def seconds(n):
    return [float(k) for k in range(n)]


def test_a_straight_line_is_found_to_a_fraction_of_its_noise():
    rng = np.random.default_rng(1)
    t = seconds(600)
    noise = rng.normal(0.0, 6.0, 600)
    floor = find_floor(t, [30.0 * a + b for a, b in zip(t, noise, strict=True)])
    off = np.array([floor.at(a) - 30.0 * a for a in t])
    # The floor lies below the minima, by the depth of their deepest dips; it does not waver.
    assert -26.0 < off.mean() < -6.0
    assert np.std(np.diff(off)) < 0.5


@pytest.mark.parametrize('height_us', [300.0, 1500.0, 9000.0])
@pytest.mark.parametrize('length', [40, 120])
def test_a_swell_of_load_is_ignored(height_us, length):
    rng = np.random.default_rng(2)
    t = np.arange(500.0)
    swell = height_us * np.clip(1.0 - np.abs(t - 250.0) / (length / 2), 0.0, None)
    noise = np.abs(rng.normal(0.0, 4.0, 500))
    floor = find_floor(t.tolist(), (20.0 * t + noise + swell).tolist())
    off = np.array([floor.at(a) - 20.0 * a for a in t])
    assert np.abs(off).max() < 15.0


@pytest.mark.parametrize('ppm', [20.0, 500.0, -40.0])
def test_a_bend_that_stays_is_followed_at_its_place(ppm):
    rng = np.random.default_rng(3)
    t = np.arange(400.0)
    truth = ppm * np.clip(t - 200.4, 0.0, None)
    floor = find_floor(t.tolist(), (truth + np.abs(rng.normal(0.0, 4.0, 400))).tolist())
    off = np.array([floor.at(a) for a in t]) - truth
    assert np.abs(off).max() < 20.0


@pytest.mark.parametrize('jump_us', [2000.0, -2000.0])
def test_a_jump_that_stays_is_followed_from_the_first_minimum_on(jump_us):
    rng = np.random.default_rng(4)
    t = np.arange(600.0)
    truth = np.where(t >= 300.0, jump_us, 0.0)
    floor = find_floor(t.tolist(), (truth + np.abs(rng.normal(0.0, 4.0, 600))).tolist())
    off = np.array([floor.at(a) for a in t]) - truth
    assert np.abs(off).max() < 20.0


def test_too_few_minima_give_no_floor():
    assert find_floor(seconds(5), [0.0] * 5) is None


# -- smoothed against causal -------------------------------------------------------------------

def hard(part):
    (found,) = [s for s in hard_scenarios(SECONDS) if part in s.name]
    return found


CASES = {
    'wired': WIRED,
    'WiFi': WIFI,
    'ticks': hard('ticks of 1 ms, 0.5 % loss'),
    'disciplined': replace(WIRED, epoch=True, events=(
        (60.0, 'discipline', 40.0), (140.0, 'discipline', -70.0), (240.0, 'discipline', 25.0))),
    'load': replace(WIRED, loads=((40.0, 30.0, 1.0), (150.0, 60.0, 2.0))),
}
BETTER = {
    'swell of a minute': hard('60 s to 1.5 ms'),
    'swell of two minutes': hard('120 s to 1.5 ms'),
    'load from the start': replace(WIRED, loads=((0.0, 50.0, 2.0),)),
    'load soon after a step': replace(
        WIRED, events=((100.0, 'host_step', 50.0),), loads=((120.0, 30.0, 2.0),)),
}


def session(scenario, rate_hz=40.0):
    frames = simulate(replace(scenario, rate_hz=rate_hz), SECONDS, 1)
    causal, smoothed, _ = both(zip(
        frames.sender_time.tolist(), frames.arrival.tolist(), strict=True))
    return frames, causal, smoothed


@pytest.mark.parametrize('case', CASES)
def test_smoothed_stamps_are_no_worse_than_those_of_the_node(case):
    frames, causal, smoothed = session(CASES[case])
    assert worst_us(frames, smoothed, 10.0) <= worst_us(frames, causal, 10.0) * 1.1 + 1.0
    assert worst_us(frames, smoothed, 10.0, 99) <= worst_us(frames, causal, 10.0, 99) * 1.1 + 1.0


@pytest.mark.parametrize('case', BETTER)
def test_swells_and_young_epochs_are_clearly_better(case):
    frames, causal, smoothed = session(BETTER[case])
    assert worst_us(frames, smoothed) < 60.0
    assert worst_us(frames, smoothed) < worst_us(frames, causal) / 5.0


# -- promises ----------------------------------------------------------------------------------

@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_promises_hold_for_any_network(seed):
    rnd = random.Random(seed)
    pairs, sent, arrival = [], 50 * S, 7 * S
    offset = arrival - sent
    for _ in range(1500):
        sent += rnd.choice((10_000_000, 10_000_000, 10_000_000, 40_000_000))
        if rnd.random() < 0.001:
            offset += rnd.choice((-60, 60, 3000)) * 1_000_000
        elif rnd.random() < 0.001:
            sent -= rnd.choice((30, 2000)) * 1_000_000
        arrival = max(sent, 1) + offset + int(rnd.expovariate(1.0) * 10 ** rnd.uniform(4, 7.5))
        pairs.append((sent, arrival))
        if rnd.random() < 0.02:
            pairs.append((sent, arrival + rnd.randrange(20_000_000)))
        if rnd.random() < 0.02 and len(pairs) > 2:
            pairs[-1], pairs[-2] = pairs[-2], pairs[-1]
    causal, smoothed, recording = both(pairs)
    placed = {}
    for (sender, arrived), before, stamp, epoch in zip(
            pairs, causal, smoothed, recording.epochs, strict=True):
        assert (before == REFUSED) is (stamp == REFUSED)
        if before != REFUSED:
            assert stamp <= arrived
            placed.setdefault(epoch, []).append((sender, stamp))
    for frames in placed.values():
        frames.sort()
        for (sender, stamp), (later, after) in zip(frames, frames[1:], strict=False):
            assert stamp == after if sender == later else stamp <= after


def test_a_step_is_placed_where_it_happened():
    frames = simulate(replace(WIRED, rate_hz=100.0, events=((100.0, 'host_step', 50.0),)),
                      200.0, 1)
    causal, smoothed, recording = both(zip(
        frames.sender_time.tolist(), frames.arrival.tolist(), strict=True))
    assert worst_us(frames, causal) > 40_000.0
    assert worst_us(frames, smoothed) < 30.0
    step = int(np.argmax(np.diff(frames.arrival + frames.truth)))
    assert list(recording.epochs).index(1) == step + 1


def test_recordings_too_short_for_a_floor_have_the_stamps_of_the_node():
    pairs = [(k * 10_000_000, S + k * 10_000_000 + k * 7919 % 300_000) for k in range(300)]
    causal, smoothed, _ = both(pairs)
    assert smoothed == causal


# -- the command -------------------------------------------------------------------------------

def write(path, frames):
    with open(path, 'w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['body', 'sender_time', 'receive_time'])
        for sent, arrival in zip(
                frames.sender_time.tolist(), frames.arrival.tolist(), strict=True):
            writer.writerow(['wand', format_seconds(sent), format_seconds(arrival)])


def stamps_of(path):
    with open(path, newline='') as file:
        return [parse_seconds(row['stamp']) for row in csv.DictReader(file)]


def test_restamp_smooths_a_file(tmp_path, capsys):
    frames = simulate(replace(
        WIRED, rate_hz=60.0, loads=((0.0, 30.0, 2.0),)), 120.0, 1)
    write(tmp_path / 'in.csv', frames)
    paths = str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv')
    assert main([*paths, '--smooth', '--latency-ms', '2.5']) == 0
    smoothed = [stamp + 2_500_000 for stamp in stamps_of(tmp_path / 'out.csv')]
    assert worst_us(frames, smoothed) < 60.0
    assert 'tracking, smoothed: ' in capsys.readouterr().err
    assert main(list(paths)) == 0
    assert worst_us(frames, stamps_of(tmp_path / 'out.csv')) > 1000.0


@pytest.mark.parametrize('how', [(), ('--smooth',)])
def test_restamp_takes_ticks_out_of_the_sender_times(tmp_path, how):
    frames = simulate(replace(hard('ticks of 1 ms, 0.5 % loss'), rate_hz=100.3), 60.0, 1)
    write(tmp_path / 'in.csv', frames)
    assert main([str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv'), *how]) == 0
    # As they are, times in ticks of 1 ms are up to 1 ms early.
    assert worst_us(frames, stamps_of(tmp_path / 'out.csv'), 10.0, 99) < 100.0


@pytest.mark.parametrize(('given_', 'complaint'), [
    (['in.csv', 'out.csv', '--smooth', '--mode', 'arrival'], 'mode tracking'),
    (['-', 'out.csv', '--smooth'], 'reads the input twice'),
])
def test_input_that_cannot_be_smoothed_is_a_usage_error(given_, complaint, capsys):
    assert main(given_) == 64
    error = capsys.readouterr().err
    assert complaint in error and error.count('\n') == 1


def test_rows_that_are_refused_are_kept_and_reported_once(tmp_path, capsys):
    (tmp_path / 'in.csv').write_text(
        'sender_time,receive_time\n1.0,100.0\nnan,100.1\n1.2,100.2\n')
    assert main([str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv'), '--smooth']) == 0
    lines = (tmp_path / 'out.csv').read_text().splitlines()
    assert [line.split(',')[-2] != '' for line in lines[1:]] == [True, False, True]
    assert capsys.readouterr().err.count('line 3: sender_time') == 1
