# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compare the processor time of NatNet and VRPN, from datagrams to samples, without sockets and ROS.

    python bench/natnet_cost.py --bodies 50 --rate 240

Both receive the same poses. The tool prints the median of several runs, and the share of one core
at the given rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
import statistics
import sys
import time
from typing import Any

sys.path[len(sys.path):] = [str(Path(__file__).resolve().parent.parent)]

from optitrack_vrpn.drivers.frames import Body as PoseReport  # noqa: E402
from optitrack_vrpn.drivers.natnet import codec  # noqa: E402
from optitrack_vrpn.drivers.natnet.connection import NatNetConnection  # noqa: E402
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions  # noqa: E402
from optitrack_vrpn.drivers.natnet.frames import encode_frame  # noqa: E402
from optitrack_vrpn.drivers.natnet.messages import Held, ServerInfo  # noqa: E402
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator  # noqa: E402
from optitrack_vrpn.drivers.vrpn.codec import (  # noqa: E402
    encode_pose, MAX_DATAGRAM_SIZE, POSE_TYPE)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection  # noqa: E402
from optitrack_vrpn.drivers.vrpn.frames import to_frames  # noqa: E402
from optitrack_vrpn.sim.natnet import NatNetWorld  # noqa: E402
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.world import World  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.pipeline import Pipeline  # noqa: E402

_NS = 1_000_000_000
_PROCESSING_NS = 5_400_000


def vrpn(world: World, frames: list[Any]) -> Callable[[], int]:
    """Prepare the datagrams of VRPN; gives what is to be timed."""
    server, client = VrpnConnection(), VrpnConnection()
    client.receive_stream(server.data_to_send())
    server.receive_stream(client.data_to_send())
    for name in world.names:
        server.local.sender_id(name)
    server.local.type_id(POSE_TYPE)
    server.describe(0)
    client.receive_stream(server.data_to_send())
    sent = []
    for frame in frames:
        packed = bytearray()
        datagrams = []
        for report in frame.reports:
            assert isinstance(report, PoseReport)
            message = server.datagram_message(
                report.name, POSE_TYPE,
                encode_pose(0, report.position, report.quat_xyzw), report.sender_time_ns)
            if len(packed) + len(message) > MAX_DATAGRAM_SIZE:
                datagrams.append(bytes(packed))
                packed.clear()
            packed += message
        sent.append((frame.reports[0].sender_time_ns, [*datagrams, bytes(packed)]))

    def run() -> int:
        pipeline, count = Pipeline(PipelineConfig()), 0
        for time_ns, datagrams in sent:
            for datagram in datagrams:
                count += len(pipeline.process(
                    to_frames(client.receive_datagram(datagram)), time_ns + _NS, 0).samples)
        return count
    return run


def natnet(world: NatNetWorld, frames: list[Any], version: tuple[int, int]) -> Callable[[], int]:
    """Prepare the datagrams of NatNet; gives what is to be timed."""
    sent = []
    for frame in frames:
        exposure_ns = frame.reports[0].sender_time_ns
        sent.append((exposure_ns, encode_frame(world.frame(
            frame, exposure_ns, exposure_ns + _PROCESSING_NS), version)))

    def run() -> int:
        connection, pipeline, count = NatNetConnection(0), Pipeline(PipelineConfig()), 0
        connection.receive(codec.encode_server_info(ServerInfo(
            'Motive', (3, 1, 0, 0), version, 10_000_000, 1511, False, '')), 0)
        connection.receive(encode_definitions(world.definitions, version), 0)
        translator = Translator(10_000_000)
        assert connection.definitions is not None
        translator.names = name_table(connection.definitions).names
        for time_ns, datagram in sent:
            for event in connection.receive(datagram, time_ns + _NS):
                named = translator.frame(  # frames before the first names are held
                    event.frame if isinstance(event, Held) else event)  # type: ignore[arg-type]
                if named is not None:
                    count += len(pipeline.process([named], time_ns + _NS, 0).samples)
        return count
    return run


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--bodies', type=int, default=50)
    parser.add_argument('--rate', type=float, default=240.0)
    parser.add_argument('--frames', type=int, default=1000)
    parser.add_argument('--runs', type=int, default=5)
    args = parser.parse_args()
    scenario = scenario_from_mapping({
        'bodies': args.bodies, 'rate': args.rate, 'noise': {'position_mm': 0.1},
        'natnet': {'markers': 0}})
    world = World(scenario)
    frames = [world.frame(number, 3_600 * _NS) for number in range(args.frames)]
    ways = {'VRPN': vrpn(world, frames)}
    for version in ((3, 0), (4, 1)):
        ways[f'NatNet {version[0]}.{version[1]}'] = natnet(
            NatNetWorld(scenario, world.names), frames, version)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.runs):
        for name, run in ways.items():
            begin = time.process_time()
            assert run() > 0.9 * args.bodies * args.frames, name
            found[name].append((time.process_time() - begin) / args.frames * 1e6)
    print(f'{args.bodies} bodies at {args.rate:g} Hz, median of {args.runs} runs')
    print('| | us a frame | us a pose | share of a core | beside VRPN |\n|---|---|---|---|---|')
    base = statistics.median(found['VRPN'])
    for name, figures in found.items():
        figure = statistics.median(figures)
        print(f'| {name} | {figure:.0f} | {figure / args.bodies:.2f} | '
              f'{figure * args.rate / 1e4:.1f} % | {figure / base:.2f} |')


if __name__ == '__main__':
    main()
