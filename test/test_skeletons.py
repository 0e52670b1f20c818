# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bones: the tracker of bodies for each, axes against scipy, names, joints, plates."""

import math

import numpy as np
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.rotation import compose, Transform, world_from_mocap
from optitrack_vrpn.drivers.frames import (
    Body, Extras, Frame, Plate, PlateModel, Skeleton, SkeletonModel)
from optitrack_vrpn.sim.faults import Flip, NotFinite, Occlusion, Outlier, Teleport
from optitrack_vrpn.sim.figure import BONES_51, SimFigure as Walker
from optitrack_vrpn.sim.impairments import apply_faults, occlusions
from optitrack_vrpn.sim.natnet_models import corners, force
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import Disposition
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.skeletons.bone_names import BONES, converted
from optitrack_vrpn.stream.skeletons.plates import (
    channel_order, plate_frame, SampleTimes, wrenches)
from optitrack_vrpn.stream.skeletons.stage import Axes, Figure, relative, SkeletonStage
import pytest
from scipy.spatial.transform import Rotation

RATE = 100
MS = 1_000_000
NAMES = tuple(bone.name for bone in BONES_51)
MODEL = SkeletonModel('Bob', NAMES, tuple(bone.parent - 1 for bone in BONES_51),
                      tuple(bone.offset for bone in BONES_51))


def walking(count, faults):
    """Give poses of a walker, and which frames are occluded; the faults are those of bone 8."""
    frames = np.arange(count)
    lost, _, held = occlusions(faults, frames, RATE)
    positions, quats = Walker(BONES_51).at(frames / RATE)
    old = Walker(BONES_51).at(held / RATE)
    positions[:, 8], quats[:, 8] = apply_faults(faults, held, RATE, old[0][:, 8], old[1][:, 8])
    return positions, quats, lost


def checked(positions, quats, tracked, times, stage=None):
    """Give attitudes and validity of the bones of frames; the axes are the sender's."""
    stage = stage or SkeletonStage(lambda *event: None)
    config = PipelineConfig(axes=AxesConfig('z', 'east'))
    figures = [stage.convert(Skeleton(MODEL, positions[i], quats[i], tracked[i]), times[i], config,
                             'motive', times[i]) for i in range(len(times))]
    return np.array([one.quats_xyzw for one in figures]), np.array([one.valid for one in figures])


@pytest.mark.parametrize('fault', [
    Occlusion(start=1.0, end=1.5, mode='frozen'), Occlusion(start=1.0, end=2.5, mode='frozen'),
    Occlusion(start=1.0, end=1.5, mode='zeroed'),
    Occlusion(start=1.0, end=1.5, mode='zeroed', attitude='identity'),
    Flip(start=1.0, end=1.4), Teleport(start=1.0, end=1.6), Teleport(start=1.0),
    NotFinite(start=1.0, end=1.2), Outlier(at=1.0)], ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize('flagged', [True, False])
def test_each_bone_is_withheld_like_a_body(fault, flagged):
    positions, quats, lost = walking(500, (fault,))
    tracked = np.ones((500, 51), dtype=bool)
    tracked[:, 8] = ~(flagged & lost)
    times = [(i + 1) * 10 * MS for i in range(500)]
    _, valid = checked(positions, quats, tracked, times)
    body = Tracker('hand', BodyConfig())
    for i, now in enumerate(times):
        place, turn = tuple(positions[i, 8].tolist()), tuple(quats[i, 8].tolist())
        one = body.update(now, now, place, turn) if tracked[i, 8] else body.refuse(
            now, now, place, turn, Disposition.NOT_TRACKED)
        assert valid[i, 8] == (one is not None), i
    others = np.delete(valid, 8, axis=1)
    assert others[5:].all() and 2 < valid[:, 8].sum() < 500


@pytest.mark.parametrize('mode', ['frozen', 'zeroed'])
@pytest.mark.parametrize('end, again', [(3.0, 302), (None, 350)])
def test_a_bone_that_is_seen_again_flipped_is_withheld_for_a_second(mode, end, again):
    faults = (Occlusion(start=1.0, end=2.5, mode=mode), Flip(start=2.5, end=end))
    positions, quats, _ = walking(500, faults)
    _, valid = checked(positions, quats, np.ones((500, 51), dtype=bool), [
        (i + 1) * 10 * MS for i in range(500)])
    assert not valid[101:again, 8].any() and valid[again:, 8].all()


@pytest.mark.parametrize('rigid_bodies', [True, False])
def test_bones_continue_after_the_senders_clock_has_fallen(rigid_bodies):
    """As found: a recording played in a loop, or an untimed sender; 0 of 2400 frames."""
    positions, quats, _ = walking(400, ())
    pipeline, stage = Pipeline(PipelineConfig()), SkeletonStage(lambda *event: None)
    valid = []
    for i in range(1200):
        k = i % 400    # the recording begins again after 4 s
        arrival, sent = (1000 + i) * 10 * MS, 5_000_000 * MS + k * 10 * MS
        bodies = (Body('wand', 0, sent, (0.001 * (i % 7), 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), True,
                       0.0),) if rigid_bodies else ()
        found = pipeline.process([Frame(sent, bodies, extras=Extras((Skeleton(
            MODEL, positions[k], quats[k], np.ones(51, dtype=bool)),), ()))], arrival, 0)
        if found.extras is not None:
            _, time_ns, extras, arrival_ns, epoch = found.extras
            stage.restart(epoch)
            valid.append((i, stage.convert(
                extras.skeletons[0], time_ns, pipeline.config, 'motive', arrival_ns).valid.all()))
    good = [i for i, whole in valid if whole]
    for begin in (400, 800):
        # Times that were seen before have fallen after 0.25 s, frames are fresh 0.38 s later, and
        # a bone that has turned meanwhile is held for 1 s.
        assert min(i for i in good if i >= begin) < begin + 170
    assert len(good) > 850


@pytest.mark.parametrize('up', ['y', 'z'])
@pytest.mark.parametrize('x', ['north', 'east'])
def test_arrays_are_turned_as_single_poses_are(up, x):
    config, world = AxesConfig(up, x), world_from_mocap((1.0, -2.0, 0.5), 0.7)
    maps, axes = frame_maps(config), Axes(config, world)
    positions, quats = Walker(BONES_51).at(np.array((3.3,)))
    found = axes.positions(positions[0]), axes.quats(quats[0])
    for i in range(51):
        alone = compose(world, Transform(
            maps.position_to_enu(tuple(positions[0, i])), maps.quat_to_enu(tuple(quats[0, i]))))
        np.testing.assert_allclose(found[0][i], alone.position, atol=1e-12)
        np.testing.assert_allclose(found[1][i], alone.quat_xyzw, atol=1e-12)


def figure(valid=None, time=3.3):
    positions, quats = Walker(BONES_51).at(np.array((time,)))
    axes = Axes(AxesConfig(), Transform())
    return Figure(MODEL, 'Bob', tuple(f'Bob_{name}' for name in NAMES), NAMES,
                  axes.positions(positions[0]), axes.quats(quats[0]),
                  np.ones(51, dtype=bool) if valid is None else valid)


def test_bones_in_their_parents_have_the_offsets_of_the_definition():
    shown = figure()
    positions, quats, valid = relative(shown)
    assert valid.all()
    for i in range(1, 51):
        # Offsets are in Motive's axes of a body: forward, up, right.
        x, y, z = BONES_51[i].offset
        np.testing.assert_allclose(positions[i], (x, -z, y), atol=1e-12)
        parent = Rotation.from_quat(shown.quats_xyzw[MODEL.parents[i]])
        whole = parent * Rotation.from_quat(quats[i])
        assert (whole.inv() * Rotation.from_quat(shown.quats_xyzw[i])).magnitude() < 1e-7
    lost = np.ones(51, dtype=bool)
    lost[6] = False    # the upper arm: its fore-arm has no parent to be relative to
    assert np.flatnonzero(~relative(figure(lost))[2]).tolist() == [6, 7]


def test_names_follow_a_convention_whatever_the_sender_uses():
    motive, fbx, bvh, unreal = (tuple(bone[i] for bone in BONES) for i in range(4))
    assert motive == NAMES and len(BONES) == 51
    for given in (motive, fbx, bvh, unreal):
        for prefix in ('', 'Bob_', 'Bob:'):
            sent = tuple(prefix + name for name in given[:21])
            assert converted(sent, 'Bob', 'fbx') == fbx[:21]
            assert converted(sent, 'Bob', 'bvh') == bvh[:21]
            assert converted(sent, 'Bob', 'motive') == given[:21]
    assert unreal[:2] + unreal[5:7] == ('pelvis', 'spine_01', 'clavicle_l', 'upperarm_l')
    assert converted(('Hip', 'Tail'), '', 'fbx') == ('Hips', 'Tail')
    assert fbx[7:9] == ('LeftForeArm', 'LeftHand') and fbx[36] == 'RightHandThumb1'


def test_the_frame_of_a_plate_lies_on_its_corners():
    model = PlateModel('P', corners(2), ('Fx', 'Fy', 'Fz', 'Mx', 'My', 'Mz'), True)
    frame = plate_frame(model)
    np.testing.assert_allclose(frame.position, (2.0, 0.0, 0.0), atol=1e-12)
    turn = Rotation.from_quat(frame.quat_xyzw)
    for local, corner in zip(((0.2, 0.3, 0), (0.2, -0.3, 0), (-0.2, -0.3, 0), (-0.2, 0.3, 0)),
                             corners(2)):
        np.testing.assert_allclose(turn.apply(local) + frame.position, corner, atol=1e-12)
    np.testing.assert_allclose(turn.apply((0, 0, 1)), (0, 1, 0), atol=1e-12)    # up in Motive
    # In the world the plate turns like any vector.
    axes = Axes(AxesConfig(), world_from_mocap((1.0, 2.0, 3.0), 0.4))
    world = Rotation.from_quat(axes.frame(frame.quat_xyzw))
    for local in np.eye(3):
        ends = axes.positions(np.array((frame.position, turn.apply(local) + frame.position)))
        np.testing.assert_allclose(world.apply(local), ends[1] - ends[0], atol=1e-12)
    assert plate_frame(PlateModel('P', ((0.0, 0.0, 0.0),) * 4, (), True)) is None


def test_channels_of_a_plate_are_found_by_name():
    def model(*channels):
        return PlateModel('P', corners(0), channels, True)
    assert channel_order(model('Mz', 'My', 'Mx', 'Fz', 'Fy', 'Fx')) == (5, 4, 3, 2, 1, 0)
    assert channel_order(model(*'abcdef')) == (0, 1, 2, 3, 4, 5)
    assert channel_order(model('Fx', 'Fy', 'Fz')) is None and channel_order(model(*'abc')) is None
    samples = tuple(zip(force(0, 0.1), force(0, 0.11)))
    order = (0, 1, 2, 3, 4, 5)
    table = wrenches(Plate(model(), samples), order)
    np.testing.assert_allclose(table, [force(0, 0.1), force(0, 0.11)])
    assert len(wrenches(Plate(model(), samples[:5]), order)) == 0
    assert len(wrenches(Plate(model(), (*samples[:5], (math.nan, 1.0))), order)) == 0


@pytest.mark.parametrize('lost', [(), (20,), range(20, 70), range(1, 200, 2), range(20, 160)])
def test_samples_of_a_plate_are_spread_over_a_frame_and_not_over_a_gap(lost):
    found = SampleTimes()
    times = []
    for frame in range(300):
        if frame not in lost:
            found.follow(frame * 10 * MS)
            times.append((frame, found.times(4)))
    late = [one - frame * 10 * MS for frame, stamps in times for one in stamps]
    if not isinstance(lost, range) or lost.step == 1:
        # Also the first frame after a gap of half a second.
        assert set(late) == {-7.5 * MS, -5 * MS, -2.5 * MS, 0}
    assert len(times[-1][1]) == 4 and times[-1][1][0] == 2990 * MS - 7.5 * MS
    stamps = [one for _, stamps in times for one in stamps]
    assert all(b > a for a, b in zip(stamps, stamps[1:]))
