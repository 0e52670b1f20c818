# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
File lists and cameras of the TUM RGB-D benchmark.

A folder contains rgb.txt and depth.txt (``stamp file`` per line), the images, and groundtruth.txt
(``stamp tx ty tz qx qy qz qw``, of the colour camera's optical frame). Depth is 16-bit PNG with
5000 units per metre, 0 for no measurement, registered to the colour image. Source: the page "File
Formats" of the benchmark.
"""

from collections.abc import Iterable
from typing import NamedTuple, Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.units import parse_seconds

#: Units per metre in depth images.
DEPTH_SCALE = 5000.0
#: Greatest difference of the stamps of a pair (ns), as in the benchmark's tools.
TOLERANCE_NS = 20_000_000
#: Focal lengths and principal points of the benchmark's cameras at 640 x 480 (its page
#: "Intrinsic Camera Calibration"); ros: the default of the ROS drivers.
CAMERAS = {
    'fr1': (517.3, 516.5, 318.6, 255.3), 'fr2': (520.9, 521.0, 325.1, 249.7),
    'fr3': (535.4, 539.2, 320.1, 247.6), 'ros': (525.0, 525.0, 319.5, 239.5)}
_NAMES = (('freiburg1', 'fr1'), ('freiburg2', 'fr2'), ('freiburg3', 'fr3'))


class Entry(NamedTuple):
    """A line of a list."""

    stamp_ns: int
    name: str


class Pair(NamedTuple):
    """Images of one exposure; the stamp is that of the colour image."""

    stamp_ns: int
    colour: str
    depth: str


def parse_list(lines: Iterable[str], source: str) -> list[Entry]:
    """
    Read rgb.txt or depth.txt.

    :param source: name of the file in error messages.
    :returns: entries, sorted by stamp.
    :raises ConfigurationError: if a line is not a stamp and a file, or without lines.
    """
    entries = []
    for number, text in enumerate(lines, 1):
        fields = text.split()
        if not fields or fields[0].startswith('#'):
            continue
        try:
            if len(fields) != 2:
                raise ValueError(f'{len(fields)} words')
            entries.append(Entry(parse_seconds(fields[0]), fields[1]))
        except ValueError as error:
            raise ConfigurationError(
                f'{source}, line {number}: {error}; a line is a stamp (s) and a file') from None
    if not entries:
        raise ConfigurationError(f'{source}: lists no image')
    return sorted(entries)


def pair(
    colour: list[Entry], depth: list[Entry], tolerance_ns: int = TOLERANCE_NS,
) -> list[Pair]:
    """
    Pair images by their stamps, the closest first; each image is used once.

    :returns: pairs, sorted by stamp.
    :raises ConfigurationError: if no two images are close enough.
    """
    candidates = []
    first = 0
    for at, entry in enumerate(colour):
        while first < len(depth) and depth[first].stamp_ns < entry.stamp_ns - tolerance_ns:
            first += 1
        for other in range(first, len(depth)):
            if depth[other].stamp_ns > entry.stamp_ns + tolerance_ns:
                break
            candidates.append((abs(depth[other].stamp_ns - entry.stamp_ns), at, other))
    used_colour: set[int] = set()
    used_depth: set[int] = set()
    pairs = []
    for _, at, other in sorted(candidates):
        if at not in used_colour and other not in used_depth:
            used_colour.add(at)
            used_depth.add(other)
            pairs.append(Pair(colour[at].stamp_ns, colour[at].name, depth[other].name))
    if not pairs:
        raise ConfigurationError(
            f'no colour and depth images are within {tolerance_ns / 1e6:g} ms of each other')
    return sorted(pairs)


def camera_of(
    folder: str, width: int, height: int, name: Optional[str] = None,
    intrinsics: Optional[tuple[float, float, float, float]] = None,
) -> Intrinsics:
    """
    Choose the camera of a sequence.

    :param folder: name of the folder; in the benchmark it contains the camera.
    :param width: width of the images (px).
    :param height: height of the images (px); used only with ``intrinsics``.
    :param name: key of ``CAMERAS``; replaces the name in ``folder``.
    :param intrinsics: fx, fy, cx and cy for this size of the images; they replace both.
    :raises ConfigurationError: if neither the folder nor an argument determines the camera.
    """
    if intrinsics is not None:
        return Intrinsics(width, height, *intrinsics)
    if name is None:
        name = next((camera for part, camera in _NAMES if part in folder.lower()), None)
    if name is None:
        raise ConfigurationError(
            f'{folder}: the name of the folder does not contain freiburg1, 2 or 3: set --camera '
            f'{", ".join(CAMERAS)}, or give --intrinsics FX FY CX CY')
    return Intrinsics(640, 480, *CAMERAS[name]).scaled(width / 640)
