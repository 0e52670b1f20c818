# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What /diagnostics says of what goes wrong, as a monitor gets it."""

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn.sim.scenario import scenario_from_mapping
from optitrack_vrpn.sim.server import MotiveSimServer
import pytest
from rosgraph import NodeHere, Observer, wait_until

pytestmark = [pytest.mark.ros, pytest.mark.network]


def node_of(port, **more):
    return NodeHere({'server': '127.0.0.1', 'port': port, 'autostart': True, **more})


def latest(topic):
    """Give the newest statuses by their names, without the node's."""
    return {status.name.partition(': ')[2]: status
            for message in topic.messages(-1) for status in message.status}


def test_loss_on_the_way_is_a_warning_with_advice_and_a_line_of_the_log(console):
    scenario = scenario_from_mapping({
        'bodies': ['wand'], 'rate': 120, 'seed': 3, 'network': {'loss': 0.3}})
    with MotiveSimServer(scenario, port=0) as sim, node_of(sim.port), Observer() as observer:
        topic = observer.listen(DiagnosticArray, '/diagnostics', 10)

        def warned():
            status = latest(topic).get('connection')
            return status if status and 'lost on the way' in status.message else None
        status = wait_until(warned, 30.0, 'a warning')
        assert status.level == DiagnosticStatus.WARN
        assert 'a cable' in status.message and 'connection: tcp' in status.message
        values = {pair.key: pair.value for pair in status.values}
        assert 15.0 < float(values['udp_lost_percent']) < 45.0
    log = console.news()
    assert log.count('were lost on the way: a cable') == 1
