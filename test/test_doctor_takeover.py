# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor takes from the running node what no option states."""

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.node.graph.processes import (
    DISCOVERY_VARIABLES, LocalProcess, variables_of_node)
from optitrack_vrpn.telling.doctor.results import choose_target, RunningNode, Target
import pytest

SETTINGS = {'server': '10.0.0.9', 'port': 3999, 'protocol': 'natnet', 'connection': 'tcp',
            'interface': 'eth1', 'natnet.port': 1610, 'natnet.transport': 'unicast'}


def node(name='/mocap', **settings):
    return RunningNode(name, settings={**SETTINGS, **settings})


def test_without_options_and_nodes_the_defaults_apply():
    assert choose_target({}, [], False) == Target('', 'auto', {})
    assert choose_target({'server': 'motive', 'port': None}, [RunningNode('/hangs')], True) == (
        Target('motive', 'auto', {}))
    config, settings = Target('motive', 'auto', {}).config(3.0)
    assert (config.port, settings.natnet.port) == (3883, 1510)
    with pytest.raises(ConfigurationError):
        Target('', 'auto', {'port': 70_000}).config(3.0)


def test_all_that_no_option_states_is_that_of_the_node():
    target = choose_target({'connection': 'udp', 'server': None}, [node()], True)
    assert (target.server, target.protocol) == ('10.0.0.9', 'natnet')
    config, settings = target.config(3.0)
    assert (config.port, config.link.connection, config.interface) == (3999, 'udp', 'eth1')
    assert (settings.natnet.port, settings.natnet.transport) == (1610, 'unicast')
    assert 'connection' not in target.taken and target.node == '/mocap'


def test_the_network_card_of_another_computer_is_not_taken():
    assert 'interface' not in choose_target({}, [node()], False).values


def test_among_several_nodes_that_of_the_server_counts():
    nodes = [node(), node('/other', server='10.0.0.8', protocol='auto')]
    with pytest.raises(ConfigurationError, match='/other uses 10.0.0.8'):
        choose_target({}, nodes, True)
    target = choose_target({'server': '10.0.0.8'}, nodes, True)
    assert (target.protocol, target.node) == ('auto', '/other')
    assert choose_target({'server': '10.0.0.7'}, nodes, True) == Target('10.0.0.7', 'auto', {})


def test_values_that_are_no_settings_of_this_package_are_not_taken():
    target = choose_target({}, [node(port='x', protocol='carrier pigeon', connection=7)], True)
    assert target.protocol == 'auto' and not {'port', 'connection'} & set(target.values)


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
