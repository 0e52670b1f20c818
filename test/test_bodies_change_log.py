# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bodies that change at the same time share one line of the log."""

from hypothesis import given, strategies as st
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.stream.bodies.states import ChangeLog, State, StateChange
from pipeline_kit import HOST, make_pipeline, MS, pose_report, S
import pytest

NAMES = [f'drone {n}' for n in range(20)]


def change(body, after, before=State.TRACKED):
    return StateChange(body, 0, before, after, 'because')


class Session:
    """Twenty bodies at 100 Hz, each in its own datagram, 0.2 ms apart."""

    def __init__(self, mode='tracking'):
        self.pipeline = make_pipeline(mode)
        self.now = 0
        self.lines = []
        self.out = 0

    def run(self, seconds, names=NAMES, sender_start=100 * S):
        begin = self.now
        while self.now < begin + seconds * S:
            for k, name in enumerate(names):
                arrival = self.now + k * MS // 5
                t = (self.now - begin) / S
                self.out += len(self.pipeline.process([pose_report(
                    name, sender_start + self.now - begin,
                    (k + 0.01 * t, 1.0, 0.0))], arrival, HOST).samples)
                # The tick comes at any moment.
                if arrival % (100 * MS) == 3 * MS // 5:
                    self.tick(arrival)
            if not names and self.now % (100 * MS) == 0:
                self.tick(self.now + 3 * MS // 5)
            self.now += 10 * MS

    def tick(self, now):
        self.pipeline.tick(now)
        self.lines += [(n.severity, n.text) for n in self.pipeline.take_events()]

    def unread(self):
        lines, self.lines = [line for line in self.lines if ' -> ' in line[1]], []
        return lines


@pytest.mark.parametrize('stopped_after', [0.95, 1.0, 1.03, 1.06])
def test_a_lost_server_is_one_warning(stopped_after):
    session = Session()
    session.run(stopped_after)
    session.unread()
    session.run(3.0, names=[])
    ((severity, text),) = session.unread()
    assert severity == WARN and text.startswith('20 bodies (') and 'TRACKED -> STALE' in text
    assert "'drone 4'" in text and 'and 15 more' in text


@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'sender', 'arrival'])
def test_bodies_are_reported_as_seen_again_after_a_restart(mode):
    session = Session(mode)
    session.run(2.0)
    session.run(3.0, names=[])
    session.unread()
    session.pipeline.reconnected()
    session.out = 0
    session.run(1.0, sender_start=5 * S)
    assert session.out >= 20 * 40    # the first half second may come out of a buffer
    lines = session.unread()
    assert {severity for severity, _ in lines} == {INFO} and len(lines) <= 2
    assert all('STALE -> TRACKED' in text for _, text in lines)


def test_a_restarted_clock_is_one_interruption_of_all_bodies():
    session = Session()
    session.run(2.0)
    session.unread()
    session.out = 0
    session.run(1.0, sender_start=5 * S)
    # No pose goes out until the restart is recognised.
    lines = [text for _, text in session.unread()]
    assert len(lines) == 2 and all(line.startswith('20 bodies') for line in lines)
    assert "the sender's clock restarted" in lines[0] and '-> TRACKED' in lines[1]
    assert session.out >= 20 * 40


def test_one_silent_body_has_its_own_line():
    log = ChangeLog()
    stale = change('wand', State.STALE)
    assert log.take([stale], [State.STALE, State.TRACKED]) == []
    (event,) = log.take([], [State.STALE, State.TRACKED])
    assert event.text == "body 'wand': TRACKED -> STALE: because"
    assert event.severity == WARN and event.data == (stale,)
    assert log.take([], [State.STALE, State.TRACKED]) == []


def test_other_changes_are_reported_at_once_and_by_kind():
    log = ChangeLog()
    events = log.take(
        [change('a', State.JUMPED), change('b', State.FROZEN), change('c', State.JUMPED),
         change('d', State.TRACKED, State.NEW)], [State.JUMPED])
    assert [(event.severity, event.text) for event in events] == [
        (WARN, "2 bodies ('a', 'c'): TRACKED -> JUMPED: because"),
        (WARN, "body 'b': TRACKED -> FROZEN: because"),
        (INFO, "body 'd': NEW -> TRACKED: because")]
    assert len({event.key for event in events}) == 3


def test_a_detail_that_differs_between_the_bodies_of_a_line_names_its_body():
    jumps = [change('a', State.JUMPED)._replace(detail='0.5 m'),
             change('b', State.JUMPED)._replace(detail='0.8 m')]
    (event,) = ChangeLog().take(jumps, [State.JUMPED])
    assert event.text == "2 bodies ('a', 'b'): TRACKED -> JUMPED: 'a' 0.5 m"


@given(st.lists(st.lists(st.sampled_from('abc'), max_size=6), max_size=6))
def test_the_lines_of_a_body_keep_their_order(ticks):
    """Each name changes the state of its body; an empty tick follows, as time does."""
    log, states, made, reported = ChangeLog(), dict.fromkeys('abc', State.TRACKED), [], []
    for tick in [*ticks, [], []]:
        changes = []
        for body in tick:
            before = states[body]
            after = State.STALE if before is State.TRACKED else State.TRACKED
            states[body] = after
            changes.append(change(body, after, before))
        made += changes
        reported += [one for event in log.take(changes, states.values()) for one in event.data]
    for body in 'abc':
        assert [one for one in reported if one.body == body] == [
            one for one in made if one.body == body]


def test_a_pose_that_time_alone_has_accepted_is_a_warning_in_a_line_of_its_own():
    returned = change('a', State.TRACKED, State.JUMPED)
    events = ChangeLog().take(
        [returned, returned._replace(body='b', doubtful=True)], [State.TRACKED] * 2)
    assert [event.severity for event in events] == [INFO, WARN]
