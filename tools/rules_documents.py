# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rules of the documents: generated parts, lists and commands say what the package does.

Every command in README and docs/ is parsed by what would run it; those of others are not run. The
tools of this package parse their arguments and stop there, parameters are checked as at the start
of a node, arguments of launch files are compared, targets of make are replaced by their recipes.
Of the programs in bench/ the options are compared.
"""

import argparse
import ast
import contextlib
import importlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from unittest import mock
from xml.etree import ElementTree

from rules_code import FILES, layer_of, nodes as syntax, ROOT
import yaml

#: Keys of rosdep for modules whose package has another name.
ROSDEP = {'numpy': 'python3-numpy', 'scipy': 'python3-scipy', 'yaml': 'python3-yaml',
          'transforms3d': 'python3-transforms3d', 'tf2_ros': 'tf2_ros_py',
          'jinja2': 'python3-jinja2', 'aiohttp': 'python3-aiohttp', 'rich': 'python3-rich'}
#: Modules that need no dependency; the command looks for pyarrow before it imports it.
PRESENT = {*sys.stdlib_module_names, 'optitrack_vrpn', 'pyarrow'}
#: Not run: programs of others, and what needs their hardware, their network or root.
NOT_RUN = {
    'apt', 'cd', 'chrt', 'colcon', 'export', 'git', 'ip', 'pip', 'rosdep', 'rviz2', 'ss', 'source',
    'sudo', 'sysctl', 'taskset', 'unshare', 'docker', 'ntpdate', 'chronyc'}
#: Not run: subcommands of ROS 2's own tools.
ROS2 = {'bag', 'lifecycle', 'mocap4r2', 'node', 'param', 'pkg', 'service', 'topic'}
PLACEHOLDER = re.compile(r'\.\.\.|\b(TOOL|COMMAND|ARGUMENTS|NAME|FILE|FOLDER|CORPUS|PATH)\b')


def the_architecture_page_has_a_row_for_every_package():
    text = (ROOT / 'docs' / 'architecture.md').read_text()
    table = text.partition('## Packages')[2].partition('## Rules')[0]
    rows = {name.removesuffix('/').replace('/', '.') for line in table.splitlines()
            for name in re.findall(r'`([\w/.]+)`', line.partition('|')[2].partition('|')[0])}
    return rows ^ ({layer_of(path) for path in FILES} - {'__init__', '__main__'})


def the_readme_lists_every_tool():
    from optitrack_vrpn.cli.rows_io import tools
    rows = (ROOT / 'README.md').read_text(encoding='utf-8').partition(
        '## Commands')[2].partition('\n## ')[0].splitlines()
    listed = {name for row in rows for name in re.findall('`([a-z_]+)`', row.split(' | ')[0])}
    return listed ^ {tool.name for tool in tools()}


def every_tool_is_one_row_with_a_line_about_it():
    from optitrack_vrpn.cli.rows_io import tools
    names = [tool.name for tool in tools()]
    return [tool.name for tool in tools()
            if not tool.summary or '\n' in tool.summary or names.count(tool.name) > 1]


def generated_files_are_what_the_settings_say():
    from optitrack_vrpn.cli.tools.parameters_command import generated
    return [f'{path.name}: run make docs' for path, text in generated(ROOT).items()
            if path.read_text() != text]


def every_parameter_is_described_and_bounded():
    from optitrack_vrpn.cli.rows_io import nodes
    from optitrack_vrpn.cli.tools.parameters_command import settings_class
    from optitrack_vrpn.core.settings.parameters import parameters_of
    for node in nodes():
        for row in parameters_of(settings_class(node)):
            text = row.rule.doc
            if not text or text != text.strip() or text[-1] in '.;,' or (
                    row.hint in (float, int) and None in (row.rule.low, row.rule.high)):
                yield f'{node.name}: {row.name}'


def pages_show_what_is_defined_elsewhere():
    """Check lists and diagrams that are written or generated once in a while."""
    from optitrack_vrpn.guests.autopilot.parameters import rules
    from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
    from optitrack_vrpn.sim.scenario_io import reference
    from optitrack_vrpn.stream.bodies.states import mermaid

    def page(name):
        return (ROOT / 'docs' / name).read_text(encoding='utf-8')
    if not page('../config/scenarios/README.md').endswith(reference()):
        yield 'config/scenarios/README.md: the text of optitrack_vrpn.sim.scenario_io.reference()'
    if f'<!-- transitions: begin -->\n{mermaid()}\n<!-- transitions: end -->' not in (
            page('bodies.md')):
        yield 'bodies.md: python -m bench.bodies --write-diagram'
    shortened = page('autopilot.md') + page('autopilot.md').replace('`_', '`EK3_SRC1_')
    for kind in ('px4', 'ardupilot'):
        for rule in rules(kind, plan(BridgeSettings(body='cf1', autopilot=kind))):
            if rule.name not in shortened:
                yield f'autopilot.md: {rule.name}'


def launch_files_have_the_same_arguments_everywhere():
    """Check the launch file of the node, its form in YAML, and the page that lists them."""
    with launch_stood_in():
        rows = runpy.run_path(str(ROOT / 'launch' / 'optitrack_vrpn.launch.py'))['ARGUMENTS']
    table = re.search(r'^\| launch argument \|.*\n\|[-|]+\n((?:\|.*\n)+)',
                      (ROOT / 'docs' / 'lab.md').read_text(), re.MULTILINE)
    if [name for row in table[1].splitlines()
            for name in re.findall(r'`(\w+)`', row.split('|')[1])] != [row[0] for row in rows]:
        yield 'lab.md: the table of arguments'
    entities = yaml.safe_load((ROOT / 'launch' / 'optitrack_vrpn.launch.yaml').read_text())[
        'launch']
    if {one['arg']['name']: one['arg']['description'] for one in entities if 'arg' in one} != {
            row[0]: row[2] for row in rows}:
        yield 'optitrack_vrpn.launch.yaml: the arguments'
    include, = (one['include'] for one in entities if 'include' in one)
    if not include['file'].endswith('/launch/optitrack_vrpn.launch.py') or {
            row['name']: row['value'] for row in include['arg']} != {
            row[0]: f'$(var {row[0]})' for row in rows}:
        yield 'optitrack_vrpn.launch.yaml: what it passes on'


def setup_installs_the_tools_and_all_files():
    """Replace setup(), to see what setup.py itself hands to setuptools."""
    from optitrack_vrpn import __version__
    from optitrack_vrpn.cli.rows_io import console_scripts
    script = ('import json, runpy, setuptools\n'
              'setuptools.setup = lambda cmdclass, **given: print(json.dumps(given))\n'
              "runpy.run_path('setup.py')\n")
    run = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True, cwd=ROOT,
                         env={**os.environ, 'PYTHONPATH': str(ROOT)})
    if run.returncode:
        return run.stderr.splitlines()
    given = json.loads(run.stdout)
    installed = {path for _, paths in given['data_files'] for path in paths}
    present = {str(path.relative_to(ROOT)) for folder in ('launch', 'config')
               for path in ROOT.joinpath(folder).rglob('*')
               if path.is_file() and path.suffix != '.pyc'}
    package = ElementTree.parse(ROOT / 'package.xml').getroot()
    return [
        *installed ^ {*present, 'package.xml', 'resource/optitrack_vrpn'},
        *set(given['packages']) ^ {'.'.join(path.relative_to(ROOT).parent.parts)
                                   for path in FILES},
        *(name for name, wrong in (
            ('entry points', given['entry_points'] != {'console_scripts': console_scripts()}),
            ('version in setup.py', given['version'] != __version__),
            ('version in package.xml', package.findtext('version') != __version__),
            ('name in package.xml', package.findtext('name') != 'optitrack_vrpn'),
            ('format of package.xml', package.get('format') != '3'),
            ('build type', package.findtext('export/build_type') != 'ament_python')) if wrong)]


def needed_modules(path):
    """List the modules that a file cannot do without: imported outside `try: ... ImportError`."""
    optional = {id(inner) for node in syntax(path) if type(node).__name__ == 'Try'
                if any('ImportError' in names_of(handler) or
                       'ModuleNotFoundError' in names_of(handler) for handler in node.handlers)
                for statement in node.body for inner in ast.walk(statement)}
    for node in syntax(path):
        if id(node) not in optional:
            if isinstance(node, ast.Import):
                yield from (alias.name.split('.')[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module.split('.')[0]


def names_of(handler):
    """Name the errors that a handler catches."""
    return ast.dump(handler.type) if handler.type else ''


def package_xml_names_every_dependency():
    """Every import without a fallback, and what reads launch files in Python, YAML and XML."""
    package = ElementTree.parse(ROOT / 'package.xml').getroot()
    declared = {element.text for element in package.findall('exec_depend')}
    yield from {'launch', 'launch_yaml', 'ros2launch'} - declared
    yield from {'launch_xml'} - {element.text for element in package.findall('test_depend')}
    for path in (*FILES, *(ROOT / 'launch').rglob('*.py')):
        yield from (f'{path.relative_to(ROOT)} imports {name}' for name in needed_modules(path)
                    if name not in PRESENT and ROSDEP.get(name, name) not in declared)


def commands_of_the_documents_are_understood():
    pages = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
    found = {}
    for page in pages:
        for command in commands_of(page.read_text()):
            words = command.split()
            if words and words[0] in ('ros2', 'make', 'python', 'python3', '.venv/bin/python'):
                found.setdefault(command, page.name)
    for command, name in found.items():
        said = mistake(command)
        if said:
            yield f'{name}: {command}: {said}'


def mistake(command):
    """Say what is wrong with a command of the documents; '' if it is understood."""
    before, folder, said = sys.argv, os.getcwd(), io.StringIO()
    with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stderr(said):
        os.chdir(empty)
        try:
            check(command)
        except (AssertionError, SystemExit, ValueError, OSError) as error:
            return said.getvalue().strip() or repr(error)
        finally:
            sys.argv = before
            os.chdir(folder)
    return ''


class ParsedError(Exception):
    """A tool has parsed its arguments."""


def commands_of(text):
    """Find the commands of a page: in blocks of code, and in the text."""
    block, joined = False, ''
    for line in text.splitlines():
        if line.lstrip().startswith('```'):
            block = not block
        elif block or joined or re.match(r'    \S', line):
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


@contextlib.contextmanager
def launch_stood_in():
    """Let launch files load where ROS 2's launch is not installed: PyPI has none."""
    names = ('launch', 'launch.actions', 'launch.launch_description_sources',
             'launch.event_handlers', 'launch.substitutions', 'launch_ros', 'launch_ros.actions',
             'launch_ros.parameter_descriptions',
             'launch_ros.substitutions')
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in names}):
        yield


def check_tool(name, arguments):
    """Let a tool parse its arguments, and check the parameters of its node."""
    from optitrack_vrpn.cli.rows_io import tools
    tool, = [one for one in tools() if one.name == name]
    module, function = tool.function.split(':')
    sys.argv = [name, *arguments]
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
    from optitrack_vrpn.cli.rows_io import nodes
    from optitrack_vrpn.core.settings.parameters import parameters_of, sift
    from optitrack_vrpn.stream.bodies.settings import is_body_setting
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


def check(command):
    """
    Check one command.

    :raises AssertionError: or another error, if it would not be understood.
    """
    words = shlex.split(command, comments=True)
    while words[0] in ('python', 'python3', '.venv/bin/python') or '=' in words[0]:
        program = words.pop(0)
        if '=' not in program:
            if words[:2] == ['-m', 'optitrack_vrpn']:
                check_tool(words[2], words[3:])
            else:
                check_program(words)
            return
    if words[0] == 'make':
        targets = [word for word in words[1:] if '=' not in word]
        variables = dict(word.split('=', 1) for word in words[1:] if '=' in word)
        for line in (line for target in targets for line in recipes(target)):
            line = line.replace('$(ARGS)', variables.get('ARGS', ''))
            found = re.match(r'\t\$\(RUN\) (?:--(?:runtime|installed) )?(.*)', line)
            if found and '-m optitrack_vrpn' in line:
                check(f'python {found[1]}')
            elif found and 'ARGS' in variables and variables['ARGS'] in line:
                check_program(shlex.split(found[1]))
    elif words[:2] == ['ros2', 'run']:
        if words[2] == 'optitrack_vrpn':
            check_tool(words[3], words[4:])
    elif words[:2] == ['ros2', 'launch']:
        values = dict(word.split(':=', 1) for word in words[4:])
        with launch_stood_in():
            rows = runpy.run_path(str(ROOT / 'launch' / words[3]))['ARGUMENTS']
        assert set(values) <= {name for name, *_ in rows}, 'unknown arguments of a launch file'
    else:
        assert words[0] in NOT_RUN or (words[0] == 'ros2' and words[1] in ROS2)


RULES = (
    the_architecture_page_has_a_row_for_every_package, the_readme_lists_every_tool,
    every_tool_is_one_row_with_a_line_about_it, generated_files_are_what_the_settings_say,
    every_parameter_is_described_and_bounded, pages_show_what_is_defined_elsewhere,
    launch_files_have_the_same_arguments_everywhere, setup_installs_the_tools_and_all_files,
    package_xml_names_every_dependency, commands_of_the_documents_are_understood)
