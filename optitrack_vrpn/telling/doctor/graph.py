# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the ROS graph: subscribers, lifecycle states, parameters."""

from __future__ import annotations

from typing import Optional

from optitrack_vrpn.core.checks import (
    CheckResult, cleaned, fail, joined, Level, listed, ok, skip, warn)
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.drivers.table import AUTO, own_port, SOURCES, using
from optitrack_vrpn.node.graph.conflicts import LINGERS, ONE_NAME, ONE_TOPIC, qos_remedies
from optitrack_vrpn.stream.bodies.settings import Selection, unmatched
from optitrack_vrpn.telling.doctor.results import Graph, Mismatch, ProbeResults, RunningNode
from optitrack_vrpn.telling.doctor.stream import check_axes

#: Chosen: names in one line.
_SHOWN = 4


def check_qos(probed: ProbeResults) -> CheckResult:
    """Check whether subscribers receive the published messages."""
    nodes = _nodes(probed)
    if not nodes:
        return _no_node('qos', probed)
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
        return _no_node('publishers', probed)
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
    return warn('publishers', '; '.join(lines), f'{ONE_TOPIC}; {LINGERS}', shared=number)


def check_published(probed: ProbeResults) -> CheckResult:
    """Check whether active nodes publish poses when the probe receives some."""
    if not _nodes(probed):
        return _no_node('published', probed)
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


def check_reach(probed: ProbeResults) -> CheckResult:
    """Check whether other computers can discover the node."""
    graph = probed.graph
    if graph is None or not graph.nodes:
        return _no_node('reach', probed)
    own = [one for one in graph.processes if not one.user and one.variables == graph.variables]
    if not own:
        return skip('reach', 'no node of this user runs on this computer in this domain')
    limits = [f'{name}={graph.variables[name]}' for name, values in (
        ('ROS_AUTOMATIC_DISCOVERY_RANGE', ('LOCALHOST', 'OFF')), ('ROS_LOCALHOST_ONLY', ('1',)))
        if graph.variables[name] in values]
    if not limits:
        return ok('reach', f'other computers can discover the node in ROS domain '
                  f'{graph.variables["ROS_DOMAIN_ID"]}')
    found = f'no other computer discovers the node: it runs with {" and ".join(limits)}'
    if graph.given == graph.variables:    # the user has set it here too
        return ok('reach', f'{found}, as here')
    return warn('reach', found, 'if programs on other computers need the poses, start the node '
                f'without {" and ".join(limit.partition("=")[0] for limit in limits)}')


def check_lifecycle(probed: ProbeResults) -> CheckResult:
    """Check whether a node runs, and in which state."""
    graph = probed.graph
    if graph is not None and graph.broken:
        return fail('lifecycle', graph.absent,
                    'the node does not start in this environment either: correct or unset the '
                    'variable that the reason names. --no-ros skips these checks')
    if graph is None or graph.absent:
        return _no_node('lifecycle', probed)
    results = [_check_node(node) for node in graph.nodes] or [_check_absence(graph)]
    stopped = ' '.join(str(process.pid) for process in graph.processes
                       if process.stopped and not process.user
                       and process.variables == graph.variables)
    if stopped:    # such a process disappears from the graph
        results.insert(0, fail(
            'lifecycle', f'process {stopped} runs the node and is stopped (SIGSTOP)',
            f'let it continue: kill -CONT {stopped}; or end it and start the node again.'))
    worst = next(level for level in (Level.FAIL, Level.WARN, Level.OK)
                 if any(one.level is level for one in results))
    return cleaned(CheckResult(
        'lifecycle', worst, '; '.join(one.found for one in results[:_SHOWN]),
        ' '.join(dict.fromkeys(one.advice for one in results if one.advice)),
        {f'state of {node.name}': node.state for node in graph.nodes[:20]}))


def _check_absence(graph: Graph) -> CheckResult:
    """Check why no node was discovered."""
    reason = (f'no {printable(graph.wanted, 90) or "node of this package"} was discovered within '
              f'{graph.waited_s:.1f} s with ROS_DOMAIN_ID={graph.variables["ROS_DOMAIN_ID"]}')
    if graph.others:
        return fail('lifecycle', f'{reason}; of this package: {listed(graph.others)}',
                    'give --node the full name, with the namespace')
    own = [process for process in graph.processes if not process.user]
    others = {process.pid: ' '.join(
        f'{name}={printable(value, 90)}' for name, value in (process.variables or {}).items()
        if value != graph.variables[name]) for process in own}
    elsewhere = [(pid, values) for pid, values in others.items() if values]
    if elsewhere:
        found = joined([f'process {pid} runs the node with {values}'
                        for pid, values in elsewhere], 2)
        return fail('lifecycle', f'{reason}; {found}', 'set the same variables here as for your '
                    f'node, as in: export {elsewhere[0][1]}')
    if own:
        pids = ' '.join(str(process.pid) for process in own)
        return fail('lifecycle', f'{reason}; process {pids} runs the node but does not answer',
                    'look at its log; end it and start the node again')
    foreign = sorted({process.user for process in graph.processes if process.user})
    if foreign:    # their domain is theirs: it is not named, so that nobody joins it by mistake
        reason += f'; on this computer {listed(foreign)} runs the node'
    if graph.wanted:
        return fail('lifecycle', reason,
                    'start it, or compare with ros2 node list: are ROS_DOMAIN_ID and the name, '
                    'with its namespace, the same?')
    return warn('lifecycle', reason,
                'start it: ros2 launch optitrack_vrpn optitrack_vrpn.launch.py server:=HOST. '
                'If it runs, compare ROS_DOMAIN_ID, or name it with --node /NAME. '
                '--no-ros skips these checks')


def _check_node(node: RunningNode) -> CheckResult:
    name = printable(node.name, 90)
    if node.count > 1:
        return warn('lifecycle', f'{node.count} nodes are called {name}',
                    f'{ONE_NAME}; {LINGERS}.')
    if not node.state:
        return fail('lifecycle', f'{name} does not report its state',
                    'it hangs or is not reachable: read its log, or start it again.')
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
        return _no_node('settings', probed)
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
        if not _same_server(probed, server) or not same_port:
            wrong.append(f'{node.name} uses {server} port {port}, not {probed.server} port '
                         f'{probed.port}')
            advice.append('set server and port of the node, or check that server.')
        else:
            _check_selection(probed, node, wrong, advice, excluded)
        up_axis = node.settings.get('up_axis')
        if lifted is not None and up_axis is not None and up_axis != lifted:
            wrong.append(f'{node.name} has up_axis: {up_axis}, but {lifted} is up')
            advice.append(f'set up_axis: {lifted}.')
    if wrong:
        return warn('settings', joined(wrong), ' '.join(dict.fromkeys(advice)))
    # Only a lift shows which axis is up.
    compared = 'server and port' if lifted is None else 'server, port and up_axis'
    agree = f'{compared} of {listed([node.name for node in reporting])} agree'
    return ok('settings', joined([agree, *excluded]))


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


def _no_node(check: str, probed: ProbeResults) -> CheckResult:
    """Skip a check of running nodes; the check `lifecycle` reports a missing node."""
    graph = probed.graph
    return skip(check, 'not checked (--no-ros)' if graph is None else
                f'no ROS graph: {graph.absent}' if graph.absent else 'no node to check')
