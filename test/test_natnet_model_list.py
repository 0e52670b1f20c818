# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""No pose is published under the name of a body that had its streaming id before."""

from hypothesis import given, settings, strategies as st
from natnet_kit import following, simulated, Talk
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, FRAME_MODELS_CHANGED, MessageId, NatNetBody, NatNetFrame)
import pytest
from relay_kit import Relay
from transport_kit import wait_until

MS = 1_000_000
STEP = 10 * MS
V = (4, 1)


class Motive:
    """
    A server and a client without sockets, on a network that a test arranges.

    :ivar models: streaming id by name, as the server has them.
    :ivar published: (frame, name, body of the server that had the pose) of every named body.
    """

    def __init__(self, **models):
        self.models = dict(models)
        self.now = 0
        self.number = 0
        self.talk = Talk()
        self.answers = []
        self.published = []
        self._owners = {}
        self.serial = 0
        self.requests = 0
        self.turn()

    def definitions(self):
        return encode_definitions(Definitions(
            tuple(BodyDefinition(name, i) for name, i in self.models.items())), V)

    def turn(self, answer_ms=2.0):
        """Send what is due; each request is answered after a time, None: never."""
        for datagram in self.talk.due(self.now):
            if codec.decode_message(datagram)[0] == MessageId.REQUEST_MODEL_DEFINITIONS:
                self.requests += 1
                if answer_ms is not None:
                    self.answers.append((self.now + round(answer_ms * MS), self.definitions()))
        self.look()
        while self.answers and self.answers[0][0] <= self.now:
            self.receive(self.answers.pop(0)[1])

    def receive(self, datagram):
        """Let a datagram arrive, and note which poses have which name now."""
        self.talk.receive(datagram, self.now)
        self.look()

    def look(self):
        # A frame has its serial number as time (s), and a body its id as x.
        for item, _ in self.talk.passed:
            serial = item.sender_time_ns // 10**9
            self.published += [(serial, body.name, self._owners[serial, body.position[0]])
                               for body in item.bodies]
        self.talk.passed.clear()

    def frame(self, params=0, lost=False, number=None, models=None):
        """Make a frame of the bodies that are there, and take it unless it is lost."""
        self.number = self.number + 1 if number is None else number
        models = self.models if models is None else models
        bodies = [NatNetBody(i, i, 0, 0, 0, 0, 0, 1, 0, 1) for i in models.values()]
        self.serial += 1
        data = encode_frame(NatNetFrame(
            self.number, bodies, [], 0.0, 0, 0, self.serial, 0, 0, 0, 0, 0, params), V)
        self._owners.update({(self.serial, i): name for name, i in models.items()})
        if not lost:
            self.receive(codec.encode_message(7, data[4:]))
        return self.names_of(self.serial)

    def names_of(self, serial):
        """List the names that have been published for a frame until now."""
        return sorted(name for frame, name, _ in self.published if frame == serial)

    def step(self, params=0, lost=False, answer_ms=2.0, ms=10.0, models=None):
        """Let time pass to the next frame."""
        end = self.now + round(ms * MS)
        self.now += MS // 100
        self.turn(answer_ms)
        while self.now < end:
            moments = [self.talk.driver.next_due_ns, *(at for at, _ in self.answers[:1])]
            self.now = min(end, *(max(at, self.now + 1) for at in moments))
            self.turn(answer_ms)
        return self.frame(params, lost, models=models)

    def right(self):
        return all(name == owner for _, name, owner in self.published)

    def silent(self, frames, **step):
        """Let frames pass without an answer; give the names of each."""
        return [self.step(answer_ms=None, **step) for _ in range(frames)]

    def settle(self):
        """Let the server answer; give the names, all of which were right all the time."""
        for _ in range(40):
            self.step()
        assert self.right()
        return self.step()


@pytest.fixture
def motive():
    """Give a server whose wand has streaming id 1, and which has sent a frame."""
    motive = Motive(Wand=1, Box=2)
    for _ in range(10):
        motive.step()
    assert motive.step() == ['Box', 'Wand']
    return motive


@pytest.mark.parametrize('changed', [False, True])
def test_a_lost_frame_may_have_had_the_flag(motive, changed):
    """The next frame waits for definitions; a body that kept its name loses no pose."""
    for _ in range(70):
        motive.step()
    if changed:
        motive.models = {'Intruder': 1, 'Box': 2}
    motive.step(FRAME_MODELS_CHANGED * changed, lost=True)
    assert motive.step() == []
    serial = motive.serial
    motive.step()
    assert motive.names_of(serial) == (['Box'] if changed else ['Box', 'Wand'])
    motive.settle()


def test_a_frame_waits_for_its_names_for_100_ms_only(motive):
    motive.step(FRAME_MODELS_CHANGED)
    first = motive.serial
    motive.silent(9)
    motive.settle()
    assert motive.names_of(first) == [] and motive.names_of(first + 5) == ['Box', 'Wand']


def test_a_flagged_change_withholds_names_until_newer_definitions(motive):
    motive.models = {'Intruder': 1, 'Box': 2}
    assert motive.step(FRAME_MODELS_CHANGED) == []
    assert motive.silent(2) == [[], []]
    seen = [motive.step() for _ in range(40)]
    # The id with another name is withheld for longer than the other.
    assert ['Box'] in seen and seen[-1] == ['Box', 'Intruder']


def test_an_answer_under_way_at_the_change_confirms_nothing(motive):
    motive.talk.driver.models.ask(motive.now)
    motive.step(answer_ms=12.0)    # answered with the old list, which arrives after the change
    motive.models = {'Intruder': 1}
    motive.step(FRAME_MODELS_CHANGED, answer_ms=None)
    assert not any(motive.silent(20))
    assert motive.settle() == ['Intruder']


def test_only_an_id_that_left_and_came_back_is_withheld(motive):
    """From a server that sends no flag."""
    motive.models = {'Box': 2}
    assert motive.silent(1) == [['Box']]
    motive.models = {'Box': 2, 'Intruder': 1}
    assert motive.silent(10) == [['Box']] * 10
    assert motive.settle() == ['Box', 'Intruder']


@pytest.mark.parametrize('before_ms', [10.0, 1_000.0])
def test_after_a_pause_names_are_confirmed_again(motive, before_ms):
    """Also if an earlier interval was long."""
    motive.step(ms=before_ms)
    motive.settle()
    motive.models = {'Intruder': 1}    # another project, without a word
    assert motive.silent(1, ms=600.0) == [[]]
    assert motive.settle() == ['Intruder']


def test_frames_that_waited_in_vain_do_not_make_their_ids_unknown(motive):
    """After a pause, frames before the request have no names; the definitions have their ids."""
    motive.settle()
    motive.silent(1, ms=1_600.0)
    motive.silent(3)
    motive.settle()
    assert not motive.talk.driver.known.unnamed


def test_numbers_that_start_again_mean_a_new_list(motive):
    motive.settle()
    motive.settle()
    motive.models = {'Intruder': 1}
    motive.number = 0
    assert motive.silent(1) == [[]]
    assert motive.settle() == ['Intruder']


def test_a_frame_overtaken_by_the_change_is_left_out(motive):
    old = dict(motive.models)
    motive.models = {'Intruder': 1}
    motive.number += 1
    missing = motive.number
    motive.step(FRAME_MODELS_CHANGED)
    motive.settle()
    assert motive.frame(number=missing, models=old) == []


def test_a_slow_stream_is_no_pause(motive):
    found = [motive.step(ms=1_000.0) for _ in range(6)]
    assert found[2:] == [['Box', 'Wand']] * 4


def test_a_flag_that_stays_set_withholds_little_and_asks_rarely(motive):
    found = [motive.step(FRAME_MODELS_CHANGED) for _ in range(500)]
    assert found[100:] == [['Box', 'Wand']] * 400
    assert motive.requests <= 40    # in 5 s


def test_a_list_that_always_changes_does_not_load_the_server(motive):
    for number in range(1_000):
        motive.step(models={'Wand': 1} if number % 2 else None)
    assert motive.requests <= 210    # in 10 s


def test_a_new_name_without_a_flag_is_noticed_within_seconds(motive):
    motive.models = {'Renamed': 1, 'Box': 2}
    found = [motive.step() for _ in range(350)]
    first = found.index(['Box', 'Renamed'])
    assert 0 < first < 330
    assert {*map(tuple, found[:first])} == {('Box', 'Wand'), ('Box',)}
    assert {*map(tuple, found[first:])} == {('Box', 'Renamed')}


def test_a_stream_without_changes_asks_rarely(motive):
    for _ in range(100):
        motive.step()
    motive.requests = 0
    for _ in range(3_000):
        motive.step()
    assert 8 <= motive.requests <= 11    # in 30 s


def test_the_time_without_confirmed_names_is_counted(motive):
    motive.step(FRAME_MODELS_CHANGED)
    for number in range(1, 300):
        motive.silent(1)
        assert motive.talk.driver.models.unconfirmed_s(motive.now) == pytest.approx(number / 100)
    motive.settle()    # after so long, requests are half a second apart
    motive.settle()
    assert not motive.talk.driver.models.unconfirmed_s(motive.now)


EVENTS = st.lists(st.tuples(
    st.sampled_from(['none', 'none', 'none', 'reuse', 'leave', 'swap', 'pause']),
    st.sampled_from([2.0, 2.0, 30.0, None]),
    st.integers(1, 12), st.booleans()), min_size=1, max_size=25)


@settings(deadline=None, max_examples=60)
@given(EVENTS)
def test_no_pose_has_the_name_of_another_body(events):
    motive = Motive(a=1, b=2, c=3)
    serial = 0
    for kind, answer_ms, frames, lost in events:
        flag = 0
        names = list(motive.models)
        if kind == 'reuse' and names:
            serial += 1
            motive.models[f'new{serial}'] = motive.models.pop(names[0])
            flag = FRAME_MODELS_CHANGED
        elif kind == 'leave' and names:
            motive.models.pop(names[-1])
            flag = FRAME_MODELS_CHANGED
        elif kind == 'swap' and len(names) > 1:
            for _ in range(11):    # a swap that is undone within 100 ms may go unnoticed
                motive.step(answer_ms=answer_ms)
            one, two = names[:2]
            motive.models[one], motive.models[two] = motive.models[two], motive.models[one]
            flag = FRAME_MODELS_CHANGED
        elif kind == 'pause':
            motive.step(ms=700.0, answer_ms=answer_ms)
        motive.step(flag, lost, answer_ms)
        for _ in range(frames):
            motive.step(answer_ms=answer_ms)
    assert motive.right()
    for _ in range(8):
        motive.step(ms=400.0)
    assert motive.step() == sorted(motive.models)


@pytest.mark.network
def test_a_body_that_takes_over_an_id_loses_the_old_name():
    unanswered = [3]

    def lose_requests(data, answer):
        message_id, _ = codec.decode_message(data)
        if message_id == MessageId.REQUEST_MODEL_DEFINITIONS and changed and unanswered[0]:
            unanswered[0] -= 1
            return None
        return data

    changed = []
    with simulated(['Wand', 'Box'], paced=False) as server, \
            Relay(server.port, lose_requests) as relay, following(relay.port) as (sink, client):
        def arrived(name):
            server.send_frame()
            return any(body.name == name for body in sink.bodies)

        wait_until(lambda: arrived('Wand'))
        changed.append(server.send_frame().number + 1)
        server.serving('natnet').world.set_models(['Intruder', 'Box'])
        wait_until(lambda: arrived('Intruder'))
        assert client.status().known.bodies == ('Box', 'Intruder')
    number = 0
    for report in sink.events:
        number = getattr(report, 'number', number)
        assert getattr(report, 'sender', '') != 'Wand' or number < changed[0]
    assert not unanswered[0]
