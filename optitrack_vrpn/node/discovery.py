# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Create the publishers of new bodies on the ticker thread, so that other poses do not wait."""

from collections import deque
import threading
from typing import Callable

from optitrack_vrpn.names import printable
from optitrack_vrpn.node.publishers import Publishers
from optitrack_vrpn.pipeline.channel import Channel
from optitrack_vrpn.pipeline.pipeline import Pipeline


class Discovery:
    """
    Queue new bodies, and create their publishers.

    :param lock: guards pipeline and publishers.
    :param log: takes severity, text and a key.
    :ivar wake: wakes the ticker thread.
    """

    def __init__(
        self, lock: threading.Lock, log: Callable[[str, str, object], None],
    ) -> None:
        self._lock = lock
        self._log = log
        self._waiting: deque[Channel] = deque()
        self.wake: Callable[[], None] = lambda: None

    def add(self, channel: Channel) -> None:
        """Queue a new body; on the client thread, which holds the lock."""
        self._waiting.append(channel)
        self.wake()

    def create_publishers(self, pipeline: Pipeline, publishers: Publishers) -> bool:
        """
        Create the publishers of all queued bodies, which takes milliseconds each.

        The lock is not held meanwhile.

        :param pipeline: contains the bodies that are still selected.
        :returns: whether a body was queued.
        """
        created = False
        while self._waiting:
            channel = self._waiting.popleft()
            created = True
            try:
                output = publishers.prepare(channel)
                with self._lock:
                    if channel in pipeline.bodies and not publishers.closed:
                        publishers.adopt(output)
                    else:
                        output.close()
            except Exception as error:
                # A topic that the middleware refuses must not affect the other bodies.
                name = channel.names.motive
                self._log('error', f'body {printable(name)!r} cannot be published: {error}',
                          ('refused', name))
        return created
