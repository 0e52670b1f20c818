# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Processor time of NatNet beside VRPN, without ROS; see ``cost.py``.

Both receive the same poses: from datagrams to samples in one process, or with ``--sockets`` the
whole client, to which a sender of each protocol streams from another process in turn. The client
then waits between frames as in the node, so that its caches are cold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
import functools
from pathlib import Path
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

sys.path[len(sys.path):] = [str(Path(__file__).resolve().parent.parent)]

from optitrack_vrpn import RUNS  # noqa: E402
from optitrack_vrpn.drivers.config import ClientConfig  # noqa: E402
from optitrack_vrpn.drivers.frames import Body as PoseReport, Item  # noqa: E402
from optitrack_vrpn.drivers.natnet import codec  # noqa: E402
from optitrack_vrpn.drivers.natnet.connection import NatNetConnection  # noqa: E402
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions  # noqa: E402
from optitrack_vrpn.drivers.natnet.frames import encode_frame  # noqa: E402
from optitrack_vrpn.drivers.natnet.messages import Held, ServerInfo  # noqa: E402
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator  # noqa: E402
from optitrack_vrpn.drivers.table import make_source, source_settings  # noqa: E402
from optitrack_vrpn.drivers.vrpn.codec import (  # noqa: E402
    encode_pose, MAX_DATAGRAM_SIZE, POSE_TYPE)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection  # noqa: E402
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
                    client.receive_datagram(datagram), time_ns + _NS, 0).samples)
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


class SampleSink:
    """Make samples of frames, as the node does before it publishes; counts them."""

    def __init__(self) -> None:
        self._pipeline = Pipeline(PipelineConfig())
        self.count = 0
        self.flows = threading.Event()

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process items."""
        self.count += len(
            self._pipeline.process(items, arrival_ns, host_minus_arrival_ns).samples)
        if self.count > 1000:
            self.flows.set()

    def link_changed(self, change: object) -> None:
        """Ignore changes."""


def over_sockets(protocol: str, bodies: int, rate: int, seconds: float) -> float:
    """Return the processor time of the client per frame (us)."""
    name = 'latency_sender_natnet.py' if protocol == 'natnet' else 'latency_sender.py'
    with subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(name)), '--bodies', str(bodies),
             '--rate', str(rate)], stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdout is not None
        port = int(sender.stdout.readline())
        settings, config = source_settings(), ClientConfig(server='127.0.0.1')
        if protocol == 'natnet':
            settings = replace(settings, natnet=replace(settings.natnet, port=port))
        else:
            config = replace(config, port=port)
        sink = SampleSink()
        client = make_source(protocol, config, settings, sink)
        client.start()
        try:
            assert sink.flows.wait(30.0), protocol
            count, begin = sink.count, time.process_time()
            time.sleep(seconds)
            spent, frames = time.process_time() - begin, (sink.count - count) / bodies
        finally:
            client.stop()
            sender.terminate()
    return spent / frames * 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this measurement."""
    parser.add_argument('--bodies', type=int, default=50)
    parser.add_argument('--rate', type=float, default=240.0)
    parser.add_argument('--frames', type=int, default=1000)
    parser.add_argument('--repetitions', type=int, default=5)
    parser.add_argument('--sockets', action='store_true')
    parser.add_argument('--seconds', type=float, default=3.0, help='of a run with --sockets')


def table(args: argparse.Namespace) -> list[str]:
    """Measure; return the table."""
    ways = {name: functools.partial(
        over_sockets, name.lower(), args.bodies, round(args.rate), args.seconds)
        for name in ('VRPN', 'NatNet')} if args.sockets else _decoding(args)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.repetitions):
        for name, run in ways.items():
            found[name].append(run())
    lines = [f'{args.bodies} bodies at {args.rate:g} Hz, {RUNS}, median of {args.repetitions} '
             'runs', '', '| | us a frame | us a pose | share of a core | beside VRPN |',
             '|---|---|---|---|---|']
    for name, figures in found.items():
        figure = statistics.median(figures)
        ratio = statistics.median(one / base for one, base in zip(figures, found['VRPN']))
        lines.append(f'| {name} | {figure:.0f} | {figure / args.bodies:.2f} | '
                     f'{figure * args.rate / 1e4:.1f} % | {ratio:.2f} |')
    return lines


def _decoding(args: argparse.Namespace) -> dict[str, Callable[[], float]]:
    """Return what decodes datagrams and gives the time per frame (us)."""
    scenario = scenario_from_mapping({
        'bodies': args.bodies, 'rate': args.rate, 'noise': {'position_mm': 0.1},
        'natnet': {'markers': 0}})
    world = World(scenario)
    frames = [world.frame(number, 3_600 * _NS) for number in range(args.frames)]
    ways = {'VRPN': vrpn(world, frames)}
    for version in ((3, 0), (4, 1)):
        ways[f'NatNet {version[0]}.{version[1]}'] = natnet(
            NatNetWorld(scenario, world.names), frames, version)

    def timed(name: str, run: Callable[[], int]) -> float:
        begin = time.process_time()
        assert run() > 0.9 * args.bodies * args.frames, name
        return (time.process_time() - begin) / args.frames * 1e6
    return {name: functools.partial(timed, name, run) for name, run in ways.items()}
