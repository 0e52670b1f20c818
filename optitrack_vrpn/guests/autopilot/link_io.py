# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The thread of one MAVLink link: read, answer, send, and reopen the link after a failure.

The executor's thread passes messages and never waits for the link: if the link is slower than the
samples, the oldest are dropped. A message is not sent if its pose became too old while it waited.

Messages and bytes are those of pymavlink's generated dialect, without its connections.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
import traceback
from typing import Any, Callable, NamedTuple, Optional, Sequence

from optitrack_vrpn.core.errors import OptitrackVrpnError, TransportError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.guests.autopilot.gate import Output
from optitrack_vrpn.guests.autopilot.messages import dialect, make, VehicleState
from optitrack_vrpn.guests.autopilot.report import LinkReport
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, LinkAddress, parse, Plan
from optitrack_vrpn.guests.autopilot.transport_io import open_transport, Transport
from optitrack_vrpn.guests.autopilot.vehicle import COMPONENT, Vehicle

#: Pause (s) between two attempts to open a link. Chosen: a USB port needs about a second to
#: return.
RETRY_S = 0.5
#: Chosen: maximum number of samples that wait for the link; 4 at 50 Hz are 80 ms.
WAITING = 4


class Codec:
    """
    Encode and decode the messages of one link; not thread-safe.

    :param system: system id of this side.
    :param component: component id of this side.
    :raises BackendUnavailableError: if pymavlink is not installed.
    :ivar bad: number of byte sequences that were not MAVLink.
    """

    def __init__(self, system: int, component: int) -> None:
        self._mav: Any = None
        self._open(system, component, 0)
        self.bad = 0

    def _open(self, system: int, component: int, sequence: int) -> None:
        self._mav = dialect().MAVLink(None, srcSystem=system, srcComponent=component)
        self._mav.robust_parsing = True
        self._mav.seq = sequence

    def address(self, system: int) -> None:
        """Set another system id for this side."""
        self._mav.srcSystem = system

    def reset(self) -> None:
        """Discard an incomplete message, after the link was reopened."""
        self._open(self._mav.srcSystem, self._mav.srcComponent, self._mav.seq)

    def end_datagram(self) -> None:
        """Discard an incomplete message at the end of a datagram."""
        if self._mav.buf_len():
            self.bad += 1
            self.reset()

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message."""
        packed = message.pack(self._mav)
        self._mav.seq = (self._mav.seq + 1) % 256
        return bytes(packed)

    def decode(self, data: bytes) -> list[Any]:
        """Process received bytes; return the messages that they complete."""
        try:
            parsed = self._mav.parse_buffer(data) or ()
        except Exception:    # pymavlink raises its own and struct's errors for damaged bytes
            self.bad += 1
            self.reset()
            return []
        found = []
        for message in parsed:
            kind = message.get_type()
            self.bad += kind == 'BAD_DATA'
            if kind != 'BAD_DATA' and not kind.startswith('UNKNOWN'):
                found.append(message)
        return found


class VisionBatch(NamedTuple):
    """The messages of one sample, and its capture time on the host's clock (ns)."""

    stamp_ns: int
    messages: Sequence[Any]


class LinkThread:
    """
    Maintain one link to one vehicle.

    :param settings: settings of the bridge.
    :param plan: the plan made from them.
    :param log: receives events, on the thread of the link.
    :param opener: opens a transport.
    :raises BackendUnavailableError: if pymavlink or pyserial is not installed.
    :ivar vehicle: state of the autopilot; used with ``lock`` held.
    :ivar written_ns: stamp of the last sample that was written (ns), 0 if none was.
    :ivar interruptions: number of times that the link was opened, that its destination changed, or
        that written samples were discarded before they were sent.
    """

    topic = ''

    def __init__(
        self, settings: BridgeSettings, plan: Plan, log: Callable[[Event], None],
        opener: Callable[[LinkAddress], Transport] = open_transport,
    ) -> None:
        self.lock = threading.Lock()
        self.vehicle = Vehicle(settings, plan)
        self.written_ns = 0
        self.interruptions = 0
        self._plan = plan
        self._connection = parse(settings.connection)
        self._log = log
        self._opener = opener
        self._codec = Codec(self.vehicle.own_system, COMPONENT)
        self._transport: Optional[Transport] = None
        self._trouble = 'not opened yet'
        self._readable = False
        self._next_open = 0.0
        self._age_ns = 0
        self._counts: dict[str, Any] = {
            'opened': 0, 'received': 0, 'bad_bytes': 0, 'oldest_ms': 0.0, 'other_autopilot': '',
            **dict.fromkeys((f'dropped_{reason}' for reason in (
                'no_link', 'too_old', 'not_taken')), 0)}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._worker: Worker[VisionBatch] = Worker(
            'mavlink', self._failed, process=self._send_batch, turn=self._turn, limit=WAITING,
            oldest=True, end=self._shut, wait=self._wait, wake=self._wake)

    def start(self) -> None:
        """Start to open the link."""
        self._worker.start()

    def close(self) -> None:
        """Stop the thread and release the link; nothing is sent afterwards."""
        self._worker.stop()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    # -- for the bridge, on its thread -------------------------------------------------------

    def output(self) -> Output:
        """Return whether poses may be sent, and what interrupted them."""
        return Output(self.vehicle.may_send, self.interruptions + self.vehicle.interruptions,
                      self.written_ns)

    def publish(self, stamp_ns: int, state: VehicleState, reset_counter: int) -> None:
        """Send a sample, and compare the autopilot's own attitude with it."""
        self.send(VisionBatch(stamp_ns, make(state, self._plan, reset_counter)))
        self.compare(state)

    def compare(self, state: VehicleState) -> None:
        """Compare the autopilot's own attitude with a sample."""
        with self.lock:
            self.vehicle.agreement.sent(state)

    def send(self, batch: VisionBatch) -> None:
        """Queue the messages of a sample; never waits for the link."""
        self._worker.put(batch)

    def clear(self) -> None:
        """Discard the samples that wait to be sent."""
        self._worker.clear()

    def report(self, age_ns: int = 0) -> LinkReport:
        """Return state and counters of the link; safe from any thread."""
        transport = self._transport
        return LinkReport(
            transport is not None, self._trouble, '' if transport is None else transport.peer,
            self._age_ns, {**self._counts, 'bad_bytes': self._codec.bad,
                           'dropped_superseded': self._worker.dropped})

    # -- the thread --------------------------------------------------------------------------

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b'.')
        except OSError:    # full, which also wakes the thread, or closed
            pass

    def _failed(self, error: Exception) -> bool:
        """Reopen the link after a failure, and after a bug: the next message may be valid."""
        if not isinstance(error, TransportError):
            bug = ''.join(traceback.format_exception(error))
            self._log(Event(ERROR, 'bug', f'bug in the link:\n{bug}'))
            error = TransportError('bug in the link')
        self._fail(error)
        return True

    def _wait(self) -> None:
        """Read what has arrived, open the link if necessary, and wait for work."""
        # Here, not before the samples that the last wait found: decoding would delay them.
        if self._transport is not None and self._readable:
            self._read(self._transport)
        transport = self._transport or self._open()
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        wait_s = 0.05    # chosen: it delays timers and the shutdown by as much
        if transport is not None:
            poll.register(transport.fileno(), select.POLLIN)
            wait_s = min(wait_s, max(transport.next_limit_s() - time.monotonic(), 0.0))
        # Rounded up: waiting until shortly before a limit would cause a busy loop.
        ready = [descriptor for descriptor, _ in poll.poll(math.ceil(wait_s * 1000.0))]
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        self._readable = transport is not None and transport.fileno() in ready
        if transport is not None:
            # Messages in the system's buffer that would leave too late.
            transport.expire()
            self._count(transport)

    def _count(self, transport: Transport) -> None:
        self.interruptions += transport.interruptions
        transport.interruptions = 0

    def _open(self) -> Optional[Transport]:
        if time.monotonic() < self._next_open:
            return None
        self._next_open = time.monotonic() + RETRY_S
        try:
            transport = self._opener(self._connection)
        except OptitrackVrpnError as error:
            self._fail(error)
            return None
        self._codec.reset()
        self._counts['opened'] += 1
        self.interruptions += 1
        self._trouble = self._counts['other_autopilot'] = ''
        self._log(Event(INFO, 'open', f'{self._connection} is open'))
        self._transport = transport
        return transport

    def _fail(self, error: Exception) -> None:
        """Close a link that has failed; it is reopened after a pause."""
        self._shut()
        text = str(error)
        if text != self._trouble:
            self._log(Event(
                ERROR, ('fail', text), f'{self._connection}: {text}; trying again'))
        self._trouble = text
        self._next_open = time.monotonic() + RETRY_S

    def _shut(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _read(self, transport: Transport) -> None:
        data = transport.read()
        now_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
        messages = self._codec.decode(data)
        if transport.datagrams:
            self._codec.end_datagram()
        for message in messages:
            self._counts['received'] += 1
            with self.lock:
                if self.vehicle.is_autopilot(message) and (place := transport.foreign()):
                    self._ignore(place)
                    continue
                answers = self.vehicle.receive(message, now_ns, monotonic_ns)
                if message.get_type() == 'HEARTBEAT' and self.vehicle.is_autopilot(message):
                    transport.confirm()
                    self._count(transport)
                    self._codec.address(self.vehicle.own_system)
            for answer in answers:
                transport.write(self._codec.encode(answer))

    def _ignore(self, place: str) -> None:
        """Report another autopilot with the ids of the vehicle; its messages are not used."""
        if place != self._counts['other_autopilot']:
            self._counts['other_autopilot'] = place
            self._log(Event(
                ERROR, ('other autopilot', place), f'another autopilot with the same system id '
                f'sends to this port, from {place}: it is ignored; give each vehicle its own port '
                'and its own system id'))

    def _turn(self) -> None:
        """Send what is due."""
        with self.lock:
            due = self.vehicle.tick(time.time_ns(), time.monotonic_ns())
            events = self.vehicle.take_events()
        for event in events:
            self._log(event)
        if self._transport is not None:
            for message in due:
                self._transport.write(self._codec.encode(message))

    def _send_batch(self, batch: VisionBatch) -> None:
        """Send a sample that is still fresh."""
        # Encode first, so that little time passes between the check of the age and the write.
        encoded = [(message.get_type(), self._codec.encode(message))
                   for message in batch.messages]
        age_ns = time.time_ns() - batch.stamp_ns
        transport = self._transport
        if transport is None:
            self._counts['dropped_no_link'] += 1
        elif age_ns > self._plan.max_age_ns:
            self._counts['dropped_too_old'] += 1
        elif not self._write(transport, encoded, age_ns):
            self._counts['dropped_not_taken'] += 1
            self._count(transport)
        else:
            self._age_ns = age_ns
            self.written_ns = batch.stamp_ns
            self._counts['oldest_ms'] = max(
                self._counts['oldest_ms'], round(age_ns / 1e6, 2))

    def _write(
        self, transport: Transport, encoded: Sequence[tuple[str, bytes]], age_ns: int,
    ) -> bool:
        # Chosen: 10 ms from the latest time at which a sample may be written to the age at which
        # it must have left: the difference between 100 ms and the default of max_age_ms.
        until_s = time.monotonic() + (self._plan.max_age_ns + 10_000_000 - age_ns) / 1e9
        for name, data in encoded:
            if not transport.write(data, until_s):
                return False
            key = f'sent_{name.lower()}'
            self._counts[key] = self._counts.get(key, 0) + 1
        return True
