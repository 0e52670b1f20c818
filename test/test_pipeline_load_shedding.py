# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
An overloaded computer skips frames evenly; one that keeps up skips none.

The computer is simulated: a queue that fills at the cameras' rate, and a time that each pose
takes, more if it goes out than if it does not.
"""

from collections import Counter
from dataclasses import replace
import statistics

from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.core.stats import Percentiles
from optitrack_vrpn.node.report import frames_entry
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.load_shedding import (
    CALM_NS, FRESH_NS, HICCUP_NS, LoadShedder, PATIENCE_NS, PROMPT_NS, STANDING_NS)
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.telling.facts import facts_of_pipeline, StreamFacts
from optitrack_vrpn.telling.rules import of_entry
from pipeline_kit import HOST, MS, pose_report, ProblemLog, S
import pytest

RATE = 200
BODIES = 20
IN_A_DATAGRAM = 8
LITTLE_NS = 10_000
CONFIG = PipelineConfig(
    body=BodyConfig(acquire_frames=1), stamps=StampConfig(mode='arrival'), max_age_s=0.5)


def frame_of(number, bodies=BODIES):
    """Make the datagrams of a frame: bodies that move a little."""
    reports = [
        pose_report(
            f'body {i}', 5 * S + number * S // RATE, (i + 1e-4 * number, 1.0, 1e-6 * number))
        for i in range(bodies)]
    return [reports[i:i + IN_A_DATAGRAM] for i in range(0, bodies, IN_A_DATAGRAM)]


def run(
        pipeline, seconds, load, begin=0, until_s=None, stand_s=0.0, hiccup=None, ticks=False,
        log=None):
    """
    Let a computer work off frames whose publishing takes ``load`` of the time there is.

    :param begin: number of the first frame.
    :param until_s: when the load is over.
    :param stand_s: for how long the computer stands still at first.
    :param hiccup: (every so many s, so many s): it stands still now and then.
    :param log: looks at the pipeline now and then.
    :param ticks: call ``tick`` each 0.05 s, as the node's timer does each 0.1 s.
    :returns: (sample, time of publication less time of arrival) of all that went out.
    """
    pose_ns = round(load * S / RATE / BODIES)
    began = now = begin * S // RATE
    now += round(stand_s * S)
    out = []
    for number in range(begin, begin + round(seconds * RATE)):
        arrival = number * S // RATE
        if until_s is not None and arrival - began > until_s * S:
            pose_ns = LITTLE_NS
        if hiccup and number % round(hiccup[0] * RATE) == 0:
            now = max(now, arrival) + round(hiccup[1] * S)
        if ticks and number % (RATE // 20) == 0:
            pipeline.tick(max(now, arrival))
        if log is not None:
            log.look(max(now, arrival))
        for datagram in frame_of(number):
            now = max(now, arrival)
            samples = pipeline.process(datagram, arrival, HOST, now).samples
            now += LITTLE_NS * (len(datagram) - len(samples)) + pose_ns * len(samples)
            out += [(sample, now - arrival) for sample in samples]
    return out


def said(log, word):
    return [line for line in log.lines if word in line.text]


def shed(pipeline):
    return pipeline.dropped['shed']


@pytest.mark.parametrize('load', [1.2, 2.0, 6.0])
def test_an_overloaded_computer_publishes_fresh_poses_evenly(load):
    pipeline = Pipeline(CONFIG)
    log = ProblemLog(pipeline)
    out = run(pipeline, 12.0, load, log=log)
    settled = [(sample, age) for sample, age in out if sample.stamp_ns > HOST + 4 * S]
    ages = sorted(age for _, age in settled)
    frame_ns = round(load * S / RATE)
    assert ages[-1] < FRESH_NS + 2 * frame_ns
    each = Counter(sample.channel.names.motive for sample, _ in settled)
    assert len(each) == BODIES and max(each.values()) - min(each.values()) <= 1
    # It does nearly what it can: less what leaving out takes.
    able = 8 * RATE * BODIES / load
    assert len(settled) > 0.7 * able
    # No body's poses come in bunches: their gaps are alike.
    stamps = [sample.stamp_ns for sample, _ in settled
              if sample.channel.names.motive == 'body 19']
    gaps = [(b - a) * RATE / S for a, b in zip(stamps, stamps[1:])]
    assert max(gaps) <= 2 * load + FRESH_NS * RATE / S + 1
    assert shed(pipeline) + len(out) + pipeline.dropped['too_old'] == 12 * RATE * BODIES
    assert all(channel.gate.state is State.TRACKED for channel in pipeline.bodies)
    (notice,) = said(log, 'cannot keep up')
    assert notice.severity == WARN and 'load_shedding' in notice.text


def test_a_tenth_of_the_frames_is_published_under_any_load():
    pipeline = Pipeline(CONFIG)
    published = [
        number for number in range(10 * RATE) for datagram in frame_of(number, IN_A_DATAGRAM)
        if pipeline.process(datagram, number * S // RATE, HOST,
                            number * S // RATE + STANDING_NS + MS).samples]
    apart = [b - a for a, b in zip(published, published[1:])]
    assert set(apart) == {1, 10} and apart[-50:] == [10] * 50


def test_without_shedding_poses_are_published_until_too_old():
    pipeline = Pipeline(replace(CONFIG, keep_up=False))
    log = ProblemLog(pipeline)
    out = run(pipeline, 12.0, 2.0, log=log)
    ages = [age for sample, age in out if sample.stamp_ns > HOST + 4 * S]
    assert statistics.median(ages) > 400 * MS
    assert shed(pipeline) == 0 and pipeline.dropped['too_old'] > 1000
    assert not said(log, 'keep')
    pipeline.apply(CONFIG)
    out = run(pipeline, 8.0, 2.0, begin=12 * RATE, log=log)
    assert statistics.median(age for _, age in out) < 30 * MS
    assert len(said(log, 'cannot keep up')) == 1


@pytest.mark.parametrize('stand_s', [0.2, 0.45])
def test_a_queue_after_a_halt_is_published_whole(stand_s):
    pipeline = Pipeline(CONFIG)
    log = ProblemLog(pipeline)
    run(pipeline, 3.0, 0.5, log=log)
    out = run(pipeline, 3.0, 0.5, begin=3 * RATE, stand_s=stand_s, log=log)
    assert len(out) == 3 * RATE * BODIES
    assert shed(pipeline) == 0 and not said(log, 'keep')


@pytest.mark.parametrize('waited_ns, stands', [
    (STANDING_NS, False), (STANDING_NS + MS, True)])
def test_a_queue_stands_when_the_least_wait_is_long(waited_ns, stands):
    pipeline = Pipeline(CONFIG)
    for number in range(2 * RATE):
        arrival = number * S // RATE
        pipeline.process(frame_of(number, 1)[0], arrival, HOST, arrival + waited_ns)
        if number == PATIENCE_NS * RATE // S - 1:
            assert not pipeline.shedder.shedding
    assert pipeline.shedder.shedding is stands


def test_late_poses_that_are_few_and_far_between_are_no_queue():
    pipeline = Pipeline(replace(CONFIG, body=replace(CONFIG.body, stale_min_s=2.0)))
    for number in range(0, 4000, RATE // 3):
        arrival = number * S // RATE
        assert pipeline.process(frame_of(number, 1)[0], arrival, HOST, arrival + 300 * MS).samples
    assert shed(pipeline) == 0


def test_shedding_ends_after_the_load_with_a_report():
    pipeline = Pipeline(CONFIG)
    log = ProblemLog(pipeline)
    run(pipeline, 8.0 + CALM_NS / S, 2.0, until_s=6.0, log=log)
    assert not pipeline.shedder.shedding
    lost = shed(pipeline)
    texts = [notice.text for notice in said(log, 'keep')]
    assert len(texts) == 2 and f'keeps up again; {lost} poses' in texts[1]
    # From then on it takes as long as ever until the next frame is left out.
    begin = round((8.0 + CALM_NS / S) * RATE)
    run(pipeline, 0.4, 2.0, begin=begin)
    assert shed(pipeline) == lost


def test_hiccups_cost_nothing_and_let_it_end():
    pipeline = Pipeline(CONFIG)
    run(pipeline, 4.0, 2.0)
    assert pipeline.shedder.shedding
    run(pipeline, 3.0, 0.3, begin=4 * RATE)
    lost = shed(pipeline)
    run(pipeline, CALM_NS / S + 3.0, 0.3, begin=7 * RATE, hiccup=(2.0, 0.03))
    assert shed(pipeline) == lost
    assert not pipeline.shedder.shedding


def test_load_that_returns_during_shedding_is_shed():
    pipeline = Pipeline(CONFIG)
    run(pipeline, 4.0, 2.0, ticks=True)
    run(pipeline, 3.0, 0.3, begin=4 * RATE, ticks=True)
    assert pipeline.shedder.shedding
    too_old = pipeline.dropped['too_old']
    out = run(pipeline, 4.0, 2.0, begin=7 * RATE, ticks=True)
    assert max(age for _, age in out) < 150 * MS
    assert pipeline.dropped['too_old'] == too_old


def test_shedding_ends_when_nothing_arrives():
    pipeline = Pipeline(CONFIG)
    log = ProblemLog(pipeline)
    run(pipeline, 4.0, 2.0, log=log)
    assert pipeline.shedder.shedding
    for tick in range(0, CALM_NS + S, 100 * MS):
        pipeline.tick(4 * S + tick)
        log.look(4 * S + tick)
    assert not pipeline.shedder.shedding and len(said(log, 'keep')) == 2


def test_bodies_with_times_and_rates_of_their_own_share_evenly_too():
    """As from servers that ask each of their devices for the time."""
    pipeline = Pipeline(CONFIG)
    now = 0
    out = Counter()
    for number in range(12 * RATE):
        for i in range(BODIES):
            if i % 2 and number % 3:
                continue
            arrival = number * S // RATE + i * 100_000
            now = max(now, arrival)
            report = pose_report(f'body {i}', 5 * S + arrival, (i + 1e-4 * number, 1.0, 0.0))
            samples = pipeline.process([report], arrival, HOST, now).samples
            now += MS if samples else LITTLE_NS
            if number > 4 * RATE:
                out[i] += len(samples)
    fast = [out[i] for i in range(0, BODIES, 2)]
    slow = [out[i] for i in range(1, BODIES, 2)]
    for several in (fast, slow):
        assert min(several) > 0.8 * max(several)
    assert shed(pipeline) > 1000


def test_a_lowpass_sees_what_is_shed():
    """What goes out is what would have gone out of a computer that keeps up."""
    config = replace(CONFIG, estimate=EstimateConfig(
        learn_noise=False, lowpass=LowpassConfig(cutoff_hz=20.0)))
    quick, slow = Pipeline(config), Pipeline(config)
    wanted = {(sample.channel.names.motive, sample.stamp_ns): (sample.position, sample.quat_xyzw)
              for sample, _ in run(quick, 6.0, 0.1)}
    out = run(slow, 6.0, 1.3)
    assert shed(slow) > 1000 and not slow.dropped['too_old']
    for sample, _ in out:
        assert wanted[sample.channel.names.motive, sample.stamp_ns] == (
            sample.position, sample.quat_xyzw)


@pytest.mark.parametrize('shedding, level',
                         [(False, INFO), (True, WARN)])
def test_diagnostics_warn_while_frames_are_shed(shedding, level):
    none = Percentiles(0.0, 0.0, 0.0)
    entry = frames_entry(none, none, none, {'shed': 7}, StreamFacts(shedding=shedding))
    assert entry.severity is level and ('keep up' in entry.message) is shedding
    assert entry.values['dropped_shed'] == '7'


def serve(has_more, seconds=20.0, full=1.15, lean=0.5, loaded=lambda number: True):
    """
    Let a computer publish poses that take longer with all outputs than without.

    :param has_more: whether bodies have outputs beside poses.
    :param full, lean: share of the time there is that poses with all outputs, or alone, take.
    :param loaded: whether it takes so long at a frame.
    :returns: the pipeline, the samples, and how long each waited (ns).
    """
    def discovered(channel):
        channel.has_more = has_more
        channel.wants_motion = True
    pipeline = Pipeline(replace(
        CONFIG, stamps=StampConfig(mode='sender'), max_age_s=0.5,
        estimate=EstimateConfig(estimate_motion=True)), discovered)
    now, out, waits = 0, [], []
    for number in range(round(seconds * RATE)):
        arrival = number * S // RATE
        for datagram in frame_of(number):
            now = max(now, arrival)
            waits.append(now - arrival)
            samples = pipeline.process(datagram, arrival, 5 * S, now).samples
            for sample in samples:
                now += round((lean if sample.lean else full) * S / RATE / BODIES) if (
                    loaded(number)) else LITTLE_NS
            out += samples
        if number % 20 == 0:
            pipeline.tick(now)
    return pipeline, out, waits


def test_outputs_are_left_out_before_poses():
    pipeline, out, waits = serve(has_more=True)
    assert len(out) == 20 * RATE * BODIES, 'no pose is lost'
    # What it takes longer for in ``HICCUP_NS``, and a queue of ``PROMPT_NS``.
    assert max(waits) < PROMPT_NS + 0.15 * HICCUP_NS + 15 * MS
    assert statistics.quantiles(waits, n=20)[-1] < PROMPT_NS + 5 * MS
    some = [sample.lean for sample in out[2 * RATE * BODIES:]]
    assert 0.1 < statistics.mean(some) < 0.6, 'no more than needed'
    # Those of a body are evenly spaced, and each body has as many.
    for body in pipeline.bodies:
        whole = [number for number, sample in enumerate(
            sample for sample in out if sample.channel is body) if not sample.lean]
        steps = Counter(after - before for before, after in zip(whole, whole[1:]))
        assert set(steps) <= {1, 2} and steps[2] > 0.7 * len(whole)
    # The bodies take turns: no frame takes longer than another.
    frames = Counter(sample.stamp_ns for sample in out if sample.lean)
    assert max(frames.values()) == BODIES // 2
    assert all(sample.motion is None for sample in out if sample.lean)
    assert sum(sample.motion is not None for sample in out) > 0.3 * len(out)
    facts = facts_of_pipeline(pipeline)
    assert facts.lean and not facts.shedding and facts.lean_poses == sum(s.lean for s in out)
    assert [one.code for one in of_entry('frames', facts)] == ['fewer outputs']
    # The load is over.
    pipeline.tick(21 * S)
    pipeline.tick(21 * S + CALM_NS)
    assert not of_entry('frames', facts_of_pipeline(pipeline))


def test_attempts_become_rare_under_load_and_begin_anew_after_it():
    pipeline, out, _ = serve(
        has_more=True, seconds=60.0, loaded=lambda number: not 40 * RATE <= number < 50 * RATE)
    first = pipeline.bodies[0]
    seconds = [5 * S + second * S for second in range(60)]
    whole = [sum(not sample.lean for sample in out if sample.channel is first
                 and begin <= sample.stamp_ns < begin + S) for begin in seconds]
    tried = [second for second, number in enumerate(whole) if number > 0.53 * RATE]
    assert len([second for second in tried if 2 <= second < 40]) <= 8
    assert all(number == RATE for number in whole[47:50])
    assert len([second for second in tried if 50 <= second < 53]) >= 2, tried


def test_attempts_become_rare_also_where_every_fourth_pose_is_what_can_be_published():
    _, out, _ = serve(has_more=True, seconds=40.0, full=2.0, lean=0.5)
    seconds = Counter((sample.stamp_ns - 5 * S) // S for sample in out if not sample.lean)
    tried = [second for second in range(2, 40) if seconds[second] > 0.27 * RATE * BODIES]
    assert len(tried) <= 8, tried


@pytest.mark.parametrize('every_s, waits, thinned', [
    (0.1, 1, False), (0.1, 2, False), (0.1, 3, True), (1 / 240, 20, False), (1 / 240, 40, True)])
def test_outputs_are_left_out_for_a_queue_and_not_for_one_late_pose(every_s, waits, thinned):
    shedder = LoadShedder()
    for number in range(10):
        shedder.update(0, round(number * every_s * S))
    for number in range(waits):
        shedder.update(6 * MS, round((10 + number) * every_s * S))
    assert (shedder.every > 1) is thinned


def test_late_poses_before_a_prompt_one_do_not_count():
    shedder = LoadShedder()
    for wait_ns, now_ms in ((0, 0), (6 * MS, 100), (6 * MS, 200)):
        shedder.update(wait_ns, now_ms * MS)
    shedder.idle_ns = 250 * MS
    shedder.update(6 * MS, 355 * MS)
    assert shedder.every == 1


def test_waits_that_outputs_do_not_cause_leave_every_fourth_of_them():
    shedder = LoadShedder()
    for number in range(240 * 60):
        shedder.update(10 * MS, number * S // 240)
    assert shedder.every == 4 and not shedder.shedding


def test_poses_alone_are_never_left_out_as_outputs():
    """Without other outputs, whole frames are left out, as ever."""
    pipeline, out, _ = serve(has_more=False)
    assert not any(sample.lean for sample in out)
    assert pipeline.dropped['shed'] > 0 and pipeline.shedder.lean_poses == 0


def test_no_output_is_left_out_where_load_shedding_is_off():
    pipeline = Pipeline(replace(CONFIG, keep_up=False), lambda channel: setattr(
        channel, 'has_more', True))
    samples = [sample for number in range(200) for sample in pipeline.process(
        frame_of(number)[0], number * S // RATE, HOST, number * S // RATE + 40 * MS).samples]
    assert samples and not any(sample.lean for sample in samples)
