# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor finds in the ROS graph: subscribers, publishers, states, parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
import math
from typing import Final

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.findings import Case, case, rows_of, Rule
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.table import AUTO, own_port, SOURCES, using
from optitrack_vrpn.node.graph.conflicts import qos_remedies
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.stream.bodies.settings import Selection, unmatched
from optitrack_vrpn.telling.conditions import axis_remedy, contradicts
from optitrack_vrpn.telling.doctor.results import ProbeResults, RunningNode
from optitrack_vrpn.telling.doctor.rules import Condition, DoctorRule, skip
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.rules import BY_CODE, ONE_TOPIC, TWO_PARENTS

#: Chosen: names in one line.
_SHOWN = 4
_SAME_NAME = BY_CODE['same name']

_OfNode = Callable[[ProbeResults, RunningNode], object]


def on_graph(check: str, *rules: DoctorRule, decide: bool = False) -> tuple[DoctorRule, ...]:
    """Return the rows of a check that needs running nodes."""
    return rows_of(
        check, *NO_ROS, skip(lambda probed: case(not probed.nodes), 'no node to check'),
        *rules, decide=decide)


#: Reasons for the lack of a graph.
NO_ROS: Final = (
    skip(lambda probed: case(probed.graph is None), 'not checked (--no-ros)'),
    skip(lambda probed: case(
        probed.graph is not None and probed.graph.absent,
        why=probed.graph.absent if probed.graph is not None else ''), 'no ROS graph: {why}'))


def _each(
    met: _OfNode, figures: Callable[[ProbeResults, RunningNode], dict[str, object]] = (
        lambda probed, node: {}),
) -> Condition:
    """Make the condition of single nodes."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        for node in probed.nodes:
            if met(probed, node):
                name = printable(node.name, 90)
                yield Case((), {'subject': name, 'node': name, **figures(probed, node)})
    return when


# -- topics ---------------------------------------------------------------------------------------
def _mismatches(probed: ProbeResults) -> Iterator[Case]:
    for node in probed.nodes:
        of_node = f' of {printable(node.name, 60)}' if len(probed.nodes) > 1 else ''
        for one in node.mismatches:
            part = '' if one.refused >= one.publishers else (
                f'{one.refused} of {one.publishers} publishers of ')
            yield Case((), {
                'subject': f'{node.name} {one.topic} {one.node}',
                'subscriber': printable(one.node, 60), 'reason': printable(one.reason, 90),
                'source': f'{part}{printable(one.topic, 90)}{of_node}',
                'remedies': '; '.join(qos_remedies(one.reason))})


def _orphans(probed: ProbeResults) -> Iterator[Case]:
    for one in probed.graph.orphans if probed.graph is not None else ():
        yield Case((), {
            'subject': one.topic, 'topic': printable(one.topic, 90),
            'nodes': ' and '.join(printable(name, 60) for name in one.nodes[:_SHOWN]),
            'similar': printable(one.similar, 90)})


def _subscriptions(probed: ProbeResults) -> tuple[Case, ...]:
    count = sum(node.subscribers for node in probed.nodes)
    return case(
        not any(node.mismatches for node in probed.nodes),
        what=counted(count, 'subscription') + ' on' if count else 'no subscription to any of',
        topics=counted(sum(node.topics for node in probed.nodes), 'topic'),
        so=', all matching' if count else '')


def _shared_topics(probed: ProbeResults) -> Iterator[Case]:
    """Find groups of nodes that publish on the same topics."""
    shared: dict[tuple[str, ...], dict[str, None]] = {}    # nodes to the topics they share
    for node in probed.nodes:
        for topic, others in node.conflicting.items():
            shared.setdefault(tuple(sorted({node.name, *others})), {})[topic] = None
    for names, topics in shared.items():
        rest = len(topics) - 1
        yield Case((), {
            'subject': ' '.join(names), 'topic': printable(next(iter(topics)), 90),
            'nodes': ' and '.join(printable(name, 60) for name in names[:_SHOWN]),
            'rest': f' and {rest} more of the same topics' if rest else ''})


def _two_parents(probed: ProbeResults) -> Iterator[Case]:
    own = {str(node.settings.get('frames.world')): node.name for node in probed.nodes}
    for frame, parents in (probed.graph.parents if probed.graph is not None else {}).items():
        yield Case((), {
            'subject': frame, 'frame': listed([frame], longest=60),
            'parents': ' and '.join(
                repr(printable(parent, 60)) + (f' (of {own[parent]})' if parent in own else '')
                for parent in parents[:_SHOWN])})


# -- poses ----------------------------------------------------------------------------------------
def _mute(probed: ProbeResults, node: RunningNode) -> bool:
    """Return whether an active node publishes none of the poses that arrive here."""
    return node.heard == 0 and bool(probed.received)


def _publishes_none(node: RunningNode) -> str:
    return f'{printable(node.name, 60)} is active and publishes none' + (
        f' ({printable(node.connection, 200)})' if node.connection else '')


def _silent(met: _OfNode) -> Condition:
    """Make the condition of nodes that publish none of the poses that arrive here."""
    return _each(lambda probed, node: _mute(probed, node) and met(probed, node),
                 lambda probed, node: {
                     'by': probed.received, 'what': _publishes_none(node),
                     'protocols': ' or '.join(using(probed.by)),
                     'card': probed.card or probed.local})


def _other_protocol(probed: ProbeResults, node: RunningNode) -> bool:
    protocol = node.settings.get('protocol')
    return protocol in SOURCES and probed.by not in (protocol, *SOURCES[str(protocol)].of)


def _other_card(probed: ProbeResults, node: RunningNode) -> bool:
    card = node.settings.get('interface')
    return isinstance(card, str) and card not in ('', probed.local, probed.card)


_NO_POSE = 'poses arrive here by {by}, but {what}'


# -- nodes and their states -----------------------------------------------------------------------
def _twins(probed: ProbeResults, node: RunningNode) -> bool:
    return node.count > 1


def _others(probed: ProbeResults, node: RunningNode) -> dict[str, object]:
    return {'others': (
        'another node is' if node.count == 2 else f'{node.count - 1} other nodes are')}


def _in_state(*states: str, but: Sequence[str] = ()) -> Condition:
    """Make the condition of nodes in states, or in others than these."""
    return _each(lambda probed, node: node.count == 1 and node.state and (
        node.state in states if states else node.state not in but),
                 lambda probed, node: {'state': printable(node.state, 30)})


def _hangs(*, apart: bool) -> Condition:
    """Make the condition of nodes that do not answer, with or without a known cause."""
    def why(probed: ProbeResults) -> tuple[str, str]:
        return without_shared_memory(probed.graph.processes if probed.graph is not None else ())
    return _each(
        lambda probed, node: node.count == 1 and not node.state
        and bool(why(probed)[0]) is apart,
        lambda probed, node: dict(zip(('cause', 'remedy'), why(probed))))


def _stopped(probed: ProbeResults) -> tuple[Case, ...]:
    """Find stopped processes: such a one disappears from the graph."""
    graph = probed.graph
    pids = ' '.join(str(process.pid) for process in graph.processes if (
        process.stopped and not process.user and process.variables == graph.variables)) if (
        graph is not None) else ''
    return case(pids, pids=pids)


# -- parameters -----------------------------------------------------------------------------------
def _same_port(probed: ProbeResults, node: RunningNode) -> bool:
    # A protocol with a port of its own does not use this one.
    return bool(node.settings.get('port') == probed.port or own_port(
        node.settings.get('protocol')))


def _same_server(probed: ProbeResults, node: RunningNode) -> bool:
    server = node.settings.get('server')
    return server in (AUTO, probed.server, *probed.addresses) or (    # auto: it searches
        probed.place.local_host and server == 'localhost')


def _unchecked_port(probed: ProbeResults, node: RunningNode) -> bool:
    """Return whether it uses another port of the server, beside the node that is checked."""
    return not _same_port(probed, node) and _same_server(probed, node) and (
        probed.taken_from not in ('', node.name))


def _reporting(met: _OfNode, *figures: str) -> Condition:
    """Make the condition of nodes that report their parameters, which are its figures."""
    return _each(lambda probed, node: node.settings and met(probed, node), lambda probed, node: {
        **{name: node.settings.get(name) for name in figures}, 'wanted': probed.server,
        'wanted_port': probed.port, 'stated': probed.stated_up, 'lifted': probed.lifted_up,
        'axis_remedy': axis_remedy(probed.stated_up, node.settings.get('up_axis'))})


def _patterns(node: RunningNode, name: str) -> tuple[str, ...]:
    """Return the patterns of a list; a node of another package can have any type there."""
    value = node.settings.get(name)
    return tuple(one for one in value if isinstance(one, str) and one) if isinstance(
        value, (list, tuple)) else ()


def _selections(probed: ProbeResults) -> Iterator[tuple[RunningNode, Selection, list[str]]]:
    """List the nodes of this server with their selection and the bodies that were received."""
    received = [body.name for body in probed.seen.bodies]
    for node in probed.nodes:
        if received and node.settings and _same_server(probed, node) and _same_port(probed, node):
            allow = _patterns(node, 'bodies.allow')
            yield node, Selection(
                () if '*' in allow else allow, _patterns(node, 'bodies.deny')), received


def _not_selected(*, all_of_them: bool) -> Condition:
    """Find received bodies that a node ignores; that is wrong only if no other is received."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        for node, selection, received in _selections(probed):
            names = [name for name in received if not selection.wanted(name)]
            if names and (len(names) == len(received)) is all_of_them:
                yield Case(tuple(names), {
                    'subject': node.name, 'node': node.name, 'count': len(names)})
    return when


def _unmatched(probed: ProbeResults) -> Iterator[Case]:
    for node, selection, received in _selections(probed):
        for line in unmatched(selection, node.bodies, received):
            yield Case((), {'subject': line, 'what': line})


def _of_sender(rule: Rule[StreamFacts]) -> DoctorRule:
    """Return a row about the sender's clock for the nodes that publish its times."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        clock, stream = probed.seen.clock, probed.seen
        for node in probed.nodes if clock is not None and clock.samples else ():
            if clock is not None and node.settings.get('stamps.mode') == 'sender':
                limit_s = node.settings.get('stamps.max_age_s')
                yield from rule.when(StreamFacts(
                    clock=replace(clock, sender_age_s=-stream.ahead_s),
                    max_age_s=limit_s if isinstance(limit_s, float) else math.inf))
    return replace(rule.by(when), explains=('agree',))


def _agreeing(probed: ProbeResults) -> tuple[Case, ...]:
    names = [node.name for node in probed.nodes if node.settings]
    # Only a lift shows which axis is up.
    return case(names, nodes=listed(names), what=(
        'server, port and up_axis' if probed.lifted_up else 'server and port'))


# -- rows -----------------------------------------------------------------------------------------
GRAPH_RULES: Final[tuple[DoctorRule, ...]] = (
    *on_graph(
        'qos', skip(lambda probed: case(not any(node.topics for node in probed.nodes)),
                    'the node publishes nothing yet'),
        Rule('mismatch', ERROR, _mismatches, '{subscriber} receives nothing from {source} '
             '({reason})', '{remedies}', explains=('orphan',)),
        Rule('orphan', WARN, _orphans, '{nodes} receives nothing from {topic}, which nobody '
             'publishes; {similar} is published',
             'was the body renamed in Motive, or is it not in view yet? Subscribe to the present '
             'name, or keep the old one: bodies.NAME.name', explains=('subscriptions',)),
        Rule('subscriptions', INFO, _subscriptions, '{what} {topics}{so}', '')),
    *on_graph(
        'publishers', skip(lambda probed: case(not any(
            node.pose_topics for node in probed.nodes)), 'the node publishes no pose yet'),
        replace(_SAME_NAME.by(_each(
            lambda probed, node: node.count > 1 and node.pose_topics, _others)),
            explains=('one publisher',)),
        Rule('shared topics', WARN, _shared_topics, '{nodes} publish on {topic}{rest}', ONE_TOPIC,
             explains=('one publisher',)),
        Rule('one publisher', INFO, lambda probed: case(True, topics=counted(
            sum(node.pose_topics for node in probed.nodes), 'pose topic')),
             'no other node publishes on {topics}', '')),
    *on_graph(
        'frames', TWO_PARENTS.by(_two_parents),
        Rule('one parent', INFO, lambda probed: case(not (
            probed.graph and probed.graph.parents)), 'no frame of TF has two parents', '')),
    *on_graph(
        'published', skip(lambda probed: case(all(
            node.heard is None for node in probed.nodes)), 'no node is active'),
        skip(lambda probed: case(
            not probed.received and any(node.heard == 0 for node in probed.nodes),
            what='; '.join([_publishes_none(node) for node in probed.nodes
                            if node.heard == 0][:_SHOWN])),
             'no pose arrived here either; {what}'),
        Rule('other protocol', ERROR, _silent(_other_protocol), _NO_POSE,
             'poses arrive by {by}: set protocol: {protocols}', explains=('poses',)),
        Rule('other card', ERROR, _silent(lambda probed, node: not _other_protocol(
            probed, node) and _other_card(probed, node)), _NO_POSE,
             'poses arrive on {card}: set interface: {card}', explains=('poses',)),
        Rule('publishes none', ERROR, _silent(lambda probed, node: not _other_protocol(
            probed, node) and not _other_card(probed, node)), _NO_POSE,
             'read its log and /diagnostics: are its server, its interface and its selection of '
             'bodies right?', explains=('poses',)),
        Rule('poses', INFO, lambda probed: case(True, nodes=listed([
            node.name for node in probed.nodes if node.heard])), 'poses arrive from {nodes}', '')),
    *rows_of(
        'lifecycle', Rule(
            'ROS broken', ERROR, lambda probed: case(
                probed.graph is not None and probed.graph.broken,
                why=probed.graph.absent if probed.graph is not None else ''), '{why}',
            'the node does not start in this environment either: correct or unset the variable '
            'that the reason names. --no-ros skips these checks', explains=('lifecycle',)),
        *NO_ROS,
        Rule('stopped', ERROR, _stopped, 'process {pids} runs the node and is stopped (SIGSTOP)',
             'let it continue: kill -CONT {pids}; or end it and start the node again.'),
        _SAME_NAME.by(_each(_twins, _others)),
        Rule('apart', ERROR, _hangs(apart=True), '{node} does not report its state: {cause}',
             '{remedy}'),
        Rule('hangs', ERROR, _hangs(apart=False), '{node} does not report its state',
             'it hangs or is not reachable: read its log, or start it again.'),
        Rule('unconfigured', WARN, _in_state('unconfigured'),
             '{node} is {state}, so that it publishes no pose',
             'ros2 lifecycle set {node} configure, then activate; if that fails, its log has the '
             'reason.'),
        Rule('inactive', WARN, _in_state('inactive'),
             '{node} is {state}, so that it publishes no pose',
             'ros2 lifecycle set {node} activate; or a START of mocap control.'),
        Rule('not running', WARN, _in_state(but=('unconfigured', 'inactive', 'active')),
             '{node} is {state}, so that it publishes no pose', 'start the node again.'),
        Rule('active', INFO, _in_state('active'), '{node} is {state}', '')),
    *on_graph(
        'settings', skip(lambda probed: case(not any(node.settings for node in probed.nodes)),
                         'the node does not report its parameters'),
        Rule('other server', WARN, _reporting(lambda probed, node: not (
            _same_server(probed, node) and _same_port(probed, node))
            and not _unchecked_port(probed, node), 'server', 'port'),
             '{node} uses {server} port {port}, not {wanted} port {wanted_port}',
             'set server and port of the node, or check that server.', explains=('agree',)),
        replace(BY_CODE['not selected'].by(_not_selected(all_of_them=True)),
                explains=('agree',)),
        replace(BY_CODE['unmatched'].by(_unmatched), explains=('agree',)),
        replace(BY_CODE['y up'].by(_reporting(
            lambda probed, node: node.settings.get('axes') == 'raw'
            and probed.stated_up == 'y')), explains=('agree',)),
        replace(BY_CODE['wrong up axis'].by(_reporting(
            lambda probed, node: node.settings.get('axes') != 'raw'
            and contradicts(probed.stated_up, node.settings.get('up_axis')), 'up_axis')),
            explains=('agree',)),
        *(_of_sender(BY_CODE[code]) for code in (
            "sender's clock", "sender's clock, nothing published")),
        Rule('lifted axis', WARN, _reporting(
            lambda probed, node: probed.lifted_up and node.settings.get('up_axis') not in (
                None, probed.lifted_up), 'up_axis'),
             '{node} has up_axis: {up_axis}, but {lifted} is up', 'set up_axis: {lifted}.',
             explains=('agree',)),
        Rule('agree', INFO, _agreeing, '{what} of {nodes} agree', ''),
        Rule('other port', INFO, _reporting(_unchecked_port, 'port'),
             '{node} uses port {port}, which is not checked here: --node {node}', ''),
        Rule('ignored', INFO, _not_selected(all_of_them=False),
             '{bodies} {is} not selected by bodies.allow and bodies.deny of {node}', '')))
