# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The thread that publishes poses waits for one step of periodic work, not for all."""

import os
import sys
import threading
import time

from optitrack_vrpn.node.receiver import Receiver, TurnLock
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
import pytest


@pytest.fixture
def two_processors():
    """Run two threads on two processors; a thread keeps Python's lock until it waits."""
    before = sys.getswitchinterval(), os.sched_getaffinity(0)
    sys.setswitchinterval(30.0)
    yield min(before[1]), max(before[1])
    sys.setswitchinterval(before[0])
    os.sched_setaffinity(0, before[1])


def receiver(lock, now_ns):
    """Make the node's path of a pose; it reads the time while it holds the lock."""
    path = Receiver(lock, now_ns, lambda *_: None, print)
    path.pipeline = Pipeline(PipelineConfig())
    return path


def _steps_before_a_waiting_pose(processors):
    """Count the steps that begin after a pose waits and end before it is published."""
    lock = TurnLock()
    steps = []
    published_after = []
    ready = threading.Event()

    path = receiver(lock, lambda: published_after.append(len(steps)) or 0)

    def publish():
        os.sched_setaffinity(0, processors[1:])
        ready.set()
        path.receive([], 0, 0)

    client = threading.Thread(target=publish)
    with lock:
        client.start()
        while not ready.is_set():    # then it waits for the lock
            time.sleep(0)
    for step in range(20):
        with lock:
            time.sleep(0)    # other threads can run
            steps.append(step)
    client.join()
    return published_after[0]


def test_a_waiting_pose_comes_before_the_next_step(two_processors):
    os.sched_setaffinity(0, two_processors[:1])
    assert [_steps_before_a_waiting_pose(two_processors) for _ in range(100)] == [0] * 100


def test_an_error_in_a_step_releases_the_lock():
    lock = TurnLock()
    with pytest.raises(ArithmeticError), lock:
        raise ArithmeticError
    receiver(lock, lambda: 0).receive([], 0, 0)
    with lock:
        pass
