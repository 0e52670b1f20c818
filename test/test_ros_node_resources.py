# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the node in this process holds: it releases all of it, on the right thread."""

import random
import threading
import time

from conftest import BOTH_PROTOCOLS
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.node.publishers import Publishers
from optitrack_vrpn.node.status import StatusReporter
from optitrack_vrpn.node.supervision import Supervision
import pytest
from rosgraph import NodeHere, wait_until
from world import bug, held, logged, parameters, refusing, released, WatchedNode

pytestmark = [pytest.mark.ros, pytest.mark.network]


MOVES = {
    'configure': {'unconfigured': 'inactive'}, 'activate': {'inactive': 'active'},
    'deactivate': {'active': 'inactive'}, 'cleanup': {'inactive': 'unconfigured'},
}


@BOTH_PROTOCOLS
def test_a_hundred_transitions_in_any_order_leak_nothing(motive, protocol):
    """Possible and impossible ones; bodies stream all the while, and come and go with them."""
    chance = random.Random(5)
    port = motive('Rigid Body 1', 'wand', protocol=protocol)
    with NodeHere(parameters(port, protocol)) as here:
        node = here.node

        def trigger(move):
            result = here.run(getattr(node, f'trigger_{move}'))
            # rclpy raises where there is no such transition; from Kilted on it gives ERROR.
            if isinstance(result, Exception) or result.name == 'ERROR':
                return 'impossible'
            return result.name
        for move in MOVES:
            assert trigger(move) == 'SUCCESS'
        before = held(node)
        assert not any('pose' in topic for topic in before['publishers'])
        state, tried, bodies_seen = 'unconfigured', set(), False
        for _ in range(100):
            possible = [move for move in MOVES if state in MOVES[move]]
            move = chance.choice(possible if chance.random() < 0.7 else list(MOVES))
            expected = MOVES[move].get(state)
            assert trigger(move) == ('SUCCESS' if expected else 'impossible'), (state, move)
            tried.add((state, move))
            state = expected or state
            if chance.random() < 0.4:
                time.sleep(chance.random() * 0.1)    # somewhere between request and first pose
            if not bodies_seen and state == 'active':
                # Here once for sure: elsewhere the next move may come before the first pose.
                wait_until(lambda: len(list(node.publishers)) > len(before['publishers']) + 4)
                bodies_seen = True
        assert len(tried) == 12 and bodies_seen
        if state == 'active':
            trigger('deactivate')
        if state != 'unconfigured':
            trigger('cleanup')
        wait_until(lambda: here.run(lambda: released(node, before)), what=f'release of {before}')
    assert not [thread for thread in threading.enumerate() if thread.name.endswith(' client')]


def test_a_bug_in_activate_releases_everything(user, motive, monkeypatch, console):
    with NodeHere(parameters(motive('wand'))) as here:
        # diagnostic_updater, where it is installed, stays from the first time on
        assert user.transition('configure') and user.transition('cleanup')
        before = held(here.node)
        assert user.transition('configure')
        wait_until(lambda: '/wand/pose' in user.topics())
        with monkeypatch.context() as patch:
            patch.setattr(Publishers, 'send_static', bug)
            assert not user.transition('activate')
        logged(console, 'ArithmeticError: made up')
        assert user.state() == 'unconfigured'
        wait_until(lambda: released(here.node, before), what='release')


@pytest.mark.parametrize('place, name', [
    (StatusReporter, 'observe'), (Supervision, 'stop'), (StatusReporter, 'retire')])
def test_a_bug_in_one_step_leaves_the_others_to_release(
        user, motive, monkeypatch, console, place, name):
    tickers = []

    def ticker_of(*arguments, **options):
        tickers.append(Worker(*arguments, **options))
        return tickers[-1]
    with NodeHere(parameters(motive('wand')), ticker_of=ticker_of) as here:
        assert user.transition('configure') and user.transition('cleanup')
        before = held(here.node)
        with monkeypatch.context() as patch:
            patch.setattr(place, name, bug)
            if user.transition('configure'):
                wait_until(lambda: '/wand/pose' in user.topics())
                assert not user.transition('cleanup')
                tickers[-1].stop()
        logged(console, 'ArithmeticError: made up')
        assert user.state() == 'unconfigured'
        wait_until(lambda: here.run(lambda: released(here.node, before)), what='release')
        assert user.transition('configure') and user.transition('activate')
        user.poses('/wand/pose').wait(1)


def test_an_impossible_server_name_releases_everything(user, console):
    with NodeHere(parameters(3883, server='motive pc')) as here:
        before = held(here.node)
        assert not user.transition('configure')
        logged(console, "cannot configure: server is 'motive pc'")
        assert user.state() == 'unconfigured'
        wait_until(lambda: released(here.node, before), what='release')
        assert user.set(server='127.0.0.1') == ''
        assert user.transition('configure')


def test_events_of_destroyed_publishers_can_still_be_waited_for(user, motive):
    """An executor with several threads reads them, and then another one destroys publishers."""
    with NodeHere(parameters(motive('wand'), autostart=True)) as here:
        user.poses('/wand/pose').wait(1)
        before = list(here.node.waitables)
        assert user.transition('deactivate') and user.transition('cleanup')
        gone = [event for event in before if event not in list(here.node.waitables)]
        assert gone
        for event in gone:
            with event:
                pass


def test_a_node_that_is_destroyed_during_a_transition_leaves_nothing(motive, monkeypatch):
    listing, leaving = threading.Event(), threading.Event()
    topics = Publishers.topics

    def slow(self):
        listing.set()
        assert leaving.wait(30.0)
        return topics(self)
    monkeypatch.setattr(Publishers, 'topics', slow)
    here = NodeHere(parameters(motive('wand'), autostart=True))
    assert listing.wait(30.0)
    destroying = threading.Thread(target=here.node.destroy_node)
    destroying.start()
    destroying.join(0.1)
    leaving.set()
    destroying.join(30.0)
    here.close()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name == 'ticker' or name.endswith(' client')]


def test_publishers_are_destroyed_by_the_executor(
        user, motive, monkeypatch):
    """It takes time, and other threads hold the lock for which poses wait."""
    prepare = Publishers.prepare
    denied, switched = threading.Event(), threading.Event()
    switching = threading.Event()

    def slow(self, channel):
        output = prepare(self, channel)
        if channel.names.motive == 'denied':
            assert denied.wait(30.0)
        elif channel.names.motive == 'switched':
            switching.set()
            assert switched.wait(30.0)
        return output
    monkeypatch.setattr(Publishers, 'prepare', slow)
    with NodeHere(parameters(motive('wand', 'half', 'denied', 'switched')), cls=WatchedNode,
                  creating=refusing('half/pose_ned')) as here:
        destroy, found = here.node.destroy_publisher, []

        def noting(publisher):
            found.append((publisher.topic_name, threading.get_ident()))
            return destroy(publisher)
        here.node.destroy_publisher = noting
        executor = here.run(threading.get_ident)
        assert user.transition('configure') and user.transition('activate')
        # Two that go before anybody has heard of them, then one that has lost a topic meanwhile.
        wait_until(lambda: len(here.node.pipelines[0].bodies) == 4)
        assert user.set(bodies__deny=['denied']) == ''
        denied.set()
        assert switching.wait(30.0)
        assert user.set(outputs=['pose', 'tf', 'status']) == ''
        switched.set()
        expected = {'/half/pose', '/denied/pose', '/denied/pose_ned', '/wand/pose_ned',
                    '/switched/pose_ned'}
        wait_until(lambda: expected <= {topic for topic, _ in found})
        assert {thread for _, thread in found} == {executor}
        wait_until(lambda: user.topics() == ['/switched/pose', '/wand/pose'])
        assert user.transition('deactivate') and user.transition('cleanup')
        wait_until(lambda: user.topics() == [])
        assert {thread for _, thread in found} == {executor}
