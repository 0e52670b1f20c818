# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Faults as an autopilot sees them: what the bridge sends to it meanwhile.

Simulator, node, a bridge to a PX4 by UDP and one to an ArduPilot at the end of a pseudo terminal,
in their own processes. A row sums up both vehicles, where both are hit.
"""

from contextlib import contextmanager
from importlib.util import find_spec
import re
import tempfile
import time

from autopilot_kit import Flight, scenario
from fault_kit import LOG
from rosgraph import wait_until

#: Samples a second to each autopilot.
RATES = {'px4': 50.0, 'ardupilot': 40.0}
#: A pose older than this must not reach an autopilot (s).
OLDEST_S = 0.1
#: Judged before a fault and after it (s).
BEFORE_S, AFTER_S = 0.5, 2.0
BODY_FAULTS = (
    ('silent for 1 s', {'type': 'occlusion', 'mode': 'silent'}),
    ('frozen for 1 s', {'type': 'occlusion', 'mode': 'frozen'}),
    ('teleported by 1 m for 1 s', {'type': 'teleport', 'offset': [0.0, 1.0, 0.0]}),
)
FIRST_S, SPACE_S = 14.0, 7.0


@contextmanager
def flight(faults=(), frame_faults=()):
    """Start everything, and wait until both autopilots are fed."""
    with tempfile.TemporaryDirectory() as folder, Flight(
            scenario(faults, frame_faults), folder) as found:
        found.start_bridge('px4')
        found.start_bridge('ardupilot', serial=True)
        found.start_node()
        for server in found.fakes.values():
            wait_until(lambda server=server: len(server.heard) > 60, 30.0, 'poses')
        yield found


def row(found, name, begin_ns, end_ns, autopilots=tuple(RATES), *, outage=True, patience_s=10.0):
    """
    Sum up one fault.

    :param begin_ns: of the fault (host's clock).
    :param end_ns: likewise.
    :param autopilots: those that it hits.
    :param outage: whether no pose is wanted while it lasts.
    """
    def after(autopilot, since_ns):
        return next((one.arrival_ns for one in found.heard(autopilot)
                     if one.arrival_ns > since_ns), None)

    def back():
        return [after(autopilot, end_ns) for autopilot in autopilots]

    wait_until(lambda: None not in back(), patience_s, 'poses after the fault')
    until_ns = max(back()) + round(AFTER_S * 1e9)
    wait_until(lambda: time.time_ns() > until_ns + 10**8, 30.0, 'the end')
    counts = dict.fromkeys(
        ('poses', 'made', 'lost', 'stale', 'wrong', 'repeated', 'backwards'), 0)
    oldest_s, error_s, noticed = 0.0, 0.0, []
    for autopilot in autopilots:
        heard = [one for one in found.heard(autopilot)
                 if begin_ns - BEFORE_S * 1e9 <= one.arrival_ns <= until_ns]
        wanted_s = BEFORE_S + (until_ns - end_ns) / 1e9 + (
            0.0 if outage else (end_ns - begin_ns) / 1e9)
        made = round(RATES[autopilot] * wanted_s)
        counts['poses'] += len(heard)
        counts['made'] += made
        counts['lost'] += max(made - len(heard), 0)
        stamps = [one.message.fields['time_usec'] for one in heard]
        counts['repeated'] += sum(b == a for a, b in zip(stamps, stamps[1:]))
        counts['backwards'] += sum(b < a for a, b in zip(stamps, stamps[1:]))
        for one, stamp in zip(heard, stamps):
            due = found.frame_of(one, 'cf1')
            if due is None:
                counts['wrong'] += 1
                continue
            error_s = max(error_s, abs(float(stamp * 1000 - due)) / 1e9)
            age_s = float(one.arrival_ns - due) / 1e9
            oldest_s = max(oldest_s, age_s)
            # The bytes of a pseudo terminal have no arrival but the moment when they are read.
            counts['stale'] += int(autopilot == 'px4' and age_s > OLDEST_S)
        for line in list(found.bridges[autopilot].lines):
            match = LOG.match(line)
            if match and match[1] != 'INFO' and int(match[2] + match[3]) >= begin_ns:
                noticed.append((int(match[2] + match[3]), match[4]))
                break
    first = min(noticed, default=None)
    return {
        'name': f'autopilot: {name}', 'note': '', **counts,
        'noticed_s': None if first is None else (first[0] - begin_ns) / 1e9,
        'word': '' if first is None else word(first[1]),
        'recovered_s': (max(back()) - end_ns) / 1e9,
        'oldest_ms': 1e3 * oldest_s, 'stamp_error_ms': 1e3 * error_s}


def word(text):
    """Shorten a line of the log to what it names."""
    match = re.search(r'the body is (\w+)', text)
    if match:
        return match[1]
    return next((short for pattern, short in (
        ('unplugged|trying again', 'link failed'), ('heartbeat', 'no heartbeat'),
        ('publishers of', 'two publishers'))
        if re.search(pattern, text)), text[:40])


def bodies():
    """Hide, freeze and teleport the body, and exchange its name with another one."""
    times = [(FIRST_S + SPACE_S * i, FIRST_S + 1.0 + SPACE_S * i)
             for i in range(len(BODY_FAULTS) + 1)]
    with flight([{**fault, 'start': start, 'end': end}
                 for (_, fault), (start, end) in zip(BODY_FAULTS, times)],
                [{'type': 'swap_labels', 'bodies': ['cf1', 'cf2'], 'start': times[-1][0],
                  'end': times[-1][1]}]) as found:
        assert found.seconds() < FIRST_S - BEFORE_S, 'the programs were too slow to come up'
        found.until(times[-1][1])
        origin = found.servers[0].origin_ns
        names = [name for name, _ in BODY_FAULTS] + ['labels swapped for 1 s']
        return [row(found, name, origin + round(start * 1e9), origin + round(end * 1e9))
                for name, (start, end) in zip(names, times)]


def node_killed():
    """Kill the node, and start it again after a second."""
    with flight() as found:
        begin = time.time_ns()
        found.node.process.kill()
        found.node.process.wait()
        time.sleep(1.0)
        end = time.time_ns()
        found.start_node()
        return [row(found, 'node killed, started again after 1 s', begin, end, patience_s=60.0)]


def cable():
    """Pull the serial cable of the ArduPilot out, and put it back after two seconds."""
    with flight() as found:
        serial = found.fakes['ardupilot']
        begin = time.time_ns()
        serial.unplug()
        time.sleep(2.0)
        serial.replug()
        end = time.time_ns()
        return [row(found, 'serial cable pulled out for 2 s', begin, end, ('ardupilot',))]


def mute():
    """Let both autopilots transmit nothing; they still hear."""
    with flight() as found:
        begin = time.time_ns()
        for server in found.fakes.values():
            server.silent = True
        time.sleep(6.0)
        for server in found.fakes.values():
            server.silent = False
        return [row(found, 'transmits nothing for 6 s, but hears', begin, time.time_ns(),
                    outage=False)]


def _with_libraries(case):
    """Leave a case out where a library of the bridge is missing."""
    def run():
        missing = [name for name in ('pymavlink', 'serial') if find_spec(name) is None]
        if missing:
            return [{'name': f'autopilot: {case.__name__}',
                     'skipped': f'{", ".join(missing)} not installed'}]
        return case()
    return run


CASES = {f'bridge_{case.__name__}': _with_libraries(case)
         for case in (bodies, node_killed, cable, mute)}
