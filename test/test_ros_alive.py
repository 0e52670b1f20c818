# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""ROS shuts down under a running node, as in programs with several nodes."""

import threading

from optitrack_vrpn.node.base.node_parts import ros_is_up
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
        assert sim.wait_for_clients(1, 20.0)
        yield here, sim


def ends(action):
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(20.0)
    return not thread.is_alive()


def test_node_ends_while_rclpy_holds_its_lock(streaming):
    """Kilted's shutdown destroys nodes under the lock that Context.ok() takes."""
    here, sim = streaming
    with here.context._lock:    # rclpy's own
        assert ends(here.node.destroy_node)
    wait_until(lambda: not sim.clients, what='the end of the connection')


def test_shutdown_of_ros_ends_under_a_configured_node(streaming):
    here, _ = streaming
    assert ros_is_up(here.node)
    assert ends(here.context.shutdown)
    assert not ros_is_up(here.node)
