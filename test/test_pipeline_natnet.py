# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet reports through the pipeline: exposures, tracking flags, mean errors, markers."""

import math

import numpy as np
from optitrack_vrpn.core.rotation import world_from_mocap
from optitrack_vrpn.drivers.frames import Body, Frame, Marker, RoundTrip
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.server_data import POINT
from pipeline_kit import make_pipeline, pose_report
import pytest

MS = 1_000_000
S = 1_000 * MS
OFFSET = 9_000 * S
NETWORK = 250_000
STEP = 10 * MS


class Session:
    """A NatNet session at 100 Hz with one body that moves along x."""

    def __init__(self, rate=1.0, **config):
        self.pipeline = Pipeline(PipelineConfig(**config))
        self.number = 0
        self.rate = rate

    @property
    def exposure(self):
        return 3_600 * S + self.number * STEP

    def frame(self, *bodies, markers=(), ptp_ns=0):
        """Send a frame of (name, valid, mean error); gives the samples."""
        exposure = self.exposure
        processing = 5_400_000 + self.number * 7919 % 400_000
        self.number += 1
        if self.number % 25 == 1:
            server = exposure + 1
            self.pipeline.process(
                [RoundTrip(server + OFFSET - NETWORK, round(self.rate * server),
                           server + OFFSET + NETWORK)], server + OFFSET + NETWORK, 0)
        arrival = exposure + processing + NETWORK + OFFSET
        exposure = round(self.rate * exposure)
        self.found = self.pipeline.process([Frame(
            exposure, [
                Body(name, 0, exposure, (0.001 * self.number, 1.0, 2.0), (0.0, 0.0, 0.0, 1.0),
                     valid, error)
                for name, valid, error in bodies],
            round(self.rate * processing), ptp_ns, markers)], arrival, 0)
        return self.found.samples

    def state(self, name='Wand'):
        return self.pipeline.roster.channels[name, 0].gate.state

    def withheld(self, name='Wand'):
        return self.pipeline.roster.channels[name, 0].status(0).withheld


@pytest.mark.parametrize('stamps, later_ns, within_ns', [
    ({'mode': 'tracking', 'latency_ms': 6.0}, 0, 2_000),
    ({'mode': 'min_offset', 'latency_ms': 6.0}, 0, 2_000),
    ({'mode': 'arrival'}, 5_850_000, 210_000)])
def test_stamps_are_exposures_or_arrivals(stamps, later_ns, within_ns):
    session = Session(stamps=StampConfig(**stamps))
    for _ in range(300):
        exposure = session.exposure
        for sample in session.frame(('Wand', True, 0.0)):
            assert sample.stamp_ns - exposure - OFFSET == pytest.approx(later_ns, abs=within_ns)


@pytest.mark.parametrize('rate', [0.9991, 1.0009])
def test_stamps_follow_a_counter_that_the_client_does_not_refuse(rate):
    session = Session(rate=rate)
    errors, stamps = [], []
    for _ in range(2000):
        exposure = session.exposure
        for sample in session.frame(('Wand', True, 0.0)):
            stamps.append(sample.stamp_ns)
            errors.append(abs(sample.stamp_ns - exposure - OFFSET))
    assert stamps == sorted(set(stamps))
    assert max(errors) < MS


def published(session, frames, valid=True, error=0.0):
    """Send frames with a wand like this and a box without fault; count the wand's poses."""
    count = 0
    for _ in range(frames):
        names = [sample.channel.names.motive for sample in session.frame(
            ('Wand', valid, error), ('Box', True, 0.0))]
        count += 'Wand' in names
        assert 'Box' in names or session.number < 3
    return count


def test_an_untracked_body_alone_is_withheld_at_once():
    session = Session()
    assert [published(session, 1) for _ in range(5)] == [0, 0, 1, 1, 1]
    assert published(session, 21, valid=False) == 0
    assert session.state() is State.UNTRACKED and session.state('Box') is State.TRACKED
    assert session.withheld()['not_tracked'] == 21
    # It is acquired again, as after every fault.
    assert [published(session, 1) for _ in range(4)] == [0, 0, 1, 1]
    assert session.state() is State.TRACKED


@pytest.mark.parametrize('every', [2, 3, 4, 6, 8])
@pytest.mark.parametrize('first_s', [0.0, 2.0])
def test_a_frame_that_only_lacks_the_flag_costs_itself(every, first_s):
    """As found (case R6): 1 frame of 3 without the flag, and no pose was published."""
    session = Session()
    for _ in range(round(first_s / STEP * S)):
        session.frame(('Wand', True, 0.0))
    published = sum(len(session.frame(('Wand', k % every != 0, 0.0))) for k in range(600))
    assert published >= 600 * (every - 1) // every - 4
    assert session.state() is State.TRACKED
    assert session.withheld()['not_tracked'] == 600 // every
    # Two in a row are a fault; the setting that says how long it lasts is named.
    for valid in (False, False):
        session.frame(('Wand', valid, 0.0))
    assert session.state() is State.UNTRACKED
    assert 'acquire_frames' in session.pipeline.bodies[0].status(0).detail


@pytest.mark.parametrize('threshold, error, count', [
    (0.002, 0.0019, 10), (0.002, 0.003, 0), (0.002, math.nan, 0), (0.0, 0.5, 10)])
def test_a_mean_error_beyond_the_threshold_is_withheld(threshold, error, count):
    session = Session(body=BodyConfig(max_mean_error=threshold))
    published(session, 5)
    assert published(session, 10, error=error) == count
    assert session.withheld().get('mean_error', 0) == 10 - count
    assert session.state() is (State.TRACKED if count else State.UNTRACKED)


def test_markers_are_points_of_their_frame_in_the_users_world():
    offset = world_from_mocap((1.0, 2.0, 3.0), 0.0)
    session = Session(estimate=EstimateConfig(learn_noise=False, world_from_mocap=offset))
    seen = Marker(1, 2, (1.0, 2.0, 3.0), 0.0003)
    broken = Marker(1, 4, (math.nan, 2.0, 3.0), 0.0)
    far = Marker(1, 5, (3.4e38, 2.0, 3.0), 0.0)    # its place may be no float
    for _ in range(5):
        samples = session.frame(('Wand', True, 0.0), markers=[seen, broken, far])
    cloud = session.found.markers
    assert cloud.stamp_ns == samples[0].stamp_ns
    assert cloud.points == 1
    x, y, z, body, member, residual, labelled = POINT.unpack(cloud.data)
    # Motive x forward, y up, z right: east = z, north = x, up = y; less the user's origin.
    np.testing.assert_allclose((x, y, z), (3.0 - 1.0, 1.0 - 2.0, 2.0 - 3.0), atol=1e-6)
    assert (body, member, labelled) == (1, 2, 1) and residual == pytest.approx(0.0003)
    session.frame(('Wand', True, 0.0))
    assert session.found.markers is None    # those of a frame are not those of the next


def test_markers_of_a_frame_that_comes_twice_are_left_out():
    session, seen = Session(), [Marker(1, 2, (1.0, 2.0, 3.0), 0.0003)]
    for _ in range(5):
        session.frame(('Wand', True, 0.0), markers=seen)
    assert session.found.markers.points == 1
    session.number -= 1
    session.frame(('Wand', True, 0.0), markers=seen)
    assert session.found.markers is None
    session.frame(('Wand', True, 0.0), markers=seen)
    assert session.found.markers.points == 1


def test_ptp_times_are_compared_with_the_stamps():
    session = Session()
    for _ in range(10):
        ptp = session.exposure + OFFSET + 37 * S
        session.frame(('Wand', True, 0.0), ptp_ns=ptp)
    assert abs(session.pipeline.ptp_minus_stamp_ns - 37 * S) < 2_000
    session.frame(('Wand', True, 0.0))
    assert session.pipeline.ptp_minus_stamp_ns is None


@pytest.mark.parametrize('timed', [True, False])
def test_a_backlog_is_withheld(timed):
    """Before NatNet 3.0 a frame has only its time since streaming began, and no echo helps."""
    pipeline, sent = Pipeline(PipelineConfig()), []
    held_from, held_until = 300, 700    # frames: 4 s at 100 Hz
    for number in range(1_000):
        exposure = 3_600 * S + number * STEP
        arrival = exposure + 5_400_000 + NETWORK + OFFSET
        if held_from <= number < held_until:
            arrival = 3_600 * S + held_until * STEP + OFFSET + number * 10_000
        if timed and number % 25 == 0:
            pipeline.process([RoundTrip(
                arrival - 2 * NETWORK, arrival - OFFSET - NETWORK, arrival)], arrival, 0)
        events = [Frame(exposure, [
            Body('Wand', 0, exposure, (0.001 * number, 1.0, 2.0), (0.0, 0.0, 0.0, 1.0))],
            5_400_000 if timed else 0)]
        sent += [(number, arrival - exposure - OFFSET)
                 for _ in pipeline.process(events, arrival, 0).samples]
    ages = dict(sent)
    # Not older than stamps.max_age_s, though all of them arrive as fresh as any.
    assert max(ages.values()) < 510 * MS
    assert not set(range(held_from, held_until - 55)) & set(ages)
    assert set(range(held_until + 60, 1_000)) <= set(ages)


@pytest.mark.parametrize('processing_ns, coarse', [(0, True), (5 * MS, False)])
def test_times_of_exposure_are_not_judged(processing_ns, coarse):
    """Without them times that tick in 40 ms are no times of frames at 100 Hz."""
    pipeline = make_pipeline()
    for k in range(400):
        sent_ns = S + k * 10 * MS // (40 * MS) * (40 * MS)
        frame = pose_report('wand', sent_ns, (k * 1e-3, 0.0, 0.0))
        pipeline.process([frame._replace(processing_ns=processing_ns)], 9 * S + k * 10 * MS, 0)
    assert pipeline.stamps.coarse is coarse
