# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The controller with two systems of one base name, and with one whose clock is wrong."""

import time

from conftest import lacking
from control_graph import ACK_START, Controller, START, Systems, Tool
import pytest
from test_mocap_control_command import begin, end, rows

pytestmark = [pytest.mark.ros, pytest.mark.timeout(300)]
NEAR, FAR = '/lab1/twin', '/twin'
SHARED = ('2 systems have the name twin: /lab1/twin, /twin', 'a name of its own')


@pytest.fixture(scope='module')
def graph(tmp_path_factory):
    systems = Systems(tmp_path_factory.mktemp('logs'))
    for namespace in ('/lab1', ''):
        systems.start('twin', namespace=namespace, key=f'{namespace}/twin')
    systems.start('glove', namespace='/lab')
    tool = Tool()
    for name in ('/lab/glove', NEAR, FAR):
        tool.bring(name, 'inactive')
    yield tool
    tool.close()
    systems.end()


def test_a_name_of_two_systems_is_not_addressed_and_all_are(graph):
    graph.bring(FAR, 'unconfigured')
    begun = [begin(*arguments) for arguments in (
        ('status',), ('start', 'twin'), ('start', 'glove', NEAR), ('stop', 'glov'))]
    listed, *refused, unknown = map(end, begun)
    assert listed[0] == 0 and not lacking(listed[2], *SHARED)
    assert not lacking(listed[1], 'glove: inactive (mocap4r2, mocap)', '/lab1/twin: inactive',
                       '/twin: unconfigured')
    for code, output, error in refused:
        assert (code, output) == (2, '') and not lacking(error, *SHARED), error
    assert unknown[0] == 1
    assert 'glov; there are: glove (/lab/glove), twin (/lab1/twin, /twin)' in unknown[2]
    assert {graph.state(name) for name in ('/lab/glove', NEAR)} == {'inactive'}, 'commanded'

    # Every system obeys a command to all; that both of one name did is not known.
    graph.bring(FAR, 'inactive')
    for verb, after in (('start', 'active'), ('stop', 'inactive')):
        code, output, error = end(begin(verb))
        assert code == 1 and not lacking(error, *SHARED), error
        assert set(rows(output)) == {'glove', 'twin'}
        for name in ('/lab/glove', NEAR, FAR):
            assert graph.spin_until(lambda n=name, s=after: graph.state(n) == s)


def test_a_full_name_is_taken_where_it_names_one(graph):
    graph.bring('/lab/glove', 'inactive')
    code, output, error = end(begin('start', '/lab/glove'))
    assert code == 0 and 'ACK_START' in rows(output)['glove'], error
    assert graph.state('/lab/glove') == 'active'


def test_a_clock_that_is_an_hour_off_is_said_with_its_direction(graph):
    """A system as rqt's: it subscribes, and answers with a stamp of its wrong clock."""
    with Controller('slow_clock') as system:
        def answer(message):
            if message.control_type == START:
                reply = system.control(
                    control_type=ACK_START, session_id='', mocap4r2_source='slow_clock')
                reply.stamp.sec = int(time.time()) - 3600
                system.publisher.publish(reply)
        system.node.create_subscription(system.control, '/mocap4r2_control', answer, 100)
        process = begin('start', 'slow_clock', '--timeout', '2')
        system.spin_until(lambda: process.poll() is not None, 40.0)
        code, output, error = end(process)
    assert code == 0, error
    assert '+60 min' in rows(output)['slow_clock']
    assert 'the clock of slow_clock is 60 min behind' in error
