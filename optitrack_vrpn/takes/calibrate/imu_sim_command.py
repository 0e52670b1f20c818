# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a simulated Motive and a simulated IMU on its first body: ``imu_sim``."""

from collections.abc import Sequence
import sys
from typing import Optional

from optitrack_vrpn.cli.arguments import Parser
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.files_io import use_profile
from optitrack_vrpn.sim.command import (
    announce, make_parser as motive_parser, parse, scenario_from_arguments)
from optitrack_vrpn.sim.imu import ImuModel

#: Flags and the settings of ``ImuModel`` that they set.
_FLAGS = {
    '--imu-rate': 'rate', '--imu-delay-ms': 'stamp_delay_ms', '--imu-jitter-ms': 'jitter_ms',
    '--imu-errors': 'errors', '--accelerometer-delay-ms': 'accelerometer_delay_ms',
    '--imu-skew-ppm': 'skew_ppm'}


def make_parser() -> Parser:
    """Create the parser: that of motive_sim, and the IMU's."""
    parser = motive_parser()
    parser.prog = 'imu_sim'
    parser.description = (
        'Stream rigid bodies like Motive, and publish a simulated IMU on the first one, which '
        'moves as by hand unless --motion says otherwise.')
    parser.add_argument('--imu', default='imu/data_raw', metavar='TOPIC',
                        help='topic of sensor_msgs/Imu (default %(default)s)')
    for flag, name in _FLAGS.items():
        field = ImuModel.__dataclass_fields__[name]
        parser.add_argument(flag, dest=f'imu_{name}', type=float, default=field.default,
                            help=f'{field.metadata["rule"].doc} (default %(default)s)')
    return parser


@command('imu_sim')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: exit code.
    """
    arguments, for_ros = parse(make_parser(), argv)
    arguments.motion = arguments.motion or 'handheld'
    scenario = scenario_from_arguments(arguments, ['wand'])
    model = ImuModel(**{name: getattr(arguments, f'imu_{name}') for name in _FLAGS.values()})
    use_profile()
    with loading('imu_sim'):
        from optitrack_vrpn.node.base.process import run
        from optitrack_vrpn.takes.calibrate.imu_sim_ros import ImuSim

    def make() -> ImuSim:
        node = ImuSim(scenario, model, arguments.imu)
        announce(node.server)
        print(f'{scenario.bodies[0].name!r} carries an IMU: {node.topic} at {model.rate:g} Hz',
              flush=True)
        return node

    return run(make, [sys.argv[0], *for_ros])
