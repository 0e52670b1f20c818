# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Commands that run one node: check the arguments, import the node, spin until a signal.

Messages are loaded without the generator of message classes. Each message package imports
``rosidl_generator_py`` for one function that loads a C library. That package also imports its
generator, with a parser of interface files and lark: more than a tenth of a node's start and 5 MB.
It works without the generator, as where lark is not installed.
"""

import gc
import importlib
import importlib.util
import sys
from typing import Sequence

from optitrack_vrpn.cli.arguments import Parser, split_ros_args
from optitrack_vrpn.cli.command_io import command, loading

_PACKAGE = 'rosidl_generator_py'
_GENERATOR = f'{_PACKAGE}.generate_py_impl'


def leave_generator_out() -> bool:
    """
    Import ``rosidl_generator_py`` without its generator; call it before messages are imported.

    The generator can still be imported from its own module. Where the package is already imported,
    missing or of another form, nothing is changed.

    :returns: whether it is imported without the generator.
    """
    if _PACKAGE in sys.modules or importlib.util.find_spec(_PACKAGE) is None:
        return False
    # An entry of None makes the import raise ImportError, which the package catches.
    sys.modules[_GENERATOR] = None    # type: ignore[assignment]
    try:
        package = importlib.import_module(_PACKAGE)
        if hasattr(package, 'import_type_support'):
            return True
    except ImportError:
        pass
    finally:
        del sys.modules[_GENERATOR]
    sys.modules.pop(_PACKAGE, None)    # of another form: imported again as it is
    return False


def run_node(tool: str, node: str, argv: Sequence[str]) -> int:
    """
    Import the class of a node and spin one, with errors in one line.

    :param tool: name of the command.
    :param node: the class, as ``module:class``; it is created without arguments.
    :param argv: the command line for ROS, with the program's name first.
    :returns: exit code.
    """
    @command(tool)
    def main() -> int:
        with loading(tool):
            leave_generator_out()
            module, name = node.split(':')
            make_node = getattr(importlib.import_module(module), name)
            from optitrack_vrpn.node.base.process import run
        return run(make_node, argv)

    # Each collection visits all objects that the imports have created and frees nothing: a ninth
    # of the processor time of the imports (measured). ``run`` enables them again.
    gc.disable()
    try:
        return main()
    finally:
        gc.enable()


def run_node_by_parameters(
    tool: str, node: str, description: str, parameters: str, page: str,
) -> int:
    """
    Run a command whose only arguments are those of ROS, beside help and version.

    :param tool: name of the command.
    :param node: as for ``run_node``.
    :param description: one sentence of the help text.
    :param parameters: an example of its parameters, as ``-p name:=value``.
    :param page: the page about it in docs/.
    :returns: exit code.
    :raises SystemExit: after help, and for arguments that the node would ignore.
    """
    parser = Parser(
        prog=tool, usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description=description,
        epilog=f'All settings are ROS parameters, as in: {tool} --ros-args {parameters} '
        f'-p autostart:=true, or --ros-args --params-file FILE; see docs/{page}. The tool '
        '"parameters" prints such a file with every parameter, its default and its meaning.')
    _, unknown = parser.parse_known_args(split_ros_args(sys.argv[1:])[0])
    if unknown:
        parser.error(
            f'there is no argument {" ".join(unknown)}; parameters are given as in: {tool} '
            f'--ros-args {for_ros(unknown) or parameters}')
    return run_node(tool, node, sys.argv)


def for_ros(given: Sequence[str]) -> str:
    """Return the ROS form of arguments that were probably meant for ROS, as a hint; or ''."""
    found = []
    for argument, following in zip(given, [*given[1:], '']):
        name, sign, value = argument.lstrip('-').replace(':=', '=', 1).partition('=')
        if name.startswith(('/', '__')):
            found.append(f'-r {argument}')
        elif sign or argument.startswith('--'):
            found.append(f'-p {name}:={value if sign else following or "..."}')
    return ' '.join(found)
