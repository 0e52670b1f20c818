# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings of a bridge, for /diagnostics, the command's check and the doctor."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.autopilot.agreement import difference, judge_attitude, judge_position
from optitrack_vrpn.autopilot.gate import Gate
from optitrack_vrpn.autopilot.parameters_check import UNCHECKED
from optitrack_vrpn.autopilot.settings import BridgeSettings, NO_ALTITUDE_M, Plan
from optitrack_vrpn.autopilot.timesync import PX4_ANSWERS, PX4_MAX_ROUND_TRIP_NS
from optitrack_vrpn.autopilot.vehicle import Link, SIGNS, Vehicle
from optitrack_vrpn.doctor import CheckResult, fail, ok, skip, warn
from optitrack_vrpn.names import printable

#: Flags of ESTIMATOR_STATUS_FLAGS; EKF_STATUS_FLAGS shares these bits.
_FLAGS = {
    1: 'attitude', 2: 'horizontal velocity', 4: 'vertical velocity',
    8: 'relative horizontal position', 16: 'absolute horizontal position',
    32: 'absolute vertical position', 64: 'height above ground'}
_ATTITUDE, _RELATIVE, _ABSOLUTE, _CONSTANT, _AIDED = 1, 8, 16, 128, 256
#: Chosen: age (ns) above which a report of the estimator is not used.
_ESTIMATOR_NS = 5_000_000_000
#: Chosen: altitude (m) of the origin of a PX4 above which it is reported: an error of the height
#: that a flight at 1 m shows.
_LEVEL_M = 0.2
#: Fraction of the configured rate below which the rate is reported. Chosen: a camera rate that is
#: not a multiple of the rate, and the smallest interval of ArduPilot, cost up to a fifth. At 0.5
#: half of the samples can be missing; nearer to 1, normal rates are reported.
_TOO_SLOW = 0.75


class Source(NamedTuple):
    """
    Source of the samples.

    :ivar topic: topic of the samples in use, '' before the first.
    :ivar publishers: number of publishers of the pose or the odometry topic, whichever is larger.
    :ivar problem: why no sample can be used, '' if they can; see ``OnePublisher``.
    :ivar status: the last state of the body, '' while unknown.
    :ivar topics: the subscribed topics, as text.
    :ivar rate_hz: samples sent in the last second (Hz).
    """

    topic: str
    publishers: int
    status: str
    topics: str
    rate_hz: float
    problem: str = ''


class LinkReport(NamedTuple):
    """
    State of the link, for any transport.

    :ivar up: whether it is open.
    :ivar trouble: reason why it is closed.
    :ivar peer: the other end.
    :ivar age_ns: age of the last sample when it was written (ns).
    :ivar values: counters for the user.
    """

    up: bool
    trouble: str
    peer: str
    age_ns: int
    values: Mapping[str, Any]


def findings(
    settings: BridgeSettings, plan: Plan, source: Source, gate: Gate, link: LinkReport,
    vehicle: Optional[Vehicle], active: bool, monotonic_ns: int,
) -> list[CheckResult]:
    """
    Return all findings.

    :param vehicle: None for transport dds, over which the autopilot cannot be queried.
    :param active: whether the bridge is active.
    :returns: findings, each after those that it depends on.
    """
    found = [_input(source), _link(settings, link)]
    if vehicle is None:
        found.append(skip('autopilot', 'transport dds: the autopilot is not queried'))
    else:
        found += [
            _autopilot(settings, vehicle, monotonic_ns), _timesync(settings, vehicle),
            _parameters(settings, vehicle),
            skip('unchecked', f'compare with docs/autopilot.md: {UNCHECKED[settings.autopilot]}'),
            *_origin(settings, plan, vehicle),
            _senders(vehicle, monotonic_ns), _estimator(settings, vehicle, monotonic_ns),
            _agreement(vehicle)]
    return [*found, _sending(plan, source, gate, link, vehicle, active)]


def _input(source: Source) -> CheckResult:
    values: dict[str, Any] = {
        'topics': source.topics, 'publishers': source.publishers,
        'state': source.status or 'unknown'}
    if not source.publishers:
        return fail('input', f'no publisher of {source.topics}',
                    'start the node, and set body to the name in its topics', **values)
    if source.problem:
        return fail('input', f'{source.problem}: nothing is sent', 'stop one of them', **values)
    if not source.status:
        return fail('input', 'the state of the body is unknown: nothing is sent',
                    'add status to the outputs of the node', **values)
    if source.status != 'TRACKED':
        return warn('input', f'the body is {source.status}: nothing is sent',
                    'bring it into view of the cameras', **values)
    return ok('input', f'the body is TRACKED, from {source.topic or "no topic yet"}', **values)


def _link(settings: BridgeSettings, link: LinkReport) -> CheckResult:
    values: dict[str, Any] = {'peer': link.peer, **link.values}
    name = 'dds' if settings.transport == 'dds' else settings.connection
    if not link.up:
        return fail('link', f'{name}: {link.trouble}', 'check cable, address and port', **values)
    if link.values.get('other_autopilot'):
        return fail('link', f'{name}: two autopilots with the same system id send to this port, '
                    f'{link.peer} and {link.values["other_autopilot"]}; the second is ignored',
                    'give each vehicle its own port and its own system id', **values)
    if not link.peer and settings.transport == 'dds':
        return warn('link', f'{name}: no subscription', 'start the agent of the autopilot, and '
                    'compare ROS_DOMAIN_ID and dds.topic', **values)
    if not link.peer:
        return warn('link', f'{name}: waiting for the autopilot to send',
                    "set the autopilot's MAVLink instance to this computer's address and port, "
                    'or use udpout', **values)
    return ok('link', f'{name}: {link.peer}', **values)


def _autopilot(settings: BridgeSettings, vehicle: Vehicle, monotonic_ns: int) -> CheckResult:
    age_s = vehicle.heartbeat_age_s(monotonic_ns)
    others = ', '.join(map(str, vehicle.other_vehicles(monotonic_ns)))
    also = others and f'; the link has an autopilot with the system id {others}'
    values: dict[str, Any] = {
        'system': vehicle.system, 'firmware': vehicle.firmware, 'version': vehicle.version,
        'armed': vehicle.armed,
        'heartbeat_age_s': None if age_s is None else round(age_s, 2)}
    if vehicle.link is Link.WAITING:
        wanted = settings.target_system and f'system {settings.target_system}'
        return fail('autopilot', f'no heartbeat of {wanted or "an autopilot"}' + also,
                    'set target_system' if others else
                    'power it, and check that MAVLink runs on this port', **values)
    if vehicle.link is Link.LOST:
        return fail('autopilot', f'heartbeat lost {age_s or math.nan:.1f} s ago' + also,
                    'check the link; poses are still sent' + (
                        others and '; configure the bridge again if the vehicle has a new id'),
                    **values)
    if vehicle.link is Link.WRONG:
        return fail('autopilot', f'the vehicle runs {vehicle.firmware}: nothing is sent',
                    'set the parameter autopilot', **values)
    if others and not settings.target_system:
        before = 'the poses are' if vehicle.may_send else 'nothing is sent; they would be'
        return fail('autopilot', f'{before} for system {vehicle.system}{also}',
                    'set target_system', **values)
    return ok('autopilot', f'{vehicle.firmware} {vehicle.version}'.rstrip()
              + f', system {vehicle.system}, {"armed" if vehicle.armed else "disarmed"}',
              **values)


def _timesync(settings: BridgeSettings, vehicle: Vehicle) -> CheckResult:
    timesync = vehicle.timesync
    best, median_ns = timesync.best, timesync.median_round_trip_ns
    values: dict[str, Any] = {
        'answered': timesync.answered, 'counted': timesync.counted,
        'round_trips': timesync.rounds}
    if best is None or median_ns is None:
        return warn('timesync', 'no answer to TIMESYNC yet', SIGNS if vehicle.signs else
                    'wait, or check that the link works in both directions', **values)
    values |= {'offset_s': round(best.offset_ns / 1e9, 6),
               'round_trip_ms': round(median_ns / 1e6, 3)}
    text = f'round trip {median_ns / 1e6:.1f} ms'
    if vehicle.converged:
        return ok('timesync', text, **values)
    if median_ns >= PX4_MAX_ROUND_TRIP_NS:
        return warn('timesync', f'{text}: PX4 uses only those below '
                    f'{PX4_MAX_ROUND_TRIP_NS / 1e6:.0f} ms, and stamps poses on arrival',
                    'use a faster link; or set EKF2_EV_DELAY to the delay of this one', **values)
    return warn('timesync', f'{text}; {timesync.counted} of {PX4_ANSWERS} answers until PX4 uses '
                'the stamps; until then it stamps poses on arrival',
                'wait about 50 s before the take-off', **values)


def _parameters(settings: BridgeSettings, vehicle: Vehicle) -> CheckResult:
    protocol = vehicle.parameters
    verdicts = protocol.verdicts
    values = {verdict.rule.name: verdict.value for verdict in verdicts}
    if not protocol.read:
        return skip('parameters', 'not all read yet')
    bad = [verdict for verdict in verdicts if not verdict.good]
    if not bad and protocol.reboot:
        return warn('parameters', f'all {len(verdicts)} are right', protocol.reboot, **values)
    if not bad:
        return ok('parameters', f'all {len(verdicts)} are right', **values)
    found = '; '.join(map(str, bad))
    advice = protocol.refused or (
        '' if settings.set_parameters else 'set them, or set_parameters: true here')
    if any(verdict.rule.required for verdict in bad):
        return fail('parameters', found, advice, **values)
    return warn('parameters', found, advice, **values)


def _origin(settings: BridgeSettings, plan: Plan, vehicle: Vehicle) -> list[CheckResult]:
    present = vehicle.origin.present
    if settings.autopilot == 'px4' and present is not None and abs(present[2]) > _LEVEL_M:
        return [fail('origin', f'the origin has an altitude of {present[2]:.1f} m: PX4 1.16 and '
                     'later shift their local height by it at each reset of the poses',
                     'set EKF2_GPS_CTRL to 0, and reboot the autopilot')]
    if settings.autopilot == 'ardupilot' and present is not None and (
            abs(present[2]) < NO_ALTITUDE_M):
        return [fail('origin', 'the origin has the altitude 0: while disarmed, ArduPilot sets its '
                     'height to zero every second',
                     'set one with another altitude after a reboot of the autopilot')]
    if plan.origin is None:
        return []
    problem = vehicle.origin.problem
    if problem:
        return [warn('origin', problem, 'set origin to that of the autopilot, or reboot it')]
    if present is None:
        return [skip('origin', 'not asked yet')]
    latitude, longitude, altitude = present
    return [ok('origin', f'{latitude:.7f}, {longitude:.7f}, {altitude:.1f} m')]


def _senders(vehicle: Vehicle, monotonic_ns: int) -> CheckResult:
    others = vehicle.other_senders(monotonic_ns)
    if others:
        return fail('senders', printable(', '.join(others), 300),
                    'end one of the senders: the estimator gets the poses of both')
    return ok('senders', 'no other sender of poses is seen on this link')


def _estimator(
    settings: BridgeSettings, vehicle: Vehicle, monotonic_ns: int,
) -> CheckResult:
    if vehicle.estimator is None or monotonic_ns - vehicle.estimator_ns > _ESTIMATOR_NS:
        return skip('estimator', 'no report of the estimator')
    flags = int(vehicle.estimator['flags'])
    values: dict[str, Any] = {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in vehicle.estimator.items() if key != 'mavpackettype'}
    named = ', '.join(name for bit, name in _FLAGS.items() if flags & bit)
    if not flags & _ATTITUDE:
        return fail('estimator', f'no attitude ({named or "no flag set"})',
                    'leave the vehicle still until it has initialised', **values)
    if not _fuses_position(settings.autopilot, flags):
        return warn('estimator', f'no horizontal position: poses are not fused ({named})',
                    'see the checks above; without poses this is expected', **values)
    return ok('estimator', f'estimates {named}', **values)


def _fuses_position(autopilot: str, flags: int) -> bool:
    """Return whether the estimator has a source of horizontal position, by its flags."""
    if autopilot == 'px4':
        # PX4 1.16 and later also set "constant position" while the vehicle stands still, and keep
        # "relative position" for 5 s without any source (Ekf::get_ekf_soln_status).
        return bool(flags & _AIDED)
    return bool(flags & (_RELATIVE | _ABSOLUTE)) and not flags & _CONSTANT


def _agreement(vehicle: Vehicle) -> CheckResult:
    agreement = vehicle.agreement
    if not agreement.attitudes:
        return skip('agreement', 'no attitude of the autopilot to compare with yet')
    found = judge_attitude(agreement.attitudes) + judge_position(agreement.positions)
    last = difference(agreement.attitudes[-1])
    values = {f'{name}_difference_deg': round(math.degrees(angle), 1)
              for name, angle in zip(('roll', 'pitch', 'yaw'), last)}
    if found:
        return fail('agreement', '; '.join(found),
                    'do not take off; docs/autopilot.md explains how to align the body', **values)
    what = 'attitude and position' if agreement.positions else 'attitude'
    return ok('agreement', f'the {what} of the autopilot agree with the motion capture', **values)


def _sending(
    plan: Plan, source: Source, gate: Gate, link: LinkReport, vehicle: Optional[Vehicle],
    active: bool,
) -> CheckResult:
    values: dict[str, Any] = {
        'rate_hz': round(source.rate_hz, 1), 'wanted_rate_hz': round(1e9 / plan.period_ns, 1),
        'age_ms': round(link.age_ns / 1e6, 2), 'reset_counter': gate.reset_counter,
        'samples': gate.sent, 'messages': ', '.join(plan.messages)}
    values.update({f'withheld_{reason.value}': count for reason, count in gate.withheld.items()})
    if not active:
        return skip('sending', 'the bridge is not active')._replace(values=values)
    if vehicle is not None and vehicle.link is Link.ALIVE and vehicle.origin_pending:
        return warn('sending', 'nothing is sent before the autopilot has the origin',
                    'wait some seconds', **values)
    if vehicle is not None and vehicle.link is Link.ALIVE and vehicle.ambiguous:
        return fail('sending', 'nothing is sent before it is known that there is one vehicle',
                    'set target_system', **values)
    if vehicle is not None and not vehicle.may_send:
        return fail('sending', 'nothing is sent before a heartbeat of the autopilot', '', **values)
    if not source.rate_hz:
        if source.problem:
            return fail('sending', f'nothing is sent: {source.problem}', '', **values)
        if not gate.tracked:
            return fail('sending', 'nothing is sent: the body is not TRACKED', '', **values)
        return fail('sending', f'nothing is sent: {_reason(gate)}',
                    'compare the clocks of the computers (chrony), and check the node',
                    **values)
    if plan.warnings:
        return warn('sending', '; '.join(plan.warnings), 'change message or frame', **values)
    if source.rate_hz < _TOO_SLOW * 1e9 / plan.period_ns:
        return warn('sending', f'{source.rate_hz:.0f} Hz where {1e9 / plan.period_ns:.0f} Hz are '
                    'configured', 'raise the camera rate, or check the body for gaps', **values)
    return ok('sending', f'{source.rate_hz:.0f} Hz, {link.age_ns / 1e6:.1f} ms old, reset '
              f'counter {gate.reset_counter}', **values)


def _reason(gate: Gate) -> str:
    if gate.age_ns is None:
        return 'no sample has arrived'
    return f'the last sample was {gate.age_ns / 1e6:.0f} ms old when it arrived'
