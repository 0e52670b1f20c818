# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the launch files of autopilots, axis_bridge, the gantry and the RGB-D nodes start."""

from launch_kit import LAUNCH
from optitrack_vrpn.cli.arguments import LaunchArgument, log_level, read_launch_arguments
from optitrack_vrpn.cli.launch_file_ros import Restarts
from optitrack_vrpn.cli.rows_io import tools
from optitrack_vrpn.core.settings.parameters import parameters_of
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings as AutopilotSettings
from optitrack_vrpn.guests.machine.axes_settings import AxisBridgeSettings
from optitrack_vrpn.guests.machine.gantry_command import sim_parser
from optitrack_vrpn.guests.machine.gantry_settings import ControllerSettings
from optitrack_vrpn.guests.rgbd.settings import (
    ImageProcSettings, MapperNodeSettings, OdometryNodeSettings)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.sim.command import scenario_from_arguments
import pytest

KNOWN = {tool: {each.name: each for each in parameters_of(settings)}
         for tool, settings in {
             'axis_bridge': AxisBridgeSettings, 'gantry_controller': ControllerSettings,
             'optitrack_vrpn_node': NodeSettings, 'rgbd_image_proc': ImageProcSettings,
             'rgbd_mapper': MapperNodeSettings, 'rgbd_odometry': OdometryNodeSettings}.items()}
VEHICLES = str(LAUNCH.parent / 'config' / 'vehicles.yaml')
BRIDGE_FILE = str(LAUNCH.parent / 'config' / 'mavlink_bridge.yaml')


@pytest.fixture
def quiet_graph(monkeypatch):
    """Let no other node publish, so that a simulation may start."""
    monkeypatch.setattr('optitrack_vrpn.node.graph.publishers_ros.publishers_below', lambda _: [])


@pytest.mark.parametrize('name', [
    'axis_bridge', 'gantry', 'rgbd_odometry', 'rgbd_image_proc', 'rgbd_mapping'])
def test_launch_files_start_tools_with_parameters_that_exist(load_launch, quiet_graph, name):
    for node in [each.named for each in load_launch(f'{name}.launch.py')[1]]:
        assert node['executable'] in {tool.name for tool in tools()}
        for parameters in node.get('parameters', ()):
            rows = KNOWN[node['executable']]
            for parameter, value in parameters.items():
                if parameter != 'use_sim_time' and not parameter.startswith('control.'):
                    rows[parameter].check(value)


def test_the_simulation_is_started_with_flags_that_it_takes(load_launch, quiet_graph):
    _, nodes = load_launch('gantry.launch.py')
    parsed = sim_parser().parse_args(nodes[0].named['arguments'])
    assert (parsed.machine, parsed.machine_port) == ('gantry_orion', 9200)
    assert scenario_from_arguments(parsed).server.port == 3883


@pytest.mark.parametrize('text', ['true', 'True', '1'])
def test_a_simulation_keeps_apart_from_real_systems(load_launch, quiet_graph, text):
    """Every node but the simulator, which has no topics, is in its own namespace."""
    simulator, *nodes = (
        node.named for node in load_launch('gantry.launch.py', simulate=text)[1])
    assert simulator['executable'] == 'gantry_sim'
    for node in nodes:
        assert node['namespace'] == 'gantry_sim'
        assert not node['parameters'][0]['control.absolute_topics']
    assert nodes[0]['parameters'][0]['frames.body'] == 'gantry_sim/{body}'


def test_a_real_machine_has_the_usual_names(load_launch):
    nodes = [node.named for node in load_launch('gantry.launch.py', simulate='false')[1]]
    assert {node['executable'] for node in nodes} == {
        'optitrack_vrpn_node', 'axis_bridge', 'gantry_controller'}
    assert not any('namespace' in node or 'remappings' in node for node in nodes)
    assert nodes[0]['parameters'][0]['frames.body'] == '{body}'


@pytest.mark.parametrize('name, values, complaint', [
    ('gantry', {'simulate': 'perhaps'}, "simulate:='perhaps' is"),
    ('gantry', {'port': '38830x'}, "port:='38830x' is"),
    ('gantry', {'cutoff_hz': 'low'}, "cutoff_hz:='low' is not"),
    ('axis_bridge', {'rate_hz': '0'}, "rate_hz:='0' is not"),
    ('rgbd_odometry', {'tf': 'no'}, "tf:='no' is"),
    ('mavlink_bridge', {'log_level': 'verbose', 'params_file': BRIDGE_FILE},
     "log_level:='verbose' is"),
    ('mavlink_bridge', {'vehicles': 'absent.yaml'}, 'absent.yaml does not')])
def test_a_wrong_value_is_refused_before_a_process_starts(load_launch, name, values, complaint):
    with pytest.raises(ValueError, match=complaint):
        load_launch(f'{name}.launch.py', **values)


def test_the_dashboard_is_a_process_beside_the_node(load_launch, quiet_graph):
    for wanted in ('true', 'false'):
        _, nodes = load_launch(
            'optitrack_vrpn.launch.py', dashboard=wanted, params_file=BRIDGE_FILE)
        assert [node.named['executable'] for node in nodes] == [
            'optitrack_vrpn_node', *(['dashboard'] if wanted == 'true' else [])]


def test_the_file_of_the_user_overrides_the_drop_in(load_launch):
    _, (node,) = load_launch(
        'optitrack_vrpn.launch.py', drop_in='natnet_ros2', params_file=BRIDGE_FILE, server='10.1')
    peer, moved, mine, given = node.named['parameters']
    assert peer.given[0][1:] == ['drop_in', 'natnet_ros2.yaml'] and moved == {}
    assert mine == BRIDGE_FILE and given['server'] == '10.1'
    _, (node,) = load_launch('optitrack_vrpn.launch.py')
    assert len(node.named['parameters']) == 1


@pytest.mark.parametrize('peer, topic', [
    ('vrpn_mocap', '{body}/pose'), ('vrpn_client_ros', 'vrpn_client_node/{body}/pose'),
    ('airstack', 'perception/optitrack/{body}'), ('mavros', 'mavros/vision_pose/pose')])
def test_the_topics_of_a_drop_in_move_with_the_namespace(load_launch, peer, topic):
    _, (node,) = load_launch('optitrack_vrpn.launch.py', drop_in=peer, namespace='r1/mocap')
    assert node.named['parameters'][1]['topics.pose'].given[0] == topic
    _, (node,) = load_launch('optitrack_vrpn.launch.py', drop_in=peer)
    assert node.named['parameters'][1] == {}


def test_a_node_that_fails_at_once_is_started_again_three_times_and_another_for_ever():
    restarts = Restarts()
    assert [restarts.again(0.5) for _ in range(5)] == [True, True, True, False, False]
    restarts = Restarts()
    for _ in range(100):    # three starts fail, the fourth runs
        assert all(restarts.again(2.0) for _ in range(3)) and restarts.again(3600.0)


def test_log_levels_may_be_written_in_capitals_as_rcl_accepts_them():
    row = LaunchArgument('log_level', 'info', '', log_level)
    assert read_launch_arguments([row], {'log_level': 'DEBUG'}) == {'log_level': 'debug'}


def test_each_vehicle_of_a_list_gets_a_bridge(load_launch):
    _, (first, second) = load_launch(
        'mavlink_bridge.launch.py', vehicles=VEHICLES, params_file=BRIDGE_FILE, activate='false')
    assert first.named['name'] == 'mavlink_bridge_cf1'
    assert first.named['parameters'][1:] == [
        {'autostart': True, 'activate': False},
        {'body': 'cf1', 'autopilot': 'px4', 'connection': 'udpin:0.0.0.0:14540'}]
    assert second.named['parameters'][2]['autopilot'] == 'ardupilot'
    for vehicle in (first, second):
        AutopilotSettings(**vehicle.named['parameters'][2])


@pytest.mark.parametrize('connection', [', connection: "udpin:0.0.0.0:1"', ''])
def test_two_vehicles_on_one_connection_are_refused(load_launch, tmp_path, connection):
    same = tmp_path / 'same.yaml'
    same.write_text(f'vehicles: [{{body: a{connection}}}, {{body: b{connection}}}]')
    with pytest.raises(ValueError, match='two vehicles'):
        load_launch('mavlink_bridge.launch.py', vehicles=str(same), params_file=BRIDGE_FILE)


@pytest.mark.parametrize('protocol, parameter', [
    ('', 'port'), ('vrpn', 'port'), ('auto', 'port'), ('natnet', 'natnet.port')])
def test_the_port_is_that_of_the_protocol(load_launch, protocol, parameter):
    _, (node,) = load_launch(
        'optitrack_vrpn.launch.py', port='1511', protocol=protocol, params_file=BRIDGE_FILE)
    assert node.named['parameters'][1][parameter] == 1511
