# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Ground station, switch, access point and robots, each robot in its own network namespace.

The process that makes the network becomes the ground station. No namespace has a name: each exists
as long as its processes, so that nothing remains of them, whatever ends this program.
"""

import ctypes
import multiprocessing
import os
from pathlib import Path
import re
import shutil
import signal
import struct
import subprocess
import time

from geometry_msgs.msg import PoseStamped
import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: From linux/sched.h and linux/prctl.h.
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
GROUND, GROUND_MAC = '10.99.0.1', '02:00:00:00:00:01'
#: Packets that wait at the access point. Chosen: 20 ms of full frames at 54 Mbit/s.
QUEUE = 100
_STAMP = struct.Struct('<iI')


class NoNetwork(Exception):
    """Namespaces cannot be made here."""


def own_namespace():
    """
    Put this process into a new network namespace.

    :raises NoNetwork: without the right to do so.
    """
    missing = [name for name in ('ip', 'tc', 'nft', 'nsenter') if not shutil.which(name)]
    if missing:
        raise NoNetwork(f'{", ".join(missing)} not found: install iproute2, nftables, util-linux')
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise NoNetwork(f'no network namespaces ({reason}): run it as root')


def run(*lines, inside=None):
    """
    Run commands and give their output.

    :param inside: id of a process in whose namespace they run.
    """
    script = 'set -e\n' + '\n'.join(lines)
    way = ['nsenter', '-t', str(inside), '-n'] if inside else []
    done = subprocess.run([*way, 'sh', '-c', script], capture_output=True, text=True)
    if done.returncode:
        raise NoNetwork(f'{done.stderr.strip()} (of: {"; ".join(lines)[:200]})')
    return done.stdout


def make_ground(mbit):
    """
    Make the network of the ground station, in the namespace of this process.

    :param mbit: what the access point sends and receives (Mbit/s each).
    """
    shape = [line for card in ('down', 'radio') for line in (
        f'tc qdisc add dev {card} root handle 1: htb default 1',
        f'tc class add dev {card} parent 1: classid 1:1 htb rate {mbit}mbit quantum 1514',
        f'tc qdisc add dev {card} parent 1:1 pfifo limit {QUEUE}')]
    run('ip link set dev lo up',
        'ip link add name switch type bridge mcast_snooping 0',
        'ip link add name point type bridge mcast_snooping 0',
        # They would answer for the address of uplink, as every interface of a computer does.
        'ip link set dev switch arp off', 'ip link set dev point arp off',
        f'ip link add name uplink address {GROUND_MAC} type veth peer name wired',
        'ip link add name down type veth peer name radio',
        *(f'ip link set dev {card} addrgenmode none'
          for card in ('switch', 'point', 'uplink', 'wired', 'down', 'radio')),
        'ip link set dev wired master switch', 'ip link set dev down master switch',
        'ip link set dev radio master point', *shape,
        f'ip addr add {GROUND}/24 dev uplink',
        *(f'ip link set dev {card} up'
          for card in ('switch', 'point', 'uplink', 'wired', 'down', 'radio')),
        'ip route add 224.0.0.0/4 dev uplink')


class Air:
    """
    Count the frames that a radio would transmit.

    A frame of a robot is sent to the access point, and again from there unless it is for the
    ground station; a multicast frame once for all its receivers, whose cards receive it N times.

    :param cards: the robots' ports of the access point.
    """

    def __init__(self, cards):
        devices = ', '.join(('radio', *cards))
        run("nft -f - <<'END'\nadd table netdev air\ndelete table netdev air\n"
            'table netdev air {\ncounter frames {\n}\ncounter again {\n}\n'
            f'chain enter {{\ntype filter hook ingress devices = {{ {devices} }} priority 0\n'
            f'counter name frames\niifname != "radio" ether daddr != {GROUND_MAC} '
            'counter name again\n}\n}\nEND')

    def frames(self):
        """Give their number so far."""
        text = run('nft list counters table netdev air')
        return sum(map(int, re.findall(r'packets (\d+)', text)))


class Robot:
    """
    A process with one subscriber in a namespace of its own.

    :param number: from 0; its body is ``robotN``.
    """

    def __init__(self, number):
        self.number, self.body, self.card = number, f'robot{number}', f'port{number}'
        fork = multiprocessing.get_context('fork')
        self._pipe, other = fork.Pipe()
        self._process = fork.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        self.answer()
        self.pid = self._process.pid
        run(f'ip link add name {self.card} type veth peer name radio0 netns {self.pid}',
            f'ip link set dev {self.card} addrgenmode none master point',
            # As an access point: what is for a station that left is not sent to the others.
            f'ip link set dev {self.card} type bridge_slave flood off',
            f'ip link set dev {self.card} up')
        run('ip link set dev lo up', 'ip link set dev radio0 addrgenmode none',
            f'ip addr add 10.99.0.{10 + number}/24 dev radio0', 'ip link set dev radio0 up',
            'ip route add 224.0.0.0/4 dev radio0', inside=self.pid)

    def ask(self, *command):
        """Send a command, without waiting for the answer."""
        self._pipe.send(command)

    def answer(self, timeout_s=60.0):
        """Give the answer to the oldest command that has none."""
        if not self._pipe.poll(timeout_s):
            raise RuntimeError(f'a robot did not answer for {timeout_s:g} s')
        return self._pipe.recv()

    def lose(self, percent):
        """Drop a share of the frames in both directions, at the robot's card."""
        rule = f'numgen random mod 100 < {percent} drop' if percent else 'accept'
        chains = ''.join(
            f'chain {hook} {{\ntype filter hook {hook} device radio0 priority 0\n{rule}\n}}\n'
            for hook in ('ingress', 'egress'))
        run(f"nft -f - <<'END'\nadd table netdev loss\ndelete table netdev loss\n"
            f'table netdev loss {{\n{chains}}}\nEND', inside=self.pid)

    def link(self, up):
        """Let the robot be in range or not."""
        run(f'ip link set dev {self.card} {"up" if up else "down"}')

    def signal(self, number):
        """Send a signal to its process."""
        os.kill(self.pid, number)

    def counters(self):
        """Read the packets and bytes that the robot's card has received and sent."""
        lines = Path(f'/proc/{self.pid}/net/dev').read_text().splitlines()
        fields = next(line for line in lines if 'radio0:' in line).partition(':')[2].split()
        return int(fields[1]) + int(fields[9]), int(fields[0]) + int(fields[8])

    def close(self):
        """End the process, and with it the namespace."""
        self.signal(signal.SIGCONT)
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _end_with_parent():
    """Leave the end of this process to its parent, also while it is stopped (prctl(2))."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _serve(pipe):
    """Obey the commands of the ground station, as a robot's process."""
    _end_with_parent()
    own_namespace()
    pipe.send(None)
    _, variables = pipe.recv()
    os.environ.update(variables)
    rclpy.init()
    # Without the services of parameters and the log topic: each is an endpoint to be discovered.
    node = rclpy.create_node(
        f'reader{os.getpid()}', enable_rosout=False, start_parameter_services=False)
    listener = None
    pipe.send(None)
    while True:
        if listener:
            listener.wait()
        elif not pipe.poll(60.0):
            return
        while pipe.poll():
            command, *words = pipe.recv()
            if command == 'listen':
                if listener:
                    listener.close()
                listener = Listener(node, *words)
                pipe.send(None)
            else:
                pipe.send(listener.take())


class Bridge:
    """
    A process of the ground station that passes a pose on into the domain of its robot.

    It does on the wire what the package domain_bridge does.

    :param number: of the robot; its domain is one more.
    :param output: an output with a topic per body.
    :param variables: of the environment.
    """

    def __init__(self, number, output, variables):
        self._process = multiprocessing.get_context('fork').Process(
            target=_pass_on, args=(number, output, variables), daemon=True)
        self._process.start()

    def close(self):
        """End the process."""
        self._process.kill()
        self._process.join()


def _pass_on(number, output, variables):
    """Subscribe in domain 0 and publish in the robot's domain, as the bridge's process."""
    _end_with_parent()
    os.environ.update(variables)

    def node(domain):
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=domain)
        return rclpy.create_node(
            'bridge', context=context, enable_rosout=False, start_parameter_services=False)
    # The participants of a process share their numbers: the first one has the port that the robot
    # announces itself to.
    topic, qos = f'/robot{number}/{output}', QoSProfile(
        depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = node(number + 1).create_publisher(PoseStamped, topic, qos)
    reader = Reader(node(0), PoseStamped, topic, qos)
    while True:
        for data in reader.wait():
            publisher.publish(data)


class Reader:
    """A subscription, waited for as by rclpy.wait_for_message: it costs less than an executor."""

    def __init__(self, node, kind, topic, qos):
        self._node = node
        self._subscription = node.create_subscription(
            kind, topic, lambda _: None, qos, raw=True)
        self._set = rclpy_implementation.WaitSet(1, 0, 0, 0, 0, 0, node.context.handle)

    def wait(self):
        """Give the messages, as bytes, that come within a tenth of a second."""
        handle = self._subscription.handle
        self._set.clear_entities()
        self._set.add_subscription(handle)
        self._set.wait(100_000_000)
        while message := handle.take_message(self._subscription.msg_type, True):
            yield message[0]

    def close(self):
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)


class Listener:
    """
    What a robot hears of an output.

    :param output: ``tf``, ``poses``, or an output with a topic per body.
    """

    def __init__(self, node, output, body):
        self._found, self._newest, self._at = [], 0, 4
        topic, kind, depth, reliability = f'/{body}/{output}', PoseStamped, 1, 'BEST_EFFORT'
        if output == 'tf':    # as tf2_ros.TransformListener
            topic, kind, depth, reliability, self._at = '/tf', TFMessage, 100, 'RELIABLE', 8
        elif output == 'poses':    # as Crazyswarm2
            from motion_capture_tracking_interfaces.msg import NamedPoseArray
            topic, kind = '/poses', NamedPoseArray
        self._reader = Reader(node, kind, topic, QoSProfile(
            depth=depth, reliability=ReliabilityPolicy[reliability]))
        self.close = self._reader.close

    def wait(self):
        """Take what comes, for at most a tenth of a second."""
        for data in self._reader.wait():
            now = time.time_ns()
            if len(data) < self._at + 8:
                continue
            seconds, nanoseconds = _STAMP.unpack_from(data, self._at)
            stamp = seconds * 10**9 + nanoseconds
            if stamp > self._newest:
                self._newest = stamp
                self._found.append((now, stamp))

    def take(self):
        """Give (arrival, stamp) of every pose that was newer than all before it (ns)."""
        found, self._found = self._found, []
        return found
