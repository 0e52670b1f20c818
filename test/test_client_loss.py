# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Losses on the network, from hand-made counters."""

import math

from conftest import lacking
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.node.report import link_entry
from optitrack_vrpn.telling.facts import LossWindow, StreamFacts
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import of_log
import pytest


class Connection:
    """Counters that go up as those of a connection, looked at once a second."""

    def __init__(self, rate=240):
        self.window = LossWindow()
        self._repetition = Repetition()
        self.rate = rate
        self.now_ns = 0
        self.counters = {'messages': 0, 'udp_lost': 0}
        self.unread = 0
        self.said = []

    def run(self, seconds, share=0.0):
        for second in range(seconds):
            self.now_ns += 10**9 + (-1) ** second * 20_000_000
            self.counters['messages'] += round(self.rate * (1 - share))
            self.counters['udp_lost'] += round(self.rate * share)
            facts = self.window.update(self.counters, self.unread, self.now_ns)
            self.said += problem_lines(
                self._repetition, of_log(StreamFacts(loss=facts)), self.now_ns)
        return facts


def test_begin_and_end_of_loss_are_reported_once():
    connection = Connection()
    assert not connection.run(10).lossy
    assert connection.window.facts.share == 0.0
    assert connection.run(30, 0.3).share == pytest.approx(0.3)
    assert not connection.run(30).lossy
    assert [remark.severity for remark in connection.said] == [WARN, INFO]
    begin, end = (remark.text for remark in connection.said)
    assert not lacking(begin, '% of the messages of the last 5 s were lost', 'a cable')
    assert end == 'losses have ended'


def test_tcp_is_no_advice_because_one_client_with_a_bad_link_stops_the_server_for_all():
    connection = Connection()
    connection.run(10, 0.3)
    assert connection.said and 'tcp' not in connection.said[0].text


def test_loss_is_noticed_within_two_seconds():
    connection = Connection()
    connection.run(10)
    assert connection.run(2, 0.3).lossy


def test_the_warning_of_loss_has_hysteresis():
    connection = Connection(1000)
    assert not connection.run(20, 0.02).lossy
    assert connection.run(10, 0.05).lossy
    assert connection.run(20, 0.02).lossy
    assert not connection.run(10, 0.005).lossy
    assert len(connection.said) == 2


def test_intermittent_loss_is_reported_once_a_minute():
    connection = Connection()
    for _ in range(6):
        connection.run(10, 0.3)
        connection.run(10)
    assert [remark.severity for remark in connection.said] == [WARN, INFO] * 2


def test_a_few_lost_messages_of_a_slow_server_are_no_pattern():
    assert not Connection().run(4, 0.3).lossy, 'the window is not full'
    connection = Connection(10)
    connection.run(10)
    assert not connection.run(3, 0.2).lossy
    assert connection.run(10, 0.3).lossy


def test_what_comes_late_is_not_lost():
    """It is taken off the counter again: between two looks that may fall."""
    connection = Connection()
    connection.run(10)
    connection.counters['udp_lost'] += 30
    connection.run(1)
    connection.counters['udp_lost'] -= 30
    connection.run(10)
    assert not connection.said and connection.window.facts.share == 0.0


def test_silence_is_no_loss():
    connection = Connection()
    connection.run(10, 0.3)
    connection.rate = 0
    assert not connection.run(10).lossy and math.isnan(connection.window.facts.share)
    connection.rate = 240
    connection.run(10)
    assert [remark.severity for remark in connection.said] == [WARN, INFO]


def test_full_receive_buffers_are_not_loss_of_the_network():
    connection = Connection()
    connection.run(10)
    connection.unread = 100
    assert connection.run(2, 0.3).unread and 'receive buffer' in connection.said[0].text
    facts = connection.run(10, 0.3)
    assert facts.lossy and not facts.unread and len(connection.said) == 1


def test_a_backend_without_counters_reports_no_loss():
    window = LossWindow()
    for second in range(20):
        assert not window.update({}, 0, second * 10**9).lossy
    entry = link_entry(LinkState.STREAMING, '', {}, {}, window.facts)
    assert 'udp_lost_percent' not in entry.values


@pytest.mark.parametrize('state, level', [
    (LinkState.STREAMING, WARN), (LinkState.SILENT, WARN),
    (LinkState.LOST, ERROR)])
def test_loss_is_a_warning_of_the_connection(state, level):
    loss = Connection().run(10, 0.3)
    entry = link_entry(state, 'the reason', {}, {'udp_lost': 1}, loss)
    assert entry.severity is level
    assert ('were lost' in entry.message) == (state is LinkState.STREAMING)
    assert entry.values['udp_lost_percent'] == '30.0'
