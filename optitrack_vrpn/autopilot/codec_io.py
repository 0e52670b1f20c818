# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
MAVLink 2 bytes, by pymavlink's generated dialect; its connections and threads are not used.

pymavlink is optional and imported by the first codec that is made.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.vehicle import Incoming
from optitrack_vrpn.errors import BackendUnavailableError

#: ArduPilot's dialect holds all common messages, and EKF_STATUS_REPORT.
_DIALECT = 'pymavlink.dialects.v20.ardupilotmega'
_TEXTS = ('param_id',)


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
    Encode and decode for one link; not safe from several threads at once.

    :param system: system id of this side.
    :param component: component id of this side.
    :raises BackendUnavailableError: if pymavlink is not installed.
    :ivar bad: stretches of bytes that were no MAVLink.
    """

    def __init__(self, system: int, component: int) -> None:
        self._dialect = load_dialect()
        self._mav = self._dialect.MAVLink(None, srcSystem=system, srcComponent=component)
        self._mav.robust_parsing = True
        self.bad = 0

    def address(self, system: int) -> None:
        """Take another system id for this side."""
        self._mav.srcSystem = system

    def reset(self) -> None:
        """Forget the beginning of a message: the link was reopened."""
        sequence = self._mav.seq
        self._mav = self._dialect.MAVLink(
            None, srcSystem=self._mav.srcSystem, srcComponent=self._mav.srcComponent)
        self._mav.robust_parsing = True
        self._mav.seq = sequence

    def end_datagram(self) -> None:
        """Forget the beginning of a message that the rest of a datagram seemed to be."""
        if self._mav.buf_len():
            self.bad += 1
            self.reset()

    def encode(self, message: Outgoing) -> bytes:
        """Make the bytes of a message."""
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
        """Take bytes as they arrive; give the messages that they complete."""
        found = []
        for message in self._parse(data) or ():
            if message.get_type() in ('BAD_DATA', 'UNKNOWN'):
                self.bad += message.get_type() == 'BAD_DATA'
                continue
            if message.get_type().startswith('UNKNOWN'):
                continue
            fields = message.to_dict()
            found.append(Incoming(
                message.get_type(), message.get_srcSystem(), message.get_srcComponent(), fields))
        return found

    def _parse(self, data: bytes) -> Optional[list[Any]]:
        try:
            found: Optional[list[Any]] = self._mav.parse_buffer(data)
            return found
        except Exception:    # pymavlink raises its own and struct's errors for broken bytes
            self.bad += 1
            self.reset()
            return None
