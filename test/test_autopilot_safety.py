# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
An armed vehicle on running processes: STOP to all, and second nodes that come, leave and die.

Node, bridges and the second nodes are processes; the autopilot is the strict fake of PX4.
"""

import math
from pathlib import Path
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'bench')]

from autopilot_kit import Flight, scenario  # noqa: E402
import pytest  # noqa: E402
from rosgraph import NodeProcess, Observer, wait_until  # noqa: E402

pytest.importorskip('pymavlink')
pytest.importorskip('serial')

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(300)]


def goes_on(server, what, count=20, timeout_s=20.0):
    """Wait for more poses."""
    before = len(server.heard)
    wait_until(lambda: len(server.heard) > before + count, timeout_s, what)


def largest_step_m(heard):
    """Return the largest step of the position from one pose to the next (m)."""
    places = [[one.message.x, one.message.y, one.message.z] for one in heard]
    return max(math.dist(a, b) for a, b in zip(places, places[1:]))


def largest_turn_deg(heard):
    """Return the largest turn from one pose to the next (degrees)."""
    turns = [one.message.q for one in heard]
    return max(math.degrees(2.0 * math.acos(min(abs(sum(
        a * b for a, b in zip(p, q))), 1.0))) for p, q in zip(turns, turns[1:]))


def counters(heard):
    return [one.message.reset_counter for one in heard]


def test_a_stop_to_all_silences_no_armed_vehicle_until_its_bridge_is_dead(tmp_path):
    control = pytest.importorskip('mocap4r2_control_msgs.msg', reason='control messages')
    with Flight(scenario(), tmp_path) as flight, Observer('tester') as observer:
        heard = []
        observer.node.create_subscription(
            control.Control, '/mocap4r2_control',
            lambda message: heard.append((message.control_type, message.mocap4r2_source)), 100)
        commands = observer.node.create_publisher(control.Control, '/mocap4r2_control', 100)
        server = flight.start_bridge('px4', armed=True)
        node = flight.start_node()
        bridge = flight.bridges['px4']

        def stop_all():
            commands.publish(control.Control(
                control_type=control.Control.STOP, mocap4r2_source='tester'))

        goes_on(server, 'poses', timeout_s=60.0)
        wait_until(lambda: commands.get_subscription_count() >= 3, 20.0, 'both systems')
        stop_all()
        node.wait_for("STOP from 'tester' is not acknowledged: /bridge_px4 sends the poses of "
                      "'cf1', and the vehicle is armed")
        bridge.wait_for('STOP from .* is not acknowledged')
        before = len(server.heard)
        time.sleep(5.0)
        assert len(server.heard) - before > 60, 'poses go on'
        assert not [one for one in heard if one[0] == control.Control.ACK_STOP]
        # The command of this package says so, and who refuses, before its timeout.
        told = subprocess.run(
            [sys.executable, '-m', 'optitrack_vrpn', 'mocap_control', 'stop', '--timeout', '30'],
            capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 3, told
        assert "/bridge_px4 sends the poses of 'cf1', and the vehicle is armed" in told.stderr
        assert told.stdout.count('refused (active)') == 2 and 'no answer' not in told.stderr
        # The heartbeat of a bridge that is dead refuses nothing for ever.
        bridge.process.send_signal(signal.SIGKILL)
        bridge.process.wait(10.0)
        deadline = time.monotonic() + 20.0
        while (control.Control.ACK_STOP, 'optitrack_vrpn') not in heard:
            assert time.monotonic() < deadline, node.log
            stop_all()
            time.sleep(0.5)


@pytest.mark.timed
@pytest.mark.parametrize('end, rounds', [(signal.SIGINT, 2), (signal.SIGKILL, 1)])
def test_a_second_node_with_other_axes_comes_and_goes_unnoticed(tmp_path, end, rounds):
    """Before: a pose 4.2 m and 90 degrees wrong, with a reset, or 10 s without poses."""
    with Flight(scenario(), tmp_path) as flight:
        server = flight.start_bridge('px4', armed=True)
        flight.start_node()
        goes_on(server, 'poses', 50, timeout_s=60.0)
        begin = len(server.heard)
        for _ in range(rounds):
            with NodeProcess(
                    '-p', 'autostart:=true', '-p', 'server:=127.0.0.1',
                    '-p', f'port:={flight.servers[-1].port}', '-p', 'motive_x:=east',
                    '-p', 'outputs:=[pose, odom, status]', '-r', '__node:=intruder') as intruder:
                intruder.wait_for('the path of a pose runs', 40.0)
                time.sleep(3.0)
                intruder.process.send_signal(end)
                intruder.process.wait(30.0)
            goes_on(server, 'poses go on', 60, timeout_s=3.0)
        flight.bridges['px4'].wait_for('/intruder and /optitrack_vrpn publish')
        heard = server.heard[begin:]
        stamps = [one.message.time_usec for one in heard]
        gaps = [(b - a) * 1e-6 for a, b in zip(stamps, stamps[1:])]
        # A starved machine holds node or bridge; nothing else is missing.
        assert max(gaps) < 1.5, sorted(gaps)[-5:]
        assert largest_step_m(heard) < 0.1 + 1.5 * max(gaps)
        assert largest_turn_deg(heard) < 30.0 + 60.0 * max(gaps)
        # A reset has a reason of this vehicle's own: a gap, or a state that its node reports.
        count = counters(heard)
        resets = sum(a != b and gap < 0.15 for a, b, gap in zip(count, count[1:], gaps))
        assert resets <= flight.bridges['px4'].log.count('the body is ')
