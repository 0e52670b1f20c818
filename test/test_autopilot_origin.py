# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The origin of the estimator: set before the poses, kept, reported."""

from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeConfig
from optitrack_vrpn.guests.autopilot.messages import make_message
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Vehicle
import pytest
from vehicle_kit import START, Together


def test_the_origin_is_sent_where_the_autopilot_has_none():
    both = Together(origin=(47.3977419, 8.5455938, 0.0))
    both.run(6)
    assert both.fake.origin == (473977419, 85455938, 0)
    assert both.vehicle.origin.problem == ''
    assert both.vehicle.origin.sent == 1


def first_permission(both, seconds=12):
    """Give the time (s) at which poses may be sent, and whether the fake had the origin then."""
    for step in range(seconds * 10):
        if both.vehicle.may_send:
            return step / 10, both.fake.origin is not None
        both.run(0.1)
    return None, None


ORIGIN = (47.3977419, 8.5455938, 488.0)


def test_ardupilot_gets_its_origin_before_the_first_pose():
    """It shifts its local height by that of the poses at the time when the origin comes."""
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    seconds, has_origin = first_permission(both)
    assert has_origin
    assert seconds < 6
    both.run(1)
    assert both.vehicle.may_send
    # With an origin that is there already, there is nothing to wait for.
    both.alive = False
    both.run(4)
    assert both.vehicle.may_send, 'a link that works one way must not cost the poses'
    both.vehicle = Vehicle(both.settings, plan(both.settings))
    both.alive = True
    seconds, has_origin = first_permission(both)
    assert seconds < 1.5


@pytest.mark.parametrize(('fake', 'settings', 'limit'), [
    (FakeConfig('ardupilot', epoch_ns=START, armed=True), {'origin': ORIGIN}, 1.5),
    (FakeConfig('ardupilot', epoch_ns=START), {}, 1.5),
    (FakeConfig('px4', epoch_ns=START), {'autopilot': 'px4', 'origin': (*ORIGIN[:2], 0.0)}, 1.5)])
def test_poses_wait_for_no_origin_that_is_not_to_be_set_before_them(fake, settings, limit):
    both = Together(fake, **{'autopilot': 'ardupilot', **settings})
    assert first_permission(both)[0] <= limit


def test_a_late_confirmation_of_the_origin_does_not_interrupt_the_poses(monkeypatch):
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    receive = both.fake.receive

    def silent(message, now):
        """Take the origin, and answer only later requests for it."""
        answers = receive(message, now)
        about_origin = [one for one in answers if one.get_type() == 'GPS_GLOBAL_ORIGIN']
        return [] if about_origin and len(permitted) < 700 else answers
    monkeypatch.setattr(both.fake, 'receive', silent)
    permitted = []
    for _ in range(1400):
        both.run(0.01)
        permitted.append(both.vehicle.may_send)
    assert permitted == sorted(permitted)
    assert permitted[-1]
    assert both.vehicle.origin.present is not None


def test_an_autopilot_that_takes_no_origin_gets_poses_without(monkeypatch):
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    monkeypatch.setattr(both.fake, 'receive', lambda message, now: [])
    assert first_permission(both)[0] < 8
    assert 'no origin' in both.vehicle.origin.problem


def test_an_origin_of_altitude_0_that_another_has_set_fails_the_check_of_ardupilot():
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    both.fake.origin = (473977419, 85455938, 0)
    both.run(4)
    found = both.finding('origin')
    assert found.severity is ERROR
    assert 'reboot' in found.advice


def test_no_origin_is_set_while_the_vehicle_is_armed():
    """It may have one already: the answer that says so can be lost."""
    both = Together(FakeConfig(epoch_ns=START, armed=True), origin=(47.3977419, 8.5455938, 0.0))
    both.run(8)
    assert both.fake.origin is None
    both.fake.config = both.fake.config._replace(armed=False)
    both.run(4)
    assert both.fake.origin == (473977419, 85455938, 0)


def test_an_origin_that_is_there_is_kept_and_its_distance_told():
    both = Together(origin=(47.3977419, 8.5455938, 0.0))
    both.fake.origin = (473987419, 85455938, 0)    # 0.001 degrees north: 111 m
    both.run(6)
    assert both.fake.origin == (473987419, 85455938, 0)
    assert '111 m from' in both.vehicle.origin.problem


def test_an_origin_above_sea_level_is_reported_for_px4():
    """PX4 1.17 in SITL shifts its height by 488 m at each reset of the poses."""
    both = Together()
    both.run(1)
    both.take(make_message(
        'GPS_GLOBAL_ORIGIN', latitude=473977419, longitude=85455938, altitude=488000))
    found = both.finding('origin')
    assert found.severity is ERROR
    assert 'reboot' in found.advice and '488.0 m' in found.found


def test_an_origin_that_px4_cannot_use_has_a_warning():
    """PX4 1.17 in SITL has no global position with poses in local_frd."""
    assert plan(BridgeSettings(body='cf1', origin=(47.4, 8.5, 0.0))).warnings
