# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
from glob import glob
import importlib.util
import os
import runpy
import shutil
import sys
import sysconfig

from setuptools import find_packages, setup
from setuptools.command.build_ext import build_ext

PACKAGE = 'optitrack_vrpn'
# colcon runs this file in the source folder, or in a folder of symbolic links to it.
ROWS = runpy.run_path(os.path.join(PACKAGE, 'cli', 'rows_io.py'))
#: What a pose passes, and what that calls: extension modules in an installed package.
COMPILED = [f'{PACKAGE}/{folder}/{name}.py' for folder, names in {
    'core': ('axes', 'rotation', 'stats', 'throttle'),
    'drivers': ('frames', 'loop_io', 'losses', 'sockets_io'),
    'drivers/vrpn': ('codec', 'connection', 'driver', 'frames'),
    'drivers/natnet': (
        'codec', 'commands', 'driver', 'frames', 'layouts', 'messages', 'model_list',
        'numbering', 'reports'),
    'stream/clock': ('difference', 'line', 'pace', 'round_trips', 'sender_clock', 'source'),
    'stream/motion': ('estimator', 'gains', 'kalman', 'lever_arm', 'rest'),
    'stream/bodies': (
        'hypotheses', 'judge', 'limits', 'poses', 'states', 'swap', 'times', 'tracker'),
    'stream': ('batch', 'load_shedding', 'pipeline', 'reports', 'roster'),
    'node/base': ('cdr',),
    'node': ('body_output', 'publishers', 'receiver', 'report', 'shared_output'),
}.items() for name in names]
#: Commands that build what is installed. A develop or symlink installation is no such command:
#: its sources are edited, and run as Python.
BUILDS = {'bdist_wheel', 'build', 'build_ext', 'install'}


def share(folder, *endings):
    """List the files below a folder as setuptools wants its data files, subfolders kept."""
    listed = {}
    for ending in endings:
        for path in sorted(glob(os.path.join(folder, '**', '*' + ending), recursive=True)):
            listed.setdefault(os.path.dirname(path), []).append(path)
    return [(os.path.join('share', PACKAGE, place), paths) for place, paths in listed.items()]


def obstacle():
    """Say why nothing is compiled; '' if nothing prevents it."""
    if os.environ.get('OPTITRACK_VRPN_COMPILE', '1').lower() in ('0', 'no', 'off', 'false'):
        return 'switched off by OPTITRACK_VRPN_COMPILE'
    if importlib.util.find_spec('mypyc') is None:
        return 'mypy is not installed (rosdep key python3-mypy)'
    compiler = (sysconfig.get_config_var('CC') or 'cc').split()[0]
    if shutil.which(compiler) is None:
        return f'the C compiler {compiler} is not installed'
    header = os.path.join(sysconfig.get_path('include'), 'Python.h')
    return '' if os.path.isfile(header) else f'{header} is missing (package python3-dev)'


def say(reason):
    print(f'not compiled: {reason}; the node runs as plain Python', file=sys.stderr)


def extensions():
    """Translate the path of a pose to C, where that is wanted and possible."""
    words = set(sys.argv[1:])
    if not words & BUILDS or words & {'develop', 'symlink_data'}:
        return []
    if obstacle():
        say(obstacle())
        return []
    from mypyc.build import mypycify
    try:
        return mypycify(['--config-file=setup.cfg', *COMPILED], opt_level='3', debug_level='0',
                        multi_file=True, group_name=PACKAGE, target_dir='build/c')
    except SystemExit:    # it has printed the reason
        say('mypyc failed')
        return []


class BuildExtensions(build_ext):
    """Build all extension modules or none: one needs the others."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            if not self.extensions:
                raise
            say(f'the C compiler failed ({error})')
            for path in self.get_outputs():
                if os.path.exists(path):
                    os.remove(path)
            self.extensions = []


setup(
    name=PACKAGE,
    cmdclass={'build_ext': BuildExtensions},
    ext_modules=extensions(),
    version='0.1.0',
    packages=find_packages(include=[PACKAGE, PACKAGE + '.*']),
    package_data={
        PACKAGE + '.takes.assess': ['page/*'], PACKAGE + '.takes.dashboard': ['static/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/' + PACKAGE]),
        ('share/' + PACKAGE, ['package.xml']),
        *share('launch', '.launch.py', '.launch.yaml'),
        *share('config', '.yaml', '.rviz', '.xml', '.json', '.md'),
    ],
    install_requires=['setuptools'],
    extras_require={'test': ['pytest']},
    zip_safe=False,
    python_requires='>=3.10',
    maintainer='optitrack_vrpn maintainers',
    maintainer_email='maintainers@example.com',
    description='OptiTrack motion capture over VRPN or NatNet for ROS 2.',
    license='BSD-3-Clause',
    entry_points={'console_scripts': ROWS['console_scripts']()},
)
