# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Hold the node's lock for short steps, and leave it to the client thread between them."""

from collections.abc import Iterator
import contextlib
import threading
import time

#: Chosen: pause (s) after each step, some times the wake-up of a waiting thread (about 50 us).
#: Halved, a thread that wakes late can miss its turn; doubled, the periodic work of 500 bodies
#: takes 0.1 s longer.
_PAUSE_S = 2e-4


@contextlib.contextmanager
def brief(lock: threading.Lock) -> Iterator[None]:
    """
    Hold a lock for one step of several.

    Python's locks are not fair: a thread that acquires a lock again at once gets it before a
    thread that is waiting and still has to wake up, so that poses would wait for all steps.
    """
    with lock:
        yield
    time.sleep(_PAUSE_S)
