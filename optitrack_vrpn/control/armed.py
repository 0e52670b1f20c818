# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Vehicles that are armed, as their bridges report; pure.

A node whose poses fly a vehicle must not follow a STOP. Each bridge publishes its claim on
``TOPIC`` (diagnostic_msgs/DiagnosticStatus, transient local) at each change and every
``PERIOD_NS``: name of the bridge, hardware_id of the body, and the values ``armed`` (true, false,
unknown) and ``stop`` (refused, allowed).
"""

from typing import Mapping, NamedTuple, Optional

from optitrack_vrpn.node.graph.streams import AttendedTime

TOPIC = '/armed_vehicles'
PERIOD_NS = 1_000_000_000
#: Silence (ns) after which a bridge counts as ended, as after kill -9. Chosen: three heartbeats.
SILENT_NS = 3 * PERIOD_NS
#: Most bridges that are remembered: far above the vehicles of one laboratory.
_MOST = 1000
_ARMED: Mapping[Optional[bool], str] = {True: 'true', False: 'false', None: 'unknown'}


class Claim(NamedTuple):
    """
    The claim of a bridge.

    :ivar bridge: full name of its node.
    :ivar body: the body whose poses it sends.
    :ivar armed: whether the vehicle is armed; None if that cannot be known.
    :ivar allowed: whether a STOP is to be followed all the same.
    """

    bridge: str
    body: str
    armed: Optional[bool]
    allowed: bool = False

    @property
    def message(self) -> str:
        """Return one sentence for the user."""
        if self.armed is None:
            return 'transport dds does not tell whether the vehicle is armed'
        return f'the vehicle is {"armed" if self.armed else "not armed"}'

    @property
    def refusal(self) -> str:
        """Return why a STOP is refused, '' if it is followed."""
        if self.allowed or self.armed is False:
            return ''
        return (f'{self.bridge} sends the poses of {self.body!r}, and {self.message}: its '
                'estimator needs the poses; disarm it, set stop_while_armed of the bridge, or '
                'deactivate the node by ros2 lifecycle set')

    def values(self) -> dict[str, str]:
        """Return the values of the message."""
        return {'armed': _ARMED[self.armed], 'stop': 'allowed' if self.allowed else 'refused'}


def claim_of(bridge: str, body: str, values: Mapping[str, str]) -> Claim:
    """Read a message; what is not known counts as armed, and as no permission."""
    states = {text: armed for armed, text in _ARMED.items()}
    return Claim(bridge, body, states.get(values.get('armed', '')),
                 values.get('stop') == 'allowed')


class ArmedVehicles:
    """Remember the claims of all bridges until they are silent."""

    def __init__(self) -> None:
        # Time in which claims could be heard: after a suspension old ones still count.
        self._time = AttendedTime(PERIOD_NS)
        self._claims: dict[tuple[str, str], tuple[Claim, int]] = {}

    def tick(self, monotonic_ns: int) -> bool:
        """
        Process the time; call it about once a second while a bridge is heard.

        :returns: whether one is heard.
        """
        return bool(self.present(monotonic_ns))

    def heard(self, claim: Claim, monotonic_ns: int) -> None:
        """Process a message that arrived at a time on a monotonic clock (ns)."""
        now_ns = self._time.advance(monotonic_ns)
        self._claims.pop((claim.bridge, claim.body), None)
        self._claims[claim.bridge, claim.body] = claim, now_ns
        if len(self._claims) > _MOST:
            del self._claims[next(iter(self._claims))]

    def present(self, monotonic_ns: int) -> list[Claim]:
        """Return the claims of the bridges that are heard at a time (ns)."""
        now_ns = self._time.advance(monotonic_ns)
        return [claim for claim, at_ns in self._claims.values() if now_ns - at_ns < SILENT_NS]

    def refusal(self, monotonic_ns: int) -> str:
        """Return why a STOP is refused at a time (ns), '' if it is followed."""
        return next(filter(None, (claim.refusal for claim in self.present(monotonic_ns))), '')
