# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start and stop a recording in Motive on START and STOP of mocap control (``natnet.record``)."""

from typing import Callable, Optional

from optitrack_vrpn.natnet.recording import Recorder
from optitrack_vrpn.node.configuration import Configuration


def recorder_of(
    configuration: Optional[Configuration], backend: object,
    log: Callable[[str, str, str], None],
) -> Optional[Recorder]:
    """
    Return the backend if ``natnet.record`` is set.

    :param configuration: None while the node is unconfigured.
    :param log: takes severity, text and a key.
    """
    if configuration is None or not configuration.natnet.record:
        return None
    if isinstance(backend, Recorder):
        return backend
    log('error', 'natnet.record needs protocol natnet or auto: VRPN has no recording command',
        'natnet.record')
    return None
