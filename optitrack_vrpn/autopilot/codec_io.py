# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode and decode MAVLink 2 with pymavlink's generated dialect, without its connections.

pymavlink is optional; the first codec imports it.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.vehicle import Incoming
from optitrack_vrpn.errors import BackendUnavailableError

#: ArduPilot's dialect contains all common messages and EKF_STATUS_REPORT.
_DIALECT = 'pymavlink.dialects.v20.ardupilotmega'
_TEXTS = ('param_id',)
#: MAVLINK_IFLAG_SIGNED: the message has a signature, which is not checked.
_SIGNED = 1


def load_dialect() -> Any:
    """
    Import the dialect.

    :raises BackendUnavailableError: if pymavlink is not installed.
    """
    try:
        return importlib.import_module(_DIALECT)
    except ImportError as error:
        raise BackendUnavailableError(
            f'transport mavlink needs pymavlink, which is not installed ({error}): pip install '
            'pymavlink, or rosdep install python3-pymavlink-pip; transport dds does without'
        ) from None


class Codec:
    """
    Encode and decode the messages of one link; not thread-safe.

    :param system: system id of this side.
    :param component: component id of this side.
    :raises BackendUnavailableError: if pymavlink is not installed.
    :ivar bad: number of byte sequences that were not MAVLink.
    """

    def __init__(self, system: int, component: int) -> None:
        self._dialect = load_dialect()
        self._mav = self._dialect.MAVLink(None, srcSystem=system, srcComponent=component)
        self._mav.robust_parsing = True
        self.bad = 0

    def address(self, system: int) -> None:
        """Set another system id for this side."""
        self._mav.srcSystem = system

    def reset(self) -> None:
        """Discard an incomplete message, after the link was reopened."""
        sequence = self._mav.seq
        self._mav = self._dialect.MAVLink(
            None, srcSystem=self._mav.srcSystem, srcComponent=self._mav.srcComponent)
        self._mav.robust_parsing = True
        self._mav.seq = sequence

    def end_datagram(self) -> None:
        """Discard an incomplete message at the end of a datagram."""
        if self._mav.buf_len():
            self.bad += 1
            self.reset()

    def encode(self, message: Outgoing) -> bytes:
        """Return the bytes of a message."""
        kind = getattr(self._dialect, f'MAVLink_{message.name.lower()}_message')
        fields = dict(message.fields)
        if message.name == 'HEARTBEAT':
            fields['mavlink_version'] = 3
        for name in _TEXTS:
            if name in fields:
                fields[name] = fields[name].encode('ascii')
        packed = kind(**fields).pack(self._mav)
        self._mav.seq = (self._mav.seq + 1) % 256
        return bytes(packed)

    def decode(self, data: bytes) -> list[Incoming]:
        """Process received bytes; return the messages that they complete."""
        found = []
        for message in self._parse(data) or ():
            kind = message.get_type()
            if kind == 'BAD_DATA' or kind.startswith('UNKNOWN'):
                self.bad += kind == 'BAD_DATA'
                continue
            found.append(Incoming(
                kind, message.get_srcSystem(), message.get_srcComponent(), message.to_dict(),
                bool(message.get_header().incompat_flags & _SIGNED)))
        return found

    def _parse(self, data: bytes) -> Optional[list[Any]]:
        try:
            found: Optional[list[Any]] = self._mav.parse_buffer(data)
            return found
        except Exception:    # pymavlink raises its own and struct's errors for damaged bytes
            self.bad += 1
            self.reset()
            return None
