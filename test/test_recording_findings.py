# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a take shows to be wrong: one finding for one cause, the worst first."""

from conftest import lacking_in_lines
import numpy as np
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.record.bag_io import recover
from optitrack_vrpn.takes.take import ClockRow, StateRow
from optitrack_vrpn.takes.take_io import load_take
import pytest
from recording_kit import BEGIN_NS, cdr, header, make, POSE, pose_cdr, write_poses
from take_kit import (
    body, body_of, found_in, poses_of, status, STILL, take_of, texts, written)

pytest.importorskip('rosbags', reason='an independent writer')


def test_gaps_jumps_freezes_and_resets_are_found():
    def keep(t):
        return (t < 4.0) | (t > 4.7)

    made = body(noise_m=0.0002, keep=keep, move=lambda t: np.where(t > 8.0, 0.5, 0.0))
    frozen = made.trajectory.positions
    frozen[1200:1300] = frozen[1200]
    made.trajectory.quats_xyzw[1200:1300] = STILL
    made = body_of('wand', made.trajectory, [
        StateRow(BEGIN_NS, 'TRACKED', '', 0),
        StateRow(BEGIN_NS + 8_003_000_000, 'TRACKED', '', 1)])
    f = body_figures(take_of(made), made)
    assert [(round((a - BEGIN_NS) / NS_PER_S, 1), round((b - BEGIN_NS) / NS_PER_S, 1))
            for a, b in f.breaks.gaps_ns] == [(4.0, 4.7)]
    assert len(f.breaks.frozen_ns) == 1
    np.testing.assert_allclose(
        (np.array(f.breaks.breaks_ns) - BEGIN_NS) / NS_PER_S, [8.004], atol=0.005)
    found = texts(take_of(made))
    assert [severity for severity, _ in found] == sorted(
        [severity for severity, _ in found], reverse=True)
    said = ' '.join(text for _, text in found)
    for words in (
            '1 discontinuity', 'no pose for up to 0.7', 'the same pose was repeated in 1 span'):
        assert words in said


def stopped(name, restarts=0):
    """Give a body that is away from 4 to 5 s, and returns elsewhere with a reset."""
    made = body(name, noise_m=0.0002, keep=lambda t: (t < 4.0) | (t > 5.0),
                move=lambda t: np.where(t > 4.5, 0.5 * restarts, 0.0))
    return body_of(name, made.trajectory, [
        StateRow(BEGIN_NS, 'TRACKED', '', 0),
        StateRow(BEGIN_NS + 5_010_000_000, 'TRACKED', '', restarts)])


@pytest.mark.parametrize('restarts, more, cause', [
    (1, {'clock': [ClockRow(BEGIN_NS + at * 10**9, int(at > 5), 7.0 * (at > 5), 1, 10)
                   for at in range(10)]}, 'the server restarted'),
    (0, {'links': [(BEGIN_NS, 'streaming'), (BEGIN_NS + 4 * 10**9, 'lost'),
                   (BEGIN_NS + 5 * 10**9, 'streaming')]}, 'the connection to the server was lost'),
    (0, {'notes': {'lost': '/a: 9', 'lost_at': f'{BEGIN_NS // 10**9 + 4} /a 9'}},
     'between publisher and recorder'),
    (0, {}, 'the server or the network')])
def test_one_cause_gives_one_finding_with_its_time(restarts, more, cause):
    take = take_of(*(stopped(f'b{number}', restarts) for number in range(5)),
                   body('other', noise_m=0.0002), **more)
    one, = found_in(take)
    assert cause in one.text and '5 bodies at once: no pose for up to 1.0' in one.text
    assert one.bodies == tuple(f'b{number}' for number in range(5))
    gap = max(one.spans, key=lambda span: span.end_s - span.begin_s)
    assert gap[:2] == pytest.approx((4.0, 5.0), abs=0.01)


def test_bodies_that_are_out_of_view_at_different_times_are_one_finding():
    def away(name, *spans):
        return body(name, noise_m=0.0002, keep=lambda t: np.all(
            [(t < begin) | (t > end) for begin, end in spans], axis=0))

    take = take_of(away('a', (2.0, 2.7)), away('b', (3.0, 3.9), (7.0, 7.6)), *(
        body(f'other{number}', noise_m=0.0002) for number in range(5)))
    one, = found_in(take)
    assert (one.code, one.bodies) == ('gaps', ('b', 'a'))    # the worst first
    assert [(span.begin_s, span.end_s, span.bodies) for span in one.spans] == [
        (pytest.approx(begin, abs=0.01), pytest.approx(end, abs=0.01), (name,))
        for begin, end, name in ((2.0, 2.7, 'a'), (3.0, 3.9, 'b'), (7.0, 7.6, 'b'))]
    assert '0.91 s; 3 gaps, 2.2' in one.text


@pytest.mark.parametrize('change, severity, said', [
    ({'cut': 'it was not closed'}, ERROR, 'not closed'),
    ({'notes': {'dropped': '12'}}, ERROR, 'dropped messages: 12'),
    ({'notes': {'clock_steps': '1: 2, 3: 4'}}, ERROR, 'set 2 times during'),
    ({'notes': {'lost': '/wand/pose: 3'}}, ERROR, '/wand/pose: 3'),
    ({'clock': [ClockRow(0, 0, 1, 1, 10), ClockRow(1, 1, 1, 1, 10)]}, WARN,
     'restarted 1 time'),
    ({'connection': {'udp_lost': '30', 'messages': '970', 'udp_lost_percent': '0.0'}},
     WARN, '30 messages of Motive (3.00 %) were lost'),
])
def test_noticed_losses_are_in_the_verdict(change, severity, said):
    first = texts(take_of(body(noise_m=0.0002), **change))[0]
    assert first[0] is severity
    assert said in first[1]


def test_a_body_without_any_pose_is_an_error(tmp_path):
    take = written(tmp_path / 'take', {
        '/seen/pose': (POSE, poses_of(1.0)),
        '/seen/status': status('seen', 'TRACKED'), '/never/status': status('never', 'UNTRACKED')})
    severity, text = texts(take)[0]
    assert severity is ERROR and text.startswith("'never' published no pose")


def test_other_poses_in_a_bodys_namespace_are_not_its_own(tmp_path):
    for number, names in enumerate((('/a/goal', '/a/pose'), ('/a/pose', '/a/zz'))):
        take = written(tmp_path / f'take{number}', {
            name: (POSE, poses_of(1.0 if name == '/a/pose' else 9.0)) for name in names})
        assert list(take.bodies) == ['a']
        assert take.bodies['a'].trajectory.positions[0, 0] == 1.0
        assert set(take.estimates) == set(names)


def test_poses_with_covariance_alone_make_a_body(tmp_path):
    take = written(tmp_path / 'take', {
        name: ('geometry_msgs/msg/PoseWithCovarianceStamped', [
            (at, data + bytes(36 * 8)) for at, data in poses_of(1.0)])
        for name in ('/a/pose_cov', '/camera/pose_cov')} | {
        '/a/status': status('a', 'TRACKED')})
    assert list(take.bodies) == ['a']


@pytest.mark.parametrize('begin, end, said', [
    (0.0, 1.0, []), (5.0, 1.0, ['first 5 s']), (0.0, 9.0, ['last 8 s'])])
def test_a_recording_that_goes_on_without_poses_says_so(tmp_path, begin, end, said):
    empty = cdr(make('diagnostic_msgs/DiagnosticArray', header(0), []))
    take = written(tmp_path / 'take', {
        '/a/pose': (POSE, poses_of(1.0)),
        '/diagnostics': ('diagnostic_msgs/msg/DiagnosticArray',
                         [(at, empty) for at in np.arange(-begin, 4.0 + end)])})
    assert not lacking_in_lines(
        [text for severity, text in texts(take) if severity is WARN],
        *[['no pose', one] for one in said])


def test_an_arrival_after_the_year_2262_is_reported(tmp_path):
    write_poses(tmp_path / 'take', [
        ('/drone/pose', 2**63 + i if i == 7 else BEGIN_NS + i, BEGIN_NS + i, (i, 0, 0),
         (0, 0, 0, 1)) for i in range(20)])
    take = load_take(tmp_path / 'take')
    assert not take.left_out and len(take.bodies['drone'].trajectory) == 20
    found = found_in(take)
    assert any("log times of 1 of 20 poses of 'drone'" in one.text for one in found)
    assert body_figures(take, take.bodies['drone']).odd_arrivals == 1


def test_messages_that_cannot_be_decoded_are_counted(tmp_path):
    """As those of ros2 bag with compression_mode message."""
    take = written(tmp_path / 'take', {
        '/seen/pose': (POSE, poses_of(1.0)),
        '/other/pose': (POSE, [(at, b'\x28\xb5\x2f\xfd' + data) for at, data in poses_of(1.0)])})
    assert list(take.bodies) == ['seen']
    severity, text = texts(take)[0]
    assert severity is WARN
    assert text.startswith('400 of 400 messages on /other/pose')


def test_a_repaired_recording_is_no_recording_without_loss(tmp_path):
    written(tmp_path / 'take', {'/a/pose': (POSE, poses_of(1.0))}, close=False)
    recover(tmp_path / 'take')
    found = texts(load_take(tmp_path / 'take'))
    assert found[0][0] is WARN and 'was repaired' in found[0][1]
    assert not any(severity is INFO for severity, _ in found)


def test_damage_in_the_middle_is_not_called_the_end(tmp_path):
    written(tmp_path / 'take', {'/a/pose': (POSE, poses_of(1.0))})
    path = tmp_path / 'take' / 'take.mcap'
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(bytes(data))
    severity, text = texts(load_take(tmp_path / 'take'))[0]
    assert severity is ERROR
    assert 'damaged in 1 place' in text and 'not closed' not in text


def test_warm_up_drift_is_measured_at_rest():
    take = take_of(body(seconds=60.0, noise_m=0.0001, move=lambda t: 0.002 * t / 60))
    f = body_figures(take, take.bodies['wand'])
    assert f.rest.drift_mm == pytest.approx(2.0 * 0.9, abs=0.1)    # mean of the tenths
    assert any('moved by 1.8' in text for _, text in texts(take))


def transforms_cdr(at_s, parent, *names):
    """Make a message with a transform of each name in its parent."""
    stamp = header(BEGIN_NS + round(at_s * 1e9), parent)
    return cdr(make('tf2_msgs/TFMessage', [make(
        'geometry_msgs/TransformStamped', stamp, name, make(
            'geometry_msgs/Transform',
            make('geometry_msgs/Vector3', x, 0.001 * (at_s % 0.05), 0.0),
            make('geometry_msgs/Quaternion', *STILL))) for x, name in enumerate(names)]))


@pytest.mark.parametrize('other', ['workspace', 'map', 'optitrack'])    # the first as long
def test_a_frame_of_two_parents_is_found_beside_the_poses_of_the_bodies(tmp_path, other):
    """The transforms are not read otherwise, since the take has the poses."""
    ours = [(i / 100, transforms_cdr(i / 100, 'optitrack', 'cf1')) for i in range(400)]
    theirs = [(i / 50, transforms_cdr(i / 50, other, 'cf1')) for i in range(200)]
    take = written(tmp_path / 'take', {
        '/tf': ('tf2_msgs/msg/TFMessage', sorted([*ours, *theirs])),
        '/cf1/pose': ('geometry_msgs/msg/PoseStamped', poses_of(1.0))})
    found = [each.text for each in found_in(take) if each.code == 'two parents']
    assert found == ([] if other == 'optitrack' else [
        "the frame 'cf1' of TF has two parents: "
        + ', '.join(sorted([f"'{other}'", "'optitrack'"]))])


@pytest.mark.parametrize('again, reason', [
    (lambda i: i - (i % 7 == 3), 'the stamp is that of another pose'),
    (lambda i: i if i < 300 else i - 200, 'the stamp is that of another pose'),
    (lambda i: i if i % 7 != 3 else i - 2.5, 'the stamps go back')])
def test_transforms_left_out_are_counted_of_their_frame_with_one_reason(tmp_path, again, reason):
    """Of all bodies at once: one finding."""
    take = written(tmp_path / 'take', {'/tf': ('tf2_msgs/msg/TFMessage', [
        (i / 100, transforms_cdr(again(i) / 100, 'map', 'Bottle', 'Cup', 'Box'))
        for i in range(400)])})
    (one,) = [each for each in found_in(take) if each.code == 'left out']
    lost = take.left_out['/tf:Bottle'].poses
    assert one.text == (f'{lost} poses of 400 on /tf:Bottle (and of 2 other topics) are left out '
                        f'here: {reason}')
    assert 0 < lost <= 200


@pytest.mark.parametrize('log_s, stamp_s', [
    (0.0, BEGIN_NS / 1e9), (BEGIN_NS / 1e9, 5.0), (BEGIN_NS / 1e9, BEGIN_NS / 1e9)])
def test_times_of_damage_and_restarts_are_those_of_the_stamps(tmp_path, log_s, stamp_s):
    """The log can have another clock than the stamps, as those of a simulation."""
    values = [[make('diagnostic_msgs/KeyValue', key, value) for key, value in (
        ('offset_s', '1.0'), ('epoch', str(epoch)))] for epoch in (0, 1)]
    topics = {
        '/wand/pose': (POSE, [(log_s - BEGIN_NS / 1e9 + at, pose_cdr(
            round((stamp_s + at) * 1e9), (0.0, 0.0, 0.001 * (k % 7)), STILL))
            for k, at in enumerate(np.arange(0.0, 12.0, 0.01))]),
        '/diagnostics': ('diagnostic_msgs/msg/DiagnosticArray', [
            (log_s - BEGIN_NS / 1e9 + at, cdr(make('diagnostic_msgs/DiagnosticArray', header(
                0, ''), [make('diagnostic_msgs/DiagnosticStatus', 0, 'node: clock', '', '',
                              values[at > 10])]))) for at in range(13)])}
    written(tmp_path / 'take', topics)
    path = tmp_path / 'take' / 'take.mcap'
    data = bytearray(path.read_bytes())
    data[data.index(topics['/wand/pose'][1][200][1]) + 60] ^= 0xff
    path.write_bytes(data)
    spans = {one.code: one.spans for one in found_in(load_take(path))}
    assert len(spans['damaged']) == 1 and 1.3 < spans['damaged'][0].begin_s < 2.01
    assert spans['damaged'][0].end_s - spans['damaged'][0].begin_s == pytest.approx(0.6, abs=0.1)
    assert spans['clock restarted'][0].begin_s == pytest.approx(11.0, abs=0.01)


def test_without_a_pose_damage_has_no_time(tmp_path):
    rows = [(at, pose_cdr(BEGIN_NS + k, (np.nan, 0.0, 0.0), STILL))
            for k, at in enumerate(np.arange(0.0, 4.0, 0.01))]
    written(tmp_path / 'take', {'/wand/pose': (POSE, rows)})
    path = tmp_path / 'take' / 'take.mcap'
    data = bytearray(path.read_bytes())
    data[data.index(rows[200][1]) + 60] ^= 0xff
    path.write_bytes(data)
    (one,) = [one for one in found_in(load_take(path)) if one.code == 'damaged']
    assert one.spans == ()
