# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the nodes with image input have around them: a camera's driver, and its user."""

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn.guests.rgbd.camera_node_ros import image_message, info_message, make_header
from optitrack_vrpn.guests.rgbd.images import from_depth, from_rgb
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import NodeHere, wait_until
from sensor_msgs.msg import CameraInfo, Image

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
OPTICAL = 'camera_color_optical_frame'


class Driver:
    """
    Publish images as a driver does, and hear the diagnostics.

    :ivar publishers: of colour, depth, camera_info, and of what a test adds. They are reliable,
        which the nodes' best effort matches.
    """

    def __init__(self, observer, colour='rgbd/rgb', depth='rgbd/depth', info='rgbd/info'):
        self.observer = observer
        self.publishers = [self.publisher(Image, colour), self.publisher(Image, depth),
                           self.publisher(CameraInfo, info)]
        self.diagnostics = observer.listen(DiagnosticArray, '/diagnostics', 100)
        self.stamp_ns = 1_700_000_000_000_000_000

    def publisher(self, kind, topic):
        return self.observer.node.create_publisher(kind, topic, 10)

    def connected(self):
        return all(publisher.get_subscription_count() for publisher in self.publishers)

    def describe(self, camera, publisher=2, **changes):
        """Publish a camera_info."""
        message = info_message(make_header(self.stamp_ns, OPTICAL), camera)
        for name, value in changes.items():
            setattr(message, name, value)
        self.publishers[publisher].publish(message)

    def pair(self, rgb, depth, encoding='16UC1', lag_ns=0, frames=()):
        """
        Publish colour (None: none) and depth (None: none) of the present stamp.

        :param frames: other frames than the usual one, by 'colour images' and 'depth images'.
        """
        frames = dict(frames)
        if rgb is not None:
            self.publishers[0].publish(image_message(make_header(
                self.stamp_ns, frames.get('colour images', OPTICAL)), from_rgb(rgb)))
        if depth is not None:
            self.publishers[1].publish(image_message(make_header(
                self.stamp_ns + lag_ns, frames.get('depth images', OPTICAL)),
                from_depth(depth, encoding)))

    def diagnosis(self, text, repeat=None, **wanted):
        """
        Wait for diagnostics whose message holds a text, and values by name; give the status.

        :param repeat: called while it waits.
        """
        wanted = {name.replace('_', ' '): value for name, value in wanted.items()}

        def latest():
            return [status for array in self.diagnostics.messages()[-3:]
                    for status in array.status]

        def found():
            if repeat is not None:
                repeat()
            return next((status for status in latest() if text in status.message and wanted.items()
                         <= {each.key.replace('_', ' '): each.value
                             for each in status.values}.items()), None)
        try:
            return wait_until(found, 10.0, text)
        except AssertionError:
            raise AssertionError(
                f'no {text!r} in {[status.message for status in latest()]}') from None


def active(cls, **parameters):
    """Start an active node in this process; dots of names are written as two underscores."""
    return NodeHere({'control.generations': ['none'], **{
        name.replace('__', '.'): value for name, value in parameters.items()}},
        cls=cls).activate()
