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
    'launch.actions': ('DeclareLaunchArgument', 'ExecuteProcess', 'IncludeLaunchDescription',
                       'OpaqueFunction'),
    'launch.conditions': ('IfCondition',),
    'launch.launch_description_sources': ('PythonLaunchDescriptionSource',),
    'launch.substitutions': ('LaunchConfiguration', 'PathJoinSubstitution', 'PythonExpression'),
    'launch_ros.substitutions': ('FindPackageShare',),
    'launch_ros.parameter_descriptions': ('ParameterValue',)}


class Noted:
    """Stand in for a class of launch; a LaunchConfiguration is looked up in a dictionary."""

    def __init__(self, *given, **named):
        self.given, self.named = given, named

    def perform(self, context):
        return context[self.given[0]]


def is_a(value, name):
    """Return whether a value is an instance of the stand-in for a class of launch."""
    return type(value).__name__ == name


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
        entities = runpy.run_path(str(LAUNCH / name))['generate_launch_description']().given[0]
        defaults, actions = {}, []
        for each in entities:
            if is_a(each, 'DeclareLaunchArgument'):
                assert each.named['description']
                defaults[each.given[0]] = each.named['default_value']
            elif is_a(each, 'OpaqueFunction'):
                actions += each.named['function']({**defaults, **values})
            else:
                actions.append(each)
        return defaults, actions
    return load


def words(given, defaults):
    """Give the words of a command line, with the defaults of the arguments in them."""
    return [defaults[word.given[0]] if is_a(word, 'LaunchConfiguration') else word
            for word in given]
