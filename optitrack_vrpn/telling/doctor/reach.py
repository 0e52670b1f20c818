# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor finds about discovery: variables, Discovery Servers, shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from optitrack_vrpn.core.checks import joined, listed
from optitrack_vrpn.core.findings import Case, case, rows_of, Rule
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.node.graph.processes import LocalProcess, without_shared_memory
from optitrack_vrpn.telling.doctor.graph import on_graph
from optitrack_vrpn.telling.doctor.results import Graph
from optitrack_vrpn.telling.doctor.rules import Condition, DoctorRule, skip

#: Variables that limit discovery to this computer, with the values that do.
_LIMITS = {'ROS_AUTOMATIC_DISCOVERY_RANGE': ('LOCALHOST', 'OFF'), 'ROS_LOCALHOST_ONLY': ('1',)}


def _limits(graph: Graph) -> dict[str, str]:
    """Return the variables that limit discovery to this computer."""
    return {name: graph.variables[name] for name, values in _LIMITS.items()
            if graph.variables[name] in values}


def _written(variables: dict[str, str], between: str = ' ') -> str:
    return between.join(f'{name}={printable(value, 90)}' for name, value in variables.items())


def _own(graph: Graph) -> list[LocalProcess]:
    """Return the processes of this user that run the node."""
    return [process for process in graph.processes if not process.user]


def _elsewhere(graph: Graph) -> Iterator[Case]:
    """Find processes of this user with other variables."""
    others = {process.pid: _written({
        name: value for name, value in (process.variables or {}).items()
        if value != graph.variables[name]}) for process in _own(graph)}
    found = {pid: values for pid, values in others.items() if values}
    if found:
        yield Case((), {'first': next(iter(found.values())), 'processes': joined([
            f'process {pid} runs the node with {values}' for pid, values in found.items()], 2)})


def _taken(graph: Graph) -> dict[str, str]:
    """Return the variables of the node that the user's shell has not."""
    return {name: value for name, value in graph.variables.items()
            if value != graph.given[name]}


def _of_graph(when: Callable[[Graph], Iterable[Case]]) -> Condition:
    """Make the condition of a graph; without one it is not met."""
    return lambda probed: when(probed.graph) if probed.graph is not None else ()


def _absent(when: Callable[[Graph], Iterable[Case]]) -> Condition:
    """Make the condition of a graph without a node to check."""
    return _of_graph(lambda graph: when(graph) if not graph.nodes else ())


def _apart(graph: Graph, announced: bool) -> Iterator[Case]:
    """Find that nodes of this computer share no memory; ``announced``: a node is known so far."""
    cause, remedy = without_shared_memory(graph.processes if announced else _own(graph))
    if cause and bool(graph.announced) is announced:
        yield Case((), {
            'nodes': listed(graph.announced), 'cause': cause, 'remedy': remedy})


_WANTED = 'no {wanted} was discovered within {waited:.1f} s with ROS_DOMAIN_ID={domain}'


def _missing(graph: Graph, met: bool) -> tuple[Case, ...]:
    return case(met, wanted=printable(graph.wanted, 90) or 'node of this package',
                waited=graph.waited_s, domain=graph.variables['ROS_DOMAIN_ID'])


def _foreign(graph: Graph) -> tuple[Case, ...]:
    # Their domain is theirs: it is not named, so that nobody joins it by mistake.
    users = sorted({process.user for process in graph.processes if process.user})
    return case(users, users=listed(users))


#: The surest cause comes first, and explains those after it.
_CAUSES = ('announced apart', 'announced', 'elsewhere', 'own apart', 'no answer', 'no such node',
           'no node', 'foreign', 'limited')
_ABSENCE: Final[tuple[DoctorRule, ...]] = (
    Rule('dead server', ERROR, _absent(lambda graph: case(
        graph.dead_servers, servers=' and '.join(graph.dead_servers))),
         'the Discovery Server {servers} does not answer (ROS_DISCOVERY_SERVER): nothing listens '
         'there', 'start it again: ros2 run optitrack_vrpn discovery_server; or unset '
         'ROS_DISCOVERY_SERVER for the node and here. Nodes that run go on, but no new program '
         'finds them', explains=('discovery off', 'other name', *_CAUSES)),
    Rule('discovery off', ERROR, _absent(lambda graph: case(
        graph.variables['ROS_AUTOMATIC_DISCOVERY_RANGE'] == 'OFF')),
         'ROS_AUTOMATIC_DISCOVERY_RANGE is OFF, so that no program is discovered',
         'unset it, for the node and here', explains=('other name', *_CAUSES)),
    Rule('other name', ERROR, _absent(lambda graph: case(
        graph.others, wanted=printable(graph.wanted, 90), others=listed(graph.others))),
         'there is no {wanted}, but {others}', 'give --node the full name, with the namespace',
         explains=_CAUSES),
    Rule('announced apart', ERROR, _absent(lambda graph: _apart(graph, True)),
         '{nodes} is announced, but no data of it arrives: {cause}', '{remedy}',
         explains=_CAUSES),
    Rule('announced', ERROR, _absent(lambda graph: case(
        graph.announced, nodes=listed(graph.announced))),
         '{nodes} is announced, but no data of it arrives: does it run as another user or in a '
         'container of this computer, or does a firewall drop its UDP packets?',
         'share user and /dev/shm with it, or start both programs with '
         'FASTDDS_BUILTIN_TRANSPORTS=UDPv4', explains=_CAUSES),
    Rule('elsewhere', ERROR, _absent(_elsewhere), '{processes}',
         'set the same variables here as for your node, as in: export {first}',
         explains=_CAUSES),
    Rule('own apart', ERROR, _absent(lambda graph: _apart(graph, False)), '{cause}', '{remedy}',
         explains=_CAUSES),
    Rule('no answer', ERROR, _absent(lambda graph: case(
        _own(graph), pids=' '.join(str(process.pid) for process in _own(graph)))),
         'process {pids} runs the node but does not answer',
         'look at its log; end it and start the node again', explains=_CAUSES),
    Rule('no such node', ERROR, _absent(lambda graph: _missing(graph, bool(graph.wanted))),
         _WANTED, 'start it, or compare with ros2 node list: are ROS_DOMAIN_ID and the name, with '
         'its namespace, the same?', explains=('discovered',)),
    Rule('no node', WARN, _absent(lambda graph: _missing(graph, not graph.wanted)), _WANTED,
         'start it: ros2 launch optitrack_vrpn optitrack_vrpn.launch.py server:=HOST. If it runs, '
         'compare ROS_DOMAIN_ID, or name it with --node /NAME. --no-ros skips these checks',
         explains=('discovered',)),
    Rule('discovered', INFO, _absent(lambda graph: _missing(graph, True)), _WANTED, ''),
    Rule('foreign', INFO, _absent(_foreign), 'on this computer {users} runs the node', ''),
    Rule('limited', INFO, _absent(lambda graph: case(
        _limits(graph), limits=_written(_limits(graph), ', '))),
         'only programs of this computer are discovered ({limits})', ''))
#: All rows of this file.
REACH_RULES: Final[tuple[DoctorRule, ...]] = (
    *rows_of('lifecycle', *_ABSENCE),
    *on_graph(
        'shell', Rule('other variables', WARN, _of_graph(lambda graph: case(
            _taken(graph), values=_written(_taken(graph)))),
             'the node runs with {values}, and this shell does not: programs started here do not '
             'see its topics; the doctor took it from the node', 'export {values}'),
        Rule('same variables', INFO, lambda probed: case(True),
             'programs started here discover the node', ''), decide=True),
    *on_graph(
        'reach', skip(_of_graph(lambda graph: case(not any(
            process.variables == graph.variables for process in _own(graph)))),
                      'no node of this user runs on this computer in this domain'),
        Rule('reachable', INFO, _of_graph(lambda graph: case(
            not _limits(graph), domain=graph.variables['ROS_DOMAIN_ID'])),
             'other computers can discover the node in ROS domain {domain}', ''),
        Rule('limited as here', INFO, _of_graph(lambda graph: case(
            graph.given == graph.variables, limits=_written(_limits(graph), ' and '))),
             'no other computer discovers the node: it runs with {limits}, as here', ''),
        Rule('limited there', WARN, _of_graph(lambda graph: case(
            True, limits=_written(_limits(graph), ' and '), names=' and '.join(_limits(graph)))),
             'no other computer discovers the node: it runs with {limits}',
             'if programs on other computers need the poses, start the node without {names}'),
        decide=True))
