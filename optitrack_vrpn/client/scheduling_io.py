# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Which of a process's threads may interrupt which.

For every message that it publishes reliably, DDS wakes a thread of its own, and Linux lets a woken
thread interrupt the one that runs: the one that publishes. Where processors are scarce that is two
switches for each pose, which cost more than the pose. A thread of the policy ``SCHED_BATCH`` gets
the same share of the processor, but interrupts nobody when it wakes. New threads inherit it.
"""

import os


def use_batch_scheduling() -> None:
    """
    Let this thread, and those that it starts from now on, wait for their turn when they wake.

    Call it before the middleware starts. Policies that somebody chose (real time, idle) stay.
    """
    _change('SCHED_OTHER', 'SCHED_BATCH')


def use_default_scheduling() -> None:
    """Let this thread alone run at once when it wakes, as Linux does by default."""
    _change('SCHED_BATCH', 'SCHED_OTHER')


def _change(before: str, after: str) -> None:
    """Change the policy of this thread, where there are such and it is allowed."""
    try:
        if os.sched_getscheduler(0) == getattr(os, before):
            os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except (AttributeError, OSError):
        pass    # another system, or a sandbox: all stays as it was
