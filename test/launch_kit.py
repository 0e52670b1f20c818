# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Load launch files without ROS 2's launch, which PyPI does not have.

Stand-ins for its classes note what they are given.
"""

from pathlib import Path
import runpy
import sys
import types

LAUNCH = Path(__file__).resolve().parents[1] / 'launch'
MODULES = {
    'launch': ('LaunchDescription',), 'launch_ros': (), 'launch_ros.actions': ('Node',),
    'launch.event_handlers': ('OnProcessExit',),
    'launch_ros.parameter_descriptions': ('ParameterValue',),
    'launch.actions': ('DeclareLaunchArgument', 'ExecuteProcess', 'IncludeLaunchDescription',
                       'LogInfo', 'OpaqueFunction', 'RegisterEventHandler', 'TimerAction'),
    'launch.launch_description_sources': ('PythonLaunchDescriptionSource',),
    'launch.substitutions': ('PathJoinSubstitution',),
    'launch_ros.substitutions': ('FindPackageShare',)}


class Noted:
    """Stand in for a class of launch."""

    def __init__(self, *given, **named):
        self.given, self.named = given, named


def loader(monkeypatch):
    """Give a function that loads a launch file; see ``conftest.load_launch``."""
    for module, names in MODULES.items():
        fake = types.ModuleType(module)
        for name in names:
            setattr(fake, name, type(name, (Noted,), {}))
        monkeypatch.setitem(sys.modules, module, fake)

    def load(name, **values):
        """Load a launch file with values of arguments; gives its defaults and its actions."""
        monkeypatch.setattr(sys, 'argv', ['ros2', 'launch', 'optitrack_vrpn', name, *(
            f'{key}:={value}' for key, value in values.items())])
        *declared, action = runpy.run_path(
            str(LAUNCH / name))['generate_launch_description']().given[0]
        assert all(each.named['description'] for each in declared)
        defaults = {each.given[0]: each.named['default_value'] for each in declared}
        context = types.SimpleNamespace(launch_configurations={**defaults, **values})
        return defaults, [each for each in action.named['function'](context)
                          if type(each).__name__ != 'RegisterEventHandler']
    return load
