# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of the pipeline for good poses against closed-form motion: offsets, twist, low-pass."""

from dataclasses import replace
import math

import numpy as np
from optitrack_vrpn.core.rotation import body_from_base, world_from_mocap
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.drivers.frames import Body, Frame, Motion
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import World
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
from optitrack_vrpn.stream.motion.settings import MotionConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from pipeline_kit import make_pipeline, pose_report, ProblemLog, S
import pytest
from scipy.spatial.transform import Rotation

RATE = 240
#: Axes of Motive (columns) in ENU, its x pointing north; those of FLU in Motive's body.
ENU_FROM_MOTIVE = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
MOTIVE_FROM_FLU = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])


def run(seconds=3.0, config=None, **scenario):
    """Send a simulated body's reports through a pipeline, without a network in between."""
    world = World(scenario_from_mapping({
        'bodies': [{'name': 'wand', 'motion': {'type': 'figure_eight'}}], 'rate': RATE,
        **scenario}))
    # No clock in between either: the stamp is the sender's time.
    pipeline = Pipeline(config or PipelineConfig(
        stamps=StampConfig(mode='sender'), estimate=EstimateConfig(estimate_motion=True)))
    samples, moved = [], []
    for number in range(int(seconds * RATE)):
        frame = world.frame(number, 10**9)
        time_ns = frame.reports[0].sender_time_ns if frame.reports else 0
        for channel in pipeline.bodies:
            channel.wants_motion = True
        bodies = [report for report in frame.reports if isinstance(report, Body)]
        items = [Frame(time_ns, bodies)] if bodies else []
        items += [report for report in frame.reports if isinstance(report, Motion)]
        found = pipeline.process(items, time_ns, 0)
        samples += found.samples
        moved += found.motions
    truth = world.truth('wand', np.array([(s.stamp_ns - 10**9) * 1e-9 for s in samples]))
    return samples, moved, truth


def enu(vectors):
    return vectors @ ENU_FROM_MOTIVE.T


def attitudes(truth):
    return ENU_FROM_MOTIVE @ Rotation.from_quat(truth.quat_xyzw).as_matrix() @ MOTIVE_FROM_FLU


def test_velocities_of_the_estimate_are_those_of_the_motion():
    samples, _, truth = run(noise={'position_mm': 0.1, 'attitude_deg': 0.05})
    late = slice(RATE, None)
    assert all(s.motion is not None for s in samples[late])
    velocity = np.array([s.motion.velocity for s in samples[late]])
    turning = np.array([s.motion.angular_velocity for s in samples[late]])
    error = velocity - enu(truth.velocity)[late]
    assert np.sqrt((error ** 2).mean()) < 0.03 * np.abs(truth.velocity).max()
    error = turning - enu(truth.angular_velocity)[late]
    assert np.sqrt((error ** 2).mean()) < 0.1 * np.abs(truth.angular_velocity).max()
    # The same in the body's own axes.
    body = np.einsum('nji,nj->ni', attitudes(truth)[late], enu(truth.velocity)[late])
    error = np.array([s.motion.body_velocity for s in samples[late]]) - body
    assert np.sqrt((error ** 2).mean()) < 0.04 * np.abs(truth.velocity).max()


def test_no_motion_before_it_is_known_or_wanted():
    samples, _, _ = run(0.5)
    assert samples[0].motion is None
    quiet = PipelineConfig(stamps=StampConfig(mode='sender'))
    samples, _, _ = run(0.5, config=quiet)
    assert len(samples) > 100 and all(s.motion is None for s in samples)


def test_server_velocities_come_out_in_enu():
    config = PipelineConfig(stamps=StampConfig(mode='sender'), server_motion=True)
    samples, moved, truth = run(1.0, config=config, velocities=True)
    speeds = [m for m in moved if m.is_velocity]
    assert len(speeds) == len(samples)
    assert [m.stamp_ns for m in speeds] == [s.stamp_ns for s in samples]
    np.testing.assert_allclose([m.linear for m in speeds], enu(truth.velocity), atol=1e-9)
    np.testing.assert_allclose(
        [m.angular for m in speeds], enu(truth.angular_velocity), atol=1e-6)
    accelerations = [m for m in moved if not m.is_velocity]
    np.testing.assert_allclose(
        [m.linear for m in accelerations], enu(truth.acceleration), atol=1e-9)


def spinning(offset=(0.0, 0.0, 0.0), **estimate):
    """Make a pipeline, and the reports of a body that spins in its place at 2 rad/s, by frame."""
    pipeline = make_pipeline(
        'sender', server_motion=True, body=BodyConfig(acquire_frames=1),
        estimate=EstimateConfig(learn_noise=False, **estimate),
        bodies={'wand': {'offset': body_from_base(offset)}})
    over = 0.01
    turn = (0.0, math.sin(over), 0.0, math.cos(over))

    def frame(number, dt=over, quat=turn):
        sent_ns, angle = 10**10 + round(number * 1e9 / RATE), 2.0 * number / RATE
        attitude = (0.0, math.sin(angle / 2), 0.0, math.cos(angle / 2))
        return sent_ns, [
            pose_report('wand', sent_ns, (1.0 + 1e-7 * number, 1.0, 0.0), attitude),
            Motion('wand', 0, sent_ns, True, (0.0, 0.0, 0.0), quat, dt),
            Motion('wand', 0, sent_ns, False, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), dt)]
    return pipeline, frame


@pytest.mark.parametrize('lowpass', [LowpassConfig(), LowpassConfig(5.0, 5, True)])
def test_server_motions_have_the_stamp_of_their_own_frame(lowpass):
    """Several frames in one piece, the last of them twice."""
    pipeline, frame = spinning(lowpass=lowpass)
    for number in range(50):
        sent_ns, reports = frame(number)
        pipeline.process(reports, sent_ns, 0)
    frames = [frame(number) for number in (50, 51, 52, 52)]
    moved = pipeline.process(
        [report for _, reports in frames for report in reports], frames[-1][0], 0).motions
    assert [(m.stamp_ns, m.is_velocity) for m in moved] == [
        (sent_ns, kind) for sent_ns, _ in frames[:3] for kind in (True, False)]
    # The very same frame once more, by itself.
    assert pipeline.process(frames[-1][1], frames[-1][0], 0).motions == []


def test_server_motions_of_a_base_have_the_arm_in_them():
    pipeline, frame = spinning(offset=(0.5, 0.0, 0.0))
    before = None
    for number in range(100):
        sent_ns, reports = frame(number)
        found = pipeline.process(reports, sent_ns, 0)
        (sample,), (velocity, acceleration) = found.samples, found.motions
        if before is not None:
            moved = np.subtract(sample.position, before) * RATE
            # Of the middle of the interval: half a frame's turning earlier.
            half = Rotation.from_rotvec([0, 0, 1.0 / RATE]).apply(moved)
            np.testing.assert_allclose(velocity.linear, half, atol=1e-4)
        assert velocity.angular == pytest.approx((0.0, 0.0, 2.0))
        arm = Rotation.from_quat(sample.quat_xyzw).apply([0.5, 0.0, 0.0])
        np.testing.assert_allclose(acceleration.linear, -4.0 * arm, atol=1e-6)
        before = sample.position
    # Where the velocity is missing, the base's acceleration cannot be known.
    sent_ns, (pose, _, acceleration) = frame(100)
    log = ProblemLog(pipeline)
    assert not log.look(sent_ns)
    assert pipeline.process([pose, acceleration], sent_ns, 0).motions == []
    (notice,) = log.look(sent_ns + S)
    assert notice.severity == WARN and 'preceding velocity' in notice.text


@pytest.mark.parametrize('offset', [(0.0, 0.0, 0.0), (0.5, 0.0, 0.0)])
@pytest.mark.parametrize('absurd', [math.nan, math.inf, 1e308])
def test_a_server_motion_that_is_not_finite_is_left_out(offset, absurd):
    pipeline, frame = spinning(offset)
    sent_ns, (pose, velocity, acceleration) = frame(0)
    found = pipeline.process([pose, velocity._replace(vector=(absurd, 0.0, 0.0), dt=1e-300),
                              acceleration._replace(vector=(absurd, 0.0, 0.0))], sent_ns, 0)
    for moved in found.motions:
        assert all(map(math.isfinite, moved.linear + moved.angular))


def test_a_motion_whose_pose_went_through_other_settings_is_left_out():
    pipeline, frame = spinning()
    sent_ns, reports = frame(0)
    assert pipeline.process(reports, sent_ns, 0).motions
    sent_ns, (pose, velocity, _) = frame(1)
    assert pipeline.process([pose], sent_ns, 0).samples
    pipeline.apply(replace(
        pipeline.config, bodies={'wand': {'offset': body_from_base((0.5, 0.0, 0.0))}}))
    assert pipeline.process([velocity], sent_ns, 0).motions == []


@pytest.mark.parametrize('unknown', [
    {'dt': 0.0}, {'quat': (0.0, 0.0, 0.0, 0.0)}, {'quat': (math.nan, 0.0, 0.0, 1.0)}])
def test_an_angular_rate_that_is_not_known_is_not_taken_for_zero(unknown):
    pipeline, frame = spinning()
    log = ProblemLog(pipeline, 0)
    for number in range(3):
        sent_ns, reports = frame(number, **unknown)
        found = pipeline.process(reports, sent_ns, 0)
        log.look(sent_ns)
        assert found.samples
        assert not any(m.is_velocity for m in found.motions)
    notices = [line.text for line in log.lines if 'an angular rate' in line.text]
    assert len(notices) == 1


def test_offsets_of_body_and_world():
    lever, yaw, origin = (0.1, -0.2, 0.05), 0.7, (1.0, 2.0, 0.5)
    config = PipelineConfig(
        stamps=StampConfig(mode='sender'),
        estimate=EstimateConfig(world_from_mocap=world_from_mocap(origin, yaw)),
        bodies={'wa*': {'offset': body_from_base((*lever, 0.0, 0.0, math.pi / 2))}})
    samples, _, truth = run(0.5, config=config)
    turn = Rotation.from_euler('z', -yaw)
    for sample, position, attitude in zip(samples, enu(truth.position), attitudes(truth)):
        base = position + attitude @ lever
        np.testing.assert_allclose(sample.position, turn.apply(base - origin), atol=1e-9)
        expected = turn * Rotation.from_matrix(attitude) * Rotation.from_euler('z', 90, True)
        difference = (expected.inv() * Rotation.from_quat(sample.quat_xyzw)).magnitude()
        assert difference < 1e-9


@pytest.mark.parametrize('compensate', [False, True])
def test_low_pass_smooths_and_stamps_never_run_backwards(compensate):
    still = {'bodies': [{'name': 'wand', 'motion': {'type': 'still'}}],
             'noise': {'position_mm': 1.0}}
    config = PipelineConfig(
        stamps=StampConfig(mode='sender'), body=BodyConfig(),
        estimate=EstimateConfig(lowpass=LowpassConfig(5.0, 5, compensate)))
    samples, _, _ = run(3.0, config=config, **still)
    raw, _, _ = run(3.0, **still)
    late = slice(-RATE, None)
    smooth = np.std([s.position for s in samples[late]], axis=0)
    rough = np.std([s.position for s in raw[late]], axis=0)
    assert (smooth < 0.35 * rough).all()
    stamps = np.array([s.stamp_ns for s in samples])
    assert (np.diff(stamps) > 0).all()
    shift = raw[-1].stamp_ns - stamps[-1]
    assert shift > 50_000_000 if compensate else shift == 0


@pytest.mark.parametrize('compensate', [False, True])
def test_a_low_pass_changes_neither_the_motion_nor_its_stamp(compensate):
    """Half a metre to and fro at 0.5 Hz: the low-pass of 5 Hz would be 0.1 s late."""
    pipeline = make_pipeline(
        'sender',
        estimate=EstimateConfig(estimate_motion=True, lowpass=LowpassConfig(5.0, 5, compensate)))
    draw = np.random.default_rng(1)
    speed = math.pi
    for number in range(8 * RATE):
        t = number / RATE
        sent_ns = 10**10 + round(t * 1e9)
        for channel in pipeline.bodies:
            channel.wants_motion = True
        place = (0.5 * math.sin(speed * t), 1.0, draw.normal(0, 1e-5))
        for sample in pipeline.process(
                [pose_report('wand', sent_ns, place)], sent_ns, 0).samples:
            if t < 4:
                continue
            motion = sample.motion
            assert motion.stamp_ns == sent_ns
            assert motion.position[1] == place[0]
            assert motion.velocity[1] == pytest.approx(
                0.5 * speed * math.cos(speed * t), abs=0.02)
            then = (sample.stamp_ns - 10**10) * 1e-9
            late = t - then if compensate else 0.103
            assert late == pytest.approx(0.103, abs=0.001)
            assert sample.position[1] == pytest.approx(
                0.5 * math.sin(speed * (t - late)), abs=0.005)


def test_one_body_is_smoothed_and_another_not():
    two = {'bodies': [{'name': name, 'motion': {'type': 'still'}} for name in ('wand', 'drone')],
           'noise': {'position_mm': 1.0}}
    config = PipelineConfig(
        stamps=StampConfig(mode='sender'),
        bodies={'w*': {'lowpass.cutoff_hz': 5.0, 'motion.position_noise': 3.0}})
    samples, _, _ = run(3.0, config=config, **two)
    spread = {name: np.std([s.position for s in samples[-2 * RATE:]
                            if s.channel.names.motive == name], axis=0)
              for name in ('wand', 'drone')}
    assert (spread['wand'] < 0.35 * spread['drone']).all()
    configs = {s.channel.names.motive: s.channel.estimator.config for s in samples}
    assert configs['wand'].lowpass == LowpassConfig(5.0)
    assert configs['wand'].motion == MotionConfig(position_noise=3.0)
    assert configs['drone'] == EstimateConfig(learn_noise=False)


def circle(pipeline, seconds, step_ns, step_s):
    """Move a body on a circle at 2 m/s; the host's clock steps. Gives times (s) and samples."""
    draw = np.random.default_rng(1)
    for number in range(int(seconds * RATE)):
        t = number / RATE
        for channel in pipeline.bodies:
            channel.wants_motion = True
        # No two readings of the clock are quite alike.
        host_ns = 1_700_000_000 * 10**9 + draw.integers(200).item() + step_ns * (t >= step_s)
        place = (2 * math.sin(t), 1.0 + draw.normal(0, 1e-4), 2 * math.cos(t))
        for sample in pipeline.process(
                [pose_report('wand', 10**9 + round(t * 1e9), place)],
                round(t * 1e9) + draw.integers(300_000, 500_000).item(), host_ns).samples:
            yield t, sample


@pytest.mark.parametrize('step_ms', [20, 200, -20, -200])
def test_no_velocity_comes_of_a_step_of_the_hosts_clock(step_ms):
    pipeline = make_pipeline(estimate=EstimateConfig(estimate_motion=True))
    errors = [
        (t, math.dist(sample.motion.velocity, (-2 * math.sin(t), 2 * math.cos(t), 0.0)))
        for t, sample in circle(pipeline, 8.0, step_ms * 10**6, 5.0)
        if t > 3 and sample.motion is not None]
    assert max(error for _, error in errors) < 0.05
    # A few frames later velocities are there again.
    assert sum(t >= 5 for t, _ in errors) > 3 * RATE - 90 - max(0, -step_ms) * RATE / 1000


def test_a_low_pass_starts_anew_where_the_stamps_step():
    pipeline = make_pipeline(estimate=EstimateConfig(lowpass=LowpassConfig(5.0)))
    list(circle(pipeline, 2.0, 20_000_000, 1.0))
    assert pipeline.bodies[0].estimator.lowpass.starts == 2


def test_a_server_motion_of_a_pose_that_is_withheld_is_left_out():
    pipeline = make_pipeline('sender', server_motion=True)

    def motions(number, x, moves=True):
        time_ns = 10**9 + number * 10**7
        events = [pose_report('wand', time_ns, (x, 1.0, 0.0)),
                  Motion('wand', 0, time_ns, True, (0.1, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 0.01)]
        return len(pipeline.process(events[:1 + moves], time_ns, 0).motions)
    assert [motions(number, 0.001 * number) for number in range(5)] == [0, 0, 1, 1, 1]
    assert motions(5, 0.005, moves=False) == 0
    assert motions(5, 5.0) == 0    # of a clock with ticks: the same time, another frame
