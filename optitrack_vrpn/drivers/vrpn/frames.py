# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Group the events of VRPN, one for each pose, to frames by sender time; compiled."""

from collections.abc import Sequence
from typing import Any, Final

from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.frames import Frame, Item, Motion, ServerText
from optitrack_vrpn.drivers.vrpn.codec import (
    CONTROL_SENDER, Event, PoseReport, TEXT_ERROR, TEXT_WARNING, TextReport)

_new: Final = tuple.__new__
_SEVERITIES: Final = {TEXT_WARNING: WARN, TEXT_ERROR: ERROR}
# Final names are read without a look-up in the compiled module.
_POSE: Final = PoseReport
_FRAME: Final = Frame
_CONTROL: Final[str] = CONTROL_SENDER


def to_frames(events: Sequence[Event]) -> list[Item]:
    """
    Convert events that arrived together.

    Names without a pose, pongs and the library's own sender are left out. Poses to which a sender
    with a coarse clock gives one time come in one frame.

    :param events: must not change afterwards: if all are poses of one time, they are the bodies.
    """
    several: list[Event] = events if type(events) is list else list(events)
    frame_ns: object = None
    # Declared for mypyc, which then takes fields without a look-up.
    fields: tuple[Any, ...]
    name: str
    for event in several:
        if type(event) is not _POSE:
            return _divide(several)
        fields = event
        name = fields[0]
        sender_time_ns = fields[2]
        if sender_time_ns is not frame_ns:    # the poses of a datagram share the object
            if frame_ns is not None and sender_time_ns != frame_ns:
                return _divide(several)
            frame_ns = sender_time_ns
        if name == _CONTROL:
            return _divide(several)
    if frame_ns is None:
        return []
    # Equivalent to Frame(...), without its Python-level __new__.
    return [_new(_FRAME, (frame_ns, several, 0, 0, None, None, 0))]


def _divide(events: list[Event]) -> list[Item]:
    """Convert events that are not just the poses of one time."""
    items: list[Item] = []
    bodies: list[PoseReport] = []
    frame_ns: object = None
    fields: tuple[Any, ...]
    name: str
    for event in events:
        if type(event) is not _POSE:
            _append_other(items, event)
            continue
        fields = event
        name = fields[0]
        if name == _CONTROL:
            continue
        if fields[2] != frame_ns:
            frame_ns = fields[2]
            bodies = []
            items.append(_new(_FRAME, (frame_ns, bodies, 0, 0, None, None, 0)))
        bodies.append(event)
    return items


def _append_other(items: list[Item], event: Event) -> None:
    """Convert an event that is not a pose, if it is of interest."""
    if isinstance(event, Motion):
        items.append(event)
    elif isinstance(event, TextReport):
        items.append(ServerText(
            event.sender, _SEVERITIES.get(event.severity, INFO), event.text))
