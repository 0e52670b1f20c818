# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out why poses do or do not arrive: probes, checks, and the command."""

from importlib import import_module
from typing import Any

from optitrack_vrpn.doctor.result import (
    CheckResult, exit_code, fail, Level, ok, skip, Value, warn)

#: Public names by file, which is imported when a name is first used: ROS loads slowly.
_FILES = {
    'bodies': 'check_bodies',
    'command': 'Report STAGES main',
    'extensions_ros': 'Extensions',
    'graph': 'check_lifecycle check_published check_publishers check_qos check_reach '
             'check_settings',
    'graph_ros': 'GraphView',
    'natnet': 'check_natnet check_natnet_clock check_natnet_data',
    'network': 'check_connect_back check_name check_route check_tcp check_udp',
    'probe_results': 'Attempt DISCOVERY_VARIABLES Graph Lift LocalProcess Mismatch NatNetResults '
                     'Orphan Outcome ProbeResults RunningNode Stream',
    'processes_io': 'local_nodes program_on_udp_port',
    'stream': 'check_axes check_clock check_data check_handshake check_rate check_senders '
              'check_stamps',
    'takeover': 'Target choose_target variables_of_node',
    'watch': 'Watch',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = [
    'Attempt', 'CheckResult', 'DISCOVERY_VARIABLES', 'Extensions', 'Graph', 'GraphView',
    'Level', 'Lift', 'LocalProcess', 'Mismatch', 'NatNetResults', 'Orphan', 'Outcome',
    'ProbeResults', 'Report', 'RunningNode', 'STAGES', 'Stream', 'Target', 'Value', 'Watch',
    'check_axes', 'check_bodies', 'check_clock', 'check_connect_back', 'check_data',
    'check_handshake', 'check_lifecycle', 'check_name', 'check_natnet', 'check_natnet_clock',
    'check_natnet_data', 'check_published', 'check_publishers', 'check_qos', 'check_rate',
    'check_reach', 'check_route', 'check_senders', 'check_settings', 'check_stamps',
    'check_tcp', 'check_udp', 'choose_target', 'exit_code', 'fail', 'local_nodes', 'main', 'ok',
    'program_on_udp_port', 'skip', 'variables_of_node', 'warn']


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)


#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('doctor', 'command:main',
     'check the connection, the bodies and the ROS graph, and report remedies'),
)
