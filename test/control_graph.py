# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Controlled systems in separate processes, and tools that call them as rqt does.

The tools use the message classes as they are, nothing of optitrack_vrpn.
"""

from pathlib import Path
import subprocess
import sys
import time

import pytest

try:
    from lifecycle_msgs.msg import Transition
    from lifecycle_msgs.srv import ChangeState, GetState
    from mocap4r2_control_msgs.msg import Control, MocapInfo
    import mocap_control_msgs.msg as old_messages  # noqa: F401
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from rosgraph import TRANSITIONS
except ImportError as error:
    # Whatever imports this file needs both generations of the messages.
    pytest.skip(str(error), allow_module_level=True)

EXAMPLE = Path(__file__).resolve().parents[1] / 'docs' / 'examples' / 'controlled_system.py'
CONTROL, INFO = '/mocap4r2_control', '/mocap4r2_environment'
START, ACK_START, STOP, ACK_STOP = 0, 1, 2, 3
LATCHED = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_WAYS = {
    ('unconfigured', 'inactive'): ['configure'],
    ('unconfigured', 'active'): ['configure', 'activate'],
    ('inactive', 'active'): ['activate'],
    ('active', 'inactive'): ['deactivate'],
    ('inactive', 'unconfigured'): ['cleanup'],
    ('active', 'unconfigured'): ['deactivate', 'cleanup'],
    ('unconfigured', 'finalized'): ['unconfigured_shutdown'],
}


def hide(monkeypatch, *packages):
    """Let packages be missing."""
    class Hider:

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name in packages:
                raise ModuleNotFoundError(f'No module named {name!r}', name=name)
    monkeypatch.setattr(sys, 'meta_path', [Hider, *sys.meta_path])
    for name in [name for name in sys.modules if name.split('.')[0] in packages]:
        monkeypatch.delitem(sys.modules, name)


class Systems:
    """Processes, each with one controlled node, and what they log."""

    def __init__(self, folder):
        self._folder = folder
        self._processes = {}

    def start(self, name, script=EXAMPLE, namespace='', parameters=(), env=None, key=None):
        """Start one, called by a key here if another has its name."""
        arguments = ['--ros-args', '-r', f'__node:={name}']
        if namespace:
            arguments += ['-r', f'__ns:={namespace}']
        for parameter in parameters:
            arguments += ['-p', parameter]
        key = key or name
        with open(self._folder / key.replace('/', '_'), 'w') as log:
            self._processes[key] = subprocess.Popen(
                [sys.executable, str(script), *arguments], stdout=log, stderr=log, env=env)

    def log(self, name):
        return (self._folder / name.replace('/', '_')).read_text()

    def running(self, name):
        return self._processes[name].poll() is None

    def send_signal(self, name, number):
        self._processes[name].send_signal(number)

    def end(self):
        """
        End all processes, whatever it takes.

        On a busy machine a first signal may be lost on an executor that has nothing to do (rclpy
        wakes it just before it ends ROS), and Fast DDS may hang when peers leave together.
        """
        for _ in range(2):
            for process in self._processes.values():
                process.terminate()
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline and not all(
                    process.poll() is not None for process in self._processes.values()):
                time.sleep(0.02)
        for process in self._processes.values():
            process.kill()
            process.wait(10)


class Tool:
    """A node in its own context, with helpers that wait for conditions."""

    def __init__(self, name='tool'):
        self.context = Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node(name, context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._clients = {}

    def close(self):
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def spin(self, duration):
        self.spin_until(lambda: False, duration)

    def spin_until(self, condition, timeout=30.0):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.executor.spin_once(timeout_sec=0.02)
        return True

    def _client(self, kind, name):
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        return self._clients[name]

    def call(self, kind, name, request):
        """Call a service; again where that does no harm, see ``rosgraph.Observer.call``."""
        client, futures = self._client(kind, name), []

        def answers():
            return [future.result() for future in futures if future.done()]
        assert self.spin_until(client.service_is_ready), name
        for _ in range(1 if kind is ChangeState else 4):
            futures.append(client.call_async(request))
            if self.spin_until(answers, 30.0 if kind is ChangeState else 8.0):
                break
        assert answers(), name
        return answers()[0]

    def state(self, path):
        # Made before the question is asked: who answers it can answer this one too from then on.
        self._client(ChangeState, f'{path}/change_state')
        return self.call(GetState, f'{path}/get_state', GetState.Request()).current_state.label

    def change(self, path, transition):
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[transition]))
        return self.call(ChangeState, f'{path}/change_state', request).success

    def bring(self, path, state):
        """Bring a node to a lifecycle state with the services that ros2 lifecycle uses."""
        before = self.state(path)
        for transition in _WAYS.get((before, state), []):
            assert self.change(path, transition), (path, transition)
        assert self.state(path) == state


class Controller(Tool):
    """Sends what rqt's controller sends, and keeps what it hears."""

    def __init__(self, name='mocap4r2_controller', prefix='', control=Control, info=MocapInfo,
                 topics=(CONTROL, INFO), source='mocap4r2_source', targets='mocap4r2_systems'):
        super().__init__(name)
        self.control, self.source, self.targets = control, source, targets
        self.acks, self.infos = [], []
        topics = [prefix + topic for topic in topics]
        self.node.create_subscription(control, topics[0], self._heard, 1000)
        self.node.create_subscription(info, topics[1], self.infos.append, LATCHED)
        self.publisher = self.node.create_publisher(control, topics[0], 1000)

    def _heard(self, message):
        if message.control_type in (ACK_START, ACK_STOP):
            self.acks.append((message, self.node.get_clock().now().nanoseconds))

    def wait_for(self, systems):
        """
        Wait until so many systems and this node hear what is sent.

        That this node hears them is known of those that have told it their state.
        """
        assert self.spin_until(
            lambda: self.publisher.get_subscription_count() >= systems + 1)

    def send(self, kind, targets=(), session=''):
        message = self.control(
            control_type=kind, stamp=self.node.get_clock().now().to_msg(), session_id=session)
        setattr(message, self.source, self.node.get_name())
        setattr(message, self.targets, list(targets))
        self.publisher.publish(message)

    def answers(self, count, timeout=30.0):
        """Wait for so many acknowledgements; give (type, source, session) of each."""
        self.spin_until(lambda: len(self.acks) >= count, timeout)
        found = [(message.control_type, getattr(message, self.source), message.session_id)
                 for message, _ in self.acks]
        self.acks.clear()
        return found

    def obeyed(self, kind, name, session=''):
        """Send a command to one system, and expect its acknowledgement alone."""
        self.send(kind, [name], session)
        (answer, source, said), = self.answers(1)
        assert (answer, source) == (kind + 1, name)
        assert said == session or not session

    def none(self, duration=0.3):
        """Tell that nobody answers for a while."""
        return self.answers(1, duration) == []


def latched(name):
    """Wait for what a late joiner receives of a system; gives the topics of each message."""
    with Tool('late') as late:
        infos = []
        late.node.create_subscription(MocapInfo, INFO, infos.append, LATCHED)
        assert late.spin_until(lambda: name in [info.mocap4r2_source for info in infos])
        return [list(info.topics) for info in infos if info.mocap4r2_source == name]
