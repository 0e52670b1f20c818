# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A demo is isolated from the user's ROS domain, from other demos and from a running system."""

import os
import re
import socket
import subprocess
import sys

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.core.names import ros_name
from optitrack_vrpn.node.graph import domain_io
from optitrack_vrpn.node.graph.domain_io import claim_domain, in_use, isolate
from optitrack_vrpn.node.graph.publishers_ros import publishers_below
from optitrack_vrpn.sim.demo.table import body_names, display, NAMES
import pytest
from rosgraph import Observer
from tool_kit import ROOT, start_tool
import yaml

pytestmark = pytest.mark.timeout(120)


# -- domains -----------------------------------------------------------------------------------

def test_two_claims_at_once_are_two_domains_and_a_released_one_is_free_again():
    with claim_domain() as first, claim_domain() as second:
        assert first.domain != second.domain
        index = domain_io.DOMAINS.index(first.domain)
    with claim_domain(start=index) as again:
        assert again.domain == first.domain


def test_a_domain_with_a_participant_or_on_the_list_is_not_taken():
    with claim_domain() as free:
        domain = free.domain
    index = domain_io.DOMAINS.index(domain)
    with claim_domain({domain}, start=index) as other:
        assert other.domain != domain
    # Where Fast DDS and Cyclone DDS listen, by the RTPS specification.
    with socket.socket(type=socket.SOCK_DGRAM) as participant:
        participant.bind(('127.0.0.1', 7400 + 250 * domain + 10))
        assert in_use(domain)
        with claim_domain(start=index) as other:
            assert other.domain != domain
    assert not in_use(domain)


def test_a_claim_ends_with_its_process():
    script = ('from optitrack_vrpn.node.graph.domain_io import claim_domain; c = claim_domain(); '
              'print(c.domain, flush=True); input()')
    holder = subprocess.Popen([sys.executable, '-c', script], cwd=ROOT, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    domain = int(holder.stdout.readline())
    index = domain_io.DOMAINS.index(domain)
    with claim_domain(start=index) as other:
        assert other.domain != domain
    holder.kill()
    holder.communicate()
    with claim_domain(start=index) as again:
        assert again.domain == domain


def test_an_isolated_process_leaves_out_every_way_to_other_computers():
    variables = {'ROS_DISCOVERY_SERVER': 'lab:11811', 'ROS_STATIC_PEERS': 'lab',
                 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET', 'HOME': '/x', 'ROS_DOMAIN_ID': '0'}
    isolate(variables, 7)
    assert variables == {
        'HOME': '/x', 'ROS_DOMAIN_ID': '7', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}


# -- the demo ----------------------------------------------------------------------------------

@pytest.fixture
def domain():
    """Claim a ROS domain of the test's own: nodes of the tests before it may leave late."""
    with claim_domain({int(os.environ['ROS_DOMAIN_ID'])}) as claim:
        yield claim.domain


@pytest.mark.ros
@pytest.mark.network
def test_two_demos_at_once_are_each_correct():
    demos = [start_tool('demo', '--seconds', '3') for _ in range(2)]
    domains = set()
    for demo in demos:
        output, error = demo.communicate(timeout=90)
        assert demo.returncode == 0, output + error
        domains.add(re.search(r'ROS_DOMAIN_ID=(\d+)', output)[1])
        rates = [float(line.split()[2]) for line in output.splitlines()
                 if re.match(r'(Demo_Body_1|body_1demo|demo_wand) ', line)]
        assert len(rates) == 3 and max(rates) < 300.0
    assert len(domains) == 2 and os.environ['ROS_DOMAIN_ID'] not in domains


@pytest.mark.ros
def test_simulated_poses_do_not_enter_a_domain_that_is_in_use(domain):
    with Observer('robot', domain):
        demo = start_tool('demo', '--seconds', '30', '--domain', str(domain))
        output, error = demo.communicate(timeout=90)
    assert demo.returncode == 1 and output == ''
    assert f'demo: ROS domain {domain} is in use on this computer' in error


def test_a_namespace_with_publishers_is_reported():
    with Observer('robot') as robot:
        assert publishers_below('/demo_of_nobody', 0.3) == []
        robot.node.create_publisher(PoseStamped, '/demo_taken/wand/pose', 10)
        assert publishers_below('/demo_taken', 10.0) == [
            '/robot publishes on /demo_taken/wand/pose']


def test_no_demo_uses_a_name_of_motive():
    for name in (*NAMES, *body_names(20)):
        assert 'demo' in name.lower() and not name.startswith('Rigid Body')
    assert len(set(map(ros_name, (*NAMES, *body_names(20))))) == 22    # one name is in both


def test_the_display_shows_the_demo_s_topics_alone():
    text = (ROOT / 'config' / 'optitrack_vrpn.rviz').read_text()
    names = body_names(3)
    shown = yaml.safe_load(display(text, names))['Visualization Manager']
    topics = [one['Topic']['Value'] for one in shown['Displays'] if 'Topic' in one]
    assert topics == [f'/{ros_name(name)}/pose' for name in names]
    assert 'Rigid' not in yaml.safe_dump(shown)
