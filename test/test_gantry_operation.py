# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The running gantry under random operation, with invariants of the datagrams to its motors.

gantry_sim, the main node, axis_bridge and gantry_controller run as processes; commands, held
processes, lost links and the emergency button come at random. For a longer run than that of the
test: ``python test/test_gantry_operation.py SECONDS SEED``.
"""

import contextlib
import random
import select
import signal
import socket
import sys
import threading
import time

from gantry_kit import ORION
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.guests.machine.services_ros import GantryClient
from optitrack_vrpn.guests.machine.setpoints import decode_set_points
import pytest
from rosgraph import NodeProcess, Observer, wait_until

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.slow]
NODE = '/gantry_controller'
DT = 0.01


class Relay:
    """
    Forward datagrams between controller and machine, and check each set point.

    :ivar linked: whether it forwards.
    :ivar broken: what was wrong.
    :ivar stopped_s: time since which every axis must not speed up; None: free.
    """

    def __init__(self, port):
        self.linked = True
        self.broken = []
        self.stopped_s = None
        self.moving = 0
        self.count = 0
        self._inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._inner.connect(('127.0.0.1', port))
        self._outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._outer.bind(('127.0.0.1', 0))
        self.port = self._outer.getsockname()[1]
        self._controller = None
        self._last = None
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended:
            ready, _, _ = select.select([self._inner, self._outer], [], [], 0.05)
            with contextlib.suppress(OSError):
                if self._outer in ready:
                    data, self._controller = self._outer.recvfrom(2048)
                    self._check(decode_set_points(data), time.monotonic())
                    if self.linked:
                        self._inner.send(data)
                if self._inner in ready:
                    data = self._inner.recv(2048)
                    if self.linked and self._controller:
                        self._outer.sendto(data, self._controller)

    def _check(self, points, now_s):
        self.count += 1
        cubics = [cubic.scaled(1.0 / axis.steps_per_unit)
                  for cubic, axis in zip(points.cubics, ORION.axes)]
        self.moving = sum(abs(cubic.a) > 0.0 for cubic in cubics)
        last, self._last = self._last, (points, cubics, now_s)
        if last is None or points.sequence != last[0].sequence + 1:
            return
        gap_s = now_s - last[2]
        for axis, cubic, before in zip(ORION.axes, cubics, last[1]):
            step = axis.correction.max_step
            change = abs(cubic.a - before.a)
            wrong = [
                (abs(cubic.start - before.at(DT)) > 1e-6, 'jumps'),
                (abs(cubic.a) > axis.max_velocity + 1e-6, 'too fast'),
                (cubic.a and change > axis.max_acceleration * DT * 1.00001 + 1e-6, 'accelerates'),
                (not points.power and abs(cubic.at(DT) - cubic.start) > 1e-9, 'has no power'),
                # a held controller starts from rest
                (gap_s > 1.5 and abs(cubic.at(DT) - cubic.start) > step + 1e-9, 'not from rest'),
                (self.stopped_s is not None and before.a * cubic.a >= 0.0
                 and abs(cubic.a) > abs(before.a) + 1e-9
                 and now_s > self.stopped_s, 'speeds up after a stop')]
            self.broken += [(axis.name, text, before, cubic, gap_s) for bad, text in wrong if bad]

    def close(self):
        """End the thread."""
        self._ended = True
        self._thread.join()
        self._inner.close()
        self._outer.close()


def value(rng, axis, service):
    """Draw a value of a command, mostly possible."""
    size = 0.3 if axis.kind == 'linear' else 12.0
    return {
        'go_to': lambda: rng.uniform(-size, size), 'jog': lambda: rng.uniform(-size, size) / 2,
        'velocity': lambda: rng.uniform(-1, 1) * axis.max_velocity,
        'sine': lambda: [rng.uniform(0, size), 10 ** rng.uniform(-1.5, 0.0)],
        'mode': lambda: rng.choice(['manual', 'stream', 'stopping', 'lock']),
        'tracking': lambda: rng.random() < 0.7, 'lock': lambda: rng.random() < 0.4,
        'home': lambda: axis.low is None,
        'max_velocity': lambda: axis.max_velocity * rng.uniform(0.3, 1.0),
        'max_acceleration': lambda: axis.max_acceleration * rng.uniform(0.3, 1.0),
        'soft_limits': lambda: [-size * rng.uniform(0.3, 1.0), size * rng.uniform(0.3, 1.0)],
    }[service]()


COMMANDS = (*('go_to', 'velocity', 'sine') * 3, 'jog', 'mode', 'home', 'tracking', 'lock',
            'max_velocity', 'max_acceleration', 'soft_limits')


class Operation:
    """Operate the processes at random."""

    def __init__(self, sim, bridge, gantry, relay, client, observer, seed):
        self.sim, self.bridge, self.gantry, self.relay = sim, bridge, gantry, relay
        self.client, self.observer, self.rng = client, observer, random.Random(seed)
        self.accepted = self.refused = 0

    def command(self):
        """Give a random command to a random axis."""
        self.relay.stopped_s = None
        service = self.rng.choice(COMMANDS)
        axis = self.rng.choice(ORION.axes)
        refused = self.client.command(service, {axis.name: value(self.rng, axis, service)})
        self.refused += bool(refused)
        self.accepted += not refused

    def hold(self, process, seconds):
        """Stop a process for a time."""
        process.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Stop all axes, which then slow down and rest."""
        self.relay.stopped_s = None
        assert self.client.trigger('stop') == ''
        self.relay.stopped_s = time.monotonic() + 0.05      # what was sent before the answer
        wait_until(lambda: not self.relay.moving, 8.0, 'rest after a stop')
        self.relay.stopped_s = None

    def deactivate(self):
        """Deactivate the controller, which stops all axes, and activate it: none moves."""
        self.relay.stopped_s = None
        assert self.observer.transition('deactivate', NODE) and not self.relay.moving
        assert self.observer.transition('activate', NODE)
        self.relay.stopped_s = time.monotonic()
        time.sleep(0.2)
        assert not self.relay.moving

    def step(self):
        """Do something at random."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.76:
            self.command()
        elif kind < 0.8:
            self.deactivate()
        elif kind < 0.88:
            self.stop()
        elif kind < 0.94:
            self.hold(rng.choice((self.gantry, self.gantry, self.bridge, self.sim)),
                      rng.choice((0.2, 0.5, 1.2, 2.0)))
        elif kind < 0.96:
            self.relay.linked = False
            time.sleep(rng.choice((0.3, 1.5)))
            self.relay.linked = True
        elif kind < 0.98:
            assert self.client.trigger('emergency_stop') == ''
            wait_until(lambda: not self.relay.moving, 1.0, 'rest in an emergency')
            assert all(mode == 'emergency' for _, mode, _ in self.views())
            assert self.client.trigger('reset') == ''
        else:
            self.sim.process.send_signal(signal.SIGUSR1)
            wait_until(lambda: all(mode == 'emergency' for _, mode, _ in self.views()), 5.0,
                       'an emergency after the button')
            assert not self.relay.moving
            self.sim.process.send_signal(signal.SIGUSR1)
            wait_until(lambda: self.client.trigger('reset') == '' and all(
                mode != 'emergency' for _, mode, _ in self.views()), 10.0, 'reset')

    def views(self):
        """Wait for a new state of the axes."""
        begin = time.monotonic()
        return wait_until(lambda: (lambda axes, age: age < time.monotonic() - begin and axes)(
            *self.client.axes()), 10.0, 'the axes')

    def run(self, seconds):
        """Operate for a time; the invariants of the datagrams must hold."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(TransportError):   # a held process does not answer in time
                self.step()
            time.sleep(self.rng.choice((0.0, 0.05, 0.3, 1.0)))
            assert not self.relay.broken, self.relay.broken[:3]
            assert self.gantry.process.poll() is None
        self.relay.linked = True
        self.client.trigger('reset')
        self.stop()
        assert not self.relay.broken, self.relay.broken[:3]
        assert 'bug' not in self.gantry.log + self.bridge.log


def operate(seconds, seed):
    """Start the processes and operate them; return accepted and refused commands."""
    sim = NodeProcess('--machine-port', '0', '--port', '0', '--noise-mm', '0.1',
                      tool='gantry_sim', ros=False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(sim)
        relay = stack.enter_context(contextlib.closing(Relay(
            int(sim.wait_for(r'machine on 127\.0\.0\.1:(\d+)').group(1)))))
        motive = sim.wait_for(r'listening on 127\.0\.0\.1:(\d+)').group(1)
        stack.enter_context(NodeProcess(
            '-p', 'server:=127.0.0.1', '-p', f'port:={motive}', '-p', 'autostart:=true'))
        bridge = stack.enter_context(NodeProcess(
            '-p', 'table:=axes_orion', '-p', 'autostart:=true', tool='axis_bridge'))
        gantry = stack.enter_context(NodeProcess(
            '-p', 'driver:=udp', '-p', f'machine_port:={relay.port}', '-p', 'autostart:=true',
            tool='gantry_controller'))
        client = stack.enter_context(GantryClient(NODE))
        observer = stack.enter_context(Observer('operator'))
        wait_until(lambda: client.axes()[0] and client.axes()[0][0][2].get('measured'), 30.0,
                   'a measured axis')
        operation = Operation(sim, bridge, gantry, relay, client, observer, seed)
        operation.run(seconds)
        code, _ = gantry.end()
        assert code == 0, gantry.log
        return operation.accepted, operation.refused, relay.count


def test_random_operation_of_the_running_processes_keeps_the_invariants():
    accepted, _, count = operate(12.0, 1)
    assert accepted > 5 and count > 300


if __name__ == '__main__':
    print(operate(float(sys.argv[1]), int(sys.argv[2])))
