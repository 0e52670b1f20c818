# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine of several axes in closed loop on motion capture; see docs/gantry.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
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
})

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('gantry_controller', 'command:controller',
     'the lifecycle node that moves a machine in closed loop on mocap'),
    ('gantry_sim', 'sim_command:main',
     'a simulated machine with slip, and a simulated Motive that sees it'),
    ('gantry', 'command:main', 'watch and command a gantry_controller'),
)
NODES = (
    ('gantry_controller', 'settings:ControllerSettings'),
)
