# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor takes from the running node what no option states."""

from optitrack_vrpn.doctor import (
    choose_target, DISCOVERY_VARIABLES, LocalProcess, RunningNode, Target, variables_of_node)
from optitrack_vrpn.errors import ConfigurationError
import pytest

SETTINGS = {'server': '10.0.0.9', 'port': 3999, 'protocol': 'natnet', 'connection': 'tcp',
            'interface': 'eth1', 'advertise': '', 'natnet.port': 1610}


def node(name='/mocap', **settings):
    return RunningNode(name, settings={**SETTINGS, **settings})


def test_without_options_and_nodes_the_defaults_apply():
    assert choose_target({}, [], False) == Target()
    assert choose_target({'server': 'motive', 'port': None}, [RunningNode('/hangs')], True) == (
        Target('motive'))


def test_all_that_no_option_states_is_that_of_the_node():
    target = choose_target({'connection': 'udp', 'server': None}, [node()], True)
    assert (target.server, target.port, target.protocol, target.natnet_port) == (
        '10.0.0.9', 3999, 'natnet', 1610)
    assert (target.connection, target.interface) == ('udp', 'eth1')
    assert 'connection' not in target.taken and target.node == '/mocap'


def test_the_network_card_of_another_computer_is_not_taken():
    assert choose_target({}, [node()], False).interface == ''


def test_among_several_nodes_that_of_the_server_counts():
    nodes = [node(), node('/other', server='10.0.0.8', protocol='vrpn')]
    with pytest.raises(ConfigurationError, match='/other uses 10.0.0.8'):
        choose_target({}, nodes, True)
    target = choose_target({'server': '10.0.0.8'}, nodes, True)
    assert (target.protocol, target.node) == ('vrpn', '/other')
    assert choose_target({'server': '10.0.0.7'}, nodes, True) == Target('10.0.0.7')


def test_values_that_are_no_settings_of_this_package_are_not_taken():
    target = choose_target({}, [node(port='x', protocol='carrier pigeon', connection=7)], True)
    assert (target.port, target.protocol, target.connection) == (3883, 'vrpn', 'auto')


@pytest.mark.parametrize(('processes', 'given', 'expected'), [
    ([], {}, {}),
    ([{'ROS_DOMAIN_ID': '7'}], {}, {'ROS_DOMAIN_ID': '7'}),
    ([{'ROS_DOMAIN_ID': '7'}] * 2, {}, {'ROS_DOMAIN_ID': '7'}),
    ([{'ROS_DOMAIN_ID': '7'}], {'ROS_DOMAIN_ID': '3'}, {}),
    ([{'ROS_DOMAIN_ID': '7'}, {'ROS_DOMAIN_ID': '8'}], {}, {}),
    ([{}], {}, {})])
def test_the_domain_is_that_of_the_node_unless_the_user_sets_one(processes, given, expected):
    found = [LocalProcess(number, False, {**DISCOVERY_VARIABLES, **one})
             for number, one in enumerate(processes)]
    # That of another user is never taken.
    found.append(LocalProcess(99, False, {**DISCOVERY_VARIABLES, 'ROS_DOMAIN_ID': '9'}, 'alice'))
    assert variables_of_node(found, given, DISCOVERY_VARIABLES) == expected
