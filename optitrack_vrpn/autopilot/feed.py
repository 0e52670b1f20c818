# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the bridge does with each sample: one publisher, the gate, the vehicle and its link."""

from __future__ import annotations

import enum
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.gate import Gate, valid, Withheld
from optitrack_vrpn.autopilot.messages import Sample
from optitrack_vrpn.graph.one_publisher import Arrival, OnePublisher


class Output(NamedTuple):
    """
    State of the output.

    :ivar ready: whether poses may be sent now.
    :ivar interruptions: number of times that poses may not have arrived at the same autopilot: the
        link was opened again, has another address, or discarded poses; heartbeats were lost.
    :ivar written_ns: stamp of the last sample that was written (ns), 0 if none was.
    """

    ready: bool
    interruptions: int
    written_ns: int


class Use(enum.Enum):
    """Use of a sample."""

    SEND = 'send'
    COMPARE = 'compare with the attitude of the autopilot'
    NONE = 'none'


class Feed:
    """
    Decide the use of each sample; not thread-safe.

    :param gate: rules for the samples, and the reset counter.
    :param publishers: the publishers of the body's topics.
    :ivar active: whether the bridge is active.
    """

    def __init__(self, gate: Gate, publishers: OnePublisher) -> None:
        self.gate = gate
        self.publishers = publishers
        self.active = False
        self._interruptions = 0

    def end(self) -> None:
        """Stop sending."""
        self.active = False
        self.gate.interrupt()

    def offer(self, sample: Sample, arrival: Arrival, output: Output, now_ns: int) -> Use:
        """
        Decide the use of a sample.

        :param now_ns: present time on the clock of the stamps (ns).
        """
        gate = self.gate
        fresh = self.publishers.accept(arrival)
        if fresh is None or fresh:
            gate.interrupt()
        if output.interruptions != self._interruptions:
            self._interruptions = output.interruptions
            gate.interrupt()
        if fresh is None:
            gate.withheld[Withheld.PUBLISHERS] += 1
            return Use.NONE
        if not self.active or not output.ready:
            return Use.COMPARE if gate.tracked and valid(sample) else Use.NONE
        gate.written(output.written_ns, sample.stamp_ns)
        return Use.SEND if gate.offer(sample, now_ns) is None else Use.NONE


def stop_refusal(allowed: bool, armed: Optional[bool], node: str) -> str:
    """
    Return why a STOP of mocap control is refused, '' if it is not.

    :param allowed: the parameter stop_while_armed.
    :param armed: whether the vehicle is armed; None if unknown.
    :param node: full name of the bridge.
    """
    if allowed or armed is False:
        return ''
    known = 'the vehicle is armed' if armed else (
        'transport dds does not tell whether the vehicle is armed')
    return (f'{known}, and its estimator needs the poses: disarm it, set stop_while_armed, or run '
            f'ros2 lifecycle set {node} deactivate')
