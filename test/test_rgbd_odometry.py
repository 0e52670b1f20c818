# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Visual odometry on a scene in closed form, and what it reports about faults."""


from conftest import lacking
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.odometry import (
    FrameStatus, Odometry, OdometrySettings, UnusedCause)
import pytest
from rgbd_kit import CAMERA, FORWARD, path, PERIOD, pose, view, white_wall
from scipy.spatial.transform import Rotation

ORIGIN_NS = 1_700_000_000_000_000_000


class Run:
    """An odometry, and the views of a noisy camera."""

    def __init__(self, **settings):
        self.odometry = Odometry(OdometrySettings(**settings), FORWARD)
        self.noise = np.random.default_rng(1)
        self.stamp_ns = ORIGIN_NS

    def see(self, base, periods=1):
        return self.take(*view(base, self.noise), periods)

    def take(self, grey, depth, periods=1, camera=CAMERA):
        self.stamp_ns += periods * PERIOD
        return self.odometry.process(self.stamp_ns, grey, depth, camera)

    @property
    def landmarks(self):
        return self.odometry.model.means.copy()


@pytest.fixture
def run():
    """Give an odometry that has tracked ten frames at rest."""
    made = Run()
    assert made.see(pose()).status is FrameStatus.STARTED
    for _ in range(9):
        assert made.see(pose()).status is FrameStatus.TRACKED
    return made


def errors(frame, truth):
    difference = np.linalg.inv(truth) @ frame.pose
    return (np.linalg.norm(difference[:3, 3]),
            np.degrees(Rotation.from_matrix(difference[:3, :3]).magnitude()))


def check_path(frames, poses, most_m):
    moved, turned = np.max([errors(frame, base) for frame, base in zip(frames, poses)], axis=0)
    assert moved < most_m
    assert turned < 0.3


def test_a_motion_in_six_axes_is_followed():
    run = Run()
    poses = path(40)
    frames = [run.see(base) for base in poses]
    assert [frame.status for frame in frames[:2]] == [FrameStatus.STARTED, FrameStatus.TRACKED]
    assert all(frame.good for frame in frames)
    check_path(frames, poses, 0.012)
    assert run.odometry.counters.resets == 0


@pytest.mark.slow
def test_the_twist_is_in_the_axes_of_the_base():
    run = Run()
    step = pose(0.012, -0.006, 0.0, yaw=0.6)
    base = pose(yaw=5)
    frames = []
    for _ in range(30):
        frames.append(run.see(base))
        base = base @ step
    assert frames[0].linear is None
    seconds = PERIOD / 1e9
    np.testing.assert_allclose(np.mean([frame.linear for frame in frames[5:]], axis=0),
                               step[:3, 3] / seconds, atol=0.02)
    np.testing.assert_allclose(np.mean([frame.angular for frame in frames[5:]], axis=0),
                               [0, 0, np.radians(0.6) / seconds], atol=0.01)
    # each is within four of its standard deviations
    for frame in frames[5:]:
        error = np.concatenate([frame.linear - step[:3, 3] / seconds,
                                frame.angular - [0, 0, np.radians(0.6) / seconds]])
        assert (np.abs(error) < 4 * np.sqrt(np.diag(frame.twist_covariance))).all()


@pytest.mark.slow
def test_the_covariance_covers_the_error():
    run = Run()
    there = [pose(yaw=3 * k) for k in range(21)]
    poses = there + there[::-1]
    frames = [run.see(base) for base in poses]
    squares = []
    for frame, base in zip(frames[1:], poses[1:]):
        error = np.concatenate([
            base[:3, 3] - frame.pose[:3, 3],
            Rotation.from_matrix(base[:3, :3] @ frame.pose[:3, :3].T).as_rotvec()])
        squares.append(error @ np.linalg.solve(frame.covariance, error) / 6)
    assert 0.01 < np.mean(squares) < 3
    # Pairs of a keypoint and the landmark of its neighbour would contradict their covariances.
    assert np.mean([frame.chi2 for frame in frames[1:]]) < 2
    begin, away, back = (np.trace(frames[k].covariance[:3, :3]) for k in (1, 20, 41))
    assert away > 1.2 * begin
    assert away > 1.5 * back and back < 1.2 * begin


@pytest.mark.parametrize('constraint', ['level', 'planar'])
def test_a_motion_constraint_holds_exactly(constraint):
    run = Run(motion_constraint=constraint)
    poses = [pose(0.01 * k, 0.1 * np.sin(0.06 * k), 0, 0.3 * k) for k in range(25)]
    frames = [run.see(base) for base in poses]
    for frame in frames:
        np.testing.assert_allclose(frame.pose[2, :3], [0, 0, 1], atol=1e-12)
        if constraint == 'planar':
            assert frame.pose[2, 3] == pytest.approx(0, abs=1e-12)
    check_path(frames, poses, 0.02)


# -- faults --------------------------------------------------------------------------------------

GREY, DEPTH = view(pose())
VGA = Intrinsics(640, 480, 525, 525, 319.5, 239.5)
JUMPED = (UnusedCause.INCONSISTENT, UnusedCause.JUMP, UnusedCause.NO_MATCH)


@pytest.mark.parametrize('images, camera, causes, reason', [
    ((GREY, 0 * DEPTH), CAMERA, [UnusedCause.NO_DEPTH], 'no pixel of the depth image'),
    ((GREY, DEPTH + 10), CAMERA, [UnusedCause.NO_DEPTH], 'keypoints have depth within 7'),
    (white_wall(np.random.default_rng(1)), CAMERA, [UnusedCause.FEW_FEATURES],
     'too little texture'),
    ((GREY, DEPTH), VGA, [UnusedCause.INPUT], '320 x 240 pixels, camera_info has 640 x 480'),
    (view(pose(yaw=25)), CAMERA, JUMPED, ''),
    (view(pose(0.5, -0.3, 0.2)), CAMERA, JUMPED, ''),
    (view(pose(roll=40)), CAMERA, JUMPED, '')], ids=[
    'no depth', 'too far', 'white wall', 'another size', 'turned', 'pushed', 'rolled'])
def test_a_bad_frame_is_reported_and_not_merged(run, images, camera, causes, reason):
    landmarks = run.landmarks
    frame = run.take(*images, camera=camera)
    assert frame.status is FrameStatus.FAILED and frame.cause in causes
    assert reason in frame.reason
    assert not frame.good
    assert frame.resets == 1
    np.testing.assert_array_equal(run.landmarks, landmarks)
    again = run.see(pose())
    assert again.status is FrameStatus.TRACKED
    assert errors(again, pose())[0] < 0.01
    assert again.linear is None    # the motion during the gap is not known
    assert run.odometry.counters.resets == 1


def test_dropped_frames_are_counted_and_bridged(run):
    frame = run.see(pose(0.05, yaw=2), periods=6)
    assert frame.status is FrameStatus.TRACKED
    assert errors(frame, pose(0.05, yaw=2))[0] < 0.01
    assert frame.linear == pytest.approx([0.05 / (6 * PERIOD / 1e9), 0, 0], abs=0.03)
    assert run.odometry.counters.missed == 5


def test_late_frames_change_nothing(run):
    before = run.landmarks
    frame = run.see(pose(0.02), periods=-1)
    assert frame.status is FrameStatus.LATE
    assert '33.3 ms older' in frame.reason
    assert run.see(pose(), periods=0).status is FrameStatus.LATE
    np.testing.assert_array_equal(run.landmarks, before)
    assert run.odometry.counters.late == 2
    assert run.see(pose(), periods=2).status is FrameStatus.TRACKED
    assert run.odometry.counters.resets == 0


def test_a_clock_that_is_set_back_is_followed_after_some_frames(run):
    frames = [run.see(pose(), periods=periods) for periods in (-3000, 1, 1, 1, 1, 1)]
    assert [frame.status for frame in frames] == [FrameStatus.LATE] * 4 + [FrameStatus.TRACKED] * 2
    assert run.odometry.counters.resets == 1
    assert errors(frames[-1], pose())[0] < 0.01


@pytest.mark.slow
def test_a_lasting_bump_begins_a_new_model(run):
    frames = [run.see(pose(yaw=60, z=0.3)) for _ in range(40)]
    statuses = [frame.status for frame in frames]
    begin = statuses.index(FrameStatus.STARTED)
    assert set(statuses[:begin]) == {FrameStatus.FAILED}
    assert begin * PERIOD / 1e9 == pytest.approx(1.0, abs=0.04)
    assert set(statuses[begin + 1:]) == {FrameStatus.TRACKED}
    assert not lacking(frames[begin].reason, 'new model', '1.0 s')
    assert frames[begin].linear is None
    # the pose is the last one that was known; what may have happened since is in the covariance
    assert errors(frames[-1], pose())[0] < 0.01
    assert np.sqrt(frames[-1].covariance[0, 0]) > 0.4
    assert np.sqrt(frames[-1].covariance[5, 5]) > 0.4
    assert run.odometry.counters.restarts == run.odometry.counters.resets == 1


def test_a_motion_that_is_not_determined_well_enough_is_refused():
    run = Run(max_stdev_m=0.001, keypoints=20, depth_noise=0.002)
    run.see(pose())
    frame = run.see(pose())
    assert frame.cause is UnusedCause.UNCERTAIN
    assert 'the position to' in frame.reason
