# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests with real ROS: the node in its own process or in this one, and an observer."""

import gc
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import threading
import time

from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParameters
import rclpy
import rclpy.client
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
import rclpy.task
from tf2_msgs.msg import TFMessage

ROOT = Path(__file__).resolve().parent.parent

#: Transitions by the words of `ros2 lifecycle set`.
TRANSITIONS = {
    'configure': Transition.TRANSITION_CONFIGURE,
    'cleanup': Transition.TRANSITION_CLEANUP,
    'activate': Transition.TRANSITION_ACTIVATE,
    'deactivate': Transition.TRANSITION_DEACTIVATE,
    'unconfigured_shutdown': Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
    'inactive_shutdown': Transition.TRANSITION_INACTIVE_SHUTDOWN,
    'active_shutdown': Transition.TRANSITION_ACTIVE_SHUTDOWN,
}


def lose_first_requests(monkeypatch):
    """Let the first request of each client in this process get lost; gives how many were."""
    lost = []
    call_async = rclpy.client.Client.call_async

    def lossy(client, request):
        if not any(client is one for one in lost):
            lost.append(client)
            return rclpy.task.Future()
        return call_async(client, request)
    monkeypatch.setattr(rclpy.client.Client, 'call_async', lossy)
    return lost


def wait_until(condition, timeout_s=20.0, what='it'):
    """Wait until something is so; an assertion fails if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f'{what} did not happen within {timeout_s} s'
        time.sleep(0.005)


def port_parameters(protocol, port):
    """Give the parameters of the node that say where a server on a port is."""
    return {'protocol': 'natnet', 'natnet.port': port} if protocol == 'natnet' else {'port': port}


def stamp_ns(message):
    """Give a message's stamp in nanoseconds."""
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def position(pose):
    """Give a pose's position as a tuple."""
    return (pose.position.x, pose.position.y, pose.position.z)


def quat_xyzw(pose):
    """Give a pose's attitude as a tuple."""
    return (pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w)


class Observer:
    """
    A ROS node as any user would write it, spinning in a thread.

    :param name: the node's name.
    :param domain: its ROS domain; that of the environment if not given.
    """

    def __init__(self, name='observer', domain=None):
        self.context = rclpy.Context()
        self.context.init(domain_id=domain)
        self.node = rclpy.create_node(name, context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        try:
            while self.context.ok():
                self._executor.spin_once(timeout_sec=0.1)
        except Exception:
            if self.context.ok():
                raise

    def close(self):
        """End the thread and the node."""
        self.context.try_shutdown()
        self._thread.join(10.0)
        self._executor.shutdown(timeout_sec=1.0)
        self.node.destroy_node()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- topics --------------------------------------------------------------------------------

    def listen(self, kind, topic, qos):
        """Collect the messages of a topic; they are taken as bytes, so that none is lost."""
        box = []    # before the subscription: its first message can arrive at once
        return Topic(self.node.create_subscription(
            kind, topic, lambda data: box.append(data), qos, raw=True), box, kind)

    def poses(self, topic, depth=20000, reliable=True):
        """Collect the poses of a topic."""
        return self.listen(PoseStamped, topic, QoSProfile(
            depth=depth, reliability=ReliabilityPolicy.RELIABLE if reliable
            else ReliabilityPolicy.BEST_EFFORT))

    def transforms(self, static=False):
        """Collect /tf, or /tf_static as late listeners get it."""
        return self.listen(
            TFMessage, '/tf_static' if static else '/tf', QoSProfile(
                depth=20000, durability=DurabilityPolicy.TRANSIENT_LOCAL if static
                else DurabilityPolicy.VOLATILE))

    def topics(self):
        """List the topics on which somebody publishes PoseStamped."""
        return sorted(name for name, kinds in self.node.get_topic_names_and_types()
                      if kinds == ['geometry_msgs/msg/PoseStamped']
                      and self.node.count_publishers(name))

    # -- services ------------------------------------------------------------------------------

    def call(self, kind, service, request, timeout_s=20.0):
        """
        Call a service and give its response.

        What may be asked twice is asked again: the answer is lost where the server has not found
        its reader yet, which happens on a busy machine.
        """
        client = self.node.create_client(kind, service)
        try:
            assert client.wait_for_service(timeout_s), f'no service {service}'
            if kind is ChangeState:
                # Readers are found in the order in which they were made: who has answered the
                # later one of this question knows the earlier one, and all older subscriptions.
                self.call(GetState, service.replace('change_state', 'get_state'),
                          GetState.Request(), timeout_s)
            done = threading.Event()
            futures = []
            times = 1 if kind is ChangeState else 4
            for _ in range(times):
                futures.append(client.call_async(request))
                futures[-1].add_done_callback(lambda _: done.set())
                if done.wait(timeout_s / times):
                    break
            assert done.is_set(), f'{service} does not answer'
            return next(future.result() for future in futures if future.done())
        finally:
            self.node.destroy_client(client)

    def transition(self, word, node='/optitrack_vrpn'):
        """Ask for a transition as `ros2 lifecycle set` does; True if it succeeded."""
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[word]))
        return self.call(ChangeState, f'{node}/change_state', request).success

    def state(self, node='/optitrack_vrpn'):
        """Ask for the node's state."""
        return self.call(GetState, f'{node}/get_state', GetState.Request()).current_state.label

    def set(self, node='/optitrack_vrpn', **values):
        """
        Set parameters as `ros2 param set` does; dots are written as two underscores.

        :returns: '' or the reason of the first that was refused.
        """
        return self.set_all({name.replace('__', '.'): value for name, value in values.items()},
                            node)

    def set_all(self, values, node='/optitrack_vrpn'):
        """Set parameters by name; see ``set``."""
        request = SetParameters.Request(parameters=[
            rclpy.parameter.Parameter(name, value=value).to_parameter_msg()
            for name, value in values.items()])
        results = self.call(SetParameters, f'{node}/set_parameters', request).results
        assert len(results) == len(values)
        return next((result.reason or 'no reason' for result in results
                     if not result.successful), '')

    def get(self, name, node='/optitrack_vrpn'):
        """Get a parameter's value as `ros2 param get` does."""
        values = self.call(
            GetParameters, f'{node}/get_parameters', GetParameters.Request(names=[name])).values
        return rclpy.parameter.parameter_value_to_python(values[0])


class Topic:
    """The messages of one subscription so far."""

    def __init__(self, subscription, box, kind):
        self.subscription = subscription
        self._box = box
        self._kind = kind
        self._read = []

    def __len__(self):
        return len(self._box)

    def discard(self):
        """Forget the messages so far; gives their number."""
        count = len(self._box)
        del self._box[:count], self._read[:]
        return count

    def messages(self, begin=0):
        """Give the messages, oldest first; each is read once, however often this is called."""
        self._read += [deserialize_message(bytes(data), self._kind)
                       for data in self._box[len(self._read):]]
        return self._read[begin:]

    @property
    def matched(self):
        """How many publishers the subscription is connected to."""
        return self.subscription.get_publisher_count()

    def wait(self, count, timeout_s=30.0):
        """Wait for so many messages."""
        wait_until(lambda: len(self) >= count, timeout_s,
                   f'message {count} (of {len(self)}) on {self.subscription.topic_name}')


def silence(topics, seconds=0.4):
    """Let what is under way arrive, however long that takes, then expect nothing more."""
    def silent():
        before = [len(topic) for topic in topics]
        time.sleep(seconds)
        return [len(topic) for topic in topics] == before
    wait_until(silent, 10.0, 'silence')


class NodeProcess:
    """
    The node in its own process, as `ros2 run` would start it.

    :param arguments: what comes after ``--ros-args``.
    :param tool: the tool.
    """

    def __init__(self, *arguments, tool='optitrack_vrpn_node', ros=True):
        command = [sys.executable, '-m', 'optitrack_vrpn', tool,
                   *(['--ros-args'] if ros else []), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            bufsize=1, env=dict(os.environ, RCUTILS_LOGGING_BUFFERED_STREAM='0',
                                RCUTILS_COLORIZED_OUTPUT='0', PYTHONUNBUFFERED='1'))
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip('\n'))

    @property
    def log(self):
        """All that it said so far."""
        return '\n'.join(self.lines)

    def wait_for(self, pattern, timeout_s=20.0):
        """Wait until it says something that a pattern matches; gives the match."""
        try:
            return wait_until(lambda: re.search(pattern, self.log), timeout_s, repr(pattern))
        except AssertionError as error:
            raise AssertionError(f'{error}; it said:\n{self.log}') from None

    def end(self, number=signal.SIGINT, timeout_s=40.0):
        """Send a signal; gives (exit code, seconds until the process was gone)."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(timeout_s)
        took = time.monotonic() - begin
        self._reader.join(5.0)
        return code, took

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5.0)
        self.process.stdout.close()


class NodeHere:
    """
    The node in this process, in a context and a thread of its own.

    :param parameters: overrides by name.
    :param kwargs: for the node's constructor.
    """

    def __init__(self, parameters=None, spin=True, cls=None, **kwargs):
        from optitrack_vrpn.node.node import OptitrackVrpnNode
        self.context = rclpy.Context()
        self.context.init(args=kwargs.pop('args', None))
        overrides = [rclpy.parameter.Parameter(name, value=value)
                     for name, value in (parameters or {}).items()]
        self.node = (cls or OptitrackVrpnNode)(
            context=self.context, parameter_overrides=overrides, **kwargs)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self.failure = None
        if spin:
            self._thread.start()

    def _spin(self):
        try:
            while self.context.ok():
                self._executor.spin_once(timeout_sec=0.1)
        except Exception as error:
            if self.context.ok():
                self.failure = error

    def run(self, action, timeout_s=20.0):
        """Do something in the executor's thread, as callbacks are; gives result or exception."""
        box, done = [], threading.Event()

        def task():
            try:
                box.append(action())
            except Exception as error:
                box.append(error)
            done.set()
        self._executor.create_task(task)
        assert done.wait(timeout_s), 'the executor does not answer'
        return box[0]

    def activate(self):
        """Configure and activate a lifecycle node; gives this."""
        for transition in (self.node.trigger_configure, self.node.trigger_activate):
            assert self.run(transition).name == 'SUCCESS'
        return self

    def close(self):
        """Destroy the node and its context."""
        self._executor.remove_node(self.node)
        if self._thread.ident is not None:
            self.context.try_shutdown()
            self._thread.join(10.0)
        self.node.destroy_node()
        self.context.try_shutdown()
        self._executor.shutdown(timeout_sec=1.0)
        # The services of a lifecycle live as long as rclpy's state machine does, and would
        # answer for a node of the same name that comes after this one.
        self.node = self._executor = None
        gc.collect()
        assert self.failure is None, self.failure

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
