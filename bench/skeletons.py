# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Processor time of 3 skeletons of 51 bones at 240 Hz.

  python -m bench.skeletons           from the frame's bytes to the TF message, without sockets
  python -m bench.skeletons --node    of the whole node's process, with one subscriber of /tf

Prints the time of a frame and of a bone, and the share of a core at that rate. The second one has
all threads of the node, its sockets and the middleware; it takes the frames that arrived.
"""

import os
from pathlib import Path
import subprocess
import sys
import time

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / 'test')]

from optitrack_vrpn.pipeline import PipelineConfig, StampedExtras  # noqa: E402
from optitrack_vrpn.ros import tf_message, tf_publisher  # noqa: E402
from optitrack_vrpn.sim import NatNetWorld, scenario_from_mapping, World  # noqa: E402
from optitrack_vrpn.skeletons import SkeletonOutput, SkeletonSettings  # noqa: E402
from optitrack_vrpn.sources.natnet import (  # noqa: E402
    decode_frame, encode_frame, name_table, Translator)
import rclpy  # noqa: E402

RATE, SKELETONS, BONES, VERSION = 240, 3, 51, (4, 2)
FRAMES, FIRST = 1500, 300
WANTED = frozenset({'skeletons'})


def report(frame_s):
    """Print the time of a frame."""
    print(f'{1e6 * frame_s:.0f} us a frame, {1e6 * frame_s / (SKELETONS * BONES):.1f} us a bone, '
          f'{100 * RATE * frame_s:.0f} % of a core at {RATE} Hz')


def processor_s(pid):
    """Read the processor time of a process (s)."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def whole_node():
    """Run simulator, node and subscriber, each in its process, and print the figures."""
    from rclpy.qos import QoSProfile
    from rosgraph import NodeProcess, Observer, wait_until
    from tf2_msgs.msg import TFMessage
    port, data_port, seen = 21510, 21511, []
    with subprocess.Popen([
            sys.executable, '-m', 'optitrack_vrpn', 'motive_sim', '--protocol', 'natnet',
            '--bodies', '1', '--rate', str(RATE), '--natnet-skeletons', str(SKELETONS),
            '--natnet-bones', str(BONES), '--natnet-port', str(port), '--natnet-data-port',
            str(data_port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as simulator:
        try:
            with Observer('skeleton_bench') as observer, NodeProcess(
                    '-p', 'protocol:=natnet', '-p', 'server:=127.0.0.1', '-p',
                    f'natnet.port:={port}', '-p', 'autostart:=true', '-p',
                    'outputs:=[skeleton_tf]') as node:
                observer.node.create_subscription(
                    TFMessage, '/tf', lambda data: seen.append(len(data)), QoSProfile(depth=1000),
                    raw=True)
                wait_until(lambda: len(seen) > 2 * RATE, 60.0, 'transforms')
                for _ in range(3):
                    before, count, begin = processor_s(node.process.pid), len(seen), time.time()
                    time.sleep(6.0)
                    spent = processor_s(node.process.pid) - before
                    frames = len(seen) - count
                    print(f'{frames / (time.time() - begin):.0f} frames/s heard; ', end='')
                    report(spent / frames)
        finally:
            simulator.kill()


def main():
    """Process the frames and print the figures."""
    if '--node' in sys.argv[1:]:
        whole_node()
        return
    scenario = scenario_from_mapping({
        'bodies': 0, 'rate': RATE, 'protocol': 'natnet',
        'natnet': {'skeletons': SKELETONS, 'bones': BONES, 'version': '4.2'}})
    world, frames = NatNetWorld(scenario, []), World(scenario)
    step_ns = 10**9 // RATE
    payloads = [encode_frame(world.frame(
        frames.frame(n), (n + RATE) * step_ns, (n + RATE + 1) * step_ns), VERSION)[4:]
        for n in range(FRAMES)]
    rclpy.init()
    node = rclpy.create_node('bench_skeletons')
    publisher = tf_publisher(node)
    translator = Translator(10_000_000)
    translator.names = name_table(world.definitions).names
    output = SkeletonOutput(
        lambda *_: None, lambda _: None, lambda _: None, lambda kind: kind,
        lambda pieces: publisher.publish(tf_message(pieces)), True)
    output.create_publishers(['skeleton_tf'], SkeletonSettings(), 'optitrack')
    output.listen(True, [])
    config = PipelineConfig()
    begin = 0.0
    for i, payload in enumerate(payloads):
        if i == FIRST:
            begin = time.process_time()
        frame = translator.frame(decode_frame(payload, VERSION, WANTED))
        output.publish(StampedExtras(
            10**18 + i * step_ns, frame.sender_time_ns, frame.extras), config, lambda: 0, 1 << 62)
    frame_s = (time.process_time() - begin) / (FRAMES - FIRST)
    rclpy.shutdown()
    report(frame_s)


if __name__ == '__main__':
    main()
