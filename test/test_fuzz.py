# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The fuzz targets on conversations and on data from hypothesis; their findings as regressions.

Those of VRPN are recorded, those of NatNet are made by the simulator.
"""

from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / 'bench')]

from conftest import BOTH_PROTOCOLS, examples  # noqa: E402
import fuzz  # noqa: E402
import fuzz_target  # noqa: E402
import fuzz_target_natnet  # noqa: E402
from hypothesis import given, settings, strategies as st  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.pipeline import Pipeline  # noqa: E402
from optitrack_vrpn.stream.roster import body_name  # noqa: E402
from pipeline_kit import pose_report  # noqa: E402
import pytest  # noqa: E402

SEEDS = {'vrpn': fuzz.seeds(), 'natnet': fuzz_target_natnet.seeds()}
ONE_INPUT = {'vrpn': fuzz_target.one_input, 'natnet': fuzz_target_natnet.one_input}


def test_recorded_sessions_hold_and_get_as_far_as_publishing():
    runs = [fuzz_target.one_input(data) for data in SEEDS['vrpn']]
    # The first frames of a connection are withheld until they are live.
    assert sum(run.published for run in runs) > 30
    assert {len(run.last) for run in runs} >= {0, 3}, 'bodies that published'


def test_natnet_conversations_hold_and_get_as_far_as_publishing():
    runs = [fuzz_target_natnet.one_input(data) for data in SEEDS['natnet']]
    assert all(run.figures >= 4 for run in runs)
    # The sender's times count from its start: in mode sender they are 55 years old.
    assert all((run.published >= 4) is not run.sender_mode for run in runs)
    assert {run.connection.counters.malformed for run in runs} == {0}


@BOTH_PROTOCOLS
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_sessions_with_bytes_changed_hold(protocol, data):
    changed = bytearray(data.draw(st.sampled_from(SEEDS[protocol])))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at:at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
        if not changed:
            break
    ONE_INPUT[protocol](bytes(changed))


@BOTH_PROTOCOLS
def test_the_target_sees_what_must_not_be(protocol, monkeypatch):
    """A pipeline that publishes a frame as fresh that it stamped a second ago is found."""
    process = Pipeline.process

    def late(self, events, arrival_ns, *rest):
        found = process(self, events, arrival_ns, *rest)
        return found._replace(samples=[
            sample._replace(stamp_ns=sample.stamp_ns - 10**9) for sample in found.samples])
    monkeypatch.setattr(Pipeline, 'process', late)
    with pytest.raises(fuzz_target.Broken, match='before its arrival'):
        for data in SEEDS[protocol]:
            ONE_INPUT[protocol](data)


def poses(count, name='body', sensor=0, start_ns=10**9):
    """Make the poses of a body that moves a little, 100 a second."""
    return [pose_report(name, start_ns + i * 10_000_000, (1.0 + 1e-3 * i, 2.0, 3.0), sensor=sensor)
            for i in range(count)]


def test_frames_that_arrive_as_one_have_no_stamp_in_common():
    """A server that starts under load sends its first frames in one piece of the stream."""
    pipeline = Pipeline(PipelineConfig())
    samples = pipeline.process(poses(10), 10**12, 0).samples
    for i, frame in enumerate(poses(100, start_ns=1_100_000_000)):
        samples += pipeline.process([frame], 10**12 + i * 10_000_000, 0).samples
    stamps = [sample.stamp_ns for sample in samples]
    assert len(stamps) > 40
    assert stamps == sorted(set(stamps))


def test_a_sender_called_like_a_sensor_is_another_body():
    pairs = [('wand', 1), ('wand/sensor1', 0), ('wand/sensor1', 1), ('wand/sensor1/sensor0', 0),
             ('wand', 0), ('wand', -1), ('wand/sensor-1', 0)]
    assert len({body_name(*pair) for pair in pairs}) == len(pairs)
    pipeline = Pipeline(PipelineConfig())
    for pair in pairs:
        pipeline.process(poses(4, *pair), 10**12, 0)
    topics = [channel.names.topics['pose'] for channel in pipeline.bodies]
    assert len(set(topics)) == len(pairs)


@given(st.lists(st.tuples(
    st.text('a/sensor0-1', max_size=20), st.integers(-11, 11)), unique=True))
def test_no_two_sensors_have_one_name(pairs):
    assert len({body_name(*pair) for pair in pairs}) == len(pairs)
