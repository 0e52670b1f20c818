# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Recognise positions that a server sends in millimetres or centimetres instead of metres."""

from collections.abc import Sequence

#: Chosen: distance from the origin (m) that no capture volume has; 1 m in mm is ten times as much.
_FAR_M = 100.0


def doubtful_unit(name: str, position: Sequence[float]) -> str:
    """
    Return the text for the first position of a body that is too far away for metres; '' for none.

    :param position: in the unit of the server, taken for metres.
    """
    far = max(abs(value) for value in position)
    return (
        f'{name!r} is {far:.0f} m from the origin; positions of hundreds of metres are usually '
        'millimetres or centimetres: make the server send metres (in Motive: Scale 1 in its '
        'streaming settings)') if _FAR_M < far < float('inf') else ''
