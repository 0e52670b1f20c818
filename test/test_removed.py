# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of earlier versions are refused with what to do instead."""

import sys

from optitrack_vrpn.__main__ import main
from optitrack_vrpn.cli.arguments import check_launch_arguments
from optitrack_vrpn.cli.rows_io import console_scripts
from optitrack_vrpn.core import removed
from optitrack_vrpn.core.settings.parameters import is_foreign, unknown
from optitrack_vrpn.core.settings.schema import build
from optitrack_vrpn.guests.autopilot.settings import parse
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings
from optitrack_vrpn.node.body_settings import sift_body_settings
import pytest


@pytest.mark.parametrize('name', removed.COMMANDS)
def test_a_removed_command_says_what_to_run(name, monkeypatch, capsys):
    assert not any(script.startswith(f'{name} =') for script in console_scripts())
    monkeypatch.setattr(sys, 'argv', ['optitrack_vrpn', name, '--help'])
    assert main() == 64
    line, = capsys.readouterr().err.splitlines()
    assert line == f'optitrack_vrpn: {name} was removed: {removed.COMMANDS[name]}'


@pytest.mark.parametrize('name', ('motive_sim', 'gantry_sim', 'imu_sim', 'rgbd_sim'))
def test_a_removed_option_is_refused_by_all_simulators_that_had_it(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['optitrack_vrpn', name, '--stamp-in-pose'])
    with pytest.raises(SystemExit, match='64'):
        main()
    assert '--stamp-in-pose was removed: leave it out' in capsys.readouterr().err


@pytest.mark.parametrize('name', removed.LAUNCH_ARGUMENTS)
def test_a_removed_launch_argument_says_what_to_do(name):
    with pytest.raises(ValueError, match='discovery_server|--format gantry'):
        check_launch_arguments(['x.launch.py', f'{name}:=1'], 'x.launch.py', ['server'])


def test_a_removed_parameter_is_of_this_node_and_says_what_to_do(monkeypatch):
    monkeypatch.setitem(removed.SETTINGS, 'lowpass.old', 'set lowpass.cutoff_hz')
    for name in ('lowpass.old', 'bodies.cf1.lowpass.old'):
        assert unknown(name, ['lowpass.cutoff_hz']) == (
            'lowpass.old was removed: set lowpass.cutoff_hz')
        assert not is_foreign(name, ['a'])
    _, (line,) = sift_body_settings({'bodies.cf1.lowpass.old': 1.0})
    assert line == (
        'bodies.cf1.lowpass.old: lowpass.old was removed: set lowpass.cutoff_hz')


def test_a_removed_group_of_parameters_is_refused_by_any_of_its_names():
    for name in ('method.max_depth_diff', 'method.nothing'):
        assert unknown(name, ['max_depth_diff']) == (
            f'{name} was removed: set the name without method.')
    assert 'removed' not in unknown('methods.max_depth_diff', ['max_depth_diff'])


def test_the_tcp_link_of_the_autopilot_says_what_to_use():
    with pytest.raises(ValueError, match='tcp: was removed.*udpclient'):
        parse('tcp:127.0.0.1:5760')


@pytest.mark.parametrize(('correction', 'words'), [
    ({'action': 'integral'}, 'integral was removed: take kalman'),
    ({'gain': 0.1}, 'gain was removed')])
def test_the_action_integral_of_the_gantry_says_what_to_take(correction, words):
    with pytest.raises(ValueError, match=words):
        build(MachineSettings, {'axes': [
            {'name': 'x', 'steps_per_unit': 1000, 'correction': correction}]}, 'm.yaml: ')
