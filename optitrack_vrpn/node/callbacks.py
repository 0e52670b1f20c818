# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Wrappers of the node's callbacks: each exception is logged, and none ends a thread."""

import functools
import traceback
from typing import Callable


def log_exceptions(
    log: Callable[[str, str, str], None], callback: Callable[[], None],
) -> Callable[[], None]:
    """
    Log exceptions of a callback, which would end its thread or the process.

    :param log: takes severity, text and a key.
    """
    @functools.wraps(callback)
    def wrapper() -> None:
        try:
            callback()
        except Exception:
            log('error', f'bug in {callback.__name__}:\n{traceback.format_exc()}',
                callback.__name__)
    return wrapper
