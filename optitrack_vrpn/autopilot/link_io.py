# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The thread of one MAVLink link: read, answer, send, and reopen the link after a failure.

The executor's thread passes messages and never waits for the link: if the link is slower than the
samples, the oldest are dropped. A message is not sent if its pose became too old while it waited.
"""

from __future__ import annotations

from collections import deque
import math
import os
import select
import threading
import time
import traceback
from typing import Callable, NamedTuple, Optional, Sequence

from optitrack_vrpn.autopilot.codec_io import Codec
from optitrack_vrpn.autopilot.connection import Connection
from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.parameter_protocol import AUTOPILOT_COMPONENT
from optitrack_vrpn.autopilot.report import LinkReport
from optitrack_vrpn.autopilot.settings import BridgeSettings
from optitrack_vrpn.autopilot.transport_io import open_transport, Transport
from optitrack_vrpn.autopilot.vehicle import COMPONENT, Vehicle
from optitrack_vrpn.errors import OptitrackVrpnError, TransportError
from optitrack_vrpn.events import Event

#: Chosen: longest wait of the thread (s), which delays timers and the shutdown by as much.
_TICK_S = 0.05
#: Pause (s) between two attempts to open a link. Chosen: a USB port needs about a second to
#: return.
RETRY_S = 0.5
#: Chosen: time (ns) from the latest time at which a sample may be written to the age at which it
#: must have left: the difference between 100 ms and ``max_age_ms``.
WAY_NS = 10_000_000
#: Chosen: time (ns) without an answer, after the request of at most 0.1 s later, after which no
#: pose is written to TCP.
_SILENT_NS = 300_000_000
#: Chosen: maximum number of samples that wait for the link; 4 at 50 Hz are 80 ms.
WAITING = 4


class Batch(NamedTuple):
    """
    The messages of one sample.

    :ivar stamp_ns: its capture time on the host's clock (ns).
    :ivar messages: the messages to send for it.
    """

    stamp_ns: int
    messages: Sequence[Outgoing]


class LinkThread:
    """
    Maintain one link to one vehicle.

    :param settings: settings of the bridge.
    :param connection: address of the link.
    :param vehicle: state of the autopilot; used with ``lock`` held.
    :param log: receives events, on this thread.
    :raises BackendUnavailableError: if pymavlink or pyserial is not installed.
    :ivar lock: guards ``vehicle``.
    :ivar written_ns: stamp of the last sample that was written (ns), 0 if none was.
    :ivar interruptions: number of times that the link was opened, that its destination changed, or
        that written samples were discarded before they were sent.
    """

    def __init__(
        self, settings: BridgeSettings, connection: Connection, vehicle: Vehicle,
        log: Callable[[Event], None],
    ) -> None:
        self.lock = threading.Lock()
        self.written_ns = 0
        self.interruptions = 0
        self._vehicle = vehicle
        self._connection = connection
        self._log = log
        self._max_age_ns = round(settings.max_age_ms * 1e6)
        self._codec = Codec(vehicle.own_system, COMPONENT)
        self._transport: Optional[Transport] = None
        self._trouble = 'not opened yet'
        self._queue: deque[Batch] = deque()
        self._queue_lock = threading.Lock()
        self._ended = False
        self._next_open = 0.0
        self._opened = self._received = 0
        self._oldest_ns = self._age_ns = 0
        self._other_autopilot = ''
        self._sent: dict[str, int] = {}
        self._dropped = dict.fromkeys(
            ('no_link', 'too_old', 'not_answered', 'not_taken', 'superseded'), 0)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name='mavlink', daemon=True)

    def start(self) -> None:
        """Start to open the link."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and release the link; nothing is sent afterwards."""
        self._ended = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    def send(self, batch: Batch) -> None:
        """Queue the messages of a sample; never waits for the link."""
        with self._queue_lock:
            if len(self._queue) >= WAITING:
                self._queue.popleft()
                self._dropped['superseded'] += 1
            self._queue.append(batch)
        self._wake()

    def clear(self) -> None:
        """Discard the samples that wait to be sent."""
        with self._queue_lock:
            self._queue.clear()

    def report(self) -> LinkReport:
        """Return state and counters of the link; safe from any thread."""
        transport = self._transport
        return LinkReport(
            transport is not None, self._trouble, '' if transport is None else transport.peer,
            self._age_ns, {
                'opened': self._opened, 'received': self._received, 'bad_bytes': self._codec.bad,
                'oldest_ms': round(self._oldest_ns / 1e6, 2),
                'other_autopilot': self._other_autopilot,
                **{f'sent_{name.lower()}': count for name, count in dict(self._sent).items()},
                **{f'dropped_{reason}': count for reason, count in self._dropped.items()}})

    # -- the thread --------------------------------------------------------------------------

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b'.')
        except OSError:    # full, which also wakes the thread, or closed
            pass

    def _run(self) -> None:
        while not self._ended:
            try:
                self._turn()
            except TransportError as error:
                self._fail(error)
            except Exception:    # the thread must continue: the next message may be valid
                self._log(Event(
                    'error', 'bug', f'bug in the link:\n{traceback.format_exc()}'))
                self._fail(TransportError('bug in the link'))
        self._shut()

    def _turn(self) -> None:
        """Open the link if necessary, wait for work, and do it."""
        transport = self._transport
        if transport is None:
            transport = self._open()
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        wait_s = _TICK_S
        if transport is not None:
            poll.register(transport.fileno(), select.POLLIN)
            wait_s = min(wait_s, max(transport.next_limit_s() - time.monotonic(), 0.0))
        # Rounded up: waiting until shortly before a limit would cause a busy loop.
        ready = [descriptor for descriptor, _ in poll.poll(math.ceil(wait_s * 1000.0))]
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if transport is not None:
            self._expire(transport)
        self._send_waiting()
        if transport is not None and transport.fileno() in ready:
            self._read(transport)
        self._send_due()

    def _expire(self, transport: Transport) -> None:
        """Discard messages in the system's buffer that would leave too late."""
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
            transport = open_transport(self._connection)
        except OptitrackVrpnError as error:
            self._fail(error)
            return None
        self._codec.reset()
        self._opened += 1
        self.interruptions += 1
        self._trouble = self._other_autopilot = ''
        self._log(Event('info', 'open', f'{self._connection} is open'))
        self._transport = transport
        return transport

    def _fail(self, error: Exception) -> None:
        """Close a link that has failed; it is reopened after a pause."""
        self._shut()
        text = str(error)
        if text != self._trouble:
            self._log(Event(
                'error', ('fail', text), f'{self._connection}: {text}; trying again'))
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
            self._received += 1
            with self.lock:
                own_ids = (message.system, message.component) == (
                    self._vehicle.system, AUTOPILOT_COMPONENT)
                if own_ids and (place := transport.foreign()):
                    self._ignore(place)
                    continue
                answers = self._vehicle.receive(message, now_ns, monotonic_ns)
                if message.name == 'HEARTBEAT' and message.system == self._vehicle.system and (
                        message.component == AUTOPILOT_COMPONENT):
                    transport.confirm()
                    self._count(transport)
                    self._codec.address(self._vehicle.own_system)
            for answer in answers:
                transport.write(self._codec.encode(answer))

    def _ignore(self, place: str) -> None:
        """Report another autopilot with the ids of the vehicle; its messages are not used."""
        if place != self._other_autopilot:
            self._other_autopilot = place
            self._log(Event(
                'error', ('other autopilot', place), f'another autopilot with the same system id '
                f'sends to this port, from {place}: it is ignored; give each vehicle its own port '
                'and its own system id'))

    def _send_due(self) -> None:
        with self.lock:
            due = self._vehicle.tick(time.time_ns(), time.monotonic_ns())
            events = self._vehicle.take_events()
        for event in events:
            self._log(event)
        if self._transport is not None:
            for message in due:
                self._transport.write(self._codec.encode(message))

    def _send_waiting(self) -> None:
        """Send the waiting samples that are still fresh."""
        while True:
            with self._queue_lock:
                if not self._queue:
                    return
                batch = self._queue.popleft()
            # Encode first, so that little time passes between the check of the age and the write.
            encoded = [(message.name, self._codec.encode(message)) for message in batch.messages]
            age_ns = time.time_ns() - batch.stamp_ns
            if self._transport is None:
                self._dropped['no_link'] += 1
            elif age_ns > self._max_age_ns:
                self._dropped['too_old'] += 1
            elif self._transport.answered and self._silent():
                self._dropped['not_answered'] += 1
            elif not self._write(self._transport, encoded, age_ns):
                self._dropped['not_taken'] += 1
                self._count(self._transport)
            else:
                self._age_ns = age_ns
                self.written_ns = batch.stamp_ns
                self._oldest_ns = max(self._oldest_ns, age_ns)

    def _silent(self) -> bool:
        """Return whether the program at the other end has stopped to answer."""
        with self.lock:
            return self._vehicle.timesync.silent_ns(time.monotonic_ns()) > _SILENT_NS

    def _write(
        self, transport: Transport, encoded: Sequence[tuple[str, bytes]], age_ns: int,
    ) -> bool:
        until_s = time.monotonic() + (self._max_age_ns + WAY_NS - age_ns) / 1e9
        for name, data in encoded:
            if not transport.write(data, until_s):
                return False
            self._sent[name] = self._sent.get(name, 0) + 1
        return True
