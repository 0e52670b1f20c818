# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A STOP is refused while a bridge says that its vehicle is armed, and no longer."""

import random

from optitrack_vrpn.control.armed import ArmedVehicles, Claim, claim_of, SILENT_NS
from optitrack_vrpn.core.doubt import Doubt, doubt_of, DoubtGuard
import pytest

S = 1_000_000_000


@pytest.mark.parametrize('armed, allowed, refused', [
    (True, False, True), (None, False, True), (False, False, False), (True, True, False)])
def test_a_claim_refuses_or_not_and_survives_the_message(armed, allowed, refused):
    claim = Claim('/bridge', 'cf1', armed, allowed)
    assert claim_of(claim.bridge, claim.body, claim.values()) == claim
    assert bool(claim.refusal) is refused
    assert '/bridge' in claim.refusal or not refused


def test_a_message_that_is_not_understood_is_the_safe_side():
    assert claim_of('/bridge', 'cf1', {}).refusal


def test_stop_is_refused_until_the_bridge_is_silent_as_after_kill():
    vehicles = ArmedVehicles()
    vehicles.heard(Claim('/bridge', 'cf1', True), 0)
    for tenth in range(80):
        now = tenth * S // 10
        vehicles.tick(now)
        assert bool(vehicles.refusal(now)) is (now < SILENT_NS), tenth


def test_a_suspended_node_still_refuses():
    """What it has not heard meanwhile is no sign that the bridge is gone."""
    vehicles = ArmedVehicles()
    vehicles.heard(Claim('/bridge', 'cf1', True), 0)
    assert vehicles.refusal(600 * S)


def test_random_claims_refuse_exactly_while_an_armed_bridge_speaks():
    chance = random.Random(7)
    refused = 0
    for _ in range(500):
        vehicles, state, now = ArmedVehicles(), {}, 0
        for _ in range(60):
            now += chance.randrange(S)
            vehicles.tick(now)
            if chance.random() < 0.5:
                claim = Claim(chance.choice(['/a', '/b']), 'cf1', chance.choice(
                    [True, False, None]), chance.random() < 0.2)
                vehicles.heard(claim, now)
                state[claim.bridge] = claim, now
            expected = any(now - at < SILENT_NS and claim.armed is not False
                           and not claim.allowed for claim, at in state.values())
            assert bool(vehicles.refusal(now)) is expected
            refused += expected
    assert 3000 < refused < 27000


# -- attitudes that time alone made valid ---------------------------------------------------------

def test_an_armed_vehicle_does_not_follow_a_turn_that_only_time_accepted():
    guard = DoubtGuard()
    guard.report(Doubt(1, 90.0))
    assert not guard.lost, 'disarmed'
    guard.guard(True)
    assert not guard.lost, 'armed with it'
    guard.report(Doubt(2, 90.0))
    assert guard.lost, 'another one'
    guard.guard(False)
    assert not guard.lost
    guard.report(Doubt(2, 0.0))
    guard.guard(True)
    guard.report(Doubt(3, 40.0))
    assert not guard.lost, 'a bad fit'
    guard.report(Doubt(4, 46.0))
    assert guard.lost and '46 degrees' in guard.reason and 'accept_pose' in guard.remedy
    guard.report(Doubt(4, 0.0))
    assert not guard.lost, 'it returned, or the user accepted it'


def test_a_flying_vehicle_keeps_its_poses_when_the_user_accepts_the_attitude_it_was_armed_with():
    guard = DoubtGuard()
    guard.report(Doubt(1, 160.0))
    guard.guard(True)
    guard.report(Doubt(1, 0.0), turned=False)
    assert not guard.lost, 'nothing has turned'
    guard.report(Doubt(2, 90.0))
    assert guard.lost, 'the accepted attitude is the one to compare with'


def test_a_flying_vehicle_does_not_follow_the_return_to_the_attitude_before_arming():
    guard = DoubtGuard()
    guard.report(Doubt(1, 160.0))
    guard.guard(True)
    guard.report(Doubt(1, 0.0), turned=True)
    assert guard.lost and 'turned back by 160 degrees' in guard.reason
    assert not guard.remedy, 'accept_pose has nothing to accept'


def test_random_doubt_is_followed_within_45_degrees_only():
    chance = random.Random(3)
    lost = 0
    for _ in range(2000):
        guard, now, base, armed = DoubtGuard(), Doubt(), Doubt(), False
        for _ in range(30):
            match chance.randrange(3):
                case 0:
                    now = Doubt(now.times + 1, chance.choice([0.0, 30.0, 60.0, 90.0, 180.0]))
                    guard.report(now)
                case 1:
                    now = now._replace(degrees=0.0)
                    guard.report(now)
                case _:
                    if not armed:
                        base = now
                    armed = not armed
                    guard.guard(armed)
            if not guard.lost and armed:
                assert abs(now.degrees - base.degrees) <= 45.0
            assert armed or not guard.lost
            lost += guard.lost
    assert lost > 5000


@pytest.mark.parametrize('values, doubt', [
    ({}, Doubt()), ({'accepted_by_time': '3', 'accepted_by_time_deg': '92.5'}, Doubt(3, 92.5)),
    ({'accepted_by_time': 'x', 'accepted_by_time_deg': 'y'}, Doubt()),
    ({'accepted_by_time_deg': 'nan'}, Doubt(0, 180.0)),
    ({'accepted_by_time': '9' * 5000, 'accepted_by_time_deg': '9' * 5000}, Doubt())])
def test_the_status_is_read_whatever_it_contains(values, doubt):
    assert doubt_of(values) == doubt
