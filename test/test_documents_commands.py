# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Every command in README and docs/ is parsed by what would run it; those of others are not run.

The tools of this package parse their arguments and stop there, parameters are checked as at the
start of a node, arguments of launch files are declared, targets of make are replaced by their
recipes. Of the programs in bench/ the options are compared.
"""

import argparse
import contextlib
import importlib
from pathlib import Path
import re
import runpy
import shlex
import sys

from launch_kit import LAUNCH, loader
from optitrack_vrpn.bodies import is_body_setting
from optitrack_vrpn.cli import nodes, tools
from optitrack_vrpn.settings import parameters_of, sift
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
pytestmark = pytest.mark.skipif(not (ROOT / 'docs').is_dir(), reason='runs in a checkout alone')
#: Not run: programs of others, and what needs their hardware, their network or root.
NOT_RUN = {
    'apt', 'cd', 'chrt', 'colcon', 'export', 'git', 'ip', 'pip', 'rosdep', 'rviz2', 'ss', 'source',
    'sudo', 'sysctl', 'taskset', 'unshare', 'docker', 'ntpdate', 'chronyc'}
#: Not run: subcommands of ROS 2's own tools.
ROS2 = {'bag', 'lifecycle', 'mocap4r2', 'node', 'param', 'pkg', 'service', 'topic'}
PLACEHOLDER = re.compile(r'\.\.\.|\b(TOOL|COMMAND|ARGUMENTS|NAME|FILE|FOLDER|CORPUS|PATH)\b')


class ParsedError(Exception):
    """A tool has parsed its arguments."""


def commands_of(text):
    """Find the commands of a page: in blocks of code, and in the text."""
    block, joined = False, ''
    for line in text.splitlines():
        if line.lstrip().startswith('```'):
            block = not block
        elif block or re.match(r'    \S', line):
            line = joined + line.strip().removeprefix('$ ')
            joined = ''
            if line.endswith('\\'):
                joined = line[:-1]
                continue
            for part in line.split(' && '):
                yield re.split(r'\s{3,}', part.strip())[0]
        else:
            for found in re.findall(r'`((?:ros2|make|python) [^`]+)`', line):
                if not PLACEHOLDER.search(found) and len(found.split()) > 2 - (
                        found.startswith('make')):
                    yield found


def all_commands():
    """Give each command once, with the page where it stands first."""
    found = {}
    for page in PAGES:
        for command in commands_of(page.read_text()):
            words = command.split()
            if words and words[0] in ('ros2', 'make', 'python', 'python3', '.venv/bin/python'):
                found.setdefault(command, page.name)
    return [pytest.param(command, id=f'{page} {command}') for command, page in found.items()]


@contextlib.contextmanager
def arguments_alone():
    """End each tool as soon as it has parsed its arguments."""
    parse = argparse.ArgumentParser.parse_known_args

    def and_stop(self, *arguments, **options):
        _, unknown = parse(self, *arguments, **options)
        raise ParsedError(unknown)
    argparse.ArgumentParser.parse_known_args = and_stop
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_known_args = parse


def check_tool(name, arguments, monkeypatch):
    """Let a tool parse its arguments, and check the parameters of its node."""
    tool, = [one for one in tools() if one.name == name]
    module, function = tool.function.split(':')
    monkeypatch.setattr(sys, 'argv', [name, *arguments])
    with arguments_alone():
        try:
            getattr(importlib.import_module(module), function)()
        except ParsedError as parsed:
            assert not parsed.args[0]
        else:
            raise AssertionError(f'{name} parses no arguments')
    values = dict(re.match(r'(?:[\w/]+:)?([\w.]+):=(.*)', text).groups()
                  for flag, text in zip(arguments, arguments[1:]) if flag == '-p')
    if values:
        check_parameters(name.replace('_node', ''), values)


def check_parameters(node, values):
    """Check names and values of parameters as the node does at its start."""
    row, = [one for one in nodes() if one.name == node]
    module, settings = row.settings.split(':')
    settings = getattr(importlib.import_module(module), settings)
    allowed = {one.name for one in parameters_of(settings)} | {'autostart', 'use_sim_time'}
    assert not {name for name in values if name not in allowed and not is_body_setting(name)}
    _, wrong = sift(settings, {
        name: yaml.safe_load(value) for name, value in values.items()
        if not PLACEHOLDER.search(value) and not is_body_setting(name)})
    assert not wrong


def check_program(arguments):
    """Check a program of bench/ or tools/: its file, and its options."""
    module = arguments[0] == '-m'
    name = arguments[1].replace('.', '/') + '.py' if module else arguments[0]
    text = (ROOT / name).read_text()
    options = {word.partition('=')[0] for word in arguments[1:] if word.startswith('--')}
    assert not {option for option in options if f"'{option}'" not in text}


def recipes(target):
    """Give the lines of a target of the Makefile."""
    text = (ROOT / 'Makefile').read_text()
    found = re.search(rf'^{target}:[^\n]*\n((?:\t[^\n]*\n)*)', text, re.MULTILINE)
    assert found, f'make has no target {target}'
    return found[1].splitlines()


def check(command, monkeypatch):
    words = shlex.split(command, comments=True)
    while words[0] in ('python', 'python3', '.venv/bin/python') or '=' in words[0]:
        program = words.pop(0)
        if '=' not in program:
            if words[:2] == ['-m', 'optitrack_vrpn']:
                check_tool(words[2], words[3:], monkeypatch)
            else:
                check_program(words)
            return
    if words[0] == 'make':
        targets = [word for word in words[1:] if '=' not in word]
        variables = dict(word.split('=', 1) for word in words[1:] if '=' in word)
        for line in (line for target in targets for line in recipes(target)):
            line = line.replace('$(ARGS)', variables.get('ARGS', ''))
            found = re.match(r'\t\$\(RUN\) (?:--runtime )?(.*)', line)
            if found and '-m optitrack_vrpn' in line:
                check(f'python {found[1]}', monkeypatch)
            elif found and 'ARGS' in variables and variables['ARGS'] in line:
                check_program(shlex.split(found[1]))
    elif words[:2] == ['ros2', 'run']:
        if words[2] == 'optitrack_vrpn':
            check_tool(words[3], words[4:], monkeypatch)
    elif words[:2] == ['ros2', 'launch']:
        values = dict(word.split(':=', 1) for word in words[4:])
        loader(monkeypatch)    # stand-ins for the modules of launch
        *declared, _ = runpy.run_path(
            str(LAUNCH / words[3]))['generate_launch_description']().given[0]
        assert set(values) <= {one.given[0] for one in declared}
    else:
        assert words[0] in NOT_RUN or (words[0] == 'ros2' and words[1] in ROS2)


@pytest.mark.parametrize('command', all_commands())
def test_a_command_of_the_documents_is_understood(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    check(command, monkeypatch)


@pytest.mark.parametrize('command', [
    'ros2 run optitrack_vrpn doctor --sever 10.0.0.1', 'make bench-nothing',
    'ros2 run optitrack_vrpn optitrack_vrpn_node --ros-args -p frames.world:=/map',
    'ros2 run optitrack_vrpn optitrack_vrpn_node --ros-args -p sever:=a',
    "make demo ARGS='--secnds 5'", 'python -m bench.gantry --no-such-option',
    'ros2 launch optitrack_vrpn optitrack_vrpn.launch.py sever:=a', 'sudo_make_me_a_sandwich'])
def test_a_command_that_is_wrong_is_found(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, SystemExit, ValueError)):
        check(command, monkeypatch)
