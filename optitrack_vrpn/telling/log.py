# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The log's lines of problems that last: one at the begin and one at the end, for all bodies."""

from __future__ import annotations

from collections.abc import Iterable

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.findings import Finding, merge
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import INFO


def problem_lines(
    repetition: Repetition[Finding], present: Iterable[Finding], now_ns: int,
) -> list[Event]:
    """
    Return what to write.

    :param repetition: what was written.
    :param present: all problems of now, each body by itself.
    :param now_ns: present time on a clock that does not step (ns).
    """
    begins, ends = repetition.problems({one.problem: one for one in present}, now_ns)
    return [
        *(Event(one.severity, (one.problem, now_ns), one.line)
          for one in merge(begins.values())),
        *(Event(INFO, (one.problem, now_ns), one.end) for one in merge(ends.values()) if one.end)]
