# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Load the profile of Fast DDS for images and recordings, config/fast_recording.xml."""

import os
from pathlib import Path
import sys

#: Variables that name the profile, until Jazzy and from Kilted on.
VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')


def use_profile() -> None:
    """
    Name the profile for this process and its children, unless the user has named another.

    Call it before ROS starts. With the defaults of Fast DDS an image that does not fit the shared
    memory of its publisher (512 kB, about one pair of QVGA) is lost.
    """
    if any(os.environ.get(name) for name in VARIABLES):
        return
    below = Path('share', 'optitrack_vrpn', 'config', 'fast_recording.xml')
    prefixes = [*os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep), sys.prefix]
    for path in (Path(__file__).resolve().parents[2] / 'config' / below.name,
                 *(Path(prefix, below) for prefix in prefixes if prefix)):
        if path.is_file():
            os.environ.update(dict.fromkeys(VARIABLES, str(path)))
            return
