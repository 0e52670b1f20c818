# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A sender's stamps on the host's clock."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.clock.cadence import Cadence, common_step
    from optitrack_vrpn.clock.difference import difference_ns
    from optitrack_vrpn.clock.hostclock_io import HostClock
    from optitrack_vrpn.clock.round_trips import RoundTrips
    from optitrack_vrpn.clock.source import HISTORY, LIMIT_NS, READING_NOISE_NS, StampSource
    from optitrack_vrpn.clock.types import (
        ClockChange, ClockStatus, HOST_STEPPED, MODES, StampConfig, UNIX_EPOCH)
else:
    __all__, __getattr__ = lazy(globals())
