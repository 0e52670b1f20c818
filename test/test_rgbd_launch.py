# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the launch files for device, recording and playing start.

PyPI does not have ROS 2's launch, so that stand-ins for its classes note what they are given.
"""

from pathlib import Path
import runpy
import sys
import types

from optitrack_vrpn.recording.record_command import make_parser
import pytest

LAUNCH = Path(__file__).resolve().parents[1] / 'launch'
MODULES = {
    'launch': ('LaunchDescription',), 'launch_ros': (), 'launch_ros.actions': ('Node',),
    'launch.actions': ('DeclareLaunchArgument', 'ExecuteProcess', 'IncludeLaunchDescription',
                       'OpaqueFunction'),
    'launch.launch_description_sources': ('PythonLaunchDescriptionSource',),
    'launch.substitutions': ('LaunchConfiguration', 'PathJoinSubstitution'),
    'launch_ros.substitutions': ('FindPackageShare',),
    'launch_ros.parameter_descriptions': ('ParameterValue',)}


class Noted:
    """Stand in for a class of launch; a LaunchConfiguration is looked up in a dictionary."""

    def __init__(self, *given, **named):
        self.given, self.named = given, named

    def perform(self, context):
        return context[self.given[0]]


@pytest.fixture
def load(monkeypatch):
    """Load a launch file; gives its defaults and its other actions."""
    for module, names in MODULES.items():
        fake = types.ModuleType(module)
        for name in names:
            setattr(fake, name, type(name, (Noted,), {}))
        monkeypatch.setitem(sys.modules, module, fake)

    def loaded(name, **values):
        monkeypatch.setattr(sys, 'argv', ['ros2', 'launch', 'optitrack_vrpn', name, *(
            f'{key}:={value}' for key, value in values.items())])
        entities = runpy.run_path(str(LAUNCH / name))['generate_launch_description']().given[0]
        defaults = {each.given[0]: each.named['default_value'] for each in entities
                    if type(each).__name__ == 'DeclareLaunchArgument'}
        actions = []
        for each in entities:
            if type(each).__name__ == 'OpaqueFunction':
                actions += each.named['function']({**defaults, **values})
            elif type(each).__name__ != 'DeclareLaunchArgument':
                actions.append(each)
        return defaults, actions
    return loaded


def included(action):
    """Give package, file and arguments of an included launch file."""
    share, _, name = action.given[0].given[0].given[0]
    return share.given[0], name, dict(action.named['launch_arguments'])


@pytest.mark.parametrize('driver, package, depth', [
    ('realsense2', 'realsense2_camera', '/camera/camera/aligned_depth_to_color/image_raw'),
    ('openni2', 'openni2_camera', '/camera/depth/image')])
def test_a_driver_and_odometry_on_its_topics_are_started(load, driver, package, depth):
    _, actions = load('rgbd_device.launch.py', driver=driver)
    (driver_package, _, _), (own, name, given) = map(included, actions)
    assert driver_package == package
    assert (own, name) == ('optitrack_vrpn', 'rgbd_odometry.launch.py')
    assert given['depth'] == depth
    # each argument is one of the included file, whose own test checks its parameters
    declared, _ = load('rgbd_odometry.launch.py')
    assert set(given) <= set(declared)


def test_aligned_depth_is_asked_of_the_realsense(load):
    _, actions = load('rgbd_device.launch.py', odometry='false')
    assert len(actions) == 1
    assert included(actions[0])[2]['align_depth.enable'] == 'true'


@pytest.mark.parametrize('values, said', [
    ({'driver': 'kinect'}, 'driver:=kinect is none of'), ({'odometry': 'no'}, 'neither'),
    ({'divrer': 'openni2'}, 'did you mean driver')])
def test_wrong_arguments_of_the_device_are_refused(load, values, said):
    with pytest.raises(ValueError, match=said):
        load('rgbd_device.launch.py', **values)


def words(given, defaults):
    return [word if isinstance(word, str) else defaults[word.given[0]] for word in given]


def test_the_recorder_takes_its_arguments(load):
    defaults, (node,) = load('rgbd_record.launch.py')
    assert node.named['executable'] == 'record'
    parsed = make_parser().parse_args(words(node.named['arguments'], defaults))
    assert parsed.topic == [defaults[name] for name in ('colour', 'depth', 'info')]
    assert str(parsed.output) == defaults['folder']


def test_a_recording_is_played_in_its_own_time(load, tmp_path):
    defaults, (odometry, player) = load('rgbd_play.launch.py', folder=str(tmp_path))
    _, name, given = included(odometry)
    declared, _ = load('rgbd_odometry.launch.py')
    assert (name, given['use_sim_time']) == ('rgbd_odometry.launch.py', 'true')
    assert set(given) <= set(declared)
    command = words(player.named['cmd'], defaults)
    assert command[:4] == ['ros2', 'bag', 'play', str(tmp_path)]
    assert '--clock' in command


def test_a_recording_that_does_not_exist_starts_nothing(load, tmp_path):
    with pytest.raises(FileNotFoundError, match='folder:=.*nowhere does not'):
        load('rgbd_play.launch.py', folder=str(tmp_path / 'nowhere'))


@pytest.mark.parametrize('name', ['rgbd_record.launch.py', 'rgbd_play.launch.py'])
def test_misspelt_arguments_are_refused(load, name):
    with pytest.raises(ValueError, match='mean folder'):
        load(name, foldr='x')
