# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Exports read with other software, and Motive's own CSV as input."""

import csv
import weakref

import numpy as np
from optitrack_vrpn.cli.arguments import USAGE
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording import export_command
from optitrack_vrpn.recording.rows_io import Scratch, StoredRows
from optitrack_vrpn.recording.take_io import load_take
import pcap
import pytest
from recording_kit import BEGIN_NS, write_poses
from scipy.spatial.transform import Rotation
import sessions

PERIOD_NS = 4_166_667
HALF = np.sqrt(0.5)


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


def read_csv(path, delimiter=','):
    with open(path, newline='') as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.mark.parametrize('kind, delimiter', [('csv', ','), ('csv-semicolon', ';')])
def test_csv_keeps_every_bit_and_nanosecond(tmp_path, capsys, kind, delimiter):
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
            assert row['stamp'] == f'{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}'
            assert row['arrival'] == f'{log_ns // 10**9}.{log_ns % 10**9:09d}'
            assert tuple(float(row[k]) for k in 'xyz') == position
            np.testing.assert_allclose(
                [float(row[f'q{k}']) for k in 'xyzw'], quat, rtol=0, atol=3e-16)
            assert row['resampled'] == '0'
    segments = {r['segment'] for r in rows if r['body'] == 'wand'}
    assert segments == {'0', '1'}


def test_resampled_rows_are_marked_and_never_bridge_gaps_or_jumps(tmp_path, capsys):
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


def test_ned_start_and_end(tmp_path, capsys):
    folder, poses = bag(tmp_path)
    assert export(capsys, folder, '-o', tmp_path / 'x.csv', '--frame', 'ned', '--body', 'wand',
                  '--start', 1.5, '--end', 1.75)[0] == 0
    rows = read_csv(tmp_path / 'x.csv')
    assert len(rows) == 60
    by_stamp = {f'{p[2] // 10**9}.{p[2] % 10**9:09d}': p for p in poses if 'wand' in p[0]}
    ned_enu = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
    flu_frd = np.diag((1, -1, -1))
    for row in rows:
        _, _, _, position, quat = by_stamp[row['stamp']]
        np.testing.assert_allclose(
            [float(row[k]) for k in 'xyz'], ned_enu @ position, atol=1e-12)
        found = Rotation.from_quat([float(row[f'q{k}']) for k in 'xyzw']).as_matrix()
        np.testing.assert_allclose(
            found, ned_enu @ Rotation.from_quat(quat).as_matrix() @ flu_frd, atol=1e-12)


def test_parquet_is_read_by_pyarrow_with_equal_values(tmp_path, capsys):
    parquet = pytest.importorskip('pyarrow.parquet')
    folder, poses = bag(tmp_path)
    assert export(capsys, folder, '--format', 'parquet', '-o', tmp_path / 'x.parquet')[0] == 0
    found = parquet.read_table(tmp_path / 'x.parquet').to_pydict()
    wand = [(s, x, y, z) for b, s, x, y, z in zip(
        found['body'], found['stamp_ns'], found['x'], found['y'], found['z']) if b == 'wand']
    assert wand == [(p[2], *p[3]) for p in poses if p[0] == '/wand/pose']


def test_parquet_of_a_part_without_the_first_body_has_the_others(tmp_path, capsys):
    parquet = pytest.importorskip('pyarrow.parquet')
    folder, _ = bag(tmp_path)
    assert export(capsys, folder, '--format', 'parquet', '-o', tmp_path / 'x.parquet',
                  '--start', 0.6, '--end', 0.9)[0] == 0
    found = parquet.read_table(tmp_path / 'x.parquet').to_pydict()
    assert set(found['body']) == {'drone/left'}
    assert len(found['body']) == 72


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
    assert export(capsys, pcap.DATA / 'motive_like_5x240.pcap', '--body', 'wand', '-o',
                  tmp_path / 'x.csv')[0] == 0
    found = {(float(r['x']), float(r['y']), float(r['z']))
             for r in read_csv(tmp_path / 'x.csv')}
    expected = {(v[2], v[0], v[1]) for v in (
        row.vector for row in sessions.sent('motive_like_5x240', 'pose') if row.body == 'wand')}
    assert len(found) > 1500
    assert found <= expected


MOTIVE = """\
Format Version,1.23,Take Name,take 7,Capture Frame Rate,240.000000,Export Frame Rate,240.000000,\
Rotation Type,Quaternion,Length Units,{units},Coordinate Space,Global

,Type,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,\
Rigid Body Marker,Rigid Body Marker,Rigid Body Marker
,Name,"wand","wand","wand","wand","wand","wand","wand","wand",m:1,m:1,m:1
,ID,1,1,1,1,1,1,1,1,2,2,2
,,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,Mean Marker Error,Position,\
Position,Position
Frame,Time (Seconds),X,Y,Z,W,X,Y,Z,,X,Y,Z
0,0.000000,0,0,0,1,{x},{y},{z},0.1,9,9,9
1,0.004167,,,,,,,,,9,9,9
2,0.008333,0,0.6,0,0.8,{x},{y},{z},0.1,9,9,9
"""


@pytest.mark.parametrize('units, scale', [('Meters', 1), ('Millimeters', 1000)])
def test_motives_own_csv_is_read_with_its_units_axes_and_blanks(tmp_path, units, scale):
    (tmp_path / 'm.csv').write_text(MOTIVE.format(
        units=units, x=1 * scale, y=2 * scale, z=3 * scale))
    take = load_take(tmp_path / 'm.csv')
    assert list(take.bodies) == ['wand']
    trajectory = take.bodies['wand'].trajectory
    assert trajectory.stamps_ns.tolist() == [0, 8_333_000]
    np.testing.assert_allclose(trajectory.positions, [(3, 1, 2)] * 2)    # E = z, N = x, U = y
    np.testing.assert_allclose(np.abs(trajectory.quats_xyzw[0]), (0, 0, HALF, HALF), atol=1e-12)


#: Labels of one rigid body beside other things, as versions of Motive export them.
VERSIONS = {
    # Motive 1.x: rows without labels, and the short name of the time.
    '1.2': ('', """\
,,Marker,Marker,Marker,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,\
Rigid Body,Rigid Body
,,wand_1,wand_1,wand_1,wand,wand,wand,wand,wand,wand,wand,wand
,,"0C1D","0C1D","0C1D","0C1E","0C1E","0C1E","0C1E","0C1E","0C1E","0C1E","0C1E"
,,Position,Position,Position,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,\
Error Per Marker
Frame,Time,X,Y,Z,X,Y,Z,W,X,Y,Z,
""", '9,9,9,{pose},0.0002'),
    # Motive 2.0.
    '1.21': (',Capture Start Time,2018-10-05 12.05.03.445 P.M.', """\
,Type,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,\
Rigid Body Marker,Rigid Body Marker,Rigid Body Marker,Rigid Body Marker
,Name,wand,wand,wand,wand,wand,wand,wand,wand,wand:Marker1,wand:Marker1,wand:Marker1,wand:Marker1
,ID,"A1","A1","A1","A1","A1","A1","A1","A1","A2","A2","A2","A2"
,,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,Mean Marker Error,Position,\
Position,Position,Marker Quality
Frame,Time (Seconds),X,Y,Z,W,X,Y,Z,,X,Y,Z,
""", '{pose},0.0002,9,9,9,1'),
    # Motive 2.2 and 3.0: a note, which holds commas here, and markers without a body.
    '1.23': (',Take Notes,cameras 1, 2, 3 moved,Capture Start Frame,0', """\
,Type,Marker,Marker,Marker,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,\
Rigid Body,Rigid Body
,Name,Unlabeled 1000,Unlabeled 1000,Unlabeled 1000,wand,wand,wand,wand,wand,wand,wand,wand
,ID,"9F:1","9F:1","9F:1","B7:2","B7:2","B7:2","B7:2","B7:2","B7:2","B7:2","B7:2"
,,Position,Position,Position,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,\
Mean Marker Error
Frame,Time (Seconds),X,Y,Z,X,Y,Z,W,X,Y,Z,
""", '9,9,9,{pose},0.0002'),
    # Motive 3.1: a row of parents, and bones of a skeleton, which are no rigid bodies.
    '1.25': (',Take Notes,', """\
,Type,Bone,Bone,Bone,Bone,Bone,Bone,Bone,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,\
Rigid Body,Rigid Body,Rigid Body
,Name,900:Hip,900:Hip,900:Hip,900:Hip,900:Hip,900:Hip,900:Hip,wand,wand,wand,wand,wand,wand,wand,\
wand
,ID,"1","1","1","1","1","1","1","2","2","2","2","2","2","2","2"
,Parent,Root,Root,Root,Root,Root,Root,Root,,,,,,,,
,,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,Rotation,Rotation,Rotation,\
Rotation,Position,Position,Position,Mean Marker Error
Frame,Time (Seconds),X,Y,Z,W,X,Y,Z,X,Y,Z,W,X,Y,Z,
""", '0,0,0,1,8,8,8,{pose},0.0002'),
}


@pytest.mark.parametrize('byte_order_mark', [False, True])
@pytest.mark.parametrize('version', VERSIONS)
def test_exports_of_all_versions_of_motive_are_read(tmp_path, version, byte_order_mark):
    more, labels, row = VERSIONS[version]
    text = (f'Format Version,{version},Take Name,take 7,Capture Frame Rate,120.000000,'
            f'Export Frame Rate,120.000000{more},Total Frames in Take,2,Total Exported Frames,2,'
            'Rotation Type,Quaternion,Length Units,Centimeters,Coordinate Space,Global\r\n\r\n'
            + labels.replace('\n', '\r\n'))
    poses = ('0,0.6,0,0.8,100,200,300', ',,,,,,', '0,0.8,0,0.6,400,500,600')
    for number, pose in enumerate(poses):
        cells = row.format(pose=pose)
        text += f'{number},{number / 120:.6f},{cells}\r\n'
    encoding = 'utf-8-sig' if byte_order_mark else 'utf-8'
    (tmp_path / 'm.csv').write_bytes(text.encode(encoding))
    take = load_take(tmp_path / 'm.csv')
    assert list(take.bodies) == ['wand']
    assert take.name == 'take 7'
    trajectory = take.bodies['wand'].trajectory
    assert trajectory.stamps_ns.tolist() == [0, 16_667_000]
    np.testing.assert_allclose(trajectory.positions, [(3, 1, 2), (6, 4, 5)])
    # Motive's y is up; its z and x are east and north here, and its nose along x is FLU's.
    turn = 2 * np.arctan2(0.6, 0.8)
    yaw = trajectory.rotations[0].as_euler('ZYX')[0]
    assert yaw == pytest.approx(np.pi / 2 + turn)


def test_lengths_without_a_unit_are_refused(tmp_path):
    text = MOTIVE.format(units='Meters', x=1, y=2, z=3).replace('Length Units,Meters,', '')
    (tmp_path / 'm.csv').write_text(text)
    with pytest.raises(ConfigurationError, match='Length Units'):
        load_take(tmp_path / 'm.csv')


@pytest.mark.parametrize('before, after, said', [
    ('Quaternion', 'XYZ', 'rotation type'), ('Global', 'Local', 'coordinate space Global'),
    ('Frame,Time', 'Row,Time', 'begins with Frame'), ('0.6,0,0.8', '0.6,abc,0.8', 'abc'),
    ('take 7', '"take 7' + 200_000 * ' ', 'not valid CSV')])
def test_what_is_wrong_with_a_motive_csv_is_said(tmp_path, before, after, said):
    text = MOTIVE.format(units='Meters', x=1, y=2, z=3)
    (tmp_path / 'm.csv').write_text(text.replace(before, after))
    with pytest.raises(ConfigurationError, match=said):
        load_take(tmp_path / 'm.csv')


def test_poses_on_disk_are_those_that_were_added_of_each_topic():
    rng = np.random.default_rng(5)
    scratch = Scratch()
    topics = [(StoredRows(scratch), []) for _ in range(3)]
    for number in range(6000):    # several blocks, and a rest
        row = BEGIN_NS + number, BEGIN_NS + number // 2, rng.normal(size=7).tolist()
        stored, kept = topics[number % 5 % 3]
        stored.add(*row)
        kept.append(row)
    for stored, kept in topics:
        for found, expected in zip(stored.columns(), zip(*kept)):
            np.testing.assert_array_equal(found, expected)


def test_one_body_of_a_bag_is_in_memory_at_a_time(tmp_path):
    folder, _ = bag(tmp_path)
    take = load_take(folder)
    first, second = take.bodies
    kept = weakref.ref(take.bodies[first])
    assert kept() is take.bodies[first]
    assert take.bodies[second].name == second
    assert kept() is None


def test_parquet_has_a_row_group_for_each_part_of_a_body(tmp_path, capsys, monkeypatch):
    parquet = pytest.importorskip('pyarrow.parquet')
    monkeypatch.setattr(export_command, 'ROW_GROUP', 100)
    folder, _ = bag(tmp_path)
    assert export(capsys, folder, '--format', 'parquet', '-o', tmp_path / 'x.parquet')[0] == 0
    file = parquet.ParquetFile(tmp_path / 'x.parquet')
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert max(sizes) == 100
    assert sum(sizes) == file.metadata.num_rows


@pytest.mark.parametrize('arguments, said', [
    (['--resample', '0'], 'is not allowed'), (['--resample', '2e6'], 'is not allowed'),
    (['--start', '1.5', '--end', '1'], 'nothing is between'),
    (['--start', '9'], 'nothing is between')])
def test_rows_that_cannot_be_leave_the_old_file(tmp_path, capsys, arguments, said):
    folder, _ = bag(tmp_path)
    (tmp_path / 'x.csv').write_text('kept')
    code, out = export(capsys, folder, '-o', tmp_path / 'x.csv', *arguments)
    assert code == USAGE
    assert said in out.err
    assert (tmp_path / 'x.csv').read_text() == 'kept'
