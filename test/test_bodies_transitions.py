# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The gate follows its table of transitions, and the documentation shows that table."""

import math

from body_kit import Feed, OVER, STEP
from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.stream.bodies.states import Observed, State, TRANSITIONS
from optitrack_vrpn.stream.bodies.times import Epoch

RECOVERY = {Observed.ACQUIRED, Observed.RETURNED, Observed.SETTLED, Observed.ACCEPTED,
            Observed.RESUMED}
NAN = math.nan


def test_every_state_has_a_row_and_can_be_reached_and_left():
    assert set(TRANSITIONS) == set(State)
    for state in State:
        others = {after for before, row in TRANSITIONS.items() if before is not state
                  for after in row.values()}
        assert state in others or state is State.NEW
        assert set(TRANSITIONS[state].values()) - {state}


def test_only_recovery_leads_to_tracked():
    for row in TRANSITIONS.values():
        for observed, after in row.items():
            assert (after is State.TRACKED) == (observed in RECOVERY)


COMMANDS = {
    'good': lambda feed: feed.good(4),
    'one good': lambda feed: feed.good(1),
    'silent': lambda feed: feed.skip(60),
    'gone': lambda feed: feed.skip(300),
    'held': lambda feed: feed.hold(150),
    'unseen': lambda feed: feed.skip(30, tick=False),
    'zeros': lambda feed: feed.send((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)),
    'nan': lambda feed: feed.send((NAN, 0.0, 0.0)),
    'repeat': lambda feed: [feed.send(*feed.pose(-1 - k)) for k in range(60)],
    'frozen': lambda feed: [feed.send((7.0, 7.0, 7.0), (0.0, 0.0, 0.0, 1.0)) for _ in range(60)],
    'far': lambda feed: feed.elsewhere(10, (5.0, 5.0, 5.0)),
    'carried': lambda feed: feed.elsewhere(450, (5.0, 5.0, 5.0)),
    'flip': lambda feed: feed.elsewhere(10, turn=OVER),
    'accept': lambda feed: feed.body.accept_jump(),
    'restart': lambda feed: feed.body.restart(
        Epoch(feed.frame * STEP - 10**12, feed.frame * STEP)),
}


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(sorted(COMMANDS)), min_size=1, max_size=30))
def test_the_gate_follows_its_table_and_publishes_in_tracked_only(commands):
    feed = Feed()
    state = State.NEW
    for command in commands:
        COMMANDS[command](feed)
        for change in feed.body.take_changes():
            assert change.before is state
            assert change.after in TRANSITIONS[state].values()
            state = change.after
        assert feed.body.state is state
        held = feed.body.held
        assert not held or state is State.JUMPED
    good = feed.body.good
    out = feed.send()
    assert (out is not None) == (feed.body.good > good)
    if out is not None:
        assert feed.body.state is State.TRACKED
