# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated camera: its body against the node's own conversion, its images against time."""

import threading
import time

import numpy as np
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.guests.rgbd.cameras_ros import RgbdSim
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics, pose_of
from optitrack_vrpn.guests.rgbd.images import to_depth, to_rgb
from optitrack_vrpn.guests.rgbd.room import BodyMotion, Room, TRAJECTORIES
from optitrack_vrpn.sim.acceptor_io import raw_clock_ns
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
import pytest
from rclpy.qos import qos_profile_sensor_data as SENSOR
from rosgraph import NodeHere, stamp_ns, wait_until
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image

pytest.importorskip('cv2')

pytestmark = [pytest.mark.ros, pytest.mark.network]
TIMES = np.linspace(0.0, 20.0, 60)
SCENARIO = scenario_from_mapping({'bodies': [{'name': 'Rig 1'}], 'server': {'port': 0}})


@pytest.mark.parametrize('name', sorted(TRAJECTORIES))
def test_the_node_publishes_the_pose_of_the_trajectory(name):
    """Positions and attitudes of Motive, converted as the node does it by default."""
    state = BodyMotion(TRAJECTORIES[name]).at(TIMES)
    maps = frame_maps(AxesConfig())
    positions = [maps.position_to_enu(tuple(each)) for each in state.position.tolist()]
    quats = [maps.quat_to_enu(tuple(each)) for each in state.quat_xyzw.tolist()]
    wanted = TRAJECTORIES[name].poses(TIMES)
    np.testing.assert_allclose(positions, wanted[:, :3, 3], atol=1e-12)
    np.testing.assert_allclose(
        Rotation.from_quat(quats).as_matrix(), wanted[:, :3, :3], atol=1e-9)


class Seen:
    """What an observer receives of a camera."""

    def __init__(self, observer):
        self.colour = observer.listen(Image, 'color/image_raw', SENSOR)
        self.depth = observer.listen(Image, 'aligned_depth_to_color/image_raw', SENSOR)
        self.info = observer.listen(CameraInfo, 'color/camera_info', SENSOR)
        self.static = observer.transforms(static=True)

    @property
    def images(self):
        return self.colour, self.depth, self.info


@pytest.fixture
def simulated(observer):
    """Run the camera; give what runs it and what an observer receives."""
    with NodeHere({
            'trajectory': 'rotation', 'rate_hz': 10.0, 'width': 160,
            'height': 120, 'fx': 131.25, 'fy': 131.25, 'cx': 79.5,
            'cy': 59.5}, cls=RgbdSim, scenario=SCENARIO) as here:
        yield here, Seen(observer)


def test_images_show_the_body_at_their_stamp(simulated):
    here, seen_by = simulated
    for topic in (*seen_by.images, seen_by.static):
        topic.wait(3 if topic is seen_by.depth else 1)
    depth_message = seen_by.depth.messages()[-1]
    colour_message = wait_until(lambda: next((
        message for message in seen_by.colour.messages()
        if stamp_ns(message) == stamp_ns(depth_message)), None))
    age_s = (time.time_ns() - stamp_ns(depth_message)) / 1e9
    exposed_s = here.node.server.time_at(raw_clock_ns()) - age_s
    info = Intrinsics.from_camera_info(seen_by.info.messages()[-1])
    assert info == Intrinsics(160, 120, 131.25, 131.25, 79.5, 59.5)
    depth, colour = to_depth(depth_message), to_rgb(colour_message)
    assert depth_message.encoding == '16UC1'
    transforms = {each.child_frame_id: each for message in seen_by.static.messages()
                  for each in message.transforms}
    matrices = {}
    for child, each in transforms.items():
        to, turn = each.transform.translation, each.transform.rotation
        matrices[child] = pose_of((to.x, to.y, to.z), (turn.x, turn.y, turn.z, turn.w))
    assert transforms['simulated_camera_link'].header.frame_id == 'Rig_1'
    assert transforms[depth_message.header.frame_id].header.frame_id == 'simulated_camera_link'
    mount = matrices['simulated_camera_link'] @ matrices[depth_message.header.frame_id]

    def error(seconds):
        """Compare with the room at a time: grey levels."""
        pose = TRAJECTORIES['rotation'].camera_poses(seconds, mount)[0]
        image, exact = Room().render(info, pose)
        seen = depth > 0
        assert seen.mean() > 0.8
        assert np.median(np.abs(depth - exact)[seen]) < 0.05
        return np.abs(colour.astype(int) - image).mean()

    # 2 grey levels of noise are a mean of 1.6; 50 ms are up to 2 degrees
    assert error(exposed_s) < 3.0
    assert min(error(exposed_s - 0.05), error(exposed_s + 0.05)) > 1.5 * error(exposed_s)


def test_the_camera_ends_without_an_error_after_ros(simulated, monkeypatch):
    """Ctrl-C shuts ROS down before the node is destroyed; publishing fails meanwhile."""
    here, seen_by = simulated
    errors = []
    monkeypatch.setattr(threading, 'excepthook', errors.append)
    seen_by.colour.wait(1)
    here.context.shutdown()
    wait_until(lambda: not here.node._thread.is_alive(), what='the end of the camera')
    assert not errors
