# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive: motion, faults, network impairments, servers."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.sim.acceptor_io import Acceptor, Address, raw_clock_ns
    from optitrack_vrpn.sim.command import announce, make_parser, scenario_from_arguments, serve
    from optitrack_vrpn.sim.faults import Flip, NotFinite, Occlusion, Outlier, Teleport
    from optitrack_vrpn.sim.figure import BONES_51, Figure
    from optitrack_vrpn.sim.impairments import apply_faults, Link, occlusions
    from optitrack_vrpn.sim.imu import enu_pose, gravity_of, ImuModel, SimulatedImu
    from optitrack_vrpn.sim.motion import arranged, Array, Handheld, Line, MotionState, oriented
    from optitrack_vrpn.sim.natnet import NatNetWorld
    from optitrack_vrpn.sim.natnet_models import corners, force, SAMPLES
    from optitrack_vrpn.sim.natnet_settings import NatNet
    from optitrack_vrpn.sim.scenario_io import (
        Body, BOTH, both, Clock, load_scenario, MAX_BODIES, named_bodies, Network, Noise,
        reference, Scenario, scenario_from_mapping, Server)
    from optitrack_vrpn.sim.server_io import MotiveSimServer, Served
    from optitrack_vrpn.sim.world import Counters, Stream, World
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('motive_sim', 'command:main', 'a simulated Motive that streams bodies over VRPN and NatNet'),
)
