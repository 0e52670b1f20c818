# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Two bridges for long, with a fault of the body or of a process every few seconds.

    python bench/autopilot_soak.py                 ten minutes
    python bench/autopilot_soak.py --minutes 2

Every minute the body goes silent, freezes, is teleported and exchanges its name with another one;
the node is killed and started again, and the serial cable of one vehicle is pulled out for a
second. The fake autopilots are a PX4 on UDP and an ArduPilot on a pseudo terminal, with clocks of
their own. The exit code is 1 if one message is wrong, old, repeated or of an untracked body, if a
reset counter or a rate is wrong, or if a bridge grows.
"""

import argparse
import os
from pathlib import Path
import statistics
import sys
import tempfile
import time

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / 'test'), str(HERE)]
PERIOD_S = 60.0
#: Within each period (s): faults of the body, the killing of the node, the cable.
FAULTS = {'silent': (10.0, 11.0), 'frozen': (16.0, 17.0), 'teleported': (22.0, 23.0),
          'swapped': (28.0, 29.0)}
KILLED_S, UNPLUGGED_S = 36.0, 50.0
#: After the end of a fault the cameras' first frames may still count as it.
EDGE_S = 0.02
#: The rate while nothing is wrong may be off by so much.
RATE_TOLERANCE = 0.05
NOISE_MB = 3.0


def memory_mb(process):
    """Read how much memory a process holds."""
    for line in Path(f'/proc/{process.pid}/status').read_text().splitlines():
        if line.startswith('VmRSS'):
            return int(line.split()[1]) / 1024
    return 0.0


def soak(total_s, folder):
    """
    Run it.

    :returns: verdicts by autopilot, stretches without a message wanted, memory readings, counts.
    """
    from autopilot_kit import faulty, Flight, MOTION_S
    with Flight(faulty(FAULTS, PERIOD_S, MOTION_S), folder) as flight:
        flight.start_bridge('px4')
        serial = flight.start_bridge('ardupilot', serial=True)
        flight.start_node()
        memory = {name: [] for name in flight.bridges}
        minute, killed, unplugged = 0, 0, 0
        ends = {'node killed, started again after 1 s': [],
                'serial cable pulled out for 1 s': []}
        while flight.seconds() < total_s:
            at = flight.seconds() - minute * PERIOD_S
            if at >= PERIOD_S:
                minute += 1
                print(f'{minute} min: ' + ', '.join(
                    f'{name} {len(flight.fakes[name].heard)} messages, {memory[name][-1]:.1f} MB'
                    for name in memory), flush=True)
            elif killed == minute and at >= KILLED_S:
                killed += 1
                flight.node.process.kill()
                flight.node.process.wait()
                time.sleep(1.0)
                ends['node killed, started again after 1 s'].append(time.time_ns())
                flight.start_node()
            elif unplugged == minute and at >= UNPLUGGED_S:
                unplugged += 1
                serial.unplug()
                time.sleep(1.0)
                serial.replug()
                ends['serial cable pulled out for 1 s'].append(time.time_ns())
            for name, bridge in flight.bridges.items():
                memory[name].append(memory_mb(bridge.process))
            time.sleep(1.0)
        print('judging', flush=True)
        judged = {name: flight.judge(name) for name in flight.fakes}
        origin = flight.servers[0].origin_ns
        untracked = {name: count_untracked(verdict, origin) for name, verdict in judged.items()}
        for name, (_, end) in FAULTS.items():
            ends[f'{name} for 1 s' if name != 'swapped' else 'labels swapped for 1 s'] = [
                origin + round(1e9 * (end + PERIOD_S * number)) for number in range(minute)]
        back = {fault: {name: resumed(judged[name], times) for name in judged}
                for fault, times in ends.items()}
        fakes = {name: (dict(server.fake.dropped), server.fake.resets)
                 for name, server in flight.fakes.items()}
        logs = {name: bridge.log for name, bridge in flight.bridges.items()}
    return judged, untracked, memory, fakes, logs, (killed, unplugged), back


def count_untracked(verdict, origin_ns):
    """Count messages whose stamp lies in a fault of the body."""
    count = 0
    for stamp in verdict.stamps:
        at = (stamp - origin_ns) / 1e9 % PERIOD_S
        count += any(begin + EDGE_S < at < end - EDGE_S for begin, end in FAULTS.values())
    return count


def resumed(verdict, times_ns):
    """Measure from ends of faults to the next message: median and longest (s), and how many."""
    stamps = np.array(verdict.stamps)
    waits = [(stamps[index] - end) / 1e9 for end in times_ns
             if (index := int(np.searchsorted(stamps, end))) < len(stamps)]
    return (statistics.median(waits), max(waits), len(waits)) if waits else (0.0, 0.0, 0)


def steady_rate(verdict):
    """Return the median rate over seconds in which nothing went wrong (Hz)."""
    seconds = {}
    for stamp in verdict.stamps:
        seconds[stamp // 10**9] = seconds.get(stamp // 10**9, 0) + 1
    return statistics.median(seconds.values())


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=10.0)
    arguments = parser.parse_args()
    from conftest import claim_domain
    domain, claim = claim_domain()
    with claim, tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST',
            ROS_LOG_DIR=folder)
        judged, untracked, memory, fakes, logs, (killed, unplugged), back = soak(
            60.0 * arguments.minutes, folder)
    print(f'{arguments.minutes:g} min; node killed {killed} times, cable pulled {unplugged} times')
    print('| autopilot | messages | untracked | wrong | backwards | oldest | rate | gaps | '
          'gaps without a reset | resets | dropped by the autopilot |')
    print('|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|')
    failures = []
    for name, verdict in judged.items():
        dropped, resets = fakes[name]
        rate_hz = steady_rate(verdict)
        print(f'| {name} | {verdict.messages} | {untracked[name]} | {verdict.wrong} | '
              f'{verdict.backwards} | {verdict.oldest_ms:.1f} ms | {rate_hz:g} Hz | '
              f'{verdict.gaps} | {verdict.silent_gaps} | {resets} | {dropped or "-"} |')
        early, late = (statistics.median(part) for part in (
            memory[name][len(memory[name]) // 4:len(memory[name]) // 2],
            memory[name][-len(memory[name]) // 4:]))
        for what, bad in (
                ('messages of an untracked body', untracked[name]), ('wrong', verdict.wrong),
                ('backwards', verdict.backwards),
                # A pseudo terminal does not tell when bytes arrived, only when they were read.
                ('older than 100 ms', name == 'px4' and verdict.oldest_ms > 100),
                ('gaps without a reset', verdict.silent_gaps),
                ('rate', abs(rate_hz / {'px4': 50, 'ardupilot': 40}[name] - 1) > RATE_TOLERANCE),
                ('memory grows', late - early > NOISE_MB),
                ('traceback in the log', 'Traceback' in logs[name])):
            if bad:
                failures.append(f'{name}: {what}')
        print(f'  {name}: {early:.1f} MB in the second quarter, {late:.1f} MB in the last')
    print('| fault | poses again after: px4, median and longest | ardupilot | times |')
    print('|---|--:|--:|--:|')
    for fault, found in back.items():
        cells = [f'{median:.2f} s, {longest:.2f} s' for median, longest, _ in found.values()]
        print(f'| {fault} | {" | ".join(cells)} | {found["px4"][2]} |')
    print('\n'.join(failures) if failures else 'all is well')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
