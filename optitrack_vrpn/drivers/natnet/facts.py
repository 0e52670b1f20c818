# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a server states about itself, written to the facts of the connection; its clock's rate."""

from collections.abc import Iterable
from itertools import islice
import math
from typing import Optional, Union

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, Severity
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.driver import ServerFacts
from optitrack_vrpn.drivers.frames import RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.messages import (
    Definitions, model_name, RECORDING_COMMANDS, Response, ServerInfo, START, STOP, Unanswered,
    Unrecognized)
from optitrack_vrpn.drivers.natnet.reports import name_table
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig

#: Largest difference of two clocks' rates. Measured: up to 0.001 the stamps of the clock model are
#: less than 1 ms wrong, at 0.005 up to 5 ms. Oscillators differ by less than 0.0002.
_CLOCK_TOLERANCE = 0.001
#: Chosen: time (ns) for which the rates are compared.
_CLOCK_OVER_NS = 10 * NS_PER_S
#: Chosen: answers after which questions whose answers differ are given up.
_MOST_ANSWERS = 12
#: The answer to UpAxis, as an axis.
AXES = {0: 'x', 1: 'y', 2: 'z'}
#: Chosen: ids without a name that are kept, as a limit for hostile servers.
_MOST_UNNAMED = 1000


class ServerWatch:
    """
    Collect the statements of one server.

    :ivar known: the facts.
    """

    #: Each is asked until two answers in succession agree: an answer does not state its question,
    #: so that a late one can belong to another.
    QUESTIONS = ('UnitsToMillimeters', 'UpAxis')

    def __init__(self) -> None:
        self.known = ServerFacts()
        self._answers: dict[str, bytes] = {}
        self._asked = 0
        self._first_echo: Optional[RoundTrip] = None
        self._stepped = False
        self._described: frozenset[int] = frozenset()

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
            trip_s, best_s = (echo.received_ns - echo.sent_ns) / 1e9, self.known.round_trip_s
            self.known.round_trip_s = trip_s if best_s != best_s else min(best_s, trip_s)
            return None
        if not self._stepped:
            self._stepped = True
            self._first_echo = echo
            return None
        return (f"Motive's counter runs {2 * passed_ns / (least_ns + most_ns):.4f} times as fast "
                'as the clock of this computer, so its stated frequency is wrong: connecting '
                'again without times of exposure; stamps.latency_ms applies')

    def greeting(self, config: NatNetConfig, info: ServerInfo) -> None:
        """Note what the server states; compare it with settings of the transport, from 3.0 on."""
        known = self.known
        known.name, known.stated_version = info.name, '.'.join(map(str, info.version))
        pairs = [('transport', config.transport, 'multicast' if info.multicast else 'unicast')]
        if info.multicast:
            pairs += [('group', config.group, info.group),
                      ('data_port', str(config.data_port or ''), str(info.data_port or ''))]
        if info.multicast is not None:
            self.known.contradicted = tuple(
                (f'natnet.{name}', wanted, stated) for name, wanted, stated in pairs
                if stated and wanted not in ('', 'auto', stated))

    def definitions(self, definitions: Definitions) -> None:
        """Process a list of models."""
        known, table = self.known, name_table(definitions)
        self._described = table.described
        known.bodies = tuple(sorted(map(model_name, table.names.values())))
        known.no_body = not (definitions.bodies or definitions.skeletons or definitions.assets)
        known.shared_ids, known.shared_names = table.shared_ids, table.shared_names
        known.unread = definitions.cut or definitions.skipped
        known.unread_types = tuple(definitions.unknown)

    def unnamed(self, keys: Iterable[int]) -> None:
        """
        Note the ids that no definition contains.

        :param keys: ids of the last frame, or those of them without a confirmed name.
        """
        self.known.unnamed = frozenset(key & 0xffffffff for key in islice(
            (key for key in keys if key not in self._described), _MOST_UNNAMED))

    def answer(self, event: Union[Response, Unrecognized, Unanswered]) -> list[Event]:
        """
        Process the answer to a query or a command.

        :returns: the result of a command for recordings.
        """
        command = event.command.partition(',')[0]
        if command in RECORDING_COMMANDS:
            return _recording(event)
        if not isinstance(event, Response):
            return []    # a query that this version does not know
        before = self._answers.get(command)
        self._answers[command] = event.payload
        if before != event.payload:
            return []
        if command == 'UnitsToMillimeters':
            unit_mm = codec.response_float(event.payload)
            if unit_mm is not None and math.isfinite(unit_mm):
                self.known.unit_mm = unit_mm
        elif command == 'UpAxis':
            axis = codec.response_int(event.payload)
            self.known.up_axis = AXES.get(-1 if axis is None else axis, '')
        return []

    def ask_again(self, event: Union[Response, Unrecognized, Unanswered]) -> bool:
        """Return whether to repeat a question after its first answer, or one unlike the last."""
        command = event.command
        if command not in self.QUESTIONS or not isinstance(event, Response):
            return False
        self._asked += 1
        return self._answers.get(command) != event.payload and self._asked < _MOST_ANSWERS


def _recording(event: Union[Response, Unrecognized, Unanswered]) -> list[Event]:
    """Return the result of a command for recordings."""
    if not isinstance(event, Response):
        how = 'does not know' if isinstance(event, Unrecognized) else 'did not answer'
        return [_event(ERROR, f'Motive {how} the command {event.command!r}: check in Motive '
                              'whether it records')]
    code = codec.response_int(event.payload)
    if code:
        return [_event(ERROR, f'Motive refused the command {event.command!r} with code {code}')]
    text = {START: 'Motive records', STOP: 'Motive stopped recording'}
    command = event.command.partition(',')[0]
    return [_event(INFO, text[command])] if command in text else []


def _event(severity: Severity, text: str) -> Event:
    """Return an event about a command; its text is its key."""
    return Event(severity, text, text)
