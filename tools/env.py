# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Make the Python environment that the make targets use, and run Python in it.

If a ROS 2 environment is sourced (AMENT_PREFIX_PATH is set), this tool uses it. Otherwise it makes
a virtual environment with ROS 2 from PyPI: .venv for Jazzy, .venv-kilted with ROS_DISTRO=kilted.

  env.py make                        make what is missing
  env.py where                       print the path of the environment's Python, made if need be
  env.py run [--runtime | --installed] ARGUMENTS
                                     run Python with these arguments; with --runtime the test
                                     tools may be missing, with --installed it finds the
                                     installed package before the one of this checkout

OPTITRACK_VRPN_ROS=pypi ignores a sourced ROS 2.

Needs only Python's standard library and parses on any Python 3, so that it can name what is
missing.
"""

import os
import sys

import environment
import from_pypi
import from_sourced
import installed


def main(arguments):
    """Run the command line; return exit code 2 if something is missing."""
    command, rest = (arguments + ['help'])[0], arguments[1:]
    if command not in ('make', 'where', 'run'):
        print(__doc__.strip())
        return 0 if command in ('help', '--help', '-h') else 2
    variables = dict(os.environ)
    runtime_only = command == 'run' and rest[:1] == ['--runtime']
    as_installed = command == 'run' and rest[:1] == ['--installed']
    path = [environment.ROOT, variables.get('PYTHONPATH')]
    try:
        if os.environ.get('AMENT_PREFIX_PATH') and os.environ.get('OPTITRACK_VRPN_ROS') != 'pypi':
            python = from_sourced.make(runtime_only)
        else:
            env = from_pypi.make(os.environ.get('ROS_DISTRO') or 'jazzy', runtime_only)
            python = env.python
            # A parent Python's: the environment finds its libraries itself.
            variables.pop('_ROS_WHEELS_BOOTSTRAP_COMPLETE', None)
            if os.environ.get('OPTITRACK_VRPN_ROS') == 'pypi':
                for name in from_pypi.FOREIGN:
                    variables.pop(name, None)
                path = [environment.ROOT]
        if as_installed:
            path.insert(0, installed.install(python))
    except environment.EnvironmentFailure as failure:
        environment.say(str(failure))
        return 2
    except KeyboardInterrupt:
        environment.say('interrupted; the next run continues here')
        return 130
    if command == 'where':
        print(python)
    if command != 'run':
        return 0
    # Imports find this checkout before a copy elsewhere, also in subprocesses in other folders.
    variables['PYTHONPATH'] = os.pathsep.join(part for part in path if part)
    variables['PATH'] = os.path.dirname(python) + os.pathsep + variables.get('PATH', os.defpath)
    sys.stdout.flush()
    os.execve(python, [python] + rest[runtime_only or as_installed:], variables)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
