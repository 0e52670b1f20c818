# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check a server's NatNet: command port, frames, clock; the texts of these results."""

from __future__ import annotations

from optitrack_vrpn.doctor.network import is_open, unused_address
from optitrack_vrpn.doctor.probe_results import NatNetResults, ProbeResults
from optitrack_vrpn.doctor.result import CheckResult, fail, ok, skip, warn
from optitrack_vrpn.findings import join_sentences, listed, loss_findings
from optitrack_vrpn.names import counted
from optitrack_vrpn.sources.natnet import DATA_PORT, NEWEST, OLDEST

_NOT_TRACKED = 'not tracked: do at least two cameras see three markers of each body?'


def _found(probed: ProbeResults) -> NatNetResults | None:
    return probed.natnet if probed.natnet is not None and probed.natnet.version else None


def check_natnet(probed: ProbeResults) -> CheckResult:
    """Check whether the command port answers, and with which version."""
    natnet = probed.natnet
    if natnet is None:
        return skip('natnet', 'not checked')
    if not natnet.version:
        return _unanswered(probed, natnet)
    version = '.'.join(map(str, natnet.version))
    how = f'multicast to {natnet.group}' if natnet.multicast else 'unicast'
    found = f'{natnet.name} uses NatNet {version}, {how}'
    if natnet.version > NEWEST:
        return warn(
            'natnet', f'{found}, newer than {NEWEST[0]}.{NEWEST[1]}',
            'new fields are skipped; if frames cannot be read, set natnet.bitstream: '
            f'"{NEWEST[0]}.{NEWEST[1]}" (unicast)', answered=True, version=version)
    unused = probed.protocol == 'vrpn'
    if unused:
        why = ('by VRPN, no pose arrives' if is_open(probed.tcp) or is_open(probed.udp) else
               'VRPN does not answer')
        return warn('natnet', f'{found}; {why}', 'set protocol: natnet',
                    answered=True, version=version)
    return ok('natnet', found, answered=True, version=version)


def _unanswered(probed: ProbeResults, natnet: NatNetResults) -> CheckResult:
    where = f'UDP port {natnet.port} of {probed.address}'
    if natnet.malformed:
        return fail(
            'natnet', natnet.messages[0] if natnet.messages else
            f'{counted(natnet.malformed, "answer")} of {where} cannot be read',
            f'is that Motive? NatNet {OLDEST[0]}.{OLDEST[1]} (Motive 1.7) or later is needed',
            answered=True)
    if natnet.held_by:
        port, _, program = natnet.held_by.partition(' ')
        return fail(
            'natnet', f'UDP port {port} of this computer, on which NatNet sends, belongs to '
            f'{program}, which does not share it',
            f'end that program (sudo ss -ulnp sport = :{port} shows it), or set '
            'natnet.transport: unicast if Motive sends unicast', answered=False)
    found = (f'nothing listens on {where}: its machine refused the request'
             if natnet.refused else f'no answer on {where}')
    if probed.established:
        if probed.protocol == 'natnet':
            return fail('natnet', f'{found}; VRPN answers',
                        'set protocol: vrpn or auto; or switch NatNet on in Motive',
                        answered=False)
        return warn(
            'natnet', f'{found}; VRPN answers',
            'switch NatNet on in Motive for exposure times and tracking flags, or keep '
            'protocol: vrpn', answered=False)
    if probed.address_unused:
        return fail('natnet', *unused_address(probed), answered=False)
    advice = ('is Motive running, is NatNet on in its streaming settings, and is its Local '
              'Interface this network?')
    if not natnet.refused:
        advice += f' Does a firewall drop UDP ports {natnet.port} and {DATA_PORT}?'
    return fail('natnet', found, advice, answered=False)


def check_natnet_data(probed: ProbeResults) -> CheckResult:
    """Check whether frames and bodies arrive."""
    natnet = _found(probed)
    if natnet is None:
        return skip('natnet-data', 'no server answered')
    values = {'frames': natnet.frames, 'bodies': len(natnet.bodies),
              'malformed': natnet.malformed, 'lost': natnet.lost}
    if natnet.malformed and not natnet.frames:
        return fail(
            'natnet-data', f'{counted(natnet.malformed, "datagram")} cannot be read',
            f'set natnet.bitstream: "{NEWEST[0]}.{NEWEST[1]}" (unicast) and report the version '
            'of Motive', **values)
    if not natnet.frames:
        if natnet.other_card and natnet.other_source not in ('', probed.address):
            return fail(
                'natnet-data', f'no frame from {probed.address}, but frames from '
                f'{natnet.other_source} on {natnet.other_card}',
                f'if {natnet.other_source} is the Motive PC too, set server: '
                f'{natnet.other_source}', **values)
        if natnet.other_card:
            return fail(
                'natnet-data', f'no frame on {probed.local}, but frames on {natnet.other_card}',
                f'the group is joined on the wrong network card: set interface: '
                f'{natnet.other_card}', **values)
        return fail(
            'natnet-data', f'the server answers, but no frame in {natnet.listened_s:g} s',
            'is streaming (Broadcast Frame Data) on in Motive, and is it not paused? Are jumbo '
            'frames off on the network card of the Motive PC (MTU as here)?' + (
                '' if natnet.multicast is False else ' By multicast, does a firewall or switch '
                f'drop {natnet.group or "the group"}?'), **values)
    if natnet.unnamed and not natnet.bodies:
        return fail(
            'natnet-data', f'{counted(natnet.frames, "frame")}, but the names of their bodies do '
            'not arrive',
            'does the network drop large datagrams? Are jumbo frames off on the network card of '
            'the Motive PC (MTU as here)?', **values)
    if not natnet.bodies:
        return warn(
            'natnet-data', f'{counted(natnet.frames, "frame")} without a rigid body',
            'switch Rigid Bodies on in the streaming settings and create one in Motive', **values)
    found = (f'{counted(natnet.frames, "frame")} in {natnet.listened_s:g} s with '
             f'{counted(len(natnet.bodies), "body")}: {listed(natnet.bodies)}')
    if natnet.untracked:
        found += f'; not tracked: {listed(natnet.untracked)}'
    troubles = loss_findings(natnet.lost / (natnet.lost + natnet.frames), natnet.unread,
                             'or is the Motive PC too busy to send each frame?')
    found = '; '.join([found, *(one.text for one in troubles)])
    remedies = [*natnet.messages, *([_NOT_TRACKED] if natnet.untracked else ()),
                *(one.remedy for one in troubles)]
    advice = join_sentences(remedies) if remedies else ''
    if natnet.untracked == natnet.bodies and not natnet.messages:
        return fail('natnet-data', found, advice, **values)
    if advice:
        return warn('natnet-data', found, advice, **values)
    return ok('natnet-data', found, **values)


def check_natnet_clock(probed: ProbeResults) -> CheckResult:
    """Check round trips and exposure times."""
    natnet = _found(probed)
    if natnet is None or not natnet.frames:
        return skip('natnet-clock', 'no frame arrived')
    if not natnet.echoes:
        return warn(
            'natnet-clock', 'no answer to echo requests: stamps are late by the smallest delay',
            'NatNet before 3.0 has none; otherwise does a firewall drop answers of port 1510? Set '
            'stamps.latency_ms', echoes=0)
    found = (f'round trip {natnet.round_trip_ms:.3f} ms at best of {natnet.echoes}; '
             f'{natnet.processing_ms:.1f} ms from exposure to transmission')
    values = {'echoes': natnet.echoes, 'round_trip_ms': natnet.round_trip_ms,
              'processing_ms': natnet.processing_ms}
    if not natnet.processing_ms:
        return warn(
            'natnet-clock', f'{found}: the cameras send no exposure times',
            'stamps are times of transmission, late by the processing time of the cameras',
            **values)
    return ok('natnet-clock', found, **values)
