# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The links alone: no message is sent late, and a full file table does not stop them."""

from contextlib import closing, contextmanager, ExitStack
import fcntl
import math
import os
import resource
import select
import struct
import sys
import termios
import time
import types

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig, FakeServer
from optitrack_vrpn.guests.autopilot.link_io import VisionBatch
from optitrack_vrpn.guests.autopilot.messages import make_message
from optitrack_vrpn.guests.autopilot.settings import parse
from optitrack_vrpn.guests.autopilot.transport_io import open_transport
import pytest
from rosgraph import wait_until
from serial_autopilot import running_link, SerialFakeServer

pytestmark = [pytest.mark.network]
SIZE = 245
PERIOD_MS = 20
#: Age of a pose when it is written, and when it must have left (ms).
YOUNG_MS, OLDEST_MS = 10, 100


class Uart:
    """
    A serial port whose line moves on with a clock of the test, or stands still.

    :ivar left: (when its last byte left, first byte) of every whole message; ms.
    """

    def __init__(self, baud):
        self.now_ms = 0
        self.stalled = False
        self.left = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        self._credit = 0.0
        self._bytes_per_ms = baud / 10 / 1000
        self._line = b''
        self.flushes = 0

    def step(self):
        """Let a millisecond pass."""
        self.now_ms += 1
        if self.stalled:
            return
        self._credit = min(self._credit + self._bytes_per_ms, self.out_waiting)
        self._line += os.read(self._read, int(self._credit)) if self._credit >= 1 else b''
        self._credit -= int(self._credit)
        # A message is its number, repeated; one that was cut off ends where another begins.
        while len(self._line) >= SIZE:
            number = self._line[0]
            whole = self._line[:SIZE] == bytes([number]) * SIZE
            end = SIZE if whole else len(self._line) - len(self._line.lstrip(bytes([number])))
            if whole:
                self.left.append((self.now_ms, number))
            self._line = self._line[end:]

    @property
    def out_waiting(self):
        return struct.unpack('i', fcntl.ioctl(self._read, termios.FIONREAD, bytes(4)))[0]

    def reset_output_buffer(self):
        self.flushes += 1
        try:
            while os.read(self._read, 65536):
                pass
        except BlockingIOError:
            pass

    def fileno(self):
        return self._write

    def close(self):
        os.close(self._read)
        os.close(self._write)


@contextmanager
def serial_line(baud):
    """Open a serial transport on a line of the test's own; gives the line and the transport."""
    uart = Uart(baud)
    module = types.ModuleType('serial')
    module.Serial = lambda *args, **kwargs: uart
    module.SerialException = OSError
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, 'serial', module)
        with closing(open_transport(
                parse(f'serial:/dev/ttyX:{baud}'), lambda: uart.now_ms / 1000)) as transport:
            yield uart, transport


@given(stalls=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), max_size=4),
       baud=st.sampled_from([230400, 460800, 921600]))
@settings(max_examples=40, deadline=None)
def test_no_pose_leaves_a_serial_port_late_however_the_line_stalls(stalls, baud):
    with serial_line(baud) as (uart, transport):
        ends, at = [], 0
        for run_ms, stall_ms in stalls:
            at += run_ms
            ends.append((at, at + stall_ms))
            at += stall_ms
        taken, begun = [], {}
        for now_ms in range(at + 400):
            uart.stalled = any(begin <= now_ms < end for begin, end in ends)
            # The thread of the link sleeps until the limit of what waits, or the next pose.
            if transport.next_limit_s() * 1000 <= now_ms:
                transport.expire()
            if now_ms % PERIOD_MS == 0:
                number = len(begun) % 256
                begun[number] = now_ms
                if transport.write(bytes([number]) * SIZE,
                                   (now_ms + OLDEST_MS - YOUNG_MS) / 1000):
                    taken.append(number)
            uart.step()
        for _ in range(PERIOD_MS):
            uart.step()
        for left_ms, number in uart.left:
            assert left_ms - begun[number] + YOUNG_MS <= OLDEST_MS + 1
        # What waits is bounded; and what the line carries does leave.
        assert len(uart.left) <= len(taken)
        assert uart.left[-1][1] == (len(begun) - 1) % 256
        if not stalls:
            assert len(uart.left) == len(begun)


def test_poses_that_wait_in_a_line_that_stands_still_are_thrown_away():
    with serial_line(115200) as (uart, transport):
        assert transport.write(b'a' * SIZE, 0.09)
        uart.stalled = True
        assert transport.write(b'b' * SIZE, 0.09)
        assert transport.next_limit_s() == 0.09
        uart.now_ms = 89
        transport.expire()
        assert (uart.out_waiting, transport.interruptions) == (2 * SIZE, 0)
        uart.now_ms = 90
        transport.expire()
        assert (uart.out_waiting, transport.interruptions) == (0, 1)
        assert transport.next_limit_s() == math.inf
        # A pose that could not leave in time does not even wait: 21 ms at this rate.
        assert not transport.write(b'c' * SIZE, 0.110)
        assert transport.write(b'd' * SIZE, 0.112)


def odometry(stamp_ns):
    return make_message(
        'ATT_POS_MOCAP', time_usec=stamp_ns // 1000, q=[1.0, 0.0, 0.0, 0.0], x=1.0, y=2.0, z=3.0,
        covariance=[math.nan] + [0.0] * 20)


def dropped(link):
    return sum(count for name, count in link.report().values.items() if name.startswith('dropped'))


def test_a_pseudo_terminal_that_nobody_reads_is_flushed_and_counted(tmp_path):
    pytest.importorskip('pymavlink')
    pytest.importorskip('serial')
    master, slave = os.openpty()
    os.set_blocking(master, False)
    # Old enough for a machine that takes its time to encode.
    with running_link(f'serial:{os.ttyname(slave)}:921600', max_age_ms=1000.0) as link:
        wait_until(lambda: link.report().up)
        for _ in range(3):
            # Fresh, and more than the terminal holds.
            link.send(VisionBatch(time.time_ns(), [odometry(time.time_ns())] * 400))
        # Reading makes room, which the link fills as long as it has something to write.
        wait_until(lambda: dropped(link) == 3)
        assert link.interruptions and link.report().values['dropped_not_taken']
        received = b''
        try:
            while data := os.read(master, 65536):
                received += data
        except BlockingIOError:
            pass
        # The reader's own 4 kB are out of reach; more than that and what came since is not there.
        assert len(received) < 16384
    os.close(slave)
    os.close(master)


@pytest.fixture
def many_files():
    """Open more files than select can take."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2000:
        pytest.skip('this process may not open 2000 files')
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2000), limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while True:
            file = stack.enter_context(open(os.devnull))
            if file.fileno() > 1100:
                break
        with pytest.raises(ValueError):
            select.select([file.fileno()], [], [], 0)
        yield


@pytest.mark.parametrize('kind', ['udp', 'serial'])
def test_a_link_works_in_a_process_with_many_files(tmp_path, kind, many_files):
    pytest.importorskip('pymavlink')
    if kind == 'serial':
        pytest.importorskip('serial')
    fake = FakeAutopilot(FakeConfig(epoch_ns=time.time_ns(), timesync_hz=50.0, convergence=20))
    with (SerialFakeServer(fake, f'{tmp_path}/tty') if kind == 'serial'
          else FakeServer(fake)) as served, running_link(served.connection) as link:
        wait_until(lambda: served.fake.companion and link.report().values['received'] > 3)
        link.send(VisionBatch(time.time_ns(), [odometry(time.time_ns())]))
        wait_until(lambda: served.heard)
        assert link.report().values['opened'] == 1
