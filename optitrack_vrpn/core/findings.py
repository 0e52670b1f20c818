# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What a rule is, and the one engine that turns facts into findings by a table of rules.

A table lists the rules of one kind of facts: ``telling/rules`` those of a stream, and a folder
above with facts of its own (takes) those of these. A rule holds its condition, so that the
definition of a fault is in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
import math
import string
from typing import Any, Generic, NamedTuple, TypeVar

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.severity import Severity

Facts = TypeVar('Facts')


class Span(NamedTuple):
    """
    One occurrence.

    :ivar begin_s: its begin (s from the begin of the observation).
    :ivar end_s: its end; NaN if unknown.
    :ivar bodies: the bodies concerned; empty for all of the finding.
    """

    begin_s: float
    end_s: float = math.nan
    bodies: tuple[str, ...] = ()


class Case(NamedTuple):
    """
    What the condition of a rule found.

    :ivar bodies: bodies; empty for all or none.
    :ivar figures: values of the text; ``subject`` distinguishes cases of one rule, beside bodies.
    :ivar spans: when; empty if it has no time.
    """

    bodies: tuple[str, ...] = ()
    figures: Mapping[str, object] = {}
    spans: tuple[Span, ...] = ()


def case(met: object, *bodies: str, **figures: object) -> tuple[Case, ...]:
    """Return the one case of a condition, or none if it is not met."""
    return (Case(bodies, figures),) if met else ()


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    """
    A possible fault: its condition, severity, text and remedy.

    A text contains figures in braces. ``{bodies}`` are the bodies of the finding, ``{is}``,
    ``{was}``, ``{has}``, ``{its}`` and ``{stays}`` fit their number.

    :ivar code: its name, which is also the ``key`` of the JSON report.
    :ivar when: the condition: facts to cases, without any effect.
    :ivar check: the check of the doctor that reports it; '' for none.
    :ivar entry: the entry of /diagnostics that reports it; '' for none.
    :ivar log: whether a log writes its begin.
    :ivar end: the text for its end; '' if a log does not write it. Rules with the same text are
        one problem in a log.
    :ivar place: where a timeline shows it beside the bodies: 'server', 'clock', 'recorder' or ''.
    :ivar explains: codes of rules, and names of checks, that follow from it ('*': all): later rows
        of these are left out.
    :ivar skips: whether it is the reason why the check is not made.
    """

    code: str
    severity: Severity
    when: Callable[[Facts], Iterable[Case]]
    text: str
    remedy: str
    check: str = ''
    entry: str = ''
    log: bool = False
    end: str = ''
    place: str = ''
    explains: tuple[str, ...] = ()
    skips: bool = False

    def by(self, when: Callable[[Any], Iterable[Case]]) -> Rule[Any]:
        """Return the same rule for facts of another kind."""
        return replace(self, when=when)


@dataclass(frozen=True)
class Finding:
    """
    A rule whose condition is met.

    :ivar figures: values of the text; of several bodies with one cause the first is shown.

    The others are those of a ``Case``.
    """

    rule: Rule[Any]
    bodies: tuple[str, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    @property
    def code(self) -> str:
        """Return the name of its rule."""
        return self.rule.code

    @property
    def begin_s(self) -> float:
        """Return when it began (s from the begin of the observation); NaN if unknown."""
        return min((span.begin_s for span in self.spans), default=math.nan)

    @property
    def severity(self) -> Severity:
        """Return its importance."""
        return self.rule.severity

    @property
    def text(self) -> str:
        """Return what was found, as a sentence."""
        return self._fill(self.rule.text)

    @property
    def remedy(self) -> str:
        """Return what to do."""
        return self._fill(self.rule.remedy)

    @property
    def end(self) -> str:
        """Return the line for its end; '' without one."""
        return self._fill(self.rule.end)

    @property
    def subject(self) -> str:
        """Return what distinguishes it from others of its rule, beside bodies; '' for nothing."""
        return str(self.figures.get('subject', ''))

    @property
    def problem(self) -> tuple[str, tuple[str, ...], str]:
        """Return the key that stays the same while the problem lasts."""
        return self.rule.end or self.code, self.bodies, self.subject

    @property
    def line(self) -> str:
        """Return finding and remedy in one line."""
        text, remedy = self.text, self.remedy
        return f'{text}{"" if text.endswith("?") else ":"} {remedy}' if remedy else text

    @property
    def shown(self) -> dict[str, object]:
        """Return the figures that text or remedy contain, for tools."""
        return {name: self.figures[name] for _, name, _, _ in string.Formatter().parse(
            self.rule.text + self.rule.remedy) if name and name in self.figures}

    def _fill(self, text: str) -> str:
        one = len(self.bodies) == 1
        return text.format_map({
            'bodies': listed(self.bodies, 4, 100), 'is': 'is' if one else 'are',
            'was': 'was' if one else 'were', 'has': 'has' if one else 'have',
            'its': 'its' if one else 'their', 'stays': 'stays' if one else 'stay',
            **self.figures})


def rows_of(check: str, *rules: Rule[Facts], decide: bool = False) -> tuple[Rule[Facts], ...]:
    """
    Return rules as the rows of a check of the doctor.

    :param decide: whether the first one that applies decides alone; a skip always does.
    """
    return tuple(replace(rule, check=check, explains=(
        (check,) if decide or rule.skips else rule.explains)) for rule in rules)


def find(rules: Iterable[Rule[Facts]], facts: Facts) -> list[Finding]:
    """Return what is wrong, in the order of the table."""
    found: list[Finding] = []
    explained: set[str] = set()
    for rule in rules:
        if explained & {rule.code, rule.check, '*'}:
            continue
        cases = rule.when(facts)
        found += [Finding(rule, *one) for one in cases]
        if found and found[-1].rule is rule:
            explained.update(rule.explains)
    return found


def merge(found: Iterable[Finding]) -> list[Finding]:
    """
    Join findings of one cause: one for all bodies, with the figures of the first of them.

    A cause whose bodies were affected at different times (1 s), or have remedies of their own,
    stays apart.
    """
    joined: dict[tuple[object, ...], Finding] = {}
    for one in found:
        when = round(one.begin_s) if math.isfinite(one.begin_s) else None
        place = one.code, when, one.remedy, one.subject
        before = joined.get(place)
        joined[place] = one if before is None else Finding(
            one.rule, (*before.bodies, *one.bodies), {**before.figures, 'detail': ''},
            (*before.spans, *one.spans))
    return list(joined.values())
