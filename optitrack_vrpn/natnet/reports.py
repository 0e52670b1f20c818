# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert NatNet frames to the pipeline's events: names instead of ids, times in nanoseconds.

The sender's time is the mid-exposure, or the time of transmission for cameras that send none. It
is on the clock of the Motive PC's counter. What lies between exposure and transmission does not
depend on the network and is stated beside it, so that the network's delay can be followed alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
import math
from typing import NamedTuple, Optional, Union

from optitrack_vrpn.natnet.constants import BODY_TRACKING_VALID, FRAME_EDIT_MODE
from optitrack_vrpn.natnet.messages import Definitions, Frame, Marker, Quaternion, Vector

_NS = 1_000_000_000
#: No camera system takes longer (ns) from exposure to transmission; more is a fault of the times.
_MOST_PROCESSING_NS = _NS
_new = tuple.__new__


class FrameReport(NamedTuple):
    """
    A frame begins; reports of its bodies follow.

    :ivar number: of the frame.
    :ivar sender_time_ns: of all its bodies.
    :ivar processing_ns: from then until the frame was handed to the network.
    :ivar timed: whether the sender's time is on the clock that echoes refer to.
    :ivar live: False while Motive plays a take.
    :ivar ptp_ns: PTP time, 0 where none was sent.
    """

    number: int
    sender_time_ns: int
    processing_ns: int
    timed: bool
    live: bool
    ptp_ns: int


class RigidBodyReport(NamedTuple):
    """
    A rigid body of a frame.

    :ivar sender: its name in Motive.
    :ivar sensor: 0.
    :ivar sender_time_ns: of the frame.
    :ivar position: (m), in Motive's axes.
    :ivar quat_xyzw: attitude.
    :ivar valid: whether Motive tracks it in this frame, live.
    :ivar mean_error: mean distance (m) of the markers from their places in the model.
    """

    sender: str
    sensor: int
    sender_time_ns: int
    position: Vector
    quat_xyzw: Quaternion
    valid: bool
    mean_error: float


class EchoReport(NamedTuple):
    """
    A round trip to the clock of the Motive PC.

    :ivar sent_ns: arrival clock when the request left.
    :ivar server_ns: the server's clock when it arrived there.
    :ivar received_ns: arrival clock when the answer arrived.
    """

    sent_ns: int
    server_ns: int
    received_ns: int


class MarkersReport(NamedTuple):
    """
    The labelled markers of a frame.

    :ivar bodies: names by the model's streaming id.
    """

    sender_time_ns: int
    markers: Sequence[Marker]
    bodies: Mapping[int, str]


Report = Union[FrameReport, RigidBodyReport, EchoReport, MarkersReport]


class NameTable(NamedTuple):
    """
    Names of bodies by streaming id.

    :ivar names: those of bodies that share neither id nor name with another.
    :ivar shared: ids that several bodies have, with their names: none of them can be
        distinguished.
    :ivar twins: names that several bodies have: none of them can be distinguished in ROS.
    """

    names: dict[int, str]
    shared: dict[int, tuple[str, ...]]
    twins: tuple[str, ...]


def name_table(definitions: Definitions) -> NameTable:
    """Make the table of names from model definitions."""
    found: dict[int, list[str]] = {}
    for body in definitions.bodies:
        found.setdefault(body.streaming_id, []).append(body.name)
    counts = Counter(body.name for body in definitions.bodies)
    return NameTable(
        {key: names[0] for key, names in found.items()
         if len(names) == 1 and counts[names[0]] == 1},
        {key: tuple(names) for key, names in found.items() if len(names) > 1},
        tuple(name for name, count in counts.items() if count > 1))


def ticks_to_ns(ticks: int, frequency: int) -> int:
    """Turn ticks into nanoseconds, without rounding in between."""
    return ticks * _NS // frequency


class Translator:
    """
    Make reports of frames.

    :param frequency: of the server's clock (ticks a second); 0 before NatNet 3.0.
    :ivar names: certain names by streaming id; bodies with other ids are left out.
    :ivar unnamed: bodies so far that had no certain name.
    :ivar unknown: streaming ids without a certain name, of the last frame with such.
    :ivar odd_times: frames whose times contradict each other.
    """

    def __init__(self, frequency: int) -> None:
        self._frequency = frequency
        self.names: Mapping[int, str] = {}
        self.unnamed = 0
        self.unknown: tuple[int, ...] = ()
        self.odd_times = 0
        self._processing_ns: Optional[int] = None

    def frame(self, frame: Frame, playback: bool = False) -> list[Report]:
        """
        Make the reports of a frame.

        :param playback: whether the poses of a take that is played count as valid.
        :returns: its FrameReport, then its bodies; nothing where its times are of no use.
        """
        times = self._times(frame)
        if times is None:
            self.odd_times += 1
            return []
        time_ns, processing_ns, timed = times
        live = not frame.params & FRAME_EDIT_MODE
        ptp_ns = 0
        if frame.ptp_seconds:
            ptp_ns = frame.ptp_seconds * _NS + (frame.ptp_fraction * _NS >> 32)
        reports: list[Report] = [
            FrameReport(frame.number, time_ns, processing_ns, timed, live, ptp_ns)]
        believed = BODY_TRACKING_VALID if live or playback else 0
        names = self.names
        unknown = []
        for streaming_id, x, y, z, qx, qy, qz, qw, error, params in frame.bodies:
            name = names.get(streaming_id)
            if name is None:
                unknown.append(streaming_id)
                continue
            reports.append(_new(RigidBodyReport, (
                name, 0, time_ns, (x, y, z), (qx, qy, qz, qw), params & believed > 0, error)))
        if unknown:
            self.unnamed += len(unknown)
            self.unknown = tuple(unknown)
        if frame.markers:
            reports.append(MarkersReport(time_ns, frame.markers, names))
        return reports

    def _times(self, frame: Frame) -> Optional[tuple[int, int, bool]]:
        frequency = self._frequency
        if not frequency or not frame.transmit:
            timestamp = frame.timestamp
            if not (math.isfinite(timestamp) and 0.0 <= timestamp < 1e9):
                return None
            return round(timestamp * 1e9), 0, False
        transmit_ns = frame.transmit * _NS // frequency
        if frame.exposure:
            processing_ns = transmit_ns - frame.exposure * _NS // frequency
            if 0 <= processing_ns < _MOST_PROCESSING_NS:
                self._processing_ns = processing_ns
                return transmit_ns - processing_ns, processing_ns, True
            self.odd_times += 1
        # A camera system without exposure times, or a frame that lacks it.
        processing_ns = self._processing_ns or 0
        return transmit_ns - processing_ns, processing_ns, True

    def echo(self, sent_ns: int, ticks: int, received_ns: int) -> EchoReport:
        """Make the report of a round trip."""
        return EchoReport(sent_ns, ticks_to_ns(ticks, self._frequency), received_ns)
