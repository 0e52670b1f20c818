# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Periodic work leaves the node's lock to the thread that publishes poses."""

import threading
import time

from diagnostic_msgs.msg import DiagnosticStatus
from node_kit import parameters
from optitrack_vrpn.node import status
from optitrack_vrpn.node.brief_lock import brief
import pytest
from rosgraph import NodeHere


def test_a_waiting_thread_gets_the_lock_between_two_steps(monkeypatch):
    lock = threading.Lock()
    done = []

    def publish():
        with lock:
            done.append('pose')
    waiting = threading.Thread(target=publish)
    monkeypatch.setattr(time, 'sleep', lambda _: waiting.join(10.0))
    with brief(lock):
        waiting.start()
        done.append('step')
    assert done == ['step', 'pose']
    with pytest.raises(ArithmeticError), brief(lock):
        raise ArithmeticError
    assert not lock.locked()


@pytest.mark.ros
@pytest.mark.network
def test_each_body_of_a_report_is_a_step_of_its_own(user, motive, monkeypatch):
    steps = []

    def counted(lock):
        steps.append(threading.current_thread().name)
        return brief(lock)
    monkeypatch.setattr(status, 'brief', counted)
    names = 'hook', 'ring', 'wand'
    with NodeHere(parameters(motive(*names), autostart=True)):
        for topic in [user.listen(DiagnosticStatus, f'/{name}/status', 10) for name in names]:
            topic.wait(2)
        assert len(steps) >= 2 * len(names)
