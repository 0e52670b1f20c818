# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the page finds in what a node reports: condition, severity, text and remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from optitrack_vrpn.core.findings import Case, case, Rule
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.status import number_of
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.takes.dashboard.control import System
from optitrack_vrpn.takes.dashboard.lab import Lab, LabBody, LabReport
from optitrack_vrpn.telling.facts import RateFacts, StreamFacts
from optitrack_vrpn.telling.rules import BY_CODE, RATES

#: States of a lifecycle node in which it publishes no poses.
_PASSIVE = ('unconfigured', 'inactive', 'finalized')
_DOCTOR = 'run the doctor: ros2 run optitrack_vrpn doctor'


@dataclass(frozen=True)
class NodeFacts:
    """
    What the page knows of a node.

    :ivar node: its full name.
    :ivar reports: its diagnostics, by their subject.
    :ivar bodies: its bodies.
    :ivar lab: states of the nodes, and the time from which the page reads them.
    :ivar now: present time (s).
    """

    node: str
    reports: Mapping[str, LabReport]
    bodies: Sequence[LabBody]
    lab: Lab
    now: float

    @property
    def conditions(self) -> list[tuple[LabBody, str, str, str]]:
        """Return bodies with sign, word and reason; none while the connection has a problem."""
        link = self.reports.get('connection', LabReport(INFO))
        if link.level == ERROR or link.message.startswith('silent'):
            return []
        since = self.lab.waiting_since(self.node)
        return [(body, *body.condition(self.now, reading_since=since)) for body in self.bodies]

    @property
    def warned(self) -> list[tuple[LabBody, str]]:
        """Return the TRACKED bodies that are not in order, with the reason."""
        return [(body, reason) for body, sign, word, reason in self.conditions
                if sign not in ('ok', 'lost') and word == State.TRACKED.value]


@dataclass(frozen=True)
class RecordingFacts:
    """
    What the page knows of recordings.

    :ivar recorders: the recorders that listen to mocap control.
    :ivar unfinished: the take that was recorded last, if it is not closed and no active recorder
        answers; '' otherwise.
    """

    recorders: Sequence[System] = ()
    unfinished: str = ''


def _slow(when: Callable[[StreamFacts], Iterable[Case]], body: LabBody) -> list[Case]:
    rate, others = (number_of(body.report.values, key) or 0.0
                    for key in ('rate_hz', 'nominal_rate_hz'))
    return list(when(StreamFacts(rate=RateFacts({body.name: rate}, 0.0, others))))


def _by_rate(when: Callable[[StreamFacts], Iterable[Case]]) -> Callable[
        [NodeFacts], Iterator[Case]]:
    """Return the condition of a rule of rates for the bodies of a node, each by itself."""
    def of_node(facts: NodeFacts) -> Iterator[Case]:
        for body, _ in facts.warned:
            for one in _slow(when, body):
                yield Case((body.name,), one.figures)
    return of_node


def _in_state(word: str) -> Callable[[NodeFacts], Iterator[Case]]:
    """Return the condition of a state of a body; a peer may report any other word."""
    return lambda facts: (
        Case((body.name,), {'detail': f' ({reason})'})
        for body, sign, state, reason in facts.conditions if sign == 'lost' and state == word)


def _reported(*, error: bool) -> Callable[[NodeFacts], Iterator[Case]]:
    """Return the condition of the reports of a node that are errors, or that are warnings."""
    return lambda facts: (
        Case((), {'subject': subject, 'message': one.message})
        for subject, one in facts.reports.items()
        if one.level != INFO and (one.level == ERROR) is error)


def _warned(facts: NodeFacts) -> Iterator[Case]:
    yield from _reported(error=False)(facts)
    for body, reason in facts.warned:
        if not any(_slow(rule.when, body) for rule in RATES):
            yield Case((body.name,), {'subject': body.name, 'message': reason})


#: All rows, those that explain others first.
PAGE_RULES: Final[tuple[Rule[NodeFacts], ...]] = (
    Rule('node silent', ERROR, lambda facts: case(
        all(one.silent(facts.now) for one in facts.reports.values()), node=facts.node),
         '{node} sends no diagnostics', 'is the node running? Start it, or read its log',
         explains=('*',)),
    Rule('not active', ERROR, lambda facts: case(
        facts.lab.states.get(facts.node) in _PASSIVE, node=facts.node,
        state=facts.lab.states.get(facts.node)),
         '{node} is {state}: it publishes no poses', 'press START, or run: ros2 lifecycle '
         'set {node} configure, and then activate', explains=('*',)),
    Rule('reported error', ERROR, _reported(error=True), '{subject}: {message}', _DOCTOR),
    Rule('reported warning', WARN, _warned, '{subject}: {message}', _DOCTOR),
    *(BY_CODE[word].by(_in_state(word)) for word in (
        state.value for state in State) if word in BY_CODE),
    *(rule.by(_by_rate(rule.when)) for rule in RATES),
    Rule('no transform', ERROR, lambda facts: [
        Case((body.name,)) for body, _, word, _ in facts.conditions if word == 'NO POSE'],
         '{bodies} {is} TRACKED, but {its} transforms do not arrive',
         'is tf_view or tf among the outputs of the node, and is the node active? Is the network '
         'between it and this computer slow?'),
)

#: Rows of recordings, which no node of poses reports.
RECORDING_RULES: Final[tuple[Rule[RecordingFacts], ...]] = (
    Rule('recorder silent', ERROR, lambda facts: [
        Case((), {'subject': one.name, 'state': one.state})
        for one in facts.recorders if one.mute],
         '{subject} does not answer; it was {state}',
         'the recording may have ended: look at its file and its terminal, and start the recorder '
         'again'),
    Rule('recording not closed', ERROR, lambda facts: case(
        facts.unfinished, subject=facts.unfinished),
         'the recording {subject} is not closed, and no active recorder answers',
         'was the recorder killed? End it, repair the file with record --recover, and start the '
         'recorder again'),
)
