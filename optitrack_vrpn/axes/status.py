# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The status number of the stream and its transitions, as in the interface thesis.

0 not connected yet, 1 receiving, 2 unable to connect, -1 ended on request.
"""

from enum import Enum, IntEnum


class Status(IntEnum):
    """The status number in datagrams."""

    NOT_CONNECTED = 0
    RECEIVING = 1
    UNABLE = 2
    ENDED = -1


class Event(Enum):
    """Events that change the status."""

    START = 'the stream was started'
    POSE = 'a valid pose of any body arrived'
    SILENCE = 'no pose for the connection timeout'
    END = 'the stream was ended on request'


#: (status, event) -> status; other pairs do not change the status.
TRANSITIONS = {
    (Status.NOT_CONNECTED, Event.POSE): Status.RECEIVING,
    (Status.NOT_CONNECTED, Event.SILENCE): Status.UNABLE,
    (Status.UNABLE, Event.POSE): Status.RECEIVING,
    (Status.RECEIVING, Event.SILENCE): Status.UNABLE,
    (Status.NOT_CONNECTED, Event.END): Status.ENDED,
    (Status.RECEIVING, Event.END): Status.ENDED,
    (Status.UNABLE, Event.END): Status.ENDED,
    (Status.ENDED, Event.START): Status.NOT_CONNECTED,
}


def after(status: Status, event: Event) -> Status:
    """Return the status after an event."""
    return TRANSITIONS.get((status, event), status)
