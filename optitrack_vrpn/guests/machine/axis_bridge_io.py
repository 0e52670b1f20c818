# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Files, datagrams and cycles of the bridge.

Datagrams to the controller are binary, with or without header, or JSON.
Binary, without header: one float32 or float64 per axis. The optional header is 24 bytes in the
byte order of the values, aligned as a C struct aligns it:

| offset | type | what |
|---|---|---|
| 0 | uint32 | sequence, from 0, wraps |
| 4 | int32 | status: 0 not connected yet, 1 receiving, 2 unable to connect, -1 ended |
| 8 | float64 | time of the measurement (s since 1970) |
| 16 | uint32 | validity: bit i is set where axis i is valid |
| 20 | uint32 | number of axes |
| 24 | float32 or float64 | the values |

``json`` is an object that always contains all fields, with null for a value that is not a number.
"""

from dataclasses import asdict
import json
import math
from pathlib import Path
import socket
import struct
import threading
import time
from typing import Any, Callable, Sequence, Union

from optitrack_vrpn.cli.files_io import ANY, find_config, read_yaml, whole_file
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.settings.schema import build
from optitrack_vrpn.drivers.client_io import use_default_scheduling
from optitrack_vrpn.guests.machine.axes_mapper import AxesSample
from optitrack_vrpn.guests.machine.axes_settings import AxisRow, AxisTable, DatagramSettings
import yaml


def load_table(path: Union[str, Path]) -> AxisTable:
    """Read an axis table from a file, or by the name of one of the package's own."""
    found = find_config(str(path), 'axes_*.yaml')
    return build(AxisTable, read_yaml(found), f'{found}: ')


def row_mapping(row: AxisRow) -> dict[str, Any]:
    """Return a row as plain data, without optional keys that have their defaults."""
    found = {**asdict(row), 'unit': row.unit_name, 'range': row.range and list(row.range)}
    return {key: value for key, value in found.items()
            if value or key not in ('unwrap', 'range')}


def write_row(path: Union[str, Path], row: AxisRow) -> None:
    """
    Write a row into a table's file: replace the row of the same name, or append it.

    A missing file is created. The file is replaced in one step, so that a crash leaves the old
    file complete. Comments in it are lost.

    :raises ConfigurationError: if the file cannot be read or is not a table.
    :raises TransportError: if it cannot be written.
    """
    path = Path(path)
    old = build(AxisTable, read_yaml(path), f'{path}: ').axes if path.exists() else ()
    rows = list({each.name: row_mapping(each) for each in (*old, row)}.values())
    build(AxisTable, {'axes': rows}, f'{path}: ')
    text = yaml.safe_dump({'axes': rows}, sort_keys=False, allow_unicode=True)
    with whole_file(path, ANY) as part:
        part.write_text(text, encoding='utf-8')


def encode(
    sample: AxesSample, sequence: int, names: Sequence[str], settings: DatagramSettings,
) -> bytes:
    """Encode a datagram; ``names`` of the axes are for json."""
    sequence &= 0xffffffff
    status, time_s = int(sample.status), sample.stamp_ns * 1e-9
    values = tuple(axis.value for axis in sample.axes)
    if settings.format == 'json':
        return json.dumps({
            'sequence': sequence, 'status': status, 'time': time_s,
            'axes': {name: {'value': axis.value if math.isfinite(axis.value) else None,
                            'valid': axis.valid} for name, axis in zip(names, sample.axes)},
        }, allow_nan=False).encode()
    bits = sum(axis.valid << i for i, axis in enumerate(sample.axes))
    head = (sequence, status, time_s, bits, len(values)) if settings.header else ()
    code = 'f' if settings.format == 'float32' else 'd'
    if code == 'f':     # struct raises for values above the largest float32
        values = tuple(math.nan if abs(each) > 3.4028234663852886e38 else each for each in values)
    order = '<' if settings.byte_order == 'little' else '>'
    return struct.pack(
        f'{order}{"IidII" if head else ""}{len(values)}{code}', *head, *values)


class UdpSender:
    """
    Send datagrams to one address without blocking.

    :param host: IPv4 address or name of the controller.
    :param port: its UDP port.
    :raises TransportError: if the name does not resolve.
    :ivar sent: number of datagrams that the kernel accepted.
    :ivar failed: number of datagrams that it rejected (no route, no listener, buffer full).
    """

    def __init__(self, host: str, port: int) -> None:
        try:
            found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:    # UnicodeError: not a name, as 10.0.0..5
            raise TransportError(
                f'udp_host {host!r} cannot be resolved '
                f'({getattr(error, "strerror", error)}): give an IPv4 address or a name that '
                'this machine knows') from None
        self._address = found[0][4]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.sent = 0
        self.failed = 0

    def send(self, data: bytes) -> bool:
        """Send one datagram; return False if the kernel rejected it."""
        try:
            self._socket.sendto(data, self._address)
        except OSError:
            self.failed += 1
            return False
        self.sent += 1
        return True

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._socket.close()


def running_ns() -> int:
    """Return a monotonic clock (ns) that continues while the computer sleeps, unlike Python's."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class CycleThread:
    """
    Call a function at every deadline.

    A timer of the node would wait for other callbacks of its executor. The time in which the
    computer sleeps counts as missed cycles.

    :param period_s: time between two deadlines (s).
    :param call: receives the number of periods since the previous call; must not raise.
    :ivar cycle: late and skipped cycles, jitter.
    """

    def __init__(self, period_s: float, call: Callable[[int], None], name: str = 'cycle') -> None:
        self.cycle = Cycle(round(period_s * 1e9))
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        use_default_scheduling()
        cycle = self.cycle
        while True:
            now_ns = running_ns()
            wait_s = (cycle.due_ns(now_ns) - now_ns) * 1e-9
            if wait_s > 0.0:
                if self._ended.wait(wait_s):
                    return
            elif self._ended.is_set():
                return
            self._call(cycle.begin(running_ns()))

    def stop(self) -> None:
        """Stop the thread; after the return the function is not called any more."""
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()


class Cycle:
    """
    Count deadlines from one origin, so that delays do not accumulate.

    A cycle is late if it begins more than half a period after its deadline. Deadlines that have
    passed completely are skipped and counted: cycles never run in a burst.

    :param period_ns: time between two deadlines (ns).
    :ivar cycles: number of cycles begun.
    :ivar late: number of cycles that began late.
    :ivar skipped: number of deadlines without a cycle.
    :ivar worst_ns: largest delay of a cycle (ns).
    """

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.cycles = 0
        self.late = 0
        self.skipped = 0
        self.worst_ns = 0
        self._sum = 0.0
        self._squares = 0.0
        self._origin_ns: int | None = None
        self._number = 0

    def due_ns(self, now_ns: int) -> int:
        """Return the next deadline (ns); the first call sets the origin."""
        if self._origin_ns is None:
            self._origin_ns = now_ns + self.period_ns
        return self._origin_ns + self._number * self.period_ns

    def begin(self, now_ns: int) -> int:
        """Begin the cycle of the next deadline; return the periods since the last one."""
        delay_ns = max(0, now_ns - self.due_ns(now_ns))
        missed = delay_ns // self.period_ns
        self._number += 1 + missed
        self.cycles += 1
        self.skipped += missed
        self.late += delay_ns > self.period_ns // 2
        self.worst_ns = max(self.worst_ns, delay_ns)
        self._sum += delay_ns
        self._squares += float(delay_ns) * delay_ns
        return 1 + missed

    def figures(self) -> dict[str, object]:
        """Return the counters for a diagnostic."""
        return {'cycles': self.cycles, 'late': self.late, 'skipped': self.skipped,
                'jitter_us': f'{self.jitter_ns / 1e3:.0f}',
                'worst_us': f'{self.worst_ns / 1e3:.0f}'}

    @property
    def jitter_ns(self) -> float:
        """Return the standard deviation of the delay of cycles (ns)."""
        if not self.cycles:
            return 0.0
        mean = self._sum / self.cycles
        return math.sqrt(max(0.0, self._squares / self.cycles - mean * mean))
