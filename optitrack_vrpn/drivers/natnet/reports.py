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
from collections.abc import Mapping
import math
from typing import Any, Final, NamedTuple, Optional

from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import (
    Body as SourceBody, Extras, Frame as SourceFrame, Marker as SourceMarker, Plate, PlateModel,
    RoundTrip, Skeleton as SourceSkeleton)
from optitrack_vrpn.drivers.natnet.messages import (
    ASSET_KEY, BODY_TRACKING_VALID, Definitions, FRAME_EDIT_MODE, MARKER_ACTIVE, MARKER_OCCLUDED,
    MARKER_UNLABELLED, Model, model_name, NatNetFrame, PLATE_KEY, PlateDefinition, SKELETON_KEY)

#: No camera system needs more time (ns) from exposure to transmission; larger values are faults.
_MOST_PROCESSING_NS = NS_PER_S
_new: Final = tuple.__new__
# Final names are read without a look-up in the compiled module.
_SOURCE_FRAME: Final = SourceFrame
_SOURCE_BODY: Final = SourceBody


class IdTable(NamedTuple):
    """
    Models by id: rigid bodies by streaming id, others by their keys, see ``models``.

    :ivar names: models that share neither id nor name with another of their kind.
    :ivar shared_ids: ids that several models share, with their names; these cannot be
        distinguished.
    :ivar shared_names: names that several models share; these cannot be distinguished in ROS.
    :ivar described: ids of all models, also of those that share an id or a name.
    """

    names: dict[int, Model]
    shared_ids: dict[int, tuple[str, ...]]
    shared_names: tuple[str, ...]
    described: frozenset[int] = frozenset()


def name_table(definitions: Definitions) -> IdTable:
    """Make the table of names from model definitions."""
    kinds: list[list[tuple[int, Model]]] = [
        [(body.streaming_id, body.name) for body in definitions.bodies],
        [(SKELETON_KEY | one.skeleton_id & 0xffffffff, one) for one in definitions.skeletons],
        [(ASSET_KEY | one.asset_id & 0xffffffff, one) for one in definitions.assets],
        [(PLATE_KEY | one.plate_id & 0xffffffff, one) for one in definitions.plates]]
    table = IdTable({}, {}, (), frozenset(key for models in kinds for key, _ in models))
    for models in kinds:
        ids = Counter(key for key, _ in models)
        names = Counter(model_name(model) for _, model in models)
        table.names.update((key, model) for key, model in models
                           if ids[key] == 1 and names[model_name(model)] == 1)
        table.shared_ids.update({
            key & 0xffffffff: tuple(model_name(model) for other, model in models if other == key)
            for key, count in ids.items() if count > 1})
        table = table._replace(shared_names=(*table.shared_names, *(
            name for name, count in names.items() if count > 1)))
    return table


def ticks_to_ns(ticks: int, frequency: int) -> int:
    """Convert ticks to nanoseconds in integer arithmetic."""
    return ticks * NS_PER_S // frequency


class Translator:
    """
    Convert frames of the protocol to those of a source.

    :param frequency: frequency of the server's clock (ticks per second); 0 before NatNet 3.0.
    :ivar names: confirmed models by id; what has another id is left out.
    :ivar unnamed: number of bodies received without a confirmed name.
    :ivar unknown: ids without a confirmed name in the latest frame that contained such ids.
    :ivar odd_times: number of frames with contradictory times.
    :ivar looks_local: name of a skeleton whose bones are withheld because they look relative to
        their parents; '' if there is none.
    """

    def __init__(self, frequency: int) -> None:
        self.frequency = frequency
        self.looks_local = ''
        self._skeletons: dict[int, tuple[Model, Any]] = {}
        self._plates: dict[int, tuple[Model, PlateModel]] = {}
        self.names: Mapping[int, Any] = {}
        self.unnamed = 0
        self.unknown: tuple[int, ...] = ()
        self.odd_times = 0
        self._processing_ns: Optional[int] = None

    def frame(self, frame: NatNetFrame, playback: bool = False) -> Optional[SourceFrame]:
        """
        Convert a frame.

        :param playback: whether poses of a played take count as valid.
        :returns: None if its times are unusable.
        """
        times = self._times(frame)
        if times is None:
            self.odd_times += 1
            return None
        time_ns, processing_ns, camera_ns = times
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
            bodies.append(_new(_SOURCE_BODY, (
                name, 0, time_ns, (x, y, z), (qx, qy, qz, qw), params & tracked_bit > 0,
                error)))
        extras = None
        if frame.skeletons or frame.assets or frame.plates:
            extras = self._extras(frame, live, unknown)
        if unknown:
            self.unnamed += len(unknown)
            self.unknown = tuple(unknown)
        # Equivalent to SourceFrame(...), without its Python-level __new__ (hot path).
        return _new(_SOURCE_FRAME, (
            time_ns, bodies, processing_ns, ptp_ns,
            seen_markers(frame, names) if frame.markers or frame.others else None, extras,
            camera_ns))

    def _extras(self, frame: NatNetFrame, live: bool, unknown: list[int]) -> Extras:
        """
        Convert skeletons, trained marker sets and force plates.

        :param unknown: receives the keys of those without a confirmed definition.
        """
        names = self.names
        skeletons: list[SourceSkeleton] = []
        model: Any
        self.looks_local = ''
        for key, found in ((SKELETON_KEY, frame.skeletons), (ASSET_KEY, frame.assets)):
            for number, rows in found:
                full = key | number & 0xffffffff
                model = names.get(full)
                if model is None:
                    unknown.append(full)
                    continue
                known = self._skeletons.get(full)
                if known is None or known[0] is not model:
                    from optitrack_vrpn.drivers.natnet.bones import Bones
                    known = self._skeletons[full] = model, Bones(model)
                skeletons.append(known[1].convert(rows, live))
                if known[1].looks_local:
                    self.looks_local = model_name(model)
        plates: list[Plate] = []
        for number, samples in frame.plates:
            full = PLATE_KEY | number & 0xffffffff
            model = names.get(full)
            if model is None:
                unknown.append(full)
                continue
            described = self._plates.get(full)
            if described is None or described[0] is not model:
                described = self._plates[full] = model, plate_model(model)
            if live:
                plates.append(Plate(described[1], samples))
        return Extras(skeletons, plates)

    def _times(self, frame: NatNetFrame) -> Optional[tuple[int, int, int]]:
        """
        Find the times of a frame (ns).

        :returns: its time; from then until it was sent, and until Motive had the data of the
            cameras, 0 where not known; None if the times are unusable.
        """
        frequency = self.frequency
        if not frequency:
            timestamp = frame.timestamp
            if not 0.0 <= timestamp < 1e9:
                return None
            return round(timestamp * 1e9), 0, 0
        if not frame.transmit:
            return None
        transmit_ns = frame.transmit * NS_PER_S // frequency
        # Without exposure time, because of the camera system or in this frame, that of others.
        processing_ns, camera_ns = self._processing_ns or 0, 0
        if frame.exposure:
            found_ns = transmit_ns - frame.exposure * NS_PER_S // frequency
            if 0 <= found_ns < _MOST_PROCESSING_NS:
                self._processing_ns = processing_ns = found_ns
            else:
                self.odd_times += 1
            if frame.exposure < frame.received:
                camera_ns = (frame.received - frame.exposure) * NS_PER_S // frequency
                if camera_ns > processing_ns:
                    camera_ns = 0
        return transmit_ns - processing_ns, processing_ns, camera_ns

    def echo(self, sent_ns: int, ticks: int, received_ns: int) -> RoundTrip:
        """Convert a round trip."""
        return RoundTrip(sent_ns, ticks_to_ns(ticks, self.frequency), received_ns)


def plate_model(plate: PlateDefinition) -> PlateModel:
    """Convert the definition of a force plate."""
    return PlateModel(
        model_name(plate), plate.corners, plate.channels, plate.channel_type == 0)


def seen_markers(frame: NatNetFrame, names: Mapping[int, Any]) -> list[SourceMarker]:
    """
    Convert markers without the occluded ones, whose positions Motive takes from the model.

    Unlabelled markers are labelled markers with a flag; the deprecated section of other markers
    can repeat them and labelled ones, so each of its positions counts only if it is new.

    :param names: confirmed models. The id of a marker does not contain the kind of its model: a
        number that a rigid body and another model share names no owner.
    """
    found: list[SourceMarker] = []
    unlabelled = False
    for marker_id, x, y, z, _, params, residual in frame.markers:
        if params & MARKER_OCCLUDED:
            continue
        if params & (MARKER_UNLABELLED | MARKER_ACTIVE):    # the id is one of the marker alone
            labelled = not params & MARKER_UNLABELLED
            unlabelled = unlabelled or not labelled
            found.append(SourceMarker(
                0, marker_id & 0xffffffff, (x, y, z), residual, labelled))
        else:
            number = marker_id >> 16 & 0xffff
            shared = SKELETON_KEY | number in names or ASSET_KEY | number in names
            found.append(SourceMarker(
                number, marker_id & 0xffff, (x, y, z), residual, True,
                '' if shared else names.get(number, '')))
    if frame.others and not unlabelled:
        known = {one.position for one in found}
        found += [SourceMarker(0, 0, place, math.nan, False)
                  for place in dict.fromkeys(frame.others) if place not in known]
    return found
