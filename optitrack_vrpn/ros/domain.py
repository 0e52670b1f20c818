# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Refuse a ROS domain with which the middleware would end the process."""

import os

from optitrack_vrpn.errors import ConfigurationError

#: The last domain whose UDP ports exist: 7400 + 250 * 232 (RTPS, OMG formal/2022-04-01, 9.6.2). A
#: larger one makes Fast DDS call exit(1); a smaller limit would refuse domains that work.
_LAST = 232


def check_domain() -> None:
    """
    Check the domain of the environment; call it before the initialisation of ROS.

    Text that is no number is left to rcl, which raises an error.

    :raises ConfigurationError: if there are no ports for it.
    """
    text = os.environ.get('ROS_DOMAIN_ID', '')
    if text.isascii() and text.isdigit() and int(text) > _LAST:
        raise ConfigurationError(f'ROS_DOMAIN_ID is {text}; allowed: 0 to {_LAST}')
