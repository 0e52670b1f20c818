# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""``demo --calibrate``: a simulated body with an IMU, the node, and a guided calibration."""

import contextlib
import subprocess
import sys
import tempfile
from typing import Optional

from optitrack_vrpn.demo.child_io import addresses_of, Child, start_tool

#: What is simulated (ms); the lever arm and rotation are the defaults of ImuModel.
_DELAY_MS, _IMU_DELAY_MS = 7.0, 1.5
#: Chosen: longest start of the simulator (s), and longest session (s): its body turns and swings
#: all the time, so that there is less to wait for than with a hand.
_START_S, _SESSION_S = 40.0, 75.0


def calibrate(
    children: list[Child], files: contextlib.ExitStack, node: str, seconds: Optional[float],
) -> int:
    """
    Start all processes, and run the session in the foreground.

    :param children: list to which each started process is added.
    :param files: removes the take at the end.
    :param node: name of the node.
    :param seconds: longest session (s); None for the default.
    :returns: exit code of ``calibrate``.
    """
    sim = start_tool('imu_sim', [
        '--names', 'wand', '--rate', '120', '--protocol', 'vrpn', '--port', '0', '--noise-mm',
        '0.3', '--noise-deg', '0.15', '--delay-ms', f'{_DELAY_MS}', '--imu-delay-ms',
        f'{_IMU_DELAY_MS}', '--imu-errors', '0.01', '--accelerometer-delay-ms', '3'], children)
    ((host, port),) = addresses_of(sim, 'the simulated Motive', _START_S)
    start_tool('optitrack_vrpn_node', [
        '--ros-args', '-r', f'__node:={node}', '-p', f'server:={host}', '-p', f'port:={port}',
        '-p', 'autostart:=true'], children)
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix='optitrack_vrpn_'))
    code = subprocess.call([
        sys.executable, '-m', 'optitrack_vrpn', 'calibrate', 'imu', '--body', 'wand', '--imu',
        '/imu/data_raw', '--seconds', f'{seconds or _SESSION_S:g}', '--node', node], cwd=folder)
    print(f'\ndemo: simulated are latency {_DELAY_MS - _IMU_DELAY_MS:g} ms ({_DELAY_MS:g} of the '
          f'frames less {_IMU_DELAY_MS:g} of the stamps of the IMU), lever arm 0.06 -0.04 0.03 m')
    return code
