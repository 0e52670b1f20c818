# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Messages that PX4 sent in SITL (test/data/px4_1.17_sitl.txt), to the state of a vehicle."""

from pathlib import Path

from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.guests.autopilot.exchanges import Timesync
from optitrack_vrpn.guests.autopilot.gate import Gate
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.report import findings, LinkReport, VisionSource
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Vehicle, VehicleLink
import pytest

pytest.importorskip('pymavlink')

LINES = [line.split() for line in (
    Path(__file__).parent / 'data' / 'px4_1.17_sitl.txt').read_text().splitlines()
    if not line.startswith('#')]
#: Time of the TIMESYNC request that the capture names (ns).
ASKED_NS = 1795383019306337025
SETTINGS = BridgeSettings(body='cf1', target_system=0)


def messages():
    """Give (arrival, message) of the messages with a time."""
    codec = Codec(1, 197)
    for first, digits in LINES:
        if first.isdecimal():
            (message,) = codec.decode(bytes.fromhex(digits))
            yield int(first), message


def replayed():
    """Give the state of the vehicle after all messages, and the answers to them."""
    vehicle = Vehicle(SETTINGS, plan(SETTINGS))
    answers = []
    for at_ns, message in messages():
        answers += vehicle.receive(message, at_ns, at_ns)
        vehicle.tick(at_ns, at_ns)
    return vehicle, answers


def test_px4_is_recognised_with_version_parameters_and_origin():
    vehicle, _ = replayed()
    assert (vehicle.link, vehicle.system, vehicle.armed) == (VehicleLink.ALIVE, 1, False)
    assert (vehicle.firmware, vehicle.version) == ('PX4', '1.17.0')
    assert vehicle.origin.present == pytest.approx((47.3977419, 8.5455938, 0.0))
    values = {one.rule.name: one.value for one in vehicle.parameters.verdicts}
    # Read, then written: EKF2_EV_CTRL from 15 to 11, EKF2_EV_DELAY from 0 to 12.5.
    asked_for = {'EKF2_EV_CTRL': 11, 'EKF2_HGT_REF': 3, 'EKF2_EV_DELAY': 12.5,
                 'EKF2_GPS_CTRL': 0, 'EKF2_MAG_TYPE': 5}
    assert asked_for.items() <= values.items()
    assert all(one.good for one in vehicle.parameters.verdicts if one.rule.name in asked_for)
    # The ground station, whose heartbeats PX4 forwards, is no vehicle and no sender of poses.
    last_ns = int(LINES[-6][0])
    assert not vehicle.other_vehicles(last_ns) and not vehicle.other_senders(last_ns)


def test_requests_of_px4_for_the_time_are_answered_at_once():
    _, answers = replayed()
    begin_ns = next(at_ns for at_ns, one in messages()
                    if one.name == 'HEARTBEAT' and one.system == 1)
    asked = [(at_ns, one.fields['ts1']) for at_ns, one in messages()
             if one.name == 'TIMESYNC' and one.fields['tc1'] == 0 and at_ns > begin_ns]
    assert len(asked) > 10
    assert [(one.fields['tc1'], one.fields['ts1']) for one in answers] == asked


def test_the_clock_of_px4_explains_the_arrival_of_its_attitudes():
    timesync = Timesync()
    timesync.request(ASKED_NS, 10**12)
    ages = []
    for at_ns, message in messages():
        if message.name == 'TIMESYNC':
            timesync.receive(message.fields['tc1'], message.fields['ts1'], at_ns)
    assert timesync.best.round_trip_ns < 1_000_000
    for at_ns, message in messages():
        if message.name == 'ATTITUDE':
            taken_ns = message.fields['time_boot_ms'] * 1_000_000 - timesync.best.offset_ns
            ages.append((at_ns - taken_ns) / 1e6)
    # Its stamps are whole milliseconds; the computer was loaded.
    assert len(ages) > 20
    assert -1.0 <= min(ages) < 2.0
    assert max(ages) < 40.0


@pytest.mark.parametrize(('state', 'level'), [
    ('no_poses', WARN), ('standing_poses_fused', INFO),
    ('flying_poses_fused', INFO), ('flying_no_pose_for_3_s', WARN),
    ('no_pose_for_7_s', WARN)])
def test_the_check_sees_whether_px4_fuses_the_poses(state, level):
    vehicle, _ = replayed()
    (status,) = Codec(1, 197).decode(bytes.fromhex(dict(LINES)[state]))
    vehicle.receive(status, ASKED_NS, ASKED_NS)
    chosen = plan(SETTINGS)
    found = {one.check: one for one in findings(
        SETTINGS, chosen, VisionSource('/cf1/odom', 1, 'TRACKED', '/cf1/odom', 50.0),
        Gate(chosen), LinkReport(True, '', 'peer', 0, {}), vehicle, True, ASKED_NS)}
    assert found['estimator'].severity is level
