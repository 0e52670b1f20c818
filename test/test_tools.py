# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The tools: one table shared by `ros2 run`, `python -m` and setup.py."""

import importlib
import importlib.util
import os
from pathlib import Path
import signal
import subprocess
import sys

from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.rows_io import tools
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError, TransportError
import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = tools()


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          timeout=60, env=dict(os.environ, PYTHONPATH=str(ROOT)), **options)


def main_of(name):
    """Return the function of a tool, which reads sys.argv."""
    module, function = next(each.function for each in TOOLS if each.name == name).split(':')
    return getattr(importlib.import_module(module), function)


@pytest.mark.parametrize('output, code, said', [
    ('>&3', 128 + signal.SIGPIPE, ''), ('>&-', 0, ''),
    ('>/dev/full', 1, 'optitrack_vrpn: [Errno 28] No space left on device\n')])
@pytest.mark.parametrize('arguments', ['', 'parameters'])
def test_a_command_whose_output_cannot_be_written_ends_without_a_traceback(
        arguments, output, code, said):
    # 3 is a pipe whose reader has ended.
    result = subprocess.run(['bash', '-c', (
        f'exec 3> >(true); wait $!; {sys.executable} -m optitrack_vrpn {arguments} {output}')],
        capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert result.returncode == code
    assert result.stderr == said.replace('optitrack_vrpn', arguments or 'optitrack_vrpn')


def test_python_m_lists_the_tools_without_ros():
    """A machine without ROS 2 still gets the list; numpy and rclpy load with the tool alone."""
    result = run('-c', "import sys; sys.argv = ['optitrack_vrpn']\n"
                       'from optitrack_vrpn.__main__ import main\n'
                       "main(); assert not {'rclpy', 'numpy'} & set(sys.modules)")
    assert result.returncode == 0, result.stderr
    shown = ' '.join(result.stdout.split())
    for tool in TOOLS:
        assert f' {tool.name} {tool.summary}' in shown


def run_module(before, *arguments):
    """Run a tool in a Python in which something was done before."""
    return run('-c', f'import os, runpy, signal, sys\n{before}\n'
                     f'sys.argv = ["optitrack_vrpn", *{arguments!r}]\n'
                     'runpy.run_module("optitrack_vrpn", run_name="__main__")')


@pytest.mark.parametrize('arguments', [
    ('optitrack_vrpn_node',), ('demo',), ('topics', '/x'), ('mocap_control', 'status')],
    ids=lambda arguments: arguments[0])
def test_without_ros_a_tool_that_needs_it_says_so_in_one_line(arguments):
    hidden = ('rclpy', 'rcl_interfaces', 'builtin_interfaces', 'geometry_msgs', 'diagnostic_msgs')
    result = run_module(f'sys.modules.update(dict.fromkeys({hidden}))', *arguments)
    line, = result.stderr.splitlines()
    assert line.startswith(f'{arguments[0]}: ROS 2 not found') and 'make env' in line
    assert result.returncode in (1, 2)


@pytest.mark.parametrize(('missing', 'found', 'words'), [
    ('control_msgs', True, 'control_msgs not found .*: install ros-jazzy-control-msgs,'),
    ('control_msgs', False, 'ROS 2 not found .*: source its setup.bash'),
    ('rclpy', False, 'ROS 2 not found .*: source its setup.bash'),
    ('scipy', True, 'scipy not found .*: install it')])
def test_a_missing_dependency_is_reported_with_its_remedy(
        missing, found, words, monkeypatch, tmp_path):
    monkeypatch.setenv('ROS_DISTRO', 'jazzy')
    monkeypatch.setattr(sys, 'prefix', str(tmp_path))
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name if found else None)
    with pytest.raises(BackendUnavailableError, match=words), loading('tool'):
        raise ImportError(f'No module named {missing!r}', name=missing)
    # In the environment of `make demo`, neither apt nor setup.bash helps.
    (tmp_path / 'stamps').mkdir()
    (tmp_path / 'stamps' / 'venv').touch()
    with pytest.raises(BackendUnavailableError, match='make env') as caught, loading('tool'):
        raise ImportError(f'No module named {missing!r}', name=missing)
    assert 'install ' not in str(caught.value).replace('installs', '')
    assert 'setup.bash' not in str(caught.value)


def test_an_interrupt_that_left_an_eval_does_not_replace_the_exit_code(tmp_path):
    """As in the middle of an import, which evaluates the code of its named tuples."""
    (tmp_path / 'tool.py').write_text(
        'import signal, sys\n'
        'from optitrack_vrpn.cli.command_io import command\n'
        "@command('imu_sim')\n"
        'def main():\n'
        '    try:\n'
        "        eval('signal.raise_signal(signal.SIGINT)')\n"
        '    except KeyboardInterrupt:\n'
        '        return 0\n'
        'sys.exit(main())\n')
    result = run('-m', 'tool', cwd=tmp_path)
    assert (result.stderr, result.returncode) == ('', 0)


@pytest.mark.parametrize('raised, code', [
    (KeyboardInterrupt('stopped'), 130), (ConfigurationError('reason'), 64),
    (BackendUnavailableError('reason'), 1), (TransportError('reason'), 1),
    (FileNotFoundError(2, 'No such file', 'a.csv'), 1)], ids=lambda each: type(each).__name__)
def test_an_error_of_a_command_is_one_line_and_an_exit_code(raised, code, capsys):
    @command('tool')
    def main():
        raise raised

    assert main() == code
    assert capsys.readouterr().err == f'tool: {raised}\n'


@pytest.mark.ros
@pytest.mark.parametrize('tool, arguments', [
    ('topics', ['a b']), ('topics', ['{body}']), ('gantry', ['--node', '/x//y', 'stop']),
    ('axis_bridge', ['--teach', 'x', '--topic', '/{body}//b'])])
def test_a_name_that_ros_does_not_accept_is_one_line(tool, arguments, monkeypatch, capsys):
    pytest.importorskip('rclpy', reason='needs ROS 2')
    monkeypatch.setattr(sys, 'argv', [tool, *arguments])
    assert main_of(tool)() == 64
    err = capsys.readouterr().err
    assert err.startswith(f'{tool}: ') and err.count('\n') == 1 and 'topic name' in err
