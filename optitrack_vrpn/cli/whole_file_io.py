# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write output files of commands whole, or not at all."""

import contextlib
import os
from pathlib import Path
import secrets
from typing import Iterator, Optional

from optitrack_vrpn.errors import OptitrackVrpnError, TransportError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """
    Give the path to write to; at the end of the block the file is there as ``path``.

    If the block raises, nothing is left behind, and a file that was there stays as it is. What is
    not a regular file (a pipe, ``/dev/stdout``) is written directly.

    :param path: the output file; a link is followed.
    :raises TransportError: in place of an OSError of the file or the block.
    :raises BrokenPipeError: if nothing reads the output any more.
    """
    target = Path(os.path.realpath(path))   # Path.resolve raises RuntimeError for a loop
    part: Optional[Path] = None
    try:
        if target.exists() and not target.is_file():
            yield target
            return
        # Named before it exists: a signal can end the command while it is being created.
        part = target.with_name(f'.{target.name}.{secrets.token_hex(4)}.part')
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        yield part
        part.replace(target)
    except BaseException as error:
        if part is not None:
            with contextlib.suppress(OSError):    # also if the folder is a file
                part.unlink()
        if isinstance(error, OSError) and not isinstance(
                error, (OptitrackVrpnError, BrokenPipeError)):
            raise TransportError(f'{path}: {error.strerror or error}') from None
        raise
