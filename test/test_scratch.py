# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Temporary folders: none is left, not even by a process that was killed."""

import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile

from optitrack_vrpn.cli.scratch_io import scratch_folder
import pytest

ROOT = Path(__file__).resolve().parent.parent
HOLD = ('import sys\n'
        'from optitrack_vrpn.cli.scratch_io import scratch_folder\n'
        'with scratch_folder("held_") as folder:\n'
        '    (folder / "file").write_text("x")\n'
        '    print(folder, flush=True)\n'
        '    sys.stdin.read()\n')


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    return tmp_path


def holder(place):
    """Start a process that holds a folder; gives both."""
    process = subprocess.Popen(
        [sys.executable, '-c', HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT), TMPDIR=str(place)))
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_removed_at_the_end(place):
    with scratch_folder('held_') as folder:
        assert folder.parent == place and folder.is_dir()
    assert not list(place.iterdir())


def aged(folder):
    """Let a folder be an hour old."""
    long_ago = folder.stat().st_mtime - 3600
    os.utime(folder, (long_ago, long_ago))


def test_the_folder_of_a_killed_process_is_removed_at_the_next_start(place):
    process, left = holder(place)
    with process:
        process.send_signal(signal.SIGKILL)
    assert (left / 'file').exists()
    aged(left)
    with scratch_folder('held_') as folder:
        assert list(place.iterdir()) == [folder]


def test_the_folder_of_a_running_process_and_names_of_others_are_kept(place):
    process, held = holder(place)
    names = ('other_', 'held_young', 'held_file')
    for name in names[:2]:
        (place / name).mkdir()
    (place / names[2]).touch()
    for path in (held, place / names[0], place / names[2]):
        aged(path)
    with process:
        with scratch_folder('held_') as folder:
            assert {path.name for path in place.iterdir()} == {*names, held.name, folder.name}
        assert (held / 'file').exists() and not folder.exists()
        process.stdin.close()
    assert not held.exists()
