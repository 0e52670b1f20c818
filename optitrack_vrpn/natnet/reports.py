# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert NatNet frames to the pipeline's events: names instead of ids, times in nanoseconds.

The sender time is the time of mid-exposure, or the time of transmission if the cameras send no
exposure times. It is on the clock of the Motive PC's counter. The time between exposure and
transmission does not depend on the network and is reported separately, so that the network delay
can be estimated alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional, Union

from optitrack_vrpn.natnet.constants import BODY_TRACKING_VALID, FRAME_EDIT_MODE
from optitrack_vrpn.natnet.messages import Definitions, Frame, Marker, Quaternion, Vector
from optitrack_vrpn.units import NS_PER_S

#: No camera system needs more time (ns) from exposure to transmission; larger values are faults.
_MOST_PROCESSING_NS = NS_PER_S
_new = tuple.__new__


class FrameReport(NamedTuple):
    """
    Start of a frame; the reports of its bodies follow.

    :ivar number: frame number.
    :ivar sender_time_ns: sender time of all its bodies (ns).
    :ivar processing_ns: time from then to the transmission (ns).
    :ivar timed: whether the sender time is on the clock of the echo messages.
    :ivar live: False while Motive plays a take.
    :ivar ptp_ns: PTP time (ns), 0 if none was sent.
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
    :ivar sender_time_ns: sender time of the frame (ns).
    :ivar position: in Motive's axes (m).
    :ivar quat_xyzw: attitude, in Motive's axes.
    :ivar valid: whether the body is tracked in this frame and the frame is live.
    :ivar mean_error: mean distance (m) of the markers from their positions in the model.
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

    :ivar sent_ns: arrival clock when the request was sent (ns).
    :ivar server_ns: the server's clock when the request arrived there (ns).
    :ivar received_ns: arrival clock when the answer arrived (ns).
    """

    sent_ns: int
    server_ns: int
    received_ns: int


class MarkersReport(NamedTuple):
    """
    The labelled markers of a frame.

    :ivar bodies: names by streaming id of the model.
    """

    sender_time_ns: int
    markers: Sequence[Marker]
    bodies: Mapping[int, str]


Report = Union[FrameReport, RigidBodyReport, EchoReport, MarkersReport]


class NameTable(NamedTuple):
    """
    Names of bodies by streaming id.

    :ivar names: names of bodies that share neither id nor name with another body.
    :ivar shared_ids: ids that several bodies share, with their names; these bodies cannot be
        distinguished.
    :ivar shared_names: names that several bodies share; these bodies cannot be distinguished in
        ROS.
    """

    names: dict[int, str]
    shared_ids: dict[int, tuple[str, ...]]
    shared_names: tuple[str, ...]


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
    """Convert ticks to nanoseconds in integer arithmetic."""
    return ticks * NS_PER_S // frequency


class Translator:
    """
    Convert frames to reports.

    :param frequency: frequency of the server's clock (ticks per second); 0 before NatNet 3.0.
    :ivar names: certain names by streaming id; bodies with other ids are left out.
    :ivar unnamed: number of bodies received without a certain name.
    :ivar unknown: ids without a certain name in the latest frame that contained such ids.
    :ivar odd_times: number of frames with contradictory times.
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
        Convert a frame to reports.

        :param playback: whether poses of a played take count as valid.
        :returns: its FrameReport, then the reports of its bodies; empty if its times are unusable.
        """
        times = self._times(frame)
        if times is None:
            self.odd_times += 1
            return []
        time_ns, processing_ns, timed = times
        live = not frame.params & FRAME_EDIT_MODE
        ptp_ns = 0
        if frame.ptp_seconds:
            ptp_ns = frame.ptp_seconds * NS_PER_S + (frame.ptp_fraction * NS_PER_S >> 32)
        reports: list[Report] = [
            FrameReport(frame.number, time_ns, processing_ns, timed, live, ptp_ns)]
        tracked_bit = BODY_TRACKING_VALID if live or playback else 0
        names = self.names
        unknown = []
        for streaming_id, x, y, z, qx, qy, qz, qw, error, params in frame.bodies:
            name = names.get(streaming_id)
            if name is None:
                unknown.append(streaming_id)
                continue
            reports.append(_new(RigidBodyReport, (
                name, 0, time_ns, (x, y, z), (qx, qy, qz, qw), params & tracked_bit > 0, error)))
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
            if not 0.0 <= timestamp < 1e9:
                return None
            return round(timestamp * 1e9), 0, False
        transmit_ns = frame.transmit * NS_PER_S // frequency
        if frame.exposure:
            processing_ns = transmit_ns - frame.exposure * NS_PER_S // frequency
            if 0 <= processing_ns < _MOST_PROCESSING_NS:
                self._processing_ns = processing_ns
                return transmit_ns - processing_ns, processing_ns, True
            self.odd_times += 1
        # The camera system has no exposure times, or this frame lacks its time.
        processing_ns = self._processing_ns or 0
        return transmit_ns - processing_ns, processing_ns, True

    def echo(self, sent_ns: int, ticks: int, received_ns: int) -> EchoReport:
        """Convert a round trip to a report."""
        return EchoReport(sent_ns, ticks_to_ns(ticks, self._frequency), received_ns)
