# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Create the client of NatNet, or the one that chooses between NatNet and VRPN."""

from dataclasses import replace
from typing import Any

from optitrack_vrpn.sources import SourceOptions
from optitrack_vrpn.sources.backend_io import Backend, Sink
from optitrack_vrpn.sources.config import ClientConfig


def make_source(
    config: ClientConfig, settings: Any, sink: Sink, options: SourceOptions,
) -> Backend:
    """Create the client of NatNet; see ``sources.SourceKind``."""
    from optitrack_vrpn.sources.natnet.client_io import NatNetClient
    return NatNetClient(
        config, replace(settings.natnet, markers=options.markers), sink, up_axis=options.up_axis)


def make_automatic(
    config: ClientConfig, settings: Any, sink: Sink, options: SourceOptions,
) -> Backend:
    """Create the source that uses NatNet if it streams, else VRPN; see ``sources.SourceKind``."""
    from optitrack_vrpn.sources.choice_io import AutoBackend
    return AutoBackend(
        config, replace(settings.natnet, markers=options.markers), sink, options.up_axis)
