# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The axis bridge without IO: angles, table, validity, status, teaching."""

import math
import random

from hypothesis import example, given, strategies as st
from optitrack_vrpn.core.axes import AxesConfig, frame_maps, Pose
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import angle_between, IDENTITY, normalised
from optitrack_vrpn.core.settings.schema import build
from optitrack_vrpn.guests.machine.axes_mapper import AxisMapper
from optitrack_vrpn.guests.machine.axes_settings import (
    AxesMapperSettings, AxisTable, FRAMES, motive_from_enu, pose_from_quantities,
    quantities_of, Unwrapper)
from optitrack_vrpn.guests.machine.axes_teach import identify_axis, Recording, report
from optitrack_vrpn.guests.machine.axis_bridge_io import Cycle, load_table, write_row
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
import pytest
from scipy.spatial.transform import Rotation

MS = 1_000_000

angle = st.floats(-3.1, 3.1)
tilt = st.floats(-1.5, 1.5)
length = st.floats(-5.0, 5.0)
quats = st.tuples(*[st.floats(-1, 1)] * 4).filter(
    lambda q: sum(c * c for c in q) > 0.01).map(normalised)


def enu_from_motive(pose, motive_x):
    """Take a pose on Motive's y-up axes to FLU in ENU, as the main node does."""
    maps = frame_maps(AxesConfig(motive_x=motive_x))
    return Pose(maps.position_to_enu(pose.position), maps.quat_to_enu(pose.quat_xyzw))


ROW = {'name': 'x', 'body': 'b', 'quantity': 'z'}


def mapper(*rows, **settings):
    """Make a mapper of rows, each with what it changes, or of one."""
    return AxisMapper(build(AxisTable, {'axes': [{**ROW, **row} for row in rows or [{}]]}, ''),
                      AxesMapperSettings(**settings))


def show(axes, body, t_ms, position=(0.0, 0.0, 0.0), quat=IDENTITY, age_ms=0):
    """Give the mapper a pose on Motive's axes at a time."""
    pose = enu_from_motive(Pose(position, quat), 'north')
    return axes.pose(body, (t_ms - age_ms) * MS, *pose, t_ms * MS, t_ms * MS)


# -- angles -------------------------------------------------------------------------------------

@given(st.lists(st.floats(-3.0, 3.0), max_size=200), st.floats(-3.1, 3.1))
def test_unwrapped_angle_follows_any_number_of_turns(steps, start):
    unwrapper = Unwrapper()
    true = start
    assert unwrapper.update(math.remainder(true, 2 * math.pi)) == math.remainder(true, 2 * math.pi)
    for step in steps:
        true += step
        assert abs(unwrapper.update(math.remainder(true, 2 * math.pi)) - true) < 1e-9


# -- frames -------------------------------------------------------------------------------------

@given(st.tuples(length, length, length), quats, st.sampled_from(['north', 'east']))
def test_motive_from_enu_inverts_the_main_node(position, quat, motive_x):
    pose = motive_from_enu(enu_from_motive(Pose(position, quat), motive_x), motive_x)
    assert pose.position == pytest.approx(position)
    assert angle_between(pose.quat_xyzw, quat) < 1e-6


@given(st.tuples(length, length, length), angle, tilt, angle, st.sampled_from(FRAMES),
       st.sampled_from(['north', 'east']))
def test_pose_from_quantities_has_these_quantities(position, roll, pitch, yaw, frame, motive_x):
    pose = pose_from_quantities(position, roll, pitch, yaw, frame, motive_x)
    found = quantities_of(enu_from_motive(pose, motive_x), frame, motive_x)
    assert found.values == pytest.approx((*position, roll, pitch, yaw), abs=1e-5)


@pytest.mark.parametrize('frame, turn, expected', [
    ('motive', 0.5, (1, 2, 3, 0, 0, 0.5)),
    # The equations applied to the numbers as they are: y, Motive's vertical, is the pitch.
    ('motive_xyz', 0.5, (1, 2, 3, 0, 0.5, 0)),
    # Motive's x points north: a body as created looks north, 90 degrees from east.
    ('enu', 0.0, (3, 1, 2, 0, 0, math.pi / 2)),
    ('ned', 0.0, (1, 3, -2, 0, 0, 0))])
def test_quantities_of_a_body_turned_about_the_vertical(frame, turn, expected):
    quat = tuple(Rotation.from_rotvec((0.0, turn, 0.0)).as_quat())
    values = quantities_of(enu_from_motive(Pose((1, 2, 3), quat), 'north'), frame).values
    assert values == pytest.approx(expected, abs=1e-9)


# -- tables -------------------------------------------------------------------------------------

@pytest.mark.parametrize('change, words', [
    ({'quantity': 'up'}, 'quantity'), ({'sign': 0}, 'sign'), ({'unit': 'deg'}, 'does not fit'),
    ({'unwrap': True}, 'has no turns'), ({'range': [2, 1]}, 'range'), ({'speed': 1}, 'speed'),
    ({'frame': 'map'}, 'frame'), ({'scale': 0}, 'scale'), ({'name': 'a;b'}, 'semicolon'),
    ({'body': ' '}, 'body'),
])
def test_a_wrong_row_is_refused_by_name(change, words):
    with pytest.raises(ConfigurationError, match=words):
        mapper(change)


def test_orion_maps_as_the_thesis_says():
    """X = z, Y = -x, yaw = -yaw, pitch = -roll, in degrees; roll about x, yaw about y (up)."""
    axes = AxisMapper(load_table('axes_orion'))
    turn = Rotation.from_euler('YX', (20.0, 10.0), degrees=True)
    show(axes, 'chaser', 0, (1.0, 2.0, 3.0), tuple(turn.as_quat()))
    show(axes, 'target', 0, (0.0, 0.0, 0.0), tuple(turn.inv().as_quat()))
    values = [axis.value for axis in axes.sample(0).axes]
    assert values[:4] == pytest.approx((3.0, -1.0, -20.0, -10.0))
    assert all(axis.valid for axis in axes.sample(0).axes)


@pytest.mark.parametrize('name', ['axes_orion', 'axes_racoon'])
@given(data=st.data())
def test_carried_poses_show_the_values_of_their_axes(name, data):
    table = load_table(name)
    values = {row.name: data.draw(st.floats(-3, 3) if row.quantity in 'xyz'
                                  else st.floats(-80, 80)) for row in table.axes}
    axes = AxisMapper(table)
    for body in table.bodies:
        pose = table.carried_pose(body, values)
        axes.pose(body, 0, *enu_from_motive(pose, 'north'), 0, 0)
    shown = {row.name: axis.value for row, axis in zip(table.axes, axes.sample(0).axes)}
    assert shown == pytest.approx(values, abs=1e-4)


def test_units_sign_scale_and_zero():
    axes = mapper({'quantity': 'x', 'unit': 'mm', 'sign': -1, 'scale': 2.0, 'zero': 100.0},
                  {'name': 'c', 'quantity': 'yaw', 'unit': 'rad'})
    show(axes, 'b', 0, (0.3, 0, 0), tuple(Rotation.from_rotvec((0, 0.4, 0)).as_quat()))
    assert [a.value for a in axes.sample(0).axes] == pytest.approx([-400.0, 0.4])


# -- validity -----------------------------------------------------------------------------------

def test_an_axis_without_pose_is_nan_and_never_zero():
    sample = mapper().sample(0)
    assert math.isnan(sample.axes[0].value) and not sample.axes[0].valid
    assert sample.axes[0].fault == 'no_pose' and sample.stamp_ns == 0


def test_an_untracked_body_clears_the_flag():
    axes = mapper()
    show(axes, 'b', 1000, (0, 0, 1.5))
    assert axes.sample(1050 * MS).axes[0] == (1.5, None, '')
    gone = axes.sample(1150 * MS).axes[0]
    assert not gone.valid and 'was measured' in gone.reason
    assert math.isnan(gone.value)
    show(axes, 'b', 1200, (0, 0, 1.6))
    assert axes.sample(1200 * MS).axes[0] == (1.6, None, '')


def test_one_body_out_of_view_leaves_the_axes_of_the_other():
    axes = mapper(*({'name': n, 'body': n} for n in 'ab'))
    show(axes, 'a', 0, (0, 0, 1.0))
    show(axes, 'b', 0, (0, 0, 2.0))
    show(axes, 'b', 150, (0, 0, 2.5))
    one, other = axes.sample(150 * MS).axes
    assert not one.valid and other.valid and other.value == 2.5


@pytest.mark.parametrize('position, quat', [
    ((math.nan, 0, 0), IDENTITY), ((math.inf, 0, 0), IDENTITY), ((0, 0, 0), (0, 0, 0, 0)),
    ((0, 0, 0), (math.nan, 0, 0, 1)),
])
def test_what_is_no_pose_is_not_used(position, quat):
    axes = mapper()
    assert not axes.pose('b', 0, position, quat, 0, 0)
    assert axes.counters.not_finite == 1 and not axes.sample(0).axes[0].valid


@pytest.mark.parametrize('held_ms', [0, 100, 488, 5000])
def test_the_age_of_a_value_counts_from_its_stamp(held_ms):
    """What waited in the queue of a held node is as old as its stamp says."""
    axes = mapper()
    assert show(axes, 'b', 1000, age_ms=held_ms)
    assert axes.sample(1000 * MS).axes[0].valid is (held_ms <= 150)
    for later_ms in range(1, 300, 10):
        axis = axes.sample((1000 + later_ms) * MS).axes[0]
        assert axis.valid is (held_ms + later_ms <= 150)
    assert 'was measured' in axis.reason


def test_a_stamp_in_the_future_is_not_used_and_invalidates_nothing():
    axes = mapper()
    for t in range(1000, 2000, 10):
        assert show(axes, 'b', t)
        if t == 1500:
            assert not show(axes, 'b', t, age_ms=-900)
            assert not show(axes, 'b', t, age_ms=-60)
        assert axes.sample(t * MS).axes[0].valid and axes.sample(t * MS).stamp_ns <= t * MS
    assert axes.counters.in_future == 2 and axes.counters.out_of_order == 0


def test_the_stamp_is_that_of_the_oldest_measurement_that_is_used():
    axes = mapper(*({'name': n, 'body': n} for n in 'ab'))
    show(axes, 'a', 1000)
    show(axes, 'b', 1100)
    assert axes.sample(1100 * MS).stamp_ns == 1000 * MS
    assert axes.sample(1200 * MS).stamp_ns == 1100 * MS, 'that of a is stale'


def test_stamps_never_run_backwards():
    axes = mapper(*({'name': n, 'body': n} for n in 'ab'))
    rng = random.Random(3)
    last = 0
    for t in range(1000, 4000, 7):
        for body in 'ab':
            if rng.random() < 0.5:
                show(axes, body, t, age_ms=rng.randrange(60))
        stamp = axes.sample(t * MS).stamp_ns
        assert stamp >= last and stamp <= t * MS
        last = stamp
    assert axes.counters.out_of_order > 10


def test_poses_are_used_again_after_the_clock_of_their_stamps_was_set_back():
    axes = mapper()
    for t in range(5000, 5100, 10):
        assert show(axes, 'b', t)
    assert axes.sample(5090 * MS).stamp_ns == 5090 * MS
    assert show(axes, 'b', 2000) and show(axes, 'b', 2010)
    assert axes.counters.clock_steps == 1 and axes.counters.out_of_order == 0
    assert axes.sample(2010 * MS).axes[0].valid
    assert axes.sample(2010 * MS).stamp_ns == 2010 * MS


def test_gimbal_lock_invalidates_roll_and_yaw_but_not_pitch():
    axes = mapper(*({'name': q, 'quantity': q} for q in ('roll', 'pitch', 'yaw')))
    show(axes, 'b', 0, (0, 0, 0), pose_from_quantities((0, 0, 0), 0.1, math.radians(89.6), 0.2,
                                                       'motive').quat_xyzw)
    roll, pitch, yaw = axes.sample(0).axes
    assert not roll.valid and not yaw.valid and 'gimbal lock' in yaw.reason
    assert pitch.valid and pitch.value == pytest.approx(89.6)


def test_a_value_outside_its_range_is_invalid():
    axes = mapper({'range': [-1, 1]})
    show(axes, 'b', 0, (0, 0, 1.2))
    axis = axes.sample(0).axes[0]
    assert not axis.valid and 'outside the range' in axis.reason


def test_an_endless_yaw_goes_on_across_turns():
    axes = mapper({'quantity': 'yaw', 'unwrap': True})
    for t in range(0, 1000, 10):
        turned = tuple(Rotation.from_rotvec((0, t * 0.02, 0)).as_quat())
        show(axes, 'b', t, (0, 0, 0), turned)
    assert axes.sample(990 * MS).axes[0].value == pytest.approx(math.degrees(990 * 0.02))


def test_the_lowpass_is_that_of_the_main_node():
    """Noise falls as much as scipy's filter of this order and cutoff says."""
    from scipy import signal
    rng = random.Random(1)
    noise = [rng.gauss(0, 1e-3) for _ in range(3000)]
    axes = mapper(lowpass=LowpassConfig(cutoff_hz=5.0))
    out = []
    for k, value in enumerate(noise):
        show(axes, 'b', 10 * k, (0, 0, value))
        out.append(axes.sample(10 * k * MS).axes[0].value)
    expected = signal.sosfilt(signal.butter(5, 5.0, fs=100.0, output='sos'), noise)
    assert out[500:] == pytest.approx(list(expected[500:]), abs=1e-9)


def test_the_delay_of_the_lowpass_is_taken_off_the_stamp():
    """At constant speed the value is where the body was at the stamp."""
    axes = mapper(lowpass=LowpassConfig(cutoff_hz=5.0))
    for t in range(0, 3000, 10):
        show(axes, 'b', t, (0, 0, t * 1e-3))
    sample = axes.sample(2990 * MS)
    assert sample.axes[0].value == pytest.approx(sample.stamp_ns * 1e-9, abs=1e-6)
    assert 0.09 < 2.99 - sample.stamp_ns * 1e-9 < 0.12


# -- status -------------------------------------------------------------------------------------

def test_status_numbers_are_those_of_the_thesis():
    axes = mapper(connect_timeout_s=5.0)
    assert axes.sample(0).status == 0
    assert axes.sample(4900 * MS).status == 0
    assert axes.sample(5100 * MS).status == 2
    show(axes, 'b', 6000)
    assert axes.sample(6000 * MS).status == 1
    assert axes.sample(11100 * MS).status == 2
    axes.end()
    assert axes.sample(11200 * MS).status == -1
    show(axes, 'b', 12000)
    assert axes.sample(12000 * MS).status == -1
    axes.start(13000 * MS)
    assert axes.sample(13000 * MS).status == 0
    assert math.isnan(axes.sample(13000 * MS).axes[0].value)


# -- cycles -------------------------------------------------------------------------------------

@given(st.lists(st.integers(0, 35), max_size=100))
@example([4, 6, 10, 35])
def test_deadlines_do_not_drift_whatever_the_delays(delays):
    cycle = Cycle(10)
    now = 0
    periods = 0
    for delay in delays:
        due = cycle.due_ns(now)
        assert due % 10 == 0
        now = max(now, due) + delay
        late = now - due
        periods += cycle.begin(now)
        assert cycle.due_ns(now) > now
    assert cycle.cycles == len(delays) and cycle.cycles + cycle.skipped == periods
    if delays:
        assert cycle.worst_ns >= late


# -- teaching -----------------------------------------------------------------------------------

def recording(start, end, rng, sigma_m=3e-4, sigma_rad=6e-4, steps=60):
    """Make poses of (position, rotation vector) on Motive's axes with noise."""
    def pose(share):
        place = [a + share * (b - a) + rng.gauss(0, sigma_m) for a, b in zip(start[0], end[0])]
        turn = [a + share * (b - a) + rng.gauss(0, sigma_rad) for a, b in zip(start[1], end[1])]
        return enu_from_motive(
            Pose(tuple(place), tuple(Rotation.from_rotvec(turn).as_quat())), 'north')
    return Recording([pose(0.0) for _ in range(40)],
                     [pose(k / steps) for k in range(steps)] + [pose(1.0) for _ in range(30)])


STILL = ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))


def taught(name, distance=None, steps=60, **ends):
    """Teach an axis with bodies that move from rest to a pose."""
    rng = random.Random(0)
    return identify_axis(
        name, {body: recording(STILL, end, rng, steps=steps) for body, end in ends.items()},
        distance=distance)


def test_teaching_finds_axis_sign_scale_and_zero():
    result = taught('chaser_y', 0.51, chaser=((0.5, 1.0, 1.0), (0, 0, 0)), target=STILL)
    row = result.row
    assert (row.body, row.quantity, row.sign, row.unit) == ('chaser', 'x', -1, 'm')
    assert row.scale == pytest.approx(1.02, abs=0.002) and row.zero == pytest.approx(1.0, abs=1e-3)
    assert result.misalignment < math.radians(0.5) and result.noise < 5e-4
    assert 'sign -1' in report(result)


def test_teaching_names_others_that_moved():
    moved = ((1.0, 1.0, 1.5), (0, 0, 0))
    result = taught('x', a=moved, b=moved)
    assert len(result.also_moved) == 1 and 'also moved' in report(result)


@pytest.mark.parametrize('end, words', [
    (STILL, 'no body moved'), (((1.3, 1.0, 1.3), (0, 0, 0)), 'degrees off the nearest'),
])
def test_teaching_refuses_what_shows_nothing(end, words):
    with pytest.raises(ConfigurationError, match=words):
        taught('x', a=end)


def test_a_taught_row_replaces_the_one_of_its_name(tmp_path):
    path = tmp_path / 'mine.yaml'
    rows = [taught(name, distance, a=(place, (0, 0, 0))).row for name, distance, place in (
        ('x', None, (1, 1, 1.5)), ('y', None, (1.5, 1, 1)), ('x', 0.5, (1, 1, 0.5)))]
    for row in rows:
        write_row(path, row)
    table = load_table(path)
    assert table.axes == (rows[2], rows[1]) and table.axes[0].sign == -1
