# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The whole chain: simulated Motive, node, bridges, and fake PX4 and ArduPilot that are strict.

Nothing but true poses of the right moment may reach an autopilot, whatever breaks.
"""

from pathlib import Path
import sys
import time

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'bench')]

from autopilot_kit import Flight, scenario  # noqa: E402
import pytest  # noqa: E402
from rosgraph import wait_until  # noqa: E402

pytest.importorskip('pymavlink')
pytest.importorskip('serial')

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(150)]
FAULTS = {'silent': (8.0, 8.8), 'frozen': (9.6, 10.4), 'teleported': (11.2, 12.0),
          'swapped': (12.8, 13.4)}


def faulty():
    silent, frozen, teleported, swapped = FAULTS.values()
    return scenario(
        [{'type': 'occlusion', 'mode': 'silent', 'start': silent[0], 'end': silent[1]},
         {'type': 'occlusion', 'mode': 'frozen', 'start': frozen[0], 'end': frozen[1]},
         {'type': 'teleport', 'start': teleported[0], 'end': teleported[1]}],
        [{'type': 'swap_labels', 'bodies': ['cf1', 'cf2'], 'start': swapped[0],
          'end': swapped[1]}])


def test_only_true_fresh_poses_reach_the_autopilots_whatever_breaks(tmp_path):
    with Flight(faulty(), tmp_path) as flight:
        px4 = flight.start_bridge('px4')
        ardupilot = flight.start_bridge('ardupilot', serial=True)
        node = flight.start_node()
        for server in (px4, ardupilot):
            wait_until(lambda server=server: len(server.heard) > 20, 30.0, 'poses')
        flight.until(14.2)
        judged = {name: flight.judge(name) for name in flight.fakes}
        for name, verdict in judged.items():
            log = flight.bridges[name].log
            assert not verdict.wrong, (verdict, log)
            assert not verdict.backwards, verdict
            if name == 'px4':
                # By the kernel's clock; the bytes of a pseudo terminal have none.
                assert verdict.oldest_ms < 100, verdict
            # Every fault of the body lasts longer than the least gap; a starved machine adds some.
            # On a busy machine the first ones may be over before all programs have started.
            first = (verdict.stamps[0] - flight.servers[0].origin_ns) / 1e9
            begun = sum(begin > first + 0.5 for begin, _ in FAULTS.values())
            assert begun, 'the programs took too long to start'
            assert verdict.gaps >= begun, verdict
            assert verdict.counters == list(range(verdict.gaps + 1)), (verdict, log)
            origin = flight.servers[0].origin_ns
            for begin, end in FAULTS.values():
                assert not [stamp for stamp in verdict.stamps
                            if begin + 0.02 < (stamp - origin) / 1e9 < end - 0.01], (name, begin)
            fake = flight.fakes[name].fake
            assert set(fake.dropped) <= {'too close'}, fake.dropped
            assert fake.fused(time.time_ns())
            assert fake.resets == verdict.gaps
            assert fake.converged
        assert judged['px4'].rate_hz == pytest.approx(50, abs=3)
        assert judged['ardupilot'].rate_hz == pytest.approx(40, abs=3)
        # By the stamps, once PX4 uses them: its estimator sees the true times on its own clock.
        last = px4.fake.accepted[-1]
        stamp = px4.heard[-1].message.fields['time_usec'] * 1000
        assert abs(last.sample_ns - px4.fake.local_ns(stamp)) < 5_000_000
        for name, bridge in flight.bridges.items():
            assert 'is not' not in bridge.log.lower() or 'set it to' not in bridge.log, name

        # A serial cable is pulled out and put back; the other vehicle does not notice.
        before = judged['ardupilot'].counters[-1]
        ardupilot.unplug()
        flight.bridges['ardupilot'].wait_for('trying again')
        unplugged = time.time_ns()
        count = len(px4.heard)
        wait_until(lambda: len(px4.heard) > count + 40, 10.0, 'poses for the other vehicle')
        ardupilot.replug()
        replugged = time.time_ns()
        wait_until(lambda: ardupilot.heard[-1].arrival_ns > replugged, 10.0, 'poses again')
        after = [one for one in ardupilot.heard if one.arrival_ns > unplugged + 50_000_000]
        assert all(one.arrival_ns >= replugged for one in after)
        assert after[0].message.fields['reset_counter'] == before + 1

        # The node is killed and comes back.
        counters = {name: server.heard[-1].message.fields['reset_counter']
                    for name, server in flight.fakes.items()}
        node.process.kill()
        node.process.wait()
        killed = time.time_ns()
        flight.start_node()
        for name, server in flight.fakes.items():
            wait_until(lambda server=server: server.heard[-1].arrival_ns > killed + 300_000_000,
                       20.0, 'poses of the new node')
            verdict = flight.judge(name)
            assert not verdict.wrong and not verdict.backwards
            assert name != 'px4' or verdict.oldest_ms < 100
            assert server.heard[-1].message.fields['reset_counter'] > counters[name]

        # It ends in order.
        for bridge in flight.bridges.values():
            code, took = bridge.end()
            assert code == 0 and took < 6.0, bridge.log
            assert 'Traceback' not in bridge.log
