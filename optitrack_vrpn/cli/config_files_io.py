# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find and read the user's configuration files and those of the package."""

import os
from pathlib import Path
from typing import Any, Union

from optitrack_vrpn.cli.rows_io import nodes
from optitrack_vrpn.errors import ConfigurationError
import yaml


def config_folders() -> list[Path]:
    """List the possible config folders of the package: the source, and the share folders."""
    here = Path(__file__).resolve()
    ament = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    return [here.parents[2] / 'config', *(
        prefix / 'share' / 'optitrack_vrpn' / 'config'
        for prefix in (*(Path(prefix) for prefix in ament if prefix), *here.parents))]


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
