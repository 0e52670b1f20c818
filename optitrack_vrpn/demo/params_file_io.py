# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Apply a user's parameter file to the demo's node."""

import contextlib
import os
import tempfile
from typing import Iterator

import yaml


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
