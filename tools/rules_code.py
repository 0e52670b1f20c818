# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rules of the architecture: pure files do no IO, dependencies are acyclic, shells are thin."""

import ast
from collections import Counter
import functools
from pathlib import Path
import subprocess
import sys
from typing import NamedTuple

from mutate import ROWS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'optitrack_vrpn'
FILES = sorted(PACKAGE.rglob('*.py'))
#: Folders of the project with Python files.
FOLDERS = ('optitrack_vrpn', 'test', 'bench', 'launch', 'tools')
# Which folders a folder may import, beside itself; a file belongs to the deepest folder listed.
BELOW = {
    'core': set(),
    'stream.motion': {'core'},
    'stream.clock': {'core'},
    'stream.bodies': {'core', 'stream.motion'},
    'drivers': {'core', 'stream.clock', 'stream.motion'},
    'stream': {'core', 'drivers', 'stream.bodies', 'stream.clock', 'stream.motion'},
    'stream.skeletons': {'core', 'drivers', 'stream', 'stream.bodies', 'stream.motion'},
    'telling': {'core', 'drivers', 'stream', 'stream.bodies', 'stream.clock'},
    'cli': {'core', 'drivers'},
    'sim': {'cli', 'core', 'drivers', 'stream.motion'},
    'node.graph': {'core', 'node.base'},
    'node.base': {'cli', 'core', 'drivers', 'stream.clock'},
    'control': {'cli', 'core', 'node.base', 'node.graph'},
    'node': {'cli', 'control', 'core', 'drivers', 'node.base', 'node.graph', 'stream',
             'stream.bodies', 'stream.clock', 'stream.motion', 'stream.skeletons', 'telling'},
    'telling.doctor': {
        'cli', 'core', 'drivers', 'node.base', 'node.graph', 'stream', 'stream.bodies',
        'stream.clock', 'telling'},
    'cli.discovery': {'cli', 'core', 'drivers', 'node.graph'},
    'cli.tools': {'cli', 'core', 'node.base', 'node.graph'},
    'takes': {'cli', 'control', 'core', 'drivers', 'node.base', 'node.graph', 'sim', 'stream',
              'stream.bodies', 'stream.clock', 'stream.motion', 'telling'},
    'takes.calibrate': {'cli', 'control', 'core', 'node.base', 'sim', 'stream.clock',
                        'stream.motion', 'takes'},
    'takes.dashboard': {'cli', 'control', 'core', 'drivers', 'node.base', 'node.graph',
                        'stream.bodies', 'takes', 'telling'},
    'guests': set(),
    'guests.autopilot': {'cli', 'control', 'core', 'node.base', 'node.graph', 'stream.motion',
                         'telling.doctor'},
    'guests.machine': {'cli', 'control', 'core', 'drivers', 'node.base', 'node.graph', 'sim',
                       'stream.motion'},
    'guests.rgbd': {'cli', 'control', 'core', 'node.base', 'sim', 'sim.demo', 'stream.clock',
                    'takes'},
    'sim.demo': {'cli', 'core', 'drivers', 'node', 'node.base', 'node.graph', 'sim',
                 'stream.bodies'},
    '__main__': {'cli', 'core'},
    '__init__': {'cli'},
}
# The naming rule of docs/architecture.md: a file is pure unless its name or its package says
# otherwise.
ROS_PACKAGES = ('node', 'node.base')
# IO, clocks, threads and logs. `time` includes its constants: nothing pure needs them.
IMPURE = {
    'asyncio', 'concurrent', 'ctypes', 'datetime', 'fcntl', 'http', 'io', 'logging',
    'multiprocessing', 'os', 'pathlib', 'queue', 'rclpy', 'sched', 'select', 'selectors', 'signal',
    'socket', 'socketserver', 'ssl', 'subprocess', 'sys', 'tempfile', 'threading', 'time',
    'urllib', 'warnings',
}
#: Types with a severity and a text that are messages of a protocol or findings, and no events.
NO_EVENTS = {'TextReport', 'ServerText', 'Finding', 'Rule'}
HEADER = ('# Copyright 2026 The optitrack_vrpn authors\n'
          '# SPDX-License-Identifier: BSD-3-Clause\n')


class Import(NamedTuple):
    """One imported module: who imports it and where."""

    layer: str
    module: str
    place: str
    path: Path


def layer_of(path):
    """Name the folder of `BELOW`, or the module beside the folders, to which a file belongs."""
    return layer_of_module('.'.join(path.relative_to(PACKAGE).with_suffix('').parts))


def layer_of_module(module):
    """Name the deepest folder of `BELOW` that holds a module, named within the package."""
    parts = module.removesuffix('.__init__').split('.')
    names = ['.'.join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in BELOW), parts[0])


def is_ros_file(path):
    return path.stem.endswith('_ros') or layer_of(path) in ROS_PACKAGES


def is_command(path):
    return path.stem in ('command', '__main__') or path.stem.endswith('_command') \
        or layer_of(path) == 'cli'


def is_io(path):
    return path.stem.endswith('_io')


def is_pure(path):
    return not (is_ros_file(path) or is_command(path) or is_io(path))


@functools.cache
def nodes(path):
    """List the nodes of the syntax tree of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


@functools.cache
def imports():
    """List every import of the package's files, wherever in a file it stands."""
    found = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                # `from optitrack_vrpn import errors` imports a layer too.
                modules = [f'{node.module}.{alias.name}' for alias in node.names] \
                    if node.module == 'optitrack_vrpn' else [node.module or '.' * node.level]
            else:
                continue
            found += [Import(layer_of(path), module, place(path, node, f'imports {module}'), path)
                      for module in modules]
    return found


def place(path, node, what):
    return f'{path.relative_to(ROOT)}:{node.lineno} {what}'


def named_calls(path, *names):
    """Find the calls of these built-in functions."""
    return [place(path, node, f'calls {node.func.id}') for node in nodes(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in names]


def the_node_class_is_wiring():
    path = PACKAGE / 'node' / 'node.py'
    count = len(path.read_text().splitlines())
    return [f'{path.relative_to(ROOT)} has {count} lines'] if count > 250 else []


def events_for_users_have_one_type():
    found = {
        node.name for path in FILES for node in nodes(path)
        if isinstance(node, ast.ClassDef) and {'severity', 'text'} <= {
            field.target.id for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)}}
    return found - NO_EVENTS ^ {'Event'}


def a_class_name_occurs_once():
    """Find the classes of one name: a reader who searches for a name finds one definition."""
    found = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(place(path, node, f'class {node.name}'))
    return [each for places in found.values() if len(places) > 1 for each in places]


def every_module_has_its_layer():
    return {layer_of(path) for path in FILES} - set(BELOW)


def dependencies_point_one_way():
    for found in imports():
        top, _, module = found.module.partition('.')
        if not top or (top == 'optitrack_vrpn' and module not in ('', '__version__', 'RUNS')
                       and layer_of_module(module) not in {*BELOW[found.layer], found.layer}):
            yield found.place


def dependencies_have_no_cycles():
    def above(layer, trail=()):
        if layer in trail:
            yield ' -> '.join((*trail, layer))
        else:
            for below in BELOW[layer]:
                yield from above(below, (*trail, layer))

    for layer in BELOW:
        yield from above(layer)


def names_are_imported_from_their_module():
    """Find imports of names from a package instead of the module that defines them."""
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob('*.py'))):
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith(
                    'optitrack_vrpn.'):
                where = ROOT.joinpath(*node.module.split('.'))
                if where.is_dir():
                    yield from (place(path, node, f'imports {node.module} {alias.name}')
                                for alias in node.names
                                if not (where / f'{alias.name}.py').is_file()
                                and not (where / alias.name).is_dir())


def pure_files_import_nothing_that_does_io_or_reads_a_clock():
    return [found.place for found in imports()
            if is_pure(found.path) and found.module.split('.')[0] in IMPURE]


def pure_files_open_no_files_and_read_no_input():
    return [call for path in FILES if is_pure(path) for call in named_calls(path, 'open', 'input')]


def only_commands_print():
    return [call for path in FILES if not is_command(path) for call in named_calls(path, 'print')]


def only_io_files_import_sockets():
    return [found.place for found in imports() if not is_io(found.path)
            and found.module.split('.')[0] in ('socket', 'select', 'selectors')]


def only_ros_files_import_ros():
    def is_ros(module):
        name = module.split('.')[0]
        return name.startswith(('rclpy', 'rosidl', 'rosgraph', 'tf2_', 'launch', 'ament_')) or \
            name.endswith(('_msgs', '_interfaces'))

    return [found.place for found in imports()
            if not is_ros_file(found.path) and is_ros(found.module)]


def importing_the_pure_files_loads_no_ros():
    """In a fresh interpreter, since libraries of the rules import much themselves."""
    modules = ['optitrack_vrpn.' + '.'.join(
        path.relative_to(PACKAGE).with_suffix('').parts).removesuffix('.__init__')
        for path in FILES if is_pure(path)]
    script = (f'import importlib, sys\nsys.path.insert(0, {str(ROOT)!r})\n'
              f'for name in {modules!r}: importlib.import_module(name)\n'
              "print(*[n for n in sys.modules if n.split('.')[0].startswith('rclpy')\n"
              "        or n.split('.')[0].endswith('_msgs')])")
    run = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    return [*run.stdout.split(), *run.stderr.splitlines()]


def every_file_begins_with_its_copyright():
    return [str(path.relative_to(ROOT)) for folder in FOLDERS
            for path in (ROOT / folder).rglob('*.py') if not path.read_text().startswith(HEADER)]


#: Patches of this package's names that are left, by test file: give their objects an argument of
#: the constructor instead. Numbers may only fall.
PATCHED = {
    'test_client.py': 1, 'test_launch_nodes.py': 1,
    'test_recording_export.py': 1, 'test_recording_replay.py': 1, 'test_ros_cdr.py': 2,
    'test_ros_neighbours.py': 3, 'test_ros_node_inside.py': 1, 'test_ros_node_resources.py': 3}


def _of_this_package(path):
    """Return the names in a test file that it imports from this package."""
    return {alias.asname or alias.name.partition('.')[0] for node in nodes(path)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
            if (getattr(node, 'module', None) or alias.name).startswith('optitrack_vrpn')}


def patched_names():
    """Count the patches of names of this package in each test file."""
    found = Counter()
    for path in (ROOT / 'test').rglob('*.py'):
        own = _of_this_package(path)
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
                    node.func.attr in ('setattr', 'delattr') and node.args):
                target = node.args[0]
                while isinstance(target, (ast.Attribute, ast.Call)):
                    target = target.func if isinstance(target, ast.Call) else target.value
                if (isinstance(target, ast.Name) and target.id in own) or (
                        isinstance(target, ast.Constant)
                        and str(target.value).startswith('optitrack_vrpn')):
                    found[path.name] += 1
    return found


def tests_patch_no_names_of_this_package():
    return [f'test/{name}: {count}, {PATCHED.get(name, 0)} are listed'
            for name, count in patched_names().items() if count > PATCHED.get(name, 0)]


def rows_of_mutate_fit_the_package():
    """List rows that are out of date: they no longer show that a test needs the rule."""
    wrong = []
    for name, old, _, tests in ROWS:
        path, test = PACKAGE / name, tests.split()[0]
        count = path.read_text(encoding='utf-8').count(old) if path.is_file() else 0
        if count != 1:
            wrong.append(f'tools/mutate.py: {old!r} occurs {count} times in {name}: write the '
                         'row for what is there now')
        if (ROOT / 'test').is_dir() and not (ROOT / test).is_file():
            wrong.append(f'tools/mutate.py: there is no {test}')
    return wrong


RULES = (
    the_node_class_is_wiring, events_for_users_have_one_type, a_class_name_occurs_once,
    every_module_has_its_layer,
    dependencies_point_one_way, dependencies_have_no_cycles,
    names_are_imported_from_their_module,
    pure_files_import_nothing_that_does_io_or_reads_a_clock,
    pure_files_open_no_files_and_read_no_input, only_commands_print, only_io_files_import_sockets,
    only_ros_files_import_ros, importing_the_pure_files_loads_no_ros,
    every_file_begins_with_its_copyright, tests_patch_no_names_of_this_package,
    rows_of_mutate_fit_the_package)
