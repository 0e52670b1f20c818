# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the simulated Motive for NatNet."""

from dataclasses import dataclass
import ipaddress

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.drivers.natnet.messages import COMMAND_PORT, DATA_PORT, MULTICAST_GROUP
from optitrack_vrpn.sim.faults import BODY_FAULTS, BodyFault

#: Versions of NatNet that can be simulated: those whose layouts are known from captures, or from
#: several independent clients. For bodies, 4.3 to 4.5 have the layout of 4.2; the additional
#: sections of 4.5 are not sent.
NATNET_VERSIONS = {
    '2.7': (2, 7), '2.9': (2, 9), '2.10': (2, 10), '3.0': (3, 0), '3.1': (3, 1), '4.0': (4, 0),
    '4.1': (4, 1), '4.2': (4, 2), '4.3': (4, 3), '4.4': (4, 4),
    '4.5': (4, 5)}

#: Markers, labelled and unlabelled, in the arrays of the closed library libNatNet 4.4, beyond
#: which it loses data without an error; it holds 100 skeletons and 100 force plates.
MOST_MARKERS = 1000


@checked
@dataclass(frozen=True)
class NatNet:
    """Settings of the simulated Motive for NatNet."""

    port: int = setting(
        COMMAND_PORT, low=0, high=65535, doc='port of commands; 0: any free one')
    version: str = setting(
        '4.1', choices=tuple(NATNET_VERSIONS),
        doc='version of NatNet; unicast clients may request another one from 4.0 on')
    multicast: bool = setting(False, doc='send frames to the group, not to each client')
    group: str = setting(MULTICAST_GROUP, doc='multicast address')
    data_port: int = setting(
        DATA_PORT, low=0, high=65535,
        doc='port from which frames are sent, and of the multicast group; 0: any free one')
    markers: int = setting(4, low=0, high=20, doc='labelled markers of each body')
    skeletons: int = setting(0, low=0, high=100, doc='walking skeletons')
    bones: int = setting(21, low=21, high=51, doc='bones of each skeleton: 21, or 51 with fingers')
    skeleton_faults: tuple[BodyFault, ...] = setting(
        (), tags=BODY_FAULTS, doc='faults of the first skeleton')
    unlabelled: int = setting(0, low=0, high=MOST_MARKERS, doc='unlabelled markers')
    plates: int = setting(0, low=0, high=100, doc='force plates')
    ticks: bool = setting(
        True, doc='frames contain times of the counter; false: zeros, as other emulators send')
    edit_mode: bool = setting(False, doc='play a take instead of live poses')
    client_timeout: float = setting(5.0, unit='s', low=0.2, high=3600.0,
                                    doc='silence after which a unicast client is removed')

    def check(self) -> None:
        """
        Check the multicast address and the number of bones.

        :raises ConfigurationError: if one is not allowed.
        """
        if self.bones not in (21, 51):
            raise ConfigurationError(f'bones is {self.bones}; allowed: 21, 51')
        try:
            valid = ipaddress.IPv4Address(self.group).is_multicast
        except ValueError:
            valid = False
        if not valid:
            raise ConfigurationError(
                f'group is {self.group!r}; allowed: 224.0.0.0 to 239.255.255.255')
