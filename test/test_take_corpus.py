# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A corpus of takes, each with exactly what the report finds in it.

A row is one decision of the report, and stands beside the row in which it goes the other way.
"""

import numpy as np
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.events import events
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.columns import ROW
from optitrack_vrpn.takes.take import ClockRow, LeftOut, StateRow, TakeBody
from optitrack_vrpn.takes.trajectory import Trajectory
import pytest
from recording_kit import BEGIN_NS
from scipy.spatial.transform import Rotation
from take_kit import body, body_of, found_in, PosesInMemory, take_of

QUIET = {'noise_m': 0.0002}


def away(begin, end):
    return lambda t: (t < begin) | (t > end)


def changed(made, at_s, metres=0.0, degrees=0.0, gap_s=0.0, froze_s=0.0, back_s=np.inf):
    """Move and turn a body from a time on, unseen or frozen for a while before it."""
    path = made.trajectory
    times = (path.stamps_ns - path.stamps_ns[0]) / NS_PER_S
    late = (times > at_s) & (times < at_s + back_s)
    positions, quats = path.positions.copy(), path.quats_xyzw.copy()
    positions[late, 0] += metres
    quats[late] = (Rotation.from_quat(quats[late]) * Rotation.from_euler(
        'z', degrees, degrees=True)).as_quat()
    still = (times > at_s - froze_s) & (times <= at_s)
    if still.any():
        first = np.flatnonzero(still)[0]
        positions[still], quats[still] = positions[first], quats[first]
    seen = (times <= at_s - gap_s) | (times > at_s)
    return body_of(made.name, Trajectory(path.stamps_ns[seen], positions[seen], quats[seen]))


def with_resets(made, *at_s):
    """Report resets, half a frame after these times."""
    rows = [StateRow(BEGIN_NS, 'TRACKED', '', 0)] + [
        StateRow(BEGIN_NS + round((at + 0.005) * 1e9), 'TRACKED', '', number)
        for number, at in enumerate(at_s, 1)]
    return body_of(made.name, made.trajectory, rows)


def arriving(made, late_s, share=1.0):
    """Let a share of the poses arrive later than their stamps; the others in 3 ms."""
    path = made.trajectory
    count = len(path)
    late = np.where(np.arange(count) < share * count, late_s, 0.003)
    return TakeBody(made.name,
                    PosesInMemory(path, path.stamps_ns + np.round(late * 1e9).astype(int)))


def received(made, late_s):
    """Stamp a third of the poses late by this time on average, and those after them not before."""
    path, chance = made.trajectory, np.random.default_rng(3)
    late = np.where(chance.random(len(path)) < 0.35, chance.exponential(late_s, len(path)), 0.0)
    stamps = np.maximum.accumulate(path.stamps_ns + np.round(1e9 * late).astype(np.int64))
    return body_of(made.name, Trajectory(
        stamps + 1000 * np.arange(len(path)), path.positions, path.quats_xyzw))


def at_place(made, other, millimetres, from_s=0.0):
    """Put a body beside another from a time on."""
    path, place = made.trajectory, other.trajectory
    near = path.stamps_ns >= BEGIN_NS + from_s * 1e9
    path.positions[near] = place.positions[near] + (1e-3 * millimetres, 0.0, 0.0)
    return body_of(made.name, path)


def circling(name='wand', rate=240, turn=0.0, radius=0.2, seconds=10.0):
    """Move a body on a circle at 1.2 m/s, and turn it at so many rad/s."""
    times = np.arange(0.0, seconds, 1.0 / rate)
    angles = 6.0 * times
    positions = radius * np.column_stack((np.cos(angles), np.sin(angles), 0.01 * np.cos(times)))
    quats = Rotation.from_rotvec(np.column_stack((0 * times, 0 * times, turn * times))).as_quat()
    return body_of(name, Trajectory(
        BEGIN_NS + np.round(times * 1e9).astype(np.int64), positions, quats))


def clocks(*rows):
    return {'clock': [ClockRow(BEGIN_NS + round(at * 1e9), epoch, 1.0, 1.0, uncertain_us)
                      for at, epoch, uncertain_us in rows]}


def swarm(count, changed_ones, change):
    return [change(body(f'b{n}', **QUIET)) if n < changed_ones else body(f'b{n}', **QUIET)
            for n in range(count)]


def hidden(made):
    return body(made.name, **QUIET, keep=away(4.0, 5.0))


def dropped(made):
    return body(made.name, **QUIET, keep=away(4.0, 4.2))


def flipped(made):
    return changed(made, 5.0, degrees=180.0)


CLOCK_STEADY = clocks(*((n, 0, 100.0) for n in range(10)))
NOISY = clocks(*((n, 0, 2400.0 if n else 45_000.0) for n in range(10)))
#: By name: takes, or bodies and what else the take has, and the keys of all findings in order.
CORPUS = {
    'good': (lambda: take_of(body(**QUIET), **CLOCK_STEADY), ['no fault']),
    'a good body in motion': (lambda: take_of(circling()), ['no fault']),
    # -- gaps, and what a body did in them --
    'two frames lost': (lambda: take_of(body(**QUIET, keep=away(5.001, 5.012))), ['short gaps']),
    'one frame lost': (lambda: take_of(body(**QUIET, keep=away(5.001, 5.007))), ['no fault']),
    'half a second away': (lambda: take_of(body(**QUIET, keep=away(5.0, 5.5))), ['gaps']),
    'away for less': (lambda: take_of(body(**QUIET, keep=away(5.0, 5.2), seconds=60.0)),
                      ['short gaps']),
    'flipped in a short gap': (lambda: take_of(changed(
        body(seconds=60.0, **QUIET), 5.0, degrees=179.5, gap_s=0.04)), ['jumped', 'short gaps']),
    'turned a little in it': (lambda: take_of(changed(
        body(seconds=60.0, **QUIET), 5.0, degrees=20.0, gap_s=0.04)), ['short gaps']),
    'moved 2 m in 0.3 s unseen': (lambda: take_of(changed(
        body(seconds=60.0, **QUIET), 5.0, metres=2.0, gap_s=0.3)), ['jumped', 'short gaps']),
    'moved 1 m in 0.3 s unseen': (lambda: take_of(changed(
        body(seconds=60.0, **QUIET), 5.0, metres=1.0, gap_s=0.3)), ['short gaps']),
    'carried away unseen for 3 s': (lambda: take_of(changed(
        body(seconds=60.0, **QUIET), 20.0, metres=5.0, degrees=90.0, gap_s=3.0)), ['gaps']),
    'a fast body flips unseen': (lambda: take_of(changed(
        circling(seconds=60.0, turn=20.0), 5.0, degrees=-59.0, gap_s=0.2)), ['short gaps']),
    'a slow one cannot': (lambda: take_of(changed(
        circling(seconds=60.0, turn=1.0), 5.0, degrees=170.0, gap_s=0.2)),
        ['jumped', 'short gaps']),
    # -- jumps and frozen data --
    'a step of 0.5 m': (lambda: take_of(changed(body(**QUIET), 5.0, metres=0.5)), ['jumped']),
    'a step of 4 cm': (lambda: take_of(changed(body(**QUIET), 5.0, metres=0.04)), ['no fault']),
    'a step of 4 cm in 1 ms': (lambda: take_of(changed(
        body(rate=1000, **QUIET), 5.0, metres=0.04)), ['no fault']),
    'a flip in one frame': (lambda: take_of(flipped(body(**QUIET))), ['jumped']),
    'one wrong pose before a gap': (lambda: take_of(changed(
        body(**QUIET, keep=away(5.001, 5.03), seconds=60.0), 4.997, metres=0.5, back_s=0.004)),
        ['jumped', 'short gaps']),
    'frozen for 0.2 s': (lambda: take_of(changed(body(**QUIET), 5.0, froze_s=0.2)), ['froze']),
    'ten equal poses': (lambda: take_of(changed(body(**QUIET), 5.0, froze_s=10.5 / 240)),
                        ['froze']),
    'nine equal poses': (lambda: take_of(changed(body(**QUIET), 5.0, froze_s=9.5 / 240)),
                         ['no fault']),
    'moved 2 m while frozen for 0.2 s': (lambda: take_of(changed(
        body(**QUIET), 5.0, metres=2.0, froze_s=0.2)), ['jumped', 'froze']),
    'moved 0.5 m while frozen for 0.2 s': (lambda: take_of(changed(
        body(**QUIET), 5.0, metres=0.5, froze_s=0.2)), ['froze']),
    # -- resets of the node --
    'a reset without a step': (lambda: take_of(with_resets(body(**QUIET), 5.0)), ['jumped']),
    # -- one cause or several --
    '8 of 10 away at once': (lambda: take_of(*swarm(10, 8, hidden)), ['interrupted by all']),
    '7 of 10 away at once': (lambda: take_of(*swarm(10, 7, hidden)), ['gaps']),
    '8 of 10 for 0.2 s': (lambda: take_of(*swarm(10, 8, dropped)), ['paused by all']),
    '8 of 10 flip at once': (lambda: take_of(*swarm(10, 8, flipped)), ['changed by all']),
    'the only body is away': (lambda: take_of(hidden(body())), ['gaps']),
    'a restart explains the gap of one body of one': (lambda: take_of(
        hidden(body()), **clocks((0, 0, 100.0), (5, 1, 100.0), (9, 1, 100.0))),
        ['server restarted']),
    'a restart 6 s after it does not': (lambda: take_of(
        body(seconds=20.0, **QUIET, keep=away(4.0, 5.0)),
        **clocks((0, 0, 100.0), (11.5, 1, 100.0), (12, 1, 100.0))), ['gaps', 'clock restarted']),
    # -- stamps and arrivals --
    'late': (lambda: take_of(arriving(body(**QUIET), 0.060)), ['late']),
    'not late': (lambda: take_of(arriving(body(**QUIET), 0.045)), ['no fault']),
    'jitter': (lambda: take_of(arriving(body(**QUIET), 0.030, 0.02)), ['jitter']),
    'less jitter': (lambda: take_of(arriving(body(**QUIET), 0.030, 0.005)), ['no fault']),
    'ahead of the arrivals': (lambda: take_of(arriving(body(**QUIET), -0.020)), ['ahead']),
    'ahead for a tenth of the take': (lambda: take_of(arriving(body(**QUIET), -0.5, 0.1)),
                                      ['ahead']),
    'ahead by half a minute': (lambda: take_of(arriving(body(**QUIET), -30.0)), ['ahead']),
    'ahead by 1 ms': (lambda: take_of(arriving(body(**QUIET), -0.001)), ['no fault']),
    'an hour ahead': (lambda: take_of(arriving(body(**QUIET), -3600.0)), ['other clock']),
    # -- stamps of arrivals --
    'stamped by arrival': (lambda: take_of(received(circling(rate=100, radius=1.2), 0.02)),
                           ['short gaps', 'seldom seen', 'bunched']),
    'stamped 1 ms late': (lambda: take_of(received(circling(rate=100), 0.001)), ['no fault']),
    # -- two bodies in one place --
    'solved twice': (lambda: take_of(first := body('a', **QUIET), at_place(
        body('b', **QUIET), first, 0.5)), ['in one place']),
    '3 mm apart': (lambda: take_of(first := body('a', **QUIET), at_place(
        body('b', **QUIET), first, 3.0)), ['no fault']),
    'solved twice for the last 3 s': (lambda: take_of(first := circling('a'), at_place(
        circling('b', radius=0.4), first, 0.0, 7.0)), ['jumped', 'in one place']),
    'solved twice for 1 s': (lambda: take_of(first := circling('a'), at_place(
        circling('b', radius=0.4), first, 0.0, 9.0)), ['jumped']),
    # -- the sender's clock --
    'uncertain stamps': (lambda: take_of(body(**QUIET), **NOISY), ['uncertain stamps']),
    'uncertain at the begin': (lambda: take_of(body(**QUIET), **clocks(
        (0, 0, 45_000.0), *((n, 0, 100.0) for n in range(1, 10)))), ['no fault']),
    # -- noise at rest --
    'noise': (lambda: take_of(body(noise_m=0.0008 / 2)), ['noisy']),
    'drift': (lambda: take_of(body(seconds=60.0, noise_m=0.0001,
                                   move=lambda t: 0.002 * t / 60)), ['drifted']),
    # -- what is not in the take --
    'left out': (lambda: take_of(body(**QUIET), left_out={
        f'/tf:b{n}': LeftOut(436, 3183, 'repeated') for n in range(5)}), ['left out']),
    'left out for two reasons': (lambda: take_of(body(**QUIET), left_out={
        '/a': LeftOut(1, 9, 'repeated'), '/b': LeftOut(1, 9, 'not finite')}),
        ['left out', 'left out']),
    'never seen': (lambda: take_of(body(**QUIET), unseen=['drone']), ['never seen']),
    'nothing': (lambda: take_of(), ['nothing recorded']),
    'silent for 3 s at the end': (lambda: take_of(body(**QUIET), silent_s=(0.0, 3.1)),
                                  ['silent at an end']),
    'silent for 2 s at the end': (lambda: take_of(body(**QUIET), silent_s=(0.0, 2.0)),
                                  ['no fault']),
}


@pytest.mark.parametrize('name', CORPUS)
def test_a_take_has_exactly_these_findings(name):
    make, expected = CORPUS[name]
    assert [one.code for one in found_in(make())] == expected


def test_findings_name_how_far_a_body_moved_and_how_many_poses_of_all():
    jumped, gaps = found_in(CORPUS['flipped in a short gap'][0]())
    assert 'up to 179.5 degrees in 46 ms' in jumped.text and '179.5 degrees' in gaps.text
    (moved,) = found_in(CORPUS['carried away unseen for 3 s'][0]())
    assert '5.00 m in 3.00 s and 90.0 degrees in 3.00 s' in moved.text
    (left,) = found_in(CORPUS['left out'][0]())
    assert left.text.startswith('436 poses of 3183 on /tf:b0 (and of 4 other topics)')
    (placed,) = found_in(CORPUS['solved twice'][0]())
    assert placed.bodies == ('a', 'b') and '0.5 mm apart' in placed.text
    (ahead,) = found_in(CORPUS['ahead by half a minute'][0]())
    assert 'arrive up to 30.00 s before their stamp' in ahead.text
    (late,) = found_in(take_of(*(arriving(body(n, **QUIET), 0.080) for n in 'ab')))
    assert late.bodies == ('a', 'b') and '80 ms' in late.text
    (other,) = found_in(CORPUS['an hour ahead'][0]())
    assert '3600 s' in other.text
    (uncertain,) = found_in(CORPUS['uncertain stamps'][0]())
    assert 'uncertain by 2.4 ms, at times by 45.0 ms' in uncertain.text    # as the chart shows


def test_resets_are_placed_at_the_largest_step_near_them_and_counted_once():
    made = changed(changed(body(seconds=20.0, **QUIET), 5.0, metres=0.04), 12.0, metres=0.04)
    for reported, expected in (
            ((5.2,), [5.0]), ((5.2, 5.3), [5.0]), ((5.2, 12.3), [5.0, 12.0]), ((9.0,), [None])):
        found = body_figures(take := take_of(with_resets(made, *reported)), take.bodies['wand'])
        at_s = [(at - BEGIN_NS) / NS_PER_S for at in found.breaks.resets_ns]
        assert len(at_s) == len(expected)
        for one, wanted in zip(at_s, expected):
            assert one == pytest.approx(wanted or 9.0, abs=0.006 if wanted else 0.5)


def test_a_reset_beside_a_jump_is_no_second_event():
    made = changed(body(seconds=20.0, **QUIET), 5.0, metres=0.5)
    for reported, kinds in (((5.0,), ['jump']), ((9.0,), ['jump', 'reset'])):
        take = take_of(with_resets(made, *reported))
        joined = events(take, [body_figures(take, take.bodies['wand'])])
        assert [event.kind for event in joined] == kinds


def test_an_odd_log_time_is_named_and_counts_neither_as_latency_nor_as_silence():
    path = body(**QUIET).trajectory
    arrivals = path.stamps_ns + 3_000_000
    arrivals[100:200], arrivals[300:310] = 0, -1    # 1970, and beyond 2262
    take = take_of(TakeBody('wand', PosesInMemory(path, arrivals)), silent_s=(0.0, 1.7e9))
    (one,) = found_in(take)
    assert one.code == 'odd log times' and 'of 110 of 2400 poses' in one.text
    f = body_figures(take, take.bodies['wand'])
    assert (f.latency_ms, f.jitter_ms, f.ahead_ms) == (3.0, 0.0, 0.0)


def test_events_of_all_bodies_begin_within_two_frames_and_a_half():
    def at(frames):
        return [body(f'b{n}', **QUIET, keep=away(4.0005 + n * frames / 240, 5.0))
                for n in range(2)]

    for frames, causes in ((2, ['interrupted by all']), (3, ['', ''])):
        take = take_of(*at(frames))
        joined = events(take, [body_figures(take, one) for one in take.bodies.values()])
        assert [event.cause for event in joined] == causes


def test_the_table_of_a_body_is_what_was_put_in():
    made = body()
    assert made.table().dtype == ROW and len(made.table()) == 2400
