# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Temporary folders of commands; the next start removes those of killed processes."""

import contextlib
import fcntl
import os
from pathlib import Path
import shutil
import tempfile
import time
from typing import Iterator

#: Chosen: a folder without a lock that is younger (s) may be one whose process locks it just now,
#: which takes less than 1 ms. Halved or doubled, leftovers go earlier or later by as much.
_YOUNG_S = 60.0


def _locked(folder: Path) -> int:
    """
    Lock a folder until its descriptor is closed, at the latest by the end of the process.

    :returns: the descriptor.
    :raises OSError: if another process has locked it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_leftovers(prefix: str) -> None:
    """
    Remove the folders that processes of this user left because they were killed.

    :param prefix: as for ``scratch_folder``.
    """
    for folder in Path(tempfile.gettempdir()).glob(f'{prefix}*'):
        # What is in use or cannot be removed is not an error of this command.
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _YOUNG_S:
                continue
            descriptor = _locked(folder)
            try:
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """
    Create a folder that exists during a block.

    :param prefix: begins its name; folders with the same beginning belong to the same use.
    :raises OSError: if it cannot be created.
    """
    remove_leftovers(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        descriptor = _locked(Path(name))
        try:
            yield Path(name)
        finally:
            os.close(descriptor)
