# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The response of a capture system to each command, in every state and generation."""

from hypothesis import given, strategies as st
from optitrack_vrpn.control import protocol as c
from optitrack_vrpn.control.round import Answer, Listeners, Round
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.node.base.lifecycle_node import fits, refusal
from optitrack_vrpn.node.graph.conflicts import NAMELESS
import pytest

START, STOP = c.Kind.START, c.Kind.STOP


def command(kind, systems=(), session='', source='controller', stamp_ns=0, generation=''):
    return c.Command(int(kind), stamp_ns, source, session, tuple(systems), generation)


# -- whom it is for -------------------------------------------------------------------------------

@pytest.mark.parametrize('systems, expected', [
    ((), True),                         # the reference, and rqt's STOP
    (('cam',), True),
    (('other', 'cam'), True),
    (('', 'System', 'cam'), True),      # rqt's START with a tick at cam
    (('', 'System'), False),            # rqt's START without one
    (('',), False),
    (('other',), False),
    (('/lab/cam',), False),             # the base name, as in the reference
    (('CAM',), False),
])
def test_a_command_is_for_everyone_or_for_those_it_names(systems, expected):
    follower = c.Follower('cam')
    assert follower.concerns(command(START, systems)) is expected


@given(st.integers(-128, 127))
def test_nothing_but_start_and_stop_matters(number):
    """control_type is an int8: all of its values."""
    follower = c.Follower('cam')
    assert follower.concerns(c.Command(number, 0, 'x', '', ())) is (number in (0, 2))


# -- what to do -----------------------------------------------------------------------------------

@pytest.mark.parametrize('kind, state, transitions', [
    (START, 'inactive', ('activate',)), (START, 'active', ()),
    (START, 'unconfigured', ('configure', 'activate')),
    (STOP, 'active', ('deactivate',)), (STOP, 'inactive', ())])
def test_commands_that_fit_the_state_are_followed(kind, state, transitions):
    verdict = c.Follower('cam', configure_on_start=True).decide(command(kind), state)
    assert verdict == (transitions, '')


@pytest.mark.parametrize('kind', [START, STOP])
@pytest.mark.parametrize('state, advice', [
    ('unconfigured', 'configure it first'), ('finalized', 'restart')])
def test_commands_that_cannot_be_followed_are_refused_with_advice(kind, state, advice):
    verdict = c.Follower('cam').decide(command(kind), state)
    assert advice in verdict.reason and not verdict.transitions


@pytest.mark.parametrize('kind', [START, STOP])
@pytest.mark.parametrize('state', [
    'configuring', 'activating', 'deactivating', 'cleaningup', 'shuttingdown',
    'errorprocessing'])
def test_commands_wait_for_a_transition_under_way(kind, state):
    assert c.Follower('cam').decide(command(kind), state) is None


def test_acknowledgements_carry_the_session():
    follower = c.Follower('cam')
    for sent, answer in (
            (command(START, session='take 1'), (c.Kind.ACK_START, 'take 1')),
            (command(STOP), (c.Kind.ACK_STOP, 'take 1')),   # as rqt stops
            (command(STOP, session='mine'), (c.Kind.ACK_STOP, 'mine')),
            (command(START), (c.Kind.ACK_START, '')), (command(STOP), (c.Kind.ACK_STOP, ''))):
        assert follower.acknowledge(sent) == answer


# -- generations ----------------------------------------------------------------------------------

def test_two_generations_share_a_package_and_their_fields_tell_them_apart():
    assert len({g.package for g in c.GENERATIONS}) < len(c.GENERATIONS)
    for generation in c.GENERATIONS:
        assert c.match_generation(
            generation.package, generation.control_fields, generation.info_fields) is generation


def test_other_fields_or_another_order_are_no_generation():
    generation = c.GENERATIONS[0]
    fields = dict(reversed(generation.control_fields.items()))
    assert c.match_generation(generation.package, fields, generation.info_fields) is None
    fields = {**generation.control_fields, 'stamp': 'std_msgs/Header'}
    assert c.match_generation(generation.package, fields, generation.info_fields) is None
    assert c.match_generation(
        'other_msgs', generation.control_fields, generation.info_fields) is None


@pytest.mark.parametrize(('transition', 'state', 'said'), [
    ('activate', 'unconfigured',
     'activate refused: the node is unconfigured; configure it first'),
    ('cleanup', 'active', 'cleanup refused: the node is active; deactivate it first'),
    ('configure', 'finalized', 'start the process again'),
    ('configure', 'activating', 'wait until that has ended'),
    ('shutdown', 'active', 'for another state'),
    ('transition 99', 'active', 'there is no such transition')])
def test_a_transition_that_does_not_fit_says_what_to_do_first(transition, state, said):
    assert not fits(transition, state)
    assert said in refusal(transition, state)


def test_generations_are_chosen_by_name():
    assert c.choose_generations(['auto']) == c.GENERATIONS
    assert c.choose_generations([]) == ()
    assert [g.name for g in c.choose_generations(['seed', 'mocap4r2'])] == ['mocap4r2', 'seed']
    with pytest.raises(ConfigurationError, match="'mocap4r'; .*mean 'mocap4r2'"):
        c.ControlConfig(generations=('mocap4r',))
    with pytest.raises(ConfigurationError, match=r'configure_on_start .* true or false'):
        c.ControlConfig(configure_on_start='yes')


# -- the controller's side ------------------------------------------------------------------------

def test_a_round_takes_the_first_answer_of_each_system_and_measures_it():
    current = Round(START, ['a', 'b', 'a'])
    current.record_answer(command(c.Kind.ACK_START, source='b'), 5, 5)   # sent nothing yet
    current.record_sent(1_000)
    current.record_answer(command(START, source='me'), 1_100, 0)
    current.record_answer(command(c.Kind.ACK_STOP, source='a'), 1_150, 0)
    current.record_answer(command(c.Kind.ACK_START, source='a', stamp_ns=7_000), 1_200, 7_500)
    current.record_answer(command(c.Kind.ACK_START, source='a', stamp_ns=7_000), 9_999, 9_999)
    assert current.missing == ['b']
    assert (current.answers['a'].after_ns, current.answers['a'].deviation_ns) == (200, 500)
    current.record_answer(command(c.Kind.ACK_START, source='unlisted'), 1_300, 0)
    current.record_answer(command(c.Kind.ACK_START, source='b'), 1_300, 0)
    assert not current.missing
    assert set(current.answers) == {'a', 'b', 'unlisted'}


@pytest.mark.parametrize('sent, answered, counts', [
    ('take', 'take', True), ('take', '', True), ('take', 'other', False), ('', 'take', True)])
def test_an_answer_to_another_controller_is_not_taken_for_the_own_one(sent, answered, counts):
    current = Round(STOP, ['a'], session_id=sent)
    current.record_sent(1_000)
    current.record_answer(command(c.Kind.ACK_STOP, source='a', session=answered), 1_200, 0)
    assert bool(current.answers) is counts


def test_a_round_keeps_the_first_pose_after_the_command():
    current = Round(START, ['a'])
    current.record_pose('a', '/early', 900)
    current.record_sent(1_000)
    current.record_pose('a', '/x', 1_500)
    current.record_pose('a', '/y', 1_600)
    assert current.poses == {'a': (500, '/x')}


def test_a_name_of_several_systems_is_ambiguous_and_a_full_name_of_one_is_converted():
    listeners = Listeners(
        (['/y/a', '/x/a', '/x/b', '/c', f'/x/{NAMELESS}'], ['/x/a', '/x/b']),
        (['/x/a', '/c'], []))
    assert listeners.names == {'a', 'b', 'c'}
    assert listeners.ambiguous(['a', 'b', 'd']) == {'a': ['/x/a', '/y/a']}
    # Users may give either name; a full one that nobody has is for nobody, never for all.
    asked = ['a', '/x/b', 'x/b/', '/c', '/y/b', 'd', '']
    assert [listeners.target(name) for name in asked] == ['a', 'b', 'b', 'c', '/y/b', 'd', '']
    assert [listeners.include([name]) for name in asked] == [True] * 4 + [False] * 3


def test_two_systems_of_one_full_name_are_several():
    listeners = Listeners(
        (['/recorder', '/recorder', '/c'], ['/recorder', '/recorder', '/c']),
        (['/recorder', '/c'], ['/recorder', '/c']))
    assert listeners.ambiguous(listeners.names) == {'recorder': ['/recorder'] * 2}


def test_a_recorder_of_the_commands_that_it_follows_is_one_system():
    # It subscribes twice, and publishes its acknowledgements once.
    listeners = Listeners((['/recorder', '/recorder'], ['/recorder', '/mocap_control_7']))
    assert listeners.names == {'recorder'}
    assert not listeners.ambiguous(listeners.names)


@pytest.mark.parametrize('deviation_ms, after_ms, ahead_ms', [
    (0.5, 3.0, 0), (3.0, 3.0, 0), (-4.0, 3.0, 0),
    (-3_600_000.0, 3.0, 3_600_000.0),      # the system's clock is ahead
    (-40.0, 3.0, 40.0),
    (40.0, 3.0, -32.0),                    # behind by at least that
    (40.0, 60.0, 0),                       # a slow answer proves nothing
])
def test_only_a_deviation_that_a_slow_answer_cannot_explain_is_one_of_the_clock(
        deviation_ms, after_ms, ahead_ms):
    answer = Answer(c.Kind.ACK_START, 'mocap', round(after_ms * 1e6), round(deviation_ms * 1e6))
    assert answer.ahead_ns == pytest.approx(ahead_ms * 1e6)
