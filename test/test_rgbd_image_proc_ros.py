# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node rgbd_image_proc with real topics."""

import cv2
from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.image_proc_ros import RgbdImageProc
from optitrack_vrpn.rgbd.images import from_depth, from_rgb, to_depth, to_rgb
from optitrack_vrpn.rgbd.messages_ros import image_message, info_message, make_header, stamp_ns
from optitrack_vrpn.rgbd.registration import Registration
import pytest
from rosgraph import NodeHere, NodeProcess, wait_until
from sensor_msgs.msg import CameraInfo, Image, PointCloud2

pytestmark = [pytest.mark.ros, pytest.mark.network]

COLOUR = Intrinsics(160, 120, 131.0, 130.0, 80.5, 59.0)
DEPTH = Intrinsics(160, 120, 142.0, 142.5, 78.0, 58.5)
SHIFT = np.array([[1.0, 0, 0, 25], [0, 1, 0, 0], [0, 0, 1, 0]])


class Camera:
    """Publish raw images, and hear the processed ones."""

    def __init__(self, observer):
        create = observer.node.create_publisher
        self.publishers = [
            create(Image, 'camera/rgb/image_color', 10),
            create(Image, 'camera/depth/image_raw', 10),
            create(CameraInfo, 'camera/rgb/camera_info', 10),
            create(CameraInfo, 'camera/depth/camera_info', 10)]
        self.outputs = [observer.listen(kind, f'rgbd/{name}', 10) for kind, name in (
            (Image, 'rgb'), (Image, 'depth'), (CameraInfo, 'info'), (PointCloud2, 'cloud'))]
        self.diagnostics = observer.listen(DiagnosticArray, '/diagnostics', 10)
        self.stamp_ns = 1_700_000_000_000_000_000
        self.rgb = np.random.default_rng(1).integers(0, 255, (120, 160, 3), dtype=np.uint8)
        self.depth = np.full((120, 160), 2.0, np.float32)
        self.depth[:, :40] = 0

    def show(self):
        """Publish everything once."""
        self.stamp_ns += 33_000_000
        colour = make_header(self.stamp_ns, 'rgb_optical')
        depth = make_header(self.stamp_ns + 2_000_000, 'ir_optical')
        self.publishers[2].publish(info_message(colour, COLOUR))
        self.publishers[3].publish(info_message(depth, DEPTH))
        self.publishers[0].publish(image_message(colour, from_rgb(self.rgb)))
        self.publishers[1].publish(image_message(depth, from_depth(self.depth)))

    def said(self, text):
        """Wait for diagnostics with a text, while images come."""
        def found():
            self.show()
            return any(text in status.message for array in self.diagnostics.messages()[-2:]
                       for status in array.status)
        wait_until(found, 10.0, text)


def started(files, **parameters):
    here = NodeHere({'control.generations': ['none'], **files, **parameters}, cls=RgbdImageProc)
    assert here.run(here.node.trigger_configure).name == 'SUCCESS'
    assert here.run(here.node.trigger_activate).name == 'SUCCESS'
    return here


@pytest.fixture
def files(tmp_path):
    storage = cv2.FileStorage(str(tmp_path / 'extr.yml'), cv2.FILE_STORAGE_WRITE)
    storage.write('ir2rgb', SHIFT)
    storage.release()
    storage = cv2.FileStorage(str(tmp_path / 'warp.yml'), cv2.FILE_STORAGE_WRITE)
    for name, value in (('c0', 0), ('c1', 1.05), ('c2', 0)):
        storage.write(name, np.full((120, 160), float(value)))
    storage.write('fit_mode', 0)
    storage.release()
    return {'extrinsics_file': str(tmp_path / 'extr.yml'),
            'warp_file': str(tmp_path / 'warp.yml')}


def test_raw_images_become_registered_ones(observer, files):
    camera = Camera(observer)
    with started(files, scale=0.5):
        wait_until(lambda: camera.show() or all(len(each) for each in camera.outputs))
        rgb, depth, info, cloud = (each.messages()[-1] for each in camera.outputs)
        size = COLOUR.scaled(0.5)
        assert Intrinsics.from_camera_info(info) == size
        np.testing.assert_array_equal(to_rgb(rgb), cv2.resize(
            camera.rgb, (80, 60), interpolation=cv2.INTER_AREA))
        transform = np.eye(4)
        transform[0, 3] = 0.025
        expected = Registration(DEPTH, size, transform).register(camera.depth * np.float32(1.05))
        np.testing.assert_allclose(to_depth(depth), expected, atol=0.001)
        assert 0 < (to_depth(depth) == 0).sum() < 3000
        # each keeps its stamp, all have the frame of the colour camera
        assert (stamp_ns(depth.header) - 2_000_000) % 33_000_000 == stamp_ns(
            rgb.header) % 33_000_000
        assert {each.header.frame_id for each in (rgb, depth, info, cloud)} == {'rgb_optical'}
        points = np.frombuffer(cloud.data, '<f4').reshape(-1, 4)
        assert len(points) == np.count_nonzero(expected)
        np.testing.assert_allclose(points[:, 2], 2.1, atol=1e-3)
        colours = np.frombuffer(cloud.data, 'u1').reshape(-1, 16)[:, 14:11:-1]
        seen = np.rint(size.project(points[:, :3])).astype(int)
        np.testing.assert_array_equal(colours, to_rgb(rgb)[seen[:, 1], seen[:, 0]])
        camera.said('processing')


def test_faults_are_named(observer, files):
    camera = Camera(observer)
    with started({}, aligned=True):
        camera.depth = camera.depth[:60]
        camera.said('depth image has 160 x 60 pixels, its calibration 160 x 120')
        camera.publishers[0], camera.publishers[1] = camera.publishers[1], camera.publishers[0]
        camera.said('depth swapped')
        assert all(len(output) == 0 for output in camera.outputs)


@pytest.mark.parametrize('parameters, message', [
    ({}, 'extrinsics_file: set the file'),
    ({'extrinsics_file': '/nowhere/extr.yml'}, '/nowhere/extr.yml cannot be read'),
    ({'aligned': True, 'warp_file': '/nowhere/warp.yml'}, '/nowhere/warp.yml cannot be read')])
def test_a_missing_file_is_an_error_and_not_left_out(parameters, message):
    arguments = [word for name, value in parameters.items()
                 for word in ('-p', f'{name}:={str(value).lower()}')]
    with NodeProcess('-p', 'autostart:=true', '-p', 'control.generations:=[none]', *arguments,
                     tool='rgbd_image_proc') as process:
        process.wait_for(message)
        process.wait_for('autostart stops')
