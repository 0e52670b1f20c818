# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings of a bridge, for /diagnostics, the command's check and the doctor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any, Callable, NamedTuple, Optional

from optitrack_vrpn.core.checks import CheckResult, fail, ok, skip, warn
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.guests.autopilot.exchanges import (
    difference, judge_attitude, judge_position, PX4_ANSWERS, PX4_MAX_ROUND_TRIP_NS)
from optitrack_vrpn.guests.autopilot.gate import Gate
from optitrack_vrpn.guests.autopilot.parameters import UNCHECKED
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, NO_ALTITUDE_M, Plan
from optitrack_vrpn.guests.autopilot.vehicle import SIGNS, Vehicle, VehicleLink

#: Flags of ESTIMATOR_STATUS_FLAGS; EKF_STATUS_FLAGS shares these bits.
_FLAGS = {
    1: 'attitude', 2: 'horizontal velocity', 4: 'vertical velocity',
    8: 'relative horizontal position', 16: 'absolute horizontal position',
    32: 'absolute vertical position', 64: 'height above ground'}
_ATTITUDE, _RELATIVE, _ABSOLUTE, _CONSTANT, _AIDED = 1, 8, 16, 128, 256
#: Why an armed vehicle gets no pose from a publisher that was heard beside the one before.
OTHER_AXES = ('the node whose poses were sent is silent, and those of another one differed from '
              'them')
#: Advice where no pose is sent because of several publishers.
WHICH_ADVICE = 'stop the wrong node, and start the right one if it has ended'
#: (whether it applies, level of the result, finding, advice)
_Row = tuple[object, Callable[..., CheckResult], str, str]


@dataclass
class VisionSource:
    """
    What is known of the body and of the publishers of its samples.

    :ivar topic: topic of the samples in use, '' before the first.
    :ivar publishers: number of publishers of the pose or the odometry topic, whichever is larger.
    :ivar problem: why no sample can be used, '' if they can; see ``Binding``.
    :ivar others: which samples of other publishers are not used.
    :ivar doubt: why the attitude is not followed, '' if it is.
    :ivar doubt_advice: what ends this.
    :ivar inactive: the node that publishes the body and is inactive, '' if it is active.
    :ivar status: the last state of the body, '' while unknown.
    :ivar topics: the subscribed topics, as text.
    :ivar rate_hz: samples sent in the last second (Hz).
    """

    topic: str = ''
    publishers: int = 0
    status: str = ''
    topics: str = ''
    rate_hz: float = 0.0
    problem: str = ''
    others: str = ''
    doubt: str = ''
    doubt_advice: str = ''
    inactive: str = ''


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
    settings: BridgeSettings, plan: Plan, source: VisionSource, gate: Gate, link: LinkReport,
    vehicle: Optional[Vehicle], monotonic_ns: int,
) -> list[CheckResult]:
    """
    Return all findings.

    :param vehicle: None for transport dds, over which the autopilot cannot be queried.
    :returns: findings, each after those that it depends on.
    """
    found = [_input(source), _link(settings, link)]
    if vehicle is None:
        found.append(skip('autopilot', 'transport dds: the autopilot is not queried'))
    else:
        found += [
            _autopilot(settings, vehicle, monotonic_ns), _timesync(vehicle),
            _parameters(settings, vehicle),
            skip('unchecked', f'compare with docs/autopilot.md: {UNCHECKED[settings.autopilot]}'),
            *_origin(settings, plan, vehicle),
            _senders(vehicle, monotonic_ns), _estimator(settings, vehicle, monotonic_ns),
            _agreement(vehicle)]
    return [*found, _sending(plan, source, gate, link, vehicle)]


def _judge(check: str, values: Mapping[str, Any], good: str, *rows: _Row) -> CheckResult:
    """Return the first row that applies; ``good`` if none does."""
    for applies, make, found, advice in rows:
        if applies:
            return make(check, found, advice, **values)
    return ok(check, good, **values)


def _input(source: VisionSource) -> CheckResult:
    return _judge(
        'input', {'topics': source.topics, 'publishers': source.publishers,
                  'state': source.status or 'unknown'},
        f'the body is TRACKED, from {source.topic or "no topic yet"}',
        (not source.publishers, fail, f'no publisher of {source.topics}',
         'start the node, and set body to the name in its topics'),
        (source.inactive, fail, f'the node {source.inactive} is inactive: nothing is sent',
         f'activate it: ros2 lifecycle set {source.inactive} activate, or START of mocap control'),
        (source.problem, fail, f'{source.problem}: nothing is sent', WHICH_ADVICE),
        (source.doubt, fail, f'{source.doubt}: nothing is sent', source.doubt_advice),
        (not source.status, fail, 'the state of the body is unknown: nothing is sent',
         'add status to the outputs of the node'),
        (source.status != 'TRACKED', warn, f'the body is {source.status}: nothing is sent',
         'bring it into view of the cameras'),
        (source.others, warn, source.others, 'stop the others'))


def _link(settings: BridgeSettings, link: LinkReport) -> CheckResult:
    dds = settings.transport == 'dds'
    name = 'dds' if dds else settings.connection
    other = link.values.get('other_autopilot')
    return _judge(
        'link', {'peer': link.peer, **link.values}, f'{name}: {link.peer}',
        (not link.up, fail, f'{name}: {link.trouble}', 'check cable, address and port'),
        (other, fail, f'{name}: two autopilots with the same system id send to this port, '
         f'{link.peer} and {other}; the second is ignored',
         'give each vehicle its own port and its own system id'),
        (not link.peer and dds, warn, f'{name}: no subscription',
         'start the agent of the autopilot, and compare ROS_DOMAIN_ID and dds.topic'),
        (not link.peer, warn, f'{name}: waiting for the autopilot to send',
         "set the autopilot's MAVLink instance to this computer's address and port, or use "
         'udpout'))


def _autopilot(settings: BridgeSettings, vehicle: Vehicle, monotonic_ns: int) -> CheckResult:
    age_s = vehicle.heartbeat_age_s(monotonic_ns)
    others = ', '.join(map(str, vehicle.other_vehicles(monotonic_ns)))
    also = others and f'; the link has an autopilot with the system id {others}'
    named = settings.target_system
    wanted = f'system {named}' if named else 'an autopilot'
    before = 'the poses are' if vehicle.may_send else 'nothing is sent; they would be'
    return _judge(
        'autopilot', {
            'system': vehicle.system, 'firmware': vehicle.firmware, 'version': vehicle.version,
            'armed': vehicle.armed,
            'heartbeat_age_s': None if age_s is None else round(age_s, 2)},
        f'{vehicle.firmware} {vehicle.version}'.rstrip()
        + f', system {vehicle.system}, {"armed" if vehicle.armed else "disarmed"}',
        (vehicle.link is VehicleLink.WAITING, fail, f'no heartbeat of {wanted}{also}',
         'set target_system' if others else
         'power it, and check that MAVLink runs on this port'),
        (vehicle.link is VehicleLink.LOST, fail,
         f'heartbeat lost {age_s or math.nan:.1f} s ago{also}',
         'check the link; poses are still sent' + (
             others and '; configure the bridge again if the vehicle has a new id')),
        (vehicle.link is VehicleLink.WRONG, fail,
         f'the vehicle runs {vehicle.firmware}: nothing is sent', 'set the parameter autopilot'),
        (others and not named, fail, f'{before} for system {vehicle.system}{also}',
         'set target_system'))


def _timesync(vehicle: Vehicle) -> CheckResult:
    timesync = vehicle.timesync
    best, median_ns = timesync.best, timesync.median_round_trip_ns
    values: dict[str, Any] = {
        'answered': timesync.answered, 'counted': timesync.counted,
        'round_trips': timesync.rounds}
    if best is None or median_ns is None:
        return warn('timesync', 'no answer to TIMESYNC yet', SIGNS if vehicle.signs else
                    'wait, or check that the link works in both directions', **values)
    text = f'round trip {median_ns / 1e6:.1f} ms'
    return _judge(
        'timesync', values | {'offset_s': round(best.offset_ns / 1e9, 6),
                              'round_trip_ms': round(median_ns / 1e6, 3)}, text,
        (not vehicle.converged and median_ns >= PX4_MAX_ROUND_TRIP_NS, warn,
         f'{text}: PX4 uses only those below {PX4_MAX_ROUND_TRIP_NS / 1e6:.0f} ms, and stamps '
         'poses on arrival',
         'use a faster link; or set EKF2_EV_DELAY to the delay of this one'),
        (not vehicle.converged, warn,
         f'{text}; {timesync.counted} of {PX4_ANSWERS} answers until PX4 uses the stamps; until '
         'then it stamps poses on arrival', 'wait about 50 s before the take-off'))


def _parameters(settings: BridgeSettings, vehicle: Vehicle) -> CheckResult:
    protocol = vehicle.parameters
    if not protocol.read:
        return skip('parameters', 'not all read yet')
    verdicts = protocol.verdicts
    bad = [verdict for verdict in verdicts if not verdict.good]
    found = '; '.join(map(str, bad))
    advice = protocol.refused or (
        '' if settings.set_parameters else 'set them, or set_parameters: true here')
    right = f'all {len(verdicts)} are right'
    return _judge(
        'parameters', {verdict.rule.name: verdict.value for verdict in verdicts}, right,
        (not bad and protocol.reboot, warn, right, protocol.reboot),
        (any(verdict.rule.required for verdict in bad), fail, found, advice),
        (bad, warn, found, advice))


def _origin(settings: BridgeSettings, plan: Plan, vehicle: Vehicle) -> list[CheckResult]:
    present, px4 = vehicle.origin.present, settings.autopilot == 'px4'
    latitude, longitude, altitude = present or (0.0, 0.0, 0.0)
    # Chosen: an error of the height that a flight at 1 m shows.
    if present is not None and px4 and abs(altitude) > 0.2:
        return [fail('origin', f'the origin has an altitude of {altitude:.1f} m: PX4 1.16 and '
                     'later shift their local height by it at each reset of the poses',
                     'set EKF2_GPS_CTRL to 0, and reboot the autopilot')]
    if present is not None and not px4 and abs(altitude) < NO_ALTITUDE_M:
        return [fail('origin', 'the origin has the altitude 0: while disarmed, ArduPilot sets its '
                     'height to zero every second',
                     'set one with another altitude after a reboot of the autopilot')]
    if plan.origin is None:
        return []
    problem = vehicle.origin.problem
    if not problem and present is None:
        return [skip('origin', 'not asked yet')]
    return [_judge('origin', {}, f'{latitude:.7f}, {longitude:.7f}, {altitude:.1f} m', (
        problem, warn, problem, 'set origin to that of the autopilot, or reboot it'))]


def _senders(vehicle: Vehicle, monotonic_ns: int) -> CheckResult:
    others = printable(', '.join(vehicle.other_senders(monotonic_ns)), 300)
    return _judge('senders', {}, 'no other sender of poses is seen on this link', (
        others, fail, others, 'end one of the senders: the estimator gets the poses of both'))


def _estimator(
    settings: BridgeSettings, vehicle: Vehicle, monotonic_ns: int,
) -> CheckResult:
    if vehicle.estimator is None or monotonic_ns - vehicle.estimator_ns > 5_000_000_000:
        return skip('estimator', 'no report of the estimator')
    flags = int(vehicle.estimator.flags)
    named = ', '.join(name for bit, name in _FLAGS.items() if flags & bit)
    if settings.autopilot == 'px4':
        # PX4 1.16 and later also set "constant position" while the vehicle stands still, and keep
        # "relative position" for 5 s without any source (Ekf::get_ekf_soln_status).
        fuses = bool(flags & _AIDED)
    else:
        fuses = bool(flags & (_RELATIVE | _ABSOLUTE)) and not flags & _CONSTANT
    return _judge(
        'estimator', {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in vehicle.estimator.to_dict().items() if key != 'mavpackettype'},
        f'estimates {named}',
        (not flags & _ATTITUDE, fail, f'no attitude ({named or "no flag set"})',
         'leave the vehicle still until it has initialised'),
        (not fuses, warn, f'no horizontal position: poses are not fused ({named})',
         'see the checks above; without poses this is expected'))


def _agreement(vehicle: Vehicle) -> CheckResult:
    agreement = vehicle.agreement
    if not agreement.attitudes:
        return skip('agreement', 'no attitude of the autopilot to compare with yet')
    found = '; '.join(judge_attitude(agreement.attitudes) + judge_position(agreement.positions))
    last = difference(agreement.attitudes[-1])
    what = 'attitude and position' if agreement.positions else 'attitude'
    return _judge(
        'agreement', {f'{name}_difference_deg': round(math.degrees(angle), 1)
                      for name, angle in zip(('roll', 'pitch', 'yaw'), last)},
        f'the {what} of the autopilot agree with the motion capture',
        (found, fail, found,
         'do not take off; docs/autopilot.md explains how to align the body'))


def _sending(
    plan: Plan, source: VisionSource, gate: Gate, link: LinkReport, vehicle: Optional[Vehicle],
) -> CheckResult:
    wanted_hz = 1e9 / plan.period_ns
    values: dict[str, Any] = {
        'rate_hz': round(source.rate_hz, 1), 'wanted_rate_hz': round(wanted_hz, 1),
        'age_ms': round(link.age_ns / 1e6, 2), 'reset_counter': gate.reset_counter,
        'samples': gate.sent, 'messages': ', '.join(plan.messages),
        **{f'withheld_{reason.value}': count for reason, count in gate.withheld.items()}}
    if not gate.active:
        return skip('sending', 'the bridge is not active')._replace(values=values)
    alive = vehicle is not None and vehicle.link is VehicleLink.ALIVE
    stopped = not source.rate_hz
    reason = 'no sample has arrived' if gate.age_ns is None else (
        f'the last sample was {gate.age_ns / 1e6:.0f} ms old when it arrived')
    return _judge(
        'sending', values,
        f'{source.rate_hz:.0f} Hz, {link.age_ns / 1e6:.1f} ms old, reset counter '
        f'{gate.reset_counter}',
        (alive and vehicle is not None and vehicle.origin_pending, warn,
         'nothing is sent before the autopilot has the origin', 'wait some seconds'),
        (alive and vehicle is not None and vehicle.ambiguous, fail,
         'nothing is sent before it is known that there is one vehicle', 'set target_system'),
        (vehicle is not None and not vehicle.may_send, fail,
         'nothing is sent before a heartbeat of the autopilot', ''),
        (stopped and source.inactive, fail,
         f'nothing is sent: the node {source.inactive} is inactive', 'activate it'),
        (stopped and source.doubt, fail, f'nothing is sent: {source.doubt}', ''),
        (stopped and source.problem, fail, f'nothing is sent: {source.problem}', ''),
        (stopped and not gate.tracked, fail, 'nothing is sent: the body is not TRACKED', ''),
        (stopped, fail, f'nothing is sent: {reason}',
         'compare the clocks of the computers (chrony), and check the node'),
        (plan.warnings, warn, '; '.join(plan.warnings), 'change message or frame'),
        # Chosen: a camera rate that is not a multiple of the rate, and the smallest interval of
        # ArduPilot, cost up to a fifth. At 0.5 half of the samples can be missing.
        (source.rate_hz < 0.75 * wanted_hz, warn,
         f'{source.rate_hz:.0f} Hz where {wanted_hz:.0f} Hz are configured',
         'raise the camera rate, or check the body for gaps'))
