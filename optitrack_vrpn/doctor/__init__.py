# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out why poses do or do not arrive: probes, checks, and the command."""

from importlib import import_module
from typing import Any

from optitrack_vrpn.checks import CheckResult, exit_code, fail, Level, ok, skip, Value, warn

#: Public names by file, which is imported when a name is first used: ROS loads slowly.
_FILES = {
    'command': 'CHECKS Report main',
    'extensions_ros': 'Extensions',
    'graph': 'check_lifecycle check_published check_publishers check_qos check_reach '
             'check_settings',
    'graph_ros': 'GraphView',
    'network': 'check_name check_route',
    'probes_io': 'look_up',
    'processes_io': 'local_nodes',
    'results': 'DISCOVERY_VARIABLES Graph Lift LocalProcess Mismatch Orphan ProbeResults '
               'RunningNode Stream',
    'stream': 'check_axes check_bodies check_clock check_data check_rate check_stamps',
    'takeover': 'Target choose_target variables_of_node',
    'watch': 'Watch',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = [
    'CHECKS', 'CheckResult', 'DISCOVERY_VARIABLES', 'Extensions', 'Graph', 'GraphView', 'Level',
    'Lift', 'LocalProcess', 'Mismatch', 'Orphan', 'ProbeResults', 'Report', 'RunningNode',
    'Stream', 'Target', 'Value', 'Watch', 'check_axes', 'check_bodies', 'check_clock',
    'check_data', 'check_lifecycle', 'check_name', 'check_published', 'check_publishers',
    'check_qos', 'check_rate', 'check_reach', 'check_route', 'check_settings', 'check_stamps',
    'choose_target', 'exit_code', 'fail', 'local_nodes', 'look_up', 'main', 'ok', 'skip',
    'variables_of_node', 'warn']


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)


#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('doctor', 'command:main',
     'check the connection, the bodies and the ROS graph, and report remedies'),
)
