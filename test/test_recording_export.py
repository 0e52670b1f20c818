# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Exports read with other software, and Motive's own CSV as input."""

import csv
import importlib.util
import weakref

from conftest import independent
import numpy as np
from optitrack_vrpn.cli.arguments import USAGE
from optitrack_vrpn.core.axes import AxesConfig
from optitrack_vrpn.core.rotation import Transform
from optitrack_vrpn.drivers.frames import SkeletonModel
from optitrack_vrpn.sim.figure import BONES_51, SimFigure as Walker
from optitrack_vrpn.stream.skeletons.stage import Axes, Figure, relative
from optitrack_vrpn.takes.assess import report_command
from optitrack_vrpn.takes.columns import ROW
from optitrack_vrpn.takes.export import export_command
from optitrack_vrpn.takes.export.export_table import COLUMNS
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.rows_io import Scratch, StoredRows
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import capture
from recording_kit import add_topic, BEGIN_NS, cdr, header, make, POSE, topic, write_poses
from scipy.spatial.transform import Rotation
import sessions
from take_kit import poses_of, written

PERIOD_NS = 4_166_667


def bag(folder, jump_at=None):
    """Make two bodies at 240 Hz for 2 s; `wand` is away from 0.5 s to 1 s."""
    poses = []
    for i in range(480):
        stamp = BEGIN_NS + i * PERIOD_NS
        x = 0.001 * i + (3.0 if jump_at is not None and i >= jump_at else 0.0)
        q = Rotation.from_euler('z', 0.1 * i, degrees=True).as_quat()
        if not 120 <= i < 240:
            poses.append(('/wand/pose', stamp + 3_000_000, stamp, (x, 0.5, 1.0), tuple(q)))
        poses.append(('/drone/left/pose', stamp + 3_000_000, stamp, (0.0, x, 1.0), tuple(q)))
    write_poses(folder / 'take', poses)
    return folder / 'take', poses


def export(capsys, *arguments):
    code = export_command.main([str(a) for a in arguments])
    return code, capsys.readouterr()


def seconds(stamp_ns):
    return f'{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}'


def read_csv(path, delimiter=','):
    with open(path, newline='') as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.mark.parametrize('by_pyarrow', [True, False])
@pytest.mark.parametrize('kind, delimiter', [('csv', ','), ('csv-semicolon', ';')])
def test_csv_keeps_every_bit_and_nanosecond(
        tmp_path, capsys, monkeypatch, kind, delimiter, by_pyarrow):
    if by_pyarrow:
        independent('pyarrow')
    else:
        monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    folder, poses = bag(tmp_path)
    code, out = export(capsys, folder, '--format', kind, '-o', tmp_path / 'x.csv')
    assert code == 0
    assert '840 poses of 2 bodies' in out.out
    rows = read_csv(tmp_path / 'x.csv', delimiter)
    for name in ('wand', 'drone/left'):
        expected = [p for p in poses if p[0] == f'/{name}/pose']
        found = [r for r in rows if r['body'] == name]
        assert len(found) == len(expected)
        for row, (_, log_ns, stamp_ns, position, quat) in zip(found, expected):
            assert (row['stamp'], row['arrival']) == (seconds(stamp_ns), seconds(log_ns))
            assert tuple(float(row[k]) for k in 'xyz') == position
            assert tuple(float(row[f'q{k}']) for k in 'xyzw') == quat
            assert row['resampled'] == '0'
    segments = {r['segment'] for r in rows if r['body'] == 'wand'}
    assert segments == {'0', '1'}


def test_resampled_rows_bridge_no_gaps_or_jumps(tmp_path, capsys):
    folder, _ = bag(tmp_path, jump_at=360)
    assert export(capsys, folder, '-o', tmp_path / 'x.csv', '--resample', 100)[0] == 0
    wand = [r for r in read_csv(tmp_path / 'x.csv') if r['body'] == 'wand']
    times = np.array([float(r['stamp']) - BEGIN_NS / 1e9 for r in wand])
    assert not ((times > 119 * PERIOD_NS / 1e9) & (times < 240 * PERIOD_NS / 1e9)).any()
    x = np.array([float(r['x']) for r in wand])
    # 0.24 m/s everywhere but across the jump, where no row lies between
    expected = 0.24 * times + np.where(times > 359.5 * PERIOD_NS / 1e9, 3.0, 0.0)
    np.testing.assert_allclose(x, expected, atol=1e-6)
    assert {r['segment'] for r in wand} == {'0', '1', '2'}
    assert {r['resampled'] for r in wand} == {'0', '1'}
    assert all(r['arrival'] == '' for r in wand if r['resampled'] == '1')


def test_a_part_in_ned(tmp_path, capsys):
    folder, poses = bag(tmp_path)
    assert export(capsys, folder, '-o', tmp_path / 'x.csv', '--frame', 'ned', '--body', 'wand',
                  '--start', 1.5, '--end', 1.75)[0] == 0
    rows = read_csv(tmp_path / 'x.csv')
    assert len(rows) == 60
    by_stamp = {seconds(p[2]): p for p in poses if 'wand' in p[0]}
    ned_enu = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
    flu_frd = np.diag((1, -1, -1))
    for row in rows:
        _, _, _, position, quat = by_stamp[row['stamp']]
        np.testing.assert_allclose(
            [float(row[k]) for k in 'xyz'], ned_enu @ position, atol=1e-12)
        found = Rotation.from_quat([float(row[f'q{k}']) for k in 'xyzw']).as_matrix()
        np.testing.assert_allclose(
            found, ned_enu @ Rotation.from_quat(quat).as_matrix() @ flu_frd, atol=1e-12)


@pytest.fixture
def read_parquet(tmp_path, capsys, monkeypatch):
    """Export to Parquet in small groups of rows, and read it."""
    parquet = independent('pyarrow.parquet')
    monkeypatch.setattr(export_command, 'ROW_GROUP', 100)

    def read(folder, *arguments):
        path = tmp_path / 'x.parquet'
        assert export(capsys, folder, '--format', 'parquet', '-o', path, *arguments)[0] == 0
        file = parquet.ParquetFile(path)
        assert max(file.metadata.row_group(i).num_rows
                   for i in range(file.num_row_groups)) <= 100
        return file.read().to_pydict()
    return read


def test_parquet_is_read_by_pyarrow_with_equal_values(tmp_path, read_parquet):
    folder, poses = bag(tmp_path)
    found = read_parquet(folder)
    wand = [(s, x, y, z) for b, s, x, y, z in zip(
        found['body'], found['stamp_ns'], found['x'], found['y'], found['z']) if b == 'wand']
    assert wand == [(p[2], *p[3]) for p in poses if p[0] == '/wand/pose']


def test_parquet_of_a_part_without_the_first_body(tmp_path, read_parquet):
    folder, _ = bag(tmp_path)
    assert read_parquet(folder, '--start', 0.6, '--end', 0.9)['body'] == ['drone/left'] * 72


def test_tum_holds_one_body(tmp_path, capsys):
    folder, _ = bag(tmp_path)
    code, out = export(capsys, folder, '--format', 'tum', '-o', tmp_path / 'x.txt')
    assert code == USAGE
    assert '--body' in out.err
    assert export(capsys, folder, '--format', 'tum', '--body', 'wand', '-o',
                  tmp_path / 'x.txt')[0] == 0
    assert len((tmp_path / 'x.txt').read_text().splitlines()) == 360
    assert export(capsys, folder, '--body', 'umbrella', '-o', tmp_path / 'y')[0] == USAGE


def test_a_raw_capture_is_exported_as_the_library_sent_it(tmp_path, capsys):
    assert export(capsys, capture('motive_like_5x240'), '--body', 'wand', '-o',
                  tmp_path / 'x.csv')[0] == 0
    found = {(float(r['x']), float(r['y']), float(r['z']))
             for r in read_csv(tmp_path / 'x.csv')}
    expected = {(v[2], v[0], v[1]) for v in (
        row.vector for row in sessions.sent('motive_like_5x240', 'pose') if row.body == 'wand')}
    assert len(found) > 1500
    assert found <= expected


def test_stored_rows_are_those_added_of_each_topic():
    rng = np.random.default_rng(5)
    scratch = Scratch()
    topics = [(StoredRows(scratch), []) for _ in range(3)]
    for number in range(0, 60_000, 10):    # several blocks, and a rest
        rows = np.empty(10, ROW)
        rows['stamp'] = rows['arrival'] = BEGIN_NS + number + np.arange(10)
        rows['pose'] = rng.normal(size=(10, 7))
        stored, kept = topics[number // 10 % 5 % 3]
        stored.add(rows)
        kept.append(rows)
    for stored, kept in topics:
        assert (stored.table() == np.concatenate(kept)).all()
        assert stored.left_out == 0


def test_one_body_of_a_bag_is_in_memory_at_a_time(tmp_path):
    folder, _ = bag(tmp_path)
    take = load_take(folder)
    first, second = take.bodies
    kept = weakref.ref(take.bodies[first])
    assert kept() is take.bodies[first]
    assert take.bodies[second].name == second
    assert kept() is None


@pytest.mark.parametrize('arguments, said', [
    (['--resample', '0'], 'is not allowed'), (['--resample', '2e6'], 'is not allowed'),
    (['--start', '1.5', '--end', '1'], 'nothing is between'),
    (['--start', '9'], 'nothing is between')])
def test_rows_that_cannot_be_leave_the_old_file(tmp_path, capsys, arguments, said):
    folder, _ = bag(tmp_path)
    kept = ','.join(COLUMNS) + '\nkept'
    (tmp_path / 'x.csv').write_text(kept)
    code, out = export(capsys, folder, '-o', tmp_path / 'x.csv', *arguments)
    assert code == USAGE
    assert said in out.err
    assert (tmp_path / 'x.csv').read_text() == kept


def skeleton_bag(folder, lost=()):
    """Record a figure of 51 bones beside a body, each bone in its parent, at 120 Hz for 1 s."""
    times = np.arange(120) / 120.0
    positions, quats = Walker(BONES_51).at(times)
    axes = Axes(AxesConfig(), Transform())
    model = SkeletonModel('Bob', tuple(bone.name for bone in BONES_51), tuple(
        bone.parent - 1 for bone in BONES_51), tuple(bone.offset for bone in BONES_51))
    names = tuple(f'Bob_{bone}' for bone in model.bones)
    kind = 'tf2_msgs/msg/TFMessage'
    writer = BagWriter(folder, 'none')
    channel = add_topic(writer, topic('/tf', kind), 1)
    for i in range(len(times)):
        figure = Figure(model, 'Bob', names, model.bones, axes.positions(positions[i]),
                        axes.quats(quats[i]), np.ones(51, bool))
        places, turns, _ = relative(figure)
        stamp = BEGIN_NS + round(times[i] * 1e9) + (-1) ** i * 9000    # exposures scatter
        rows = [('optitrack' if parent < 0 else names[parent], name, place, turn)
                for parent, name, place, turn in zip(
                    model.parents, names, places.tolist(), turns.tolist())
                if (i, name) not in lost]
        rows.append(('optitrack', 'Bob_drone', (0.0, 0.0, i), (0.0, 0.0, 0.0, 1.0)))
        made = make('tf2_msgs/TFMessage', [make(
            'geometry_msgs/TransformStamped', header(stamp, parent), name, make(
                'geometry_msgs/Transform', make('geometry_msgs/Vector3', *place),
                make('geometry_msgs/Quaternion', *turn)))
            for parent, name, place, turn in rows])
        writer.write(Message(channel, i, stamp, stamp, cdr(made)), stamp)
    writer.close()
    return positions, quats


def test_bvh_has_every_bone_where_it_was_by_another_reader(tmp_path, capsys):
    pybvh = independent('pybvh')
    lost = {(30, 'Bob_LHand'), *((i, 'Bob_Hip') for i in (50, 51, 52))}
    positions, quats = skeleton_bag(tmp_path / 'take', lost)
    code, out = export(capsys, tmp_path / 'take', '--format', 'bvh', '-o', tmp_path / 'x.bvh')
    assert code == 0 and 'interpolated: 4' in out.out and '0.0 mm' in out.out, out
    read = pybvh.read_bvh_file(tmp_path / 'x.bvh')
    assert read.frame_count == 120 and read.frame_time == pytest.approx(1 / 120, abs=1e-6)
    where = read.joint_positions()
    _, matrices = read.to_rotmat()
    turned_world = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    whole = np.array([i not in (30, 50, 51, 52) for i in range(120)])
    for number, bone in enumerate(BONES_51):
        # Bones have Motive's axes; x of the world is east, which is Motive's z here.
        row = read.joint_index[bone.name]
        away = np.abs(where[:, row] / 100.0 - positions[:, number] @ turned_world.T)
        assert away[whole].max() < 1e-6 and away.max() < 0.01
        turn = Rotation.from_matrix(turned_world) * Rotation.from_quat(quats[:, number])
        if bone.parent:
            turn = Rotation.from_quat(quats[:, bone.parent - 1]).inv() * Rotation.from_quat(
                quats[:, number])
        turned = (turn.inv() * Rotation.from_matrix(matrices[:, row])).magnitude()
        assert turned[whole].max() < 1e-6 and turned.max() < 0.1


def test_an_export_of_a_damaged_bag_says_how_much_is_missing(tmp_path, capsys):
    folder, poses = tmp_path / 'take', poses_of(1.0, seconds=20.0)
    written(folder, {'/a/pose': (POSE, poses)})
    file = folder / 'take.mcap'
    whole = file.read_bytes()
    assert export(capsys, folder, '-o', tmp_path / 'x.csv')[0] == 0
    half = len(whole) // 2
    for data, said in (
            (whole[:half], 'messages that it counts and lacks: '),
            (whole[:half] + bytes(1000) + whole[half + 1000:], 'damaged in 1 place')):
        file.write_bytes(data)
        code, out = export(capsys, folder, '-o', tmp_path / 'x.csv')
        assert code == 1 and 'poses of the recording are missing: ' in out.err
        assert said in out.err and len(out.err.splitlines()) == 1
        assert len((tmp_path / 'x.csv').read_text().splitlines()) - 1 < len(poses)
        assert report_command.main([str(folder), '-o', str(tmp_path / 'r.html')]) == 0
        capsys.readouterr()
    file.write_bytes(whole[:200])
    code, out = export(capsys, folder, '-o', tmp_path / 'x.csv')
    assert code == 1 and 'no pose can be read' in out.err
