# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the bridge sends: rules of the gate, reset counter, and clocks."""

import math
import random

from hypothesis import given, strategies as st
from optitrack_vrpn.core.doubt import Doubt
from optitrack_vrpn.guests.autopilot.exchanges import PX4_ANSWERS, REQUEST_PERIOD_NS, Timesync
from optitrack_vrpn.guests.autopilot.gate import Gate, MAX_AHEAD_NS, Withheld
from optitrack_vrpn.guests.autopilot.messages import VisionSample
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan, PROFILES
import pytest

pytest.importorskip('pymavlink')

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS
AGE = 2 * MS


def gate(rate_hz=50.0, min_interval_ms=10.5, state='TRACKED', **status):
    made = Gate(plan(BridgeSettings(body='cf1', max_age_ms=100.0))._replace(
        period_ns=round(1e9 / rate_hz), min_interval_ns=round(min_interval_ms * MS)))
    if state is not None:
        made.status(state, 0, **status)
    return made


def pose(stamp_ns, **changes):
    return VisionSample(stamp_ns, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))._replace(**changes)


def run(made, stamps):
    """Offer samples on time; give the stamps of those that are sent."""
    return [stamp for stamp in stamps if made.offer(pose(stamp), stamp + AGE) is None]


def frames(rate_hz, seconds, begin=START):
    return [begin + round(i * 1e9 / rate_hz) for i in range(int(seconds * rate_hz))]


@pytest.mark.parametrize('camera_hz', [50, 60, 100, 120, 180, 240, 360])
@pytest.mark.parametrize('autopilot', PROFILES)
def test_the_rate_is_the_wanted_one_and_no_two_samples_are_too_close(camera_hz, autopilot):
    profile = PROFILES[autopilot]
    made = gate(profile.rate_hz, profile.min_interval_ns / MS)
    sent = run(made, frames(camera_hz, 20))
    spaces = [later - earlier for earlier, later in zip(sent, sent[1:])]
    assert min(spaces) >= profile.min_interval_ns
    # Where frames do not fit the least interval, every n-th frame goes out.
    frame = 1000 / camera_hz
    possible = 1000 / (frame * math.ceil(profile.min_interval_ns / MS / frame - 1e-9))
    wanted = min(profile.rate_hz, possible)
    assert len(sent) / 20 == pytest.approx(wanted, rel=0.2)
    assert len(sent) / 20 <= profile.rate_hz * 1.01
    assert max(spaces) < 100 * MS


def test_jitter_of_the_stamps_leaves_the_rate_alone():
    generator = random.Random(1)
    made = gate(40.0, 21.0)
    sent = run(made, [stamp + generator.randint(-200_000, 200_000) for stamp in frames(240, 20)])
    assert len(sent) == pytest.approx(800, abs=8)


def test_what_is_repeated_old_early_or_no_pose_is_withheld():
    made = gate()
    assert made.offer(pose(START), START) is None
    assert made.offer(pose(START), START + MS) is Withheld.REPEATED
    assert made.offer(pose(START - MS), START + MS) is Withheld.BACKWARDS
    late = START + 500 * MS
    assert made.offer(pose(late), late + 101 * MS) is Withheld.OLD
    assert made.offer(pose(late), late + 100 * MS) is None
    ahead = late + 500 * MS
    # An estimator would fuse it at a wrong time; synchronised clocks differ by less.
    assert made.offer(pose(ahead), ahead - 21 * MS) is Withheld.FUTURE
    assert made.offer(pose(ahead), ahead - 20 * MS) is None
    bad = ahead + 500 * MS
    for changes in ({'position': (math.nan, 0.0, 0.0)}, {'quat_xyzw': (0.0, 0.0, 0.0, 1.02)},
                    {'quat_xyzw': (math.inf, 0.0, 0.0, 1.0)}, {'quat_xyzw': (0.0,) * 4}):
        assert made.offer(pose(bad, **changes), bad) is Withheld.INVALID
    assert made.offer(pose(bad), bad) is None


@given(st.lists(st.tuples(st.integers(-300, 300), st.integers(-50, 250), st.booleans()),
                max_size=200))
def test_whatever_comes_what_is_sent_is_fresh_tracked_and_in_order(steps):
    made = gate()
    stamp, last, counter = START, 0, 0
    for step_ms, age_ms, tracked in steps:
        stamp += step_ms * MS
        made.status('TRACKED' if tracked else 'STALE', 0)
        if made.offer(pose(stamp), stamp + age_ms * MS) is None:
            assert tracked
            assert -MAX_AHEAD_NS <= age_ms * MS <= 100 * MS
            assert 0 <= made.reset_counter <= 255
            # Backwards only after the clock was set back, which counts as a reset.
            assert stamp > last or made.reset_counter != counter
            last, counter = stamp, made.reset_counter


def test_the_reset_counter_follows_gaps_and_resets_once_each():
    made = gate()
    run(made, frames(100, 1))
    assert made.reset_counter == 0
    run(made, frames(100, 1, START + 1150 * MS))
    assert made.reset_counter == 0, 'a gap of less than 0.2 s is none'
    run(made, frames(100, 1, START + 2400 * MS))
    assert made.reset_counter == 1, 'a gap'
    made.status('JUMPED', 0)
    run(made, frames(100, 1, START + 3400 * MS))
    made.status('TRACKED', 1)
    run(made, frames(100, 1, START + 5400 * MS))
    assert made.reset_counter == 2, 'a gap and the reset that ends it are one'
    made.status('TRACKED', 2)
    run(made, frames(100, 1, START + 6400 * MS))
    assert made.reset_counter == 3, 'a reset without a gap'
    made.interrupt()
    run(made, frames(100, 1, START + 7400 * MS))
    assert made.reset_counter == 4, 'the bridge was inactive meanwhile'
    made.status('TRACKED', 0)
    run(made, frames(100, 1, START + 8400 * MS))
    assert made.reset_counter == 5, 'a node that has started again counts from zero'


def test_the_gate_tells_an_attitude_that_the_user_accepts_from_one_that_returns():
    for resets, lost in ((1, False), (2, True)):
        made = gate()
        made.status('TRACKED', 1, Doubt(1, 160.0))
        made.arm(True)
        made.status('TRACKED', resets, Doubt(1, 0.0))
        assert bool(made.doubt) is lost


def test_the_advice_names_what_ends_the_doubt():
    """What time has accepted does not end by motion, a difference from the last sample does."""
    made = gate()
    made.arm(True)
    made.status('TRACKED', 1, Doubt(1, 104.0))
    assert 'accept_pose' in made.doubt_advice and 'disarm' in made.doubt_advice
    assert 'wait' not in made.doubt_advice and 'turn of 104 degrees' in made.doubt
    again = Gate(plan(BridgeSettings(body='cf1')), before=(0.0, 0.0, 1.0, 0.0))
    again.arm(True)
    assert again.doubt and 'wait until it returns' in again.doubt_advice
    assert 'accept_pose' not in again.doubt_advice


@pytest.mark.parametrize('lost, resets', [(100, 1), (15, 0)])
def test_a_link_that_fails_for_long_counts_as_one_gap(lost, resets):
    made = gate()
    sent = 0
    for number, stamp in enumerate(frames(100, 4)):
        made.written(sent, stamp)
        if made.offer(pose(stamp), stamp + AGE) is None and not 100 <= number < 100 + lost:
            sent = stamp
    assert made.reset_counter == resets


def test_samples_that_come_before_the_link_has_written_the_first_count_one_reset():
    """As after mocap control's START: the samples of the transition arrive together."""
    made = gate()
    frames_before = list(frames(100, 1))
    run(made, frames_before)
    made.interrupt()
    for stamp in frames(50, 0.1, frames_before[-1] + 140 * MS):
        made.written(frames_before[-1], stamp)    # the last before the interruption
        made.offer(pose(stamp), stamp + AGE)
    assert made.reset_counter == 1


def test_a_clock_set_back_is_followed_after_some_samples_and_counts_as_a_reset():
    made = gate()
    run(made, frames(100, 1))
    sent = run(made, frames(100, 1, START - 3_600_000 * MS))
    assert made.reset_counter == 1
    assert made.withheld[Withheld.BACKWARDS] == 9
    assert 40 <= len(sent) <= 50


def test_a_slower_second_path_is_no_clock_that_was_set_back():
    """The newest stamp is not in the future, so that the clock still has it."""
    made = gate()
    assert run(made, [START])
    for i in range(1, 60):
        assert made.offer(pose(START - i * MS), START + AGE) is Withheld.BACKWARDS
    assert made.reset_counter == 0


def test_an_interruption_before_the_first_pose_leaves_the_first_counter():
    """The counter after it may be the one in use, which the first one is not."""
    made = gate()
    made.reset_counter = 7
    made.interrupt()
    assert run(made, [START]) and made.reset_counter == 7
    made.interrupt()
    assert run(made, [START + 20 * MS]) and made.reset_counter == 8


# -- TIMESYNC -------------------------------------------------------------------------------------

class Remote:
    """An autopilot's clock behind a link with delays in both directions."""

    def __init__(self, offset_ns, ppm=0.0):
        self.offset_ns, self.ppm = offset_ns, ppm

    def at(self, host_ns):
        return host_ns + self.offset_ns + round((host_ns - START) * self.ppm * 1e-6)

    def round(self, timesync, at_ns, there_ms, back_ms):
        asked = timesync.request(at_ns, at_ns - START + 10**12)
        assert asked.tc1 == 0
        arrived = at_ns + round(there_ms * MS)
        timesync.receive(self.at(arrived), asked.ts1, arrived + round(back_ms * MS))


def test_the_offset_is_found_within_half_the_least_round_trip():
    timesync, remote = Timesync(), Remote(-1_600_000_000 * 1000 * MS, ppm=30)
    generator = random.Random(2)
    for i in range(60):
        remote.round(timesync, START + i * REQUEST_PERIOD_NS, generator.uniform(0.3, 30),
                     generator.uniform(0.3, 30))
    now = START + 60 * REQUEST_PERIOD_NS
    error = timesync.best.offset_ns - (remote.at(now) - now)
    assert abs(error) <= timesync.best.round_trip_ns / 2 + 30e-6 * 10e9
    assert timesync.rounds == 60


def test_requests_are_answered_in_the_clock_of_the_stamps():
    answer = Timesync().receive(0, 4711, START)
    assert (answer.get_type(), answer.tc1, answer.ts1) == ('TIMESYNC', START, 4711)


def test_answers_to_others_are_not_used():
    timesync = Timesync()
    timesync.request(START, 10**12)
    assert timesync.receive(5, START + 1, START + MS) is None
    assert timesync.best is None


def test_answers_in_another_order_than_the_requests_are_no_reboot():
    timesync, remote = Timesync(), Remote(10**12)
    asked = [timesync.request(START + i * REQUEST_PERIOD_NS, i * REQUEST_PERIOD_NS).ts1
             for i in range(8)]
    for ts1 in (asked[7], asked[0], asked[3], asked[7]):
        timesync.receive(remote.at(ts1 + MS), ts1, asked[7] + 2 * MS)
    assert (timesync.rounds, timesync.reboots) == (1, 0)
    remote.round(timesync, asked[7] + REQUEST_PERIOD_NS, 1, 1)
    assert (timesync.rounds, timesync.reboots) == (2, 0)


def test_a_reboot_of_the_autopilot_begins_anew():
    timesync, remote = Timesync(), Remote(-START + 10**12)
    for i in range(10):
        remote.round(timesync, START + i * REQUEST_PERIOD_NS, 1, 1)
        timesync.receive(0, 1, START)
    assert (timesync.rounds, timesync.answered) == (10, 10)
    later = START + 20 * REQUEST_PERIOD_NS
    rebooted = Remote(-later)
    rebooted.round(timesync, later, 1, 1)
    assert (timesync.rounds, timesync.answered) == (1, 0)
    assert timesync.best.offset_ns == -later


@pytest.mark.parametrize(('step_ms', 'rounds'), [(90, 11), (150, 1), (-90, 11), (-150, 1)])
def test_a_step_at_which_px4_resets_its_filter_begins_anew(step_ms, rounds):
    timesync, remote = Timesync(), Remote(10**12)
    for i in range(11):
        remote.offset_ns += step_ms * MS * (i == 10)
        remote.round(timesync, START + i * REQUEST_PERIOD_NS, 1, 1)
    assert (timesync.rounds, timesync.reboots) == (rounds, 0)


@pytest.mark.parametrize(('back_ms', 'reboots'), [(900, 0), (1100, 1)])
def test_a_clock_that_falls_by_more_than_a_second_is_a_reboot(back_ms, reboots):
    timesync, remote = Timesync(), Remote(10**12)
    remote.round(timesync, START, 1, 1)
    remote.offset_ns -= back_ms * MS + REQUEST_PERIOD_NS
    remote.round(timesync, START + REQUEST_PERIOD_NS, 1, 1)
    assert timesync.reboots == reboots


def test_an_answer_that_arrives_before_its_request_discards_what_is_known():
    """This host's clock was set back meanwhile: all offsets refer to another clock."""
    timesync, remote = Timesync(), Remote(10**12)
    remote.round(timesync, START, 1, 1)
    remote.round(timesync, START + REQUEST_PERIOD_NS, 1, -3_600_000)
    assert timesync.best is None and timesync.rounds == 0


@pytest.mark.parametrize(('delay_ms', 'converges'), [(1.0, True), (6.0, False)])
def test_px4_counts_as_converged_after_500_answers_with_short_round_trips(delay_ms, converges):
    timesync, remote = Timesync(), Remote(0)
    remote.round(timesync, START, delay_ms, delay_ms)
    for i in range(PX4_ANSWERS):
        assert not timesync.converged('px4')
        timesync.receive(0, 1 + i, START)
    assert timesync.converged('px4') is converges
    assert timesync.converged('ardupilot'), 'it needs no answers'
