# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Encode frames as a server does; the counterpart of ``frames.py``."""

import struct

from optitrack_vrpn.sources.natnet.codec import encode_message
from optitrack_vrpn.sources.natnet.constants import (
    BODY, BODY_HEAD, BODY_TAIL, FRAME, LABELLED_MARKER, LABELLED_MARKER_2, SUFFIX_2, SUFFIX_3,
    SUFFIX_4_1, V2_11, V2_9, V3_0, V4_1)
from optitrack_vrpn.sources.natnet.messages import Frame, Version

_I32 = struct.Struct('<i')
_ZERO = _I32.pack(0)


def encode_frame(frame: Frame, version: Version) -> bytes:
    """
    Encode FRAMEOFDATA with rigid bodies and labelled markers; all other sections are empty.

    :param version: version of the bitstream.
    :raises LocalProtocolError: if the frame does not fit into one datagram.
    """
    sized = version >= V4_1
    empty = _ZERO + _ZERO if sized else _ZERO
    bodies = b''.join(
        BODY.pack(*body) if version >= V3_0 else
        BODY_HEAD.pack(*body[:8]) + _ZERO + BODY_TAIL.pack(*body[8:]) for body in frame.bodies)
    markers = b''.join(
        LABELLED_MARKER.pack(*marker) if version >= V3_0 else
        LABELLED_MARKER_2.pack(*marker[:6]) for marker in frame.markers)
    parts = [_I32.pack(frame.number), empty, empty,
             _section(len(frame.bodies), bodies, sized), empty]
    if sized:
        parts.append(empty)    # trained marker sets
    parts.append(_section(len(frame.markers), markers, sized))
    if version >= V2_9:
        parts.append(empty)    # force plates
    if version >= V2_11:
        parts.append(empty)    # devices
    parts.append(_suffix(frame, version))
    return encode_message(FRAME, b''.join(parts))


def _section(count: int, data: bytes, sized: bool) -> bytes:
    return _I32.pack(count) + (_I32.pack(len(data)) if sized else b'') + data


def _suffix(frame: Frame, version: Version) -> bytes:
    head = frame.timecode, frame.subframe, frame.timestamp
    ticks = frame.exposure, frame.received, frame.transmit
    if version >= V4_1:
        return SUFFIX_4_1.pack(
            *head, *ticks, frame.ptp_seconds, frame.ptp_fraction, frame.params, 0)
    if version >= V3_0:
        return SUFFIX_3.pack(*head, *ticks, frame.params, 0)
    return SUFFIX_2.pack(frame.latency, *head, frame.params, 0)
