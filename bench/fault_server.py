# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A simulated Motive in a process of its own, to be killed, stopped and told what to do.

    python fault_server.py SCENARIO_JSON HOST PORT

Prints one JSON object a line: first where it is and when its frame 0 was due, then an answer to
every command (``pause``, ``resume``, ``restart SECONDS``, ``step SECONDS`` of its clock,
``network JSON``, ``count``). Ends with its input.
"""

import json
from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from optitrack_vrpn.clock.hostclock_io import HostClock  # noqa: E402
from optitrack_vrpn.sim.scenario_io import Network, scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.server_io import MotiveSimServer  # noqa: E402


def say(**values):
    """Print an answer."""
    print(json.dumps(values), flush=True)


def main(scenario, host, port):
    """Serve until the input ends."""
    sim = MotiveSimServer(scenario_from_mapping(json.loads(scenario)), host, int(port))
    with sim:
        clock = HostClock()
        stream = sim._stream
        origin_ns = stream.due_ns - stream.time_ns(stream.number) + clock.host_minus_arrival_ns()
        say(port=sim.port, origin_ns=origin_ns)
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == 'restart':
                sim.restart(float(arguments[0]))
            elif command == 'step':
                stream.base_ns += round(float(arguments[0]) * 1e9)
            elif command == 'network':
                network = Network(**json.loads(' '.join(arguments)))
                for peer in list(sim._clients._peers):
                    peer._link._network, peer._link.ideal = network, False
            elif command in ('pause', 'resume'):
                getattr(sim, command)()
            say(skipped=sim.counters.skipped_frames, clients=sim.clients)


if __name__ == '__main__':
    main(*sys.argv[1:])
