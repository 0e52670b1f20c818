# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check how programs discover the node: variables, Discovery Servers, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from optitrack_vrpn.core.checks import CheckResult, fail, joined, listed, ok, skip, warn
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.telling.doctor.results import Graph, ProbeResults


def check_reach(probed: ProbeResults) -> CheckResult:
    """Check whether other computers can discover the node."""
    graph = probed.graph
    if graph is None or not graph.nodes:
        return no_node('reach', probed)
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


def check_shell(probed: ProbeResults) -> CheckResult:
    """Check whether programs that are started as the doctor was discover the node."""
    graph = probed.graph
    if graph is None or not graph.nodes:
        return no_node('shell', probed)
    taken = {name: value for name, value in graph.variables.items()
             if value != graph.given[name]}
    if not taken:
        return ok('shell', 'programs started here discover the node')
    values = ' '.join(f'{name}={printable(value, 90)}' for name, value in taken.items())
    return warn('shell', f'the node runs with {values}, and this shell does not: programs started '
                'here do not see its topics; the doctor took it from the node',
                f'export {values}')


def check_absence(graph: Graph) -> CheckResult:
    """Check why no node was discovered; the surest cause comes first."""
    wanted = printable(graph.wanted, 90) or 'node of this package'
    reason = (f'no {wanted} was discovered within {graph.waited_s:.1f} s with ROS_DOMAIN_ID='
              f'{graph.variables["ROS_DOMAIN_ID"]}')
    cause, advice = next(_causes(graph), ('', ''))
    if cause:
        return fail('lifecycle', f'{cause}; {reason}', advice)
    foreign = sorted({process.user for process in graph.processes if process.user})
    if foreign:    # their domain is theirs: it is not named, so that nobody joins it by mistake
        reason += f'; on this computer {listed(foreign)} runs the node'
    if _limited(graph):
        reason += f'; only programs of this computer are discovered ({_limited(graph)})'
    if graph.wanted:
        return fail('lifecycle', reason,
                    'start it, or compare with ros2 node list: are ROS_DOMAIN_ID and the name, '
                    'with its namespace, the same?')
    return warn('lifecycle', reason,
                'start it: ros2 launch optitrack_vrpn optitrack_vrpn.launch.py server:=HOST. '
                'If it runs, compare ROS_DOMAIN_ID, or name it with --node /NAME. '
                '--no-ros skips these checks')


def _causes(graph: Graph) -> Iterator[tuple[str, str]]:
    """List causes with their remedies, the surest first."""
    if graph.dead_servers:
        yield (f'the Discovery Server {" and ".join(graph.dead_servers)} does not answer '
               '(ROS_DISCOVERY_SERVER): nothing listens there',
               'start it again: ros2 run optitrack_vrpn discovery_server; or unset '
               'ROS_DISCOVERY_SERVER for the node and here. Nodes that run go on, but no new '
               'program finds them')
    if graph.variables['ROS_AUTOMATIC_DISCOVERY_RANGE'] == 'OFF':
        yield ('ROS_AUTOMATIC_DISCOVERY_RANGE is OFF, so that no program is discovered',
               'unset it, for the node and here')
    if graph.others:
        yield (f'there is no {printable(graph.wanted, 90)}, but {listed(graph.others)}',
               'give --node the full name, with the namespace')
    if graph.announced:
        shared, remedy = without_shared_memory(graph.processes)
        yield (f'{listed(graph.announced)} is announced, but no data of it arrives: '
               + (shared or 'does it run as another user or in a container of this computer, or '
                  'does a firewall drop its UDP packets?'),
               remedy or 'share user and /dev/shm with it, or start both programs with '
               'FASTDDS_BUILTIN_TRANSPORTS=UDPv4')
    own = [process for process in graph.processes if not process.user]
    others = {process.pid: ' '.join(
        f'{name}={printable(value, 90)}' for name, value in (process.variables or {}).items()
        if value != graph.variables[name]) for process in own}
    elsewhere = [(pid, values) for pid, values in others.items() if values]
    if elsewhere:
        yield (joined([f'process {pid} runs the node with {values}'
                       for pid, values in elsewhere], 2),
               'set the same variables here as for your node, as in: export '
               f'{elsewhere[0][1]}')
    shared, remedy = without_shared_memory(own)
    if shared:
        yield shared, remedy
    if own:
        pids = ' '.join(str(process.pid) for process in own)
        yield (f'process {pids} runs the node but does not answer',
               'look at its log; end it and start the node again')


def _limited(graph: Graph) -> str:
    """Return the variable that limits discovery to this computer, with its value; '' for none."""
    return next((f'{name}={graph.variables[name]}' for name, value in (
        ('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST'), ('ROS_LOCALHOST_ONLY', '1'))
        if graph.variables[name] == value), '')


def no_node(check: str, probed: ProbeResults) -> CheckResult:
    """Skip a check of running nodes; the check `lifecycle` reports a missing node."""
    graph = probed.graph
    return skip(check, 'not checked (--no-ros)' if graph is None else
                f'no ROS graph: {graph.absent}' if graph.absent else 'no node to check')
