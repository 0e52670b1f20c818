# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of the latency of poses in the node: waiting, work, from stamp to publication."""

from typing import Sequence

from optitrack_vrpn.pipeline.channel import Sample
from optitrack_vrpn.stats import Window


class LatencyStatistics:
    """
    Collect the latencies of some batches of samples.

    :ivar wait: time of datagrams in the kernel, before they are read (s).
    :ivar work: time from reading a datagram to publishing its poses (s).
    :ivar latency: time from the stamp of a frame to the publication of its poses (s).
    """

    def __init__(self) -> None:
        self.wait = Window()
        self.work = Window()
        self.latency = Window()

    def add(
        self, samples: Sequence[Sample], arrival_ns: int, host_minus_arrival_ns: int,
        begun_ns: int, done_ns: int,
    ) -> None:
        """
        Add a batch that has been published.

        :param arrival_ns: arrival (ns), on the arrival clock like the next two.
        :param begun_ns: time of reading (ns).
        :param done_ns: time after publishing (ns).
        """
        self.wait.add((begun_ns - arrival_ns) * 1e-9)
        self.work.add((done_ns - begun_ns) * 1e-9)
        for sample in samples:
            latency = (done_ns + host_minus_arrival_ns - sample.frame_ns) * 1e-9
            self.latency.add(latency)
            sample.channel.latency.add(latency)
