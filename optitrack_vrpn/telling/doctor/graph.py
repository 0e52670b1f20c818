# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the ROS graph: subscribers, lifecycle states, parameters."""

from __future__ import annotations

from typing import Optional

from optitrack_vrpn.core.checks import (
    CheckResult, cleaned, fail, joined, listed, ok, skip, warn)
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.table import AUTO, own_port, SOURCES, using
from optitrack_vrpn.node.graph.conflicts import qos_remedies
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.stream.bodies.settings import Selection, unmatched
from optitrack_vrpn.stream.clock.types import UNIX_EPOCH
from optitrack_vrpn.telling.conditions import USUAL_AGE_S
from optitrack_vrpn.telling.doctor.reach import check_absence, no_node
from optitrack_vrpn.telling.doctor.results import Graph, Mismatch, ProbeResults, RunningNode
from optitrack_vrpn.telling.doctor.stream import check_axes
from optitrack_vrpn.telling.rules import ONE_NAME, ONE_TOPIC, TWO_PARENTS

#: Chosen: names in one line.
_SHOWN = 4


def check_qos(probed: ProbeResults) -> CheckResult:
    """Check whether subscribers receive the published messages."""
    nodes = _nodes(probed)
    if not nodes:
        return no_node('qos', probed)
    topics = sum(node.topics for node in nodes)
    subscribers = sum(node.subscribers for node in nodes)
    if not topics:
        return skip('qos', 'the node publishes nothing yet')
    mismatches = [(node, one) for node in nodes for one in node.mismatches]
    values = {'topics': topics, 'subscriptions': subscribers, 'mismatches': len(mismatches)}
    if mismatches:
        lines = [
            f'{printable(one.node, 60)} receives nothing from {_source(one)}'
            f'{f" of {printable(node.name, 60)}" if len(nodes) > 1 else ""} '
            f'({printable(one.reason, 90)})' for node, one in mismatches]
        advice = dict.fromkeys(
            remedy for _, one in mismatches for remedy in qos_remedies(one.reason))
        return fail('qos', joined(lines), '; '.join(advice), **values)
    orphans = probed.graph.orphans if probed.graph is not None else ()
    if orphans:
        lines = [f'{" and ".join(printable(name, 60) for name in one.nodes[:_SHOWN])} receives '
                 f'nothing from {printable(one.topic, 90)}, which nobody publishes; '
                 f'{printable(one.similar, 90)} is published' for one in orphans]
        return warn(
            'qos', joined(lines), 'was the body renamed in Motive, or is it not in view yet? '
            'Subscribe to the present name, or keep the old one: bodies.NAME.name', **values,
            orphans=len(orphans))
    matching = (
        f'{counted(subscribers, "subscription")} on {counted(topics, "topic")}, all matching')
    return ok('qos', matching if subscribers else
              f'no subscription to any of {counted(topics, "topic")}', **values)


def _source(one: Mismatch) -> str:
    """Name the publishers from which a subscriber receives nothing."""
    topic = printable(one.topic, 90)
    return topic if one.refused >= one.publishers else (
        f'{one.refused} of {one.publishers} publishers of {topic}')


def check_publishers(probed: ProbeResults) -> CheckResult:
    """Check whether others publish on the nodes' topics."""
    nodes = _nodes(probed)
    if not nodes:
        return no_node('publishers', probed)
    total = sum(node.pose_topics for node in nodes)
    if not total:
        return skip('publishers', 'the node publishes no pose yet')
    shared: dict[tuple[str, ...], dict[str, None]] = {}    # nodes to the topics they share
    for node in nodes:
        for topic, others in node.conflicting.items():
            shared.setdefault(tuple(sorted({node.name, *others})), {})[topic] = None
    if not shared:
        return ok('publishers', f'no other node publishes on {counted(total, "pose topic")}',
                  shared=0)
    lines = []
    for names, topics in list(shared.items())[:_SHOWN]:
        rest = len(topics) - 1
        lines.append(
            f'{" and ".join(printable(name, 60) for name in names[:_SHOWN])} publish on '
            f'{printable(next(iter(topics)), 90)}'
            f'{f" and {rest} more of the same topics" if rest else ""}')
    number = len({topic for topics in shared.values() for topic in topics})
    return warn('publishers', '; '.join(lines), ONE_TOPIC, shared=number)


def check_published(probed: ProbeResults) -> CheckResult:
    """Check whether active nodes publish poses when the probe receives some."""
    if not _nodes(probed):
        return no_node('published', probed)
    nodes = [node for node in _nodes(probed) if node.heard is not None]
    if not nodes:
        return skip('published', 'no node is active')
    silent = [node for node in nodes if not node.heard]
    values = {'active': len(nodes), 'silent': len(silent)}
    if not silent:
        return ok('published', f'poses arrive from {listed([node.name for node in nodes])}',
                  **values)
    shown = '; '.join(
        f'{printable(node.name, 60)} is active and publishes none'
        + (f' ({printable(node.connection, 200)})' if node.connection else '')
        for node in silent[:_SHOWN])
    if not probed.received:
        return skip('published', f'no pose arrived here either; {shown}')
    advice: list[str] = []
    for node in silent:
        protocol, interface = node.settings.get('protocol'), node.settings.get('interface')
        if protocol in SOURCES and probed.by not in (protocol, *SOURCES[protocol].of):
            advice.append(f'poses arrive by {probed.received}: set protocol: '
                          f'{" or ".join(using(probed.by))}')
        if isinstance(interface, str) and interface not in ('', probed.local, probed.card):
            advice.append(f'poses arrive on {probed.card or probed.local}: set interface: '
                          f'{probed.card or probed.local}')
    return fail('published', f'poses arrive here by {probed.received}, but {shown}', '. '.join(
        dict.fromkeys(advice)) or 'read its log and /diagnostics: are its server, its interface '
        'and its selection of bodies right?', **values)


def check_lifecycle(probed: ProbeResults) -> CheckResult:
    """Check whether a node runs, and in which state."""
    graph = probed.graph
    if graph is not None and graph.broken:
        return fail('lifecycle', graph.absent,
                    'the node does not start in this environment either: correct or unset the '
                    'variable that the reason names. --no-ros skips these checks')
    if graph is None or graph.absent:
        return no_node('lifecycle', probed)
    results = [_check_node(node, graph) for node in graph.nodes] or [check_absence(graph)]
    stopped = ' '.join(str(process.pid) for process in graph.processes
                       if process.stopped and not process.user
                       and process.variables == graph.variables)
    if stopped:    # such a process disappears from the graph
        results.insert(0, fail(
            'lifecycle', f'process {stopped} runs the node and is stopped (SIGSTOP)',
            f'let it continue: kill -CONT {stopped}; or end it and start the node again.'))
    worst = max(one.severity or INFO for one in results)
    return cleaned(CheckResult(
        'lifecycle', worst, '; '.join(one.found for one in results[:_SHOWN]),
        ' '.join(dict.fromkeys(one.advice for one in results if one.advice)),
        {f'state of {node.name}': node.state for node in graph.nodes[:20]}))


def _check_node(node: RunningNode, graph: Graph) -> CheckResult:
    name = printable(node.name, 90)
    if node.count > 1:
        return warn('lifecycle', f'{node.count} nodes are called {name}',
                    f'{ONE_NAME}.')
    if not node.state:
        cause, remedy = without_shared_memory(graph.processes)
        return fail('lifecycle', f'{name} does not report its state{cause and f": {cause}"}',
                    remedy or 'it hangs or is not reachable: read its log, or start it again.')
    found = f'{name} is {printable(node.state, 30)}'
    if node.state == 'active':
        return ok('lifecycle', found)
    todo = {'unconfigured': 'ros2 lifecycle set {} configure, then activate; if that fails, its '
                            'log has the reason.',
            'inactive': 'ros2 lifecycle set {} activate; or a START of mocap control.'}
    return warn('lifecycle', f'{found}, so that it publishes no pose',
                todo.get(node.state, 'start the node again.').format(name))


def check_settings(probed: ProbeResults) -> CheckResult:
    """Check whether the nodes' parameters agree with the server."""
    if not _nodes(probed):
        return no_node('settings', probed)
    reporting = [node for node in _nodes(probed) if node.settings]
    if not reporting:
        return skip('settings', 'the node does not report its parameters')
    wrong: list[str] = []
    advice: list[str] = []
    excluded: list[str] = []
    lifted = _lifted(probed)
    for node in reporting:
        server, port = node.settings.get('server'), node.settings.get('port')
        # A protocol with a port of its own does not use this one.
        same_port = port == probed.port or own_port(node.settings.get('protocol'))
        if not same_port and _same_server(probed, server) and probed.taken_from not in (
                '', node.name):
            excluded.append(f'{node.name} uses port {port}, which is not checked here: --node '
                            f'{node.name}')
        elif not _same_server(probed, server) or not same_port:
            wrong.append(f'{node.name} uses {server} port {port}, not {probed.server} port '
                         f'{probed.port}')
            advice.append('set server and port of the node, or check that server.')
        else:
            _check_selection(probed, node, wrong, advice, excluded)
        up_axis = node.settings.get('up_axis')
        _check_up(probed.stated_up, node, wrong, advice)
        _check_sender_stamps(probed, node, wrong, advice)
        if lifted is not None and up_axis is not None and up_axis != lifted:
            wrong.append(f'{node.name} has up_axis: {up_axis}, but {lifted} is up')
            advice.append(f'set up_axis: {lifted}.')
    if wrong:
        return warn('settings', joined(wrong), ' '.join(dict.fromkeys(advice)))
    # Only a lift shows which axis is up.
    compared = 'server and port' if lifted is None else 'server, port and up_axis'
    agree = f'{compared} of {listed([node.name for node in reporting])} agree'
    return ok('settings', joined([agree, *excluded]))


def _check_up(stated: str, node: RunningNode, wrong: list[str], advice: list[str]) -> None:
    """Compare the up axis that the server states with that of a node."""
    up_axis, raw = node.settings.get('up_axis'), node.settings.get('axes') == 'raw'
    if raw and stated == 'y':
        wrong.append(f'Motive streams y up and {node.name} has axes: raw, so that readers that '
                     'take z for up, as in ROS, get wrong poses')
        advice.append("set Up Axis in Motive's streaming settings to Z, or axes: enu; nothing, if "
                      'your readers expect y up.')
    elif not raw and stated in ('y', 'z') and up_axis in ('y', 'z') and stated != up_axis:
        wrong.append(f'Motive states that {stated} is up, but {node.name} has up_axis: {up_axis}: '
                     'every pose is rotated by 90 degrees')
        advice.append(f'set up_axis: {stated}.')


def _check_sender_stamps(
    probed: ProbeResults, node: RunningNode, wrong: list[str], advice: list[str],
) -> None:
    """Compare the sender's clock with that of this computer where its times are published."""
    stream = probed.established
    if node.settings.get('stamps.mode') != 'sender' or stream is None or stream.clock is None or (
            not stream.clock.samples):
        return
    if stream.clock.sender_base != UNIX_EPOCH:
        found = "count from the sender's start, so that stamps are in 1970"
    elif stream.ahead_s > 0.0:
        found = f'are {stream.ahead_s:.3f} s in the future'
    elif stream.ahead_s < -USUAL_AGE_S:
        found = f'are {-stream.ahead_s:.3f} s old when they arrive'
    else:
        return
    wrong.append(f"{node.name} publishes the sender's times (stamps.mode: sender), which {found}")
    advice.append('set stamps.mode: tracking; or set the clocks of both computers by NTP or PTP.')


def check_frames(probed: ProbeResults) -> CheckResult:
    """Check whether a TF frame has two parents."""
    if not _nodes(probed):
        return no_node('frames', probed)
    parents = probed.graph.parents if probed.graph is not None else {}
    if not parents:
        return ok('frames', 'no frame of TF has two parents')
    own = {str(node.settings.get('frames.world')): node.name for node in _nodes(probed)}

    def named(parent: str) -> str:
        return repr(printable(parent, 60)) + (f' (of {own[parent]})' if parent in own else '')
    lines = [f'frame {printable(frame, 60)!r} has two parents: '
             f'{" and ".join(map(named, found[:_SHOWN]))}' for frame, found in parents.items()]
    return warn('frames', joined(lines), TWO_PARENTS.remedy, frames=len(parents))


def _check_selection(
    probed: ProbeResults, node: RunningNode, wrong: list[str], advice: list[str],
    excluded: list[str],
) -> None:
    """
    Find received bodies that the node ignores, and settings that match no body.

    :param excluded: receives the ignored bodies; that is wrong only if no other body is received.
    """
    stream = probed.established
    received = [body.name for body in stream.bodies] if stream is not None else []
    if not received:
        return
    allow, deny = _patterns(node, 'bodies.allow'), _patterns(node, 'bodies.deny')
    selection = Selection(() if '*' in allow else allow, deny)
    unwanted = [name for name in received if not selection.wanted(name)]
    denied = [name for name in unwanted if not Selection(deny=deny).wanted(name)]
    none_left = len(unwanted) == len(received)
    for where, names, cure in (
            ('deny', denied, 'remove wanted bodies from bodies.deny.'),
            ('allow', [name for name in unwanted if name not in denied],
             'add wanted bodies to bodies.allow.')):
        if names:
            (wrong if none_left else excluded).append(
                f'{listed(names)} {"is" if len(names) == 1 else "are"} excluded by '
                f'bodies.{where} of {node.name}')
            if none_left:
                advice.append(cure)
    lines = unmatched(selection, node.bodies, received)
    if lines:
        wrong += lines
        advice.append('write each name as in Motive; or is its body out of view?')


def _patterns(node: RunningNode, name: str) -> tuple[str, ...]:
    """Return the patterns of a list; a node of another package can have any type there."""
    value = node.settings.get(name)
    return tuple(one for one in value if isinstance(one, str) and one) if isinstance(
        value, (list, tuple)) else ()


def _same_server(probed: ProbeResults, server: object) -> bool:
    if server in (AUTO, probed.server, *probed.addresses):
        return True    # with auto, the node searches for the server
    return probed.place.address.startswith('127.') and str(server) == 'localhost'


def _lifted(probed: ProbeResults) -> Optional[str]:
    axis = check_axes(probed).values.get('up_axis')
    return str(axis) if axis is not None else None


def _nodes(probed: ProbeResults) -> tuple[RunningNode, ...]:
    return probed.graph.nodes if probed.graph is not None else ()
