# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The environment of the make targets: messages about missing parts, and repeated runs.

Everything works on a copy of `tools/` and `underlay/`, so that this checkout's own environment is
left alone. Nothing is downloaded: where packages are needed, empty ones of their names stand in.
"""

import importlib
import os
from pathlib import Path
import platform
import shutil
import subprocess
import sys
import types

from conftest import lacking
import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.skipif(not (ROOT / 'tools').is_dir(), reason='runs in a checkout alone'),
    pytest.mark.skipif(sys.platform != 'linux', reason='the environment is for Linux'),
]
on_x86 = pytest.mark.skipif(platform.machine() != 'x86_64', reason='PyPI has ROS 2 for x86_64')
#: What would let this run's own ROS 2, or the make that runs it, into the copy.
FOREIGN = ('AMENT_PREFIX_PATH', 'PYTHONPATH', 'PYTHON', 'ROS_DISTRO', 'OPTITRACK_VRPN_ROS',
           'MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'ARGS')


@pytest.fixture
def checkout(tmp_path):
    """Copy what makes the environment."""
    folder = tmp_path / 'checkout'
    for name in ('tools', 'underlay'):
        shutil.copytree(ROOT / name, folder / name,
                        ignore=shutil.ignore_patterns('__pycache__'))
    for name in ('Makefile', 'setup.cfg'):
        shutil.copy(ROOT / name, folder)
    # The files that its rules are about are not copied.
    (folder / 'tools' / 'rules.py').write_text('')
    return folder


def run(checkout, *command, **variables):
    """Run a command in the copy, with these variables."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    environment.update(PYTHONDONTWRITEBYTECODE='1', **variables)
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True,
                          timeout=110)


def env(checkout, *arguments, **variables):
    return run(checkout, sys.executable, 'tools/env.py', *arguments, **variables)


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\n{text}\n')
    path.chmod(0o755)


# -- what is missing ---------------------------------------------------------------------------

@on_x86
@pytest.mark.parametrize('tools, cmake, said', [
    (['make', 'g++'], '', ['missing: cmake', 'sudo apt install cmake']),
    (['cmake', 'make'], '3.22.1', ['missing: g++', 'sudo apt install g++']),
    ([], '', ['missing: cmake, make, g++', 'sudo apt install cmake make g++']),
    (['cmake', 'make', 'g++'], '3.16.3', ['CMake 3.22 or newer', '3.16.3'])])
def test_missing_and_old_tools_are_named_with_how_to_get_them(
        checkout, tmp_path, tools, cmake, said):
    for tool in tools:
        program(tmp_path / 'bin' / tool, f'echo cmake version {cmake}')
    done = env(checkout, 'run', '-c', 'print(1)', PATH=str(tmp_path / 'bin'))
    assert (done.returncode, done.stdout) == (2, '') and 'Traceback' not in done.stderr
    assert not lacking(done.stderr, *said)
    assert not list(checkout.glob('.venv*')), 'something was made all the same'


@pytest.fixture
def parts(checkout, tmp_path, monkeypatch):
    """Load the modules of the copy, for what cannot be shown from outside."""
    names = ('environment', 'installer', 'from_pypi', 'from_sourced')
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(checkout / 'tools'))
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    loaded = types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    assert loaded.environment.ROOT == str(checkout)
    there = os.path.exists
    monkeypatch.setattr(
        os.path, 'exists', lambda path: path != '/usr/bin/python3' and there(path))
    monkeypatch.setenv('AMENT_PREFIX_PATH', '/opt/ros/none')
    monkeypatch.setenv('ROS_DISTRO', 'jazzy')
    yield loaded
    for name in names:
        del sys.modules[name]


# -- a second time -----------------------------------------------------------------------------

def test_a_second_run_builds_nothing_and_a_change_what_hangs_on_it(parts, monkeypatch, checkout):
    """Stages are only noted here: pip and CMake would need the network and minutes."""
    ran = []

    def note(self, stage, command, hint='', shown=False, **options):
        ran.append(stage)
        if stage == 'venv':
            os.makedirs(os.path.dirname(self.python))
            os.makedirs(self.site)
            Path(self.python).touch()
        if '-B' in command:
            os.makedirs(command[command.index('-B') + 1])

    monkeypatch.setattr(parts.environment.Environment, 'run', note)
    monkeypatch.setattr(parts.environment, 'base_python', lambda: os.path.realpath(sys.executable))
    monkeypatch.setattr(parts.environment, 'need_venv', lambda python: None)
    monkeypatch.setattr(parts.from_pypi, 'need_machine', lambda env: None)
    monkeypatch.setenv('OPTITRACK_VRPN_INSTALLER', 'pip')

    def made(**options):
        ran.clear()
        parts.from_pypi.make('jazzy', **options)
        return set(ran)
    interfaces = set(parts.from_pypi.INTERFACES)
    needed = set(parts.from_pypi.NEEDED)
    assert made(runtime_only=True) == {'venv', 'python', 'ros', 'check', *needed}, (
        'the demo must not wait for what only tests need')
    assert made(runtime_only=True) == set()
    assert made() == {'test', 'check', *interfaces}, 'the demo has but the messages'
    assert made(runtime_only=True) == set()
    assert made() == made(runtime_only=True) == set()
    definition = next((checkout / 'underlay' / 'tf2_msgs').rglob('*.msg'))
    definition.write_text(definition.read_text() + '# more\n')
    assert made() == {'tf2_msgs', 'check'}
    assert made() == set()
    for group, stages in (('runtime', {'python', 'check'}), ('test', {'check', 'test'}),
                          ('optional', {'check', 'test'})):
        requirements = checkout / 'tools' / f'requirements-{group}.txt'
        requirements.write_text(requirements.read_text() + '# more\n')
        assert made() == stages
        assert made() == set()


# -- a ROS 2 that is sourced -------------------------------------------------------------------

@pytest.fixture
def sourced(checkout, tmp_path, parts):
    """Make a stand-in for a ROS 2 installation that has all that is needed."""
    site = tmp_path / 'ros' / 'site'
    names = {'rclpy', *parts.from_sourced.RUNTIME, *parts.from_sourced.DEVELOPMENT,
             *parts.from_sourced.OPTIONAL}
    for folder in (*(site / name for name in names), checkout / 'optitrack_vrpn'):
        folder.mkdir(parents=True)
        (folder / '__init__.py').touch()
        (folder / '__main__.py').write_text(
            f'import rclpy, sys\nprint({folder.name!r}, *sys.argv[1:], rclpy.__file__)\n')
    (site / 'pytest' / '__init__.py').write_text(
        'def console_main():\n    from pytest import __main__\n')
    for part in ('launch', 'config', 'resource'):
        (checkout / part).mkdir()
    for name in ('setup.cfg', 'package.xml'):
        (checkout / name).touch()
    (checkout / 'setup.py').write_text(
        'from setuptools import setup\n'
        "setup(name='optitrack_vrpn', version='1', packages=['optitrack_vrpn'])\n")
    return {'AMENT_PREFIX_PATH': str(tmp_path / 'ros'), 'PYTHONPATH': str(site),
            'ROS_DISTRO': 'jazzy'}


# -- the run of the tests ----------------------------------------------------------------------

def test_a_pytest_that_a_signal_ended_is_no_success(checkout):
    code = (
        'import subprocess, sys; sys.path.insert(0, "tools"); import run_tests\n'
        'words = (("sh", "-c", text) for text in ("kill -9 $$", "exit 0"))\n'
        'sys.exit(run_tests.wait([subprocess.Popen(each) for each in words], False))')
    assert run(checkout, sys.executable, '-c', code).returncode == 128 + 9
