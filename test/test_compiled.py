# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""An installed package is compiled and gives the same results; sources run as Python."""

import ast
import os
from pathlib import Path
import runpy
import shutil
import subprocess
import sys
from unittest import mock

import optitrack_vrpn
from optitrack_vrpn import RUNS
import pytest

ROOT = Path(__file__).resolve().parent.parent
REPLAY = """
import sys
from optitrack_vrpn import RUNS
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.drivers.vrpn.driver import UDP, VrpnDriver
from sessions import sessions
print(RUNS, file=sys.stderr)
for name in ('vrpn_server_spin', 'motive_like_5x240', 'udp_lob', 'late_server_then_restart'):
    for session in sessions(name):
        driver = VrpnDriver()
        connection = driver.connection
        pipeline = Pipeline(PipelineConfig(
            estimate=EstimateConfig(estimate_motion=True), server_motion=True),
            lambda channel: setattr(channel, 'wants_motion', True))
        for action in session.server_actions:
            items = driver.feed(
                'tcp' if action.kind == 'tcp' else UDP, action.data, action.time_ns)
            for sample in pipeline.process(items, action.time_ns, 0).samples:
                print(sample.channel.names.motive, *sample[1:])
        print(connection.counters, pipeline.dropped, [e.text for e in pipeline.take_events()])
"""


def python(*arguments, first=(), folder=None, **variables):
    """Run Python in a folder with other places for imports before those of this process."""
    path = os.pathsep.join([
        *map(str, first), os.environ.get('PYTHONPATH', ''), str(ROOT / 'test')])
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=100, cwd=folder,
        env={**os.environ, 'PYTHONPATH': path, **variables})


@pytest.fixture
def checkout(tmp_path):
    """Copy what setup.py needs; of the compiled modules only two, which takes seconds."""
    for part in ('optitrack_vrpn', 'resource', 'launch', 'config'):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns('__pycache__'))
    for name in ('setup.py', 'setup.cfg', 'package.xml'):
        shutil.copy(ROOT / name, tmp_path)
    text = (tmp_path / 'setup.py').read_text()
    assert '\nBUILDS = ' in text
    (tmp_path / 'setup.py').write_text(
        text.replace('\nBUILDS = ', '\nCOMPILED[2:] = []\nBUILDS = '))
    return tmp_path


def install(checkout, **variables):
    """Install below a checkout as colcon does."""
    return python('setup.py', '-q', 'build', 'install', '--prefix', str(checkout / 'installed'),
                  '--single-version-externally-managed', '--record', 'record.txt',
                  folder=checkout, **variables)


def built(checkout):
    """List the extension modules below a folder."""
    return sorted(path.name.partition('.')[0] for path in checkout.rglob('*.so'))


def compiled_modules():
    """List the files that setup.py compiles."""
    with mock.patch('setuptools.setup'):
        before = os.getcwd()
        os.chdir(ROOT)
        compiled = runpy.run_path('setup.py')['COMPILED']
        os.chdir(before)
    return compiled


def test_no_class_of_a_plain_module_inherits_from_a_compiled_one():
    """Mypyc refuses it when an object is made; class names occur once in the package."""
    classes = {str(path.relative_to(ROOT)): [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        for path in (ROOT / 'optitrack_vrpn').rglob('*.py')}
    modules = compiled_modules()
    compiled = {one.name for name in modules for one in classes[name]}
    assert 'Reader' in compiled
    assert not [f'{name}:{one.lineno}' for name in classes if name not in modules
                for one in classes[name] for base in one.bases
                if getattr(base, 'id', getattr(base, 'attr', '')) in compiled]


def test_no_compiled_module_calculates_with_two_sums():
    """Mypyc 2.4 takes the union of int and float that sum() has for int where both sides are."""
    def is_sum(node):
        return isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'sum'

    assert not [f'{name}:{node.lineno}' for name in compiled_modules()
                for node in ast.walk(ast.parse((ROOT / name).read_text()))
                if isinstance(node, ast.BinOp) and is_sum(node.left) and is_sum(node.right)]


@pytest.mark.skipif(
    Path(optitrack_vrpn.__file__).resolve().parent == ROOT / 'optitrack_vrpn',
    reason='needs the installed package: make test')
def test_the_installed_package_is_compiled_where_a_compiler_is():
    """An error of mypyc alone would otherwise skip every test of the compiled package."""
    pytest.importorskip('mypyc')
    if shutil.which(os.environ.get('CC') or 'cc') and os.environ.get(
            'OPTITRACK_VRPN_COMPILE') != '0':
        assert RUNS == 'compiled'


@pytest.mark.skipif(RUNS != 'compiled', reason='needs the installed package: make test')
def test_compiled_and_plain_give_the_same_poses_of_recorded_sessions(tmp_path):
    compiled = python('-c', REPLAY, folder=tmp_path)
    plain = python('-c', REPLAY, first=[ROOT], folder=tmp_path)
    assert compiled.stderr.strip() == 'compiled'
    assert plain.stderr.strip() == 'as plain Python'
    assert compiled.stdout.count('\n') > 1000
    assert compiled.stdout == plain.stdout


def test_edited_sources_run_as_python(checkout):
    with open(checkout / 'optitrack_vrpn' / 'core' / 'rotation.py', 'a') as stream:
        stream.write('EDITED = 1\n')
    run = python('-c', 'import optitrack_vrpn as package\n'
                 'from optitrack_vrpn.core.rotation import EDITED\n'
                 'print(package.RUNS, EDITED)', first=[checkout], folder=checkout)
    assert run.stdout == 'as plain Python 1\n', run.stderr


@pytest.mark.slow
def test_what_is_installed_is_compiled_and_what_is_developed_is_not(checkout):
    pytest.importorskip('mypyc')
    assert python('setup.py', '-q', 'egg_info', folder=checkout).returncode == 0
    assert python('setup.py', '-q', 'develop', '--install-dir', str(checkout), '--script-dir',
                  str(checkout / 'bin'), '--no-deps', first=[checkout],
                  folder=checkout).returncode == 0
    assert built(checkout) == []
    run = install(checkout)
    assert run.returncode == 0, run.stderr
    assert set(built(checkout / 'installed')) == {'axes', 'rotation', 'optitrack_vrpn__mypyc'}


@pytest.mark.slow
@pytest.mark.parametrize(('variables', 'reason'), [
    ({'CC': 'false'}, 'the C compiler failed'),
    ({'OPTITRACK_VRPN_COMPILE': '0'}, 'switched off by OPTITRACK_VRPN_COMPILE')])
def test_what_cannot_be_compiled_is_installed_as_python_with_the_reason(
        variables, reason, checkout):
    pytest.importorskip('mypyc')
    run = install(checkout, **variables)
    assert run.returncode == 0, run.stderr
    assert f'not compiled: {reason}' in run.stderr
    assert built(checkout) == []
    assert len(list(checkout.glob('installed/**/optitrack_vrpn/__init__.py'))) == 1
