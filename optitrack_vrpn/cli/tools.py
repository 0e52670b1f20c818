# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Every tool of the package, once.

``ros2 run optitrack_vrpn TOOL`` and ``python -m optitrack_vrpn TOOL`` are both made from
``TOOLS``. setup.py runs this file on its own, so it imports nothing but the standard library.
"""

from typing import NamedTuple


class Tool(NamedTuple):
    """
    One tool.

    :ivar name: as the user types it.
    :ivar function: what it runs, as ``module:function``; called without arguments, it reads
        ``sys.argv`` and returns the exit code.
    :ivar summary: one line for the list of tools.
    """

    name: str
    function: str
    summary: str


TOOLS = (
    Tool('optitrack_vrpn_node', 'optitrack_vrpn.node.command:main',
         'the lifecycle node: motion capture in, PoseStamped and TF out'),
    Tool('motive_sim', 'optitrack_vrpn.sim.command:main',
         'a simulated Motive that streams bodies over VRPN'),
    Tool('demo', 'optitrack_vrpn.demo.command:main',
         'a simulated Motive, the node and a live table of what arrives'),
    Tool('doctor', 'optitrack_vrpn.doctor.command:main',
         'why poses do or do not arrive, and what to do about it'),
    Tool('parameters', 'optitrack_vrpn.tools.parameters_command:main',
         'the parameter file with every default and what it means'),
    Tool('mocap_control', 'optitrack_vrpn.mocap_control.command:main',
         'start, stop and list capture systems over mocap control'),
    Tool('record', 'optitrack_vrpn.recording.record_command:main',
         "record a session as a bag, or the server's bytes as a pcap"),
    Tool('mavlink_bridge', 'optitrack_vrpn.autopilot.command:main',
         'poses of one body to a PX4 or ArduPilot vehicle, and a check before the take-off'),
    Tool('replay', 'optitrack_vrpn.recording.replay_command:main',
         'serve a raw recording, or a pcap of VRPN, as a server'),
    Tool('restamp', 'optitrack_vrpn.tools.restamp_command:main',
         'put the stamps of a recording on another clock'),
    Tool('analyze_stamps', 'optitrack_vrpn.tools.analyze_stamps_command:main',
         'judge the stamps of a live topic: rate, regularity, gaps, age'),
    Tool('topics', 'optitrack_vrpn.tools.topics_command:main',
         "list topics or show one, without ROS 2's own tools"),
    Tool('axis_bridge', 'optitrack_vrpn.axes.command:main',
         'tracked bodies to the axes of a machine: JointState and UDP at 100 Hz'),
    Tool('gantry_controller', 'optitrack_vrpn.gantry.controller_command:main',
         'the lifecycle node that moves a machine in closed loop on mocap'),
    Tool('gantry_sim', 'optitrack_vrpn.gantry.sim_command:main',
         'a simulated machine with slip, and a simulated Motive that sees it'),
    Tool('gantry', 'optitrack_vrpn.gantry.command:main',
         'watch and command a gantry_controller'),
)


def console_scripts() -> list[str]:
    """List the tools as setuptools wants its entry points."""
    return [f'{tool.name} = {tool.function}' for tool in TOOLS]
