# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compare a server's statements with its data: clock, up axis, units, edit mode, list of bodies.

Pure: each method returns the events for the user, each event once.
"""

from collections.abc import Iterable
import math
from typing import Optional, Union

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.messages import (
    Definitions, FRAME_EDIT_MODE, model_name, NatNetFrame, RECORDING_COMMANDS, Response,
    ServerInfo, START, STOP, Unanswered, Unrecognized)
from optitrack_vrpn.drivers.natnet.reports import IdTable
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig

#: Largest difference of two clocks' rates. Measured: up to 0.001 the stamps of the clock model are
#: less than 1 ms wrong, at 0.005 up to 5 ms. Oscillators differ by less than 0.0002.
_CLOCK_TOLERANCE = 0.001
#: Chosen: time (ns) for which the rates are compared.
_CLOCK_OVER_NS = 10 * NS_PER_S
_MILLIMETRES = 1000.0
#: The up axis of settings that publish Motive's numbers.
RAW = 'raw'
#: Chosen: answers after which questions whose answers differ are given up.
_MOST_ANSWERS = 12
#: The answer to UpAxis, as an axis.
AXES = {0: 'x', 1: 'y', 2: 'z'}
#: Chosen: maximum number of names in one message; the others are counted.
_MOST_LISTED = 5


class ServerWatch:
    """
    Compare one server's statements with its data and with the settings.

    :param up_axis: up axis in the settings, or ``RAW`` for any; '' for none.
    :param playback: whether poses of a played take are published.
    :ivar up_axis: stated up axis, '' while unknown.
    """

    #: Each is asked until two answers in succession agree: an answer does not state its question,
    #: so that a late one can belong to another.
    QUESTIONS = ('UnitsToMillimeters', 'UpAxis')

    def __init__(self, up_axis: str = '', playback: bool = False) -> None:
        self._expected_axis = up_axis
        self._playback = playback
        self.up_axis = ''
        self._answers: dict[str, bytes] = {}
        self._asked = 0
        self._first_echo: Optional[RoundTrip] = None
        self._stepped = False
        self._edit_mode: Optional[bool] = None
        self._names: Optional[frozenset[tuple[int, str]]] = None
        self._unknown: set[int] = set()

    def frame(self, frame: NatNetFrame) -> list[Event]:
        """Process a frame."""
        edit_mode = bool(frame.params & FRAME_EDIT_MODE)
        if edit_mode is not self._edit_mode:
            return self._mode(edit_mode)
        return []

    def echo(self, echo: RoundTrip) -> Optional[str]:
        """
        Compare the stated frequency of the server's counter with this host's clock.

        Between the arrivals of two requests at the server at least the time from the first answer
        to the second request has passed here, at most that from the first request to the second
        answer: no delay of the network can make a counter seem wrong. One interval that
        contradicts these limits may contain a step of the counter, two show a wrong rate.

        :returns: why the counter cannot be used; None if it can.
        """
        first = self._first_echo = self._first_echo or echo
        least_ns = echo.sent_ns - first.received_ns
        most_ns = echo.received_ns - first.sent_ns
        passed_ns = echo.sender_ns - first.sender_ns
        if echo is first or most_ns > _CLOCK_OVER_NS or (
                least_ns <= passed_ns * (1.0 + _CLOCK_TOLERANCE)
                and passed_ns <= most_ns * (1.0 + _CLOCK_TOLERANCE)):
            return None
        if not self._stepped:
            self._stepped = True
            self._first_echo = echo
            return None
        return (f"Motive's counter runs {2 * passed_ns / (least_ns + most_ns):.4f} times as fast "
                'as the clock of this computer, so its stated frequency is wrong: connecting '
                'again without times of exposure; stamps.latency_ms applies')

    def _mode(self, edit_mode: bool) -> list[Event]:
        before, self._edit_mode = self._edit_mode, edit_mode
        if edit_mode:
            return [_event(WARN, (
                'Motive plays a take (edit mode): its poses are not live and are ' + (
                    'published as if they were (natnet.playback)' if self._playback else
                    'withheld; natnet.playback: true publishes them')))]
        return [] if before is None else [_event(INFO, 'Motive sends live poses again')]

    @staticmethod
    def overridden(config: NatNetConfig, info: ServerInfo) -> list[Event]:
        """Compare settings of the transport with those that the server states, from 3.0 on."""
        pairs = [('transport', config.transport, 'multicast' if info.multicast else 'unicast')]
        if info.multicast:
            pairs += [('group', config.group, info.group),
                      ('data_port', str(config.data_port or ''), str(info.data_port or ''))]
        return [] if info.multicast is None else [_event(WARN, (
            f'natnet.{name} is {wanted}, but Motive states {stated}: if no frame arrives, remove '
            'this setting')) for name, wanted, stated in pairs if stated and wanted not in (
                '', 'auto', stated)]

    def definitions(self, definitions: Definitions, table: IdTable) -> list[Event]:
        """Process a list of models."""
        names = frozenset((key, model_name(model)) for key, model in table.names.items())
        before, self._names = self._names, names
        self._unknown.clear()
        events = []
        if before is not None and names != before:
            events.append(_event(INFO, (
                "Motive's list of bodies changed: "
                f'{_listed(sorted(name for _, name in names))}')))
        for streaming_id, shared in table.shared_ids.items():
            events.append(_event(WARN, (
                f'the bodies {_listed(shared)} share the streaming id {streaming_id} and cannot '
                'be distinguished: none of them is published; give each its own id in Motive')))
        for name in table.shared_names:
            events.append(_event(WARN, (
                f'several bodies are named {name!r}: none of them is published; give each its '
                'own name in Motive')))
        types = ', '.join(map(str, definitions.unknown))
        if definitions.cut:
            events.append(_event(WARN, (
                f'a model definition has the unknown type {types} and no stated size: the last '
                f'{definitions.cut} of the list cannot be read; definitions of bodies alone are '
                'requested')))
        elif definitions.skipped:
            events.append(_event(WARN, (
                f'{definitions.skipped} model definitions have an unknown type or layout and are '
                f'left out{types and f" (unknown types: {types})"}')))
        if not (definitions.bodies or definitions.skeletons or definitions.assets):
            events.append(_event(WARN, (
                'Motive describes no rigid body: is Rigid Bodies on in its streaming settings?')))
        return events

    def unknown(self, streaming_ids: Iterable[int]) -> list[Event]:
        """Process streaming ids without a definition."""
        new = [number for number in streaming_ids if number not in self._unknown]
        if not new or len(self._unknown) > 1000:
            return []
        self._unknown.update(new)
        return [_event(WARN, (
            'no model definition contains the streaming ids '
            f'{_listed(str(key & 0xffffffff) for key in new)}; the definitions are requested '
            'again'))]

    def answer(self, event: Union[Response, Unrecognized, Unanswered]) -> list[Event]:
        """Process the answer to a query or a command."""
        command = event.command.partition(',')[0]
        if not isinstance(event, Response):
            if command not in RECORDING_COMMANDS:
                return []    # a query that this version does not know
            how = 'does not know' if isinstance(event, Unrecognized) else 'did not answer'
            return [_event(ERROR, f'Motive {how} the command {event.command!r}: check in Motive '
                                  'whether it records')]
        if command in RECORDING_COMMANDS:
            return self._recording(event)
        before = self._answers.get(command)
        self._answers[command] = event.payload
        if before != event.payload:
            return []
        if command == 'UnitsToMillimeters':
            return self._units(codec.response_float(event.payload))
        return self._up(codec.response_int(event.payload)) if command == 'UpAxis' else []

    def ask_again(self, event: Union[Response, Unrecognized, Unanswered]) -> bool:
        """Return whether to repeat a question after its first answer, or one unlike the last."""
        command = event.command
        if command not in self.QUESTIONS or not isinstance(event, Response):
            return False
        self._asked += 1
        return self._answers.get(command) != event.payload and self._asked < _MOST_ANSWERS

    def _up(self, answer: Optional[int]) -> list[Event]:
        self.up_axis = AXES.get(-1 if answer is None else answer, '')
        if self._expected_axis == RAW and self.up_axis == 'y':
            return [_event(WARN, (
                'Motive states that y is up, and axes is raw: readers that take z for up, as in '
                'ROS, get wrong poses; set Up Axis in its streaming settings to Z, or axes: enu; '
                'nothing, if your readers expect y up'))]
        if not (self.up_axis and self._expected_axis) or self._expected_axis in (
                RAW, self.up_axis):
            return []
        return [_event(ERROR, (
            f'Motive states that {self.up_axis} is up, but up_axis is {self._expected_axis}: '
            f'every pose is rotated by 90 degrees; set up_axis to {self.up_axis}'))]

    @staticmethod
    def _units(units: Optional[float]) -> list[Event]:
        if units is None or not math.isfinite(units) or abs(units - _MILLIMETRES) < 0.5:
            return []
        return [_event(ERROR, (
            f'one unit of Motive is {units:g} mm, not a metre: positions are published as if in '
            'metres; set Scale to 1 in its streaming settings'))]

    @staticmethod
    def _recording(event: Response) -> list[Event]:
        code = codec.response_int(event.payload)
        if code:
            return [_event(ERROR, (
                f'Motive refused the command {event.command!r} with code {code}'))]
        text = {START: 'Motive records', STOP: 'Motive stopped recording'}
        command = event.command.partition(',')[0]
        return [_event(INFO, text[command])] if command in text else []


def _event(severity: Severity, text: str) -> Event:
    """Return an event about the server; its text is its key."""
    return Event(severity, text, text)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f' and {len(found) - _MOST_LISTED} more' if len(found) > _MOST_LISTED else ''
    return ', '.join(map(repr, found[:_MOST_LISTED])) + more
