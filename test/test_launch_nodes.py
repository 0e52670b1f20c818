# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the launch files of autopilots, axis_bridge, the gantry and the RGB-D nodes start."""

from launch_kit import is_a, LAUNCH, words
from optitrack_vrpn.autopilot.settings import BridgeSettings as AutopilotSettings
from optitrack_vrpn.axes.settings import BridgeSettings
from optitrack_vrpn.cli.tools import TOOLS
from optitrack_vrpn.gantry.node_settings import ControllerSettings
from optitrack_vrpn.gantry.sim_command import make_parser
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.rgbd.image_proc_settings import ImageProcSettings
from optitrack_vrpn.rgbd.mapper_settings import MapperNodeSettings
from optitrack_vrpn.rgbd.odometry_settings import OdometryNodeSettings
from optitrack_vrpn.settings import parameters_of
from optitrack_vrpn.sim.command import scenario_from_arguments
import pytest

KNOWN = {tool: {'use_sim_time', *(each.name for each in parameters_of(settings))}
         for tool, settings in {
             'axis_bridge': BridgeSettings, 'gantry_controller': ControllerSettings,
             'optitrack_vrpn_node': NodeSettings, 'rgbd_image_proc': ImageProcSettings,
             'rgbd_mapper': MapperNodeSettings, 'rgbd_odometry': OdometryNodeSettings}.items()}
VEHICLES = str(LAUNCH.parent / 'config' / 'vehicles.yaml')
BRIDGE_FILE = str(LAUNCH.parent / 'config' / 'mavlink_bridge.yaml')


@pytest.mark.parametrize('name, values', [
    ('axis_bridge', {}), ('gantry', {'simulate': 'false'}), ('rgbd_odometry', {}),
    ('rgbd_image_proc', {}), ('rgbd_mapping', {})])
def test_launch_files_start_tools_with_parameters_that_exist(load_launch, name, values):
    defaults, actions = load_launch(f'{name}.launch.py', **values)
    for node in [each.named for each in actions if is_a(each, 'Node')]:
        assert node['executable'] in {tool.name for tool in TOOLS}
        for parameters in node.get('parameters', ()):
            assert {name for name in parameters if not name.startswith('control.')} <= (
                KNOWN[node['executable']])
            for value in parameters.values():
                if is_a(value, 'ParameterValue') and is_a(value.given[0], 'LaunchConfiguration'):
                    default = defaults[value.given[0].given[0]]
                    kind = value.named['value_type']
                    assert default in ('true', 'false') if kind is bool else [kind(default)]


def test_the_simulation_is_started_with_flags_that_it_takes(load_launch):
    defaults, nodes = load_launch('gantry.launch.py', simulate='false')
    parsed = make_parser().parse_args(words(nodes[0].named['arguments'], defaults))
    assert (parsed.machine, parsed.machine_port) == ('gantry_orion', 9200)
    assert scenario_from_arguments(parsed).server.port == 3883


def test_a_simulation_keeps_apart_from_real_systems(load_launch):
    """Every node but the simulator, which has no topics, is in its own namespace."""
    nodes = [node.named for node in load_launch('gantry.launch.py', simulate='false')[1]]
    assert [node['executable'] for node in nodes if 'namespace' not in node] == ['gantry_sim']
    for node in nodes[1:]:
        for simulate, namespace in (('true', 'gantry_sim'), ('false', '')):
            parts = words(node['namespace'].given[0], {'simulate': simulate})
            assert eval(''.join(parts)) == namespace
    frames = nodes[1]['parameters'][0]['frames.body'].given[0].given[0]
    assert "'gantry_sim/{body}'" in frames[0]


def test_a_misspelt_argument_is_refused(load_launch):
    with pytest.raises(ValueError, match='mean table'):
        load_launch('gantry.launch.py', tabel='x')


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


def test_two_vehicles_on_one_connection_are_refused(load_launch, tmp_path):
    same = tmp_path / 'same.yaml'
    same.write_text('vehicles: [{body: a, connection: "udpin:0.0.0.0:1"}, {body: b, '
                    'connection: "udpin:0.0.0.0:1"}]')
    with pytest.raises(ValueError, match='two vehicles'):
        load_launch('mavlink_bridge.launch.py', vehicles=str(same))
