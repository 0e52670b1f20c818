# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the launch files of axis_bridge, the gantry and the RGB-D nodes start.

PyPI does not have ROS 2's launch, so that stand-ins for its classes note what they are given.
"""

from pathlib import Path
import runpy
import sys
import types

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

LAUNCH = Path(__file__).resolve().parents[1] / 'launch'
KNOWN = {
    'axis_bridge': {each.name for each in parameters_of(BridgeSettings)},
    'gantry_controller': {each.name for each in parameters_of(ControllerSettings)},
    'optitrack_vrpn_node': {each.name for each in parameters_of(NodeSettings)},
    'rgbd_image_proc': {'use_sim_time', *(each.name for each in parameters_of(
        ImageProcSettings))},
    'rgbd_mapper': {'use_sim_time', *(each.name for each in parameters_of(
        MapperNodeSettings))},
    'rgbd_odometry': {'use_sim_time', *(each.name for each in parameters_of(
        OdometryNodeSettings))},
}


class Noted:
    """Stand in for a class of launch."""

    def __init__(self, *given, **named):
        self.given, self.named = given, named


@pytest.fixture
def described(monkeypatch):
    """Load a launch file with stand-ins; gives arguments and nodes."""
    for module, names in {
            'launch': ['LaunchDescription'],
            'launch.actions': ['DeclareLaunchArgument', 'OpaqueFunction'],
            'launch.conditions': ['IfCondition'],
            'launch.substitutions': ['LaunchConfiguration', 'PythonExpression'], 'launch_ros': [],
            'launch_ros.actions': ['Node'],
            'launch_ros.parameter_descriptions': ['ParameterValue']}.items():
        fake = types.ModuleType(module)
        for name in names:
            setattr(fake, name, type(name, (Noted,), {}))
        monkeypatch.setitem(sys.modules, module, fake)

    def load(name, *command_line):
        monkeypatch.setattr(sys, 'argv', ['ros2', 'launch', 'optitrack_vrpn', name, *command_line])
        entities = runpy.run_path(str(LAUNCH / name))['generate_launch_description']().given[0]
        arguments = {e.given[0]: e.named for e in entities
                     if type(e).__name__ == 'DeclareLaunchArgument'}
        return arguments, [e.named for e in entities if type(e).__name__ == 'Node']
    return load


@pytest.mark.parametrize('name', [
    'axis_bridge.launch.py', 'gantry.launch.py', 'rgbd_odometry.launch.py',
    'rgbd_image_proc.launch.py', 'rgbd_mapping.launch.py'])
def test_launch_files_start_tools_with_parameters_that_exist(described, name):
    arguments, nodes = described(name)
    assert all(each['description'] and isinstance(each['default_value'], str)
               for each in arguments.values())
    for node in nodes:
        assert node['executable'] in {tool.name for tool in TOOLS}
        for parameters in node.get('parameters', ()):
            assert {name for name in parameters if not name.startswith('control.')} <= (
                KNOWN[node['executable']])
            for value in parameters.values():
                if type(value).__name__ == 'ParameterValue' and (
                        type(value.given[0]).__name__ == 'LaunchConfiguration'):
                    default = arguments[value.given[0].given[0]]['default_value']
                    kind = value.named['value_type']
                    assert default in ('true', 'false') if kind is bool else [kind(default)]


def test_the_simulation_is_started_with_flags_that_it_takes(described):
    arguments, nodes = described('gantry.launch.py')
    words = [word if isinstance(word, str) else arguments[word.given[0]]['default_value']
             for word in nodes[0]['arguments']]
    parsed = make_parser().parse_args(words)
    assert (parsed.machine, parsed.machine_port) == ('gantry_orion', 9200)
    assert scenario_from_arguments(parsed).server.port == 3883


def test_a_simulation_keeps_apart_from_real_systems(described):
    """Every node but the simulator, which has no topics, is in its own namespace."""
    _, nodes = described('gantry.launch.py')
    assert [node['executable'] for node in nodes if 'namespace' not in node] == ['gantry_sim']
    for node in nodes[1:]:
        parts = node['namespace'].given[0]
        for simulate, namespace in (('true', 'gantry_sim'), ('false', '')):
            words = [simulate if type(part).__name__ == 'LaunchConfiguration' else part
                     for part in parts]
            assert eval(''.join(words)) == namespace
    frames = nodes[1]['parameters'][0]['frames.body'].given[0].given[0]
    assert "'gantry_sim/{body}'" in frames[0]


def test_a_misspelt_argument_is_refused(described):
    with pytest.raises(ValueError, match='mean table'):
        described('gantry.launch.py', 'tabel:=x')
