# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""CSV exports of Motive: labels in any case and order, and what is wrong with a file."""

import importlib.util

import numpy as np
from optitrack_vrpn.cli.arguments import USAGE
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.assess import report_command
from optitrack_vrpn.takes.export import export_command
from optitrack_vrpn.takes.take_io import load_take
import pytest
from recording_kit import BEGIN_NS, write_poses


def export(capsys, *arguments):
    code = export_command.main(list(map(str, arguments)))
    return code, capsys.readouterr()


POSE = [('Rotation', 'XYZW'), ('Position', 'XYZ')]
LABELS = ['Type', 'Name', 'ID', '']
#: How versions of Motive export a rigid body: labels of the rows, more cells of the first row,
#: name of the body's error, and things beside it (type, name, quantities with their axes).
VERSIONS = {
    # Motive 1.x: rows without labels, and the short name of the time.
    '1.2': (['', '', '', ''], '', 'Error Per Marker', [('Marker', 'wand_1', POSE[1:])]),
    # Motive 2.0.
    '1.21': (LABELS, ',Capture Start Time,2018-10-05 12.05.03.445 P.M.', 'Mean Marker Error',
             [('Rigid Body Marker', 'wand:Marker1', [*POSE[1:], ('Marker Quality', [''])])]),
    # Motive 2.2 and 3.0: a note, which holds commas here, and markers without a body.
    '1.23': (LABELS, ',Take Notes,cameras 1, 2, 3 moved,Capture Start Frame,0',
             'Mean Marker Error', [('Marker', 'Unlabeled 1000', POSE[1:])]),
    # Motive 3.1: a row of parents, and bones of a skeleton, which are no rigid bodies.
    '1.25': ([*LABELS[:3], 'Parent', ''], ',Take Notes,', 'Mean Marker Error',
             [('Bone', '900:Hip', POSE)]),
}


def motive_csv(version='1.23', units='Meters', metre=1):
    """Export a wand as Motive does: a pose, a frame in which it is out of view, and a pose."""
    begin, more, error, others = VERSIONS[version]
    things = [('Rigid Body', 'wand', [*POSE, (error, [''])]), *others]
    columns = [(kind, name, quantity, axis) for kind, name, quantities in things
               for quantity, axes in quantities for axis in axes]
    kinds, names, quantities, axes = zip(*columns)
    rows = [kinds, names, *[['A1'] * len(columns)] * (len(begin) - 3), quantities]
    lines = [
        f'Format Version,{version},Take Name,take 7,Capture Frame Rate,120.000000{more},'
        f'Rotation Type,Quaternion,Length Units,{units},Coordinate Space,Global', '',
        *(','.join(('', label, *row)) for label, row in zip(begin, rows)),
        ','.join(('Frame', 'Time' if version == '1.2' else 'Time (Seconds)', *axes))]
    poses = ((0, 0.6, 0, 0.8, 1 * metre, 2 * metre, 3 * metre, 0.1), [''] * 8,
             (0, 0.8, 0, 0.6, 4 * metre, 5 * metre, 6 * metre, 0.1))
    for number, pose in enumerate(poses):
        cells = [*pose, *[9] * (len(columns) - len(pose))]
        lines.append(','.join(map(str, (number, f'{number / 120:.6f}', *cells))))
    return '\r\n'.join([*lines, ''])


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig'])
@pytest.mark.parametrize('version, units, metre', [
    ('1.2', 'Meters', 1), ('1.21', 'Centimeters', 100), ('1.23', 'Millimeters', 1000),
    ('1.25', 'Meters', 1)])
def test_exports_of_all_versions_of_motive_are_read(tmp_path, version, units, metre, encoding):
    (tmp_path / 'm.csv').write_bytes(motive_csv(version, units, metre).encode(encoding))
    take = load_take(tmp_path / 'm.csv')
    assert list(take.bodies) == ['wand']
    assert take.name == 'take 7'
    trajectory = take.bodies['wand'].trajectory
    assert trajectory.stamps_ns.tolist() == [0, 16_667_000]
    np.testing.assert_allclose(trajectory.positions, [(3, 1, 2), (6, 4, 5)])    # z, x, y
    # Motive's y is up; its z and x are east and north here, and its nose along x is FLU's.
    turn = 2 * np.arctan2(0.6, 0.8)
    yaw = trajectory.rotations[0].as_euler('ZYX')[0]
    assert yaw == pytest.approx(np.pi / 2 + turn)


@pytest.mark.parametrize('before, after, said', [
    ('Length Units,Meters,', '', 'Length Units'), ('Quaternion', 'XYZ', 'rotation type'),
    ('Global', 'Local', 'coordinate space Global'),
    ('Frame,Time', 'Row,Time', 'begins with Frame'),
    ('0.6,0,0.8', '0.6,abc,0.8', 'abc'),
    ('Meters', 'Inches', 'centimeters or millimeters'), (',', ';', 'spreadsheets'),
    ('take 7', '"take 7' + 200_000 * ' ', 'not valid CSV')])
def test_what_is_wrong_with_a_motive_csv_is_said(tmp_path, before, after, said):
    (tmp_path / 'm.csv').write_text(motive_csv().replace(before, after))
    with pytest.raises(ConfigurationError, match=said):
        load_take(tmp_path / 'm.csv')


def test_bodies_without_a_pose_are_named(tmp_path, capsys):
    lines = motive_csv().splitlines()
    (tmp_path / 'm.csv').write_text('\n'.join(
        line[:line.index(',', 2)] if line[:1].isdigit() else line for line in lines))
    code, out = export(capsys, tmp_path / 'm.csv', '-o', tmp_path / 'x.csv')
    assert code == USAGE and 'pose of wand' in out.err
    write_poses(tmp_path / 'take', [
        ('/a/pose', BEGIN_NS, BEGIN_NS, (np.nan, 0.0, 0.0), (0, 0, 0, 1))])
    code, out = export(capsys, tmp_path / 'take', '-o', tmp_path / 'x.csv')
    assert code == USAGE and 'no pose; 1 are left out: not finite' in out.err


@pytest.mark.parametrize('change', [
    lambda text: text.replace('X,Y,Z,W,X,Y,Z', 'X,Y,Z,w,X,Y,Z'),
    lambda text: text.replace('X,Y,Z,W,X,Y,Z', 'x,y,z,w,x,y,z'),
    lambda text: text.replace('Rotation,', 'rotation,').replace('Position,', 'POSITION,'),
    lambda text: text.replace('Rigid Body,', 'rigid body,').replace(',Name,', ',name,'),
    lambda text: text.replace('Format Version', 'format version').replace('Frame,T', 'frame,t'),
    lambda text: text.replace('Quaternion', 'quaternion').replace('Global', 'GLOBAL')])
def test_labels_of_an_export_are_compared_without_case(tmp_path, capsys, change):
    assert change(motive_csv()) != motive_csv()
    (tmp_path / 'm.csv').write_text(change(motive_csv()))
    (tmp_path / 'plain.csv').write_text(motive_csv())
    for name in ('m', 'plain'):
        assert export(capsys, tmp_path / f'{name}.csv', '-o', tmp_path / f'{name}_out.csv')[0] == 0
    assert (tmp_path / 'm_out.csv').read_text() == (tmp_path / 'plain_out.csv').read_text()


def exported(bodies, order='XYZWxyz', stated=None, rows=40):
    """Export bodies (name, first position), with their columns in any order."""
    letters = [(('Position' if axis.islower() else 'Rotation'), axis.upper()) for axis in order]
    lines = [
        f'Format Version,1.23,Take Name,t,Total Exported Frames,{stated or rows},Rotation Type,'
        'Quaternion,Length Units,Meters,Coordinate Space,Global', '',
        ',Type' + ',Rigid Body' * len(letters) * len(bodies),
        ',Name' + ''.join(f',{name}' * len(letters) for name, _ in bodies),
        ',ID' + ''.join(f',{n}' * len(letters) for n, _ in enumerate(bodies)),
        ',,' + ','.join(kind for _ in bodies for kind, _ in letters),
        'Frame,Time (Seconds),' + ','.join(axis for _ in bodies for _, axis in letters)]
    for row in range(rows):
        values = []
        for _, x in bodies:
            pose = {'W': 0.8, 'X': 0.6, 'Y': 0.0, 'Z': 0.0, 'x': x, 'y': 0.25, 'z': 0.001 * row}
            values += [pose[axis] for axis in order]
        lines.append(f'{row},{row / 120:.6f},' + ','.join(f'{value:.6f}' for value in values))
    return '\n'.join([*lines, ''])


def test_columns_of_a_body_are_found_in_any_order(tmp_path):
    found = []
    for number, order in enumerate(('XYZWxyz', 'WXYZxyz', 'xyzWXYZ', 'zWyXxZY')):
        (tmp_path / f'{number}.csv').write_text(exported([('wand', 1.0)], order))
        found.append(load_take(tmp_path / f'{number}.csv').bodies['wand'].table())
    for other in found[1:]:
        assert other.tobytes() == found[0].tobytes()


@pytest.mark.parametrize('by_pyarrow', [True, False])
def test_stamps_of_an_export_have_nine_digits_from_zero_on(
        tmp_path, capsys, monkeypatch, by_pyarrow):
    """Takes of Motive begin at 0, which pyarrow writes as 0E-9."""
    if not by_pyarrow:
        monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    (tmp_path / 'm.csv').write_text(exported([('wand', 1.0)], rows=3))
    assert export(capsys, tmp_path / 'm.csv', '-o', tmp_path / 'x.csv')[0] == 0
    rows = [line.split(',') for line in (tmp_path / 'x.csv').read_text().splitlines()[1:]]
    assert [row[0] for row in rows] == ['0.000000000', '0.008333000', '0.016667000']


def test_bodies_of_one_name_are_all_read_numbered_and_named(tmp_path, capsys):
    (tmp_path / 'm.csv').write_text(exported(
        [('wand', 1.0), ('wand_2', 2.0), ('wand', 3.0), ('wand', 4.0)]))
    take = load_take(tmp_path / 'm.csv')
    north = {name: float(body.table()['pose'][0, 1]) for name, body in take.bodies.items()}
    assert north == {'wand': 1.0, 'wand_2': 2.0, 'wand_3': 3.0, 'wand_4': 4.0}
    (tmp_path / 'other.csv').write_text(exported([('wand', 1.0), ('wand', 3.0), ('wand_2', 2.0)]))
    other = load_take(tmp_path / 'other.csv').bodies
    assert other['wand_2'].table()['pose'][0, 1] == 2.0 and 'wand_3' in other
    code, out = export(capsys, tmp_path / 'm.csv', '-o', tmp_path / 'x.csv')
    assert code == 0 and '160 poses of 4 bodies' in out.out
    assert "several bodies have the name 'wand'" in out.err
    assert report_command.main([str(tmp_path / 'm.csv'), '-o', str(tmp_path / 'r.html')]) == 0
    assert "several rigid bodies have the name 'wand'" in capsys.readouterr().out


@pytest.mark.parametrize('rows, stated, end, kept, code', [
    (40, 40, '\n', 40, 0), (40, 4, '\n', 40, 0), (14, 40, '\n', 14, 1), (14, 40, '', 13, 1),
    (40, 40, '', 40, 0)])
def test_an_export_that_is_shorter_than_stated_is_cut(
        tmp_path, capsys, rows, stated, end, kept, code):
    """The last row of a cut file can end within a number."""
    text = exported([('wand', 1.0)], stated=stated, rows=rows)
    (tmp_path / 'm.csv').write_text(text.rstrip('\n') + end)
    found, out = export(capsys, tmp_path / 'm.csv', '-o', tmp_path / 'x.csv')
    assert found == code and f'{kept} poses' in out.out
    said = f'it has {kept} of the {stated} frames that its first line states'
    assert (said in out.err) == bool(code)
    assert report_command.main([
        str(tmp_path / 'm.csv'), '--strict', '-o', str(tmp_path / 'r.html')]) == 2 * code
    assert (said in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize('change, said', [
    (lambda text: text.replace('Rigid Body', 'Marker'), "no rigid body, only 'Marker'"),
    (lambda text: text.replace('Rigid Body', 'Bone'), "no rigid body, only 'Bone'"),
    (lambda text: text.replace('Rotation,', 'Mean Marker Error,'), 'lacks the columns rotation x'),
    (lambda text: text.replace(',X,Y,Z,W,X', ',X,Y,Z,Q,X'), 'lacks the columns rotation w'),
    (lambda text: text.replace(',wand', ','), 'its rigid bodies have neither'),
    (lambda text: text.replace('Rotation', 'a').replace('Position', 'b'), 'no row of labels'),
    (lambda text: text.replace('Frame,Time', 'Number,Time'), 'no row begins with Frame')])
def test_an_export_without_a_body_says_what_it_contains(tmp_path, capsys, change, said):
    (tmp_path / 'm.csv').write_text(change(exported([('wand', 1.0)])))
    code, out = export(capsys, tmp_path / 'm.csv', '-o', tmp_path / 'x.csv')
    assert code == USAGE and said in out.err
