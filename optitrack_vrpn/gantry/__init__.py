# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine of several axes in closed loop on motion capture; see docs/gantry.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'axis': 'Axis Run',
    'client_ros': 'GantryClient',
    'controller_ros': 'GantryController',
    'correction': 'Correction Measurement SlipEstimator',
    'machine': 'cells Feedback Machine table',
    'machine_io': 'header load_machine Recorder row UdpDriver',
    'modes': 'Event Mode MOVING',
    'services_ros': 'COMMANDS load_file paths_of serve',
    'setpoints': 'between Cubic halt_position Limits Planner State step stopping_distance '
                 'Switches',
    'settings': 'AxisSettings ControllerSettings CorrectionSettings MachineSettings',
    'sim_io': 'carried SimulatedMachine UdpMachine',
    'tasks': 'Calibration Goal Tolerances',
    'trajectory': 'make_trajectory parse Sine Trajectory',
    'wire': 'ahead Answer decode_answer decode_set_points encode_answer encode_set_points '
            'SetPoints',
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
