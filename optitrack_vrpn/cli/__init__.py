# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The list of commands, and what all commands share."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.cli.arguments import (
        check_launch_arguments, duration, exit_code, flag, hertz, LaunchArgument, log_level,
        namespace, new_file, number, one_of, Parser, port, read_launch_arguments, seconds,
        server_address, split_ros_args, USAGE, VERSION, whole, without_ros_arguments)
    from optitrack_vrpn.cli.command_io import command, how_to_install, load, loading
    from optitrack_vrpn.cli.early import end_at_interrupt, interrupt_code
    from optitrack_vrpn.cli.files_io import (
        add_force, ANY, check_output, find_config, json_text, package_file, read_parameter_file,
        read_yaml, use_profile, whole_file)
    from optitrack_vrpn.cli.launch_file_ros import describe, existing_file, parameters_of_nodes
    from optitrack_vrpn.cli.rows_io import checks, console_scripts, Node, nodes, tools
    from optitrack_vrpn.cli.signals_io import (
        end_with, end_with_parent, ENDING, ignore, leave_to_ros, SignalPipe, with_parent)
    from optitrack_vrpn.cli.terminal_io import console, format_table, Progress, Screen
    from optitrack_vrpn.cli.yaml_text import parse_parameter_file, parse_yaml
else:
    __all__, __getattr__ = lazy(globals())
