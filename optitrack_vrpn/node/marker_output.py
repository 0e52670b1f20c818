# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Labelled markers as a point cloud."""

from typing import Any, Callable

from optitrack_vrpn.pipeline.markers import FIELDS, MarkerCloud, POINT
from optitrack_vrpn.units import NS_PER_S
from sensor_msgs.msg import PointCloud2, PointField

_WHOLE = ('body', 'member')


class MarkerOutput:
    """
    Publish the markers of each frame, while there are subscribers.

    :param create: creates a publisher from message type, topic and kind.
    :param world: frame id of the ENU world.
    :ivar publisher: the publisher.
    """

    def __init__(self, create: Callable[[Any, str, str], Any], world: str) -> None:
        self.publisher = create(PointCloud2, 'markers', 'markers')
        self._heard = False
        self._message = PointCloud2(
            height=1, is_bigendian=False, is_dense=True, point_step=POINT.size, fields=[
                PointField(name=name, offset=offset, count=1, datatype=(
                    PointField.UINT32 if name in _WHOLE else PointField.FLOAT32))
                for name, offset in FIELDS])
        self._message.header.frame_id = world

    def listen(self) -> None:
        """Check whether there are subscribers."""
        self._heard = self.publisher.get_subscription_count() > 0

    def publish(self, cloud: MarkerCloud) -> None:
        """Publish the markers of a frame."""
        if not self._heard:
            return
        message = self._message
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(cloud.stamp_ns, NS_PER_S)
        message.width = cloud.points
        message.row_step = cloud.points * POINT.size
        message.data = cloud.data
        self.publisher.publish(message)
