# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The model of a vehicle, connected to the fake autopilot; and poses for them."""

from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig
from optitrack_vrpn.guests.autopilot.gate import Gate
from optitrack_vrpn.guests.autopilot.messages import convert, make, VisionSample
from optitrack_vrpn.guests.autopilot.report import findings, LinkReport, VisionSource
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Vehicle
import pytest

pytest.importorskip('pymavlink')

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS


def sent_by(message, system, component=1):
    """Return the message as if it came from a sender."""
    header = message.get_header()
    header.srcSystem, header.srcComponent = system, component
    return message


class Together:
    """A vehicle's model and a fake autopilot with a wire between them, and one clock."""

    def __init__(self, fake=None, parameters=None, **settings):
        self.settings = BridgeSettings(**{'body': 'cf1', **settings})
        self.vehicle = Vehicle(self.settings, plan(self.settings))
        self.fake = FakeAutopilot(fake or FakeConfig(
            self.settings.autopilot, epoch_ns=START, convergence=50), parameters)
        self.now = START
        self.events = []
        self.outgoing = []
        self.alive = True

    def run(self, seconds, step_ms=10):
        """Let time pass; messages travel in one millisecond."""
        for _ in range(round(seconds * 1000 / step_ms)):
            self.now += step_ms * MS
            self.deliver(self.vehicle.tick(self.now, self.now - START + 10**12))
            if self.alive:
                for message in self.fake.tick(self.now):
                    self.take(message)
            self.events += self.vehicle.take_events()

    def take(self, message, component=1, system=None):
        answers = self.vehicle.receive(
            sent_by(message, system or self.fake.config.system, component),
            self.now, self.now - START + 10**12)
        self.deliver(answers)

    def deliver(self, messages):
        for message in messages:
            self.outgoing.append(message)
            if not self.alive:
                continue
            for answer in self.fake.receive(
                    sent_by(message, self.vehicle.own_system, 197), self.now):
                self.now += MS
                self.take(answer)

    def said(self, text):
        return [event for event in self.events if text in event.text]

    def finding(self, check):
        """Return one finding of the check, whatever the source and the link."""
        chosen = plan(self.settings)
        gate = Gate(chosen)
        gate.active = True
        return next(one for one in findings(
            self.settings, chosen, VisionSource('/cf1/odom', 1, 'TRACKED', '/cf1/odom', 50.0),
            gate, LinkReport(True, '', 'peer', 0, {}), self.vehicle,
            self.now - START + 10**12)
            if one.check == check)


def vision(autopilot='px4', **settings):
    chosen = plan(BridgeSettings(body='cf1', autopilot=autopilot, **settings))
    state = convert(VisionSample(START, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), None,
                                 (1.0, 0.0, 0.0)))
    return make(state, chosen, 0)
