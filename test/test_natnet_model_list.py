# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""No pose is published under the name of a body that had its streaming id before."""

from hypothesis import given, settings, strategies as st
from natnet_kit import client_config, simulated, Sink
from optitrack_vrpn.natnet import codec
from optitrack_vrpn.natnet.connection import ClientConnection
from optitrack_vrpn.natnet.constants import FRAME_MODELS_CHANGED, REQUEST_MODEL_DEFINITIONS
from optitrack_vrpn.natnet.definitions import encode_definitions
from optitrack_vrpn.natnet.encoding import encode_frame
from optitrack_vrpn.natnet.factory_io import make_backend
from optitrack_vrpn.natnet.messages import (
    Body, BodyDefinition, Definitions, Frame, ServerInfo)
from optitrack_vrpn.natnet.settings import NatNetConfig
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
    :ivar published: (name, body of the server that had the pose) of every named body.
    """

    def __init__(self, **models):
        self.models = dict(models)
        self.now = 0
        self.number = 0
        self.connection = ClientConnection(0)
        self.connection.receive(codec.encode_server_info(ServerInfo(
            'Motive', (3, 1, 0, 0), V, 10**7, 1511, False, '')), 0)
        self.answers = []
        self.published = []
        self.requests = 0
        self.turn()

    def definitions(self):
        return encode_definitions(Definitions(
            tuple(BodyDefinition(name, i) for name, i in self.models.items())), V)

    def turn(self, answer_ms=2.0):
        """Send what is due; each request is answered after a time, None: never."""
        for datagram in self.connection.due(self.now):
            if codec.decode_message(datagram)[0] == REQUEST_MODEL_DEFINITIONS:
                self.requests += 1
                if answer_ms is not None:
                    self.answers.append((self.now + round(answer_ms * MS), self.definitions()))
        while self.answers and self.answers[0][0] <= self.now:
            self.connection.receive(self.answers.pop(0)[1], self.now)

    def frame(self, params=0, lost=False, number=None, models=None):
        """Make a frame of the bodies that are there, and take it unless it is lost."""
        self.number = self.number + 1 if number is None else number
        models = self.models if models is None else models
        bodies = [Body(i, 0, 0, 0, 0, 0, 0, 1, 0, 1) for i in models.values()]
        data = encode_frame(Frame(
            self.number, bodies, [], 0.0, 0, 0, 0.0, 1, 1, 1, 0, 0, params), V)
        if lost:
            return []
        events = self.connection.receive(codec.encode_message(7, data[4:]), self.now)
        owners = {i: name for name, i in models.items()}
        names = self.connection.models.names
        found = [(names[body[0]], owners[body[0]]) for event in events
                 if isinstance(event, Frame) for body in event.bodies if body[0] in names]
        self.published += found
        return sorted(name for name, _ in found)

    def step(self, params=0, lost=False, answer_ms=2.0, ms=10.0, models=None):
        """Let time pass to the next frame."""
        end = self.now + round(ms * MS)
        while self.now < end:
            moments = [self.connection.next_due_ns(), *(at for at, _ in self.answers[:1])]
            self.now = min([end, *(at for at in moments if at > self.now)])
            self.turn(answer_ms)
        return self.frame(params, lost, models=models)

    def right(self):
        return all(name == owner for name, owner in self.published)


def test_a_flagged_change_withholds_names_until_definitions_that_are_newer():
    motive = Motive(Wand=1, Box=2)
    assert motive.step() == ['Box', 'Wand']
    motive.models = {'Intruder': 1, 'Box': 2}
    assert motive.step(FRAME_MODELS_CHANGED) == []
    assert motive.step(answer_ms=None) == []
    assert motive.step(answer_ms=None) == []
    seen = [motive.step() for _ in range(40)]
    assert ['Box'] in seen and seen[-1] == ['Box', 'Intruder']
    assert motive.right()


def test_an_answer_that_was_under_way_at_the_change_confirms_nothing():
    motive = Motive(Wand=1)
    motive.step()
    motive.connection.models.ask(motive.now)
    motive.step(answer_ms=12.0)    # answered with the old list, which arrives after the change
    motive.models = {'Intruder': 1}
    motive.step(FRAME_MODELS_CHANGED, answer_ms=None)
    assert not any(motive.step(answer_ms=None) for _ in range(20))
    for _ in range(40):
        motive.step()
    assert motive.published[-1] == ('Intruder', 'Intruder')
    assert motive.right()


def test_an_id_that_left_and_came_back_is_withheld_alone_though_the_flag_was_lost():
    motive = Motive(Wand=1, Box=2)
    motive.step()
    motive.models = {'Box': 2}
    motive.step(FRAME_MODELS_CHANGED, lost=True)
    assert motive.step(answer_ms=None) == ['Box']
    motive.models = {'Box': 2, 'Intruder': 1}
    motive.step(FRAME_MODELS_CHANGED, lost=True)
    assert [motive.step(answer_ms=None) for _ in range(10)] == [['Box']] * 10
    for _ in range(40):
        motive.step()
    assert motive.step() == ['Box', 'Intruder']
    assert motive.right()


def test_after_a_pause_of_the_stream_names_are_confirmed_again():
    motive = Motive(Wand=1)
    motive.step()
    motive.models = {'Intruder': 1}    # another project, without a word
    assert motive.step(ms=600.0, answer_ms=None) == []
    for _ in range(40):
        motive.step()
    assert motive.published[-1] == ('Intruder', 'Intruder')
    assert motive.right()


def test_numbers_that_start_again_are_a_new_list():
    motive = Motive(Wand=1)
    for _ in range(80):
        motive.step()
    motive.models = {'Intruder': 1}
    motive.number = 0
    assert motive.step(answer_ms=None) == []
    for _ in range(40):
        motive.step()
    assert motive.published[-1] == ('Intruder', 'Intruder')
    assert motive.right()


def test_a_frame_that_the_change_has_overtaken_is_left_out():
    motive = Motive(Wand=1)
    motive.step()
    old = dict(motive.models)
    motive.models = {'Intruder': 1}
    motive.number += 1
    motive.step(FRAME_MODELS_CHANGED)
    for _ in range(40):
        motive.step()
    motive.now += MS
    assert motive.frame(number=motive.number - 41, models=old) == []
    assert motive.connection.counters.overtaken == 1
    assert motive.right()


def test_a_slow_stream_is_not_taken_for_one_that_pauses():
    motive = Motive(Wand=1)
    found = [motive.step(ms=1_000.0) for _ in range(6)]
    assert found[2:] == [['Wand']] * 4


def test_a_flag_that_stays_set_withholds_nothing_for_long_and_asks_rarely():
    motive = Motive(Wand=1)
    found = [motive.step(FRAME_MODELS_CHANGED) for _ in range(500)]
    assert found[100:] == [['Wand']] * 400
    assert motive.requests <= 20    # in 5 s


def test_a_list_that_changes_all_the_time_does_not_load_the_server():
    motive = Motive(Wand=1, Box=2)
    for number in range(1_000):
        motive.step(models={'Wand': 1} if number % 2 else None)
    assert motive.requests <= 30    # in 10 s


def test_a_change_in_frames_that_were_lost_is_noticed_later():
    motive = Motive(Wand=1)
    for _ in range(70):
        motive.step()
    motive.models = {'Intruder': 1}
    motive.step(FRAME_MODELS_CHANGED, lost=True)
    for _ in range(50):
        motive.step()
    assert motive.step() == ['Intruder']


def test_names_that_are_withheld_for_long_are_reported_once():
    motive = Motive(Wand=1)
    motive.step()
    motive.step(FRAME_MODELS_CHANGED)
    models = motive.connection.models
    reported = []
    for _ in range(300):
        motive.step(answer_ms=None)
        reported.append(models.overdue(motive.now))
    assert sum(reported) == 1


EVENTS = st.lists(st.tuples(
    st.sampled_from(['none', 'none', 'none', 'reuse', 'leave', 'swap', 'pause']),
    st.sampled_from([2.0, 2.0, 30.0, None]),
    st.integers(1, 12)), min_size=1, max_size=25)


@settings(deadline=None, max_examples=60)
@given(EVENTS)
def test_no_pose_has_the_name_of_another_body_whatever_changes_and_is_lost(events):
    motive = Motive(a=1, b=2, c=3)
    serial = 0
    for kind, answer_ms, frames in events:
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
            one, two = names[:2]
            motive.models[one], motive.models[two] = motive.models[two], motive.models[one]
            flag = FRAME_MODELS_CHANGED
        elif kind == 'pause':
            motive.step(ms=700.0, answer_ms=answer_ms)
        motive.step(flag, answer_ms=answer_ms)
        for _ in range(frames):
            motive.step(answer_ms=answer_ms)
    assert motive.right()
    for _ in range(8):
        motive.step(ms=400.0)
    assert motive.step() == sorted(motive.models)


@pytest.mark.network
def test_a_body_that_takes_over_an_id_is_never_published_under_the_old_name():
    unanswered = [3]

    def lose_requests(data, answer):
        message_id, _ = codec.decode_message(data)
        if message_id == REQUEST_MODEL_DEFINITIONS and changed and unanswered[0]:
            unanswered[0] -= 1
            return None
        return data

    changed = []
    with simulated(['Wand', 'Box'], paced=False) as server, \
            Relay(server.natnet_port, lose_requests) as relay:
        def arrived(name):
            server.send_frame()
            return any(body.sender == name for body in sink.bodies)

        sink = Sink()
        client = make_backend('natnet', client_config(), NatNetConfig(port=relay.port), sink)
        client.start()
        try:
            wait_until(lambda: arrived('Wand'))
            changed.append(server.send_frame().number + 1)
            server.natnet.world.set_models(['Intruder', 'Box'])
            wait_until(lambda: arrived('Intruder'))
        finally:
            client.stop()
    reports = [event for events, _, _ in sink.batches for event in events]
    number = 0
    for report in reports:
        number = getattr(report, 'number', number)
        assert getattr(report, 'sender', '') != 'Wand' or number < changed[0]
    assert not unanswered[0]
