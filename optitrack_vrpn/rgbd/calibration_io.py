# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read calibration files."""

from pathlib import Path
from typing import Any

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.calibration import read_storage


def load_storage(path: str) -> dict[str, Any]:
    """
    Read a YAML file of ROS or OpenCV.

    :raises ConfigurationError: if the file is missing, unreadable or not valid.
    """
    try:
        text = Path(path).expanduser().read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError, RuntimeError) as error:    # also an unknown ~user
        raise ConfigurationError(f'the calibration {path} cannot be read: {error}') from None
    return read_storage(text, path)
