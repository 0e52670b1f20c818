# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publish a sequence of the TUM RGB-D benchmark: ``rgbd_play FOLDER``."""

import argparse
from pathlib import Path
import sys
from typing import Optional
from typing import Sequence as Words

from optitrack_vrpn.cli.arguments import duration, Parser, split_ros_args
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.fast_dds_io import use_profile
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.names import counted
from optitrack_vrpn.rgbd.files_io import Sequence
from optitrack_vrpn.rgbd.tum_sequence import camera_of, CAMERAS


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='rgbd_play', description='Publish a sequence of the TUM RGB-D benchmark on '
        'camera topics, and its ground truth on ground_truth/pose.',
        epilog='Arguments of ROS follow --ros-args. See docs/rgbd.md.')
    parser.add_argument('folder', type=Path,
                        help='folder with rgb.txt, depth.txt and, optionally, groundtruth.txt')
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--camera', choices=tuple(CAMERAS),
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


@command('rgbd_play', 0)
def main(argv: Optional[Words[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: exit code; 0 after the last image or an interrupt.
    """
    own, for_ros = split_ros_args(sys.argv[1:] if argv is None else argv)
    arguments = make_parser().parse_args(own)
    sequence = Sequence(arguments.folder)
    rgb, _ = sequence.load(sequence.pairs[0])
    camera = camera_of(
        arguments.folder.resolve().name, rgb.shape[1], rgb.shape[0], arguments.camera,
        tuple(arguments.intrinsics) if arguments.intrinsics else None)
    use_profile()
    with loading('rgbd_play', 0):
        from optitrack_vrpn.rgbd.play_ros import RgbdPlay
        from optitrack_vrpn.ros.run import run
    made: list[RgbdPlay] = []

    def make() -> RgbdPlay:
        made.append(RgbdPlay(sequence, camera, arguments.rate,
                             not arguments.original_stamps, arguments.wait))
        return made[0]

    code = run(make, [sys.argv[0], *for_ros])
    if made and made[0].failure is not None:
        raise made[0].failure
    if made:
        published = made[0].published
        print(f'{published} of {counted(len(sequence.pairs), "pair")} of images published')
        for name, received in made[0].received().items():
            print(f'{name} received {received.colour} colour and {received.depth} depth images, '
                  f'{counted(received.pairs, "pair")}'
                  + (f': {published - received.pairs} lost on the way'
                     if received.pairs < published else ''))
    return code
