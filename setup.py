# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
from glob import glob
import os
import runpy

from setuptools import find_packages, setup

PACKAGE = 'optitrack_vrpn'
# colcon runs this file in the source folder, or in a folder of symbolic links to it.
TOOLS = runpy.run_path(os.path.join(PACKAGE, 'cli', 'tools.py'))


def share(folder, *endings):
    """List the files below a folder as setuptools wants its data files, subfolders kept."""
    listed = {}
    for ending in endings:
        for path in sorted(glob(os.path.join(folder, '**', '*' + ending), recursive=True)):
            listed.setdefault(os.path.dirname(path), []).append(path)
    return [(os.path.join('share', PACKAGE, place), paths) for place, paths in listed.items()]


setup(
    name=PACKAGE,
    version='0.1.0',
    packages=find_packages(include=[PACKAGE, PACKAGE + '.*']),
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/' + PACKAGE]),
        ('share/' + PACKAGE, ['package.xml']),
        *share('launch', '.launch.py', '.launch.yaml'),
        *share('config', '.yaml', '.rviz', '.xml'),
    ],
    install_requires=['setuptools'],
    extras_require={'test': ['pytest']},
    zip_safe=True,
    python_requires='>=3.10',
    maintainer='optitrack_vrpn maintainers',
    maintainer_email='maintainers@example.com',
    description='OptiTrack motion capture over VRPN for ROS 2.',
    license='BSD-3-Clause',
    entry_points={'console_scripts': TOOLS['console_scripts']()},
)
