# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names that separate a demonstration from a real system: bodies, frames, topics, display."""

from typing import Any, Iterable, NamedTuple, Sequence

from optitrack_vrpn.names import ros_name

#: Bodies of the demo: an ordinary name, one that is not valid in ROS, one with a space. Motive's
#: default is `Rigid Body 1`, which the demo must not use.
NAMES = ('Demo Body 1', '1demo', 'demo wand')
#: A rate above this multiple of the sent rate means another publisher. Chosen: stamps vary by
#: milliseconds in a second, arrivals are bunched on a busy computer, and a second simulator
#: doubles the rate. Nearer to 1, load is reported; nearer to 2, a second publisher is not.
_STAMP_MARGIN, _ARRIVAL_MARGIN = 1.05, 1.5


class Endpoint(NamedTuple):
    """
    A publisher in the graph.

    :ivar topic: full name.
    :ivar node: full name of its node.
    """

    topic: str
    node: str


def body_names(count: int) -> tuple[str, ...]:
    """Return names of simulated bodies."""
    return tuple(f'Demo Body {number}' for number in range(1, count + 1))


def node_parameters(namespace: str) -> dict[str, Any]:
    """
    Return the parameters that separate a simulated node's frames and control topics.

    :param namespace: namespace of the node, without slashes at its ends; not empty.
    """
    return {
        'frames.world': f'{namespace}/optitrack', 'frames.world_ned': f'{namespace}/optitrack_ned',
        'frames.body': f'{namespace}/{{body}}', 'frames.body_ned': f'{namespace}/{{body}}_ned',
        'control.absolute_topics': False}


def display(text: str, namespace: str, names: Sequence[str]) -> str:
    """
    Make the rviz display of a demo from that of the package.

    :param text: the package's file: poses of `/Rigid_Body_1` and so on, fixed frame `optitrack`.
    :param namespace: as for ``node_parameters``; may be empty.
    :param names: the simulated bodies, in the order of the file's displays.
    :returns: the same for the topics and frames of the demo.
    """
    prefix = f'{namespace}/' if namespace else ''
    for number, name in reversed(list(enumerate(names, 1))):
        text = text.replace(f'/Rigid_Body_{number}/', f'/{prefix}{ros_name(name)}/')
        text = text.replace(f'Name: Rigid_Body_{number}\n', f'Name: {ros_name(name)}\n')
    return text.replace(' optitrack\n', f' {prefix}optitrack\n')


def foreign(endpoints: Iterable[Endpoint], own: Sequence[str], count: int) -> list[str]:
    """
    Report publishers that are not the demo's.

    :param endpoints: publishers on the demo's topics.
    :param own: full names of the demo's nodes.
    :param count: how many nodes of these names there are.
    :returns: one line for each foreign node; none if the demo is alone.
    """
    topics: dict[str, list[str]] = {}
    for endpoint in endpoints:
        if endpoint.node not in own:
            topics.setdefault(endpoint.node, []).append(endpoint.topic)
    lines = [f'{node} publishes on {", ".join(sorted(set(found))[:3])}'
             for node, found in sorted(topics.items())]
    if count > len(own):
        lines.append(f'another node is called {own[0]}')
    return lines


def too_fast(
    name: str, poses: int, stamp_rate_hz: float, arrival_rate_hz: float, sent_hz: float,
) -> str:
    """
    Check the measured rates of a body.

    :param poses: number of measured poses; a check needs those of one second.
    :returns: a message if more poses arrive than are sent; else ''.
    """
    rate_hz = max(stamp_rate_hz, arrival_rate_hz)
    if poses < sent_hz or not (stamp_rate_hz > sent_hz * _STAMP_MARGIN
                               or arrival_rate_hz > sent_hz * _ARRIVAL_MARGIN):
        return ''
    return (f'{name} arrives at {rate_hz:.1f} Hz, but {sent_hz:g} Hz are sent: another node '
            'publishes on its topic')
