# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the path to the server: its name and the route."""

from __future__ import annotations

from optitrack_vrpn.checks import CheckResult, fail, listed, ok, skip, warn
from optitrack_vrpn.doctor.results import ProbeResults
from optitrack_vrpn.sources import AUTO


def check_name(probed: ProbeResults) -> CheckResult:
    """Check the name resolution."""
    if not probed.server:
        return fail('name', 'no server is named, and no running node from which to take it',
                    'give --server HOST')
    if probed.name_error:
        return fail('name', probed.name_error,
                    "give the Motive PC's IPv4 address as server (ipconfig shows it there)")
    if not probed.addresses:
        return skip('name', 'not resolved')
    address = probed.place.address
    if len(probed.addresses) > 1:
        return warn(
            'name', f'{probed.server!r} has several addresses: {listed(probed.addresses)}; '
            f'{address} is checked',
            'give the one in the network of the cameras; the node tries them in turn',
            address=address)
    if address.startswith('127.') and probed.server not in (address, 'localhost', AUTO):
        return warn(
            'name', f'{probed.server!r} is {address}, which is this machine',
            'if Motive runs on another machine, correct /etc/hosts or give its address',
            address=address)
    own = ', this machine' if address.startswith('127.') else ''
    found = address if probed.server == address else f'{probed.server!r} is {address}'
    return ok('name', found + own, address=address)


def check_route(probed: ProbeResults) -> CheckResult:
    """Check the route and the local address."""
    if probed.route_error.startswith('interface '):
        return fail('route', probed.route_error,
                    'give one of its addresses or network cards: ip -br address lists them')
    if probed.route_error:
        found, _, advice = probed.route_error.partition(': ')
        return fail('route', found, advice or 'look at ip addr and ip route')
    if not probed.local:
        return skip('route', 'no address')
    place = probed.place
    card = f' ({place.card})' if place.card else ''
    if place.loopback and not place.address.startswith('127.'):
        return warn(
            'route', f'{place.address} is this computer',
            'if Motive runs on another computer, give the address of that one',
            local=place.local, card=place.card)
    return ok('route', f'from {place.local}{card} to {place.address}',
              local=place.local, card=place.card)
