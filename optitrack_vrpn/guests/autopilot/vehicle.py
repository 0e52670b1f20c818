# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The state of the autopilot at the other end of a link, and the messages due for it.

Messages and times are the input, messages and events are the output. The link has four states:

1. WAITING: no heartbeat of an autopilot yet. No pose is sent.
2. ALIVE: the expected autopilot sends heartbeats. Those of another firmware with its ids are
   ignored and reported.
3. LOST: the heartbeats have stopped. Poses are still sent, because on a link that works in one
   direction only, the estimator must not lose them.
4. WRONG: the heartbeat is that of another firmware. No pose is sent.
"""

from __future__ import annotations

import enum
from typing import Any, Hashable, Optional

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.guests.autopilot.exchanges import (
    Agreement, Origin, request_message, Timesync)
from optitrack_vrpn.guests.autopilot.messages import make_message
from optitrack_vrpn.guests.autopilot.parameters import (
    AUTOPILOT_COMPONENT, ParameterProtocol, rules)
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, MESSAGES, Plan, PROFILES

#: MAV_AUTOPILOT_INVALID: of heartbeats of what is no autopilot.
_NO_AUTOPILOT = 8
#: Component id of the bridge: MAV_COMP_ID_VISUAL_INERTIAL_ODOMETRY.
COMPONENT = 197
#: Period of heartbeats (ns), 1 Hz as the MAVLink guide recommends, and (chosen) the silence of the
#: autopilot that counts as its loss.
_HEARTBEAT_NS = 1_000_000_000
_TIMEOUT_NS = 3 * _HEARTBEAT_NS
#: Names of vision messages.
VISION = frozenset(name.upper() for name in MESSAGES)
#: Messages that the diagnostics use, with their ids, by autopilot.
_WANTED = {
    autopilot: {**estimator, 'ATTITUDE': 30, 'LOCAL_POSITION_NED': 32}
    for autopilot, estimator in (('px4', {'ESTIMATOR_STATUS': 230}),
                                 ('ardupilot', {'EKF_STATUS_REPORT': 193}))}
SIGNS = ('the autopilot signs its messages and may drop those of the bridge, which have no '
         'signature: remove its signing key')


class VehicleLink(enum.Enum):
    """State of the link; see the docstring of this file."""

    WAITING = 'waiting'
    ALIVE = 'alive'
    LOST = 'lost'
    WRONG = 'wrong autopilot'


class LinkEvent(enum.Enum):
    """What changes the state of the link."""

    HEARTBEAT = 'heartbeat of the right autopilot'
    FOREIGN = 'heartbeat of another firmware'
    SILENCE = 'no heartbeat for three seconds'


#: The next state; the state stays where there is no entry.
TRANSITIONS: dict[LinkEvent, dict[VehicleLink, VehicleLink]] = {
    LinkEvent.HEARTBEAT: dict.fromkeys(VehicleLink, VehicleLink.ALIVE),
    LinkEvent.FOREIGN: {VehicleLink.WAITING: VehicleLink.WRONG,
                        VehicleLink.LOST: VehicleLink.WRONG},
    LinkEvent.SILENCE: {VehicleLink.ALIVE: VehicleLink.LOST,
                        VehicleLink.WRONG: VehicleLink.WAITING},
}


class Vehicle:
    """
    State of one autopilot; not thread-safe. Messages are those of pymavlink.

    :param settings: settings of the bridge.
    :param plan: the plan made from them.
    :ivar link: state of the link.
    :ivar system: system id of the autopilot, 0 while unknown.
    :ivar timesync: the exchange of TIMESYNC.
    :ivar parameters: the exchange of parameters.
    :ivar origin: the exchange about the origin.
    :ivar origin_pending: whether poses must wait for the origin; see ``Origin.pending``.
    :ivar ambiguous: whether several vehicles, or not enough heartbeats, were heard to know for
        which one the poses are; never with ``target_system``.
    :ivar interruptions: number of times that the autopilot may have missed poses or restarted.
    :ivar agreement: comparison of attitudes and positions.
    :ivar estimator: the last ESTIMATOR_STATUS or EKF_STATUS_REPORT.
    :ivar version: firmware version, as in ``1.15.4``, '' while unknown.
    :ivar signs: whether it signs its messages; it may then drop those of the bridge.
    """

    def __init__(self, settings: BridgeSettings, plan: Plan) -> None:
        self._settings = settings
        self.link = VehicleLink.WAITING
        self.system = 0
        self.armed = self.signs = False
        self.firmware = self.version = ''
        self.timesync = Timesync()
        self.parameters = ParameterProtocol(
            rules(settings.autopilot, plan), settings.autopilot == 'px4', settings.set_parameters)
        self.origin = Origin(plan.origin)
        self.agreement = Agreement()
        self.estimator: Any = None
        self.estimator_ns = -1
        self.origin_pending = False
        self.ambiguous = not settings.target_system
        self.interruptions = 0
        self._alone = False
        self._first_ns = self._heartbeat_ns = -1
        self._next_heartbeat_ns = self._next_ask_ns = 0
        self._ticked_ns = self._silence_ns = 0
        self._events: list[Event] = []
        self._seen: dict[str, int] = {}
        self._others: dict[tuple[int, int], tuple[str, int]] = {}
        self._other_vehicles: dict[int, int] = {}

    # -- queries -----------------------------------------------------------------------------

    @property
    def may_send(self) -> bool:
        """Return whether the vehicle is known, alone or named, and has its origin."""
        return self._known and not self.ambiguous and not self.origin_pending

    @property
    def _known(self) -> bool:
        """Return whether the autopilot was found and is of the right kind."""
        return self.link in (VehicleLink.ALIVE, VehicleLink.LOST)

    @property
    def own_system(self) -> int:
        """Return the system id of this side: the vehicle's."""
        return self.system or 1

    @property
    def converged(self) -> bool:
        """Return whether the autopilot uses the stamps; see ``Timesync``."""
        return self.timesync.converged(self._settings.autopilot)

    def is_autopilot(self, message: Any) -> bool:
        """Return whether a message has the ids of the vehicle's autopilot."""
        return sender_of(message) == (self.system, AUTOPILOT_COMPONENT)

    def heartbeat_age_s(self, monotonic_ns: int) -> Optional[float]:
        """Return the time since the last heartbeat (s); None if there was none."""
        return None if self._heartbeat_ns < 0 else (monotonic_ns - self._heartbeat_ns) / 1e9

    def other_senders(self, monotonic_ns: int) -> list[str]:
        """List the other senders of vision messages to this vehicle."""
        return [f'{name} from system {system} component {component}'
                for (system, component), (name, at_ns) in self._others.items()
                if monotonic_ns - at_ns <= _TIMEOUT_NS]

    def other_vehicles(self, monotonic_ns: int) -> list[int]:
        """List the system ids of other autopilots on the link."""
        return [system for system, at_ns in self._other_vehicles.items()
                if monotonic_ns - at_ns <= _TIMEOUT_NS]

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    # -- time --------------------------------------------------------------------------------

    def tick(self, now_ns: int, monotonic_ns: int) -> list[Any]:
        """Return the messages that are due, by the system clock and a monotonic one (ns)."""
        before = self._results
        made: list[Any] = []
        if self._first_ns < 0:
            self._first_ns = monotonic_ns
        # The time of a halt of this process is no silence: what has arrived is not read yet.
        self._silence_ns += min(monotonic_ns - self._ticked_ns, _HEARTBEAT_NS)
        self._ticked_ns = monotonic_ns
        if self._heartbeat_ns >= 0 and self._silence_ns > _TIMEOUT_NS:
            self._change(LinkEvent.SILENCE)
        self._follow(monotonic_ns)
        if monotonic_ns >= self._next_heartbeat_ns:
            self._next_heartbeat_ns = monotonic_ns + _HEARTBEAT_NS
            # MAV_TYPE_ONBOARD_CONTROLLER, MAV_STATE_ACTIVE.
            made.append(make_message('HEARTBEAT', type=18, autopilot=_NO_AUTOPILOT,
                                     system_status=4, mavlink_version=3))
        if self.link is VehicleLink.ALIVE:
            made += [self.timesync.request(now_ns, monotonic_ns),
                     self.parameters.tick(self.system, self.armed, monotonic_ns),
                     self.origin.tick(self.system, self.armed, now_ns, monotonic_ns),
                     self._ask(monotonic_ns)]
        self._report(before)
        return [one for one in made if one is not None]

    def _ask(self, monotonic_ns: int) -> Any:
        """Request one message for the diagnostics that the autopilot does not send on its own."""
        if monotonic_ns < self._next_ask_ns:
            return None
        # One at a time, with a pause between two requests, and each only after a second without
        # it. Chosen.
        self._next_ask_ns = monotonic_ns + 250_000_000
        wanted = dict(_WANTED[self._settings.autopilot])
        if not self.version:
            wanted['AUTOPILOT_VERSION'] = 148
        name = min(wanted, key=lambda one: self._seen.get(one, -_HEARTBEAT_NS))
        if monotonic_ns - self._seen.get(name, -_HEARTBEAT_NS) < _HEARTBEAT_NS:
            return None
        # Request it again only in its next turn, whether it is answered or not.
        self._seen[name] = monotonic_ns
        return request_message(self.system, wanted[name])

    @property
    def _results(self) -> tuple[bool, bool]:
        """Return whether TIMESYNC has converged, and whether the parameters are done."""
        return self.converged, self.parameters.done

    def _report(self, before: tuple[bool, bool]) -> None:
        """Report the results of the exchanges that were not there before."""
        converged, done = self._results
        if converged and not before[0] and self._settings.autopilot == 'px4':
            self._event(INFO, 'TIMESYNC has converged: the autopilot uses the stamps',
                        'timesync')
        if not done or before[1]:
            return
        parameters = self.parameters
        for verdict in parameters.verdicts:
            if not verdict.good:
                self._event(WARN, f'parameter {verdict}', verdict.rule.name)
        names = ', '.join(rule.name for rule in parameters.written)
        for severity, text, key in (
                (INFO, names and f'parameters written: {names}', 'written'),
                (WARN, parameters.reboot, 'reboot'), (WARN, parameters.refused, 'refused')):
            if text:
                self._event(severity, text, key)

    # -- messages ----------------------------------------------------------------------------

    def receive(self, message: Any, now_ns: int, monotonic_ns: int) -> list[Any]:
        """Process a message; return answers to be sent at once."""
        before = self._results
        answers = self._receive(message, now_ns, monotonic_ns)
        self._report(before)
        return answers

    def _receive(self, message: Any, now_ns: int, monotonic_ns: int) -> list[Any]:
        name = message.get_type()
        if name == 'HEARTBEAT':
            if message.get_srcComponent() == AUTOPILOT_COMPONENT and (
                    message.autopilot != _NO_AUTOPILOT):
                self._heartbeat(message, monotonic_ns)
            return []
        if not self.is_autopilot(message):
            if name in VISION and self.system:
                self._other(message, monotonic_ns)
            return []
        self._seen[name] = monotonic_ns
        match name:
            case 'TIMESYNC':
                reboots = self.timesync.reboots
                answer = self.timesync.receive(message.tc1, message.ts1, now_ns)
                if self.timesync.reboots != reboots:
                    self._event(WARN, f'{self.firmware} has restarted', ('link', 'restart'))
                    self._begin()
                return [] if answer is None else [answer]
            case 'PARAM_VALUE':
                name = message.param_id
                self.parameters.receive(    # bytes in old versions of pymavlink
                    name.decode('ascii', 'replace') if isinstance(name, bytes) else name,
                    message.param_value, message.param_type)
            case 'GPS_GLOBAL_ORIGIN':
                self.origin.receive(message.latitude, message.longitude, message.altitude)
            case 'AUTOPILOT_VERSION':
                number = message.flight_sw_version
                self.version = f'{number >> 24 & 255}.{number >> 16 & 255}.{number >> 8 & 255}'
            case 'ESTIMATOR_STATUS' | 'EKF_STATUS_REPORT':
                self.estimator, self.estimator_ns = message, monotonic_ns
            case 'ATTITUDE':
                self.agreement.attitude(self._host_ns(message.time_boot_ms, now_ns), (
                    message.roll, message.pitch, message.yaw))
            case 'LOCAL_POSITION_NED':
                self.agreement.position(self._host_ns(message.time_boot_ms, now_ns), (
                    message.x, message.y, message.z))
        return []

    def _heartbeat(self, message: Any, monotonic_ns: int) -> None:
        system, named = message.get_srcSystem(), self._settings.target_system
        target = named or (self.system if self._known else 0)
        if target and system != target:
            known = system in self._other_vehicles
            self._other_vehicles[system] = monotonic_ns
            if not known and not (named and self._known):
                self._event(
                    ERROR, f'the link has an autopilot with the system id {system}, and '
                    f'the poses are for {target}: set target_system, or configure the bridge '
                    'again if the vehicle has a new id; without target_system no pose is sent '
                    'while two vehicles are heard, unless one was armed before',
                    ('other vehicle', system))
            self._follow(monotonic_ns)
            return
        number = message.autopilot
        firmware = next((one.name for one in PROFILES.values() if one.mav_autopilot == number),
                        f'autopilot {number}')
        right = number == PROFILES[self._settings.autopilot].mav_autopilot
        if not right and self.link is VehicleLink.ALIVE:
            self._event(ERROR, f'{firmware} sends heartbeats with the ids of the vehicle: they '
                        'are ignored; give each device its own system id', ('foreign', firmware))
            return
        self.system, self.firmware = system, firmware
        # MAVLINK_IFLAG_SIGNED; the signature is not checked.
        self.signs = bool(message.get_header().incompat_flags & 1)
        self.armed = bool(message.base_mode & 128)    # MAV_MODE_FLAG_SAFETY_ARMED
        self._heartbeat_ns = monotonic_ns
        self._silence_ns = 0
        self._change(LinkEvent.HEARTBEAT if right else LinkEvent.FOREIGN)
        self._follow(monotonic_ns)

    def _follow(self, monotonic_ns: int) -> None:
        """Update what else decides whether poses may be sent."""
        if not self._settings.target_system:
            # An armed vehicle that was alone needs its poses, whoever appears.
            if self.other_vehicles(monotonic_ns):
                self._alone = self._alone and self.armed
            # Another vehicle would be heard in this time: heartbeats come at 1 Hz.
            elif self._first_ns >= 0 and monotonic_ns - self._first_ns >= 1.2 * _HEARTBEAT_NS:
                self._alone = True
            self.ambiguous = not self._alone
        self.origin_pending = self._settings.autopilot == 'ardupilot' and self.origin.pending(
            self.armed, monotonic_ns)

    def _change(self, event: LinkEvent) -> None:
        before, self.link = self.link, TRANSITIONS[event].get(self.link, self.link)
        if self.link is before or self.link is VehicleLink.WAITING:
            return
        self._event(*{
            VehicleLink.ALIVE: (INFO, f'{self.firmware} is there, system {self.system}'),
            VehicleLink.LOST: (ERROR,
                               'the heartbeat of the autopilot is lost: check the link; poses '
                               'are still sent'),
            VehicleLink.WRONG: (ERROR, f'the vehicle runs {self.firmware} and autopilot is '
                                f'{self._settings.autopilot}: no pose is sent; set autopilot'),
        }[self.link], ('link', self.link))
        if self.link is VehicleLink.ALIVE:
            self._begin()    # it may have been restarted

    def _begin(self) -> None:
        """Request everything again: the autopilot is new or has been restarted."""
        self.interruptions += 1
        self.timesync.reset()
        self.parameters.restart()
        self.origin.restart()
        self.agreement.clear()
        self.estimator = None
        self._seen.clear()
        if self.signs:
            self._event(WARN, SIGNS, 'signs')

    def _other(self, message: Any, monotonic_ns: int) -> None:
        sender, name = sender_of(message), message.get_type()
        if sender[1] == AUTOPILOT_COMPONENT or sender[0] in self._other_vehicles:
            return    # odometry of another vehicle, or poses for it
        known = self._others.get(sender)
        self._others[sender] = (name, monotonic_ns)
        if known is None or monotonic_ns - known[1] > _TIMEOUT_NS:
            own = sender == (self.own_system, COMPONENT)
            self._event(
                ERROR, f'{name} also comes from system {sender[0]} component '
                f'{sender[1]}{", the ids of this bridge" if own else ""}: two senders of poses '
                'for one vehicle; stop one of them', ('other', sender))

    def _host_ns(self, boot_ms: int, now_ns: int) -> int:
        """Convert an autopilot's time to the host's clock; without TIMESYNC, use the arrival."""
        best = self.timesync.best
        return now_ns if best is None else boot_ms * 1_000_000 - best.offset_ns

    def _event(self, severity: Severity, text: str, key: Hashable) -> None:
        self._events.append(Event(severity, key, text))


def sender_of(message: Any) -> tuple[int, int]:
    """Return system and component id of the sender of a message."""
    return message.get_srcSystem(), message.get_srcComponent()
