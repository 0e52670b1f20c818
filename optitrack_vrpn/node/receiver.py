# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What happens with each datagram in the node: pipeline, publishers, measurement of latency.

The client thread calls it. It is apart from the node because it is compiled, and a compiled class
cannot derive from rclpy's node.
"""

import threading
import traceback
from typing import Callable, Final, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.bodies import Disposition
from optitrack_vrpn.pipeline import Pipeline, Sample
from optitrack_vrpn.sources import Item

if TYPE_CHECKING:    # imports messages and numpy, while the client connects
    from optitrack_vrpn.node.publishers import Publishers

#: One batch of this number is measured. Chosen: 15 measurements a second at 240 Hz, enough for
#: percentiles.
_MEASURED_ONE_OF: Final = 16


class TurnLock:
    """
    The node's lock, as a context manager for all threads but the one with the poses.

    Python's locks are not fair: a thread that releases a lock and acquires it again at once gets
    it before a waiting thread, which still has to wake up. Diagnostics hold the lock once for each
    body, so that poses would wait for the report of all bodies. The thread with the poses
    therefore holds ``turn`` while it waits for ``lock``, so that the others wait behind it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Lock()

    def __enter__(self) -> None:
        with self.turn:
            pass
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


class Receiver:
    """
    Process frames and publish the resulting poses.

    :param lock: guards pipeline and publishers; the attributes are set with it held.
    :param now_ns: reads the arrival clock (ns).
    :param measure: takes the samples of a batch that has been published, its arrival, host clock
        minus arrival clock, the time of reading and the time after publishing (ns).
    :param failed: takes the traceback of an exception; the frame is lost.
    :ivar pipeline: None while the node is unconfigured.
    :ivar publishers: None until they have been created.
    :ivar active: whether to publish.
    """

    def __init__(
        self, lock: TurnLock, now_ns: Callable[[], int],
        measure: Callable[[Sequence[Sample], int, int, int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        # Bound once: they are called with each datagram.
        self._take_turn: Callable[[], object] = lock.turn.acquire
        self._end_turn: Callable[[], object] = lock.turn.release
        self._acquire: Callable[[], object] = lock.lock.acquire
        self._release: Callable[[], object] = lock.lock.release
        self._now_ns = now_ns
        self._measure = measure
        self._failed = failed
        self._batches = 0
        self.pipeline: Optional[Pipeline] = None
        self.publishers: Optional[Publishers] = None
        self.active = False

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process what one datagram contained; see ``sources.Sink``."""
        error = ''
        self._take_turn()
        try:
            self._acquire()
        finally:
            self._end_turn()
        try:
            pipeline = self.pipeline
            if pipeline is None:
                return
            now_ns = self._now_ns()
            samples = pipeline.process(items, arrival_ns, host_minus_arrival_ns, now_ns)
            publishers = self.publishers
            if not self.active or publishers is None:
                for sample in samples:
                    sample.channel.dropped[Disposition.INACTIVE] += 1
                return
            allowance_ns = pipeline.max_age_ns - host_minus_arrival_ns
            if pipeline.markers is not None:
                publishers.publish_markers(pipeline.markers, self._now_ns, allowance_ns)
            if samples or pipeline.server_motions:
                publishers.publish(
                    samples, pipeline.server_motions, self._now_ns, allowance_ns, pipeline.times)
                self._batches += 1
                if not self._batches % _MEASURED_ONE_OF:
                    self._measure(
                        samples, arrival_ns, host_minus_arrival_ns, now_ns, self._now_ns())
            if pipeline.extras is not None:    # last: they take longer than poses
                publishers.publish_extras(pipeline, self._now_ns, allowance_ns)
        except Exception:
            # The thread must continue: the next frame may be valid.
            error = traceback.format_exc()
        finally:
            self._release()
        if error:
            self._failed(error)
