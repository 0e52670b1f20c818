# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of colour and depth by their stamps."""

from conftest import examples
from hypothesis import given, settings, strategies
from optitrack_vrpn.guests.rgbd.images import Pairer
import pytest

MS = 1_000_000
CAPACITY = 5


def feed(pairer, *messages):
    """Add (stream, milliseconds); gives all pairs."""
    return [pair for stream, ms in messages for pair in pairer.add(stream, round(ms * MS), ms)]


def test_equal_stamps_are_paired_at_once():
    pairer = Pairer()
    assert feed(pairer, (0, 0)) == []
    assert feed(pairer, (1, 0)) == [(0, 0)]
    assert feed(pairer, (1, 33), (0, 33)) == [(33, 33)]


def test_a_constant_offset_is_paired_without_waiting_for_the_next():
    pairer = Pairer()
    pairs = []
    for k in range(10):
        got = feed(pairer, (0, 33 * k), (1, 33 * k + 8))
        pairs += got
        if k > 1:
            assert got == [(33 * k, 33 * k + 8)]
    assert pairs == [(33 * k, 33 * k + 8) for k in range(10)]
    assert pairer.unpaired == [0, 0]


def test_the_nearer_partner_is_taken_though_it_comes_later():
    assert feed(Pairer(), (0, 0), (1, 18), (0, 33), (0, 66), (1, 66)) == [(33, 18), (66, 66)]


@pytest.mark.parametrize('missing', [False, True])
def test_a_gap_of_more_than_half_an_interval_waits_for_the_next_image(missing):
    """The next one can be nearer; one that was lost does not double the usual interval."""
    pairer = Pairer()
    both = [(stream, 33 * k) for k in range(4) for stream in (0, 1) if not (missing and k == 3)]
    feed(pairer, *both, (0, 132))
    assert feed(pairer, (1, 151)) == []
    assert feed(pairer, (0, 165)) == [(165, 151)]


def test_a_stream_of_half_the_rate_is_paired_with_every_second():
    pairer = Pairer()
    messages = sorted([(33.0 * k, 0) for k in range(20)] + [(66.0 * k + 3, 1) for k in range(10)])
    pairs = feed(pairer, *((stream, ms) for ms, stream in messages))
    assert pairs == [(66.0 * k, 66.0 * k + 3) for k in range(10)]


def test_one_stream_alone_does_not_fill_the_memory():
    pairer = Pairer(capacity=10)
    feed(pairer, *((0, 33 * k) for k in range(1000)))
    assert pairer.unpaired == [990, 0]
    assert feed(pairer, (1, 33 * 999)) == [(33 * 999, 33 * 999)]


def test_late_messages_are_counted():
    pairer = Pairer()
    feed(pairer, (0, 100), (0, 50), (0, 100))
    assert pairer.late == [2, 0]


def test_a_clock_that_is_set_back_is_followed():
    pairer = Pairer()
    feed(pairer, (0, 10_000), (1, 10_000))
    assert feed(pairer, (0, 0), (1, 0), (0, 33), (1, 33)) == [(0, 0), (33, 33)]


@settings(max_examples=examples(200), deadline=None)
@given(strategies.lists(strategies.tuples(strategies.integers(0, 1), strategies.integers(0, 60)),
                        max_size=60))
def test_whatever_comes_pairs_are_in_order_and_within_the_tolerance(steps):
    pairer = Pairer(capacity=CAPACITY)
    clocks = [0, 0]
    pairs = []
    for stream, step in steps:
        clocks[stream] += step
        pairs += feed(pairer, (stream, clocks[stream]))
    assert all(abs(a - b) <= 20 for a, b in pairs)
    assert pairs == sorted(set(pairs))
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    waiting = len(steps) - 2 * len(pairs) - sum(pairer.unpaired) - sum(pairer.late)
    assert 0 <= waiting <= 2 * CAPACITY


@pytest.mark.parametrize('offset', [0, 5, 12, 16])
def test_with_equal_rates_and_jitter_each_message_finds_its_partner(offset):
    pairer = Pairer()
    jitter = [0, 2, -1, 3, -2, 1, 0, -3]
    messages = sorted([(33 * k + jitter[k % 8], 0) for k in range(80)]
                      + [(33 * k + offset + jitter[(3 * k) % 8], 1) for k in range(80)])
    pairs = feed(pairer, *((stream, ms) for ms, stream in messages))
    assert len(pairs) >= (79 if offset < 16 else 60)
