# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings about a take as sentences, worst first."""

from __future__ import annotations

from collections.abc import Sequence
import enum
import math
import statistics
from typing import NamedTuple

from optitrack_vrpn.names import counted
from optitrack_vrpn.recording.figures import Figures, Rest
from optitrack_vrpn.recording.take import Take

#: Gap (s) that is an error; shorter ones are warnings. Chosen: autopilots report a lost fix after
#: about half a second. Halved, gaps that an autopilot bridges are errors; doubled, some that it
#: reports are warnings.
LONG_GAP_S = 0.5
#: Age of late poses and jitter (ms). Chosen: a tenth of the gap, and several camera periods.
#: Halved, usual wireless networks are reported; doubled, delays of twice the size pass.
LATE_MS = 50.0
JITTER_MS = 20.0
#: Time without any pose at the begin or the end of a recording (s). Chosen: three times the period
#: of the diagnostics, whose arrivals show that the recording continued. Halved, usual ends of a
#: session are reported; doubled, a loss of 5 s before the end passes.
SILENT_S = 3.0
#: Fraction of the duration with valid poses, and fraction of the fastest body's rate. Chosen. Half
#: as far from 1, single occlusions are reported; twice as far, 2 % and 20 % of the poses can be
#: missing.
LEAST_COVERAGE = 0.99
SLOW_SHARE = 0.9
#: Noise and drift at rest (mm). Chosen: several times those of a calibrated system. Halved, large
#: volumes are reported; doubled, an old calibration passes.
NOISE_MM = 1.0
DRIFT_MM = 1.0
#: Lost frames (%), and uncertainty of the clock (us). Chosen: less than a camera period. Halved,
#: usual wireless networks are reported; doubled, twice the errors pass.
LOST_PERCENT = 0.1
UNCERTAIN_US = 2000.0


class Severity(enum.IntEnum):
    """Importance of a finding."""

    GOOD = 0
    WARNING = 1
    ERROR = 2


class Finding(NamedTuple):
    """
    One sentence of the result.

    :ivar weight: order of findings of equal severity, the largest first.
    """

    severity: Severity
    text: str
    weight: float = 0.0


def findings(take: Take, bodies: Sequence[Figures]) -> list[Finding]:
    """Assess a take, worst finding first; a take without faults has one finding that states it."""
    found = [*_of_the_file(take), *_of_the_clock(take)]
    seen = [figures.name for figures in bodies]
    found += [Finding(Severity.ERROR, f'{name}: no pose was published during the whole take.', 1e6)
              for name in take.unseen]
    found += [Finding(Severity.ERROR, f'{name}: only one pose was recorded.', 1e6)
              for name in take.bodies if name not in seen]
    if not take.bodies:
        found.append(Finding(Severity.ERROR, 'No pose of any body was recorded.', 1e9))
    fastest = max((f.rate_hz for f in bodies if not math.isnan(f.rate_hz)), default=0.0)
    for figures in bodies:
        found += _of_a_body(figures, fastest)
    found.sort(key=lambda finding: (-finding.severity, -finding.weight))
    if not found:
        found.append(Finding(
            Severity.GOOD, f'No fault was found: {counted(len(bodies), "body")}, no gaps, no '
            'jumps, no reported loss.'))
    return found


def _of_the_file(take: Take) -> list[Finding]:
    found = []
    if take.cut:
        found.append(Finding(
            Severity.ERROR, f'The recording is incomplete: {take.cut}.'
            + (' Repair it with record --recover.' if take.kind == 'bag' else ''), 1e8))
    for topic, count in take.unread.items():
        found.append(Finding(
            Severity.WARNING, f'{count} of {take.topics[topic]} messages on {topic} could not be '
            'decoded and are missing here: they are damaged, or compressed message by message '
            '(ros2 bag convert writes them without).', 1e6 + count))
    for topic, count in take.left_out.items():
        found.append(Finding(
            Severity.WARNING, f'{counted(count, "pose")} of {take.topics[topic]} on {topic} '
            'are left out here: not finite, or their stamp does not rise (a recording in a loop, '
            'a clock that was set, two publishers).', 1e6 + count))
    if take.notes.get('recovered'):
        found.append(Finding(
            Severity.WARNING, 'The recording was repaired after an interruption '
            f'({take.notes["recovered"]}); the recorder\'s counts of lost messages are missing.',
            1e7))
    for note, text in (
            ('dropped', 'The disk was too slow; dropped messages: {}.'),
            ('lost', 'Some messages were lost between publisher and recorder ({}).'),
            ('stopped', 'The recording ended early: {}.')):
        if take.notes.get(note):
            found.append(Finding(Severity.ERROR, text.format(take.notes[note]), 1e7))
    for silent_s, part in zip(take.silent_s, ('first', 'last')):
        if silent_s >= SILENT_S:
            found.append(Finding(
                Severity.WARNING, f'No pose arrived in the {part} {silent_s:.0f} s of the '
                'recording.', silent_s))
    if take.notes.get('clock_steps'):
        times = counted(take.notes['clock_steps'].count(',') + 1, 'time')
        found.append(Finding(
            Severity.ERROR, f'The clock of the recording computer was set {times} during the '
            'take: times before and after do not belong together. Synchronise it with chrony '
            'before a take.', 1e7))
    try:
        percent = float(take.connection.get('udp_lost_percent', 'nan'))
        lost = int(take.connection.get('udp_lost', '0'))
        total = max(int(take.connection.get('messages', '0')), 1)
    except ValueError:
        return found
    share = 100.0 * lost / (lost + total)
    if share > LOST_PERCENT or percent > LOST_PERCENT:
        found.append(Finding(
            Severity.WARNING, f'The network lost {counted(lost, "message")} ({share:.2f} %) '
            'between Motive and the node.', share))
    return found


def _of_the_clock(take: Take) -> list[Finding]:
    if not take.clock:
        return []
    epochs = take.clock[-1].epoch - take.clock[0].epoch
    found = []
    if epochs > 0:
        found.append(Finding(
            Severity.WARNING, f'The clock model of the sender restarted {counted(epochs, "time")} '
            '(a restart of Motive, or a set clock): stamps step there by up to the uncertainty.',
            1e3))
    known = [row.uncertainty_us for row in take.clock if not math.isnan(row.uncertainty_us)]
    worst = max(statistics.median(known), known[-1]) if known else 0.0
    if worst > UNCERTAIN_US:
        found.append(Finding(
            Severity.WARNING, f'Stamps are uncertain by {worst / 1000:.1f} ms: the network or a '
            'busy computer delays frames unevenly.', worst))
    return found


def _of_a_body(f: Figures, fastest_hz: float) -> list[Finding]:
    rest = f.rest or Rest(0.0, 0, 0.0, 0.0, 0.0)
    long = f.longest_gap_s >= LONG_GAP_S
    rows: tuple[tuple[object, Severity, str, float], ...] = (
        (f.jumps or f.resets, Severity.ERROR,
         f'{counted(max(f.jumps, f.resets), "discontinuity")} (jumps in the poses: {f.jumps}, '
         f'resets reported by the node: {f.resets}).', 1e5 + f.jumps + f.resets),
        (long, Severity.ERROR,
         f'no pose for up to {f.longest_gap_s:.2f} s; {counted(f.gaps, "gap")}, {f.gap_s:.2f} s '
         'in total.', f.gap_s),
        (f.gaps and not long, Severity.WARNING,
         f'{counted(f.gaps, "short gap")}, up to {1000 * f.longest_gap_s:.0f} ms.', f.gap_s),
        (f.frozen, Severity.ERROR,
         f'the same pose was repeated in {counted(f.frozen, "span")}: frozen data, not a body at '
         'rest.', f.frozen),
        (f.coverage < LEAST_COVERAGE and not long, Severity.WARNING,
         f'visible in {100 * f.coverage:.1f} % of the take.', 1.0 - f.coverage),
        (0 < f.rate_hz < SLOW_SHARE * fastest_hz, Severity.WARNING,
         f'{f.rate_hz:.0f} Hz where another body has {fastest_hz:.0f} Hz.',
         fastest_hz - f.rate_hz),
        (f.latency_ms > LATE_MS, Severity.WARNING,
         f'poses arrive {f.latency_ms:.0f} ms after their stamp (median).', f.latency_ms),
        (f.jitter_ms > JITTER_MS, Severity.WARNING,
         f'one pose in a hundred arrives at least {f.jitter_ms:.0f} ms later than the median.',
         f.jitter_ms),
        (rest.sigma3_mm > NOISE_MM, Severity.WARNING,
         f'noise at rest is {rest.sigma3_mm:.2f} mm (3 sigma): calibrate the cameras, or remove '
         'reflections.', rest.sigma3_mm),
        (rest.drift_mm > DRIFT_MM, Severity.WARNING,
         f'moved by {rest.drift_mm:.2f} mm in {rest.seconds:.0f} s of rest: the cameras warm up, '
         'or the body slides.', rest.drift_mm))
    return [Finding(severity, f'{f.name}: {text}', weight)
            for found, severity, text, weight in rows if found]
