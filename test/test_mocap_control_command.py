# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The headless controller against systems in separate processes."""

import os
from pathlib import Path
import re
import subprocess
import sys

from conftest import lacking
from control_graph import Systems, Tool
from optitrack_vrpn.control import command as mocap_control
from optitrack_vrpn.control.controller_ros import MocapController
import pytest
from rosgraph import lose_first_requests

pytestmark = [pytest.mark.ros, pytest.mark.timeout(300)]
ROOT = str(Path(mocap_control.__file__).parents[2])


def begin(*arguments, env=None):
    """Start the tool in its own process; here announcements repeat every 0.2 s."""
    if '--discovery' not in arguments:
        arguments = (*arguments, '--discovery', '2')
    env = dict(env or os.environ)
    env['PYTHONPATH'] = os.pathsep.join(filter(None, [ROOT, env.get('PYTHONPATH')]))
    return subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'mocap_control', *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def end(process):
    """Wait for it; give exit code, output and error output."""
    output, error = process.communicate(timeout=60)
    return process.returncode, output, error


def rows(output):
    """Give the lines of the table by the system's name."""
    return {line.split()[0]: line for line in output.splitlines()[1:]}


@pytest.fixture(scope='module')
def graph(tmp_path_factory):
    systems = Systems(tmp_path_factory.mktemp('logs'))
    systems.start('suit')
    systems.start('glove', namespace='/lab')
    systems.start('asleep')
    tool = Tool()
    tool.bring('/suit', 'inactive')
    tool.bring('/lab/glove', 'inactive')
    yield tool
    tool.close()
    systems.end()


def test_an_answer_that_gets_lost_is_asked_for_again(graph, monkeypatch):
    lost = lose_first_requests(monkeypatch)
    controller = MocapController(graph.node, graph.executor, [])
    states = {}
    for _ in range(5):    # services may not have been found yet
        states = controller.states(['suit', 'glove'], 8.0)
        if len(states) == 2:
            break
        graph.spin(1.0)
    assert states == {'suit': 'inactive', 'glove': 'inactive'} and len(lost) >= 2


@pytest.fixture(scope='module')
def at_once(graph):
    """Run the tool several times at once, where the runs do not meet each other."""
    return {
        'status': begin('status'),
        'elsewhere': begin('start', '--namespace', '/elsewhere', '--discovery', '0.5'),
        'missing': begin('stop', 'glove', 'asleep', 'absent', '--timeout', '3'),
    }


def test_status_lists_systems_states_and_topics(at_once):
    code, output, error = end(at_once['status'])
    assert code == 0, error
    assert output.splitlines()[:4] == [
        'glove: inactive (mocap4r2, mocap)', '  /lab/glove/pose',
        'suit: inactive (mocap4r2, mocap)', '  /suit/pose']
    assert 'asleep: unconfigured (listens' in output


def test_the_exit_code_tells_of_a_system_that_does_not_answer(at_once):
    code, output, error = end(at_once['missing'])
    assert code == 1
    assert 'ACK_STOP' in rows(output)['glove']
    assert 'none (unconfigured)' in rows(output)['asleep']
    assert 'none (no such system)' in rows(output)['absent']
    assert not lacking(error, 'from asleep within 3 s', 'that name: absent',
                       'asleep, glove (/lab/glove), suit')


def test_nobody_there_is_said_and_so_is_where_to_look(at_once):
    code, output, error = end(at_once['elsewhere'])
    assert (code, output) == (1, '')
    assert not lacking(error, 'within 0.5 s', '--namespace')


def test_start_measures_answers_clocks_and_poses_and_stop_ends_it(graph, at_once):
    for process in at_once.values():
        process.wait(60)

    code, output, error = end(begin('start', '--session', 'take 1'))
    # The table has a row for each system that listens, also for one that is not configured.
    assert code == 1, error
    assert set(rows(output)) == {'suit', 'glove', 'asleep'}
    assert 'none (unconfigured)' in rows(output)['asleep']
    assert not lacking(error, 'answer from asleep', 'configure asleep first')
    for name, topic in (('suit', '/suit/pose'), ('glove', '/lab/glove/pose')):
        found = re.search(r'ACK_START \(mocap(?:4r2)?\) +([0-9.]+) ms +\+([0-9.]+) ms '
                          r'+([0-9.]+) ms on (\S+)', rows(output)[name])
        assert found, output
        after, deviation, pose = map(float, found.groups()[:3])
        # One machine, one clock: the deviation is the way of the answer, a part of the whole.
        assert 0 <= deviation <= after < 20_000
        assert 0 < pose < 20_000
        assert found[4] == topic
    assert graph.state('/suit') == graph.state('/lab/glove') == 'active'
    code, output, error = end(begin('stop', 'suit'))
    assert code == 0, error
    assert set(rows(output)) == {'suit'}
    assert 'ACK_STOP' in output
    assert (graph.state('/suit'), graph.state('/lab/glove')) == ('inactive', 'active')
    # Who is unconfigured has nothing to stop.
    code, output, error = end(begin('stop'))
    assert code == 0, error
    assert set(rows(output)) == {'suit', 'glove'}


def test_the_generation_of_2021_is_spoken_too(seed_environment, tmp_path):
    """Its package has the name of the next one, so both ends run in a prefix of their own."""
    systems = Systems(tmp_path)
    environment = dict(seed_environment, PYTHONPATH=os.pathsep.join(
        [seed_environment['PYTHONPATH'], ROOT]))
    systems.start('old', env=environment, parameters=[
        'control.generations:=[seed]', 'control.configure_on_start:=true'])
    try:
        code, output, error = end(begin('start', 'old', '--generation', 'seed', '--discovery',
                                        '20', env=environment))
        assert code == 0, output + error + systems.log('old')
        assert 'ACK_START (seed)' in output
    finally:
        systems.end()


def test_another_generation_than_the_installed_one_is_explained(capsys):
    assert mocap_control.main(['status', '--generation', 'seed']) == 2
    assert 'of generation mocap' in capsys.readouterr().err
