# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
from glob import glob
import os
from pathlib import Path
import runpy
import shutil
import sys

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop

PACKAGE = 'optitrack_vrpn'
# colcon runs this file in the source folder, or in a folder of symbolic links to it.
ROWS = runpy.run_path(os.path.join(PACKAGE, 'cli', 'rows_io.py'))


def share(folder, *endings):
    """List the files below a folder as setuptools wants its data files, subfolders kept."""
    listed = {}
    for ending in endings:
        for path in sorted(glob(os.path.join(folder, '**', '*' + ending), recursive=True)):
            listed.setdefault(os.path.dirname(path), []).append(path)
    return [(os.path.join('share', PACKAGE, place), paths) for place, paths in listed.items()]


def compile_into(place):
    """
    Compile the path of a pose; where that is not possible, the same files run as Python.

    :param place: a folder, or None for the one that serves a package that is not installed.
    :returns: the folder of the compiled modules, or None
    """
    sys.path.insert(0, os.getcwd())
    from optitrack_vrpn.cli.compiled.build_io import build
    from optitrack_vrpn.cli.compiled.importer_io import build_folder
    from optitrack_vrpn.core.errors import BackendUnavailableError
    try:
        return build(Path(place) if place else build_folder())
    except (BackendUnavailableError, OSError) as error:
        print(f'{error}\nthe node runs as plain Python', file=sys.stderr)
        return None
    finally:
        sys.path.pop(0)


class Build(build_py):
    """Build the package with the compiled modules beside its sources."""

    def run(self):
        super().run()
        place = os.path.join(self.build_lib, PACKAGE, '_compiled')
        made = compile_into(place)
        # Of another version that was built into the same folder.
        for old in glob(os.path.join(place, '*')):
            if made is None or os.path.basename(old) != made.name:
                shutil.rmtree(old)

    def get_outputs(self, include_bytecode=True):
        place = os.path.join(self.build_lib, PACKAGE, '_compiled')
        made = glob(os.path.join(place, '**', '*.so'), recursive=True)
        return super().get_outputs(include_bytecode) + made


class Develop(develop):
    """Link to the sources (colcon build --symlink-install); compile for these sources."""

    def run(self):
        super().run()
        if not self.uninstall:
            compile_into(None)


setup(
    name=PACKAGE,
    cmdclass={'build_py': Build, 'develop': Develop},
    version='0.1.0',
    packages=find_packages(include=[PACKAGE, PACKAGE + '.*']),
    package_data={
        PACKAGE + '.takes.assess': ['page/*'], PACKAGE + '.takes.dashboard': ['static/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/' + PACKAGE]),
        ('share/' + PACKAGE, ['package.xml']),
        *share('launch', '.launch.py', '.launch.yaml'),
        *share('config', '.yaml', '.rviz', '.xml', '.json'),
    ],
    install_requires=['setuptools'],
    extras_require={'test': ['pytest']},
    zip_safe=True,
    python_requires='>=3.10',
    maintainer='optitrack_vrpn maintainers',
    maintainer_email='maintainers@example.com',
    description='OptiTrack motion capture over VRPN or NatNet for ROS 2.',
    license='BSD-3-Clause',
    entry_points={'console_scripts': ROWS['console_scripts']()},
)
