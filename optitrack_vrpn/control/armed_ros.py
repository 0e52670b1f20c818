# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Say on a latched topic that a vehicle is armed, and hear it; see ``armed``."""

import time
from typing import Optional

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from optitrack_vrpn.control.armed import ArmedVehicles, Claim, claim_of, PERIOD_NS, TOPIC
from optitrack_vrpn.core.status import StatusReport
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy


def _qos(depth: int) -> QoSProfile:
    return QoSProfile(depth=depth, reliability=ReliabilityPolicy.RELIABLE,
                      durability=DurabilityPolicy.TRANSIENT_LOCAL)


class ArmedPublisher:
    """Publish the claim of one bridge; ``say`` at least ten times a second."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(DiagnosticStatus, TOPIC, _qos(1))
        self._said: Optional[Claim] = None
        self._due_ns = 0

    def say(self, claim: Claim) -> None:
        """Publish a claim if it is new or due."""
        now_ns = time.monotonic_ns()
        if claim == self._said and now_ns < self._due_ns:
            return
        self._said, self._due_ns = claim, now_ns + PERIOD_NS
        self._publisher.publish(DiagnosticStatus(
            level=DiagnosticStatus.OK, name=claim.bridge, hardware_id=claim.body,
            message=claim.message, values=[
                KeyValue(key=key, value=value) for key, value in claim.values().items()]))


class ArmedListener:
    """Hear the claims of all bridges."""

    def __init__(self, node: Node) -> None:
        self._vehicles = ArmedVehicles()
        node.create_subscription(DiagnosticStatus, TOPIC, self._take, _qos(100))
        # It runs while a bridge is heard: each call of a timer makes the executor visit all
        # entities of the node.
        self._timer = node.create_timer(PERIOD_NS * 1e-9, self._tick, clock=Clock(
            clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()

    @property
    def refusal(self) -> str:
        """Return why a STOP is refused now, '' if it is followed."""
        return self._vehicles.refusal(time.monotonic_ns())

    def _take(self, message: DiagnosticStatus) -> None:
        self._vehicles.heard(
            claim_of(message.name, message.hardware_id, StatusReport.of(message).values),
            time.monotonic_ns())
        if self._timer.is_canceled():
            self._timer.reset()

    def _tick(self) -> None:
        if not self._vehicles.tick(time.monotonic_ns()):
            self._timer.cancel()
