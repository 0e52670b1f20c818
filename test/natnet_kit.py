# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A simulated Motive with NatNet, a client of it, and a sink that stores its reports."""

import contextlib
from dataclasses import replace

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.drivers.config import ClientConfig, LinkConfig
from optitrack_vrpn.drivers.driver import Deliver, Finish, Send, SendTimed
from optitrack_vrpn.drivers.frames import Frame, RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.driver import NatNetDriver
from optitrack_vrpn.drivers.natnet.messages import ServerInfo
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.table import make_source, source_settings, SourceOptions
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
from transport_kit import Recorder


MOTIVE = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, False, '')


class Talk:
    """
    The driver of a conversation without sockets, and what it did.

    :param info: what the server answers to the greeting; None for no answer yet.
    :ivar said: its texts for the user.
    :ivar ended: why it ended the conversation.
    :ivar passed: items and the times of their arrival (ns).
    :ivar timed: what makes its requests for the time; ``due`` sends them.
    """

    def __init__(self, info=MOTIVE, **config):
        self.driver = NatNetDriver(NatNetConfig(**config), 0)
        self.said, self.ended, self.passed, self.timed = [], [], [], []
        if info is not None:
            self.receive(codec.encode_server_info(info), 0)

    def _taken(self):
        actions, self.driver.actions = self.driver.actions, []
        self.said += [one for one in actions if isinstance(one, Event)]
        self.ended += [one.reason for one in actions if isinstance(one, Finish)]
        self.timed += [one.make for one in actions if isinstance(one, SendTimed)]
        self.passed += [(item, one.arrival_ns) for one in actions if isinstance(one, Deliver)
                        for item in one.items]
        return [one.data for one in actions if isinstance(one, Send) and not one.port]

    def receive(self, datagram, now_ns):
        """Let a datagram arrive; give the items that are passed on."""
        before = len(self.passed)
        items = self.driver.feed('natnet/udp', memoryview(datagram), now_ns)
        self._taken()
        self.passed += [(item, now_ns) for item in items]
        return [item for item, _ in self.passed[before:]]

    def due(self, now_ns):
        """Give the datagrams that are sent now, without those for the time."""
        self.driver.due(now_ns)
        return self._taken()

    def echo(self, now_ns):
        """Give the request for the time that is sent now; None if none is due."""
        made = [make(now_ns) for make in self.timed]
        self.timed = []
        return made[0] if made else None

    def end(self, now_ns=0):
        self.driver.end(now_ns)
        return self._taken()


class Sink(Recorder):
    """Keep the reports of NatNet by kind."""

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def bodies(self):
        return [body for frame in self.frames for body in frame.bodies]

    @property
    def frames(self):
        """Give the frames."""
        return self.of(Frame)

    @property
    def vrpn_frames(self):
        """Give the frames without exposure times, which are those of VRPN."""
        return [frame for frame in self.frames if not frame.processing_ns]

    @property
    def echoes(self):
        return self.of(RoundTrip)

    @property
    def markers(self):
        return [frame.markers for frame in self.frames if frame.markers]

    def said(self, text):
        return any(text in change.text for change in list(self.changes))

    def wait_for(self, text):
        self.wait(lambda: self.said(text))

    def wait_for_bodies(self, count=5):
        """Wait for more bodies than there are."""
        seen = len(self.bodies)
        self.wait(lambda: len(self.bodies) > seen + count)


def simulated(bodies=2, paced=True, rate=200, **rest):
    """Make a simulated Motive that speaks NatNet on a free port."""
    natnet = {'port': 0, 'data_port': 0, **rest.pop('natnet', {})}
    return MotiveSimServer(scenario_from_mapping({
        'bodies': bodies, 'rate': rate, 'protocol': 'natnet', 'natnet': natnet,
        'server': {'port': 0}, **rest}), paced=paced)


def client_config(server='127.0.0.1', port=3883, **link):
    """Make the settings of a client that is quick to try again."""
    return ClientConfig(server=server, port=port, link=LinkConfig(
        **{'retry_min_s': 0.05, 'retry_max_s': 0.2, 'attempt_s': 1.0, 'silent_after_s': 0.3,
           'reconnect_after_s': 1.0, **link}))


@contextlib.contextmanager
def following(motive, natnet=None, protocol='natnet', sink=None, interface='', **config):
    """
    Run a client; give its sink and it.

    :param motive: a simulated Motive, or the command port of a peer.
    """
    sink = Sink() if sink is None else sink
    port = motive if isinstance(motive, int) else motive.port_of('natnet')
    own = {'port': port, **(natnet or {})}
    wanted = frozenset(own.pop('wanted', ()))
    client = make_source(
        protocol, replace(client_config(**config), interface=interface),
        replace(source_settings(), natnet=NatNetConfig(**own)), sink,
        SourceOptions(wanted=wanted))
    client.start()
    try:
        yield sink, client
    finally:
        client.stop()
