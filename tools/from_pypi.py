# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""An environment with the real ROS 2 from PyPI and the interface packages of underlay/."""

import concurrent.futures
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

import environment
from environment import digest, EnvironmentFailure, say
import installer

UNDERLAY = os.path.join(environment.ROOT, 'underlay')
DISTROS = ('jazzy', 'kilted')
OLDEST, NEWEST = (3, 10), (3, 14)
# Interface packages that PyPI lacks: folder below underlay/ -> prefix below the environment. The
# 2021 generation of the control messages has the name of the one after it and therefore a
# prefix of its own, which a test puts before the other.
INTERFACES = {
    'tf2_msgs': '',
    'mocap_control_msgs': '',
    'mocap4r2_control_msgs': '',
    'seed/mocap_control_msgs': 'seed',
    'px4_msgs': '',
    'mocap4r2_msgs': '',
    'mocap_interfaces': '',
    'motion_capture_tracking_interfaces': '',
    'control_msgs': '',
}
# Period of progress reports while they are built (s).
PROGRESS_S = 10.0
# Those that node and demo need; the others are optional, for mocap control, autopilots and swarms.
NEEDED = ('tf2_msgs',)
# Variables of another ROS 2, of a build or of a parent Python with ROS 2, which would add
# packages and libraries from elsewhere.
FOREIGN = ('AMENT_PREFIX_PATH', 'CMAKE_PREFIX_PATH', 'COLCON_PREFIX_PATH', 'PYTHONPATH',
           'PYTHONHOME', 'LD_LIBRARY_PATH', 'MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'ROS_VERSION',
           'ROS_PYTHON_VERSION', '_ROS_WHEELS_BOOTSTRAP_COMPLETE', 'RMW_IMPLEMENTATION')


def need_machine(env):
    """
    Check for the tools that make the environment, and name all missing ones in one message.

    :raises EnvironmentFailure: with what is missing and how to get it
    """
    if sys.platform != 'linux' or platform.machine() not in ('x86_64', 'AMD64'):
        raise EnvironmentFailure(
            'PyPI has ROS 2 for Linux on x86_64 only, and this is {} on {}: install ROS 2, source '
            'its setup.bash, and make will use that'.format(platform.system(), platform.machine()))
    version = tuple(int(number) for number in env.version.split('.')[:2])
    if not OLDEST <= version <= NEWEST:
        raise EnvironmentFailure(
            'Python 3.10 to 3.14 is needed and {} is {}: name another, as in '
            'make PYTHON=python3.12'.format(env.base, env.version))
    environment.need_venv(env.base)
    tools = {tool: tool for tool in ('cmake', 'make', 'g++') if not shutil.which(tool)}
    header = os.path.join(env.include, 'Python.h')
    if not os.path.exists(header):
        tools[header] = 'python{}.{}-dev'.format(*version)
    if not is_plain(env.folder) and not is_plain(tempfile.gettempdir()):
        raise EnvironmentFailure(
            'CMake builds no interface packages below {} nor below {}, whose names contain a '
            'blank or a letter outside ASCII: move this folder, or set TMPDIR'.format(
                env.folder, tempfile.gettempdir()))
    if tools:
        raise EnvironmentFailure('missing: {}. On Debian and Ubuntu: sudo apt install {}'.format(
            ', '.join(tools), ' '.join(tools.values())))
    text = subprocess.check_output(['cmake', '--version'], universal_newlines=True).split()[2]
    if tuple(int(number) for number in text.split('.')[:2]) < (3, 22):
        raise EnvironmentFailure(
            'CMake 3.22 or newer is needed and this is {}: pip install --user cmake'.format(text))


def is_plain(path):
    """Return whether CMake and the generators of interfaces accept a path: no blank, ASCII."""
    return re.fullmatch(r'[A-Za-z0-9_./+@=-]+', path) is not None


@contextlib.contextmanager
def plain_paths(env):
    """
    Give paths for CMake: of the environment, of underlay/ and of a folder for the builds.

    Where a path of the project has a blank or a letter outside ASCII, they are links in a
    temporary folder.
    """
    if is_plain(env.folder) and is_plain(UNDERLAY):
        yield env.folder, UNDERLAY, os.path.join(env.folder, 'build')
        return
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_') as folder:
        links = {name: os.path.join(folder, name) for name in ('env', 'underlay')}
        os.symlink(env.folder, links['env'])
        os.symlink(UNDERLAY, links['underlay'])
        yield links['env'], links['underlay'], os.path.join(folder, 'build')


def chosen_python(folder):
    """
    Keep the Python that an environment was made from, unless the user names another.

    Otherwise a shell with another python3, such as that of conda, causes a new environment.
    """
    try:
        with open(os.path.join(environment.ROOT, folder, 'stamps', 'base')) as stream:
            base = stream.read()
    except OSError:
        base = ''
    if os.path.exists(base) and not os.environ.get('PYTHON'):
        return base
    return environment.base_python()


def build_interfaces(env, ros_key, packages, messages_only=False):
    """
    Build those interface packages whose definition or tools changed, all at once.

    :param messages_only: build only the messages of a package that has services too
    """
    project_include = os.path.join(UNDERLAY, 'python_include.cmake')
    keys = {package: digest([ros_key], [os.path.join(UNDERLAY, package), project_include])
            for package in packages}
    if messages_only:
        packages = [package for package in packages if not env.done(package, keys[package])]
        keys = {package: keys[package] + ' messages' for package in packages}
    todo = [package for package in packages if not env.done(package, keys[package])]
    if not todo:
        return
    with plain_paths(env) as (prefix, underlay, builds):
        build_all(env, todo, keys, prefix, underlay, builds, messages_only)


def build_all(env, todo, keys, prefix, underlay, builds, messages_only):
    """
    Build interface packages at once, with reports of the progress.

    :param todo: the packages
    :param keys: what marks each as done
    :param prefix: the folder of the environment, as CMake gets it
    :param underlay: the folder of the packages, likewise
    :param builds: folder of the builds, which is removed
    """
    variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    variables['AMENT_PREFIX_PATH'] = prefix
    variables['PATH'] = os.path.join(prefix, 'bin') + os.pathsep + variables['PATH']
    python = os.path.join(prefix, os.path.relpath(env.python, env.folder))
    shutil.rmtree(builds, ignore_errors=True)

    def build(package):
        folder = os.path.join(builds, package.replace('/', '-'))
        env.run(package, [
            'cmake', '-G', 'Unix Makefiles', '-S', os.path.join(underlay, package), '-B', folder,
            '-DCMAKE_PREFIX_PATH=' + prefix,
            '-DCMAKE_INSTALL_PREFIX=' + os.path.join(prefix, INTERFACES[package]),
            '-DCMAKE_PROJECT_INCLUDE=' + os.path.join(underlay, 'python_include.cmake'),
            '-DBUILD_TESTING=OFF',
            '-DPython3_EXECUTABLE=' + python, '-DPython3_ROOT_DIR=' + prefix,
            '-DPython3_INCLUDE_DIR=' + env.include,
            '-DMESSAGES_ONLY=' + ('ON' if messages_only else 'OFF'),
            '-DPYTHON_INSTALL_DIR=' + os.path.relpath(env.site, env.folder),
        ], env=variables)
        env.run(package, [
            'cmake', '--build', folder, '--parallel', str(os.cpu_count() or 2), '--target',
            'install'], env=variables)
        env.mark(package, keys[package])

    begun = {package: env.log_size(package) for package in todo}
    with concurrent.futures.ThreadPoolExecutor(len(todo)) as pool:
        outcomes = [pool.submit(build, package) for package in todo]
        begin = time.monotonic()
        while concurrent.futures.wait(outcomes, PROGRESS_S).not_done:
            shares = [100 if outcome.done() else percent(env.log_text(package, begun[package]))
                      for package, outcome in zip(todo, outcomes)]
            say(progress(shares, time.monotonic() - begin))
        for outcome in outcomes:
            outcome.result()
    shutil.rmtree(builds)


def percent(log):
    """Return how much of a package is built (%), as make wrote it last."""
    found = re.findall(r'^\[ *([0-9]+)%\]', log, re.MULTILINE)
    return int(found[-1]) if found else 0


def progress(shares, seconds):
    """
    Describe how far several packages are, and estimate the rest.

    :param shares: of each, how much is built (%)
    :param seconds: time since the begin
    """
    done = sum(shares) / len(shares) / 100
    text = '{} of {} packages built, {:.0f} % in {:.0f} s'.format(
        sum(share == 100 for share in shares), len(shares), 100 * done, seconds)
    return text + (', about {:.0f} s left'.format(seconds * (1 - done) / done)
                   if done >= 0.1 else '')


def make(distro, runtime_only=False):
    """
    Make or complete the environment of one distribution.

    :param runtime_only: install what the package needs, without what tests and lint need
    :returns: the finished :class:`environment.Environment`
    """
    if distro not in DISTROS:
        raise EnvironmentFailure(
            'ROS_DISTRO is {}, of which PyPI has no ROS 2 (it has {}): install it and source its '
            'setup.bash, or unset ROS_DISTRO'.format(distro, ' and '.join(DISTROS)))
    folder = '.venv' if distro == 'jazzy' else '.venv-' + distro
    env = environment.Environment(folder, chosen_python(folder))
    ros = os.path.join(environment.TOOLS, 'requirements-{}.txt'.format(distro))
    ros_key = digest([env.version, env.base], [ros])
    python_key = digest([env.version, env.base], [environment.RUNTIME])
    test_key = digest([env.version, env.base], [environment.TEST, environment.OPTIONAL])
    key = digest([ros_key, environment.ROOT], [environment.TOOLS, UNDERLAY])
    final = 'complete' if runtime_only else 'complete-test'
    if env.done(final, key) and os.path.exists(env.python):
        say(contents(env, env.done('complete-test', key)))
        return env
    need_machine(env)
    packages = NEEDED if runtime_only else tuple(INTERFACES)
    names = ['making the virtual environment {}'.format(env.name), 'fetching the installer',
             'installing numpy, scipy and other libraries',
             'installing ROS 2 {} from PyPI'.format(distro.capitalize()),
             'building the {} interface packages that PyPI lacks, up to a minute on two idle '
             'processors: {}'.format(len(packages), ', '.join(packages))]
    if not runtime_only:
        names.append('installing what tests, lint and optional capabilities need')
    steps = environment.Steps(names + ['checking'])
    start = time.monotonic()
    with env.locked():
        steps.next()
        env.create()
        env.mark('base', env.base)
        uv = installer.Uv(env)
        steps.next()
        if not (env.done('python', python_key) and env.done('ros', ros_key)
                and (runtime_only or env.done('test', test_key))):
            uv.fetch()
        steps.next()
        env.install('python', python_key, '-r', environment.RUNTIME, uv=uv)
        steps.next()
        env.install('ros', ros_key, '--no-deps', '-r', ros, uv=uv)
        env.see_project()
        steps.next()
        build_interfaces(env, ros_key, packages, runtime_only)
        if not runtime_only:
            steps.next()
            env.install(
                'test', test_key, '-r', environment.TEST, '-r', environment.OPTIONAL, uv=uv)
        uv.remove()
        steps.next()
        modules = ['{}.msg'.format(os.path.basename(package)) for package in packages]
        env.run('check', [env.python, '-c', 'import rclpy, numpy, scipy, transforms3d, '
                          + ', '.join(modules)])
        env.mark('complete', key)
        env.mark(final, key)
    say('{} is ready: ROS 2 {} from PyPI, Python {} ({:.0f} s)'.format(
        env.name, distro.capitalize(), env.version, time.monotonic() - start))
    say(contents(env, env.done('complete-test', key)))
    return env


def contents(env, full):
    """Say which of both environments the user has."""
    return '{} is the {}'.format(env.name, (
        'full environment: node, reports, depth cameras, autopilots, tests' if full else
        'small environment of make demo; make env adds reports, depth cameras, autopilots, tests'))
