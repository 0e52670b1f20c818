# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Processor time of the node with skeletons: 3 of 51 bones at 240 Hz, TF read by another process.

  python -m bench.skeletons [SECONDS]

Prints the share of one core that the whole process of the node takes, and the transforms received.
"""

import os
import subprocess
import sys
import time

from optitrack_vrpn.sim import MotiveSimServer, scenario_from_mapping
import rclpy
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from tf2_msgs.msg import TFMessage

RATE, SKELETONS, BONES = 240, 3, 51


def cpu_s(pid):
    """Read the processor time of a process (s)."""
    with open(f'/proc/{pid}/stat') as stream:
        fields = stream.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def main(seconds=8.0):
    """Run the node for some seconds and print the figures."""
    scenario = scenario_from_mapping({
        'bodies': 0, 'rate': RATE, 'protocol': 'natnet', 'server': {'port': 0},
        'natnet': {'port': 0, 'data_port': 0, 'version': '4.2', 'skeletons': SKELETONS,
                   'bones': BONES}})
    rclpy.init()
    listener = rclpy.create_node('bench_skeletons')
    counts = []
    listener.create_subscription(TFMessage, '/tf', counts.append, QoSProfile(depth=1000), raw=True)
    with MotiveSimServer(scenario) as server:
        node = subprocess.Popen([
            sys.executable, '-m', 'optitrack_vrpn', 'optitrack_vrpn_node', '--ros-args',
            '-p', 'server:=127.0.0.1', '-p', 'protocol:=natnet', '-p', 'autostart:=true',
            '-p', f'natnet.port:={server.port_of("natnet")}', '-p', 'outputs:=[skeleton_tf]'])
        try:
            end = time.monotonic() + 30.0
            while len(counts) < RATE and time.monotonic() < end:
                rclpy.spin_once(listener, timeout_sec=0.1)
            begin, cpu, first = time.monotonic(), cpu_s(node.pid), len(counts)
            while time.monotonic() < begin + seconds:
                rclpy.spin_once(listener, timeout_sec=0.1)
            passed, used = time.monotonic() - begin, cpu_s(node.pid) - cpu
        finally:
            node.terminate()
            node.wait(20)
    frames = len(counts) - first
    transforms = len(deserialize_message(counts[-1], TFMessage).transforms)
    print(f'{100 * used / passed:.1f} % of a core; {frames / passed:.1f} of {RATE} frames a '
          f'second with {transforms} transforms; {1e6 * used / (frames * transforms):.2f} us a '
          'bone')
    rclpy.shutdown()


if __name__ == '__main__':
    main(*map(float, sys.argv[1:]))
