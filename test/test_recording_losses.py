# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a recorder counts and chooses: steps of clocks, lost messages, topics, names."""

from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.stream.clock.difference import difference_ns
from optitrack_vrpn.takes.record.losses import ClockSteps, LossTimes, SequenceWatch
from optitrack_vrpn.takes.topics import safe_name, TopicChoice
import pytest
from recording_kit import BEGIN_NS, POSE


def test_a_step_of_the_clock_is_noticed_and_slewing_is_not():
    steps = ClockSteps()
    for second in range(100):    # chrony slews by up to 0.5 ms/s here
        assert steps.look(BEGIN_NS, BEGIN_NS + second * 500_000) == 0
    assert steps.look(BEGIN_NS, BEGIN_NS - 3 * 10**9) == pytest.approx(-3e9, abs=5e7)
    assert len(steps.steps) == 1


def test_an_interrupted_reading_of_two_clocks_is_repeated():
    """Two interruptions of 5 ms; the clocks differ by 7 s."""
    raw_ns = [1_000_000]
    pauses = [5_000_000, 5_000_000, 0]

    def raw_clock():
        raw_ns[0] += 500
        return raw_ns[0]

    def system_clock():
        now_ns = raw_ns[0] + 7_000_000_000
        raw_ns[0] += pauses.pop(0)
        return now_ns
    assert abs(difference_ns(raw_clock, system_clock) - 7_000_000_000) <= 500
    assert not pauses


def test_lost_messages_are_counted_by_their_numbers():
    watch = SequenceWatch()
    # at 1 the publisher was started again
    for number in (7, 8, 10, 14, 15, 1, 2):
        watch.note(number)
    assert watch.lost == 4 and not watch.uncountable
    watch.forget()
    assert watch.note(90) == []
    watch.note(None)
    assert watch.uncountable


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), st.data())
def test_losses_of_several_publishers_are_counted(firsts, data):
    """Each numbers its own messages, in any order; all go on at the end."""
    watch, times = SequenceWatch(), LossTimes()
    # Counters that meet while messages are lost can hide a loss.
    numbers = {one: one * 9000 + 1 for one in firsts}
    order = data.draw(st.lists(st.tuples(
        st.sampled_from([*numbers]), st.sampled_from([0, 0, 0, 1, 7, 290])), max_size=12))
    everyone = [(one, 0) for one in numbers]
    for second, (publisher, gap) in enumerate([*everyone * 2, *order, *everyone * 2]):
        for count, at_ns in watch.note(numbers[publisher] + gap, second * 10**9):
            times.note('/a', count, at_ns)
        numbers[publisher] += gap + 1
    assert watch.lost == sum(times.lost.values()) == sum(gap for _, gap in order)


@pytest.mark.parametrize('losses', [6, 50])
def test_losses_of_one_publisher_do_not_displace_one_that_sends_rarely(losses):
    watch = SequenceWatch()
    for number in (1, 9001, 18001, 27001, 2, 9002, 18002, 27002):
        watch.note(number)
    for count in range(losses):    # one message in two
        watch.note(9004 + 2 * count)
    watch.note(4)    # lost: 3
    assert watch.lost == losses + 1
    for number in (18003, 27003, 5, 9003 + 2 * losses):
        assert watch.note(number) == []


def test_a_publisher_that_appears_erases_no_loss_and_makes_none():
    watch = SequenceWatch()
    for number in (500, 501, 510, 511):    # eight lost
        watch.note(number)
    for number in (1, 512, 2, 513, 3, 514):    # a respawned node, beside the first
        watch.note(number)
    assert watch.lost == 8
    for number in (9000, 515, 4, 9001, 516):    # one that has run for long
        watch.note(number)
    assert watch.lost == 8
    watch.restart()
    for number in (517, 9002, 9007):
        watch.note(number)
    assert watch.lost == 4    # of this recording alone


@settings(max_examples=examples(200), deadline=None)
@given(begin=st.integers(2, 2000), lost=st.integers(1, 2000), more=st.integers(1, 2000),
       again=st.integers(1, 5000))
def test_a_node_that_is_started_anew_takes_no_counted_loss_back(begin, lost, more, again):
    """As found: the numbers of the new node ran through the gap of the one before."""
    watch = SequenceWatch()
    for number in (*range(1, begin + 1), *range(begin + lost + 1, begin + lost + more + 1)):
        watch.note(number)
    assert watch.lost == lost
    for number in range(1, again + 1):
        watch.note(number)
    assert watch.lost == lost


def test_losses_are_kept_by_second_and_topic_within_bounds():
    times = LossTimes()
    for name, count, at_s in (('/b', 2, 7.0), ('/a', 1, 5.2), ('/a', 3, 5.9), ('/a', 1, 6.0)):
        times.note(name, count, round(at_s * 1e9))
    assert times.text() == '5 /a 4, 6 /a 1, 7 /b 2'
    for second in range(10_000):
        times.note('/c', 1, second * 10**9)
    assert len(times.lost) == 2000


@pytest.mark.parametrize('choice, topic_name, type_name, wanted', [
    (TopicChoice(), '/wand/pose', POSE, True),
    (TopicChoice(), '/camera/image', 'sensor_msgs/msg/Image', False),
    (TopicChoice(topics=('camera/*',)), '/camera/image', 'sensor_msgs/msg/Image', True),
    (TopicChoice(bodies=('drone*',)), '/wand/pose', POSE, False),
    (TopicChoice(bodies=('drone*',)), '/drone/left/pose', POSE, True),
    (TopicChoice(bodies=('drone*',)), '/lab/drone_1/odom', 'nav_msgs/msg/Odometry', True),
    (TopicChoice(bodies=('drone*',)), '/tf', 'tf2_msgs/msg/TFMessage', True),
    (TopicChoice(), '/lab/_tf_view', 'tf2_msgs/msg/TFMessage', False),
    (TopicChoice(bodies=('drone*',)), '/mocap4r2_control',
     'mocap4r2_control_msgs/msg/Control', True),
])
def test_topics_are_chosen_by_type_and_body(choice, topic_name, type_name, wanted):
    assert choice.wants(topic_name, type_name) is wanted


@given(st.text())
def test_any_session_id_makes_a_safe_name(text):
    name = safe_name(text)
    assert '/' not in name
    assert not name.startswith('.')
    assert len(name) <= 60
