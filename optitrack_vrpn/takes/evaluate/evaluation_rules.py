# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What can be wrong with an odometry that was compared: condition, severity, text and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import math
from typing import Final

from optitrack_vrpn.core.findings import Case, case, find, Finding, Rule, Span
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.evaluate.evaluation import Continuity
from optitrack_vrpn.takes.evaluate.evaluation_calibration import HandEye

#: Fraction of the estimate's poses with a reference below which a warning is given. Chosen.
_ENOUGH_MATCHED = 0.9
#: Error of the aligned estimate, as a fraction of the width of the path, above which a warning is
#: given: the alignment can turn about the path by that angle (rad). Chosen.
_STRAIGHT = 0.5
#: Sizes by which an estimate is in another unit, and their error; a size that has a finding: it
#: differs by this fraction and by so many standard deviations. Chosen.
_UNITS = {1000.0: 'millimetres', 100.0: 'centimetres', 0.001: 'kilometres'}
_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.01, 4.0
#: Fraction of the reference with poses of the estimate below which a warning is given, and below
#: which the errors describe too little of it.
_COVERED, _HALF_COVERED = 0.9, 0.5

_COVERS = (
    'the estimate has poses for {percent:.0f} % of the reference ({interruptions}, up to '
    '{longest:.2f} s): the errors say nothing about the rest')


@dataclass(frozen=True, eq=False)
class EvaluationFacts:
    """
    Facts of a comparison.

    :ivar fitting: the transform of the estimate, or of another reading of it that fits.
    :ivar reading: that reading, in words; '' for the estimate as it is.
    :ivar undetermined: what the motion does not determine, in sentences.
    :ivar matched: fraction of the estimate's poses that were compared.
    :ivar width_m: root mean square distance of the path from a line (m).
    :ivar deviation_m: root mean square distance of the estimate from the path, after correction
        of its size (m).
    :ivar continuity: which part of the reference the estimate covers.
    :ivar begin_ns: the first stamp of the reference (ns).
    """

    fitting: HandEye
    reading: str
    undetermined: tuple[str, ...]
    matched: float
    width_m: float
    deviation_m: float
    continuity: Continuity
    begin_ns: int

    @property
    def unit(self) -> str:
        """Return the unit of the positions, '' for metres."""
        return next((unit for factor, unit in _UNITS.items()
                     if abs(self.fitting.size / factor - 1.0) < _UNIT_ERROR), '')

    def span(self, begin_ns: int, end_ns: int) -> Span:
        """Convert a time (ns) to seconds from the begin of the reference."""
        return Span((begin_ns - self.begin_ns) / NS_PER_S, (end_ns - self.begin_ns) / NS_PER_S)


def _other_size(facts: EvaluationFacts) -> tuple[Case, ...]:
    size, off = facts.fitting.size, abs(math.log(facts.fitting.size))
    return case(off > _SIZE and off > _DEVIATIONS * facts.fitting.size_std, size=size,
                deviation=size * facts.fitting.size_std, percent=100 * (size - 1.0))


def _displaced(facts: EvaluationFacts) -> Iterator[Case]:
    resets = facts.continuity.resets_ns
    if resets and not facts.reading:
        yield Case((), {'times': counted(len(resets), 'time')}, tuple(
            facts.span(at, at) for at in resets))


def _lacks(facts: EvaluationFacts) -> Iterator[Case]:
    whole = facts.continuity
    if whole.coverage < _COVERED:
        yield Case((), {
            'percent': 100 * whole.coverage,
            'interruptions': counted(len(whole.gaps_ns), 'interruption'),
            'longest': max((b - a for a, b in whole.gaps_ns), default=0) / NS_PER_S},
            tuple(facts.span(*gap) for gap in whole.gaps_ns))


#: All rows, those that explain others first.
EVALUATION_RULES: Final[tuple[Rule[EvaluationFacts], ...]] = (
    Rule('other unit', ERROR, lambda facts: case(
        facts.unit, size=facts.fitting.size, unit=facts.unit),
         'the estimate is {size:.4g} times as large as the reference: its positions are in {unit}',
         'convert them to metres (REP 103)', explains=('other size',)),
    Rule('other size', WARN, _other_size,
         'the estimate is {size:.4f} times as large as the reference ({percent:+.1f} %, standard '
         'deviation of the size {deviation:.4f})',
         'check the baseline or depth of the camera, the radius of the wheels or the gear ratio; '
         'the ATE contains this error'),
    Rule('other reading', ERROR, lambda facts: case(facts.reading, reading=facts.reading),
         'angular speeds agree, and turns do not: the estimate fits the reference if {reading}; '
         'the errors here are those of the file as it is',
         'convert it: stamp tx ty tz qx qy qz qw, the pose of the sensor in its parent frame',
         explains=('not determined', 'straight path', 'estimate displaced')),
    Rule('estimate displaced', ERROR, _displaced,
         'the estimate is displaced {times}: the ATE mixes the parts, and the motion between them '
         'is missing', 'was the odometry reset or restarted, or did it slip?',
         explains=('straight path',)),
    Rule('not determined', WARN, lambda facts: [
        Case((), {'detail': text}) for text in facts.undetermined],
         '{detail}', 'see "Odometry against mocap" in docs/recording.md'),
    Rule('not compared', WARN, lambda facts: case(
        facts.matched < _ENOUGH_MATCHED, percent=100 * facts.matched),
         '{percent:.0f} % of the poses of the estimate were compared',
         'the reference has gaps, or does not cover the rest'),
    Rule('straight path', WARN, lambda facts: case(
        facts.deviation_m > _STRAIGHT * facts.width_m, width=1000 * facts.width_m,
        error=1000 * facts.deviation_m),
         'the path is too straight for the alignment: it deviates from a line by {width:.1f} mm, '
         'and the estimate from the path by {error:.1f} mm, so that the rotation about this line, '
         'and with it the attitude of the ATE, is arbitrary',
         'use the RPE, which is not affected, or a path with curves'),
    Rule('estimate lacks most', ERROR, lambda facts: (
        _lacks(facts) if facts.continuity.coverage < _HALF_COVERED else ()),
         _COVERS, 'does the odometry run during the whole take?',
         explains=('estimate lacks part',)),
    Rule('estimate lacks part', WARN, _lacks,
         _COVERS, 'does the odometry run during the whole take?'),
)
#: Text for an estimate without a finding.
GOOD_ESTIMATE: Final[Rule[None]] = Rule(
    'good estimate', INFO, lambda facts: case(True),
    'the estimate covers the reference without interruption, and the motion determines time '
    'offset and transform', '')


def evaluation_findings(facts: EvaluationFacts) -> list[Finding]:
    """List what is wrong with a comparison, the worst first."""
    return sorted(find(EVALUATION_RULES, facts), key=lambda one: -one.severity)
