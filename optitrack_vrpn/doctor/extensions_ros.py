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
from typing import Any

from optitrack_vrpn.doctor.result import CheckResult, cleaned, warn

#: As ``module:class``; created with a node. At the end the doctor calls ``findings(spin)``;
#: ``spin(seconds)`` processes messages of the node for that time.
EXTENSIONS = ('optitrack_vrpn.autopilot.check_ros:BridgeChecks',)


class Extensions:
    """
    The extensions of one run.

    :param node: the doctor's.
    :param rows: the extensions, as in ``EXTENSIONS``.
    """

    def __init__(self, node: Any, rows: Sequence[str] = EXTENSIONS) -> None:
        self._made: list[Any] = []
        self._failed: list[CheckResult] = []
        for place in rows:
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
