# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Items that arrive together, and what is published of them; compiled."""

from collections.abc import Sequence
from typing import NamedTuple, Optional

from optitrack_vrpn.drivers.frames import Body, Frame, Item
from optitrack_vrpn.stream.roster import FrameTimes, Sample, ServerMotion, StampedExtras
from optitrack_vrpn.stream.server_data import MarkerCloud


class Processed(NamedTuple):
    """
    What is to be published of frames that arrived together, in this order.

    :ivar markers: markers of the last frame; None if there were none.
    :ivar samples: poses, in order.
    :ivar times: of the frames of the samples whose exposure is known.
    :ivar motions: velocities and accelerations from the server, which belong to the samples.
    :ivar extras: skeletons and force plates of the last frame; None if there were none.
    """

    markers: Optional[MarkerCloud]
    samples: Sequence[Sample]
    times: Sequence[FrameTimes]
    motions: Sequence[ServerMotion]
    extras: Optional[StampedExtras]


def divide_newest(items: Sequence[Item]) -> tuple[list[Item], list[Body]]:
    """
    Divide items into those to process and the poses that a newer pose of the body supersedes.

    In mode ``arrival``, items that arrive together have one stamp, and only one pose of a body
    can have it.
    """
    newest = {(body.name, body.sensor): body for item in items if isinstance(item, Frame)
              for body in item.bodies}
    kept: list[Item] = []
    superseded: list[Body] = []
    for item in items:
        if isinstance(item, Frame):
            bodies: list[Body] = []
            for body in item.bodies:
                (bodies if body is newest[body.name, body.sensor] else superseded).append(body)
            item = item._replace(bodies=bodies)
        kept.append(item)
    return kept, superseded
