# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Set a geographic origin for an autopilot's estimator that has none.

Automatic modes of both autopilots need one, and indoors GNSS does not provide it. An existing
origin is kept.
"""

from __future__ import annotations

import math
from typing import Optional

from optitrack_vrpn.autopilot.messages import Outgoing

#: MAV_CMD_REQUEST_MESSAGE.
REQUEST_MESSAGE = 512
#: Message id of GPS_GLOBAL_ORIGIN.
GPS_GLOBAL_ORIGIN = 49
#: Chosen: number of requests without an answer before the origin counts as missing, since one can
#: be lost.
_ASKED = 2
_PERIOD_NS = 1_000_000_000
#: Chosen: pause (ns) between two attempts to set it; the estimator can refuse before it has
#: initialised.
_RETRY_NS = 5_000_000_000
#: Wait (ns) after an attempt, before ArduPilot gets a pose. When ArduPilot gets the origin, it
#: sets its zero of the height to the present height (EKF3's resetHeightDatum). The poses keep
#: their zero, so its local height would differ by the height of the poses at that time. Measured
#: in SITL: it does so after 0.1 s.
_SETTLED_NS = 1_000_000_000
#: Chosen: attempts to set the origin before poses are sent without it; the second is 5 s after the
#: heartbeat.
_TRIES = 2
_EARTH_RADIUS_M = 6_371_000.0
#: Distance (m) from the configured origin above which the present origin is different. Chosen: the
#: link's resolution is 1.1 cm.
_SAME_M = 1.0


def request_message(system: int, message_id: int) -> Outgoing:
    """Create a request for one message of the autopilot (MAV_CMD_REQUEST_MESSAGE)."""
    return Outgoing('COMMAND_LONG', {
        'target_system': system, 'target_component': 1, 'command': REQUEST_MESSAGE,
        'confirmation': 0, 'param1': float(message_id), 'param2': 0.0, 'param3': 0.0,
        'param4': 0.0, 'param5': 0.0, 'param6': 0.0, 'param7': 0.0})


class Origin:
    """
    Request the autopilot's origin, and set it if it is missing.

    :param wanted: latitude (deg), longitude (deg), altitude (m); None to leave it unchanged.
    :ivar present: the origin that the autopilot reports, or None.
    :ivar sent: how often it was set.
    """

    def __init__(self, wanted: Optional[tuple[float, float, float]]) -> None:
        self._wanted = wanted
        self.restart()

    def restart(self) -> None:
        """Restart: the autopilot has rebooted."""
        self.present: Optional[tuple[float, float, float]] = None
        self.sent = 0
        self._asked = 0
        self._next_ns = self._settled_ns = 0

    def receive(self, latitude: int, longitude: int, altitude: int) -> None:
        """Process a GPS_GLOBAL_ORIGIN (1e-7 deg, 1e-7 deg, mm)."""
        if latitude or longitude:
            self.present = (latitude * 1e-7, longitude * 1e-7, altitude * 1e-3)

    def tick(
        self, system: int, armed: bool, now_ns: int, monotonic_ns: int,
    ) -> Optional[Outgoing]:
        """
        Return the next request or setting if one is due.

        :param armed: whether the vehicle is armed; then no origin is set, because the answer can
            be lost, and PX4 moves its position to a second origin.
        """
        if self._wanted is None or self.present is not None or monotonic_ns < self._next_ns:
            return None
        if self._asked < _ASKED or armed:
            self._asked += 1
            self._next_ns = monotonic_ns + _PERIOD_NS
            return request_message(system, GPS_GLOBAL_ORIGIN)
        self._asked = 0
        self.sent += 1
        self._settled_ns = monotonic_ns + _SETTLED_NS
        self._next_ns = monotonic_ns + (_RETRY_NS if self.sent > 1 else _PERIOD_NS)
        latitude, longitude, altitude = self._wanted
        return Outgoing('SET_GPS_GLOBAL_ORIGIN', {
            'target_system': system, 'latitude': round(latitude * 1e7),
            'longitude': round(longitude * 1e7), 'altitude': round(altitude * 1e3),
            'time_usec': now_ns // 1000})

    def pending(self, armed: bool, monotonic_ns: int) -> bool:
        """Return whether the origin is about to be set, before which ArduPilot gets no pose."""
        if self._wanted is None or armed:
            return False
        tries_left = self.present is None and self.sent < _TRIES
        return tries_left or monotonic_ns < self._settled_ns

    @property
    def problem(self) -> str:
        """Describe the problem with the origin; '' if there is none."""
        if self._wanted is None:
            return ''
        if self.present is None:
            return ('the autopilot has no origin and has not confirmed the one that was sent'
                    if self.sent else '')
        distance = distance_m(self.present, self._wanted)
        if distance > _SAME_M:
            return (f'the autopilot already has an origin, {distance:.0f} m from the configured '
                    'one; it is kept')
        return ''


def distance_m(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Return the horizontal distance of two places (m), on a sphere, for short distances."""
    north = math.radians(one[0] - other[0])
    east = math.radians(math.remainder(one[1] - other[1], 360.0)) * math.cos(
        math.radians(one[0]))
    return _EARTH_RADIUS_M * math.hypot(north, east)
