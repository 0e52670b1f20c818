# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What all commands share, in one table: help, version, wrong options and files, Ctrl-C."""

import ast
import importlib
import os
from pathlib import Path
import re
import shlex
import subprocess
import sys

from optitrack_vrpn import __version__, RUNS
from optitrack_vrpn.cli.command_io import NOT_ROS
from optitrack_vrpn.cli.rows_io import tools
import pytest
from recording_kit import BEGIN_NS, write_poses

ROOT = Path(__file__).resolve().parent.parent
TOOLS = tools()
NAMES = [tool.name for tool in TOOLS]
#: Commands that read a file of the user, with one that does not exist.
NODES = ('optitrack_vrpn_node', 'mavlink_bridge', 'axis_bridge', 'gantry_controller',
         'rgbd_image_proc', 'rgbd_odometry', 'rgbd_mapper')
MISSING = [
    'report no/such', 'export no/such -o x.csv', 'replay no/such', 'record --recover no/such',
    'calibrate imu no/such --body b --imu /x', 'calibrate base no/such --body b --placements p',
    'calibrate world no/such --reference p', 'rgbd_play no/such', 'motive_sim --scenario no/such',
    'rgbd_sim --scenario no/such', 'imu_sim --scenario no/such', 'demo --params-file no/such',
    'parameters --check no/such']
#: Commands that end by themselves: Ctrl-C gives 130. The others run until they are stopped: 0.
ENDING = ('demo', 'rgbd_demo', 'doctor', 'record', 'report', 'export', 'calibrate', 'gantry',
          'mocap_control', 'topics', 'parameters', 'compile')
OF_ROS = ('ament_index_python', 'diagnostic_updater', 'launch', 'launch_ros', 'rclpy', 'tf2_ros')


def run_here(words, monkeypatch, capsys):
    """Run a command in this process; give exit code, output and errors."""
    module, function = next(each.function for each in TOOLS if each.name == words[0]).split(':')
    monkeypatch.setattr(sys, 'argv', list(words))
    with pytest.raises(SystemExit) as end:
        sys.exit(getattr(importlib.import_module(module), function)())
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize('name', NAMES)
def test_version(name, monkeypatch, capsys):
    assert run_here([name, '--version'], monkeypatch, capsys) == (
        0, f'optitrack_vrpn {__version__} ({RUNS})\n', '')


@pytest.mark.parametrize('name', NAMES)
def test_help_is_at_most_80_columns_wide_and_describes_every_sub_command(
        name, monkeypatch, capsys):
    monkeypatch.setenv('COLUMNS', '200')
    code, text, err = run_here([name, '--help'], monkeypatch, capsys)
    assert (code, err) == (0, '') and text.startswith(f'usage: {name} ')
    verbs = re.findall(r'^    (\w+)  ', text, re.MULTILINE)
    texts = [text, *(run_here([name, verb, '--help'], monkeypatch, capsys)[1] for verb in verbs)]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 80
        description = re.split(r'\n\n', text)[1]
        assert re.fullmatch(r'[A-Z].*\.', description, re.DOTALL), text


@pytest.mark.parametrize('name', NAMES)
def test_a_wrong_option_is_one_line(name, monkeypatch, capsys):
    for option, hint in (('--no-such-option', r'allowed: |parameters are given'),
                         ('--verson', "did you mean '--version'|parameters are given")):
        code, out, err = run_here([name, option], monkeypatch, capsys)
        assert (code, out, err.count('\n')) == (64, '', 1), err
        assert re.match(f'{name}: there is no (option|argument) {option}; .*({hint})', err), err


@pytest.mark.parametrize('line, said', [
    ('mocap_control stat', "'stat' is not allowed; allowed: status, start, stop (did you mean"),
    ('gantry stopp', "did you mean 'stop'?"),
    ('doctor --server x --protocol natnt', "did you mean 'natnet'?"),
    ('parameters --node gantry_control', "did you mean 'gantry_controller'?"),
    ('export take -o x --formt csv', "there is no option --formt; did you mean '--format'?"),
    ('topics /a /b', "there is one argument too many: '/b'"),
    ('report take --rpe-seconds -1', '--rpe-seconds'), ('report take --max-offset nan', 'nan'),
    ("record -o x --topic ''", 'contains an empty pattern'),
    ('record -o x --bodies a,,b', 'contains an empty pattern'),
    ('report', 'required: '),
    ('topics /x --wait -1', 'above 0'),
    ('demo --server host:65536', "'65536' is not allowed"),
    ('demo --server ::1', 'IPv6'), ('demo --server ""', 'HOST:PORT'),
    ('demo --seconds nan', "'nan' is not"),
    ('demo --bodies 0', "'0' is not allowed; allowed is 1 to 500"),
    ('rgbd_demo -o no/such.html', 'there is no folder no'),
    ('demo --server 10.0.0.1 --bodies 2', 'omit it or --server'),
    ('doctor --no-ros', '--server'), ('doctor --server "a b"', 'a b'),
    ('doctor --server x --lift up', '--lift'),
    ('mocap_control start moc --namespace "/a b"', "'/a b' is not a namespace")])
def test_a_wrong_word_is_one_line_with_what_is_allowed(line, said, monkeypatch, capsys):
    code, out, err = run_here(shlex.split(line), monkeypatch, capsys)
    assert (code, out, err.count('\n')) == (64, '', 1) and said in err, err


@pytest.mark.parametrize('line', MISSING)
def test_a_missing_file_is_one_line_that_names_it(line, monkeypatch, capsys):
    code, out, err = run_here(shlex.split(line), monkeypatch, capsys)
    assert (code, out) == (64, ''), err
    said, = err.splitlines()
    assert said.startswith(f'{line.partition(" ")[0]}: ') and 'no/such' in said
    assert 'Errno' not in said


@pytest.mark.ros
@pytest.mark.parametrize('node', NODES)
def test_a_missing_parameter_file_is_one_line_that_names_it(node):
    # In a process of its own: a node takes over the signals and the domain of its process.
    done = subprocess.run(
        [sys.executable, '-m', 'optitrack_vrpn', node, '--ros-args', '--params-file', 'no/such'],
        cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (64, ''), done.stderr
    said, = done.stderr.splitlines()
    assert said.startswith(f'{node}: ') and 'no/such' in said and 'Errno' not in said


@pytest.mark.parametrize('line', [
    pytest.param('record -o {}', marks=pytest.mark.ros), 'record --raw -o {}/a.mcap',
    'report --force {}/a.csv -o {}/a.csv', 'export {} -o {}/a.mcap'])
def test_an_output_that_is_there_is_refused_in_one_line_that_names_it(line, tmp_path):
    write_poses(tmp_path / 'a', [('/drone/pose', BEGIN_NS, BEGIN_NS, (0, 0, 0), (0, 0, 0, 1))])
    (tmp_path / 'a' / 'a.csv').write_text('Format Version,1.23')
    before = {path: path.read_bytes() for path in (tmp_path / 'a').iterdir()}
    done = subprocess.run([sys.executable, '-m', 'optitrack_vrpn', *shlex.split(
        line.replace('{}', str(tmp_path / 'a')))], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (64, ''), done.stderr
    said, = done.stderr.splitlines()
    assert said.startswith(f'{line.partition(" ")[0]}: ') and str(tmp_path) in said
    assert before == {path: path.read_bytes() for path in (tmp_path / 'a').iterdir()}


#: A command that ends by itself and one that does not, in the modules that all commands load.
EARLY = [(name, module) for name in ('report', 'motive_sim') for module in (
    'optitrack_vrpn.core.errors', 'optitrack_vrpn.cli.arguments')]


@pytest.mark.parametrize('name, where', EARLY + [(name, '') for name in NAMES])
def test_an_interrupt_while_modules_load_is_an_end_with_one_exit_code(name, where, tmp_path):
    module = next(tool.function for tool in TOOLS if tool.name == name).partition(':')[0]
    (tmp_path / 'sitecustomize.py').write_text(
        'import os, signal, sys\n'
        'class Interrupt:\n'
        '    def find_spec(self, name, path=None, target=None):\n'
        f'        if name == {where or module!r}:\n'
        '            os.kill(os.getpid(), signal.SIGINT)\n'
        'sys.meta_path.insert(0, Interrupt())\n')
    result = subprocess.run(
        [sys.executable, '-m', 'optitrack_vrpn', name], capture_output=True, text=True,
        timeout=60, env={**os.environ, 'PYTHONPATH': f'{tmp_path}:{ROOT}'})
    assert result.returncode == (130 if name in ENDING else 0), result.stderr
    assert result.stderr in ('', f'{name}: stopped\n')


@pytest.mark.parametrize('given', ['docto', 'no_such'])
def test_an_unknown_command_is_one_line(given):
    result = subprocess.run([sys.executable, '-m', 'optitrack_vrpn', given], cwd=ROOT,
                            capture_output=True, text=True, timeout=60)
    line, = result.stderr.splitlines()
    assert result.returncode == 64 and repr(given) in line
    assert ("did you mean 'doctor'?" if given == 'docto' else 'allowed: ') in line


def test_what_pip_installs_is_not_taken_for_a_part_of_ros():
    """Each import that is neither of Python nor of a ROS package is in the list of the others."""
    imported = set()
    for path in (ROOT / 'optitrack_vrpn').rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition('.')[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition('.')[0])
    foreign = imported - set(sys.stdlib_module_names) - {'optitrack_vrpn'}
    unknown = {name for name in foreign - set(NOT_ROS) if name not in OF_ROS
               and not name.endswith(('_msgs', '_srvs', '_interfaces'))}
    assert not unknown
