# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What can be wrong with a stream: one list for diagnostics, doctor and reports."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.findings.catalogue import Cause, CAUSES, Finding, merge, Severity, Span
    from optitrack_vrpn.findings.rules import (
        body_findings, BodySeen, clock_findings, ENOUGH_POSES, Observation, rate_findings,
        stamp_findings, stream_findings, StreamSeen, too_slow)
else:
    __all__, __getattr__ = lazy(globals())
