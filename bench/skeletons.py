# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Processor time of 3 skeletons of 51 bones at 240 Hz.

  python -m bench.skeletons           from the frame's bytes to the TF message, without sockets
  python -m bench.skeletons --node [ROUNDS]
                                      of the whole node's process, with one subscriber of /tf:
                                      compiled (if it was) and plain in turns, 5 rounds of each
  python -m bench.skeletons --picture docs/img/skeletons.png

Prints the time of a frame and of a bone, and the share of a core at that rate. The second one has
all threads of the node, its sockets and the middleware; it takes the frames that arrived.
"""

import os
from pathlib import Path
import statistics
import subprocess
import sys
import time

HERE = Path(__file__).resolve().parent
sys.path[len(sys.path):] = [str(HERE.parent), str(HERE.parent / 'test')]

from builds import SITE, variables_of  # noqa: E402
from optitrack_vrpn.drivers.natnet.frames import decode_frame, encode_frame  # noqa: E402
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator  # noqa: E402
from optitrack_vrpn.node.base.cdr import tf_message  # noqa: E402
from optitrack_vrpn.node.base.tf import tf_publisher  # noqa: E402
from optitrack_vrpn.node.skeleton_output_ros import SkeletonOutput  # noqa: E402
from optitrack_vrpn.sim.natnet import NatNetWorld  # noqa: E402
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.world import World  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.roster import StampedExtras  # noqa: E402
from optitrack_vrpn.stream.skeletons.settings import SkeletonSettings  # noqa: E402
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


def one_run(port, seen):
    """Run a node for some seconds; return frames heard a second, and processor time of one (s)."""
    from rosgraph import NodeProcess, wait_until
    seen.clear()
    with NodeProcess(
            '-p', 'protocol:=natnet', '-p', 'server:=127.0.0.1', '-p', f'natnet.port:={port}',
            '-p', 'autostart:=true', '-p', 'outputs:=[skeleton_tf]') as node:
        wait_until(lambda: len(seen) > 2 * RATE, 60.0, 'transforms')
        before, count, begin = processor_s(node.process.pid), len(seen), time.time()
        time.sleep(6.0)
        spent = processor_s(node.process.pid) - before
        frames = len(seen) - count
        return frames / (time.time() - begin), spent / frames


def whole_node(rounds):
    """Run simulator, node and subscriber, each in its process, and print the figures."""
    from rclpy.qos import QoSProfile
    from rosgraph import Observer
    from tf2_msgs.msg import TFMessage
    port, data_port, seen = 21510, 21511, []
    ways = (['compiled'] if SITE.is_dir() else []) + ['plain']
    found = {way: [] for way in ways}
    with subprocess.Popen([
            sys.executable, '-m', 'optitrack_vrpn', 'motive_sim', '--protocol', 'natnet',
            '--bodies', '1', '--rate', str(RATE), '--natnet-skeletons', str(SKELETONS),
            '--natnet-bones', str(BONES), '--natnet-port', str(port), '--natnet-data-port',
            str(data_port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as simulator:
        try:
            with Observer('skeleton_bench') as observer:
                observer.node.create_subscription(
                    TFMessage, '/tf', lambda data: seen.append(len(data)), QoSProfile(depth=1000),
                    raw=True)
                for _ in range(rounds):
                    for way in ways:
                        os.environ.update(variables_of(HERE.parent, way == 'plain'))
                        found[way].append(one_run(port, seen))
                        print(f'{way}: {found[way][-1][0]:.0f} frames/s heard; ', end='')
                        report(found[way][-1][1])
        finally:
            simulator.kill()
    for way, runs in found.items():
        heard, times = zip(*runs)
        print(f'{way}, median of {len(runs)} interleaved runs ({100 * RATE * min(times):.0f} to '
              f'{100 * RATE * max(times):.0f} %, {min(heard):.0f} to {max(heard):.0f} frames/s '
              'heard): ', end='')
        report(statistics.median(times))


def picture(path):
    """Draw what the node publishes of two figures, markers and a force plate."""
    from geometry_msgs.msg import WrenchStamped
    from matplotlib.figure import Figure
    from natnet_kit import simulated
    from optitrack_vrpn.stream.server_data import POINT
    from rclpy.qos import QoSProfile
    from rosgraph import NodeHere, Observer
    from sensor_msgs.msg import PointCloud2
    from visualization_msgs.msg import MarkerArray
    with simulated(['wand'], rate=30, natnet={
            'skeletons': 2, 'bones': 51, 'markers': 4, 'unlabelled': 6, 'plates': 1,
            'version': '4.4'}) as server, Observer('picture') as observer:
        qos = QoSProfile(depth=10)
        drawn = observer.listen(MarkerArray, '/skeletons', qos)
        clouds = observer.listen(PointCloud2, '/markers', qos)
        wrenches = observer.listen(WrenchStamped, '/Plate_1/wrench', qos)
        with NodeHere({'server': '127.0.0.1', 'protocol': 'natnet', 'autostart': True,
                       'natnet.port': server.port_of('natnet'),
                       'outputs': ['pose', 'skeletons', 'markers', 'wrench']}):
            for topic in (drawn, clouds, wrenches):
                topic.wait(40)
    figure = Figure(figsize=(7.0, 4.6))
    axes = figure.add_subplot(projection='3d', computed_zorder=False)
    for marker in drawn.messages()[-1].markers:
        points = [(one.x, one.y, one.z) for one in marker.points]
        colour = (marker.color.r, marker.color.g, marker.color.b)
        if marker.type == marker.LINE_LIST:
            for begin, end in zip(points[::2], points[1::2]):
                axes.plot(*zip(begin, end), color=colour, linewidth=1.5)
        else:
            axes.scatter(*zip(*points), color=colour, s=5)
    points = [*POINT.iter_unpack(bytes(clouds.messages()[-1].data))]
    for labelled, colour, name in ((1, 'black', 'labelled markers'), (0, 'red', 'unlabelled')):
        chosen = [one[:3] for one in points if one[6] == labelled]
        axes.scatter(*zip(*chosen), color=colour, s=12, marker='^', label=name)
    corners = [(-0.3, -0.2, 0), (0.3, -0.2, 0), (0.3, 0.2, 0), (-0.3, 0.2, 0), (-0.3, -0.2, 0)]
    axes.plot(*zip(*corners), color='grey')
    force = min((one.wrench.force for one in wrenches.messages()), key=lambda one: one.z)
    axes.plot((0, 0), (0, 0), (0, -force.z / 500.0), color='grey',
              label=f'force plate, {-force.z:.0f} N')
    axes.set(xlabel='x east (m)', ylabel='y north (m)', zlabel='z up (m)', zlim=(0, 2),
             zticks=(0, 1, 2))
    axes.set_aspect('equal')
    axes.view_init(22, -60)
    axes.legend(loc='upper left', fontsize=8)
    figure.savefig(path, dpi=120, bbox_inches='tight')


def main():
    """Process the frames and print the figures."""
    if '--node' in sys.argv[1:]:
        whole_node(next((int(word) for word in sys.argv[1:] if word.isdecimal()), 5))
        return
    if '--picture' in sys.argv[1:]:
        picture(sys.argv[-1])
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
        lambda *_: None, lambda _: None,
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
