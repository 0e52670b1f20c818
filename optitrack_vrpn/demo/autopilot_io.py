# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A fake autopilot and a bridge to it, started with the demo's node."""

from __future__ import annotations

from collections.abc import Sequence
import time
from typing import Any

from optitrack_vrpn.autopilot import FakeAutopilot, FakeConfig, FakeServer, PROFILES
from optitrack_vrpn.demo.child_io import Child, start_tool
from optitrack_vrpn.units import NS_PER_S

NODE = 'optitrack_vrpn_demo_bridge'
KINDS = ('px4', 'ardupilot')
#: Chosen: the fake's clock differs from the host's: it starts at its boot, and is 40 ppm fast (a
#: usual quartz).
_BOOT_NS, _SKEW_PPM = 50_000_000_000, 40.0


class AutopilotDemo:
    """
    Send the poses of one body to a fake autopilot, and describe its state.

    :param kind: ``px4`` or ``ardupilot``.
    :param body: name of the body in ROS.
    :param children: list to which the bridge's process is added.
    :raises BackendUnavailableError: if pymavlink is not installed.
    """

    def __init__(self, kind: str, body: str, children: list[Child]) -> None:
        self._kind = kind
        self._body = body
        # Chosen: requests of TIMESYNC per second: five times PX4's, so that a demo of 15 s shows
        # the convergence.
        self._server = FakeServer(FakeAutopilot(FakeConfig(
            kind, epoch_ns=time.time_ns(), boot_ns=_BOOT_NS, skew_ppm=_SKEW_PPM,
            timesync_hz=50.0)))
        self.bridge = start_tool('mavlink_bridge', [
            '--ros-args', '-r', f'__node:={NODE}', '-p', f"body:='{body}'", '-p',
            f'autopilot:={kind}', '-p', f'connection:={self._server.connection}', '-p',
            'autostart:=true', '-p', "control.generations:=['none']"], children)

    @property
    def messages(self) -> int:
        """Count the poses that have arrived."""
        return len(self._server.heard)

    def line(self) -> str:
        """Describe the received messages, in one line."""
        received: Sequence[Any] = self._server.heard[-200:]
        name = f'fake {PROFILES[self._kind].name}, body {self._body}'
        if not received:
            return f'{name}: no pose yet'
        fake, now_ns, last = self._server.fake, time.time_ns(), received[-1]
        rate = sum(now_ns - one.arrival_ns < NS_PER_S for one in received)
        age_ms = (last.arrival_ns - last.message.fields['time_usec'] * 1000) / 1e6
        estimator = 'fuses the poses' if fake.fused(now_ns) else 'does not fuse'
        stamps = '' if fake.converged else ', stamps on arrival until TIMESYNC converges'
        return (f'{name}: {last.message.name} at {rate} Hz, {age_ms:.1f} ms old, reset counter '
                f'{last.message.fields["reset_counter"]}; its estimator {estimator}{stamps}')

    def failures(self) -> list[str]:
        """List the failures; empty if the estimator fuses the poses."""
        if not self.messages:
            return [f'no pose reached the fake autopilot; output of the bridge:\n'
                    f'{self.bridge.text()}']
        if not self._server.fake.fused(time.time_ns()):
            return [f'the estimator of the fake autopilot does not fuse: {self.line()}']
        return []

    def close(self) -> None:
        """End the fake autopilot."""
        self._server.close()
