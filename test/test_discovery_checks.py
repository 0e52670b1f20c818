# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor on networks that lose multicast, and on robots with another clock."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

from optitrack_vrpn.cli.discovery.judge import judge_clocks, judge_multicast, Unicast
from optitrack_vrpn.core.severity import INFO, WARN
import pytest
from two_networks import allowed, TwoNetworks

MS = 1_000_000
DOMAIN = 42
#: A robot whose system clock, and nothing else, is ahead.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, t);
    if (!done && id == CLOCK_REALTIME) t->tv_sec += atoi(getenv("CLOCK_AHEAD_S"));
    return done;
}
"""
ROBOT = """
import rclpy
from nav_msgs.msg import Odometry
rclpy.init()
node = rclpy.create_node('base', namespace='robot1')
publisher = node.create_publisher(Odometry, 'odom', 10)
node.create_timer(0.02, lambda: publisher.publish(Odometry()))
print('up', flush=True)
rclpy.spin(node)
"""
DOCTOR = """
import json, sys, time
import rclpy
from optitrack_vrpn.telling.doctor.graph_ros import Extensions
rclpy.init()
node = rclpy.create_node('doctor')
checks = Extensions(node, robots=sys.argv[1:], rows=[
    f'optitrack_vrpn.cli.discovery.checks_ros:{name}'
    for name in ('MulticastCheck', 'ClockCheck')])
def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.02)
end = time.monotonic() + 10
while not node.count_publishers('/robot1/odom') and time.monotonic() < end:
    spin(0.1)
print(json.dumps([(one.check, one.word, one.found) for one in checks.findings(spin)]))
rclpy.shutdown()
"""


def inside(name, *words, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(
        ('ROS_AUTOMATIC', 'ROS_LOCALHOST', 'ROS_DISCOVERY', 'ROS_STATIC'))}
    return {'args': ['ip', 'netns', 'exec', name, *words], 'text': True,
            'env': {**environment, 'ROS_DOMAIN_ID': str(DOMAIN), **variables}}


@contextlib.contextmanager
def robot(networks, clock):
    with subprocess.Popen(stdout=subprocess.PIPE, **inside(
            networks.robot, sys.executable, '-c', ROBOT, LD_PRELOAD=str(clock),
            CLOCK_AHEAD_S='3')) as process:
        try:
            assert process.stdout.readline() == 'up\n'
            yield
        finally:
            process.kill()


def examine(networks, *robots):
    done = subprocess.run(check=True, capture_output=True, timeout=60, **inside(
        networks.motive, sys.executable, '-c', DOCTOR, networks.lab[0], *robots))
    return {check: (level, found) for check, level, found in json.loads(
        done.stdout.splitlines()[-1])}


def drop(name, chain):
    rules = (f'table ip lost {{ chain one {{ type filter hook {chain} priority 0; '
             'ip daddr 224.0.0.0/4 drop; }; }')
    subprocess.run(check=True, **inside(name, 'nft', rules))


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timeout(150)
@pytest.mark.skipif(not allowed() or not shutil.which('nft') or not shutil.which('gcc'),
                    reason='needs network namespaces, nft and a C compiler')
def test_lost_multicast_and_another_clock_are_found_between_two_computers(tmp_path):
    pytest.importorskip('rclpy')
    source, clock = tmp_path / 'clock.c', tmp_path / 'clock.so'
    source.write_text(CLOCK)
    subprocess.run(['gcc', '-shared', '-fPIC', '-o', clock, source, '-ldl'], check=True)
    with TwoNetworks() as networks:
        with robot(networks, clock):
            # DDS repeats what was lost on a busy computer, but not at once.
            found = next(filter(lambda found: 'clocks' in found, (
                examine(networks) for _ in range(4))))
            assert found['multicast'][0] == 'OK'
            assert f'{networks.lab[0]} (lab0)' in found['multicast'][1]
            assert networks.lab[1] not in found['multicast'][1]
            assert networks.other not in found['multicast'][1], 'a further address of its own'
            assert found['clocks'][0] == 'WARN'
            assert re.search('/robot1/base is ahead by (2.9|3.0)', found['clocks'][1])
            drop(networks.robot, 'output')
            level, text = examine(networks, networks.lab[1])['multicast']
            assert level == 'WARN' and f'listens on {networks.lab[0]}' in text
            assert f'{networks.lab[1]} is an address of this computer' in text
            assert 'does not pass' in text and 'return' not in text
        drop(networks.motive, 'input')
        level, text = examine(networks)['multicast']
        assert level == 'WARN' and 'no program of ROS domain 42 runs there' in text
        assert 'does not even return on lab0' in text


@pytest.mark.parametrize(('delays_ms', 'level', 'text'), [
    ([3.0, 0.4, 900.0], INFO, 'agree'), ([-4.0, 10.0], INFO, 'agree'),
    ([-6.0, 90.0], WARN, 'ahead by 0.006 s or more'),
    ([140.0, 800.0], INFO, 'agree'),    # WiFi that saves power
    ([2000.5, 2003.0], WARN, 'behind by 2.001 s, or each of its messages takes as long')])
def test_a_delay_is_no_other_clock_but_a_message_from_the_future_is(delays_ms, level, text):
    (found,) = judge_clocks({'/base': [round(delay * MS) for delay in delays_ms]})
    assert found.severity is level and text in found.found


def test_nothing_is_said_where_nothing_was_heard_or_asked():
    assert judge_clocks({}) == judge_multicast(0, {}, {}, {}) == []
    (found,) = judge_multicast(0, {}, {'10.0.0.2': 'wlan0'}, {'10.0.0.3': Unicast.SILENT})
    assert found.severity is WARN and found.found == '10.0.0.3 does not answer'
