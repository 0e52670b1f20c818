# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Processor time of 3 skeletons of 51 bones at 240 Hz, from the frame's bytes to the TF message.

  python -m bench.skeletons

Decodes, names, checks, converts and publishes simulated frames without sockets. Prints the time of
a frame and of a bone, and the share of a core at that rate.
"""

import time

from optitrack_vrpn.pipeline import PipelineConfig, StampedExtras
from optitrack_vrpn.ros import tf_message, tf_publisher
from optitrack_vrpn.sim import NatNetWorld, scenario_from_mapping, World
from optitrack_vrpn.skeletons import SkeletonOutput, SkeletonSettings
from optitrack_vrpn.sources.natnet import decode_frame, encode_frame, name_table, Translator
import rclpy

RATE, SKELETONS, BONES, VERSION = 240, 3, 51, (4, 2)
FRAMES, FIRST = 1500, 300
WANTED = frozenset({'skeletons'})


def main():
    """Process the frames and print the figures."""
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
    print(f'{1e6 * frame_s:.0f} us a frame, {1e6 * frame_s / (SKELETONS * BONES):.1f} us a bone, '
          f'{100 * RATE * frame_s:.0f} % of a core at {RATE} Hz')


if __name__ == '__main__':
    main()
