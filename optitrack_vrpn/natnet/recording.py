# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a backend offers that can record in Motive."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Recorder(Protocol):
    """A backend that can record in Motive."""

    def record(self, take: str) -> None:
        """Start a recording under this name."""
        ...

    def stop_recording(self) -> None:
        """Stop the recording."""
        ...
