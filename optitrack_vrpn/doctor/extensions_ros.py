# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks that other packages add to the doctor's look at the ROS graph.

They are named and loaded here, so that the doctor depends on none of them. An extension is made
with the doctor's node, early, so that what it subscribes to is collected meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
import importlib
from typing import Any

from optitrack_vrpn.doctor.result import CheckResult, warn

#: As ``module:class``; made with a node, and asked for ``findings(spin)`` at the end, where
#: ``spin`` lets the node take messages for so many seconds.
EXTENSIONS = ('optitrack_vrpn.autopilot.check_ros:BridgeChecks',)


class Extensions:
    """
    The extensions of one run.

    :param node: the doctor's.
    """

    def __init__(self, node: Any) -> None:
        self._made: list[Any] = []
        self._failed: list[CheckResult] = []
        for place in EXTENSIONS:
            module, _, name = place.partition(':')
            try:
                self._made.append(getattr(importlib.import_module(module), name)(node))
            except Exception as error:
                self._failed.append(_broken(place, error))

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Ask all of them."""
        found = list(self._failed)
        for one in self._made:
            try:
                found += one.findings(spin)
            except Exception as error:
                found.append(_broken(type(one).__name__, error))
        return found


def _broken(place: str, error: Exception) -> CheckResult:
    return warn('extension', f'{place} failed: {error!r}', 'please report this')
