# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publishers of rgbd_mapper: keyframes, graph, path, map and transform."""

import time
from typing import Any, Optional

from geometry_msgs.msg import Point, PoseArray, PoseStamped
from nav_msgs.msg import Path
import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.camera_node_ros import LATCHED
from optitrack_vrpn.rgbd.mapper import Mapper
from optitrack_vrpn.rgbd.messages_ros import (
    cloud_message, make_header, pose_message, transform_message)
from optitrack_vrpn.rgbd.settings import MapOutputSettings
from optitrack_vrpn.ros.tf import tf_publisher
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import ColorRGBA, Header
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

Floats = NDArray[np.float64]

#: Chosen: least time between two clouds of the map (s), and greatest share of the thread's time
#: for them, because their cost grows with the map. Time doubled or share halved, large maps are
#: published half as often; the other way, mapping has less time.
_CLOUD_PERIOD_S, _CLOUD_SHARE = 2.0, 0.1
#: Chosen: width of the lines in rviz (m), and their colours.
_LINE_M = 0.005
_ODOMETRY_RGB, _LOOP_RGB, _OUTLIER_RGB = (0.3, 0.3, 1.0), (0.1, 0.8, 0.1), (1.0, 0.1, 0.1)


class MapOutput:
    """
    Publish the map.

    :param node: owner of the publishers.
    :param settings: frame, transform and period of the map.
    :ivar publishers: by name; the node destroys them.
    """

    def __init__(self, node: Node, settings: MapOutputSettings) -> None:
        self._settings = settings
        self._cloud_due_s = 0.0
        make = node.create_publisher
        self.publishers: dict[str, Any] = {
            'keyframes': make(PointCloud2, 'keyframes', 10),
            'poses': make(PoseArray, 'keyframe_poses', LATCHED),
            'edges': make(MarkerArray, 'keyframe_associations', LATCHED),
            'path': make(Path, 'mapper_path', LATCHED),
            'map': make(PointCloud2, 'map/cloud', LATCHED)}
        if settings.tf:
            self.publishers['tf'] = tf_publisher(node)

    def publish_keyframe(
        self, time_ns: int, points: Floats, colours: NDArray[np.uint8],
    ) -> None:
        """Publish the points of one keyframe, in the frame of the map (m)."""
        header = make_header(time_ns, self._settings.map_frame)
        self.publishers['keyframes'].publish(cloud_message(header, points, colours))

    def publish_transform(self, time_ns: int, map_from_odometry: Floats, child: str) -> None:
        """
        Publish the transform from the odometry to the map, if ``output.tf`` is set.

        :param map_from_odometry: 4x4.
        :param child: frame of the odometry.
        """
        if 'tf' in self.publishers:
            self.publishers['tf'].publish(TFMessage(transforms=[transform_message(
                make_header(time_ns, self._settings.map_frame), child,
                pose_message(map_from_odometry))]))

    def publish_graph(self, mapper: Mapper, time_ns: Optional[int]) -> None:
        """
        Publish keyframes and edges; path and map only while they have subscribers.

        :param time_ns: the stamp (ns); None for that of the last keyframe.
        """
        if time_ns is None:
            if not mapper.keyframes:
                return
            time_ns = mapper.keyframes[-1].stamp_ns
        frame = self._settings.map_frame
        header = make_header(time_ns, frame)
        self.publishers['poses'].publish(PoseArray(
            header=header, poses=[pose_message(each.pose) for each in mapper.keyframes]))
        self.publishers['edges'].publish(MarkerArray(markers=_markers(mapper, header)))
        if self.publishers['path'].get_subscription_count():
            path, poses = mapper.path(), []
            for stamp, values in path.rows():
                pose = PoseStamped(header=make_header(stamp, frame))
                at, turn = pose.pose.position, pose.pose.orientation
                at.x, at.y, at.z, turn.x, turn.y, turn.z, turn.w = values
                poses.append(pose)
            self.publishers['path'].publish(Path(header=header, poses=poses))
        began = time.monotonic()
        if self.publishers['map'].get_subscription_count() and began >= self._cloud_due_s:
            self.publishers['map'].publish(cloud_message(header, *mapper.map_cloud()))
            took = time.monotonic() - began
            self._cloud_due_s = began + max(_CLOUD_PERIOD_S, took / _CLOUD_SHARE)


def _markers(mapper: Mapper, header: Header) -> list[Marker]:
    """Draw the edges of the graph as lines between keyframes, one colour for each kind."""
    keyframes, loops = mapper.keyframes, mapper.loops
    lines = (
        ('odometry', _ODOMETRY_RGB, [(each.number - 1, each.number) for each in keyframes[1:]
                                     if each.joined]),
        ('loops', _LOOP_RGB, [(each.start, each.end) for each in loops
                              if not each.left_out]),
        ('outliers', _OUTLIER_RGB, [(each.start, each.end) for each in loops
                                    if each.left_out]))
    made = []
    for number, (name, (red, green, blue), pairs) in enumerate(lines):
        marker = Marker(header=header, ns=name, id=number, type=Marker.LINE_LIST,
                        color=ColorRGBA(r=red, g=green, b=blue, a=1.0))
        marker.action = Marker.ADD if pairs else Marker.DELETE
        marker.scale.x = _LINE_M
        marker.pose.orientation.w = 1.0
        for pair in pairs:
            for index in pair:
                x, y, z = keyframes[index].pose[:3, 3].tolist()
                marker.points.append(Point(x=x, y=y, z=z))
        made.append(marker)
    return made
