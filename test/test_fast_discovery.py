# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fast DDS reads its profiles, and the profiles do what their comments say."""

import os
from pathlib import Path
import subprocess
import sys
from xml.etree import ElementTree

import pytest

PROFILE = Path(__file__).resolve().parent.parent / 'config' / 'fast_discovery.xml'
START = """
import rclpy
rclpy.init()
print(rclpy.get_rmw_implementation_identifier())
rclpy.create_node('reader')
rclpy.shutdown()
"""


def complaints(profile):
    """Start a node under a profile; gives what Fast DDS has against it."""
    done = subprocess.run(
        [sys.executable, '-c', START], capture_output=True, text=True, timeout=60, check=True,
        env=dict(os.environ, FASTRTPS_DEFAULT_PROFILES_FILE=str(profile),
                 FASTDDS_DEFAULT_PROFILES_FILE=str(profile)))
    if 'fastrtps' not in done.stdout:
        pytest.skip('another middleware reads no such profiles')
    return [line for line in (done.stdout + done.stderr).splitlines() if 'XML' in line]


@pytest.mark.ros
def test_fast_dds_reads_it_and_would_say_if_it_could_not(tmp_path):
    wrong = tmp_path / 'wrong.xml'
    wrong.write_text(PROFILE.read_text().replace('leaseAnnouncement', 'leaseAnouncement'))
    assert complaints(wrong)
    assert complaints(PROFILE) == []
    assert complaints(PROFILE.with_name('swarm_robot.xml')) == []


def test_programs_announce_themselves_every_fifth_of_a_second():
    tag = '{http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles}'
    (period,) = ElementTree.parse(PROFILE).iter(f'{tag}leaseAnnouncement')
    assert int(period.find(f'{tag}sec').text) == 0
    assert int(period.find(f'{tag}nanosec').text) == 200_000_000
