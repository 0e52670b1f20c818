# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Nodes in this process, with simulated Motives: what they log and what they hold."""

import contextlib
import gc
import os
import threading
from types import SimpleNamespace

from optitrack_vrpn.node.node import OptitrackVrpnNode
from optitrack_vrpn.sim.natnet_settings import NatNet
from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.stream.pipeline import Pipeline
from rosgraph import port_parameters, wait_until


@contextlib.contextmanager
def motives():
    """Make simulated Motives with bodies of given names; the function gives their ports."""
    servers = []

    def start(*names, rate=100.0, protocol='vrpn'):
        server = MotiveSimServer(Scenario(
            bodies=named_bodies(names), rate=rate, protocol=protocol, natnet=NatNet(port=0)),
            port=0)
        servers.append(server.start())
        return server.port if protocol == 'vrpn' else server.port_of('natnet')
    try:
        yield start
    finally:
        for server in servers:
            server.stop()


def parameters(port, protocol='vrpn', **more):
    return {'server': '127.0.0.1', **port_parameters(protocol, port), 'connect.retry_max_s': 0.1,
            **{name.replace('__', '.'): value for name, value in more.items()}}


def logged(console, text):
    """Wait until something was logged in this process; gives the log since the last call."""
    parts = []

    def found():
        parts.append(console.unread())
        return text in ''.join(parts)
    wait_until(found, 20.0, f'{text!r} in the log')
    return ''.join(parts)


class _Watched:
    """A publisher; a function is called with each message before it is published."""

    def __init__(self, publisher, before):
        self.publisher, self._before = publisher, before
        self.handle = SimpleNamespace(publish_raw=self._publish_raw)

    def publish(self, message):
        self._before(message)
        self.publisher.publish(message)

    def _publish_raw(self, data):
        self._before(data)
        self.publisher.handle.publish_raw(data)

    def __getattr__(self, name):
        return getattr(self.publisher, name)


class WatchedNode(OptitrackVrpnNode):
    """
    The node in a middleware that a test watches, or that fails.

    :param creating: called with the topic and the options of each publisher before it is created.
    :param sending: called with topic and message, bytes or an object, before it is published.
    :ivar pipelines: those that the node has made.
    """

    def __init__(self, *arguments, creating=None, sending=None, **options):
        self._creating, self._sending, self.pipelines = creating, sending, []
        super().__init__(*arguments, pipeline_of=self._make_pipeline, **options)

    def _make_pipeline(self, *arguments):
        self.pipelines.append(Pipeline(*arguments))
        return self.pipelines[-1]

    def create_publisher(self, message_type, topic, *arguments, **options):
        if self._creating is not None:
            self._creating(topic, options)
        made = super().create_publisher(message_type, topic, *arguments, **options)
        return made if self._sending is None else _Watched(
            made, lambda message: self._sending(topic, message))

    def destroy_publisher(self, publisher):
        return super().destroy_publisher(getattr(publisher, 'publisher', publisher))


def refusing(refused):
    """Make the function of a middleware that refuses a topic, as where it has another type."""
    def creating(topic, _):
        if topic == refused:
            raise RuntimeError('another type')
    return creating


def bug(*_):
    raise ArithmeticError('made up')


def held(node):
    """Count what a node and this process hold."""
    gc.collect()
    return {
        'threads': sorted(t.name for t in threading.enumerate()),
        'files': len(os.listdir('/proc/self/fd')),
        'publishers': sorted(p.topic_name for p in node.publishers),
        'subscriptions': len(list(node.subscriptions)), 'timers': len(list(node.timers)),
        'clients': len(list(node.clients)), 'services': len(list(node.services)),
        'waitables': len(list(node.waitables)), 'guards': len(list(node.guards)),
        'parameters': len(node.get_parameters_by_prefix('')),
        'references': len(node.default_callback_group.entities),
    }


def released(node, before):
    """
    Return whether no more is held than before.

    The simulated Motive is in this process too, and closes its ends a moment later: it may have
    been about to when that was counted.
    """
    after = held(node)
    return after['files'] <= before['files'] and {**after, 'files': 0} == {**before, 'files': 0}
