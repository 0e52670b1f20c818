# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Build the package with its extension modules and install it below the environment.

`make test` and the benchmarks run the package as it is installed. It has a prefix of its own
(`.venv/installed`), as with colcon, so that every other command runs the sources of this checkout.
"""

import glob
import os
import shutil
import sys

import environment
from environment import digest, say

#: What is installed, and what decides about it.
PARTS = ('optitrack_vrpn', 'launch', 'config', 'resource', 'setup.py', 'setup.cfg', 'package.xml')


def copy_changed(source, target):
    """Copy files whose content differs, so that the others keep their time; remove old ones."""
    wanted = set()
    for part in PARTS:
        top = os.path.join(source, part)
        names = [top] if os.path.isfile(top) else [
            os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names
            if '__pycache__' not in folder and not name.endswith('.so')]
        for name in names:
            place = os.path.join(target, os.path.relpath(name, source))
            wanted.add(place)
            with open(name, 'rb') as stream:
                content = stream.read()
            if os.path.exists(place):
                with open(place, 'rb') as stream:
                    if stream.read() == content:
                        continue
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, 'wb') as stream:
                stream.write(content)
    for part in PARTS:
        for folder, _, names in os.walk(os.path.join(target, part)):
            for name in names:
                if os.path.join(folder, name) not in wanted:
                    os.remove(os.path.join(folder, name))


def install(python):
    """
    Build and install what has changed.

    :param python: the Python of an environment that tools/env.py has made
    :returns: the folder with the package, for PYTHONPATH
    :raises environment.EnvironmentFailure: if it cannot be built
    """
    folder = os.path.dirname(os.path.dirname(python))
    env = environment.Environment(os.path.relpath(folder, environment.ROOT), python)
    prefix, work = os.path.join(folder, 'installed'), os.path.join(folder, 'build', 'installed')
    key = digest([env.version, python, os.environ.get('OPTITRACK_VRPN_COMPILE', '')],
                 [os.path.join(environment.ROOT, part) for part in PARTS])
    if not env.done('installed', key) or not package_folder(prefix):
        with env.locked():
            say('building and compiling the package, a minute or more')
            copy_changed(environment.ROOT, work)
            shutil.rmtree(prefix, ignore_errors=True)
            for old in glob.glob(os.path.join(work, 'build', 'lib*')):
                shutil.rmtree(old)
            begin = env.log_size('installed')
            env.run('installed', [
                python, 'setup.py', '-q', 'build_ext', '-j', str(os.cpu_count() or 1), 'install',
                '--prefix', prefix, '--single-version-externally-managed', '--record',
                'record.txt'], cwd=work)
            env.mark('installed', key)
        for line in env.log_text('installed', begin).splitlines():
            if line.startswith('not compiled: '):
                say(line)
    return package_folder(prefix)


def package_folder(prefix):
    """Return the folder below a prefix in which Python finds the package; '' if there is none."""
    found = glob.glob(os.path.join(prefix, '**', 'optitrack_vrpn', '__init__.py'), recursive=True)
    return os.path.dirname(os.path.dirname(found[0])) if found else ''


if __name__ == '__main__':
    try:
        print(install(sys.executable))
    except environment.EnvironmentFailure as failure:
        sys.exit(str(failure))
