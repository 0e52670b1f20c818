# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Texts about the connection to a NatNet server, for the user."""

from typing import Optional

from optitrack_vrpn.drivers.natnet.messages import NEWEST, OLDEST, ServerInfo, Version

#: Frames without times of the counter, although the server states its frequency.
UNTIMED = ('the frames of Motive have no times of its clock (all ticks are 0): poses are stamped '
           'by their arrival, less stamps.latency_ms')


def unanswered(server: tuple[str, int], attempt_s: float, error: str) -> str:
    """
    Describe an attempt without an answer.

    :param server: address and command port.
    :param attempt_s: time of the attempt (s).
    :param error: why the last datagram could not be used, or ''.
    """
    address, port = server
    where = f'NatNet command port {port}'
    if error:
        return f'{address} answered on {where}, but it cannot be used: {error}'
    return (
        f'{address} did not answer on {where} within {attempt_s:g} s: is NatNet streaming on in '
        'Motive, is its Local Interface in this network, or does a firewall block UDP?')


def connected(
    info: ServerInfo, server: str, local: str, joined: Optional[tuple[str, int]],
) -> str:
    """
    Describe a server that has answered.

    :param joined: group and port of multicast frames; None for unicast.
    """
    how = 'unicast' if joined is None else f'{joined[0]} port {joined[1]} on {local}'
    return (
        f'connected to {info.name!r} {".".join(map(str, info.app_version[:2]))} at {server}, '
        f'NatNet {info.version[0]}.{info.version[1]}, frames by {how}; no bodies yet')


def older(version: Version) -> str:
    """Describe a version that is too old."""
    return (f'the server speaks NatNet {version[0]}.{version[1]}; at least '
            f'{OLDEST[0]}.{OLDEST[1]} (Motive 1.7) is needed')


def newer(version: Version) -> str:
    """Describe a version of which not all is known."""
    return (f'NatNet {version[0]}.{version[1]} is newer than {NEWEST[0]}.{NEWEST[1]}: what it '
            'adds is skipped')
