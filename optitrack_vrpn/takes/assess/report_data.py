# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a report says, as plain data: ``report --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.core.findings import Finding
from optitrack_vrpn.core.severity import Severity
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.figures import Figures
from optitrack_vrpn.takes.evaluate.evaluation_odometry import OdometryEvaluation
from optitrack_vrpn.takes.take import SETTINGS, Take


def severity_of(found: Sequence[Finding]) -> Severity:
    """Return the worst severity."""
    return max((one.severity for one in found), default=Severity.INFO)


def report_data(
    take: Take, found: Sequence[Finding], bodies: Sequence[Figures], severity: Severity,
    evaluation: Optional[OdometryEvaluation] = None,
    other: Optional[tuple[Take, Sequence[Finding]]] = None,
) -> dict[str, Any]:
    """
    Return findings and statistics; times in seconds, stamps in ns since the Unix epoch.

    :param found: worst first.
    :param severity: the worst one, also of the evaluation and the other take.
    :param other: a take that is compared, and its findings.
    """
    return {
        'name': take.name, 'kind': take.kind, 'severity': severity.word,
        'verdict': found[0].text if found else '', 'begin_ns': take.begin_ns,
        'end_ns': take.end_ns, 'duration_s': (take.end_ns - take.begin_ns) / NS_PER_S,
        'findings': [_finding(one) for one in found], 'bodies': [_body(f) for f in bodies],
        'topics': take.topics, 'missing': take.missing, 'cut': take.cut,
        'damaged': [{'reason': reason, 'begin_ns': begin, 'end_ns': end}
                    for reason, (begin, end) in take.damaged],
        'left_out': {topic: each._asdict() for topic, each in take.left_out.items()},
        'not_decoded': take.unread,
        'notes': {key: text for key, text in take.notes.items() if not key.startswith(SETTINGS)},
        'settings': take.settings(), 'connection': take.connection, 'clock': take.stamping,
        'evaluation': None if evaluation is None else _evaluation(evaluation),
        'compared': None if other is None else {
            'name': other[0].name, 'severity': severity_of(other[1]).word,
            'verdict': other[1][0].text, 'findings': [_finding(one) for one in other[1]]}}


def _finding(one: Finding) -> dict[str, Any]:
    return {'key': one.code, 'severity': one.severity.word, 'text': one.text,
            'remedy': one.remedy, 'bodies': one.bodies,
            'spans': [span._asdict() for span in one.spans]}


def _body(f: Figures) -> dict[str, Any]:
    breaks = f.breaks
    return {
        'name': f.name, 'poses': f.poses, 'begin_ns': f.span_ns[0], 'end_ns': f.span_ns[1],
        'rate_hz': f.rate_hz, 'coverage': f.coverage, 'longest_gap_s': f.longest_gap_s,
        'gaps': [gap._asdict() for gap in breaks.gaps],
        'jumps': [jump._asdict() for jump in breaks.jumps], 'resets_ns': breaks.resets_ns,
        'frozen_ns': breaks.frozen_ns, 'latency_ms': f.latency_ms,
        'latency_p99_ms': f.latency_p99_ms, 'jitter_ms': f.jitter_ms, 'ahead_ms': f.ahead_ms,
        'odd_log_times': f.odd_arrivals, 'interval_p99_ms': f.interval_p99_ms,
        'fastest_m_s': f.speeds[0], 'fastest_deg_s': float(np.degrees(f.speeds[1])),
        'rest': None if f.rest is None else f.rest._asdict()}


def _evaluation(found: OdometryEvaluation) -> dict[str, Any]:
    hand_eye = found.hand_eye
    return {
        'findings': [_finding(one) for one in found.findings],
        'ate_m': found.ate.translation._asdict(), 'ate_deg': found.ate.rotation_deg._asdict(),
        'rpe_m': found.rpe.translation._asdict(), 'rpe_deg': found.rpe.rotation_deg._asdict(),
        'rpe_seconds': found.rpe.seconds, 'matched': found.matched,
        'coverage': found.continuity.coverage, 'gaps_ns': found.continuity.gaps_ns,
        'resets_ns': found.continuity.resets_ns, 'offset_s': hand_eye.offset_ns / NS_PER_S,
        'offset_sd_s': hand_eye.offset_std_s,
        'correlation': found.offset.correlation, 'sensor_m': hand_eye.translation,
        'sensor_xyzw': hand_eye.rotation.as_quat(), 'sensor_sd_m': hand_eye.translation_std_m,
        'sensor_sd_deg': hand_eye.rotation_std_deg, 'size': hand_eye.size,
        'size_sd': hand_eye.size * hand_eye.size_std}
