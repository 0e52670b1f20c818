# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Output files of commands are whole, or as they were."""

import os
import re
import stat
import threading

from optitrack_vrpn.cli.files_io import whole_file
import pytest

OWN = re.compile(b'old|new')


def test_a_file_appears_when_it_is_whole_with_the_usual_permissions(tmp_path):
    path, usual = tmp_path / 'a.csv', tmp_path / 'usual'
    usual.touch()
    with whole_file(path, OWN) as part:
        part.write_text('new')
        assert not path.exists()
    assert path.read_text() == 'new'
    assert path.stat().st_mode == usual.stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ['a.csv', 'usual']


@pytest.mark.parametrize('before', ['old', None])
def test_after_an_error_nothing_has_changed(tmp_path, before):
    path = tmp_path / 'a.csv'
    if before:
        path.write_text(before)
    with pytest.raises(OSError, match='No space'), whole_file(path, OWN) as part:
        part.write_text('half')
        raise OSError(28, 'No space left on device')
    assert [p.read_text() for p in tmp_path.iterdir()] == ([before] if before else [])


def test_links_and_permissions_of_the_file_that_is_replaced_stay(tmp_path):
    real, link = tmp_path / 'real', tmp_path / 'link'
    real.touch(mode=0o600)
    link.symlink_to(real)
    with whole_file(link, OWN) as part:
        part.write_text('new')
    assert link.is_symlink() and real.read_text() == 'new'
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with whole_file(pipe, OWN) as path:
        path.write_text('rows')
    reader.join(10.0)
    assert read == ['rows'] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_to_itself_is_replaced(tmp_path):
    loop = tmp_path / 'loop'
    loop.symlink_to(loop)
    with whole_file(loop, OWN) as part:
        part.write_text('new')
    assert loop.read_text() == 'new'
