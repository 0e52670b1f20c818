# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Changes of parameters at random: what runs are the settings that the parameters state."""

import random

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.node.body_settings import BODY_PARAMETERS
from optitrack_vrpn.node.configuration import (
    Configuration, make_configuration, PARAMETERS)
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.stream.pipeline import Pipeline
from pipeline_kit import pose_report
import pytest
from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter
from rosgraph import NodeHere, wait_until

pytestmark = pytest.mark.ros
BODIES = ('wand', 'drone 1', 'drone 2')
#: Outputs whose messages are installed and that no source needs to send.
OUTPUTS = ('pose', 'pose_ned', 'tf', 'tf_ned', 'status', 'odom', 'twist', 'accel', 'pose_cov')
NS = 1_000_000_000


def a_value(chance, parameter):
    """Draw a value of a parameter; one in six is wrong."""
    if chance.random() < 1 / 6:
        return chance.choice(['nonsense', -1e9, True, [1.5], None])
    if parameter.name == 'outputs':
        return chance.sample(OUTPUTS, chance.randint(1, 5))
    if parameter.name in ('bodies.allow', 'bodies.deny'):
        return chance.sample(['', 'wand', 'drone*', '*[12]', 'other'], chance.randint(1, 2))
    if parameter.is_list:
        return list(parameter.default) or ['']
    kind = parameter.item_type
    if kind is bool:
        return chance.random() < 0.5
    if kind is str:
        choices = parameter.rule.choices
        return chance.choice(choices) if choices else parameter.default
    low = parameter.rule.low if parameter.rule.low is not None else 0
    high = min(parameter.rule.high if parameter.rule.high is not None else 1000, 1000)
    return chance.randint(int(low), int(high)) if kind is int else chance.uniform(low, high)


def a_change(chance):
    """Draw one to three parameters, of the node or of single bodies, and values."""
    found = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if chance.random() < 0.3:
            key = chance.choice(list(BODY_PARAMETERS))
            name = f'bodies.{chance.choice((*BODIES, "drone*"))}.{key}'
            found.append((name, a_value(chance, BODY_PARAMETERS[key])))
        else:
            parameter = PARAMETERS[chance.choice(list(PARAMETERS))]
            found.append((parameter.name, a_value(chance, parameter)))
    return found


def declared(node):
    """Make the configuration that the parameters of a node state."""
    values = {name: parameter.value
              for name, parameter in node.get_parameters_by_prefix('').items()}
    return make_configuration(
        {name: value for name, value in values.items()
         if name in PARAMETERS or (name.startswith('bodies.') and value is not None)})


class Watched:
    """
    A configured node with bodies, and a callback of another component that refuses changes.

    :ivar refuses: whether the callback refuses the next change.
    """

    def __init__(self, seed):
        self.made = []
        self.refuses = False
        self.chance = random.Random(seed)

    def __enter__(self):
        self.here = NodeHere({'server': '127.0.0.1', 'port': 9}, pipeline_of=self._make)
        self.node = self.here.node
        # rclpy calls the newest callback first: this one comes after the node's own.
        self.node._on_set_parameters_callbacks.append(lambda _: SetParametersResult(
            successful=not self.refuses, reason='not now'))
        self.here.activate()
        (self.pipeline,) = self.made
        self.stream(0)
        return self

    def __exit__(self, *error):
        self.here.close()

    def _make(self, *arguments):
        self.made.append(Pipeline(*arguments))
        return self.made[-1]

    def stream(self, turn):
        """Send some poses of each body; one that was selected again appears."""
        for number in range(4 * turn, 4 * turn + 4):
            self.here.node.receive(
                [pose_report(name, number * NS // 100, (0.001 * number, 1.0, 0.0))
                 for name in BODIES], number * NS // 100, 0)

    def set(self, changes):
        """Make a change; returns whether it was accepted."""
        return self.here.run(lambda: self.node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in changes])).successful

    @property
    def topics(self):
        """Return the topics of single bodies."""
        return {one.topic_name for one in self.node.publishers if one.topic_name.count('/') > 1}

    def wanted_topics(self):
        """Return the topics that the settings and the bodies ask for."""
        return {f'/{body.names.topics[name]}' for body in self.pipeline.bodies
                for name in self.node.configuration.settings.outputs if KINDS[name].per_body}


@pytest.mark.parametrize('seed', range(4))
def test_what_runs_is_what_the_parameters_state_after_changes_at_random(seed):
    accepted = refused = 0
    with Watched(seed) as watched:
        node, pipeline = watched.node, watched.pipeline
        for turn in range(1, 151):
            before, changes = node.configuration, a_change(watched.chance)
            watched.refuses = watched.chance.random() < 0.2
            bodies = {body: (body.estimator, body.gate.good) for body in pipeline.bodies}
            if watched.set(changes):
                accepted += 1
                assert not watched.refuses
            else:
                refused += 1
                assert node.configuration is before, changes
            running: Configuration = node.configuration
            assert running == declared(node), changes
            assert pipeline.config is running.pipeline
            for body in pipeline.bodies:
                name = body.names.motive
                assert running.pipeline.selection.wanted(name)
                assert body.gate.config == running.pipeline.thresholds(name), changes
                assert body.estimator.config == running.pipeline.estimate_of(name), changes
                # Only an estimate whose own settings have changed begins again.
                estimator, good = bodies[body]
                assert body.gate.good == good
                if running.pipeline.estimate_of(name) == before.pipeline.estimate_of(name):
                    assert body.estimator is estimator
            watched.stream(turn)
            if turn % 30 == 0:
                wait_until(lambda: watched.topics == watched.wanted_topics())
        assert len(watched.made) == 1, 'the pipeline is never made again'
    assert accepted > 20 and refused > 20


def test_a_change_of_thresholds_touches_no_topic_and_no_estimate():
    with Watched(0) as watched:
        wait_until(lambda: watched.topics == watched.wanted_topics())
        before = {id(one) for one in watched.node.publishers}
        estimators = [body.estimator for body in watched.pipeline.bodies]
        assert watched.set([('validation.max_speed', 3), ('expected_rate_hz', 240.0)])
        assert {id(one) for one in watched.node.publishers} == before
        assert [body.estimator for body in watched.pipeline.bodies] == estimators
        assert all(body.gate.config.max_speed == 3.0 for body in watched.pipeline.bodies)


def test_a_change_that_is_checked_but_refused_by_another_is_not_applied_with_the_next_one():
    """The next change is made of what runs, not of what was refused."""
    with Watched(0) as watched:
        watched.refuses = True
        assert not watched.set([('validation.max_speed', 3.0)])
        watched.refuses = False
        assert watched.set([('validation.jump_accept_s', 1.0)])
        body = watched.node.configuration.pipeline.body
        assert (body.max_speed, body.jump_accept_s) == (15.0, 1.0)
        with pytest.raises(ConfigurationError):
            make_configuration({'validation.max_speed': -1.0})
