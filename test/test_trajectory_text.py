# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files of trajectories in the forms in which datasets and programs write them."""

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.take_io import load_estimate
from optitrack_vrpn.takes.trajectory_text import parse_trajectory
import pytest

#: Stamp, x y z, x y z w; stamps have six decimals, as most files have.
ROWS = [(f'14036365{n:02d}.250000', (0.1 * n, -1.5, 0.25), (0.1, 0.2, 0.3, 0.9 + 0.01 * n))
        for n in range(5)]
EUROC = ('#timestamp, p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], '
         'q_RS_z [], v_RS_R_x [m s^-1], v_RS_R_y [m s^-1], v_RS_R_z [m s^-1], b_w_RS_S_x [rad '
         's^-1], b_w_RS_S_y [rad s^-1], b_w_RS_S_z [rad s^-1], b_a_RS_S_x [m s^-2], b_a_RS_S_y '
         '[m s^-2], b_a_RS_S_z [m s^-2]')
TUM_VI = ('#timestamp [ns],p_RS_R_x [m],p_RS_R_y [m],p_RS_R_z [m],q_RS_w [],q_RS_x [],q_RS_y [],'
          'q_RS_z []')


def whole(stamp, digits=9):
    seconds, decimals = stamp.split('.')
    return seconds + decimals.ljust(9, '0')[:digits]


def rows(form, between=' '):
    return [between.join(map(str, form(stamp, p, q))) for stamp, p, q in ROWS]


def w_last(stamp, p, q):
    return stamp, *p, *q


def w_first(stamp, p, q):
    return stamp, *p, q[3], *q[:3]


def of_datasets(stamp, p, q):
    return whole(stamp), *p, q[3], *q[:3]


FORMS = {
    'TUM': rows(w_last),
    'with comments of TUM': ['# ground truth trajectory', '# file: a.bag',
                             '# timestamp tx ty tz qx qy qz qw', *rows(w_last)],
    'with a header': ['timestamp tx ty tz qx qy qz qw', *rows(w_last)],
    'w first by the header': ['# timestamp tx ty tz qw qx qy qz', *rows(w_first)],
    'position last by the header': [
        'time,qx,qy,qz,qw,x,y,z', *rows(lambda s, p, q: (s, *q, *p), ',')],
    'commas': rows(w_last, ','), 'tabs': rows(w_last, '\t'), 'commas and blanks': rows(
        w_last, ', '),
    'EuRoC': [EUROC, *rows(lambda *row: (*of_datasets(*row), *[0.5] * 9), ',')],
    'EuRoC without its header': rows(lambda *row: (*of_datasets(*row), *[0.5] * 9), ','),
    'TUM-VI': [TUM_VI, *rows(of_datasets, ',')],
    'TUM-VI in seconds': [TUM_VI.replace('[ns]', '[s]'), *rows(w_first, ',')],
    'nanoseconds': rows(lambda s, p, q: (whole(s), *p, *q)),
    'microseconds': rows(lambda s, p, q: (whole(s, 6), *p, *q)),
    'milliseconds': rows(lambda s, p, q: (whole(s, 3), *p, *q)),
    'a repeated stamp': [line for line in rows(w_last) for _ in range(2)]}


@pytest.mark.parametrize('name', FORMS)
@pytest.mark.parametrize('begin, end', [('', '\n'), ('\ufeff', '\n'), ('', ' \r\n')])
def test_a_form_is_read_as_the_poses_that_it_holds(tmp_path, name, begin, end):
    file = tmp_path / 'a.txt'
    file.write_bytes((begin + ''.join(line + end for line in FORMS[name])).encode())
    found = load_estimate(file)
    assert found.stamps_ns.tolist() == [int(whole(stamp)) for stamp, _, _ in ROWS]
    np.testing.assert_array_equal(found.positions, [p for _, p, _ in ROWS])
    np.testing.assert_array_equal(found.quats_xyzw, [q for _, _, q in ROWS])


@pytest.mark.parametrize('line, said', [
    ('2.0 0 0 0 0 0 0', '7 values'), ('1 2.0 0 0 0 0 0 0 1', '9 values'),
    ('now 0 0 0 0 0 0 1', 'not a time'), ('inf 0 0 0 0 0 0 1', 'not a time'),
    ('1e10 0 0 0 0 0 0 1', 'not a time'), ('1e999999 0 0 0 0 0 0 1', 'not a time'),
    ('2.0 nan 0 0 0 0 0 1', 'nan is no number'), ('2.0 0 0 0 0 0 0 inf', 'inf is no number'),
    ('2.0 0 0 0 0 0 0 0', 'quaternion is zero'), ('0.5 0 0 0 0 0 0 1', '0.500000 s before')])
def test_a_broken_line_is_named(line, said):
    with pytest.raises(ConfigurationError, match=rf'a\.txt, line 3: .*{said}'):
        parse_trajectory(['# stamp x y z', '1.0 0 0 0 0 0 0 1', line], 'a.txt')


@pytest.mark.parametrize('lines', [[], ['# nothing']])
def test_a_file_without_poses_says_so(lines):
    with pytest.raises(ConfigurationError, match=r'a\.txt: contains no pose'):
        parse_trajectory(lines, 'a.txt')
