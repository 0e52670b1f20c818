# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The whole chain: simulated Motive, node, bridges, and strict fakes of PX4 and ArduPilot.

Nothing but true poses of the right moment may reach an autopilot, whatever breaks.
"""

import math
from pathlib import Path
import sys
import time

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'bench')]

from autopilot_kit import faulty, Flight  # noqa: E402
import pytest  # noqa: E402
from rosgraph import wait_until  # noqa: E402

pytest.importorskip('pymavlink')
pytest.importorskip('serial')

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(150)]
#: Faults of the body within each period (s): however long the programs take to start, the test
#: sees each of them, and has some 14 s without them afterwards.
PERIOD_S = 20.0
#: A divisor of that, so that each fault finds the body on the same part of its curve whichever
#: period is judged: where it turns fast, a pose after a fault is a jump until the body comes by
#: again, and several faults are one gap.
MOTION_S = PERIOD_S / 2.5
FAULTS = {'silent': (8.0, 8.8), 'frozen': (9.6, 10.4), 'teleported': (11.2, 12.0),
          'swapped': (12.8, 13.4)}


def resets(heard):
    """Count how often the reset counter changed."""
    counters = [one.message.reset_counter for one in heard]
    return sum(b != a for a, b in zip(counters, counters[1:]))


def best_rate_hz(stamps, count=40):
    """Give the highest rate over so many messages in a row."""
    return max(count / (b - a) * 1e9 for a, b in zip(stamps, stamps[count:]))


def test_only_true_fresh_poses_reach_the_autopilots_whatever_breaks(tmp_path):
    with Flight(faulty(FAULTS, PERIOD_S, MOTION_S), tmp_path) as flight:
        px4 = flight.start_bridge('px4')
        ardupilot = flight.start_bridge('ardupilot', serial=True)
        node = flight.start_node()
        for server in (px4, ardupilot):
            wait_until(lambda server=server: len(server.heard) > 20, 30.0, 'poses')
        # The faults of one period; what was sent before it is not judged, since a node that starts
        # in the middle of a fault cannot know.
        begin_s = PERIOD_S * math.floor(flight.seconds() / PERIOD_S)
        if flight.seconds() > begin_s + 7.0:
            begin_s += PERIOD_S
            flight.until(begin_s)
        else:
            begin_s = flight.seconds()
        begin_ns = flight.servers[0].origin_ns + round(begin_s * 1e9)
        flight.until(PERIOD_S * math.floor(begin_s / PERIOD_S) + 14.2)
        judged = {name: flight.judge(name, begin_ns) for name in flight.fakes}
        for name, verdict in judged.items():
            log = flight.bridges[name].log
            assert not verdict.wrong, (verdict, log)
            assert not verdict.backwards, verdict
            if name == 'px4':
                # By the kernel's clock; the bytes of a pseudo terminal have none.
                assert verdict.oldest_ms < 100, verdict
            # Every fault of the body lasts longer than the least gap; a starved machine adds some.
            assert verdict.gaps >= len(FAULTS), (verdict, node.log, log)
            # No gap without a reset, and no reset without a reason: on a starved machine a sample
            # that grew too old in the bridge is one.
            assert not verdict.silent_gaps, (verdict, log)
            counters = [(one - verdict.counters[0]) % 256 for one in verdict.counters]
            assert counters == sorted(set(counters)), (verdict, log)
            increments = counters[-1]
            assert verdict.gaps <= increments <= verdict.gaps + 3, (verdict, log)
            origin = flight.servers[0].origin_ns
            for begin, end in FAULTS.values():
                assert not [
                    stamp for stamp in verdict.stamps if (
                        begin + 0.02 < (stamp - origin) / 1e9 % PERIOD_S < end - 0.01)], (
                    name, begin)
            fake = flight.fakes[name].fake
            assert set(fake.dropped) <= {'too close'}, fake.dropped
            # It recovers after the last fault, as soon as the machine lets it.
            wait_until(lambda fake=fake: fake.fused(time.time_ns()), 20.0, 'fusion')
            wait_until(lambda fake=fake: fake.converged, 20.0, 'round trips')
            wait_until(lambda name=name, fake=fake: fake.resets == resets(flight.heard(name)),
                       what='the resets that were sent')
        for name, rate_hz in (('px4', 50.0), ('ardupilot', 40.0)):
            # Never faster, and as fast where the machine keeps up for a second.
            assert judged[name].rate_hz < rate_hz + 1.0
            assert best_rate_hz(judged[name].stamps) == pytest.approx(rate_hz, abs=3)
        # By the stamps, once PX4 uses them: its estimator sees the true times on its own clock.
        count = len(px4.heard)
        wait_until(lambda: len(px4.heard) > count + 5, what='poses')
        last = px4.fake.accepted[-1]
        assert min(abs(last.sample_ns - px4.fake.local_ns(
            one.message.time_usec * 1000)) for one in px4.heard[-5:]) < 5_000_000
        for name, bridge in flight.bridges.items():
            assert 'is not' not in bridge.log.lower() or 'set it to' not in bridge.log, name

        # A serial cable is pulled out and put back; the other vehicle does not notice.
        ardupilot.unplug()
        before = ardupilot.heard[-1].message.reset_counter
        flight.bridges['ardupilot'].wait_for('trying again')
        unplugged = time.time_ns()
        count = len(px4.heard)
        wait_until(lambda: len(px4.heard) > count + 40, 10.0, 'poses for the other vehicle')
        ardupilot.replug()
        replugged = time.time_ns()
        wait_until(lambda: ardupilot.heard[-1].arrival_ns > replugged, 10.0, 'poses again')
        after = [one for one in ardupilot.heard if one.arrival_ns > unplugged + 50_000_000]
        assert all(one.arrival_ns >= replugged for one in after)
        assert after[0].message.reset_counter != before

        # The node is killed and comes back.
        counters = {name: server.heard[-1].message.reset_counter
                    for name, server in flight.fakes.items()}
        node.process.kill()
        node.process.wait()
        killed = time.time_ns()
        flight.start_node()
        for name, server in flight.fakes.items():
            wait_until(lambda server=server: server.heard[-1].arrival_ns > killed + 300_000_000,
                       20.0, 'poses of the new node')
            verdict = flight.judge(name, begin_ns)
            assert not verdict.wrong and not verdict.backwards
            assert name != 'px4' or verdict.oldest_ms < 100
            assert server.heard[-1].message.reset_counter != counters[name]

        # It ends in order.
        for bridge in flight.bridges.values():
            code, took = bridge.end()
            assert code == 0 and took < 6.0, bridge.log
            assert 'Traceback' not in bridge.log
