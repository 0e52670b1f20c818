# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""No command writes over its input, or over a file that it did not write."""

import importlib.util
import os
from pathlib import Path
import shutil

import numpy as np
from optitrack_vrpn.cli.arguments import USAGE
from optitrack_vrpn.cli.files_io import json_text
from optitrack_vrpn.guests.rgbd.files_io import save_pcd
from optitrack_vrpn.takes.assess.report_command import main as report
from optitrack_vrpn.takes.calibrate.command import main as calibrate
from optitrack_vrpn.takes.export.export_command import main as export
import pytest
from recording_kit import BEGIN_NS, write_poses
from scipy.spatial.transform import Rotation
from tool_kit import run_tool

pytest.importorskip('jinja2', reason='the page of a report is a template')
NOTE = b'my measurements of last year\n'
#: By command its function and arguments; TAKE is the recording, OUT the output.
COMMANDS = {
    'report': (report, ['TAKE', '-o', 'OUT']),
    'csv': (export, ['TAKE', '--format', 'csv', '-o', 'OUT']),
    'csv-semicolon': (export, ['TAKE', '--format', 'csv-semicolon', '-o', 'OUT']),
    'tum': (export, ['TAKE', '--format', 'tum', '-o', 'OUT']),
    'parquet': (export, ['TAKE', '--format', 'parquet', '-o', 'OUT']),
    'calibrate': (calibrate, ['base', 'TAKE', '--turn', '-o', 'OUT'])}


@pytest.fixture(scope='module')
def recorded(tmp_path_factory):
    """Write the take of a body that turns on the spot."""
    folder = tmp_path_factory.mktemp('takes') / 'take'
    turns = Rotation.from_rotvec(np.linspace(0.0, 6.0, 300)[:, None] * (0.0, 0.0, 1.0))
    write_poses(folder, [
        ('/wand/pose', BEGIN_NS + i * 10**7, BEGIN_NS + i * 10**7,
         tuple(turn.apply((0.1, 0.0, 0.3))), tuple(turn.as_quat()))
        for i, turn in enumerate(turns)])
    return folder


@pytest.fixture(params=COMMANDS)
def run(request, tmp_path, recorded):
    """Give a function that runs a command with an output, and the take that it reads."""
    if request.param == 'parquet' and importlib.util.find_spec('pyarrow') is None:
        pytest.skip('parquet needs pyarrow')
    take = tmp_path / 'take'
    shutil.copytree(recorded, take)
    main, arguments = COMMANDS[request.param]

    def start(output, *more, given=take):
        return main([str({'TAKE': given, 'OUT': output}.get(word, word))
                     for word in arguments] + list(more))

    return start, take


def test_an_output_is_never_a_part_of_the_input(run, tmp_path, capsys):
    start, take = run
    file = take / 'take.mcap'
    before = {path: path.read_bytes() for path in take.iterdir()}
    (tmp_path / 'link.yaml').symlink_to(file)
    os.link(file, tmp_path / 'hard.yaml')
    for given in (take, file):
        for output in (file, tmp_path / 'link.yaml', tmp_path / 'hard.yaml'):
            assert start(output, '--force', given=given) == USAGE
            assert 'is part of the input' in capsys.readouterr().err
    assert start(take / 'metadata.yaml', '--force') == USAGE
    assert {path: path.read_bytes() for path in take.iterdir()} == before


def test_a_file_of_another_program_is_overwritten_with_force_alone(run, tmp_path, capsys):
    start, _ = run
    output = tmp_path / 'note.yaml'
    output.write_bytes(NOTE)
    assert start(output) == USAGE
    assert f'{output} exists, and this command did not write it' in capsys.readouterr().err
    assert output.read_bytes() == NOTE
    assert start(output, '--force') == 0 and output.read_bytes() != NOTE


def test_an_output_of_the_same_command_and_an_empty_file_are_replaced(run, tmp_path):
    start, _ = run
    output = tmp_path / 'out.yaml'
    output.touch()
    for _ in range(2):
        assert start(output) == 0 and output.stat().st_size > 0


def test_a_report_lies_in_the_folder_of_its_take(recorded, tmp_path):
    take = Path(shutil.copytree(recorded, tmp_path / 'take'))
    for _ in range(2):
        assert report([str(take), '-o', str(take / 'report.html')]) == 0


def test_the_estimate_and_the_second_take_are_inputs(recorded, tmp_path, capsys):
    estimate = tmp_path / 'estimate.tum'
    assert export([str(recorded), '--format', 'tum', '-o', str(estimate)]) == 0
    kept = estimate.read_bytes()
    second = Path(shutil.copytree(recorded, tmp_path / 'second'))
    for more, output in (
            (['--reference', 'wand', '--estimate', str(estimate)], estimate),
            (['--compare', str(second)], second / 'second.mcap'),
            (['--compare', str(second)], second / 'take.mcap')):
        if output.exists():
            assert report([str(recorded), *more, '--force', '-o', str(output)]) == USAGE
            assert 'is part of the input' in capsys.readouterr().err
    assert estimate.read_bytes() == kept


def test_the_demo_and_the_mapper_keep_files_of_others(tmp_path):
    output = tmp_path / 'note'
    output.write_bytes(NOTE)
    # In a process of its own: a demo changes the ROS domain and the signals of its process.
    assert run_tool('rgbd_demo', '-o', output).returncode == USAGE
    with pytest.raises(ValueError, match='did not write it'):
        save_pcd(output, np.zeros((1, 3)), np.zeros((1, 3), np.uint8))
    assert output.read_bytes() == NOTE


def test_json_has_no_numbers_that_it_lacks():
    assert json_text({'a': [float('nan'), np.array([1.0, np.inf])], 'b': (np.float64('nan'), 2)}
                     ).split() == ('{ "a": [ null, [ 1.0, null ] ], "b": [ null, 2 ] }').split()
