# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Format single entries of the node's diagnostics: level, sentence and values (REP 107).

Pure: the functions convert snapshots to entries; ``status.py`` makes diagnostic_msgs of them.
"""

import math
from typing import Mapping, Optional, Sequence

from optitrack_vrpn.core.findings import Finding
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import ERROR, INFO, STALE, WARN
from optitrack_vrpn.core.stats import Percentiles
from optitrack_vrpn.core.status import StatusReport, written
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.stream.bodies.states import Disposition, State
from optitrack_vrpn.stream.clock.types import ClockStatus
from optitrack_vrpn.telling.facts import BodyFacts, LossFacts, NO_LOSS, RateFacts, StreamFacts
from optitrack_vrpn.telling.rules import of_entry

#: Reasons of the stages before and after the validity gate, for which each body has a value.
_LATER_STAGES = (
    Disposition.BACKLOG, Disposition.UNSTAMPED, Disposition.TOO_OLD, Disposition.SUPERSEDED,
    Disposition.STAMP_NOT_RISING, Disposition.SHED, Disposition.INACTIVE, Disposition.NO_TOPICS)

#: Longest reason (characters). Chosen: twice the longest one of this package, which has its remedy
#: at the end.
MAX_REASON = 800


#: Level of each state of the connection.
_LINK_LEVELS = {
    LinkState.STREAMING: INFO,
    LinkState.CONNECTED: WARN,
    LinkState.SILENT: WARN,
    LinkState.RESOLVING: WARN,
    LinkState.REQUESTING: WARN,
    LinkState.CONNECTING: WARN,
    LinkState.HANDSHAKING: WARN,
    LinkState.LOST: ERROR,
    LinkState.REFUSED: ERROR,
    LinkState.STOPPED: ERROR,
}
#: States of an attempt to connect.
_ATTEMPTS = (LinkState.RESOLVING, LinkState.REQUESTING, LinkState.CONNECTING,
             LinkState.HANDSHAKING)


def link_entry(
    state: LinkState, reason: str, values: Mapping[str, object], counters: Mapping[str, int],
    loss: LossFacts = NO_LOSS, last_failure: str = '',
) -> StatusReport:
    """
    Report the connection.

    A new attempt keeps the report of the failure before it: a server that cannot be reached is
    being contacted for most of the time, and that state alone gives no remedy.

    :param values: way, server, sessions and the like.
    :param counters: the protocol's counters.
    :param loss: the losses of the last seconds.
    :param last_failure: reason of the last failure since the last conversation, or ''.
    """
    details = {name: str(value) for name, value in values.items()}
    details.update({name: str(count) for name, count in counters.items()})
    if last_failure and state in _ATTEMPTS:
        state, reason = LinkState.LOST, last_failure
    level = _LINK_LEVELS[state]
    if 'udp_lost' in counters:
        details['udp_lost_percent'] = written(100.0 * loss.share, 1)
    for found in of_entry('connection', StreamFacts(loss=loss)) if level is INFO else ():
        level, reason = found.severity, found.line
    message = printable(reason, MAX_REASON)
    if not message.startswith(state.value):    # as "connected to 192.168.1.20" does
        message = f'{state.value}: {message}'
    return StatusReport('connection', level, message, details)


def clock_entry(
    status: ClockStatus, ptp_minus_stamp_ns: Optional[int] = None,
    found: Sequence[Finding] = (), latency_ms: float = 0.0,
) -> StatusReport:
    """
    Report the estimate of the sender's clock.

    :param ptp_minus_stamp_ns: PTP time of a frame minus its stamp (ns), if the server sends it.
    :param found: what is wrong with the sender's times.
    :param latency_ms: of the settings.
    """
    level, message = INFO, f'{status.mode}, epoch {status.epoch}'
    if found and found[0].severity is not INFO:
        level, message = found[0].severity, found[0].line
    elif not status.samples:
        level, message = WARN, f'{status.mode}, no pose of a selected body yet'
    elif not status.learnt:
        message += ', learning'
    elif found:
        message += f'; {found[0].text}'
    values = {
        'mode': status.mode,
        'latency_ms': f'{latency_ms:g}',
        'epoch': str(status.epoch),
        'learnt': str(status.learnt).lower(),
        'offset_s': f'{status.offset_ns / 1e9:.9f}',
        'skew_ppm': written(status.skew_ppm),
        'uncertainty_us': written(status.uncertainty_s * 1e6, 1),
        'arrival_jitter_p99_us': written(status.jitter_p99_s * 1e6, 1),
        'network_delay_us': written(status.network_delay_s * 1e6, 1),
        'sender_base': status.sender_base,
        'sender_jitter_us': written(status.sender_jitter_s * 1e6, 1),
        'by_arrival': str(status.by_arrival).lower(),
        'longer_delays_us': written(status.above_s * 1e6, 1),
        'longer_delays_since_s': written(status.above_since_s, 0),
        'samples': str(status.samples),
        'withheld_since_s': written(status.withheld_s if status.withheld else 0.0, 1),
    }
    values.update({
        f'epochs_ended_{reason}': str(count) for reason, count in status.restarts.items()})
    if ptp_minus_stamp_ns is not None:
        values['ptp_minus_stamp_ms'] = f'{ptp_minus_stamp_ns / 1e6:.6f}'
    return StatusReport('clock', level, message, values)


def _short(seconds: float) -> str:
    """Format a latency: in ms with two digits from 1 ms on."""
    return f'{seconds * 1e3:.2f} ms' if seconds >= 1e-3 else f'{seconds * 1e6:.1f} µs'


def frames_entry(
    work: Percentiles, latency: Percentiles, wait: Percentiles, dropped: Mapping[str, int],
    facts: StreamFacts, runs: str = '',
) -> StatusReport:
    """
    Report the latency of poses in the node.

    :param work: time from reading a datagram to publishing its poses (s).
    :param latency: time from the stamp of a pose to its publication (s).
    :param wait: time of datagrams in the kernel, before they are read (s).
    :param dropped: poses that were not published, by reason.
    :param runs: 'compiled', or the reason why the pose path is not compiled.
    """
    values = {}
    for name, figures in (('work', work), ('latency', latency), ('wait', wait)):
        for field, value in zip(figures._fields, figures):
            values[f'{name}_{field}_us'] = written(value * 1e6, 1)
    values.update({f'dropped_{reason}': str(count) for reason, count in dropped.items()})
    if runs:
        values['pose_path'] = runs
    message = f'{_short(latency.p50)} from stamp to topic' if math.isfinite(
        latency.p50) else 'latency from stamp to topic unknown'
    found = of_entry('frames', facts)
    level = max((one.severity for one in found), default=INFO)
    message = '; '.join([message, *(one.line for one in found)])
    return StatusReport('frames', level, message, values)


def body_entry(
    name: str, body: BodyFacts, dispositions: Mapping[Disposition, int],
    host_minus_arrival_ns: int,
    lowpass_delay_s: float = 0.0, expected_hz: float = 0.0, fastest_hz: float = 0.0,
    latency: Optional[Percentiles] = None, max_age_s: float = math.inf,
    world: str = '', frame: str = '',
) -> StatusReport:
    """
    Report one body.

    :param name: its name in ROS.
    :param dispositions: number of poses by disposition.
    :param host_minus_arrival_ns: host clock minus the clock of the status (ns).
    :param lowpass_delay_s: group delay of the low-pass (s), 0 without one.
    :param expected_hz: the cameras' rate given by the user (Hz), or 0.
    :param fastest_hz: the fastest body's rate (Hz), expected of all bodies if the cameras' rate is
        not given; 0 while unknown.
    :param latency: time from stamp to publication (s).
    :param max_age_s: largest age of a pose that is published (s).
    :param world: its parent frame in ENU; ``frame`` its own on /tf.
    """
    status = body.status
    level = {State.TRACKED: INFO, State.STALE: STALE}.get(status.state, WARN)
    message = f'{status.state.value}: {printable(status.detail, MAX_REASON)}'
    if status.state is State.STALE:    # its detail is from the beginning of the silence
        message = (f'STALE: the last valid pose arrived {status.age_s:.1f} s ago'
                   if math.isfinite(status.age_s) else 'STALE: no valid pose has arrived yet')
    if status.accepted_by_time_rad and status.state is State.TRACKED:
        message += (f'; its attitude was accepted by time, '
                    f'{math.degrees(status.accepted_by_time_rad):.0f} degrees from the one before')
    rates = {status.name: status.rate_hz} if level is INFO and status.rate_hz > 0 else {}
    facts = StreamFacts(bodies=(body,), max_age_s=max_age_s, rate=RateFacts(
        rates, expected_hz, fastest_hz))
    for found in of_entry('state', facts):
        message += f'; {found.remedy}'
    for found in of_entry('body', facts):
        level, message = found.severity, f'{status.state.value}, but {found.line}'
    nominal_hz = expected_hz or fastest_hz
    values = {
        'motive_name': printable(status.name),
        'world': world, 'frame': frame,
        'state': status.state.value,
        # Absolute time, because a latched status can be read later.
        'since': written((status.since_ns + host_minus_arrival_ns) / 1e9
                         if status.since_ns >= 0 else math.nan),
        'rate_hz': written(status.rate_hz, 1),
        'nominal_rate_hz': written(nominal_hz or math.nan, 1),
        'age_s': written(status.age_s),
        'received': str(sum(dispositions.values())),
        'good': str(status.good),
        'published': str(dispositions.get(Disposition.PUBLISHED, 0)),
        'resets': str(status.resets),
        'accepted_by_time': str(status.accepted_by_time),
        'accepted_by_time_deg': written(math.degrees(status.accepted_by_time_rad), 1),
        'gaps': str(status.gaps),
        'lost_frames': str(status.lost),
        'duplicates': str(dispositions.get(Disposition.DUPLICATE, 0)),
        'out_of_order': str(dispositions.get(Disposition.OUT_OF_ORDER, 0)),
        **{reason.value: str(dispositions.get(reason, 0)) for reason in _LATER_STAGES},
    }
    if latency is not None:
        values['latency_p50_us'] = written(latency.p50 * 1e6, 1)
        values['latency_p99_us'] = written(latency.p99 * 1e6, 1)
        values['jitter_p99_us'] = written((latency.p99 - latency.p50) * 1e6, 1)
    if lowpass_delay_s:
        values['lowpass_delay_s'] = written(lowpass_delay_s, 4)
    values.update({f'withheld_{reason}': str(n) for reason, n in status.withheld.items()})
    return StatusReport(f'body {name}', level, message, values)
