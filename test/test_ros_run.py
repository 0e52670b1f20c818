# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A node's process ends, whatever the middleware does."""

from pathlib import Path
import subprocess
import sys
import time

ROOT = Path(__file__).resolve().parent.parent

STUCK = """
import time, rclpy
from optitrack_vrpn.ros import run
run._LEAVE_S = 0.5
rclpy.try_shutdown = lambda: time.sleep(60)
def interrupted():
    raise KeyboardInterrupt
raise SystemExit(run.run(interrupted, ['node']))
"""


def test_a_middleware_that_does_not_let_go_is_left_behind():
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, '-c', STUCK], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert 'did not let go within 0.5 s' in done.stderr
    assert time.monotonic() - begin < 40
