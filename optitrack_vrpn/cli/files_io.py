# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find and read configuration files, write whole files, name the Fast DDS profile for images."""

import argparse
from collections.abc import Mapping, Sequence
import contextlib
import json
import math
import os
from pathlib import Path
import re
import secrets
from typing import Any, Iterator, Optional, Union

from optitrack_vrpn.cli.rows_io import nodes
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.errors import ConfigurationError, OptitrackVrpnError, TransportError


def config_folders() -> list[Path]:
    """List the possible config folders of the package: the source, and the share folders."""
    here = Path(__file__).resolve()
    ament = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    return [here.parents[2] / 'config', *(
        prefix / 'share' / 'optitrack_vrpn' / 'config'
        for prefix in (*(Path(prefix) for prefix in ament if prefix), *here.parents))]


def package_file(name: str) -> Path:
    """Find a file of the config folder; ConfigurationError if the package has none."""
    for folder in config_folders():
        if (folder / name).is_file():
            return folder / name
    raise ConfigurationError(f'{name} of the package was not found; build the package again')


def find_config(given: str, pattern: str) -> str:
    """
    Find a YAML file by its path, or a file of the package by its name.

    The parameter files of nodes are no such files: ``gantry_controller`` is not a machine.

    :param given: a path, or a name with or without suffix, as in ``hard_day``.
    :param pattern: the allowed files of the package, as in ``scenarios/*.yaml``.
    :returns: its path; it may not exist if it has a folder.
    :raises ConfigurationError: for an unknown name; lists the files of the package.
    """
    if os.path.dirname(given) or os.path.isfile(given):
        return given
    excluded = {node.name for node in nodes()}
    own = {path.stem: path for folder in reversed(config_folders())
           for path in folder.glob(pattern) if path.stem not in excluded}
    name = given.removesuffix('.yaml')
    if name not in own:
        raise ConfigurationError(
            f'{given}: cannot be read: there is no such file, and the files of the package are: '
            f'{", ".join(sorted(own)) or "none"}')
    return str(own[name])


def read_yaml(path: Union[str, Path]) -> Any:
    """
    Read a YAML file as plain data; see ``parse_yaml``.

    :raises ConfigurationError: if it cannot be read, is not YAML, or has a key twice.
    """
    return parse_yaml(_text_of(path), str(path))


def read_parameter_file(path: Union[str, Path]) -> Any:
    """Read a ROS parameter file as ``read_yaml``; see ``parse_yaml``."""
    return parse_yaml(_text_of(path), str(path), parameters=True)


def _text_of(path: Union[str, Path]) -> str:
    try:
        return Path(path).read_text(encoding='utf-8')
    except OSError as error:
        raise ConfigurationError(f'{path}: cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f'{path}: is not YAML: {error}') from None


def json_text(value: Any) -> str:
    """Write plain data and arrays of numpy as JSON; NaN and infinity, which it lacks, as null."""
    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if hasattr(value, 'tolist'):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: The begin of a file that a command changes on purpose, as ``calibrate --apply`` does: any.
ANY = re.compile(b'')
#: Bytes of an existing file that tell which program wrote it.
_HEAD = 4096


def check_output(
    path: Path, own: re.Pattern[bytes], inputs: Sequence[Path] = (), force: bool = False,
) -> None:
    """
    Refuse to write over an input, or over a file that another program wrote.

    :param path: the output; a new file, an empty one and what is no regular file are allowed.
    :param own: matches the begin of the files that the command itself writes.
    :param inputs: files that the command reads, and folders. Of a folder, an output that the
        command wrote there before is no part.
    :param force: whether a file of another program may be overwritten; an input never is.
    :raises ConfigurationError: if the output is refused.
    :raises TransportError: if the file that is there cannot be read.
    """
    try:
        if not path.is_file():
            return
        with open(path, 'rb') as file:
            head = file.read(_HEAD)
        is_own = not head or own.match(head) is not None
        for given in inputs:
            parts = [given] if not given.is_dir() else [] if is_own else list(given.iterdir())
            if any(part.exists() and part.samefile(path) for part in parts):
                raise ConfigurationError(
                    f'{path} is part of the input {given}: name another output')
    except OSError as error:
        raise TransportError(f'{path}: {error.strerror}') from None
    if not is_own and not force:
        raise ConfigurationError(
            f'{path} exists, and this command did not write it: name another output, or '
            'overwrite it with --force')


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--force`` of ``check_output``."""
    parser.add_argument('--force', action='store_true', help=(
        'overwrite an output file that another program wrote; an input is never overwritten'))


@contextlib.contextmanager
def whole_file(
    path: Path, own: re.Pattern[bytes], inputs: Sequence[Path] = (), force: bool = False,
) -> Iterator[Path]:
    """
    Give the path to write to; at the end of the block the file is there as ``path``.

    If the block raises, nothing is left behind, and a file that was there stays as it is. What is
    not a regular file (a pipe, ``/dev/stdout``) is written directly.

    :param path: the output file; a link is followed.
    :param own: see ``check_output``, which each output passes.
    :param inputs: likewise.
    :param force: likewise.
    :raises ConfigurationError: if the output is refused.
    :raises TransportError: in place of an OSError of the file or the block.
    :raises BrokenPipeError: if nothing reads the output any more.
    """
    check_output(path, own, inputs, force)
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


#: Variables that name the profile, until Jazzy and from Kilted on.
VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')


def use_profile() -> None:
    """
    Name the profile for this process and its children, unless the user has named another.

    Call it before ROS starts. With the defaults of Fast DDS an image that does not fit the shared
    memory of its publisher (512 kB, about one pair of QVGA) is lost.
    """
    if any(os.environ.get(name) for name in VARIABLES):
        return
    with contextlib.suppress(ConfigurationError):
        os.environ.update(dict.fromkeys(VARIABLES, str(package_file('fast_recording.xml'))))
