# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A link to an autopilot, and the fake one behind a pseudo terminal, which can be unplugged."""

from contextlib import contextmanager
import os
import time
import tty

from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeServer
from optitrack_vrpn.guests.autopilot.link_io import LinkThread
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan


@contextmanager
def running_link(connection, report=lambda event: None, opener=None, **more):
    """Run the link of a bridge; it hands its events to ``report``."""
    settings = BridgeSettings(body='cf1', connection=connection, **more)
    link = LinkThread(
        settings, plan(settings), report, **({'opener': opener} if opener else {}))
    link.start()
    try:
        yield link
    finally:
        link.close()


class SerialFakeServer(FakeServer):
    """
    Run a fake autopilot on a serial device.

    :param device: path of the device.
    """

    def __init__(self, fake, device):
        self._device = device
        super().__init__(fake)

    def _open(self):
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        os.symlink(os.ttyname(self._slave), self._device)
        return f'serial:{self._device}:921600'

    def _release(self):
        if self._master >= 0:
            os.unlink(self._device)
            os.close(self._slave)
            os.close(self._master)
        self._master = self._slave = -1

    def unplug(self):
        """Remove the device, like an unplugged USB adapter."""
        with self._lock:
            self._release()

    def replug(self):
        """Create the device again."""
        with self._lock:
            self._open()

    def _descriptor(self):
        return self._master

    def _read(self):
        try:
            return b'' if self._master < 0 else os.read(self._master, 65536), time.time_ns()
        except OSError:
            return b'', time.time_ns()

    def _write(self, data):
        try:
            if self._master >= 0:
                os.write(self._master, data)
        except OSError:    # full
            pass
