# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert NatNet frames to neutral ones: names instead of ids, times in nanoseconds.

The sender time is the time of mid-exposure, or the time of transmission if the cameras send no
exposure times. It is on the clock of the Motive PC's counter. The time between exposure and
transmission does not depend on the network and is reported separately, so that the network delay
can be estimated alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from optitrack_vrpn.sources.frames import (
    Body as SourceBody, Frame as SourceFrame, Marker as SourceMarker, RoundTrip)
from optitrack_vrpn.sources.natnet.messages import (
    BODY_TRACKING_VALID, Definitions, Frame, FRAME_EDIT_MODE, Marker, MARKER_OCCLUDED)
from optitrack_vrpn.units import NS_PER_S

#: No camera system needs more time (ns) from exposure to transmission; larger values are faults.
_MOST_PROCESSING_NS = NS_PER_S
_new = tuple.__new__


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
    Convert frames of the protocol to those of a source.

    :param frequency: frequency of the server's clock (ticks per second); 0 before NatNet 3.0.
    :ivar names: confirmed names by streaming id; bodies with other ids are left out.
    :ivar unnamed: number of bodies received without a confirmed name.
    :ivar unknown: ids without a confirmed name in the latest frame that contained such ids.
    :ivar odd_times: number of frames with contradictory times.
    """

    def __init__(self, frequency: int) -> None:
        self.frequency = frequency
        self.names: Mapping[int, str] = {}
        self.unnamed = 0
        self.unknown: tuple[int, ...] = ()
        self.odd_times = 0
        self._processing_ns: Optional[int] = None

    def frame(self, frame: Frame, playback: bool = False) -> Optional[SourceFrame]:
        """
        Convert a frame.

        It did not wait in a backlog of the connection: the socket was opened for it, and round
        trips measure its age.

        :param playback: whether poses of a played take count as valid.
        :returns: None if its times are unusable.
        """
        times = self._times(frame)
        if times is None:
            self.odd_times += 1
            return None
        time_ns, processing_ns = times
        ptp_ns = 0
        if frame.ptp_seconds:
            ptp_ns = frame.ptp_seconds * NS_PER_S + (frame.ptp_fraction * NS_PER_S >> 32)
        live = playback or not frame.params & FRAME_EDIT_MODE
        tracked_bit = BODY_TRACKING_VALID if live else 0
        names = self.names
        bodies: list[SourceBody] = []
        unknown = []
        for streaming_id, x, y, z, qx, qy, qz, qw, error, params in frame.bodies:
            name = names.get(streaming_id)
            if name is None:
                unknown.append(streaming_id)
                continue
            bodies.append(_new(SourceBody, (
                name, 0, time_ns, (x, y, z), (qx, qy, qz, qw), params & tracked_bit > 0,
                error)))
        if unknown:
            self.unnamed += len(unknown)
            self.unknown = tuple(unknown)
        return SourceFrame(
            time_ns, bodies, processing_ns, ptp_ns, True,
            _seen(frame.markers) if frame.markers else None)

    def _times(self, frame: Frame) -> Optional[tuple[int, int]]:
        frequency = self.frequency
        if not frequency:
            timestamp = frame.timestamp
            if not 0.0 <= timestamp < 1e9:
                return None
            return round(timestamp * 1e9), 0
        if not frame.transmit:
            return None
        transmit_ns = frame.transmit * NS_PER_S // frequency
        if frame.exposure:
            processing_ns = transmit_ns - frame.exposure * NS_PER_S // frequency
            if 0 <= processing_ns < _MOST_PROCESSING_NS:
                self._processing_ns = processing_ns
                return transmit_ns - processing_ns, processing_ns
            self.odd_times += 1
        # The camera system has no exposure times, or this frame lacks its time.
        processing_ns = self._processing_ns or 0
        return transmit_ns - processing_ns, processing_ns

    def echo(self, sent_ns: int, ticks: int, received_ns: int) -> RoundTrip:
        """Convert a round trip."""
        return RoundTrip(sent_ns, ticks_to_ns(ticks, self.frequency), received_ns)


def _seen(markers: Sequence[Marker]) -> list[SourceMarker]:
    """Convert markers without the occluded ones, whose positions Motive takes from the model."""
    return [
        SourceMarker(
            one.marker_id >> 16 & 0xffff, one.marker_id & 0xffff, (one.x, one.y, one.z),
            one.residual)
        for one in markers if not one.params & MARKER_OCCLUDED]
