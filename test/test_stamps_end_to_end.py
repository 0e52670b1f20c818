# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The stamps of a simulated Motive with a fast clock and a jittery network, as a ROS user sees them.

Nothing of the node is asked: the sender's frames are 1/240 s of its own clock apart, so the
stamps must lie on a straight line with the skew in its slope.
"""

import time

from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.sim.acceptor_io import raw_clock_ns
import pytest
from rclpy.qos import QoSProfile
from rosgraph import NodeProcess, Observer, stamp_ns, wait_until

pytestmark = [
    pytest.mark.ros, pytest.mark.network, pytest.mark.timed, pytest.mark.timeout(300)]
RATE = 240.0
#: So fast that a busy machine, whose delays change by 0.1 ms within seconds, does not hide it.
SKEW = 200e-6


def collect(topic, seconds):
    """Give the stamps and arrivals (ns) of the poses of a topic, for a time from the first."""
    found = []
    with Observer() as observer:
        observer.node.create_subscription(
            PoseStamped, topic,
            lambda message: found.append((stamp_ns(message), time.time_ns())),
            QoSProfile(depth=1000))
        wait_until(lambda: found, 30.0, 'a pose')
        time.sleep(seconds)
    return zip(*found)


def seen(seconds):
    """Run simulator and node; return stamps and arrivals (ns), and the host's rate."""
    with NodeProcess('--names', 'wand', '--rate', RATE, '--skew-ppm', SKEW * 1e6, '--jitter-ms',
                     1.0, '--port', 0, tool='motive_sim', ros=False) as sim:
        port = sim.wait_for(r'127\.0\.0\.1:(\d+)')[1]
        with NodeProcess('-p', 'server:=127.0.0.1', '-p', 'autostart:=true', '-p',
                         f'port:={port}') as node:
            begin = time.time_ns(), raw_clock_ns()
            stamps, arrivals = collect('/wand/pose', seconds)
            end = time.time_ns(), raw_clock_ns()
            log = node.log
    assert len(stamps) > 0.8 * RATE * seconds, log
    # NTP disciplines the clock that ROS shows, not the one that the simulator runs on.
    host_rate = (end[0] - begin[0]) / (end[1] - begin[1]) - 1.0
    return np.array(stamps), np.array(arrivals), host_rate


def off_the_line(times_ns):
    """
    Return the slope less the nominal one, and the scatter about the line (us), by frame number.

    The scatter is the median distance, scaled to the deviation of normal errors: frames during
    which a busy machine stopped the simulated Motive or the node are outliers, not jitter.
    """
    t = (times_ns - times_ns[0]) * 1e-9
    frame = np.round(t * RATE)
    near = np.full(len(t), True)
    for _ in range(5):
        slope, level = np.polyfit(frame[near], t[near], 1)
        distance = np.abs(t - level - slope * frame)
        scatter = 1.4826 * np.median(distance)
        near = distance <= 4.0 * scatter
    return slope * RATE - 1.0, scatter * 1e6


def test_tracked_stamps_lie_on_the_senders_grid_and_show_its_skew():
    """By VRPN; those of NatNet are compared with the motion in test_ros_natnet."""
    stamps, arrivals, host_rate = seen(13.0)
    assert (stamps <= arrivals).all() and (np.diff(stamps) > 0).all()
    later = stamps > stamps[0] + 7 * 10**9
    skew, scatter = off_the_line(stamps[later])
    # a clock 200 ppm fast ticks too soon: its 1/240 s are shorter on ours
    assert skew == pytest.approx(host_rate - SKEW, abs=60e-6)
    _, arrived = off_the_line(arrivals[later])
    assert arrived > 500, 'the network had no jitter to take out'
    assert arrived > 10 * scatter
