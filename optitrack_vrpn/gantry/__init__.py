# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine of several axes in closed loop on motion capture; see docs/gantry.md."""

from importlib import import_module
from typing import Any

#: Public names by file, which is imported when a name is first used: ROS and numpy load slowly.
_FILES = {
    'axis': 'Axis Run',
    'calibration': 'Calibration',
    'client_ros': 'GantryClient',
    'control': 'cells Feedback Machine table',
    'controller_ros': 'GantryController',
    'correction': 'Correction Measurement',
    'goal': 'Code Goal GOAL_TIME_S Tolerances',
    'machine_io': 'load_machine UdpDriver',
    'modes': 'Event Mode MOVING',
    'recorder_io': 'header Recorder row',
    'services_ros': 'COMMANDS load_file paths_of serve',
    'setpoints': 'between Cubic halt_position Limits Planner State step stopping_distance '
                 'Switches',
    'settings': 'AxisSettings ControllerSettings CorrectionSettings MachineSettings',
    'sim_io': 'carried UdpMachine',
    'sim_model': 'SimulatedMachine',
    'slip': 'SlipEstimator',
    'trajectory': 'make_trajectory parse Sine Trajectory',
    'wire': 'ahead Answer decode_answer decode_set_points encode_answer encode_set_points '
            'in_steps in_units SetPoints',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE)


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)
