# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the nodes rgbd_image_proc, rgbd_odometry, rgbd_mapper, rgbd_play and rgbd_sim."""

import functools
from pathlib import Path
import sys
from typing import Any, Callable, Optional, Sequence, TypeVar

from optitrack_vrpn.cli.arguments import duration, Parser
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.files_io import use_profile
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.node.base.node_command import run_node_by_parameters

T = TypeVar('T')


def _run(tool: str, node: str, description: str, parameters: str, page: str) -> int:
    """Run a node until it ends; return the exit code."""
    use_profile()
    return run_node_by_parameters(
        tool, f'optitrack_vrpn.guests.rgbd.{node}', description, parameters, page)


image_proc = functools.partial(
    _run, 'rgbd_image_proc', 'camera_node_ros:RgbdImageProc',
    'Rectify colour and depth images, and register the depth to the colour.',
    '-p extrinsics_file:=extr.yml', 'rgbd_odometry.md')
odometry = functools.partial(
    _run, 'rgbd_odometry', 'odometry_ros:RgbdOdometry',
    'Estimate the motion of a colour and depth camera from its images.',
    '-p colour:=camera/color/image_raw', 'rgbd_odometry.md')
mapper = functools.partial(
    _run, 'rgbd_mapper', 'mapper_ros:RgbdMapper',
    'Map a place with a colour and depth camera and odometry.', '-p odometry:=vo',
    'rgbd_mapping.md')


def _run_camera(make: Callable[[], T], for_ros: Sequence[str]) -> tuple[int, Optional[T]]:
    """Run a CameraSource; return the exit code and the node, None without one; raise its error."""
    from optitrack_vrpn.node.base.process import run
    made: list[Any] = []

    def remember() -> Any:
        made.append(make())
        return made[0]

    code = run(remember, [sys.argv[0], *for_ros])
    if made and made[0].failure is not None:
        raise made[0].failure
    return code, made[0] if made else None


def _play_parser() -> Parser:
    """Make the parser of rgbd_play."""
    parser = Parser(
        prog='rgbd_play', description='Publish a sequence of the TUM RGB-D benchmark on '
        'camera topics, and its ground truth on ground_truth/pose.',
        epilog='Arguments of ROS follow --ros-args. See docs/rgbd.md.')
    parser.add_argument('folder', type=Path,
                        help='folder with rgb.txt, depth.txt and, optionally, groundtruth.txt')
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--camera', choices=('fr1', 'fr2', 'fr3', 'ros'),
                       help='default: from freiburg1, 2 or 3 in the name of the folder')
    which.add_argument('--intrinsics', type=float, nargs=4, metavar=('FX', 'FY', 'CX', 'CY'),
                       help='intrinsics of another camera (pixels)')
    parser.add_argument('--rate', type=duration, default=1.0, metavar='FACTOR',
                        help='playback speed (default 1); stamp intervals do not change')
    parser.add_argument('--original-stamps', action='store_true',
                        help='keep the stamps; default: shift them so that the first image is now')
    parser.add_argument('--wait', type=int, default=0, metavar='N',
                        help='begin when the colour images have N subscribers (default 0)')
    return parser


@command('rgbd_play')
def play(argv: Optional[Sequence[str]] = None) -> int:
    """Publish a sequence of the TUM RGB-D benchmark; return the exit code."""
    arguments, for_ros = _play_parser().parse(argv)
    use_profile()
    with loading('rgbd_play'):
        from optitrack_vrpn.guests.rgbd.cameras_ros import RgbdPlay
        from optitrack_vrpn.guests.rgbd.files_io import camera_of, Sequence as Images
    sequence = Images(arguments.folder)
    rgb, _ = sequence.load(sequence.pairs[0])
    camera = camera_of(
        arguments.folder.resolve().name, rgb.shape[1], rgb.shape[0], arguments.camera,
        tuple(arguments.intrinsics) if arguments.intrinsics else None)
    code, node = _run_camera(lambda: RgbdPlay(
        sequence, camera, arguments.rate, not arguments.original_stamps, arguments.wait), for_ros)
    if node is not None:
        published = node.published
        print(f'{published} of {counted(len(sequence.pairs), "pair")} of images published')
        for name, received in node.received().items():
            print(f'{name} received {received.colour} colour and {received.depth} depth images, '
                  f'{counted(received.pairs, "pair")}'
                  + (f': {published - received.pairs} lost on the way'
                     if received.pairs < published else ''))
    return code


def _sim_parser() -> Parser:
    """Make the parser: that of motive_sim."""
    from optitrack_vrpn.sim.command import make_parser
    parser = make_parser()
    parser.prog = 'rgbd_sim'
    parser.description = (
        'A simulated Motive, and a simulated colour and depth camera on its first body, in a '
        'textured room.')
    parser.epilog = (
        'ROS parameters configure the camera, as in: rgbd_sim --port 0 --ros-args -p '
        'trajectory:=hand_held -p rate_hz:=15.0; see docs/rgbd.md. The first body moves '
        'along the parameter trajectory; its name is Camera by default.')
    return parser


@command('rgbd_sim')
def sim(argv: Optional[Sequence[str]] = None) -> int:
    """Run a simulated Motive and a simulated camera on its first body; take its options."""
    from optitrack_vrpn.sim.command import parse, scenario_from_arguments
    arguments, for_ros = parse(_sim_parser(), argv)
    scenario = scenario_from_arguments(arguments, ['Camera'])
    use_profile()
    with loading('rgbd_sim'):
        from optitrack_vrpn.guests.rgbd.cameras_ros import RgbdSim

    def make() -> RgbdSim:
        node = RgbdSim(scenario)
        print(f'listening on {node.server.host}:{node.server.port}: '
              f'{scenario.bodies[0].name!r} carries the camera', flush=True)
        return node

    return _run_camera(make, for_ros)[0]
