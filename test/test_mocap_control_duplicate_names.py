# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The headless controller with several systems of one base name."""

import signal

from conftest import lacking
from control_graph import Systems, Tool
from optitrack_vrpn.mocap_control import command as mocap_control
from optitrack_vrpn.mocap_control import MocapController
import pytest
from test_mocap_control_command import begin, end

pytestmark = [pytest.mark.ros, pytest.mark.timeout(300)]
NEAR, FAR = '/lab1/twin', '/twin'
SAID = '2 systems have the name twin: /lab1/twin, /twin'


def rows(output):
    """Give the lines of the table, its columns two spaces apart, by the first column."""
    table = [[cell.strip() for cell in line.split('  ') if cell.strip()]
             for line in output.splitlines()]
    return {row[0]: row[1:] for row in table[1:]}


@pytest.fixture(scope='module')
def systems(tmp_path_factory):
    found = Systems(tmp_path_factory.mktemp('logs'))
    for namespace in ('/lab1', ''):
        found.start('twin', namespace=namespace, key=f'{namespace}/twin')
    found.start('glove', namespace='/lab')
    yield found
    found.end()


@pytest.fixture(scope='module')
def graph(systems):
    tool = Tool()
    tool.bring('/lab/glove', 'inactive')
    yield tool
    tool.close()


def test_each_is_listed_with_its_own_state_and_topics(graph):
    graph.bring(NEAR, 'inactive')
    graph.bring(FAR, 'unconfigured')

    code, output, error = end(begin('status'))
    assert code == 0 and SAID in error, error
    assert output.splitlines() == [
        'glove: inactive (mocap4r2, mocap)', '  /lab/glove/pose',
        '/lab1/twin: inactive (mocap4r2, mocap)', '  /lab1/twin/pose',
        '/twin: unconfigured (mocap4r2, mocap)']


def test_one_that_cannot_start_is_missed_and_one_without_anything_to_stop_is_not(graph):
    graph.bring(NEAR, 'inactive')
    graph.bring(FAR, 'unconfigured')

    code, output, error = end(begin('start'))
    assert code == 1 and SAID in error, error
    assert not lacking(error, '1 of the 2', 'name twin', 'configure /twin first')
    found = rows(output)
    assert found['twin, 1 of 2'][0].startswith('ACK_START')
    assert found['twin, 2 of 2'][0] == 'none'
    assert found[NEAR][0] == 'is active' and ' on /lab1/twin/pose' in found[NEAR][-1]
    assert found[FAR][0] == 'is unconfigured' and 'no pose topic' in found[FAR][-1]
    assert found['glove'][0].startswith('ACK_START')
    code, output, error = end(begin('stop'))
    assert code == 0, error
    assert {name: row[0].split()[0] for name, row in rows(output).items()} == {
        'glove': 'ACK_STOP', 'twin': 'ACK_STOP'}
    assert graph.state(NEAR) == 'inactive'


def test_a_command_by_name_reaches_all_who_have_it(graph):
    for name in (NEAR, FAR):
        graph.bring(name, 'inactive')
    for verb, after in (('start', 'active'), ('stop', 'inactive')):
        code, output, error = end(begin(verb, 'twin'))
        assert code == 0, error
        assert not lacking(error, SAID, 'cannot be distinguished')
        found = rows(output)
        assert set(found) == {'twin, 1 of 2', 'twin, 2 of 2', NEAR, FAR}
        for number in (1, 2):
            assert found[f'twin, {number} of 2'][0].startswith(f'ACK_{verb.upper()}')
        for name in (NEAR, FAR):
            assert found[name][0] == f'is {after}'
            assert verb == 'stop' or f'ms on {name}/pose' in found[name][-1]
        assert graph.state(NEAR) == graph.state(FAR) == after


def test_one_that_hangs_is_no_success(graph, systems, monkeypatch, capfd):
    for name in (NEAR, FAR):
        graph.bring(name, 'inactive')
    discover = MocapController.discover

    def discover_and_hang(self, *arguments):
        discover(self, *arguments)
        systems.send_signal(NEAR, signal.SIGSTOP)
    monkeypatch.setattr(MocapController, 'discover', discover_and_hang)

    try:
        code = mocap_control.main(['start', 'twin', '--timeout', '3'])
    finally:
        systems.send_signal(NEAR, signal.SIGCONT)
    output, error = capfd.readouterr()
    assert code == 1 and SAID in error, error
    assert not lacking(error, '1 of the 2', 'name twin')
    found = rows(output)
    assert (found[NEAR][0], found[FAR][0]) == ('state unknown', 'is active')


def test_full_names_are_taken_where_they_name_one_and_unknown_names_are_said(graph):
    graph.bring('/lab/glove', 'inactive')
    there = 'there are: glove (/lab/glove), twin (/lab1/twin, /twin)\n'
    begun = [(begin(*arguments), expected, said) for arguments, expected, said in (
        (('start', '/lab/glove'), 0, ''),
        (('stop', NEAR), 2, SAID + '; a command reaches all of one name: give the base name, '
         'twin'),
        (('stop', 'glov'), 1, 'no system of that name: glov; ' + there),
        (('stop', '/lab1/glove'), 1, 'no system of that name: /lab1/glove; ' + there))]
    for process, expected, said in begun:
        code, output, error = end(process)
        assert code == expected and said in error, error
        assert bool(output) == (expected == 0)
    assert graph.state('/lab/glove') == 'active'
