# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
An environment on top of the ROS 2 that is sourced.

Its Python and its packages are used unchanged. Missing packages go into a virtual environment with
access to them (`.venv-sourced`). Nothing is installed outside of it, and numpy keeps the version
that the ROS 2 packages were compiled with.
"""

import json
import os
import subprocess

import environment
from environment import digest, EnvironmentFailure, say

RUNTIME = {'numpy': 'numpy', 'scipy': 'scipy', 'transforms3d': 'transforms3d', 'yaml': 'PyYAML'}
DEVELOPMENT = {'pytest': 'pytest', 'pytest_timeout': 'pytest-timeout', 'xdist': 'pytest-xdist',
               'hypothesis': 'hypothesis', 'ruff': 'ruff', 'mypy': 'mypy', 'flake8': 'flake8',
               'flake8_blind_except': 'flake8-blind-except',
               'flake8_builtins': 'flake8-builtins',
               'flake8_class_newline': 'flake8-class-newline',
               'flake8_comprehensions': 'flake8-comprehensions',
               'flake8_deprecated': 'flake8-deprecated',
               'flake8_docstrings': 'flake8-docstrings',
               'flake8_import_order': 'flake8-import-order',
               'flake8_quotes': 'flake8-quotes'}
# Only some tests and the plots use these, so that a missing one is not an error.
OPTIONAL = {'matplotlib': 'matplotlib', 'motioncapture': 'motioncapture'}
LOOK = """
import importlib.util, json, sys
from importlib.metadata import version
found = {}
for module, name in json.loads(sys.argv[1]).items():
    if importlib.util.find_spec(module):
        try:
            found[module] = version(name)
        except Exception:
            found[module] = ''
print(json.dumps(found))
"""


def ros_python():
    """
    Find the Python of the sourced ROS 2, which is python3 or else the system's own.

    :returns: its path, and which modules it finds with their versions ('' where unknown)
    :raises EnvironmentFailure: if none finds rclpy
    """
    names = json.dumps(dict(RUNTIME, rclpy='rclpy', **DEVELOPMENT, **OPTIONAL))
    for python in (environment.base_python(), '/usr/bin/python3'):
        if os.path.exists(python):
            found = json.loads(subprocess.check_output([python, '-c', LOOK, names]).decode())
            if 'rclpy' in found:
                return python, found
    raise EnvironmentFailure(
        'ROS 2 is sourced (AMENT_PREFIX_PATH={}) but {} has no rclpy: sudo apt install '
        'ros-{}-rclpy, or set OPTITRACK_VRPN_ROS=pypi to ignore the sourced ROS 2'.format(
            os.environ['AMENT_PREFIX_PATH'], environment.base_python(),
            os.environ.get('ROS_DISTRO', 'DISTRO')))


def make(runtime_only=False):
    """
    Find or make an environment whose Python sees the sourced ROS 2.

    :param runtime_only: install only what the package needs, without the test tools
    :returns: the path of the Python to use
    """
    base, found = ros_python()
    needed = dict(RUNTIME) if runtime_only else dict(RUNTIME, **DEVELOPMENT)
    # Humble's pytest 6 is older than the pytest plugins support.
    if found.get('pytest', '').split('.')[0] in ('5', '6'):
        del found['pytest']
    missing = [name for module, name in needed.items() if module not in found]
    if runtime_only and not missing:
        return base
    env = environment.Environment('.venv-sourced', base)
    key = digest([base, env.version, os.environ.get('ROS_DISTRO', ''), environment.ROOT,
                  json.dumps(found, sort_keys=True)], [environment.TOOLS])
    if env.done('complete', key) and os.path.exists(env.python):
        return env.python
    with env.locked():
        env.create('--system-site-packages')
        env.see_project()
        lacking = [name for module, name in dict(RUNTIME, **DEVELOPMENT).items()
                   if module not in found]
        if lacking:
            say('installing what the sourced ROS 2 lacks into {}: {}'.format(
                env.name, ', '.join(lacking)))
        keep = os.path.join(env.folder, 'keep.txt')
        with open(keep, 'w') as stream:
            for module in ('numpy', 'scipy'):
                if found.get(module):
                    stream.write('{}=={}\n'.format(module, found[module]))
        if lacking:
            env.install('python', key, '--constraint', keep,
                        *environment.requirement_lines(lacking))
        for module, name in OPTIONAL.items():
            if module not in found:
                try:
                    env.install(name, key, '--constraint', keep, name)
                except EnvironmentFailure:
                    say('{} is not available: pip could not install it ({}/log/{}.log)'.format(
                        name, env.name, name))
        env.run('check', [env.python, '-c', 'import rclpy, numpy, scipy, transforms3d, pytest'])
        env.mark('complete', key)
    say('{} is ready: ROS 2 {} as sourced, Python {}'.format(
        env.name, os.environ.get('ROS_DISTRO', ''), env.version))
    return env.python
