# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Packages that import the file of a public name when the name is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, files: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """
    Make the public names of a package; ROS and numpy load slowly, and most users need a part.

    :param package: its ``__name__``.
    :param files: public names, separated by spaces, by the file that defines them.
    :returns: its ``__all__`` and its ``__getattr__`` (PEP 562).
    """
    homes = {name: file for file, names in files.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {package!r} has no attribute {name!r}')
        return getattr(import_module(f'{package}.{homes[name]}'), name)

    return list(homes), get
