# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Node of rgbd_play: publish a sequence in real time, with its ground truth.

Image topics are best effort: a publisher does not know what arrived. The nodes with image input
count their images in their diagnostics, from which the player reports what each received.
"""

import threading
import time
from typing import Any, NamedTuple, Optional

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.files_io import Sequence
from optitrack_vrpn.rgbd.messages_ros import CameraOutput, make_header, pose_message
import rclpy
from rclpy.node import Node

#: Optical frame of the recorded camera, frame of its ground truth, topic of the ground truth.
FRAME, WORLD, TRUTH = 'openni_rgb_optical_frame', 'world', 'ground_truth/pose'
#: Longest wait (s) for diagnostics, whose period is 1 s.
_DIAGNOSTICS_S = 2.5


class Received(NamedTuple):
    """Numbers of images that a node has received, and of pairs among them."""

    colour: int
    depth: int
    pairs: int


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
        self._counts: dict[str, tuple[float, Received]] = {}
        self._before: dict[str, Received] = {}
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 20)
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

    def received(self) -> dict[str, Received]:
        """Return what each node with image input has received of this sequence."""
        zero = Received(0, 0, 0)
        found = {}
        for name, (_, counts) in self._counts.items():
            before = self._before.get(name, zero)
            # smaller: the node was activated again
            found[name] = counts if counts < before else Received(
                *(now - then for now, then in zip(counts, before)))
        return found

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {each.key: each.value for each in status.values}
            try:
                counts = Received(*(int(values[key]) for key in (
                    'colour images', 'depth images', 'pairs')))
            except (KeyError, ValueError):
                continue
            self._counts[status.name.partition(':')[0]] = time.monotonic(), counts

    def _wait_for_counts(self, listeners: int, since: float) -> None:
        """Wait until so many listeners have counted their images since a time."""
        deadline = time.monotonic() + _DIAGNOSTICS_S
        while time.monotonic() < deadline and listeners > sum(
                at > since for at, _ in list(self._counts.values())):
            if self._ended.wait(0.05):
                return

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
        self._wait_for_counts(self._output.listeners, 0.0)
        self._before = {name: counts for name, (_, counts) in self._counts.items()}
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
        self._wait_for_counts(len(self._counts), time.monotonic())

    def _publish_truth(self, index: int, shift_ns: int) -> None:
        truth = self._sequence.truth
        assert truth is not None
        self._truth.publish(PoseStamped(
            header=make_header(int(truth.stamps_ns[index]) + shift_ns, WORLD),
            pose=pose_message(truth.at(slice(index, index + 1)).matrices[0])))
