# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""ROS shuts down under a running node, as in programs with several nodes."""

import threading

from optitrack_vrpn.ros.alive import ros_is_up
from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest
from rosgraph import NodeHere, wait_until

pytestmark = [pytest.mark.ros, pytest.mark.network]


@pytest.fixture
def streaming():
    """Give a node that has a connection, and so a thread that will have something to say."""
    with MotiveSimServer(Scenario(bodies=named_bodies(1), rate=100.0), port=0) as sim, \
            NodeHere({'server': '127.0.0.1', 'port': sim.port}, spin=False) as here:
        here.node.trigger_configure()
        wait_until(lambda: here.node._backend.status().sessions, 20.0, 'a connection')
        yield here


def ends(action):
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(20.0)
    return not thread.is_alive()


def test_node_ends_while_rclpy_holds_its_lock(streaming):
    """Kilted's shutdown destroys nodes under the lock that Context.ok() takes."""
    with streaming.context._lock:
        assert ends(streaming.node.destroy_node)
    assert streaming.node._backend is None


def test_shutdown_of_ros_ends_under_a_configured_node(streaming):
    assert ros_is_up(streaming.node)
    assert ends(streaming.context.shutdown)
    assert not ros_is_up(streaming.node)
