# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the pairs of colour and depth images, common to all nodes with images."""

from dataclasses import dataclass

from optitrack_vrpn.settings import setting


@dataclass(frozen=True)
class PairSettings:
    """Selection and units of pairs of images."""

    depth_unit_m: float = setting(
        0.001, unit='m', low=1e-5, high=0.1, doc='unit of 16-bit depth')
    tolerance_s: float = setting(
        0.02, unit='s', low=0.0, high=1.0, doc='greatest difference of the stamps of a pair')
    queue: int = setting(10, low=2, high=100, doc='images of each topic that wait for a partner')
    frozen_after_s: float = setting(
        0.5, unit='s', low=0.0, high=60.0,
        doc='time after which pairs with the same bytes are not used, because the driver repeats '
        'them; 0: never, for a simulated camera without noise')
    timeout_s: float = setting(
        1.0, unit='s', low=0.1, high=60.0,
        doc='time without a pair after which the diagnostics report an error')
