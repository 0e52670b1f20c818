# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""``calibrate`` on takes that another program wrote: JSON, parameters, files that it changes."""

import json
import re
import tracemalloc
from types import SimpleNamespace

from calibration_kit import Case, holds, NAMES, simulate, to_ns, write_take
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import body_from_base, compose, Transform
from optitrack_vrpn.takes.calibrate.base import reference_result, turn_result
from optitrack_vrpn.takes.calibrate.command import main
from optitrack_vrpn.takes.calibrate.take_io import body_poses, read_imu, read_parameters
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic
from optitrack_vrpn.takes.record.bag_metadata import TopicMetadata
from optitrack_vrpn.takes.take import StateRow
from optitrack_vrpn.takes.trajectory import Trajectory
import pytest
from recording_kit import BEGIN_NS, cdr, header, make, POSE, typestore
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation
from take_kit import body_of, take_of

pytest.importorskip('rosbags', reason='an independent writer')
pytestmark = pytest.mark.slow
PARAMETERS = """\
# our lab
optitrack_vrpn:
  ros__parameters:
    server: 10.0.0.1   # the Motive PC
    stamps:
      latency_ms: 2.5
    bodies:
      "Bob's: body":
        offset: [0.1, 0.0, 0.0]
"""


def run(capsys, *arguments):
    """Run the command; return its exit code and what it printed as JSON."""
    code = main([*map(str, arguments), '--json'])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize('plugin, pose_topic, imu_topic', [
    ('MCAP', '/wand/pose', '/imu/data_raw'), ('SQLITE3', '/vrpn/robot_1/pose', '/a/b')])
def test_a_take_gives_latency_and_transform(tmp_path, capsys, plugin, pose_topic, imu_topic):
    poses, imu, truth = simulate(Case('take', seconds=25.0), 3)
    write_take(tmp_path / 'take', poses, imu, plugin, pose_topic, imu_topic)
    body = pose_topic.split('/')[-2]
    code, found = run(capsys, 'imu', tmp_path / 'take', '--body', body, '--imu', imu_topic,
                      '-o', tmp_path / 'out.yaml')
    assert (code, found['refused']) == (0, [])
    assert holds(found, truth) == set(NAMES)
    rows = read_parameters(tmp_path / 'out.yaml', 'optitrack_vrpn')
    expected = {'stamps.latency_ms'} if truth['latency_ms'] > 0 else set()
    assert set(rows) == expected
    assert len(json.loads((tmp_path / 'out.json').read_text())['record']['sha256']) == 64


def test_a_parameter_file_is_changed_with_a_backup_and_the_value_in_force(tmp_path, capsys):
    poses, imu, truth = simulate(Case('take', seconds=25.0), 0)
    late = round(30e6 - truth['latency_ms'] * 1e6)
    poses = poses.shifted(late)
    write_take(tmp_path / 'take', poses, imu, motive_name="Bob's: body")
    (tmp_path / 'source.yaml').write_text(PARAMETERS)
    file = tmp_path / 'node.yaml'
    file.symlink_to('source.yaml')
    base_from_imu = (0.1, 0.02, 0.3, 0.1, -0.2, 0.3)
    _, found = run(capsys, 'imu', tmp_path / 'take', '--params', file, '--apply', file,
                   '--imu-in-base', *base_from_imu)
    assert found['latency_ms']['value'] == pytest.approx(32.5, abs=0.1)
    assert (tmp_path / 'source.yaml.bak').read_text() == PARAMETERS and file.is_symlink()
    text = file.read_text()
    assert '# the Motive PC' in text and '# our lab' in text
    rows = read_parameters(file, 'optitrack_vrpn')
    assert rows['stamps.latency_ms'] == pytest.approx(32.5, abs=0.1)
    # The parameter has Motive's name, and its offset counts from Motive's body: the poses of the
    # take have one of 0.1 m already.
    body_from_imu = compose(body_from_base(rows["bodies.Bob's: body.offset"]),
                            body_from_base(base_from_imu))
    np.testing.assert_allclose(
        body_from_imu.position, np.array(truth['lever_arm_m']) + (0.1, 0.0, 0.0), atol=5e-4)
    run(capsys, 'imu', tmp_path / 'take', '-o', tmp_path / 'out.yaml',
        '--imu-in-base', *base_from_imu)
    assert set(read_parameters(tmp_path / 'out.yaml', 'optitrack_vrpn')) == {
        'stamps.latency_ms', "bodies.Bob's: body.offset"}


def test_a_take_that_cannot_be_used_says_why_in_one_line(tmp_path, capsys):
    poses, imu, _ = simulate(Case('take', seconds=25.0), 3)
    far = Trajectory(poses.stamps_ns, 1e3 * poses.positions, poses.quats_xyzw)
    write_take(tmp_path / 'mm', far, imu)
    write_take(tmp_path / 'ned', poses, imu, pose_topic='/wand/pose_ned', frame='optitrack_ned')
    for name, reason in (('mm', 'millimetres'), ('ned', 'add pose to the outputs')):
        assert main(['imu', str(tmp_path / name)]) == 64
        line, = capsys.readouterr().err.splitlines()
        assert reason in line
    write_take(tmp_path / 'torn', poses, imu)
    file, = (tmp_path / 'torn').glob('*.mcap')
    data = bytearray(file.read_bytes())
    data[len(data) // 2:len(data) // 2 + 3000] = bytes(3000)
    file.write_bytes(data)
    _, found = run(capsys, 'imu', tmp_path / 'torn')
    assert 'latency_ms' in found['refused'] and 'damaged' in found['reasons']['latency_ms']


@pytest.mark.parametrize('whole, other', [(3, False), (0, False), (0, True)])
def test_samples_that_cannot_be_decoded_are_counted(tmp_path, whole, other):
    nine = np.zeros(9)
    data = cdr(make(
        'sensor_msgs/Imu', header(BEGIN_NS, 'imu_link'),
        make('geometry_msgs/Quaternion', 0.0, 0.0, 0.0, 1.0), nine,
        make('geometry_msgs/Vector3', 1.0, 2.0, 3.0), nine,
        make('geometry_msgs/Vector3', 4.0, 5.0, 6.0), nine))
    writer = BagWriter(tmp_path / 'take')
    writer.write(NewTopic(1, TopicMetadata('/imu', 'sensor_msgs/msg/Imu', []), ''), 1)
    for number in range(whole + 2):
        writer.write(Message(1, number, BEGIN_NS + number, BEGIN_NS, (
            data if number < whole else data[:100])), 1)
    if other:
        writer.write(NewTopic(2, TopicMetadata('/good', 'sensor_msgs/msg/Imu', []), ''), 1)
        writer.write(Message(2, 0, BEGIN_NS, BEGIN_NS, data), 1)
    writer.close()
    if whole:
        topic, imu, unread = read_imu(tmp_path / 'take', '')
        assert (topic, len(imu.stamps_ns), unread) == ('/imu', whole, 2)
        assert imu.gyro[0].tolist() == [1.0, 2.0, 3.0] and imu.frame_id == 'imu_link'
    else:
        with pytest.raises(ConfigurationError, match='2 messages on /imu, and none'):
            read_imu(tmp_path / 'take', 'imu' if other else '')


@pytest.mark.parametrize('text, wrong', [
    ('/**: {ros__parameters: {x: 1}}\n', 'expected'), ('other: {}\n', 'no ros__parameters')])
def test_a_file_that_cannot_be_changed_is_left_alone(tmp_path, capsys, text, wrong):
    take = written(tmp_path / 'take', turning(Rotation.identity(), 360.0, np.zeros(3)))
    file = tmp_path / 'node.yaml'
    file.write_text(text)
    assert main(['base', str(take), '--turn', '--height', '0.3', '--apply', str(file)]) == 64
    assert re.search(f'node.yaml: .*{wrong}', capsys.readouterr().err)
    assert file.read_text() == text
    assert {one.name for one in tmp_path.iterdir()} == {'node.yaml', 'take'}


def test_a_file_is_changed_once_by_a_take_and_keeps_its_line_ends_and_mode(tmp_path, capsys):
    take = written(tmp_path / 'take', turning(Rotation.identity(), 360.0, np.zeros(3)))
    text = ('# lab\r\n/**:\r\n  ros__parameters:\r\n    bodies.Rigid Body 1:\r\n'
            '      name: wand\r\n      offset: [0.1, 0.0, 0.0]\r\n')
    file = tmp_path / 'node.yaml'
    file.write_bytes(text.encode())
    file.chmod(0o640)
    command = ['base', str(take), '--turn', '--height', '0.3', '--params', str(file),
               '--apply', str(file)]
    assert main(command) == 0
    # The take does not tell Motive's name of the body, the file in force does.
    assert 'bodies.Rigid Body 1.offset contains the value in force' in capsys.readouterr().out
    first = file.read_bytes()
    assert first.count(b'\n') == first.count(b'\r\n') == text.count('\n') and b'# lab' in first
    backup = tmp_path / 'node.yaml.bak'
    assert backup.read_bytes() == text.encode()
    assert [path.stat().st_mode & 0o777 for path in (file, backup)] == [0o640, 0o640]
    assert main(command) == 64
    assert 'is the result of this take' in capsys.readouterr().err
    assert file.read_bytes() == first
    command[-3] = str(backup)    # the file during the take
    assert main(command) == 0 and file.read_bytes() == first


def test_files_of_others_are_not_overwritten(tmp_path, capsys):
    file = tmp_path / 'node.yaml'
    (tmp_path / 'take').mkdir()
    command = ['world', str(tmp_path / 'take'), '--placements', '1', '2', '-o', str(file)]
    file.write_text(PARAMETERS)
    assert main(command) == 64
    assert f'--apply {file} sets the values' in capsys.readouterr().err
    assert file.read_text() == PARAMETERS
    file.unlink()
    file.with_suffix('.json').write_text('{}\n')
    assert main(['imu', str(tmp_path), '--imu-in-base', *'00000', '90']) == 64
    assert 'in radians' in capsys.readouterr().err
    assert main(command) == 64
    assert 'node.json exists, and this command did not write it' in capsys.readouterr().err


@pytest.mark.parametrize('value', ['abc', '[1.0]', '.nan'])
def test_a_value_in_force_that_is_no_number_is_refused(tmp_path, capsys, value):
    write_take(tmp_path / 'take', *simulate(Case('take', seconds=25.0), 0)[:2])
    file = tmp_path / 'node.yaml'
    file.write_text(f'/**: {{ros__parameters: {{stamps: {{latency_ms: {value}}}}}}}\n')
    assert main(['imu', str(tmp_path / 'take'), '--params', str(file)]) == 64
    assert 'stamps.latency_ms is ' in capsys.readouterr().err


def resting(places, noise=1e-4, seconds=3.0):
    """Return poses that rest at each place (position, rotation) in turn."""
    draws = np.random.default_rng(5)
    count = int(seconds * 100)
    positions = np.concatenate([np.tile(place, (count, 1)) for place, _ in places])
    quats = np.concatenate([np.tile(turn.as_quat(), (count, 1)) for _, turn in places])
    times = np.arange(len(positions)) / 100.0
    return Trajectory(to_ns(times), positions + draws.normal(0.0, noise, positions.shape), quats)


def written(folder, trajectory, **more):
    """Write a take of poses, and an IMU that is not used."""
    imu = SimpleNamespace(stamps_ns=np.zeros(0, np.int64), gyro=np.zeros((0, 3)),
                          accelerometer=np.zeros((0, 3)))
    write_take(folder, trajectory, imu, **more)
    return folder


def turning(axis_tilt, degrees, base, seconds=10.0, seed=0, cone=0.0):
    """Return poses of a body whose point ``base`` rests at (1, 2, 0.3) while it turns."""
    draws = np.random.default_rng(seed)
    times = np.arange(0.0, seconds, 0.01)
    yaw = np.radians(degrees) * times / seconds
    lean = np.column_stack((cone * np.sin(2.0 * times), cone * np.cos(3.1 * times), yaw))
    turns = axis_tilt * Rotation.from_euler('xyz', lean) * Rotation.from_rotvec(
        draws.normal(0.0, np.radians(0.15), (len(times), 3)))
    exact = axis_tilt * Rotation.from_euler('xyz', lean)
    positions = (1.0, 2.0, 0.3) - exact.apply(base) + draws.normal(0.0, 3e-4, (len(times), 3))
    return Trajectory(to_ns(times), positions, turns.as_quat())


def test_a_turn_on_the_spot_finds_the_axis_and_the_height_is_asked_for(tmp_path, capsys):
    base = np.array((0.12, -0.07, -0.21))
    take = written(tmp_path / 'take', turning(Rotation.identity(), 360.0, base))
    code, found = run(capsys, 'base', take, '--turn')
    assert code == 0 and 'height' in found['reasons']['offset'] and 'offset' not in found
    code, found = run(capsys, 'base', take, '--turn', '--height', 0.3)
    assert not code and not found['refused']
    np.testing.assert_allclose(found['offset']['value'], base, atol=1e-3)
    assert found['parameters']['bodies.wand.offset'] == pytest.approx(found['offset']['value'])
    small = written(tmp_path / 'small', turning(Rotation.identity(), 20.0, base))
    assert main(['base', str(small), '--turn', '--height', '0.3']) == 64


@pytest.mark.parametrize('degrees, drift', [(180.0, 0.005), (90.0, 0.01), (360.0, 0.02)])
def test_a_turn_during_which_the_wheels_slip_states_it_or_is_refused(degrees, drift):
    base = np.array((0.12, -0.07, -0.21))
    poses = turning(Rotation.identity(), degrees, base)
    away = np.linspace(0.0, drift, len(poses))[:, None] * (1.0, 0.0, 0.0)
    found = turn_result(Trajectory(
        poses.stamps_ns, poses.positions + away, poses.quats_xyzw), 0.3, 'wand')
    if 'offset' in found.refused:
        assert 'its deviation is' in found.refused['offset']
    else:
        offset = found.quantities['offset']
        assert (np.abs(offset.value - base) < 3.0 * offset.sd).all()


def test_a_turn_with_slow_noise_of_attitudes_still_needs_the_height_only():
    base = np.array((0.12, -0.07, -0.21))
    times = np.arange(0.0, 20.0, 0.01)
    exact = Rotation.from_rotvec(np.outer(2.0 * np.pi * times / 20.0, (0.0, 0.0, 1.0)))
    positions = (1.0, 2.0, 0.3) - exact.apply(base)
    positions += np.random.default_rng(0).normal(0.0, 3e-4, positions.shape)
    slow = 0.003 * np.sin(np.outer(times, (1.3, 2.1, 1.7)) + (0.0, 1.0, 2.0))
    turns = exact * Rotation.from_rotvec(slow)
    poses = Trajectory(to_ns(times), positions, turns.as_quat())
    offset = turn_result(poses, 0.3, 'wand').quantities['offset']
    assert (np.abs(offset.value - base) < 3.0 * offset.sd).all()


def test_slip_is_noted_where_something_slipped_whatever_the_noise():
    """Noise of mocap is correlated, which is no slip; a steady drift of 5 mm or more is."""
    for seed in range(100):
        draws = np.random.default_rng(seed)
        times = np.arange(0.0, draws.uniform(6.0, 30.0), 1.0 / draws.choice((30, 100, 240)))
        lasts_s = draws.choice((1e-6, 0.02, 0.05, 0.2))
        keeps = np.exp((times[0] - times[1]) / lasts_s)
        white = draws.normal(0.0, 1.0, (len(times), 6)) * np.sqrt(1.0 - keeps**2)
        noise = lfilter([1.0], [1.0, -keeps], white, axis=0) * np.repeat((
            draws.choice((1e-4, 3e-4, 1e-3)), np.radians(draws.choice((0.02, 0.15, 0.3)))), 3)
        turns = Rotation.from_rotvec(np.outer(
            np.radians(draws.uniform(180.0, 720.0)) * times / times[-1], (0.0, 0.0, 1.0)))
        drift_m = draws.uniform(0.005, 0.04) * (seed % 3 == 0)
        positions = (1.0, 2.0, 0.3) - turns.apply(draws.normal(0.0, 0.15, 3)) + noise[:, :3]
        positions[:, 0] += np.linspace(0.0, drift_m, len(times))
        found = turn_result(Trajectory(to_ns(times), positions, (
            turns * Rotation.from_rotvec(noise[:, 3:])).as_quat()), 0.3, 'wand')
        said = any('slip' in note for note in found.notes)
        assert said == bool(drift_m) == bool(found.record['slip_m']), seed


def test_poses_near_a_change_of_the_state_are_left_out_in_little_memory():
    """By the nearest of many changes, also in a take of an hour."""
    stamps = BEGIN_NS + np.arange(40_000) * 10_000_000
    poses = Trajectory(stamps, np.zeros((40_000, 3)), np.tile((0.0, 0.0, 0.0, 1.0), (40_000, 1)))
    draws = np.random.default_rng(1)
    times = np.sort(draws.choice(np.arange(0, 400_000_000_000, 7_000_000), 3000, replace=False))
    states = [StateRow(BEGIN_NS + at, 'AB'[number % 2], '', 0)
              for number, at in enumerate(times.tolist())]
    take = take_of(body_of('wand', poses, states))
    tracemalloc.start()
    _, kept = body_poses(take, 'wand')
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    changes = np.array([row.time_ns for row in states[1:]])
    expected = [stamp for stamp in stamps.tolist() if np.abs(changes - stamp).min() > 100_000_000]
    assert kept.stamps_ns.tolist() == expected and 0 < len(expected) < 40_000
    assert peak < 40e6    # all differences at once would be 960 MB


@pytest.mark.parametrize('named', ['wand', '"w?n*"'])
def test_placements_on_known_marks_compose_with_the_offset_in_force(tmp_path, capsys, named):
    body_from_base_ = Transform((0.1, -0.05, -0.2), tuple(
        Rotation.from_euler('z', 12.0, degrees=True).as_quat()))
    marks = [(0.0, 0.0, 0.0), (1.0, 0.5, 1.6), (2.0, -0.5, -2.0)]
    places = []
    for x, y, yaw in marks:
        pose = compose(Transform((x, y, 0.0), tuple(Rotation.from_euler('z', yaw).as_quat())),
                       body_from_base_.inverse())
        places.append((pose.position, Rotation.from_quat(pose.quat_xyzw)))
    take = written(tmp_path / 'take', resting(places))
    file = tmp_path / 'marks.yaml'
    file.write_text(''.join(f'- {{at: {1.5 + 3 * number}, x: {x}, y: {y}, yaw: {yaw}}}\n'
                            for number, (x, y, yaw) in enumerate(marks)))
    params = tmp_path / 'node.yaml'
    params.write_text(PARAMETERS.replace('"Bob\'s: body"', named))
    code, found = run(capsys, 'base', take, '--placements', file, '--params', params)
    assert not code and not found['refused']
    np.testing.assert_allclose(found['offset']['value'][:3], body_from_base_.position, atol=1e-4)
    np.testing.assert_allclose(found['offset']['value'][3:], body_from_base_.quat_xyzw, atol=1e-6)
    assert found['parameters']['bodies.wand.offset'][0] == pytest.approx(0.2, abs=1e-3)
    text = file.read_text()
    file.write_text(text.replace('x: 1.0', 'x: 1.1'))
    _, found = run(capsys, 'base', take, '--placements', file)
    assert 'mark 2' in found['reasons']['offset'] and 'offset' not in found
    file.write_text(text.replace('yaw: 1.6', 'yaw: 91.7'))
    assert main(['base', str(take), '--placements', str(file)]) == 64
    assert 'yaw is in radians' in capsys.readouterr().err


def test_two_placements_give_the_users_world(tmp_path, capsys):
    take = written(tmp_path / 'take', resting([
        ((1.0, 2.0, 0.1), Rotation.identity()), ((1.0, 4.0, 0.1), Rotation.identity())]))
    code, found = run(capsys, 'world', take, '--placements', 1.5, 4.5)
    assert not code and not found['refused']
    assert found['parameters']['world_offset.origin'] == pytest.approx([1.0, 2.0, 0.1], abs=1e-3)
    assert found['parameters']['world_offset.yaw'] == pytest.approx(np.pi / 2, abs=1e-3)


def write_two(folder, first, second, topics):
    """Write a take with two topics of poses."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    rows = sorted((stamp, number, place, turn) for number, poses in enumerate((first, second))
                  for stamp, place, turn in zip(
                      poses.stamps_ns.tolist(), poses.positions.tolist(),
                      poses.quats_xyzw.tolist()))
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        made = [writer.add_connection(topic, POSE, typestore=typestore()) for topic in topics]
        for stamp, number, place, turn in rows:
            pose = make('geometry_msgs/Pose', make('geometry_msgs/Point', *place),
                        make('geometry_msgs/Quaternion', *turn))
            writer.write(made[number], stamp, cdr(make(
                'geometry_msgs/PoseStamped', header(stamp), pose)))
    return folder


def moved(poses, left=None, right=None, late=0):
    """Return poses in another world (left) and of another body (right), stamped later."""
    made = poses if left is None else poses.transformed(*left)
    made = made if right is None else made.of_child(*right)
    return made.shifted(late)


def test_one_wand_in_two_systems_aligns_their_worlds(tmp_path, capsys):
    poses, _, _ = simulate(Case('wand', seconds=25.0), 4)
    other, _, _ = simulate(Case('wand', seconds=25.0), 4)
    shift, yaw = np.array((2.0, -1.0, 0.3)), 0.7
    # ours = Z theirs X: theirs is the inverse of Z before, and of X behind.
    z = Rotation.from_euler('ZYX', (yaw, 0.004, -0.006))
    theirs = moved(other, (z.inv(), -z.inv().apply(shift)),
                   (Rotation.from_rotvec((0.1, 0.2, 0.3)), (0.01, 0.02, 0.03)), 40_000_000)
    take = write_two(tmp_path / 'take', poses, theirs, ('/wand/pose', '/other/wand/pose'))
    code, found = run(capsys, 'world', take, '--body', '/wand/pose', '--reference',
                      '/other/wand/pose')
    assert not code and not found['refused'], found['reasons']
    np.testing.assert_allclose(found['origin']['value'], shift, atol=3e-3)
    assert found['yaw']['value'] == pytest.approx(yaw, abs=1e-3)
    assert any('0.41 deg' in note for note in found['notes'])


def test_slow_errors_of_a_system_are_in_the_deviations_of_the_other_world():
    draws = np.random.default_rng(3)
    times = np.arange(0.0, 30.0, 0.05)

    def slow(size):
        waves = draws.uniform(0.5, 4.0, (3, 5)), draws.uniform(0.0, 6.0, (3, 5))
        return size * np.sin(times[:, None, None] * waves[0] + waves[1]).sum(axis=2) / 1.6

    wand, turns = slow(0.3), Rotation.from_rotvec(slow(0.5))
    world, origin = Rotation.from_euler('z', 1.2), np.array((3.0, -2.0, 0.1))
    errors = []
    for _ in range(6):
        theirs = world.inv().apply(wand + slow(1e-3) - origin)
        turned = world.inv() * turns * Rotation.from_rotvec(slow(3e-3))
        found = reference_result(
            Trajectory(to_ns(times), wand, turns.as_quat()),
            Trajectory(to_ns(times), theirs, turned.as_quat())).quantities['origin']
        errors.append(np.abs(found.value - origin) / found.sd)
    assert np.max(errors) < 4.0 and np.sqrt(np.square(errors).mean()) < 2.0


def test_odometry_of_the_base_gives_its_place_in_the_body(tmp_path, capsys):
    poses, _, _ = simulate(Case('robot', seconds=25.0), 6)
    base = (Rotation.from_rotvec((0.0, 0.0, 0.3)), np.array((0.05, -0.1, -0.2)))
    odometry = moved(poses, (Rotation.from_rotvec((0.0, 0.0, 1.0)), np.array((3.0, 1.0, 0.0))),
                     base)
    take = write_two(tmp_path / 'take', poses, odometry, ('/wand/pose', '/robot/odom'))
    code, found = run(capsys, 'base', take, '--body', 'wand', '--odometry', '/robot/odom')
    assert not code and not found['refused'], found['reasons']
    np.testing.assert_allclose(found['offset']['value'][:3], base[1], atol=3e-3)
    np.testing.assert_allclose(found['offset']['value'][3:], base[0].as_quat(), atol=3e-3)
