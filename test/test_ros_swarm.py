# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All bodies of a frame in one message: for Crazyswarm2, and for viewers."""

import sys

from geometry_msgs.msg import PoseArray, PoseStamped
from hypothesis import given, strategies as st
from optitrack_vrpn.node.shared_output import FrameCollector
from optitrack_vrpn.stream.roster import Sample
import pytest
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph import NodeHere, NodeProcess, Observer, stamp_ns, wait_until

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS
NAMES = ('a', 'b', 'c')
SAMPLE = Sample(None, 0, 0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), None)


def collect(collector, frames, batch=100):
    """Feed (stamp, names) in batches of so many samples; give what comes out."""
    samples = [(stamp, name) for stamp, names in frames for name in names]
    found = []
    for begin in range(0, len(samples), batch):
        for stamp, name in samples[begin:begin + batch]:
            found.append(collector.add(stamp, name, SAMPLE))
        found.append(collector.complete())
    return [(frame.stamp_ns, tuple(frame.samples))
            for frame in found if frame is not None]


def stamps(rate_hz, count):
    return [START + round(i * 1e9 / rate_hz) for i in range(count)]


@given(st.integers(1, 7))
def test_frames_come_whole_however_the_datagrams_cut_them(batch):
    frames = [(stamp, NAMES) for stamp in stamps(100, 30)]
    found = collect(FrameCollector(100.0), frames, batch)
    assert found[:29] == frames[:29]
    assert len(found) >= 29


def test_a_frame_is_not_held_back_once_its_bodies_have_come():
    collector = FrameCollector(100.0)
    collect(collector, [(stamp, NAMES) for stamp in stamps(100, 3)], 3)
    found = collect(collector, [(START + 30 * MS, NAMES)], 3)
    assert found == [(START + 30 * MS, NAMES)]


def test_lost_bodies_are_left_out_and_new_ones_come_in_alphabetical_order():
    times = stamps(100, 9)
    names = [NAMES] * 3 + [('a', 'c')] * 3 + [('c', 'a', 'b', 'd')] * 3
    found = dict(collect(FrameCollector(100.0), list(zip(times, names)), 4))
    assert found[times[4]] == ('a', 'c')
    assert found[times[7]] == ('a', 'b', 'c', 'd')


@given(st.lists(st.tuples(st.integers(-50, 50), st.sets(st.sampled_from(NAMES))), max_size=60),
       st.integers(1, 5))
def test_no_frame_is_given_twice_in_a_row_and_none_is_empty(steps, batch):
    stamp, frames = START, []
    for step_ms, names in steps:
        stamp += step_ms * MS
        frames.append((stamp, tuple(sorted(names))))
    found = collect(FrameCollector(100.0), frames, batch)
    assert all(names for _, names in found)
    assert all(one[0] != other[0] for one, other in zip(found, found[1:]))


# -- the node -------------------------------------------------------------------------------------

SCENARIO = """
rate: 120
bodies:
  - {name: cf1, motion: {type: circle}}
  - name: cf2
    motion: {type: circle, centre: [3, 1, 0]}
    faults: [{type: occlusion, mode: silent, start: 5, end: 6, every: 2}]
  - {name: cf3, motion: {type: circle, centre: [6, 1, 0]}}
"""


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timeout(90)
def test_crazyswarm2_and_viewers_get_the_bodies_of_each_frame(tmp_path):
    interfaces = pytest.importorskip('motion_capture_tracking_interfaces.msg')
    scenario = tmp_path / 'three.yaml'
    scenario.write_text(SCENARIO)
    with Observer('crazyflie_server') as observer, NodeProcess(
            '--scenario', scenario, '--port', '0', tool='motive_sim', ros=False) as sim:
        # As Crazyswarm2's server subscribes: a publisher without the deadline would not match.
        poses = observer.listen(interfaces.NamedPoseArray, '/poses', QoSProfile(
            depth=1, reliability=ReliabilityPolicy.BEST_EFFORT,
            deadline=Duration(nanoseconds=10 * MS)))
        arrays = observer.listen(PoseArray, '/pose_array', 10)
        port = int(sim.wait_for(r'listening on .*:(\d+)')[1])
        with NodeHere({'server': '127.0.0.1', 'port': port, 'outputs': [
                'pose', 'poses', 'pose_array', 'status']}):
            single = observer.poses('/cf1/pose')
            assert observer.transition('configure') and observer.transition('activate')
            wait_until(lambda: poses.matched, what='the deadline fits')

            def named(message):
                return tuple(one.name for one in message.poses)

            wait_until(lambda: {'cf1', 'cf2', 'cf3'} <= set(
                sum(map(named, poses.messages()), ())), what='all bodies')
            wait_until(lambda: any(named(m) == ('cf1', 'cf3') for m in poses.messages()),
                       what='one is lost')
            count = len(poses)
            wait_until(lambda: any(named(m) == ('cf1', 'cf2', 'cf3')
                                   for m in poses.messages(count)), what='it is back')
            messages = poses.messages()
            times = [stamp_ns(message) for message in messages]
            assert all(a < b for a, b in zip(times, times[1:])), 'once a frame'
            assert {message.header.frame_id for message in messages} == {'optitrack'}
            assert all(names == tuple(sorted(names)) for names in map(named, messages))
            alone = {stamp_ns(message): message.pose for message in single.messages()}
            same = [(message, alone[stamp_ns(message)]) for message in messages
                    if stamp_ns(message) in alone]
            assert same
            for message, pose in same:
                assert next(one.pose for one in message.poses if one.name == 'cf1') == pose
            wait_until(lambda: len(arrays) > 10, what='poses for viewers')
            assert observer.node.count_publishers('/poses') == 1
            # Switched off while it runs.
            assert observer.set(outputs=['pose']) == ''
            wait_until(lambda: not observer.node.count_publishers('/poses'), what='the end')


@pytest.mark.ros
def test_without_the_interfaces_the_output_is_refused_with_what_to_install(
        user, monkeypatch, console):
    for name in [name for name in sys.modules
                 if name.startswith('motion_capture_tracking_interfaces')]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, 'motion_capture_tracking_interfaces', None)
    with NodeHere({'server': '127.0.0.1', 'outputs': ['pose', 'poses']}):
        assert not user.transition('configure')
        wait_until(lambda: 'motion_capture_tracking_interfaces' in console.unread(), 5.0)
        assert user.set(outputs=['pose']) == ''
        assert user.transition('configure')
        assert 'not installed' in user.set(outputs=['pose', 'poses'])


OWN_SCENARIO = """
rate: 240
bodies:
  - {name: cf1, motion: {type: circle}}
  - name: cf2
    motion: {type: circle, centre: [3, 1, 0]}
    faults: [{type: occlusion, mode: frozen, start: 4, end: 5, every: 2}]
"""


def own_qos(reliable=False, deadline_ms=None):
    deadline = Duration() if deadline_ms is None else Duration(nanoseconds=deadline_ms * MS)
    return QoSProfile(depth=2000, deadline=deadline, reliability=ReliabilityPolicy.RELIABLE
                      if reliable else ReliabilityPolicy.BEST_EFFORT)


def rate_of(times):
    """Give the mean rate (Hz) of stamps outside of gaps."""
    spaces = [b - a for a, b in zip(times, times[1:]) if b - a < 200 * MS]
    return len(spaces) / sum(spaces) * 1e9


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timeout(90)
def test_each_output_of_each_body_has_its_own_rate(tmp_path, console):
    scenario = tmp_path / 'two.yaml'
    scenario.write_text(OWN_SCENARIO)
    with Observer('robot') as observer, NodeProcess(
            '--scenario', scenario, '--port', '0', tool='motive_sim', ros=False) as sim:
        port = int(sim.wait_for(r'listening on .*:(\d+)')[1])
        with NodeHere({
                'server': '127.0.0.1', 'port': port, 'outputs': ['pose', 'tf', 'own', 'status'],
                'load_shedding': False, 'rates.own': 45.0, 'rates.tf': 10.0, 'rates.pose': 100.0,
                'bodies.cf2.rates.own': 25.0, 'bodies.cf2.rates.pose': 0.0}):
            wanted = {'cf1/own': 45.0, 'cf2/own': 25.0, 'cf1/pose': 100.0, 'cf2/pose': 240.0}
            topics = {name: observer.listen(PoseStamped, f'/{name}', own_qos()) for name in wanted}
            transforms = observer.transforms()
            refused = [observer.listen(PoseStamped, '/cf1/own', own_qos(reliable=True)),
                       observer.listen(PoseStamped, '/cf1/own', own_qos(deadline_ms=99))]
            deadline = observer.listen(PoseStamped, '/cf1/own', own_qos(deadline_ms=100))
            assert observer.transition('configure') and observer.transition('activate')
            topics['cf2/own'].wait(100)    # four seconds, with a time of occlusion
            deadline.wait(100)
            assert [topic.matched for topic in refused] == [0, 0]
            wait_until(lambda: 'RELIABILITY' in console.unread().upper(), what='it is logged')
            times = {name: [stamp_ns(message) for message in topic.messages()]
                     for name, topic in topics.items()}
            for name, rate in wanted.items():
                assert rate_of(times[name]) == pytest.approx(rate, rel=0.1), name
                assert all(a < b for a, b in zip(times[name], times[name][1:])), name
            # What is withheld of the pose is withheld here too: the same numbers, or none.
            poses = {stamp_ns(message): message for message in topics['cf2/pose'].messages()}
            own = [message for message in topics['cf2/own'].messages()
                   if min(poses) <= stamp_ns(message) <= max(poses)]
            assert len(own) > 80
            assert all(poses[stamp_ns(message)] == message for message in own)
            frames = [message.transforms for message in transforms.messages()]
            assert rate_of([stamp_ns(frame[0]) for frame in frames]) == pytest.approx(
                10.0, rel=0.1)
            assert max(map(len, frames)) == 2, 'one message for all bodies of a rate'
            # While it runs: a refused change leaves every rate.
            assert 'rates.own' in observer.set_all({'rates.own': -1.0})
            assert 'no setting' in observer.set_all({'bodies.cf1.rates.poses': 5.0})
            count = len(topics['cf1/own'])
            topics['cf1/own'].wait(count + 45)
            assert rate_of([stamp_ns(message) for message in topics['cf1/own'].messages(count)]
                           ) == pytest.approx(45.0, rel=0.1)
            assert observer.set_all({'bodies.cf1.rates.own': 15.0}) == ''
            count = len(topics['cf1/own'])
            topics['cf1/own'].wait(count + 30)
            times = [stamp_ns(message) for message in topics['cf1/own'].messages()]
            assert all(a < b for a, b in zip(times, times[1:]))
            assert rate_of(times[count + 1:]) == pytest.approx(15.0, rel=0.1)
            count = len(transforms)
            for rate in range(30):
                assert observer.set_all({'rates.pose': 100.0 + rate}) == ''
            transforms.wait(count + 3)
            times = [stamp_ns(message.transforms[0]) for message in transforms.messages(count)]
            assert len(times) < (times[-1] - times[0]) / (100 * MS) + 2, 'it is another rate'
