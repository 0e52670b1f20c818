# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine of several axes in closed loop on motion capture; see docs/gantry.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.gantry.axis import Axis, Run
    from optitrack_vrpn.gantry.command import sim_parser
    from optitrack_vrpn.gantry.controller_ros import GantryController
    from optitrack_vrpn.gantry.correction import Correction, Measurement, SlipEstimator
    from optitrack_vrpn.gantry.machine import (
        Calibration, cells, Feedback, Goal, Machine, table, Tolerances)
    from optitrack_vrpn.gantry.machine_io import header, load_machine, Recorder, row, UdpDriver
    from optitrack_vrpn.gantry.services_ros import (
        COMMANDS, GantryClient, load_file, paths_of, serve)
    from optitrack_vrpn.gantry.setpoints import (
        ahead, Answer, between, Cubic, decode_answer, decode_set_points, encode_answer,
        encode_set_points, Event, halt_position, Limits, Mode, MOVING, Planner, SetPoints, State,
        step, Switches)
    from optitrack_vrpn.gantry.settings import (
        AxisSettings, ControllerSettings, CorrectionSettings, MachineSettings)
    from optitrack_vrpn.gantry.sim_io import carried, SimulatedMachine, UdpMachine
    from optitrack_vrpn.gantry.trajectory import make_trajectory, parse, Sine, Trajectory
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('gantry_controller', 'command:controller',
     'the lifecycle node that moves a machine in closed loop on mocap'),
    ('gantry_sim', 'command:simulate',
     'a simulated machine with slip, and a simulated Motive that sees it'),
    ('gantry', 'command:main', 'watch and command a gantry_controller'),
)
NODES = (
    ('gantry_controller', 'settings:ControllerSettings'),
)
