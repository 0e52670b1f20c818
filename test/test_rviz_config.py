# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The configuration of rviz shows the first bodies of Motive at the first start."""

from pathlib import Path

from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest
from rclpy.qos import (
    DurabilityPolicy, HistoryPolicy, LivelinessPolicy, qos_check_compatible, QoSCompatibility,
    QoSProfile, ReliabilityPolicy)
from rosgraph import NodeHere, Observer, wait_until
import yaml

ROOT = Path(__file__).resolve().parent.parent
#: What the displays of rviz_default_plugins subscribe to.
TYPES = {'rviz_default_plugins/Pose': 'geometry_msgs/msg/PoseStamped'}
#: rviz's words, of which an unknown one would be read as the system's default.
RELIABILITY = {'Reliable': ReliabilityPolicy.RELIABLE,
               'Best Effort': ReliabilityPolicy.BEST_EFFORT}
DURABILITY = {'Volatile': DurabilityPolicy.VOLATILE,
              'Transient Local': DurabilityPolicy.TRANSIENT_LOCAL}
HISTORY = {'Keep Last': HistoryPolicy.KEEP_LAST, 'Keep All': HistoryPolicy.KEEP_ALL}


@pytest.fixture(scope='module')
def manager():
    config = yaml.safe_load((ROOT / 'config' / 'optitrack_vrpn.rviz').read_text())
    return config['Visualization Manager']


def displays(manager, kind):
    return [display for display in manager['Displays']
            if display['Class'] == kind and display['Enabled']]


@pytest.mark.ros
@pytest.mark.network
def test_display_fits_what_the_node_publishes_for_motive_s_first_bodies(manager):
    wanted = displays(manager, 'rviz_default_plugins/Pose')
    bodies = named_bodies(3)
    with MotiveSimServer(Scenario(bodies=bodies), port=0) as sim, NodeHere(
            {'server': '127.0.0.1', 'port': sim.port, 'autostart': True}), \
            Observer() as observer:
        transforms, worlds = observer.transforms(), observer.transforms(static=True)
        wait_until(lambda: len(transforms) > 100 and len(worlds), 20.0, 'transforms')

        topics = {display['Topic']['Value'] for display in wanted}
        published = {name for name, types in observer.node.get_topic_names_and_types()
                     if TYPES['rviz_default_plugins/Pose'] in types and name.endswith('/pose')}
        # Nodes of earlier tests may not have left the graph yet.
        assert topics <= published and len(topics) == len(bodies)

        for display in wanted:
            topic = display['Topic']
            offer, = observer.node.get_publishers_info_by_topic(topic['Value'])
            assert offer.topic_type == TYPES[display['Class']]
            request = QoSProfile(
                depth=topic['Depth'], history=HISTORY[topic['History Policy']],
                reliability=RELIABILITY[topic['Reliability Policy']],
                durability=DURABILITY[topic['Durability Policy']],
                liveliness=LivelinessPolicy.AUTOMATIC)
            verdict, reason = qos_check_compatible(offer.qos_profile, request)
            assert verdict == QoSCompatibility.OK, reason
            # A slow screen does not delay the publishers.
            assert request.reliability is ReliabilityPolicy.BEST_EFFORT

        # rviz draws what has a way to its fixed frame
        parents = {transform.child_frame_id: transform.header.frame_id
                   for message in transforms.messages() + worlds.messages()
                   for transform in message.transforms}
        fixed = manager['Global Options']['Fixed Frame']
        assert fixed in parents.values() and fixed not in parents
        frames = {display['Topic']['Value'].split('/')[1] for display in wanted}
        assert {frame for frame, parent in parents.items() if parent == fixed} \
            == {*frames, f'{fixed}_ned'}


def test_grid_and_view_stand_in_the_mocap_world(manager):
    fixed = manager['Global Options']['Fixed Frame']
    grid, = displays(manager, 'rviz_default_plugins/Grid')
    assert grid['Reference Frame'] == fixed and grid['Plane'] == 'XY'
    assert displays(manager, 'rviz_default_plugins/TF')
    assert manager['Views']['Current']['Target Frame'] == fixed
