# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The map of a simulated room, from images and a path that drifts, against the truth."""

import functools

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.guests.rgbd.files_io import load_keyframes, save_keyframes, save_pcd
from optitrack_vrpn.guests.rgbd.geometry import (
    Intrinsics, motion_of, rigid, rigid_transform, transformed)
from optitrack_vrpn.guests.rgbd.mapper import (
    Mapper, MapperSettings, pcd_bytes)
from optitrack_vrpn.guests.rgbd.room import Room, RoomLayout, Sensor, TRAJECTORIES
from optitrack_vrpn.takes.trajectory_text import parse_trajectory
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip('cv2')
CAMERA = Intrinsics(320, 240, 262.5, 262.5, 159.75, 119.75)
SECOND = 1_000_000_000
#: Drift of a pose against the one before: 3 mm, 0.2 degrees, always the same way.
DRIFT = rigid(Rotation.from_euler('y', 0.2, degrees=True).as_matrix(), (0.003, 0.0, 0.0))


@functools.cache
def images():
    """Give stamps, true camera poses and images of two rounds through the room, 3 Hz."""
    trajectory = TRAJECTORIES['loop']
    times = np.arange(0, trajectory.duration, 1 / 3)
    truth = trajectory.camera_poses(times)
    room, sensor = Room(), Sensor(seed=4)
    seen = []
    for pose in truth:
        colour, depth = room.render(CAMERA, pose)
        seen.append((sensor.image(colour), sensor.depth(depth)))
    return (1_800_000_000 * SECOND + np.rint(times * SECOND).astype(np.int64)), truth, seen


@functools.cache
def drifting():
    """Give the path as an odometry that drifts gives it."""
    _, truth, _ = images()
    path = [truth[0]]
    for before, after in zip(truth, truth[1:]):
        path.append(path[-1] @ np.linalg.inv(before) @ after @ DRIFT)
    return path


def mapped(mapper, first=0, last=None, loops=True):
    stamps, _, seen = images()
    for number in range(first, len(stamps) if last is None else last):
        odometry = drifting()[number]
        mapper.add_pose(int(stamps[number]), odometry)
        if mapper.is_due(odometry):
            colour, depth = seen[number]
            keyframe = mapper.add_keyframe(
                int(stamps[number]), odometry, (0.0, 0.0), colour, depth, CAMERA)
            if loops:
                mapper.find_loops(keyframe.number)
    return mapper


@functools.cache
def whole():
    """Give a mapper after both rounds, not yet solved; tests must not change it."""
    return mapped(Mapper())


def ate(positions, truth):
    aligned = transformed(rigid_transform(positions, truth), positions)
    return np.sqrt(np.mean(np.sum((aligned - truth) ** 2, axis=1)))


def copy_of(mapper):
    twin = Mapper(mapper.settings)
    twin.restore([type(each)(**vars(each)) for each in mapper.keyframes], mapper.odometry_path())
    twin.loops = list(mapper.loops)
    return twin


def test_loops_remove_most_of_the_drift():
    _, truth, _ = images()
    mapper = copy_of(whole())
    before = ate(mapper.path().positions, truth[:, :3, 3])
    solved = mapper.solve()
    after = ate(mapper.path().positions, truth[:, :3, 3])
    assert solved.loops > 20 and solved.outliers == 0
    assert before > 0.05 and after < before / 3


def test_without_loops_the_path_is_that_of_the_odometry():
    mapper = mapped(Mapper(), last=20, loops=False)
    mapper.solve()
    np.testing.assert_allclose(mapper.path().positions, np.array(drifting())[:20, :3, 3],
                               atol=1e-7)
    np.testing.assert_allclose(mapper.map_from_odometry, np.eye(4), atol=1e-7)


def test_keyframes_are_taken_by_distance_and_angle():
    mapper = Mapper(MapperSettings(keyframe_distance_m=0.5, keyframe_angle_rad=0.3))
    _, _, seen = images()

    def due_at(x, yaw):
        return mapper.is_due(rigid(Rotation.from_euler('z', yaw).as_matrix(), (x, 0, 0)))

    assert due_at(0.0, 0.0)
    mapper.add_keyframe(1, np.eye(4), (0.0, 0.0), *seen[0], CAMERA)
    assert [due_at(0.49, 0.0), due_at(0.51, 0.0), due_at(0.0, 0.29), due_at(0.0, -0.31)] == [
        False, True, False, True]


def test_the_variance_of_an_edge_is_what_the_odometry_lost():
    mapper = Mapper()
    _, _, seen = images()
    for stamp, variances in enumerate([(0.0, 0.0), (0.04, 0.01), (0.03, 0.01)]):
        mapper.add_keyframe(stamp, np.eye(4), variances, *seen[0], CAMERA)
    edges = mapper.edges()
    assert 1 / edges[0].information[0, 0] == pytest.approx(0.0401)
    assert 1 / edges[0].information[3, 3] == pytest.approx(0.01 + 0.005 ** 2)
    # variances that shrink say nothing about the motion in between
    assert 1 / edges[1].information[0, 0] == pytest.approx(0.0001)


def test_a_map_is_saved_and_loaded_equal(tmp_path):
    mapper = copy_of(whole())
    mapper.solve()
    save_keyframes(tmp_path / 'map', mapper.keyframes, mapper.odometry_path(), mapper.path())
    keyframes, path = load_keyframes(tmp_path / 'map')
    assert len(keyframes) == len(mapper.keyframes)
    for ours, loaded in zip(mapper.keyframes, keyframes):
        assert (ours.number, ours.stamp_ns, ours.camera, ours.joined, ours.variances) == (
            loaded.number, loaded.stamp_ns, loaded.camera, loaded.joined, loaded.variances)
        for name in ('odometry', 'pose', 'colour', 'depth'):
            np.testing.assert_array_equal(getattr(ours, name), getattr(loaded, name))
    again = Mapper()
    again.restore(keyframes, path)
    assert again.generate_graph() == len(mapper.loops)
    again.solve()
    np.testing.assert_allclose(again.path().positions, mapper.path().positions, atol=1e-5)
    written = parse_trajectory((tmp_path / 'map/path.tum.txt').read_text().splitlines(), 'path')
    np.testing.assert_array_equal(written.stamps_ns, images()[0])
    assert not list(tmp_path.glob('*.part'))


def test_a_later_run_is_joined_to_a_loaded_map_by_loops():
    stamps, truth, seen = images()
    half = len(seen) // 2
    mapper = mapped(Mapper(), last=half)
    elsewhere = np.eye(4)    # the odometry of the second run begins at its own origin
    elsewhere[:3, :3] = Rotation.from_rotvec([0.3, 1.0, -2.0]).as_matrix()
    elsewhere[:3, 3] = 5.0, -3.0, 1.0
    mapper.start_run()
    for number in range(half, half + 8):
        odometry = elsewhere @ truth[number]
        keyframe = mapper.add_keyframe(
            int(stamps[number]), odometry, (0.0, 0.0), *seen[number], CAMERA)
        mapper.find_loops(keyframe.number)
    mapper.solve()
    for keyframe in mapper.keyframes[-8:]:
        expected = truth[half + keyframe.number - (len(mapper.keyframes) - 8)]
        moved, turned = motion_of(np.linalg.inv(expected) @ keyframe.pose)
        assert moved < 0.25 and np.degrees(turned) < 8    # the drift of the first run


@pytest.mark.parametrize('spoil, complaint', [
    (lambda folder: (folder / '0001.png').unlink(), '0001.png'),
    (lambda folder: (folder / '0001_depth.png').write_bytes(b'no image'), '0001_depth.png'),
    (lambda folder: (folder / '0001.yml').write_text('stamp_ns: 3'), '0001.yml: camera'),
    (lambda folder: (folder / '0001.yml').write_text(': :'), '0001.yml'),
    (lambda folder: (folder / '0000.png').write_bytes((folder / '0000_depth.png').read_bytes()),
     '0000.png'),
    (lambda folder: (folder / 'odometry.tum.txt').write_bytes(b'\xff'), 'odometry.tum.txt'),
])
def test_a_map_that_is_spoilt_is_refused_with_the_file_named(tmp_path, spoil, complaint):
    mapper = mapped(Mapper(), last=6, loops=False)
    assert len(mapper.keyframes) >= 2
    save_keyframes(tmp_path / 'map', mapper.keyframes, mapper.odometry_path(), mapper.path())
    spoil(tmp_path / 'map')
    with pytest.raises(ConfigurationError, match=complaint):
        load_keyframes(tmp_path / 'map')


@pytest.mark.parametrize('name', ['x' * 300, 'file/map'])
def test_a_place_that_cannot_be_written_is_named_and_left_as_it_was(tmp_path, name):
    mapper = mapped(Mapper(), last=2, loops=False)
    (tmp_path / 'file').write_text('mine')
    (tmp_path / 'folder').mkdir()
    with pytest.raises(ConfigurationError, match='cannot be written'):
        save_keyframes(tmp_path / name, mapper.keyframes, mapper.odometry_path(), mapper.path())
    for target in (tmp_path / name, tmp_path / 'folder'):
        with pytest.raises(TransportError, match=str(target)):
            save_pcd(target, *mapper.map_cloud())
    assert sorted(each.name for each in tmp_path.iterdir()) == ['file', 'folder']
    assert (tmp_path / 'file').read_text() == 'mine' and not list((tmp_path / 'folder').iterdir())


def test_the_cloud_of_the_map_lies_on_the_walls_of_the_room(tmp_path):
    mapper = Mapper()
    stamps, truth, seen = images()
    for number in range(0, 24, 3):
        mapper.add_keyframe(int(stamps[number]), truth[number], (0.0, 0.0), *seen[number], CAMERA)
    points, colours = mapper.map_cloud()
    assert len(points) == len(colours) > 20000
    layout = RoomLayout()
    room = np.array([layout.room.low, layout.room.high])
    to_wall = np.minimum(np.abs(points - room[0]), np.abs(points - room[1])).min(axis=1)
    for box in layout.boxes:
        low, high = np.array(box.low), np.array(box.high)
        outside = np.maximum(np.maximum(low - points, points - high), 0)
        distance = np.where(outside.any(axis=1), np.linalg.norm(outside, axis=1),
                            np.minimum(points - low, high - points).min(axis=1))
        to_wall = np.minimum(to_wall, np.abs(distance))
    # the noise of a Kinect is 13 mm at 3 m and 23 mm at 4 m
    assert np.median(to_wall) < 0.01 and np.quantile(to_wall, 0.99) < 0.08
    save_pcd(tmp_path / 'map.pcd', points, colours)
    head, body = (tmp_path / 'map.pcd').read_bytes().split(b'DATA binary\n')
    assert f'POINTS {len(points)}'.encode() in head and len(body) == 16 * len(points)


def test_a_point_is_written_as_pcd_defines_it():
    data = pcd_bytes(np.array([[1.0, -2.0, 0.5]]), np.array([[1, 2, 3]], np.uint8))
    row = data[data.index(b'DATA binary\n') + 12:]
    assert row == bytes.fromhex('0000803f 000000c0 0000003f 03020100')
