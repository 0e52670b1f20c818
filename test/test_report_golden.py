# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Reports of twelve takes, equal to those stored in ``data/reports.json``.

``python test/test_report_golden.py`` writes that file anew; every change of it changes
texts for users, and is reviewed line by line.
"""

import json
import math
from pathlib import Path
import tempfile

import numpy as np
from optitrack_vrpn.cli.files_io import json_text
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.assess.report_data import report_data, severity_of
from optitrack_vrpn.takes.assess.rules import findings
from optitrack_vrpn.takes.take_io import load_take
import pytest
from raw_kit import capture
from recording_kit import BEGIN_NS, POSE, pose_cdr
from take_kit import body, poses_of, status, STILL, take_of, written
from test_motive_csv import exported, motive_csv
from test_recording_foreign import by_mcap, by_rosbags, mcap_writer
from test_take_corpus import (
    arriving, at_place, changed, circling, clocks, dropped, flipped, hidden, QUIET, swarm,
    with_resets)

pytest.importorskip('rosbags', reason='an independent writer')
STORED = Path(__file__).with_name('data') / 'reports.json'


def moving(seconds=20.0, lost=(), frozen=(), jump_s=99.0):
    """Give the poses of a body on a circle, with spans in which it is lost or frozen (s)."""
    for at in np.arange(0.0, seconds, 0.01).tolist():
        if any(begin <= at < end for begin, end in lost):
            continue
        held = next((begin for begin, end in frozen if begin <= at < end), at)
        angle = 0.5 * held
        yield at + 0.003, pose_cdr(
            BEGIN_NS + round(at * 1e9),
            (math.cos(angle) + (at > jump_s), math.sin(angle), 1.0 + 0.1 * math.sin(3 * held)),
            (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2)))


def lossy(folder):
    return written(folder / 'lossy', {
        '/wand/pose': (POSE, [*moving(lost=((3.0, 3.7), (9.0, 9.04)), frozen=((12.0, 12.3),),
                                      jump_s=16.0)]),
        '/wand/status': status('wand', 'TRACKED'), '/drone/status': status('drone', 'LOST'),
        '/other/pose': (POSE, [*moving(lost=((3.0, 3.7),))]),
        '/other/status': status('other', 'TRACKED')})


def damaged(folder):
    by_mcap(folder / 'damaged.mcap', chunk_size=5000, compression=mcap_writer.CompressionType.NONE)
    data = bytearray((folder / 'damaged.mcap').read_bytes())
    data[len(data) // 3 - 2000] ^= 0xff    # in a chunk, not in an index
    (folder / 'damaged.mcap').write_bytes(data)
    return load_take(folder / 'damaged.mcap')


def killed(folder):
    rows = poses_of(0.5)
    rows[200:] = [(at, pose_cdr(BEGIN_NS + 10**7 * (k % 150), (0.0, 0.0, math.nan * (k % 7 == 0)),
                                STILL)) for k, (at, _) in enumerate(rows[200:])]
    written(folder / 'whole', {'/wand/pose': (POSE, rows)})
    path = folder / 'whole' / 'whole.mcap'
    path.write_bytes(path.read_bytes()[:-4000])
    return load_take(path)


def foreign(folder):
    by_rosbags(folder / 'foreign', {'/tf': 'tf2_msgs/msg/TFMessage'}, 'SQLITE3')
    return load_take(folder / 'foreign')


def covariances(folder):
    by_rosbags(folder / 'covariances', {
        '/wand/pose_cov': 'geometry_msgs/msg/PoseWithCovarianceStamped',
        '/camera/odom': 'nav_msgs/msg/Odometry'})
    return load_take(folder / 'covariances')


def csv(folder, text):
    (folder / 'export.csv').write_text(text)
    return load_take(folder / 'export.csv')


def restarted(_):
    made = changed(hidden(body()), 5.0, metres=0.7, degrees=30.0)
    return take_of(with_resets(made, 5.0), *swarm(4, 3, hidden), **clocks(
        *((at, int(at > 4.5), 300.0 + 5000.0 * (at == 5)) for at in range(10))))


def alone(_):
    first = circling('b')
    return take_of(flipped(body('a', noise_m=0.0012)), first, at_place(circling('c'), first, 0.3),
                   arriving(body('d', **QUIET), 0.060), dropped(body('e')),
                   arriving(body('f', **QUIET), -0.02), unseen=['g'])


#: By name; each gets a folder for its files.
TAKES = {
    'good': lambda _: take_of(circling()), 'lossy': lossy, 'damaged': damaged, 'killed': killed,
    'restarted': restarted, 'each its own fault': alone, 'foreign': foreign,
    'covariances': covariances, 'export': lambda folder: csv(folder, motive_csv()),
    'export cut': lambda folder: csv(folder, exported(
        [('wand', 1.0), ('wand', 3.0)], stated=400, rows=144)),
    'real server': lambda _: load_take(capture('vrpn_server_spin')),
    'real server restarted': lambda _: load_take(capture('late_server_then_restart'))}


def reported(name):
    """Report on a take, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        take = TAKES[name](Path(folder))
        figures = [body_figures(take, one) for one in take.bodies.values() if len(one.rows) > 1]
        found = findings(take, figures)
        data = json.loads(json_text(report_data(take, found, figures, severity_of(found))))
    del data['notes']    # with the version of the package
    return data


@pytest.mark.parametrize('name', TAKES)
def test_the_report_of_a_take_is_the_stored_one(name):
    stored = json.loads(STORED.read_text())[name]
    differences = [*compare(reported(name), stored)]
    assert not differences


def compare(one, other, where=''):
    """Yield where two reports differ; numbers may differ in the ninth digit."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from compare(one.get(key), other.get(key), f'{where}.{key}')
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other)):
            yield from compare(*pair, f'{where}[{number}]')
    elif isinstance(one, float) and isinstance(other, float):
        if one != pytest.approx(other, rel=1e-9, abs=1e-9):
            yield f'{where}: {one} for {other}'
    elif one != other:
        yield f'{where}: {one!r} for {other!r}'


if __name__ == '__main__':
    STORED.write_text(json.dumps({name: reported(name) for name in TAKES}, indent=1) + '\n')
