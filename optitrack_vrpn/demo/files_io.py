# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files of the demo: a user's parameter file for its node, and its rviz display."""

import contextlib
import os
from pathlib import Path
import tempfile
from typing import Iterator, Sequence

from optitrack_vrpn.cli import config_folders
from optitrack_vrpn.demo.isolation import display
from optitrack_vrpn.errors import ConfigurationError
import yaml

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


def renamed(text: str, name: str, new: str) -> str:
    """
    Rename a node in a parameter file.

    :returns: the text with the new name; unchanged if it is not YAML, which the node reports.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    if not isinstance(root, yaml.MappingNode):
        return text
    for key, _ in reversed(root.value):
        begin, end = key.start_mark.index, key.end_mark.index
        if text[begin:end].strip('\'"') in (name, f'/{name}'):
            text = f'{text[:begin]}{new}{text[end:]}'
    return text


@contextlib.contextmanager
def for_demo(path: str, name: str, new: str) -> Iterator[str]:
    """
    Apply a file that names the node to the demo's node, which has another name.

    :param name: name of the node in the file.
    :param new: the name of the demo's node.
    :returns: the name of a file for the demo's node.
    """
    with open(path, encoding='utf-8', errors='surrogateescape', newline='') as file:
        text = file.read()
    changed = renamed(text, name, new)
    if changed == text:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, 'w', encoding='utf-8', errors='surrogateescape', newline='') as file:
            file.write(changed)
        yield copy
