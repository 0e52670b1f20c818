# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The one type of event: pure code returns events for the user, and the node logs them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from optitrack_vrpn.core.severity import Severity


class Event(NamedTuple):
    """
    One message for the user.

    :ivar severity: INFO for a change of state, WARN or ERROR for a fault.
    :ivar key: the subject; a log repeats events of one key at most every few seconds.
    :ivar text: one printable line with values, units and, for a fault, the remedy.
    :ivar data: the same for programs, if a program needs it.
    """

    severity: Severity
    key: Hashable
    text: str
    data: Any = None
