# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Judge what the doctor's probes of the network of robots have found; no IO."""

from collections.abc import Mapping, Sequence
from enum import Enum

from optitrack_vrpn.core.checks import CheckResult, joined, ok, warn
from optitrack_vrpn.core.names import counted

#: A message cannot arrive before it is sent: the clocks differ if it seems so by more (ns).
#: Chosen: 5 times the difference that docs/lab.md asks for.
AHEAD_NS = 5_000_000
#: Least time from sending to arrival (ns) that is not a delay of WiFi. Chosen: power save of WiFi
#: holds packets back for one beacon interval, 102 ms.
BEHIND_NS = 150_000_000
_SERVER = ('use a Discovery Server, which needs no multicast: ros2 run optitrack_vrpn '
           'discovery_server (docs/swarm.md)')


class Unicast(Enum):
    """What a computer answers on the UDP ports of a domain."""

    OWN = 'it is this computer'
    SILENT = 'nothing'
    CLOSED = 'no port of the domain is open'
    OPEN = 'a program listens'


def judge_multicast(
    domain: int, silent_cards: Mapping[str, str], heard: Mapping[str, str],
    robots: Mapping[str, Unicast],
) -> list[CheckResult]:
    """
    Judge multicast.

    :param domain: the ROS domain.
    :param silent_cards: addresses of network cards, by name, on which this computer does not
        receive its own multicast.
    :param heard: addresses whose announcements arrived, with the card.
    :param robots: the computers that the user expects, with what they answer to unicast.
    """
    lines: list[str] = []
    advice: list[str] = []
    if silent_cards:
        shown = ', '.join(f'{name} ({address})' for name, address in silent_cards.items())
        lines.append(f'multicast of this computer does not even return on {shown}')
        advice.append('the card does not do multicast, or a firewall drops it: sudo ufw allow in '
                      'proto udp to 224.0.0.0/4')
    for robot, answer in robots.items():
        if robot in heard:
            continue
        if answer is Unicast.OWN:
            lines.append(f'{robot} is an address of this computer, not of a robot')
            advice.append('give --robot the address of a robot')
        elif answer is Unicast.OPEN:
            lines.append(f'a program of ROS domain {domain} listens on {robot}, but its '
                         'announcements do not arrive here: multicast does not pass')
            advice += [
                'nothing, if the robot announces itself to the ground station alone '
                '(docs/swarm.md)', f'else {_SERVER}',
                'or let multicast pass: no client isolation in the access point, no IGMP snooping '
                'without a querier in the switch']
        elif answer is Unicast.CLOSED:
            lines.append(f'{robot} answers, but no program of ROS domain {domain} runs there')
            advice.append('start it; is ROS_DOMAIN_ID the same there?')
        else:
            lines.append(f'{robot} does not answer')
            advice.append('is it on, in this network, and does its firewall admit UDP?')
    if lines:
        return [warn('multicast', joined(lines), '; '.join(dict.fromkeys(advice)),
                     addresses=len(heard))]
    if not heard:
        return []
    places = [f'{address} ({card})' for address, card in heard.items()]
    return [ok('multicast', f'announcements of ROS domain {domain} arrive by multicast from '
               f'{joined(places)}', addresses=len(heard))]


def judge_clocks(delays_ns: Mapping[str, Sequence[int]]) -> list[CheckResult]:
    """
    Compare the clocks of other computers with that of this one.

    :param delays_ns: times from sending, by the sender's clock, to arrival, by the clock here, of
        the messages of each node.
    """
    if not delays_ns:
        return []
    wrong = []
    for node, delays in delays_ns.items():
        least_ns = min(delays)
        if least_ns < -AHEAD_NS:
            wrong.append(f'the clock of {node} is ahead by {-least_ns / 1e9:.3f} s or more')
        elif least_ns > BEHIND_NS:
            wrong.append(f'the clock of {node} is behind by {least_ns / 1e9:.3f} s, or each of '
                         'its messages takes as long')
    if wrong:
        return [warn('clocks', joined(wrong), 'synchronise the clocks with chrony (docs/lab.md): '
                     'poses seem old there, or from the future, and are refused',
                     different=len(wrong))]
    return [ok('clocks', f'the clocks of {counted(len(delays_ns), "node")} agree with this one, '
               f'as far as the delays of {"its" if len(delays_ns) == 1 else "their"} messages '
               'show', different=0)]
