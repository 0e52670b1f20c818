# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Import of the optional module cv2; callers use only functions of both OpenCV 4.5 and 5.0."""

from typing import Any

from optitrack_vrpn.errors import BackendUnavailableError


def opencv() -> Any:
    """
    Return the module cv2.

    :raises BackendUnavailableError: if it is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise BackendUnavailableError(
            f'OpenCV for Python was not found ({error}); install it: apt install '
            'python3-opencv, or pip install opencv-python-headless') from None
    return cv2
