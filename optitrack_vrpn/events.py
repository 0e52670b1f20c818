# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the pure parts report to the user: they return events, and the node logs them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple


class Event(NamedTuple):
    """
    One thing that a user should read.

    :ivar severity: 'info' for a change of state, 'warn' for a fault that the node survives,
        'error' for one that needs the user.
    :ivar key: what it is about; a log repeats events of one key at most every few seconds.
    :ivar text: one printable line with values, units and, for a fault, what to do.
    :ivar data: the same for programs, where a program needs it.
    """

    severity: str
    key: Hashable
    text: str
    data: Any = None
