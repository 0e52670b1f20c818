# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The architecture, held: pure folders do no IO, dependencies point one way, shells are thin."""

import ast
from pathlib import Path
import subprocess
import sys
from typing import NamedTuple

import optitrack_vrpn
import pytest

PACKAGE = Path(optitrack_vrpn.__file__).resolve().parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob('*.py'))
# Which layers a layer may import. `parameters` is a table of names and limits; `tools` of
# modules' names.
BELOW = {
    'errors': set(),
    'vrpn': {'errors'},
    'core': {'errors', 'vrpn'},
    'parameters': {'errors', 'vrpn', 'core'},
    'transport': {'errors', 'vrpn', 'core'},
    'sim': {'errors', 'vrpn', 'core', 'transport'},
    'ros': {'errors', 'vrpn', 'core', 'parameters', 'transport', 'sim'},
    'cli': {'errors', 'vrpn', 'core', 'parameters', 'transport', 'sim', 'ros'},
    '__main__': {'cli'},
    '__init__': set(),
}
PURE = ('errors', 'parameters', 'vrpn', 'core')
# IO, clocks, threads and logs. `time` includes its constants: nothing pure needs them.
IMPURE = {
    'asyncio', 'concurrent', 'ctypes', 'datetime', 'fcntl', 'http', 'io', 'logging',
    'multiprocessing', 'os', 'pathlib', 'queue', 'rclpy', 'sched', 'select', 'selectors', 'signal',
    'socket', 'socketserver', 'ssl', 'subprocess', 'sys', 'tempfile', 'threading', 'time',
    'urllib', 'warnings',
}


class Import(NamedTuple):
    """One imported module: who imports it and where."""

    layer: str
    module: str
    place: str


def layer_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix('.py')


def imports():
    """List every import of the package's files, wherever in a file it stands."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f'{path}: imports are absolute'
                # `from optitrack_vrpn import errors` imports a layer too
                modules = [f'{node.module}.{alias.name}' for alias in node.names] \
                    if node.module == 'optitrack_vrpn' else [node.module]
            else:
                continue
            for module in modules:
                yield Import(layer_of(path), module,
                             f'{path.relative_to(ROOT)}:{node.lineno} imports {module}')


IMPORTS = list(imports())


def test_the_imports_were_found():
    """Or else every test below would pass for want of anything to judge."""
    assert len(FILES) > 20
    assert any(found.module == 'socket' for found in IMPORTS)
    assert any(found.module.startswith('rclpy') for found in IMPORTS)
    assert {found.layer for found in IMPORTS} >= {'vrpn', 'core', 'transport', 'sim', 'ros', 'cli'}


def test_every_module_has_its_layer():
    assert {layer_of(path) for path in FILES} <= set(BELOW)


def test_dependencies_point_one_way():
    wrong = []
    for found in IMPORTS:
        parts = found.module.split('.')
        if parts[0] == 'optitrack_vrpn' and len(parts) > 1:
            if parts[1] not in {*BELOW[found.layer], found.layer, '__version__'}:
                wrong.append(found.place)
    assert not wrong


def test_pure_layers_import_nothing_that_does_io_or_reads_a_clock():
    assert not [found.place for found in IMPORTS
                if found.layer in PURE and found.module.split('.')[0] in IMPURE]


def test_pure_layers_open_no_files_and_print_nothing():
    wrong = [f'{path.relative_to(ROOT)}:{call.lineno}' for path in FILES
             if layer_of(path) in PURE for call in named_calls(path, 'open', 'print', 'input')]
    assert not wrong


def test_sockets_are_in_transport_and_sim():
    assert {found.layer for found in IMPORTS
            if found.module.split('.')[0] in ('socket', 'select', 'selectors')} <= {
                'transport', 'sim'}


def test_ros_is_in_ros():
    def is_ros(module):
        name = module.split('.')[0]
        return name.startswith(('rclpy', 'rosidl', 'rosgraph', 'tf2_', 'launch', 'ament_')) or \
            name.endswith(('_msgs', '_interfaces'))

    assert not [found.place for found in IMPORTS
                if found.layer != 'ros' and is_ros(found.module)]


def named_calls(path, *names):
    """Find the calls of these built-in functions."""
    return [node for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in names]


def test_print_is_in_cli():
    wrong = [f'{path.relative_to(ROOT)}:{call.lineno}' for path in FILES
             if layer_of(path) not in ('cli', '__main__') for call in named_calls(path, 'print')]
    assert not wrong


@pytest.mark.parametrize('layer', PURE)
def test_importing_a_pure_layer_loads_no_ros(layer):
    """In a fresh interpreter, since numpy and pytest import much themselves."""
    modules = ['optitrack_vrpn.' + '.'.join(
        path.relative_to(PACKAGE).with_suffix('').parts).removesuffix('.__init__')
        for path in FILES if layer_of(path) == layer]
    assert modules
    script = (f'import importlib, sys\nsys.path.insert(0, {str(ROOT)!r})\n'
              f'for name in {modules!r}: importlib.import_module(name)\n'
              "print(*[n for n in sys.modules if n.split('.')[0].startswith('rclpy')\n"
              "        or n.split('.')[0].endswith('_msgs')\n"
              "        or n.startswith(('optitrack_vrpn.ros', 'optitrack_vrpn.transport',\n"
              "                         'optitrack_vrpn.sim', 'optitrack_vrpn.cli'))])")
    run = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_every_file_begins_with_its_copyright():
    files = [path for folder in (PACKAGE, *(ROOT / name for name in (
        'test', 'launch', 'bench', 'tools'))) for path in folder.rglob('*.py')]
    header = ('# Copyright 2026 The optitrack_vrpn authors\n'
              '# SPDX-License-Identifier: BSD-3-Clause\n')
    assert not [str(path.relative_to(ROOT)) for path in files
                if not path.read_text().startswith(header)]
