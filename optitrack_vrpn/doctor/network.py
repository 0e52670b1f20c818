# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the path to the server: its name, the route, and the two kinds of connection."""

from __future__ import annotations

from collections.abc import Callable

from optitrack_vrpn.doctor.probe_results import Attempt, Outcome, ProbeResults
from optitrack_vrpn.doctor.result import CheckResult, fail, ok, skip, warn
from optitrack_vrpn.findings import listed
from optitrack_vrpn.sources import AUTO

_MOTIVE = (
    'is Motive running, is VRPN switched on in its streaming settings, with this port and this '
    "network's Local Interface?")
_HINTS = {
    'container': 'this is a container: a server cannot connect back into one unless it shares '
                 "the host's network (docker run --network host)",
    'wsl': 'this is WSL, whose network is behind NAT: a connect-back needs its networking mode '
           'mirrored',
    'ufw': 'ufw is enabled here',
}
#: For a server on this machine: no firewall or NAT is involved.
_HANGS = (
    'the server hangs, or another program uses its port (sudo ss -tulnp shows it): start it again')


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
    address = probed.address
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
    if probed.route_error:
        if probed.route_error.startswith('interface '):
            return fail('route', probed.route_error,
                        'give one of its addresses or network cards: ip -br address lists them')
        return fail('route', *_split(probed.route_error, 'look at ip addr and ip route'))
    if not probed.local:
        return skip('route', 'no address')
    card = f' ({probed.card})' if probed.card else ''
    if probed.loopback and not probed.address.startswith('127.'):
        return warn(
            'route', f'{probed.address} is this computer',
            'if Motive runs on another computer, give the address of that one',
            local=probed.local, card=probed.card)
    return ok('route', f'from {probed.local}{card} to {probed.address}',
              local=probed.local, card=probed.card)


def check_udp(probed: ProbeResults) -> CheckResult:
    """Check the request by UDP."""
    attempt = probed.udp
    if attempt is None:
        return skip('udp', _why_not_tried(probed))
    where = f'UDP port {probed.port} of {probed.address}'
    if attempt.outcome is Outcome.OPEN:
        return ok('udp', f'a request to {where} was answered', outcome=attempt.outcome.value)
    result = _fail_or_warn(probed)
    if attempt.outcome is Outcome.REFUSED and result is warn:
        return skip('udp', f'nothing takes requests on {where}: the node uses TCP')
    if attempt.outcome is Outcome.REFUSED:
        return result('udp', f'nothing listens on {where}: its machine refused the request',
                      _MOTIVE, outcome=attempt.outcome.value)
    if probed.address_unused:
        return skip('udp', 'no machine has the address')
    if attempt.outcome is Outcome.SILENT:
        # UDP has no acknowledgement: only the connect-back shows whether the request arrived.
        return ok('udp', f'a request to {where} was sent and not refused; whether it arrived is '
                  'not known', outcome=attempt.outcome.value)
    return result('udp', *_split(attempt.detail), outcome=attempt.outcome.value)


def check_connect_back(probed: ProbeResults) -> CheckResult:
    """Check whether the server connects back by TCP."""
    check = 'connect-back'
    attempt = probed.udp
    if attempt is None and probed.remembered:
        found, _, remedy = probed.remembered.partition('. ')
        return warn(check, found, remedy)
    if attempt is None:
        return skip(check, _why_not_tried(probed))
    if attempt.outcome is Outcome.OPEN:
        return ok(check, f'{probed.address} connected back to {_connect_back_address(probed)} '
                         f'within {attempt.took_s * 1e3:.0f} ms', took_s=round(attempt.took_s, 4))
    if attempt.outcome is not Outcome.SILENT or probed.address_unused:
        return skip(check, 'no request arrived')
    result = _fail_or_warn(probed)
    if probed.unexpected_peers:
        others = ', '.join(sorted(probed.unexpected_peers))
        return result(
            check, f'the connection came from {others}, not from {probed.address}, and was '
            'refused',
            f'the server has several network cards: set server to {others}')
    if probed.loopback:
        advice = f'{_HANGS}.'
    else:
        advice = (
            "does this machine's firewall drop it (it must admit inbound TCP from "
            f'{probed.address}: sudo ufw allow from {probed.address}), or the one there (inbound '
            f"UDP {probed.port})? Is Motive's Local Interface that of this network?")
        hints = [_HINTS[one] for one in probed.environment if one in _HINTS]
        if hints:
            advice += f' Note: {"; ".join(hints)}.'
    if is_open(probed.tcp):
        advice += ' Or set connection: tcp or auto, which need no connect-back'
    if probed.advertise:
        advice = (f'--advertise asks the server to connect to {probed.advertise}: does that '
                  f'address lead from the server to this machine? {advice}')
    hazard = '' if probed.loopback else (
        '. A VRPN server whose connection back is dropped serves no client meanwhile: once for '
        'about 20 s (Windows; 127 s on Linux)')
    return result(check, f'{probed.address} did not connect back to '
                         f'{_connect_back_address(probed)} within {attempt.took_s:.3g} s{hazard}',
                  advice)


def _connect_back_address(probed: ProbeResults) -> str:
    """Name the address that the server is asked to connect back to."""
    return probed.advertise or probed.local


def check_tcp(probed: ProbeResults) -> CheckResult:
    """Check the connection by ``tcp://``."""
    attempt = probed.tcp
    if attempt is None:
        return skip('tcp', 'there is no route to the server')
    where = f'TCP port {probed.port} of {probed.address}'
    needed = probed.connection == 'tcp' or not is_open(probed.udp)
    if attempt.outcome is Outcome.OPEN:
        hazard = (
            '. With poses by TCP, a VRPN server serves no other client while this computer does '
            'not read: node stopped, computer suspended, link lost' if needed else '')
        return ok('tcp', f'{where} accepts connections, within {attempt.took_s * 1e3:.0f} ms'
                  f'{hazard}', took_s=round(attempt.took_s, 4))
    result = fail if needed else warn
    if attempt.outcome is Outcome.REFUSED:
        return result('tcp', f'nothing listens on {where}: its machine refused the connection',
                      _MOTIVE if needed else
                      'a firewall refuses TCP, or the server takes requests by UDP only: the node '
                      'uses UDP')
    if probed.address_unused:
        return result('tcp', *unused_address(probed))
    if attempt.outcome is Outcome.SILENT:
        return result(
            'tcp', f'{where} does not answer within {attempt.took_s:.3g} s',
            _HANGS if probed.loopback else
            'is the Motive PC on, and is this its address? Does its firewall admit inbound TCP '
            f'{probed.port}, also for networks that Windows classifies as public?')
    return result('tcp', *_split(attempt.detail))


def unused_address(probed: ProbeResults) -> tuple[str, str]:
    """Describe an address for which no machine of the local network answers."""
    return (f'no machine in the network of {probed.card or probed.local} has the address '
            f'{probed.address}', 'is the Motive PC on, is its cable in, and is this its address?')


def _split(error: str, remedy: str = 'check the address and the cable') -> tuple[str, str]:
    """Split the text of an error into finding and remedy."""
    found, _, advice = error.partition(': ')
    return found, advice or remedy


def is_open(attempt: Attempt | None) -> bool:
    """Return whether an attempt connected."""
    return attempt is not None and attempt.outcome is Outcome.OPEN


def _fail_or_warn(probed: ProbeResults) -> Callable[..., CheckResult]:
    """Return ``warn`` if poses can arrive over TCP instead, else ``fail``."""
    return warn if probed.connection == 'auto' and is_open(probed.tcp) else fail


def _why_not_tried(probed: ProbeResults) -> str:
    if probed.connection == 'tcp' and probed.local:
        return 'not used with connection: tcp'
    if probed.transport_reason and not (probed.tcp and probed.tcp.fault):
        return f'not tried, as in the node: {probed.transport_reason.removeprefix("auto: ")}'
    return 'there is no VRPN server' if probed.local else 'there is no route to the server'
