# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Scheduling of threads as Linux reports it."""

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    not hasattr(os, 'SCHED_BATCH'), reason='policies of this kind are Linux')

SCRIPT = """
import json, os, sys, threading
from optitrack_vrpn.drivers.client_io import use_batch_scheduling, use_default_scheduling
os.sched_setscheduler(0, getattr(os, sys.argv[1]), os.sched_param(0))
use_batch_scheduling()
seen = [os.sched_getscheduler(0)]

def inherit():
    seen.append(os.sched_getscheduler(0))
    use_default_scheduling()
    seen.append(os.sched_getscheduler(0))

thread = threading.Thread(target=inherit)
thread.start()
thread.join()
seen.append(os.sched_getscheduler(0))
print(json.dumps(seen))
"""


def policies(before):
    """Tell what becomes of a policy: of a thread, of one that it starts, and of both after."""
    done = subprocess.run(
        [sys.executable, '-c', SCRIPT, before], cwd=ROOT, capture_output=True, text=True,
        timeout=50, check=True)
    return json.loads(done.stdout)


def test_one_thread_may_interrupt_and_the_others_may_not():
    assert policies('SCHED_OTHER') == [
        os.SCHED_BATCH, os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_BATCH]


def test_a_policy_that_somebody_chose_stays():
    assert policies('SCHED_IDLE') == [os.SCHED_IDLE] * 4
