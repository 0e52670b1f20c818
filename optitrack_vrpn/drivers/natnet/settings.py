# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the NatNet client: port, transport, multicast group, version."""

from dataclasses import dataclass
import ipaddress
from typing import Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.drivers.natnet.messages import COMMAND_PORT, NEWEST, OLDEST, Version

TRANSPORTS = ('auto', 'unicast', 'multicast')


@checked
@dataclass(frozen=True)
class NatNetConfig:
    """Settings of the NatNet connection and its data."""

    port: int = setting(COMMAND_PORT, low=1, high=65535, doc='command port of Motive')
    transport: str = setting(
        'auto', choices=TRANSPORTS,
        doc='auto: as Motive states; multicast reaches every listener on the network card')
    group: str = setting('', doc="multicast address; empty: as Motive states, or NatNet's own")
    bitstream: str = setting(
        '', doc='version of NatNet to ask for, such as 4.1 (unicast, Motive 3.0 and later); '
        "empty: Motive's newest")
    record: bool = setting(
        False, doc='mocap control START and STOP start and stop a recording in Motive too')
    playback: bool = setting(
        False, doc='publish the poses of a take that Motive plays (edit mode) as if live')
    data_port: int = 0
    """Port of multicast data; 0: as Motive states."""
    wanted: frozenset[str] = frozenset()
    """What is decoded beside rigid bodies; derived from the outputs."""

    def check(self) -> None:
        """
        Check what the ranges of single fields do not cover.

        :raises ConfigurationError: for an invalid version or address.
        """
        self.version()
        if self.group:
            try:
                multicast = ipaddress.IPv4Address(self.group).is_multicast
            except ValueError:
                multicast = False
            if not multicast:
                raise ConfigurationError(
                    f'group is {self.group!r}: give an IPv4 multicast address, such as '
                    '239.255.42.99, or nothing')

    def version(self) -> Optional[Version]:
        """
        Return the version to request; None for the newest.

        :raises ConfigurationError: if it is invalid or not supported.
        """
        if not self.bitstream:
            return None
        parts = self.bitstream.split('.')
        if len(parts) == 2 and all(part.isdecimal() and len(part) < 4 for part in parts):
            version = int(parts[0]), int(parts[1])
            if OLDEST <= version <= NEWEST:
                return version
        raise ConfigurationError(
            f'bitstream is {self.bitstream!r}: give a version from '
            f'{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, such as 4.1, or nothing')
