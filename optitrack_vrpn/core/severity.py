# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The one scale of severity: of events, log lines, diagnostics, checks and findings."""

import enum
from typing import Final


class Severity(enum.IntEnum):
    """
    How much a message matters; the numbers are the levels of diagnostic_msgs/DiagnosticStatus.

    :cvar INFO: nothing is wrong, or a change of state.
    :cvar WARN: a fault that the program tolerates.
    :cvar ERROR: a fault that needs the user, or prevents poses.
    :cvar STALE: diagnostics only (REP 107): nothing arrives any more.
    """

    INFO = 0
    WARN = 1
    ERROR = 2
    STALE = 3

    @property
    def word(self) -> str:
        """Return its word in reports and on the page."""
        return ('good', 'warning', 'error', 'stale')[self]


INFO: Final = Severity.INFO
WARN: Final = Severity.WARN
ERROR: Final = Severity.ERROR
STALE: Final = Severity.STALE
