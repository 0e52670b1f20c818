# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node gantry_controller."""

from optitrack_vrpn.ros.node_command import run_node_by_parameters


def main() -> int:
    """Run the node until it ends; return the exit code."""
    return run_node_by_parameters(
        'gantry_controller', 'optitrack_vrpn.gantry.controller_ros:GantryController',
        'Control a machine of several axes in closed loop on motion capture.',
        '-p machine:=gantry_orion -p driver:=udp', 'gantry.md')
