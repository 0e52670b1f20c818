# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The world of most tests of the node: simulated Motives, the node in this process, and its user.

``World`` makes them and ends them; wait for what they do with ``rosgraph.wait_until`` and
``rosgraph.Topic.wait``. The rest is for tests that look into the node or make it fail.
"""

import contextlib
import functools
import gc
import os
import threading
from types import SimpleNamespace

from optitrack_vrpn.node.node import OptitrackVrpnNode
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.stream.pipeline import Pipeline
from rosgraph import NodeHere, Observer, port_parameters, wait_until


class World(contextlib.ExitStack):
    """
    What ends with a test, in the reverse order of its beginning.

    :ivar user: a ROS node as any user would write it.
    """

    def motive(self, bodies=1, live=None, **scenario):
        """
        Start a simulated Motive, which speaks both protocols unless stated otherwise.

        :param bodies: their number, their names, or their settings.
        :param live: motions of bodies by name, for those that a test moves.
        :param scenario: further keys of a scenario.
        """
        ports = {'server': {'port': 0}, 'natnet': {
            'port': 0, 'data_port': 0, **scenario.pop('natnet', {})}}
        return self.enter_context(MotiveSimServer(scenario_from_mapping({
            'bodies': bodies, 'rate': 100, 'protocol': 'both', **ports, **scenario}), live=live))

    def node(self, motive, protocol='vrpn', sending=None, creating=None, **given):
        """
        Run a node that follows a simulated Motive, active unless stated otherwise.

        :param given: parameters; dots of their names are written as two underscores.
        """
        port = motive.port if protocol == 'vrpn' else motive.port_of('natnet')
        also = {'port': motive.port} if protocol == 'auto' else {}
        where = {'protocol': 'auto', 'natnet.port': port, **also} if protocol == 'auto' else (
            port_parameters(protocol, port))
        return self.enter_context(NodeHere({
            'server': '127.0.0.1', **where, 'connect.retry_max_s': 0.1, 'autostart': True,
            **{name.replace('__', '.'): value for name, value in given.items()}},
            cls=WatchedNode, sending=sending, creating=creating))

    @functools.cached_property
    def user(self):
        return self.enter_context(Observer('user_of_world'))


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
        self.handle = SimpleNamespace(
            publish_raw=self._publish_raw,
            get_subscription_count=publisher.handle.get_subscription_count)

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
