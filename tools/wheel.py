# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Build the package as a wheel, with its extension modules, and install it below the environment.

`make test` and the benchmarks run the package as it is installed. Its folder is a prefix of its
own (`.venv/wheel`), so that every other command runs the sources of this checkout.
"""

import glob
import os
import shutil
import sys

import environment
from environment import digest, say

#: What decides about the wheel.
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
    :raises environment.EnvironmentFailure: if the wheel cannot be built
    """
    folder = os.path.dirname(os.path.dirname(python))
    env = environment.Environment(os.path.relpath(folder, environment.ROOT), python)
    prefix, work = os.path.join(folder, 'wheel'), os.path.join(folder, 'build', 'wheel')
    key = digest([env.version, python, os.environ.get('OPTITRACK_VRPN_COMPILE', '')],
                 [os.path.join(environment.ROOT, part) for part in PARTS])
    minor = '.'.join(env.version.split('.')[:2])
    site = os.path.join(prefix, 'lib', 'python' + minor, 'site-packages')
    if env.done('wheel', key) and os.path.isdir(site):
        return site
    with env.locked():
        say('building and compiling the package, a minute or more')
        copy_changed(environment.ROOT, work)
        for old in ('dist', os.path.join('build', 'bdist.*'), os.path.join('build', 'lib*')):
            for path in glob.glob(os.path.join(work, old)):
                shutil.rmtree(path)
        for old in glob.glob(os.path.join(folder, 'log', 'wheel*.log')):
            os.remove(old)
        env.run('wheel', [python, 'setup.py', '-q', 'build_ext', '-j', str(os.cpu_count() or 1),
                          'bdist_wheel', '-d', 'dist'], cwd=work)
        shutil.rmtree(prefix, ignore_errors=True)
        env.run('wheel', [python, '-m', 'pip', 'install', '--quiet', '--no-deps', '--no-index',
                          '--ignore-installed', '--no-warn-script-location',
                          '--disable-pip-version-check', '--prefix', prefix,
                          *glob.glob(os.path.join(work, 'dist', '*.whl'))])
        env.mark('wheel', key)
    for line in env.log_text('wheel', 0).splitlines():
        if line.startswith('not compiled: '):
            say(line)
    return site


if __name__ == '__main__':
    try:
        print(install(sys.executable))
    except environment.EnvironmentFailure as failure:
        sys.exit(str(failure))
