# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A simulated Motive in a separate process, which can be killed, stopped and commanded.

    python fault_server.py SCENARIO_JSON HOST PORT

Prints one JSON object per line: first its address and when its frame 0 was due, then an answer to
every command (``pause``, ``resume``, ``restart SECONDS``, ``step SECONDS`` of its clock,
``network JSON``, ``models NAMES`` in the order of their streaming ids, ``edit 0``
or ``1``, ``count``). Ends with its input.
"""

from dataclasses import replace
from functools import partial
import json
from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from optitrack_vrpn.drivers.natnet.messages import MessageId  # noqa: E402
from optitrack_vrpn.sim.scenario_io import Network, scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.server_io import MotiveSimServer  # noqa: E402
from optitrack_vrpn.stream.clock.hostclock_io import HostClock  # noqa: E402


def say(**values):
    """Print an answer."""
    print(json.dumps(values), flush=True)


def step_natnet(natnet, step_ns):
    """Set the counter of the simulated Motive PC."""
    before = natnet.server_ns
    natnet.server_ns = lambda raw_ns: before(raw_ns) + step_ns


def change_models(natnet, names):
    """Give streaming ids to other bodies, and lose the first two requests for definitions."""
    take, left = natnet.execute, [2]

    def take_later(message_id, payload, address):
        if message_id == MessageId.REQUEST_MODEL_DEFINITIONS and left[0]:
            left[0] -= 1
        else:
            take(message_id, payload, address)
    natnet.execute = take_later
    natnet.world.set_models(names)


def main(scenario, host, port):
    """Serve until the input ends."""
    mapping = json.loads(scenario)
    natnet = mapping.get('protocol') == 'natnet'
    if natnet:
        mapping['natnet']['port'] = int(port)
    sim = MotiveSimServer(scenario_from_mapping(mapping), host, 0 if natnet else int(port))
    with sim:
        clock = HostClock()
        stream = sim.stream
        origin_ns = stream.due_ns - stream.time_ns(stream.number) + clock.host_minus_arrival_ns()
        say(port=sim.port_of('natnet') if natnet else sim.port, origin_ns=origin_ns)
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == 'restart':
                sim.restart(float(arguments[0]))
            elif command == 'step':
                step_ns = round(float(arguments[0]) * 1e9)
                stream.base_ns += step_ns
                if natnet:
                    sim.call(partial(step_natnet, sim.serving('natnet'), step_ns))
            elif command == 'models':
                sim.call(partial(change_models, sim.serving('natnet'), arguments))
            elif command == 'edit':
                world = sim.serving('natnet').world
                world.settings = replace(world.settings, edit_mode=bool(int(arguments[0])))
            elif command == 'network':
                sim.set_network(Network(**json.loads(' '.join(arguments))))
            elif command in ('pause', 'resume'):
                getattr(sim, command)()
            say(skipped=sim.counters.skipped_frames, clients=sim.clients,
                accepted=sim.counters.accepted)


if __name__ == '__main__':
    main(*sys.argv[1:])
