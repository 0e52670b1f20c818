# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The NatNet fuzz target on valid conversations and on data from hypothesis."""

from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / 'bench')]

import fuzz_target  # noqa: E402
from fuzz_target_natnet import one_input, seeds  # noqa: E402
from hypothesis import given, settings, strategies as st  # noqa: E402
from optitrack_vrpn.pipeline.pipeline import Pipeline  # noqa: E402
import pytest  # noqa: E402

SEEDS = seeds()


def test_conversations_that_go_well_hold_and_get_as_far_as_publishing():
    runs = [one_input(data) for data in SEEDS]
    assert all(run.published >= 4 for run in runs)
    assert {run.connection.counters.malformed for run in runs} == {0}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_conversations_with_bytes_changed_hold(data):
    changed = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at:at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
        if not changed:
            break
    one_input(bytes(changed))


def test_the_target_sees_what_must_not_be(monkeypatch):
    process = Pipeline.process

    def late(self, events, arrival_ns, *rest):
        return [sample._replace(stamp_ns=sample.stamp_ns - 10**9)
                for sample in process(self, events, arrival_ns, *rest)]
    monkeypatch.setattr(Pipeline, 'process', late)
    with pytest.raises(fuzz_target.Broken, match='before its arrival'):
        for data in SEEDS:
            one_input(data)
