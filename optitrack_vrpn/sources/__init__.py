# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sources of frames: what they deliver, whatever the protocol, and the table of protocols."""

from typing import Any

from optitrack_vrpn.sources.frames import (
    Body, Frame, Item, Marker, Motion, Quaternion, RoundTrip, ServerText, Vector)

__all__ = [
    'AUTO', 'Body', 'Frame', 'Item', 'Marker', 'Motion', 'Quaternion', 'Recorder', 'RoundTrip',
    'SOURCES', 'ServerText', 'SourceKind', 'SourceOptions', 'Vector', 'check_server', 'lacking',
    'load', 'make_source', 'own_settings', 'recording_wanted', 'source_settings']


def __getattr__(name: str) -> Any:
    """Import the table where it is used: pure code needs the types only."""
    if name in __all__:
        from optitrack_vrpn.sources import table
        return getattr(table, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
