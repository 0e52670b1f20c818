# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""With the profile for recording, Fast DDS loses nothing while the recorder does not run."""

import os
from pathlib import Path
import select
import signal
import subprocess
import sys
import time

import pytest
from test_fast_discovery import complaints

pytestmark = [pytest.mark.ros]
PROFILE = Path(__file__).resolve().parent.parent / 'config' / 'fast_recording.xml'
#: Longer (s) than Fast DDS's defaults wait for a subscriber that does not read (1 s).
STOPPED_S = 2.0
#: More than the queue of Fast DDS's defaults holds (512), in less time than a heartbeat takes.
COUNT = 3000
READER = """
import sys
import rclpy
from geometry_msgs.msg import PoseStamped
rclpy.init()
node = rclpy.create_node('reader')
seen = []
node.create_subscription(PoseStamped, '/wand/pose', lambda m: seen.append(m.header.stamp.sec),
                         5000)
while 0 not in seen:
    rclpy.spin_once(node)
print('matched', flush=True)
while -1 not in seen:
    rclpy.spin_once(node)
print(len(set(seen) - {0, -1}), flush=True)
"""
WRITER = """
import sys
import time
import rclpy
from geometry_msgs.msg import PoseStamped
rclpy.init()
print(rclpy.get_rmw_implementation_identifier(), flush=True)
node = rclpy.create_node('writer')
publisher = node.create_publisher(PoseStamped, '/wand/pose', 10)    # the node's default depth
def publish(number):
    message = PoseStamped()
    message.header.stamp.sec = number
    publisher.publish(message)
while not publisher.get_subscription_count():
    time.sleep(0.01)
for line in sys.stdin:
    for number in map(int, line.split()):
        publish(number)
    print('done', flush=True)
"""


def received(profile, stopped_s=0.0):
    """Publish while the reader is stopped; gives how many of the messages it has seen after."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.endswith('_DEFAULT_PROFILES_FILE')}
    if profile is not None:
        environment.update(FASTRTPS_DEFAULT_PROFILES_FILE=str(profile),
                           FASTDDS_DEFAULT_PROFILES_FILE=str(profile))
    reader, writer = (subprocess.Popen(
        [sys.executable, '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment) for script in (READER, WRITER))

    def send(numbers):
        writer.stdin.write(' '.join(map(str, numbers)) + '\n')
        writer.stdin.flush()
        assert writer.stdout.readline() == 'done\n'

    try:
        if 'fastrtps' not in writer.stdout.readline():
            pytest.skip('another middleware reads no such profiles')
        while not select.select([reader.stdout], [], [], 0.2)[0]:
            send([0])    # the reader may not know the writer yet
        assert reader.stdout.readline() == 'matched\n'
        reader.send_signal(signal.SIGSTOP)
        time.sleep(stopped_s)
        send(range(1, COUNT + 1))
        reader.send_signal(signal.SIGCONT)
        send([-1])
        return int(reader.stdout.readline())
    finally:
        for process in (reader, writer):
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)    # killed programs leave their queues
        for process in (reader, writer):
            try:
                process.communicate(timeout=10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def test_nothing_is_lost_while_the_reader_does_not_run(unused_domain):
    assert received(PROFILE, STOPPED_S) == COUNT
    assert received(None) < COUNT    # what the profile is for


def test_fast_dds_reads_the_profile():
    assert complaints(PROFILE) == []
