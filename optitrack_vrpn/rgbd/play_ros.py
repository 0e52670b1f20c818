# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Node of rgbd_play: publish a sequence in real time, with its ground truth."""

import threading
import time
from typing import Any, Optional

from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.camera_output_ros import CameraOutput
from optitrack_vrpn.rgbd.messages_ros import make_header, pose_message
from optitrack_vrpn.rgbd.tum_sequence_io import Sequence
import rclpy
from rclpy.node import Node

#: Optical frame of the recorded camera, frame of its ground truth, topic of the ground truth.
FRAME, WORLD, TRUTH = 'openni_rgb_optical_frame', 'world', 'ground_truth/pose'


class RgbdPlay(Node):
    """
    Publish a sequence once, then shut down.

    :param sequence: the sequence.
    :param camera: intrinsics of both images.
    :param rate: playback speed, 1 for that of the recording.
    :param shift: add a constant to all stamps so that the first is now.
    :param listeners: number of subscribers to wait for before the first image.
    :ivar failure: error that ended the sequence early, or None.
    :ivar published: number of published pairs of images.
    """

    def __init__(
        self, sequence: Sequence, camera: Intrinsics, rate: float = 1.0, shift: bool = True,
        listeners: int = 0, node_name: str = 'rgbd_play', **kwargs: Any,
    ) -> None:
        super().__init__(node_name, **kwargs)
        self._sequence, self._rate, self._shift = sequence, rate, shift
        self._listeners = listeners
        self._output = CameraOutput(self, camera, FRAME)
        self._truth = self.create_publisher(PoseStamped, TRUTH, 100)
        self._ended = threading.Event()
        self.failure: Optional[Exception] = None
        self.published = 0
        self._thread = threading.Thread(target=self._run, name='player', daemon=True)
        self._thread.start()

    def destroy_node(self) -> None:
        """Stop the playback."""
        self._ended.set()
        self._thread.join()
        super().destroy_node()

    def _run(self) -> None:
        try:
            self._play()
        except Exception as error:
            # On Ctrl-C ROS shuts down before the node, and publishing fails.
            if self.context.ok():
                self.failure = error
        finally:
            if not self._ended.is_set():
                rclpy.try_shutdown(context=self.context)

    def _play(self) -> None:
        while self._output.listeners < self._listeners:
            if self._ended.wait(0.05):
                return
        pairs, truth = self._sequence.pairs, self._sequence.truth
        first_ns, begin = pairs[0].stamp_ns, time.monotonic()
        shift_ns = time.time_ns() - first_ns if self._shift else 0
        given = 0
        if truth is not None:    # begin with the last pose before the first image
            given = max(0, int(np.searchsorted(truth.stamps_ns, first_ns)) - 1)
        for images in pairs:
            rgb, depth = self._sequence.load(images)
            due = begin + (images.stamp_ns - first_ns) / 1e9 / self._rate
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            self._output.publish(images.stamp_ns + shift_ns, rgb, depth, '32FC1')
            self.published += 1
            while truth is not None and given < len(truth) and (
                    truth.stamps_ns[given] <= images.stamp_ns):
                self._publish_truth(given, shift_ns)
                given += 1
        if truth is not None and given < len(truth):    # one pose after the last image
            self._publish_truth(given, shift_ns)
        self._ended.wait(0.5)    # time for the middleware to send the last messages

    def _publish_truth(self, index: int, shift_ns: int) -> None:
        truth = self._sequence.truth
        assert truth is not None
        self._truth.publish(PoseStamped(
            header=make_header(int(truth.stamps_ns[index]) + shift_ns, WORLD),
            pose=pose_message(truth.at(slice(index, index + 1)).matrices[0])))
