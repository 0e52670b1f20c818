# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Judge the way to the server: its name, the route, and the two ways in."""

from __future__ import annotations

from collections.abc import Callable

from optitrack_vrpn.doctor.probe_results import Attempt, Facts, Outcome
from optitrack_vrpn.doctor.result import fail, Finding, listed, ok, skip, warn

_MOTIVE = (
    'is Motive running, is VRPN switched on in its streaming settings, with this port and this '
    "network's Local Interface?")
_HINTS = {
    'container': 'this is a container: a server cannot connect back into one unless it shares '
                 "the host's network (docker run --network host)",
    'wsl': 'this is WSL, whose network is behind NAT: nobody connects back unless its networking '
           'mode is mirrored',
    'ufw': 'ufw is enabled here',
}
#: For a server in this very machine: neither firewall nor NAT is on the way.
_HANGS = (
    'the server hangs, or another program has its port (sudo ss -tulnp shows it): start it again')


def judge_name(facts: Facts) -> Finding:
    """Judge the name resolution."""
    if facts.name_error:
        return fail('name', facts.name_error,
                    "give the Motive PC's IPv4 address as server (ipconfig shows it there)")
    if not facts.addresses:
        return skip('name', 'not looked up')
    address = facts.address
    if len(facts.addresses) > 1:
        return warn(
            'name', f'{facts.server!r} has several addresses: {listed(facts.addresses)}; '
            f'{address} is examined',
            'give the one in the network of the cameras; the node tries them in turn',
            address=address)
    if address.startswith('127.') and facts.server not in (address, 'localhost'):
        return warn(
            'name', f'{facts.server!r} is {address}, which is this machine itself',
            'if Motive runs on another machine, correct /etc/hosts or give its address',
            address=address)
    own = ', this machine itself' if address.startswith('127.') else ''
    found = address if facts.server == address else f'{facts.server!r} is {address}'
    return ok('name', found + own, address=address)


def judge_route(facts: Facts) -> Finding:
    """Judge the route and the local address."""
    if facts.route_error:
        found, _, advice = facts.route_error.partition(': ')
        return fail('route', found, advice or 'look at ip addr and ip route')
    if not facts.local:
        return skip('route', 'no address to go to')
    card = f' ({facts.card})' if facts.card else ''
    if facts.local.startswith('127.') and not facts.address.startswith('127.'):
        return warn(
            'route', f'{facts.address} is an address of this machine itself',
            'if Motive runs on another machine, its address is another one',
            local=facts.local, card=facts.card)
    return ok('route', f'from {facts.local}{card} to {facts.address}',
              local=facts.local, card=facts.card)


def judge_udp(facts: Facts) -> Finding:
    """Judge the request by UDP."""
    attempt = facts.udp
    if attempt is None:
        return skip('udp', _why_not_tried(facts))
    where = f'UDP port {facts.port} of {facts.address}'
    if attempt.outcome is Outcome.OPEN:
        return ok('udp', f'a request to {where} was heard', outcome=attempt.outcome.value)
    judged = _judged_by_need(facts)
    if attempt.outcome is Outcome.REFUSED:
        return judged('udp', f'nothing listens on {where}: its machine says so itself', _MOTIVE,
                      outcome=attempt.outcome.value)
    if facts.nobody_there:
        return judged(
            'udp', f'no machine in the network of {facts.card or facts.local} has the address '
            f'{facts.address}', 'is the Motive PC on, is its cable in, and is this its address?',
            outcome='nobody there')
    if attempt.outcome is Outcome.SILENT:
        # UDP acknowledges nothing: whether the request was heard shows in the connect-back.
        return ok('udp', f'a request to {where} was sent and not refused; more UDP does not tell',
                  outcome=attempt.outcome.value)
    found, _, advice = attempt.detail.partition(': ')
    return judged('udp', found, advice or 'look at the address and the cable',
                  outcome=attempt.outcome.value)


def judge_connect_back(facts: Facts) -> Finding:
    """Judge whether the server comes back by TCP."""
    check = 'connect-back'
    attempt = facts.udp
    if attempt is None:
        return skip(check, _why_not_tried(facts))
    if attempt.outcome is Outcome.OPEN:
        return ok(check, f'{facts.address} connected back to {_told(facts)} within '
                         f'{attempt.took_s * 1e3:.0f} ms', took_s=round(attempt.took_s, 4))
    if attempt.outcome is not Outcome.SILENT or facts.nobody_there:
        return skip(check, 'no request was heard')
    judged = _judged_by_need(facts)
    if facts.strangers:
        others = ', '.join(sorted(facts.strangers))
        return judged(
            check, f'the connection came from {others}, not from {facts.address}, and was refused',
            f'the server has several network cards: set server to {others}')
    if facts.loopback:
        advice = f'{_HANGS}.'
    else:
        advice = (
            f"is this machine's firewall in the way (it must let TCP in from {facts.address}, as "
            f'by sudo ufw allow from {facts.address}), or the one there (UDP {facts.port} in)? Is '
            "Motive's Local Interface this network's?")
        hints = [_HINTS[one] for one in facts.surroundings if one in _HINTS]
        if hints:
            advice += f' Mind: {"; ".join(hints)}.'
    if _open(facts.tcp):
        advice += ' Or set connection: tcp, which needs no connect-back, as auto'
    if facts.advertise:
        advice = (f'--advertise asks the server to connect to {facts.advertise}: does that '
                  f'address lead from the server to this machine? {advice}')
    return judged(check, f'{facts.address} did not connect back to {_told(facts)} within '
                         f'{attempt.took_s:.3g} s', advice)


def _told(facts: Facts) -> str:
    """Name the address that the server is asked to connect back to."""
    return facts.advertise or facts.local


def judge_tcp(facts: Facts) -> Finding:
    """Judge the connection by ``tcp://``."""
    attempt = facts.tcp
    if attempt is None:
        return skip('tcp', 'there is no way to the server')
    where = f'TCP port {facts.port} of {facts.address}'
    if attempt.outcome is Outcome.OPEN:
        return ok('tcp', f'{where} takes connections, within {attempt.took_s * 1e3:.0f} ms',
                  took_s=round(attempt.took_s, 4))
    needed = facts.connection == 'tcp' or not _open(facts.udp)
    judged = fail if needed else warn
    if attempt.outcome is Outcome.REFUSED:
        return judged('tcp', f'nothing listens on {where}: its machine says so itself', _MOTIVE)
    if attempt.outcome is Outcome.SILENT:
        return judged(
            'tcp', f'{where} does not answer within {attempt.took_s:.3g} s',
            _HANGS if facts.loopback else
            'is the Motive PC on, and is this its address? Does its firewall let TCP '
            f'{facts.port} in, also for networks that Windows takes for public?')
    found, _, advice = attempt.detail.partition(': ')
    return judged('tcp', found, advice or 'look at the address and the cable')


def _open(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.outcome is Outcome.OPEN


def _judged_by_need(facts: Facts) -> Callable[..., Finding]:
    """Fail where poses need the default way in, warn where the other one stands in for it."""
    return warn if facts.connection == 'auto' and _open(facts.tcp) else fail


def _why_not_tried(facts: Facts) -> str:
    if facts.connection == 'tcp' and facts.local:
        return 'not used with connection: tcp'
    if _open(facts.tcp):
        return 'not tried, since TCP is open: see --connection udp'
    if facts.connection == 'auto' and facts.local:
        return (
            'not tried: with auto, the node sends a request only where TCP is refused (where a '
            'firewall drops the connect-back, a request blocks the server for all its clients; '
            '--connection udp sends one)')
    return 'there is no way to the server'
