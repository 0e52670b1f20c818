# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Name the bridges that the latency benchmark compares, and make their command lines."""

import shlex

#: Measured by default.
BRIDGES = ('floor', 'node', 'floor all on', 'all on', 'polled')
#: Measured on request.
MORE_BRIDGES = (
    'calm floor', 'calm floor all on', 'floor poses', 'node poses', 'natnet',
    'plain', 'plain all on')
#: Ending of a bridge's name: its subscribers are best effort.
BEST_EFFORT = ' best effort'
#: Ending of a bridge's name: it publishes poses alone, as the C++ client does.
POSES = ' poses'
#: Start of the names of the C++ client, followed by its poll rate (Hz).
VRPN_MOCAP = 'vrpn_mocap '
#: Poll rates of the C++ client: as shipped, and the highest that a timer of milliseconds gives.
POLL_RATES = (100, 1000)

_TOPICS = ('odom', 'twist', 'accel', 'pose_cov')


def vrpn_mocap_bridges(path, rates=POLL_RATES):
    """Name the variants of the C++ client, none if the path of its executable is missing."""
    return [f'{VRPN_MOCAP}{rate}' for rate in rates] if path else []


def command_of(bridge, port, bodies, best_effort, others):
    """
    Return the command line of a bridge, and where in its positions those sent are.

    :param best_effort: reliability of the subscribers.
    :param others: the options --peer and --vrpn-mocap.
    """
    if bridge == 'peer':
        return shlex.split(others.peer.format(port=port, bodies=bodies)), '012'
    if bridge.startswith(VRPN_MOCAP):
        return _vrpn_mocap(others.vrpn_mocap, port, bridge.removeprefix(VRPN_MOCAP),
                           best_effort), '012'
    if 'floor' in bridge:
        words = bridge.replace('calm floor', 'calm').split()
        return ['latency_floor.py', str(port), str(bodies), *words], '012'
    if bridge == 'polled':
        return ['latency_polled.py', str(port)], '012'
    outputs = ['pose'] if bridge.endswith(POSES) else ['pose', 'tf', 'status']
    if bridge.endswith('all on'):
        outputs += ['pose_ned', 'tf_ned', *_TOPICS]
    way = ({'protocol': 'natnet', 'natnet.port': port} if bridge == 'natnet' else
           {'port': port})
    parameters = {
        'server': '127.0.0.1', **way, 'autostart': 'true',
        'outputs': f'[{", ".join(outputs)}]'}
    return ['-m', 'optitrack_vrpn', 'optitrack_vrpn_node', '--ros-args', *(
        word for name, value in parameters.items()
        for word in ('-p', f'{name}:={value}'))], '120'


def _vrpn_mocap(path, port, rate, best_effort):
    # Its sensor_data_qos, true as shipped, is best effort, to which a reliable subscriber gets no
    # connection.
    parameters = {
        'server': '127.0.0.1', 'port': port, 'update_freq': f'{rate}.0',
        'sensor_data_qos': 'true' if best_effort else 'false'}
    return [path, '--ros-args', *(
        word for name, value in parameters.items() for word in ('-p', f'{name}:={value}')),
        '-r', '__ns:=/']
