# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The bones of one skeleton for programs that retarget motion to robots, without ROS.

::

    with LiveSkeleton('192.168.1.20') as motive:
        bones = motive.get_frame()    # {'Hips': ([x, y, z], [w, x, y, z]), ...}
"""

from collections.abc import Sequence
import dataclasses
import threading
import time
from types import TracebackType
from typing import Any, Optional

from optitrack_vrpn.core.axes import AxesConfig
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.table import make_source, source_settings, SourceOptions
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.skeletons.stage import SkeletonStage

#: Motive's axes as they are.
RAW = AxesConfig(axes='raw')
Bones = dict[str, tuple[list[float], list[float]]]


class LiveSkeleton:
    """
    Receive a skeleton by NatNet; usable from any thread.

    :param server: address of the Motive PC, or 'auto' to search it.
    :param skeleton: its name in Motive; '' for the first one of each frame.
    :param names: convention of the bones' names: 'fbx', 'bvh' or 'motive'.
    :param axes: axes of the poses; by default Motive's own, which must be z up for programs that
        expect that. ``AxesConfig(up_axis='y', motive_x='east')`` makes the same of y up.
    :param max_age_s: a frame that arrived earlier is not returned (s).
    :param settings: settings of NatNet by name, such as ``port`` or ``local_bones``.
    :ivar messages: texts for the user: state of the connection, lost skeletons.
    """

    def __init__(
        self, server: str = 'auto', *, skeleton: str = '', names: str = 'fbx',
        axes: AxesConfig = RAW, max_age_s: float = 0.25, **settings: Any,
    ) -> None:
        self.messages: list[str] = []
        self._skeleton, self._names, self._max_age_s = skeleton, names, max_age_s
        self._config = PipelineConfig(axes=axes)
        self._stage = SkeletonStage(lambda severity, key, text: self._note(text))
        self._lock = threading.Lock()
        self._number = 0
        self._latest: Optional[tuple[float, Bones]] = None
        own = source_settings()
        own = dataclasses.replace(own, natnet=dataclasses.replace(own.natnet, **settings))
        self._source = make_source(
            'natnet', ClientConfig(server=server), own, self,
            SourceOptions(axes.up_axis if axes.axes == 'enu' else '', frozenset({'skeletons'})))
        self._source.start()

    def __enter__(self) -> 'LiveSkeleton':
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; idempotent."""
        self._source.stop()

    def get_frame(self) -> Bones:
        """
        Return the latest bones.

        :returns: position (m) and attitude (w, x, y, z) in the world by name; without bones that
            are not tracked, and empty if no frame arrived in the last ``max_age_s``.
        """
        with self._lock:
            if self._latest is None or time.monotonic() - self._latest[0] > self._max_age_s:
                return {}
            return self._latest[1]

    def get_frame_number(self) -> int:
        """Return the number of frames of the skeleton so far; it rises with each new one."""
        with self._lock:
            return self._number

    # -- the sink of the source, on its thread -------------------------------------------------

    def receive(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Take the frames of the source."""
        for event in events:
            if isinstance(event, Frame) and event.extras is not None:
                self._take(event)

    def link_changed(self, change: Event) -> None:
        """Keep the texts about the connection."""
        self._note(change.text)

    def _note(self, text: str) -> None:
        self.messages.append(text)
        del self.messages[:-100]

    def _take(self, frame: Frame) -> None:
        assert frame.extras is not None
        for skeleton in frame.extras.skeletons:
            if self._skeleton not in ('', skeleton.model.name):
                continue
            figure = self._stage.convert(
                skeleton, frame.sender_time_ns, self._config, self._names)
            if figure is None:
                return
            bones: Bones = {
                name: (place, [turn[3], *turn[:3]]) for name, place, turn, good in zip(
                    figure.bones, figure.positions.tolist(), figure.quats_xyzw.tolist(),
                    figure.valid.tolist()) if good}
            with self._lock:
                self._number += 1
                self._latest = time.monotonic(), bones
            return
