# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The simulated Motive against the independent client ``motioncapture``.

PyPI's ``motioncapture`` holds the C++ VRPN library. It keeps one connection a process, so that
each test runs it in its own. It has wheels for Linux on x86-64 and Python up to 3.13 alone, and a
ROS 2 workspace does not have it: without it these tests are skipped, except in the environment
that tools/env.py makes from PyPI, where they fail.
"""

import importlib.util
import json
from pathlib import Path
import subprocess
import sys
import threading

import numpy as np
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest

FROM_PYPI = Path(sys.prefix, 'seed').is_dir() and sys.version_info < (3, 14)
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec('motioncapture') is None and not FROM_PYPI,
    reason='motioncapture is not installed')

# It returns from waitForNextFrame without a frame too, and prints what it has.
CLIENT = """
import json, motioncapture, sys, time
client = motioncapture.connect('vrpn', {'hostname': sys.argv[1]})
last, end = None, time.monotonic() + float(sys.argv[3])
seen = 0
while seen < int(sys.argv[2]) and time.monotonic() < end:
    client.waitForNextFrame()
    bodies = {name: [*map(float, b.position), b.rotation.x, b.rotation.y, b.rotation.z,
                     b.rotation.w] for name, b in client.rigidBodies.items()}
    if bodies and bodies != last:
        seen += 1
        last = bodies
        print('FRAME', json.dumps(bodies), flush=True)
    time.sleep(0.0005)
"""

NAMES = ['Rigid Body 1', '1drone', 'drone/left', 'Umbrella-2']


class Client:
    """Run the client and read what it prints, in the background."""

    def __init__(self, hostname, frames, timeout=60.0):
        self.process = subprocess.Popen(
            [sys.executable, '-c', CLIENT, hostname, str(frames), str(timeout)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.frames, self.other = [], []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith('FRAME '):
                self.frames.append(json.loads(line[6:]))
            else:
                self.other.append(line)

    def finish(self, timeout=90.0):
        self.process.wait(timeout)
        self.thread.join(5)
        self.process.stdout.close()
        return self.frames


def as_single(pose):
    return tuple(np.float32((*pose.position, *pose.quat_xyzw)).tolist())


def serve(sim, client):
    """Send frames until the client has what it wants; say what was sent."""
    sent = {name: set() for name in NAMES}
    while client.process.poll() is None:
        for pose in sim.send_frame().reports:
            sent[pose.name].add(as_single(pose))
        threading.Event().wait(0.01)
    return sent


@pytest.mark.parametrize('way', ['', 'tcp://'])
def test_the_real_client_finds_every_body_and_its_pose(way):
    scenario = scenario_from_mapping({'bodies': NAMES, 'motion': 'figure_eight', 'rate': 100.0})
    with MotiveSimServer(scenario, port=0, paced=False) as sim:
        client = Client(f'{way}127.0.0.1:{sim.port}', 40)
        sent = serve(sim, client)
        frames = client.finish()
        assert len(frames) == 40, ''.join(client.other)
        assert sim.counters.requests == (0 if way else 1)
        assert bool(sim.counters.datagrams) == (not way)
    assert sorted(frames[-1]) == sorted(NAMES)
    for frame in frames:
        for name, numbers in frame.items():
            assert tuple(np.float32(numbers).tolist()) in sent[name], name
    for name in NAMES:
        assert len({tuple(frame[name]) for frame in frames if name in frame}) > 20


def test_the_real_client_follows_a_restart():
    scenario = scenario_from_mapping({'bodies': NAMES, 'rate': 100.0})
    with MotiveSimServer(scenario, port=0, paced=False) as sim:
        client = Client(f'127.0.0.1:{sim.port}', 100_000)
        while not client.frames and client.process.poll() is None:
            sim.send_frame()
            threading.Event().wait(0.01)
        sim.restart(downtime=0.3)
        # It asks again every 2 s or so; the names have other numbers now.
        sent = {name: set() for name in NAMES}
        before = len(client.frames)
        for _ in range(3000):
            for pose in sim.send_frame().reports:
                sent[pose.name].add(as_single(pose))
            threading.Event().wait(0.01)
            if sim.counters.accepted < 2:
                before = len(client.frames)    # what it had heard may be read late
            elif len(client.frames) >= before + 20:
                break
        client.process.kill()
        client.finish()
        assert sim.counters.accepted == 2
        assert len(client.frames) >= before + 20
        last = client.frames[-1]
        for name in NAMES:
            assert tuple(np.float32(last[name]).tolist()) in sent[name], name
