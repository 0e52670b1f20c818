# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Scheduling policies of the process's threads.

For each message published reliably, DDS wakes one of its threads, and Linux lets a woken thread
preempt the running one: the thread that publishes. On a computer with few processors that causes
two context switches per pose, which cost more than the pose. A thread with the policy
``SCHED_BATCH`` gets the same share of the processor but does not preempt when it wakes (sched(7)).
New threads inherit the policy.
"""

import os


def use_batch_scheduling() -> None:
    """
    Set SCHED_BATCH for this thread and the threads that it starts afterwards.

    Call it before the middleware starts. Policies other than the default (real time, idle) stay.
    """
    _change('SCHED_OTHER', 'SCHED_BATCH')


def use_default_scheduling() -> None:
    """Set Linux's default policy for this thread only, which then runs as soon as it wakes."""
    _change('SCHED_BATCH', 'SCHED_OTHER')


def _change(before: str, after: str) -> None:
    """Change the policy of this thread if the system supports and permits it."""
    try:
        if os.sched_getscheduler(0) == getattr(os, before):
            os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except (AttributeError, OSError):
        pass    # not Linux, or a sandbox: the policy stays
