# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios from files, flags and Python are equal, and errors name the wrong value."""

from pathlib import Path

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.sim import faults, motion, scenario_io as s
from optitrack_vrpn.sim.command import make_parser, scenario_from_arguments
from optitrack_vrpn.sim.world import World
import pytest

SAMPLES = Path(__file__).parents[1] / 'config' / 'scenarios'


def load(tmp_path, text):
    path = tmp_path / 'some.yaml'
    path.write_text(text)
    return s.scenario_from_mapping(s.read_mapping(path), f'{path}: ')


@pytest.mark.parametrize('name', sorted(path.name for path in SAMPLES.glob('*.yaml')))
def test_samples_load_and_run(name):
    scenario = s.scenario_from_mapping(s.read_mapping(SAMPLES / name))
    assert World(scenario).frame(0).reports


def test_the_hard_day_has_every_fault():
    scenario = s.scenario_from_mapping(s.read_mapping(SAMPLES / 'hard_day.yaml'))
    kinds = {type(fault) for body in scenario.bodies for fault in body.faults}
    assert kinds == set(faults.BODY_FAULTS.values())
    assert {type(fault) for fault in scenario.faults} == set(faults.FRAME_FAULTS.values())


def test_a_file_says_what_python_says(tmp_path):
    assert load(tmp_path, """
bodies:
  - plain
  - name: drone/left
    motion: {type: circle, radius: 2}
    faults: [{type: occlusion, mode: frozen, start: 1, end: 2}]
rate: 100
faults: [{type: swap_labels, bodies: [plain, drone/left], start: 3, end: 4}]
clock: {start: 5, skew_ppm: -3.5}
""") == s.Scenario(
        bodies=(s.SimBody(name='plain'), s.SimBody(
            name='drone/left', motion=motion.Circle(radius=2.0),
            faults=(faults.Occlusion(mode='frozen', start=1.0, end=2.0),))),
        rate=100.0,
        faults=(faults.SwapLabels(bodies=('plain', 'drone/left'), start=3.0, end=4.0),),
        clock=s.SimClock(start=5.0, skew_ppm=-3.5))


@pytest.mark.parametrize('text, wanted', [
    ('speed: 3', ['some.yaml: speed: unknown key; ', 'bodies, rate,']),
    ('rate: fast', ["rate is 'fast'; it must be a number", '0.1 to 5000 Hz']),
    ('rate: 0', ['rate is 0.0; allowed: 0.1 to 5000 Hz']),
    ('bodies: [a, a]', ["bodies: two have the name 'a'"]),
    ('bodies: [{motion: circle}]', ['bodies[0].name: missing']),
    ('bodies: [{name: a, motion: {type: loop}}]',
     ["bodies[0].motion.type is 'loop'; allowed: circle, figure_eight"]),
    ('bodies: [{name: a, motion: {type: line, radius: 1}}]',
     ['bodies[0].motion.radius: unknown key; allowed keys: centre, phase, reach']),
    ('bodies: [{name: a, faults: [{type: occlusion, start: 3, end: 2}]}]',
     ['bodies[0].faults[0].end: 2 is not after start 3']),
    ('faults: [{type: swap_labels, bodies: [a, b]}]\nbodies: [a]',
     ["faults[0].bodies: no body has the name 'b'; allowed: 'a'"]),
    ('faults: [{type: swap_labels, bodies: [a, a]}]\nbodies: [a, b]', ['is one body']),
    ('natnet: {plates: 101}', ['natnet.plates is 101; allowed: 0 to 100']),
    ('natnet: {version: 4.1}', ['natnet.version is 4.1; it must be a string in quotes (2.7, ']),
    ("server: {host: ''}", ['host is empty', '0.0.0.0 for every network']),
    ('- 1', ['some.yaml: a scenario is a mapping']),
    ('{{', ['some.yaml: is not YAML']),
])
def test_what_is_wrong_is_named_with_its_place_and_what_is_allowed(tmp_path, text, wanted):
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    assert str(tmp_path / 'some.yaml') in str(caught.value)
    for part in wanted:
        assert part in str(caught.value)


def from_flags(*argv):
    return scenario_from_arguments(make_parser().parse_args(argv))


def test_flags_say_what_a_file_says(tmp_path):
    wanted = load(tmp_path, """
bodies:
  - a b
  - name: c:d
    faults: [{type: occlusion, mode: zeroed, start: 1.5, end: 2, every: 10},
             {type: occlusion, mode: silent, start: 20}]
rate: 240
motion: hover
seed: 7
duration: 12.5
velocities: true
noise: {position_mm: 0.1, attitude_deg: 0.02}
clock: {base: epoch, skew_ppm: 30, start: 3}
network: {delay_ms: 1, jitter_ms: 2, loss: 0.25}
server: {host: 0.0.0.0, port: 0}
""")
    assert wanted == from_flags(
        '--names', 'a b', 'c:d', '--rate', '240', '--motion', 'hover', '--seed', '7',
        '--duration', '12.5', '--velocities', '--noise-mm', '0.1',
        '--noise-deg', '0.02', '--stamps', 'epoch', '--skew-ppm', '30', '--stamp-start', '3',
        '--delay-ms', '1', '--jitter-ms', '2', '--loss', '0.25', '--host', '0.0.0.0',
        '--port', '0', '--occlude', 'c:d:zeroed:1.5-2/10', 'c:d:silent:20-')
