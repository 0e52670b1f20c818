# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compiled modules give the same results as Python, and run only with unchanged sources."""

import ast
import os
from pathlib import Path
import shutil
import subprocess
import sys

from hypothesis import given, strategies as st
from optitrack_vrpn.cli.command_io import load
from optitrack_vrpn.cli.compiled import build_io, importer_io
from optitrack_vrpn.cli.compiled.modules import folder_name, MODULES, SWITCH
from optitrack_vrpn.cli.rows_io import tools
from optitrack_vrpn.core.errors import BackendUnavailableError
import pytest

PACKAGE = importer_io.PACKAGE
ROOT = PACKAGE.parent
needs_compiled = pytest.mark.skipif(
    not importer_io.MODE.compiled, reason=f'the path of a pose runs {importer_io.MODE.text}')

REPLAY = """
import sys
from optitrack_vrpn import RUNS
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.drivers.vrpn.connection import Connection
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from sessions import sessions
print(RUNS, file=sys.stderr)
for name in ('vrpn_server_spin', 'motive_like_5x240', 'udp_lob', 'late_server_then_restart'):
    for session in sessions(name):
        connection = Connection()
        pipeline = Pipeline(PipelineConfig(
            estimate=EstimateConfig(estimate_motion=True), server_motion=True),
            lambda channel: setattr(channel, 'wants_motion', True))
        for action in session.server_actions:
            take = connection.receive_stream if action.kind == 'tcp' else (
                connection.receive_datagram)
            for sample in pipeline.process(
                    to_frames(take(action.data)), action.time_ns, 0):
                print(sample.channel.names.motive, *sample[1:])
        print(connection.counters, pipeline.dropped, [e.text for e in pipeline.take_events()])
"""


def python(*arguments, package=ROOT, **variables):
    """Run Python on a copy of the package."""
    path = os.pathsep.join([str(package), str(ROOT / 'test'), os.environ.get('PYTHONPATH', '')])
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=100,
        cwd=package, env={**os.environ, SWITCH: '1', 'PYTHONPATH': path, **variables})


def copied(folder):
    """Copy the package without its compiled modules."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns(
        '__pycache__', '_compiled'))
    return folder


def mode(package, **variables):
    """Ask a copy how the path of a pose runs."""
    return python('-c', 'import optitrack_vrpn; print(optitrack_vrpn.RUNS)', package=package,
                  **variables).stdout.strip()


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=5), min_size=1), st.randoms())
def test_the_name_depends_on_every_byte_and_on_no_order(files, random):
    name = folder_name(files.items(), 'tag')
    shuffled = list(files.items())
    random.shuffle(shuffled)
    assert folder_name(shuffled, 'tag') == name
    assert folder_name(files.items(), 'other') != name
    path = random.choice(sorted(files))
    assert folder_name({**files, path: files[path] + b'x'}.items(), 'tag') != name
    assert folder_name([(key + 'x', value) for key, value in files.items()], 'tag') != name


def test_every_compiled_module_and_what_it_imports_decides_about_its_use():
    known = {path for path, _ in importer_io.source_files(PACKAGE)}
    assert {module.partition('.')[2].replace('.', '/') + '.py' for module in MODULES} <= known
    script = ('import importlib, sys\n'
              f'for name in {MODULES!r}: importlib.import_module(name)\n'
              "print(*[m for m in sys.modules if m.startswith('optitrack_vrpn.')])")
    loaded = python('-c', script, **{SWITCH: '0'}).stdout.split()
    files = {Path(*module.split('.')[1:]) for module in loaded}
    needed = {path.with_suffix('.py').as_posix() for path in files
              if (PACKAGE / path).with_suffix('.py').is_file()}
    # What runs before any of them, and has no part in a pose.
    assert {'drivers/vrpn/connection.py', 'stream/pipeline.py'} <= needed
    assert needed - known <= {'cli/compiled/importer_io.py', 'cli/early.py'}


def test_no_compiled_module_calculates_with_two_sums():
    """Mypyc 2.4 takes the union of int and float that sum() has for int where both sides are."""
    def is_sum(node):
        return isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'sum'

    paths = [ROOT / (module.replace('.', '/') + '.py') for module in MODULES]
    assert not [f'{path.name}:{node.lineno}' for path in paths
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.BinOp) and is_sum(node.left) and is_sum(node.right)]


@needs_compiled
def test_compiled_and_plain_give_the_same_poses_of_recorded_sessions():
    compiled = python('-c', REPLAY)
    plain = python('-c', REPLAY, **{SWITCH: '0'})
    assert compiled.stderr.strip() == 'compiled'
    assert plain.stderr.strip().startswith('as plain Python')
    assert compiled.stdout.count('\n') > 1000
    assert compiled.stdout == plain.stdout


@needs_compiled
def test_edited_sources_run_as_python(tmp_path):
    package = copied(tmp_path)
    assert mode(package) == 'compiled'
    with open(package / PACKAGE.name / 'motion' / 'rotation.py', 'a') as stream:
        stream.write('EDITED = 1\n')
    assert 'other sources' in mode(package)
    run = python('-c', 'from optitrack_vrpn.core.rotation import EDITED; print(EDITED)',
                 package=package)
    assert run.stdout == '1\n', run.stderr


@needs_compiled
def test_the_switch_turns_compiled_modules_off():
    for value in ('0', 'off', 'False'):
        assert mode(ROOT, **{SWITCH: value}) == f'as plain Python: switched off by {SWITCH}'


@pytest.mark.parametrize(('permissions', 'trusted'), [(0o755, True), (0o777, False)])
def test_broken_and_world_writable_modules_are_not_loaded(
        tmp_path, permissions, trusted):
    package = copied(tmp_path)
    folder = package / PACKAGE.name / importer_io.INSTALLED / importer_io.name_for(
        package / PACKAGE.name)
    folder.mkdir(parents=True)
    (folder / f'abc__mypyc{importer_io.SUFFIX}').write_bytes(b'no library')
    folder.chmod(permissions)
    assert ('cannot be loaded' in mode(package)) is trusted


def test_a_missing_compiler_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, '1')
    monkeypatch.setenv('PATH', str(tmp_path))
    pytest.importorskip('mypyc')
    monkeypatch.setattr(build_io.sysconfig, 'get_config_var', lambda name: 'no-such-cc -pthread')
    with pytest.raises(BackendUnavailableError, match='no-such-cc is'):
        build_io.build(tmp_path / 'made')
    assert not (tmp_path / 'made').exists()


@pytest.mark.slow
def test_what_is_built_is_found_and_is_not_built_again(monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, '1')
    if build_io.obstacle():
        pytest.skip(build_io.obstacle())
    package = copied(tmp_path)
    place = package / PACKAGE.name / importer_io.INSTALLED
    # Two modules are as good as all, and take seconds.
    modules = 'optitrack_vrpn.core.rotation', 'optitrack_vrpn.core.axes'
    made = build_io.build(place, package / PACKAGE.name, modules)
    assert [path.name for path in place.iterdir()] == [made.name]
    assert (made / 'optitrack_vrpn' / 'core' / f'rotation{importer_io.SUFFIX}').is_file()
    before = made.stat().st_mtime_ns
    assert build_io.build(place, package / PACKAGE.name, modules) == made
    assert made.stat().st_mtime_ns == before


def test_there_is_a_command_for_it():
    assert 'compile' in {tool.name for tool in tools()}
    run = python('-m', 'optitrack_vrpn', 'compile', '--check', **{SWITCH: '0'})
    assert (run.returncode, run.stdout) == (1, f'as plain Python: switched off by {SWITCH}\n')


def test_the_command_says_why_nothing_is_compiled(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(SWITCH, '0')
    monkeypatch.setattr(sys, 'prefix', str(tmp_path))    # a place without compiled modules
    compile_here = next(tool for tool in tools() if tool.name == 'compile').function
    for options, code in (([], 1), (['--if-possible'], 0)):
        monkeypatch.setattr(sys, 'argv', ['compile', *options])
        assert load('compile', compile_here, 1)() == code
        assert f'switched off by {SWITCH}' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_colcons_prefix_does_not_change_where_compiled_modules_lie(monkeypatch, tmp_path):
    # As colcon's sitecustomize does for `colcon build --symlink-install`.
    place = importer_io.build_folder()
    monkeypatch.setattr(sys, 'real_prefix', sys.prefix, raising=False)
    monkeypatch.setattr(sys, 'prefix', str(tmp_path))
    assert importer_io.build_folder() == place
