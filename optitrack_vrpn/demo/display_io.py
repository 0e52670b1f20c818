# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write the rviz display of a demo."""

import contextlib
from pathlib import Path
import tempfile
from typing import Iterator, Sequence

from optitrack_vrpn.cli.config_files_io import config_folders
from optitrack_vrpn.demo.isolation import display
from optitrack_vrpn.errors import ConfigurationError

_NAME = 'optitrack_vrpn.rviz'


def package_display() -> Path:
    """
    Find the display of the package: in its share folder, or in its source.

    :raises ConfigurationError: if neither has it.
    """
    for folder in config_folders():
        if (folder / _NAME).is_file():
            return folder / _NAME
    raise ConfigurationError(f'{_NAME} of the package was not found; build the package again')


@contextlib.contextmanager
def display_file(namespace: str, names: Sequence[str]) -> Iterator[str]:
    """
    Write the display for a demo into a file that exists during the block.

    :param namespace: namespace of topics and frames, without slashes at its ends; may be empty.
    :param names: the simulated bodies.
    :returns: its path.
    """
    text = display(package_display().read_text(encoding='utf-8'), namespace, names)
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        path = Path(folder) / 'demo.rviz'
        path.write_text(text, encoding='utf-8')
        yield str(path)
