# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Create the backend that a configuration names, and the source of its frames."""

from typing import Any

from optitrack_vrpn.sources import SourceOptions
from optitrack_vrpn.sources.backend_io import Backend, Sink
from optitrack_vrpn.sources.config import ClientConfig
from optitrack_vrpn.sources.vrpn.client_io import VrpnClient
from optitrack_vrpn.sources.vrpn.frames import FrameSink


def make_backend(config: ClientConfig, sink: Sink) -> Backend:
    """
    Create the backend that ``config.backend`` names.

    :raises BackendUnavailableError: if the backend's Python module is not installed.
    """
    if config.backend == 'python_vrpn':
        from optitrack_vrpn.sources.vrpn.python_vrpn_io import PythonVrpnBackend
        return PythonVrpnBackend(config, sink)
    return VrpnClient(config, sink)


def make_source(
    config: ClientConfig, settings: Any, sink: Sink, options: SourceOptions,
) -> Backend:
    """Create the source of VRPN's frames; see ``sources.SourceKind``."""
    return make_backend(config, FrameSink(sink))
