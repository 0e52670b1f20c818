# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A worker processes, drops, reports and ends as its owner was promised."""

from concurrent.futures import CancelledError
import itertools
import random
import threading
import time

from optitrack_vrpn.core.worker_io import Worker
import pytest

PATIENCE_S = 10.0


def on(error):
    raise AssertionError(f'unexpected: {error!r}')


class Held:
    """A process function that waits in its first item until ``go`` is set."""

    def __init__(self):
        self.done, self.go, self.began = [], threading.Event(), threading.Event()

    def __call__(self, item):
        self.began.set()
        assert self.go.wait(PATIENCE_S)
        self.done.append(item)


@pytest.mark.parametrize('oldest, kept', [(False, [0, 1, 2, 3]), (True, [0, 7, 8, 9])])
def test_a_full_queue_drops_the_new_or_the_oldest_and_counts_it(oldest, kept):
    work = Held()
    worker = Worker('test', on, process=work, limit=3, oldest=oldest)
    worker.start()
    worker.put(0)
    assert work.began.wait(PATIENCE_S)    # it waits no more
    for number in range(1, 10):
        worker.put(number)
    assert worker.dropped == 6 and worker.waiting == 3
    work.go.set()
    assert worker.stop(PATIENCE_S, finish=True)
    assert work.done == kept


def test_an_item_counts_with_its_size_and_is_dropped_with_its_count():
    worker = Worker('test', on, limit=10)
    worker.put('large', 1000, 5)    # it is in memory anyway
    worker.put('small', 1, 7)
    assert (worker.waiting, worker.dropped) == (1000, 7)
    worker.clear()
    worker.put('small', 1, 7)
    assert (worker.waiting, worker.dropped) == (1, 7)


@pytest.mark.parametrize('goes_on', [True, False])
def test_an_error_is_reported_and_ends_the_thread_if_its_owner_says_so(goes_on):
    done, errors, ended = [], [], []

    def process(item):
        if item == 2:
            raise ValueError(item)
        done.append(item)

    def failed(error):
        errors.append(error)
        return goes_on
    worker = Worker('test', failed, process=process, end=lambda: ended.append(worker.dropped))
    for number in range(5):
        worker.put(number)
    worker.start()
    assert worker.stop(PATIENCE_S, finish=True)
    assert [str(error) for error in errors] == ['2']
    assert done == ([0, 1, 3, 4] if goes_on else [0, 1])
    assert ended == [0 if goes_on else 2]
    worker.put(5)
    assert worker.dropped == ended[0] + 1


def test_an_item_behind_an_error_does_not_wait_for_the_next_one():
    reached = threading.Event()
    worker = Worker('test', lambda error: True,
                    process=lambda item: reached.set() if item == 'behind' else 1 // 0)
    worker.put('bad')
    worker.put('behind')
    worker.start()
    assert reached.wait(PATIENCE_S)
    worker.stop()


def test_a_turn_that_always_fails_neither_hurries_nor_keeps_items_waiting():
    errors, reached = [], threading.Event()

    def failed(error):
        errors.append(error)
        return True
    worker = Worker('test', failed, process=lambda item: reached.set(), turn=lambda: 1 // 0,
                    period_s=0.1)
    worker.start()
    worker.put('item')
    assert reached.wait(PATIENCE_S)
    time.sleep(0.5)
    assert worker.stop(PATIENCE_S)
    assert len(errors) <= 8    # and not as often as the processor can


def test_a_turn_longer_than_its_period_leaves_others_their_share():
    begun = []

    def turn():
        begun.append(time.monotonic())
        time.sleep(0.06)
    worker = Worker('test', on, turn=turn, period_s=0.04)
    worker.start()
    time.sleep(0.5)
    assert worker.stop(PATIENCE_S)
    assert len(begun) > 1
    assert min(after - before for before, after in itertools.pairwise(begun)) > 0.075


def test_calls_overtake_items_and_are_cancelled_when_the_thread_ends():
    work = Held()
    worker = Worker('test', on, process=work)
    worker.start()
    worker.put('first')
    worker.put('second')
    assert work.began.wait(PATIENCE_S)
    seen = worker.call(lambda: list(work.done))
    broken = worker.call(lambda: 1 // 0)
    work.go.set()
    assert seen.result(PATIENCE_S) == ['first']
    with pytest.raises(ZeroDivisionError):
        broken.result(PATIENCE_S)
    inner = worker.call(lambda: worker.call(lambda: 'inside').result(PATIENCE_S))
    assert inner.result(PATIENCE_S) == 'inside'
    worker.stop()
    with pytest.raises(CancelledError):
        worker.call(list).result(PATIENCE_S)


def test_what_waits_when_it_is_stopped_is_discarded_and_nothing_is_done_afterwards():
    work, turns = Held(), []
    worker = Worker('test', on, process=work, turn=lambda: turns.append(1))
    worker.start()
    for number in range(3):
        worker.put(number)
    assert work.began.wait(PATIENCE_S)
    waits = worker.call(list)
    assert not worker.stop(0.01)    # the first item takes longer
    before = len(turns)
    work.go.set()
    assert worker.stop(PATIENCE_S)
    assert work.done == [0] and len(turns) == before
    with pytest.raises(CancelledError):
        waits.result(PATIENCE_S)


def test_nothing_is_done_between_the_end_and_the_return_of_a_wait():
    turns, go, waits = [], threading.Event(), threading.Event()

    def wait():
        waits.set()
        assert go.wait(PATIENCE_S)
    worker = Worker('test', on, turn=lambda: turns.append(1), wait=wait, wake=lambda: None)
    worker.start()
    assert waits.wait(PATIENCE_S)
    assert not worker.stop(0.01)
    go.set()
    assert worker.stop(PATIENCE_S)
    assert not turns


@pytest.mark.parametrize('started', [True, False])
def test_the_end_is_called_once_whether_the_thread_was_started_or_not(started):
    ended = []
    worker = Worker('test', on, end=lambda: ended.append(threading.current_thread()))
    if started:
        worker.start()
    assert worker.stop(PATIENCE_S) and worker.stop(PATIENCE_S)
    assert len(ended) == 1
    assert (ended[0] is threading.current_thread()) != started


def test_a_turn_follows_each_period_and_each_wake():
    turned = threading.Semaphore(0)
    worker = Worker('test', on, turn=turned.release, period_s=0.001)
    worker.start()
    for _ in range(5):
        assert turned.acquire(timeout=PATIENCE_S)
    worker.stop()
    worker = Worker('test', on, turn=turned.release, period_s=1000.0)
    worker.start()
    while turned.acquire(blocking=False):
        pass
    worker.wake()
    assert turned.acquire(timeout=PATIENCE_S)
    worker.stop()


def give(worker, name, number):
    for count in range(number):
        worker.put((name, count))
        if not count % 16:
            worker.call(list)


def test_random_use_by_several_threads_loses_and_repeats_nothing():
    """Each item is processed once or counted; the order of each thread is kept."""
    for seed in range(40):
        source = random.Random(seed)
        done = []
        worker = Worker('test', on, process=done.append, limit=source.choice((1, 3, 1000)),
                        oldest=source.random() < 0.5)

        number = source.randint(1, 200)
        threads = [threading.Thread(target=give, args=(worker, name, number))
                   for name in range(3)]
        worker.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert worker.stop(PATIENCE_S, finish=True)
        assert len(done) + worker.dropped == 3 * number and len(set(done)) == len(done)
        for name in range(3):
            mine = [count for at, count in done if at == name]
            assert mine == sorted(mine)
