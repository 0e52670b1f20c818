# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The result of one check, and the exit code for all results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import enum
from typing import NamedTuple, Union

from optitrack_vrpn.names import printable

#: Chosen: longest text (characters), because parts of it come from the network.
_LONGEST = 900

Value = Union[str, int, float, bool, None]


class Level(enum.Enum):
    """Level of a result."""

    OK = 'OK'
    WARN = 'WARN'
    FAIL = 'FAIL'
    SKIP = 'SKIP'


class CheckResult(NamedTuple):
    """
    Result of one check.

    :ivar check: the check's name, as in `name`, `udp`, `rate`.
    :ivar level: its level.
    :ivar found: the finding, one line.
    :ivar advice: the remedy; '' if none is needed.
    :ivar values: values for tools; keys contain their unit.
    """

    check: str
    level: Level
    found: str
    advice: str = ''
    values: dict[str, Value] = {}


def finding(
    check: str, level: Level, found: str, advice: str = '', **values: Value,
) -> CheckResult:
    """Make a result whose texts are printable and limited in length."""
    return cleaned(CheckResult(check, level, found, advice, values))


def cleaned(one: CheckResult) -> CheckResult:
    """Make the texts of a result printable, and limit their length."""
    return CheckResult(
        one.check, one.level, printable(one.found, _LONGEST), printable(one.advice, _LONGEST), {
            printable(key): printable(value, _LONGEST) if isinstance(value, str) else value
            for key, value in one.values.items()})


def ok(check: str, found: str, **values: Value) -> CheckResult:
    """Make the result of a check that passed."""
    return finding(check, Level.OK, found, '', **values)


def skip(check: str, why: str) -> CheckResult:
    """Make the result of a check that was skipped."""
    return finding(check, Level.SKIP, why)


def warn(check: str, found: str, advice: str, **values: Value) -> CheckResult:
    """Make a warning: it may be intended."""
    return finding(check, Level.WARN, found, advice, **values)


def fail(check: str, found: str, advice: str, **values: Value) -> CheckResult:
    """Make a failure: it prevents poses."""
    return finding(check, Level.FAIL, found, advice, **values)


def joined(lines: Sequence[str], most: int = 4) -> str:
    """Join the first lines, and count the rest."""
    rest = len(lines) - most
    return '; '.join([*lines[:most], *([f'and {rest} more'] if rest > 0 else [])])


def exit_code(results: Iterable[CheckResult]) -> int:
    """
    Return the exit code for all results.

    :returns: 0 if nothing is wrong, 1 for warnings, 2 for failures.
    """
    levels = {one.level for one in results}
    return 2 if Level.FAIL in levels else 1 if Level.WARN in levels else 0
