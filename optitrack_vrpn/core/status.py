# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The diagnostics of a node, written and read in one place.

A node makes a ``StatusReport`` of each subject, and all readers (recordings, the page, bridges,
the demo) make one of each message again. Keys are listed in docs/diagnostics.md. Readers accept
what a peer may have written: any text, any number of digits, unknown levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any, Optional

from optitrack_vrpn.core.severity import Severity, STALE

#: Most digits of a count: Python refuses to convert thousands.
_MOST_DIGITS = 19


def written(value: float, digits: int = 3) -> str:
    """Write a number as a value; NaN and infinity become ``unknown``."""
    return f'{value:.{digits}f}' if math.isfinite(value) else 'unknown'


def number_of(values: Mapping[str, str], key: str, scale: float = 1.0) -> Optional[float]:
    """Read a number; None if it is missing or not finite."""
    try:
        value = float(values[key]) * scale
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class StatusReport:
    """
    What a node reports of one subject.

    :ivar subject: ``connection``, ``clock``, ``frames``, ``body NAME``, or of another node any.
    :ivar severity: its level.
    :ivar message: one short line.
    :ivar values: details; keys contain their unit.
    :ivar node: name of the node; '' before it is published.
    """

    subject: str
    severity: Severity
    message: str
    values: dict[str, str]
    node: str = ''

    @classmethod
    def of(cls, message: Any) -> StatusReport:
        """Read a diagnostic_msgs/DiagnosticStatus."""
        return cls._read(
            message.name, message.level, message.message,
            {pair.key: pair.value for pair in message.values})

    @classmethod
    def decoded(cls, fields: Mapping[str, Any]) -> StatusReport:
        """Read the same from a recording, decoded to dictionaries."""
        return cls._read(
            fields['name'], fields.get('level', STALE), fields['message'],
            {pair['key']: pair['value'] for pair in fields.get('values', {}).values()})

    @classmethod
    def _read(cls, name: str, level: Any, message: str, values: dict[str, str]) -> StatusReport:
        number = level[0] if isinstance(level, bytes) else int(level)
        node, _, subject = name.partition(': ')
        return cls(subject, Severity(min(max(number, 0), STALE)), message, values, node)

    @property
    def name(self) -> str:
        """Return the name of the message."""
        return f'{self.node}: {self.subject}'

    @property
    def body(self) -> str:
        """Return the body of which it is; '' if it is of another subject."""
        kind, _, name = self.subject.partition(' ')
        return name if kind == 'body' else ''

    @property
    def state(self) -> str:
        """Return the state of the body: the value, or the first word of older messages."""
        return self.values.get('state', self.message.partition(':')[0])

    @property
    def session(self) -> str:
        """Return the random name of the start of the node; '' if it is not stated."""
        return self.values.get('session', '')

    @property
    def is_inactive(self) -> bool:
        """Return whether the node states that it publishes no poses."""
        return self.values.get('node_state') == 'inactive'

    def number(self, key: str, scale: float = 1.0) -> Optional[float]:
        """Return a number; None if it is missing or not finite."""
        return number_of(self.values, key, scale)

    def count(self, key: str) -> Optional[int]:
        """Return a count; None if it is missing or no decimal number of usual length."""
        text = self.values.get(key, '')
        return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None
