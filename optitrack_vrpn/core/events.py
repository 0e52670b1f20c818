# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The one type of event: pure code returns events for the user, and the node logs them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple


class Event(NamedTuple):
    """
    One message for the user.

    :ivar severity: 'info' for a change of state, 'warn' for a fault that the node tolerates,
        'error' for a fault that needs the user.
    :ivar key: the subject; a log repeats events of one key at most every few seconds.
    :ivar text: one printable line with values, units and, for a fault, the remedy.
    :ivar data: the same for programs, if a program needs it.
    """

    severity: str
    key: Hashable
    text: str
    data: Any = None
