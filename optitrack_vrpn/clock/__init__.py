# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A sender's stamps on the host's clock."""

from optitrack_vrpn.clock.history import HISTORY
from optitrack_vrpn.clock.source import LIMIT_NS, StampSource
from optitrack_vrpn.clock.types import ClockChange, ClockStatus, MODES, StampConfig

__all__ = [
    'ClockChange', 'ClockStatus', 'HISTORY', 'LIMIT_NS', 'MODES', 'StampConfig', 'StampSource',
]
