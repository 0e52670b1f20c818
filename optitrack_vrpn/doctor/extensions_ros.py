# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks of the ROS graph that other packages add to the doctor.

They are loaded here by name, so that the doctor depends on none of them. An extension is created
early with the doctor's node, so that messages for its subscriptions arrive meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import importlib
from typing import Any, Optional

from optitrack_vrpn.checks import CheckResult, cleaned, warn
from optitrack_vrpn.cli import checks


class Extensions:
    """
    The extensions of one run: each is a class that is created with a node.

    At the end the doctor calls its ``findings(spin)``; ``spin(seconds)`` processes messages of
    the node for that time.

    :param node: the doctor's.
    :param rows: the classes, as ``module:class``; None for those of all packages.
    """

    def __init__(self, node: Any, rows: Optional[Sequence[str]] = None) -> None:
        self._made: list[Any] = []
        self._failed: list[CheckResult] = []
        for place in checks() if rows is None else rows:
            module, _, name = place.partition(':')
            try:
                self._made.append(getattr(importlib.import_module(module), name)(node))
            except Exception as error:
                self._failed.append(_broken(place, error))

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Return the findings of all extensions."""
        found = list(self._failed)
        for one in self._made:
            try:
                found += map(cleaned, one.findings(spin))
            except Exception as error:
                found.append(_broken(type(one).__name__, error))
        return found


def _broken(place: str, error: Exception) -> CheckResult:
    return warn('extension', f'{place} failed: {error!r}', 'please report this')
