# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""How long poses take through the node."""

from typing import Sequence

from optitrack_vrpn.pipeline.channel import Sample
from optitrack_vrpn.stats import Window

#: One batch of so many is measured. Chosen: a second at 240 Hz gives 15 measurements, enough for
#: percentiles of the window; measuring each batch would cost some microseconds a batch.
_ONE_OF = 16


class LatencyStatistics:
    """
    Measure some batches of samples.

    :ivar wait: of datagrams in the kernel, before they are read (s).
    :ivar work: from reading a datagram to publishing its poses (s).
    :ivar latency: from a pose's stamp to its publication (s).
    """

    def __init__(self) -> None:
        self.wait = Window()
        self.work = Window()
        self.latency = Window()
        self._batches = 0

    def due(self) -> bool:
        """Count a batch, and say whether it is measured."""
        self._batches += 1
        return not self._batches % _ONE_OF

    def add(
        self, samples: Sequence[Sample], arrival_ns: int, host_minus_arrival_ns: int,
        begun_ns: int, done_ns: int,
    ) -> None:
        """
        Add a batch that has been published.

        :param arrival_ns: when it arrived; on the arrival clock, as are begin and end.
        :param begun_ns: when it was read.
        :param done_ns: when it had been published.
        """
        self.wait.add((begun_ns - arrival_ns) * 1e-9)
        self.work.add((done_ns - begun_ns) * 1e-9)
        for sample in samples:
            latency = (done_ns + host_minus_arrival_ns - sample.stamp_ns) * 1e-9
            self.latency.add(latency)
            sample.channel.latency.add(latency)
