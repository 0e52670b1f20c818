# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find and read configuration files, write whole files, name the Fast DDS profile for images."""

import contextlib
import os
from pathlib import Path
import secrets
from typing import Any, Iterator, Optional, Union

from optitrack_vrpn.cli.rows_io import nodes
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError, TransportError
import yaml


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
    """Read a YAML file as plain data; ConfigurationError if that is not possible."""
    try:
        return yaml.safe_load(Path(path).read_text(encoding='utf-8'))
    except OSError as error:
        raise ConfigurationError(f'{path}: cannot be read: {error.strerror}') from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f'{path}: is not YAML: {error}') from None


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
