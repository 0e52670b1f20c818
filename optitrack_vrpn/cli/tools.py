# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The table of all tools of the package.

``TOOLS`` defines both ``ros2 run optitrack_vrpn TOOL`` and ``python -m optitrack_vrpn TOOL``.
setup.py executes this file alone, so that it imports only the standard library.
"""

from typing import NamedTuple


class Tool(NamedTuple):
    """
    One tool.

    :ivar name: name on the command line.
    :ivar function: entry point, as ``module:function``. It has no arguments, reads ``sys.argv``
        and returns the exit code.
    :ivar summary: one line for the list of tools.
    """

    name: str
    function: str
    summary: str


TOOLS = (
    Tool('optitrack_vrpn_node', 'optitrack_vrpn.node.command:main',
         'the lifecycle node: motion capture in, PoseStamped and TF out'),
    Tool('motive_sim', 'optitrack_vrpn.sim.command:main',
         'a simulated Motive that streams bodies over VRPN and NatNet'),
    Tool('demo', 'optitrack_vrpn.demo.command:main',
         'a simulated Motive, the node and a live table of the poses'),
    Tool('doctor', 'optitrack_vrpn.doctor.command:main',
         'check the connection, the bodies and the ROS graph, and report remedies'),
    Tool('compile', 'optitrack_vrpn.compiled.command:main',
         'compile the path of a pose with mypyc, or say how it runs'),
    Tool('parameters', 'optitrack_vrpn.tools.parameters_command:main',
         'print a parameter file with all defaults and descriptions'),
    Tool('mocap_control', 'optitrack_vrpn.mocap_control.command:main',
         'start, stop and list capture systems over mocap control'),
    Tool('record', 'optitrack_vrpn.recording.record_command:main',
         "record a session as a bag, or the server's bytes as a pcap"),
    Tool('mavlink_bridge', 'optitrack_vrpn.autopilot.command:main',
         'poses of one body to a PX4 or ArduPilot vehicle, and a check before the take-off'),
    Tool('replay', 'optitrack_vrpn.recording.replay_command:main',
         'serve a raw recording, or a pcap of VRPN, as a server'),
    Tool('export', 'optitrack_vrpn.recording.export_command:main',
         'poses of a recording as CSV, TUM or Parquet'),
    Tool('report', 'optitrack_vrpn.recording.report_command:main',
         'what happened in a recording, as one page with a verdict'),
    Tool('restamp', 'optitrack_vrpn.tools.restamp_command:main',
         'convert the stamps of a recording to the clock of the receiver'),
    Tool('analyze_stamps', 'optitrack_vrpn.tools.analyze_stamps_command:main',
         'measure the stamps of a live topic: rate, regularity, gaps, age'),
    Tool('topics', 'optitrack_vrpn.tools.topics_command:main',
         "list topics or print the messages of one, without ROS 2's own tools"),
    Tool('axis_bridge', 'optitrack_vrpn.axes.command:main',
         'tracked bodies to the axes of a machine: JointState and UDP at 100 Hz'),
    Tool('gantry_controller', 'optitrack_vrpn.gantry.command:controller',
         'the lifecycle node that moves a machine in closed loop on mocap'),
    Tool('gantry_sim', 'optitrack_vrpn.gantry.sim_command:main',
         'a simulated machine with slip, and a simulated Motive that sees it'),
    Tool('gantry', 'optitrack_vrpn.gantry.command:main',
         'watch and command a gantry_controller'),
    Tool('rgbd_image_proc', 'optitrack_vrpn.rgbd.node_command:image_proc',
         'raw colour and depth images to rectified and registered ones'),
    Tool('rgbd_odometry', 'optitrack_vrpn.rgbd.node_command:odometry',
         'the lifecycle node that follows a colour and depth camera by its images'),
    Tool('rgbd_mapper', 'optitrack_vrpn.rgbd.node_command:mapper',
         'the lifecycle node that maps a place with a colour and depth camera'),
    Tool('rgbd_play', 'optitrack_vrpn.rgbd.play_command:main',
         'publish a sequence of the TUM RGB-D benchmark, with its ground truth'),
    Tool('rgbd_demo', 'optitrack_vrpn.demo.rgbd_command:main',
         'visual odometry of a simulated depth camera beside mocap, with its score'),
    Tool('rgbd_sim', 'optitrack_vrpn.rgbd.sim_command:main',
         'a simulated depth camera, and a simulated Motive that sees the body it is on'),
)


def console_scripts() -> list[str]:
    """List the tools as entry points of setuptools."""
    return [f'{tool.name} = {tool.function}' for tool in TOOLS]
