# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The result of one check of the doctor, the exit code for all results, and words of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Optional, Union

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN

#: Chosen: longest text (characters), because parts of it come from the network.
LONGEST = 900

Value = Union[str, int, float, bool, None]


#: The word of a result by its severity; None is that of a check that was skipped.
RESULT_WORDS: Final = {INFO: 'OK', WARN: 'WARN', ERROR: 'FAIL', None: 'SKIP'}


class CheckResult(NamedTuple):
    """
    Result of one check.

    :ivar check: the check's name, as in `name`, `udp`, `rate`.
    :ivar severity: None if it was skipped.
    :ivar found: the finding, one line.
    :ivar advice: the remedy; '' if none is needed.
    :ivar values: values for tools; keys contain their unit.
    """

    check: str
    severity: Optional[Severity]
    found: str
    advice: str = ''
    values: dict[str, Value] = {}

    @property
    def word(self) -> str:
        """Return OK, WARN, FAIL or SKIP."""
        return RESULT_WORDS[self.severity]


def cleaned(one: CheckResult) -> CheckResult:
    """Make the texts of a result printable, and limit their length."""
    return CheckResult(
        one.check, one.severity, printable(one.found, LONGEST), printable(one.advice, LONGEST), {
            printable(key): printable(value, LONGEST) if isinstance(value, str) else value
            for key, value in one.values.items()})


def ok(check: str, found: str, **values: Value) -> CheckResult:
    """Make the result of a check that passed."""
    return cleaned(CheckResult(check, INFO, found, '', values))


def skip(check: str, why: str) -> CheckResult:
    """Make the result of a check that was skipped."""
    return cleaned(CheckResult(check, None, why))


def warn(check: str, found: str, advice: str, **values: Value) -> CheckResult:
    """Make a warning: it may be intended."""
    return cleaned(CheckResult(check, WARN, found, advice, values))


def fail(check: str, found: str, advice: str, **values: Value) -> CheckResult:
    """Make a failure: it prevents poses."""
    return cleaned(CheckResult(check, ERROR, found, advice, values))


def exit_code(results: Iterable[CheckResult]) -> int:
    """Return 0 if nothing is wrong, 1 for warnings, 2 for failures."""
    return max((int(one.severity or INFO) for one in results), default=0)


def joined(lines: Sequence[str], most: int = 4, room: int = LONGEST) -> str:
    """Join the first lines, at least one and not more than fit, and count the rest."""
    count, length = 1, len(lines[0])
    while count < min(len(lines), most) and length + len(lines[count]) < room:
        length += len(lines[count]) + 2
        count += 1
    rest = len(lines) - count
    return '; '.join([*lines[:count], *([f'and {rest} more'] if rest else [])])


def listed(names: Sequence[str], most: int = 6, longest: int = 48) -> str:
    """List names from the network, as many as fit a line."""
    shown = ', '.join(repr(printable(name, longest)) for name in names[:most])
    rest = len(names) - most
    return f'{shown} and {rest} more' if rest > 0 else shown


def join_sentences(texts: Iterable[str]) -> str:
    """Join remedies into sentences, each once; '' without any."""
    first, *others = dict.fromkeys(texts) or ('',)
    result = first
    for text in others:
        dot = '' if result.endswith(('?', '.', '!')) else '.'
        result += f'{dot} {text[:1].upper()}{text[1:]}'
    return result
