# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The text format of the TUM RGB-D benchmark: ``stamp tx ty tz qx qy qz qw``, one pose per line.

https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats. Stamps are decimal seconds; this
module keeps all nine decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.trajectory import Trajectory
from optitrack_vrpn.units import format_seconds, parse_seconds


def parse_tum(lines: Iterable[str], source: str) -> Trajectory:
    """
    Read a trajectory.

    :param lines: lines of the file; empty lines and lines that begin with # are skipped.
    :param source: name of the file, for error messages.
    :raises ConfigurationError: if a line does not have eight numbers, or stamps do not rise.
    """
    stamps, values = [], []
    for number, line in enumerate(lines, 1):
        fields = line.replace(',', ' ').split()
        if not fields or fields[0].startswith('#'):
            continue
        try:
            if len(fields) != 8:
                raise ValueError(f'{len(fields)} values')
            stamps.append(parse_seconds(fields[0]))
            values.append([float(field) for field in fields[1:]])
        except ValueError as error:
            raise ConfigurationError(
                f'{source}, line {number}: {error}; a line of a TUM file has eight numbers: '
                'stamp tx ty tz qx qy qz qw') from None
    if not stamps:
        raise ConfigurationError(f'{source}: contains no pose')
    table = np.array(values)
    try:
        return Trajectory(np.array(stamps, dtype=np.int64), table[:, :3], table[:, 3:])
    except ConfigurationError as error:
        raise ConfigurationError(f'{source}: {error}') from None


def format_tum(trajectory: Trajectory) -> Iterator[str]:
    """Write a trajectory, a line each, with every bit of its values."""
    for stamp, values in trajectory.rows():
        yield f'{format_seconds(stamp)} {" ".join(map(repr, values))}\n'
