# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A simulated Motive with NatNet, and a sink that stores the reports of a client."""

import threading

from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.client.link import LinkConfig, LinkState
from optitrack_vrpn.natnet.reports import (
    EchoReport, FrameReport, MarkersReport, RigidBodyReport)
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer

TIMEOUT_S = 10.0


class Sink:
    """Keep reports and changes; wait for them."""

    def __init__(self):
        self.batches = []
        self.changes = []
        self.arrived = threading.Condition()

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        with self.arrived:
            self.batches.append((list(events), arrival_ns, host_minus_arrival_ns))
            self.arrived.notify_all()

    def link_changed(self, change):
        with self.arrived:
            self.changes.append(change)
            self.arrived.notify_all()

    def of(self, kind):
        return [event for events, _, _ in list(self.batches) for event in events
                if isinstance(event, kind)]

    @property
    def bodies(self):
        return self.of(RigidBodyReport)

    @property
    def frames(self):
        return self.of(FrameReport)

    @property
    def echoes(self):
        return self.of(EchoReport)

    @property
    def markers(self):
        return self.of(MarkersReport)

    def said(self, text):
        return any(text in change.text for change in list(self.changes))

    def wait(self, condition, what, timeout_s=TIMEOUT_S):
        with self.arrived:
            assert self.arrived.wait_for(condition, timeout_s), (
                what, [(c.data.value, c.text) for c in self.changes[-10:]])

    def wait_for(self, text):
        self.wait(lambda: self.said(text), text)

    def wait_for_state(self, state, after=0):
        self.wait(lambda: any(change.data is LinkState(state)
                              for change in self.changes[after:]), state)


def simulated(bodies=2, paced=True, rate=200, **rest):
    """Make a simulated Motive that speaks NatNet on a free port."""
    natnet = {'port': 0, **rest.pop('natnet', {})}
    return MotiveSimServer(scenario_from_mapping({
        'bodies': bodies, 'rate': rate, 'protocol': 'natnet', 'natnet': natnet,
        'server': {'port': 0}, **rest}), paced=paced)


def client_config(server='127.0.0.1', port=3883, **link):
    """Make the settings of a client that is quick to try again."""
    return ClientConfig(server=server, port=port, link=LinkConfig(
        **{'retry_min_s': 0.05, 'retry_max_s': 0.2, 'attempt_s': 1.0, 'silent_after_s': 0.3,
           'reconnect_after_s': 1.0, **link}))
