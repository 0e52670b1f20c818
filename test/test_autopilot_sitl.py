# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Messages that PX4 1.17 and ArduPilot 4.7 sent in SITL, to the state of a vehicle."""

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


class Capture:
    """
    A capture with the settings of the bridge that replays it.

    :ivar rows: (arrival or name of a state, bytes in hexadecimal digits).
    :ivar asked_ns: time of the TIMESYNC request that the capture names (ns).
    """

    def __init__(self, file, **settings):
        lines = (Path(__file__).parent / 'data' / file).read_text().splitlines()
        self.rows = [line.split() for line in lines if not line.startswith('#')]
        self.asked_ns = next(int(word) for line in lines if 'TIMESYNC' in line
                             for word in line.replace(',', ' ').split() if len(word) == 19)
        self.settings = BridgeSettings(body='cf1', **settings)
        codec = Codec(1, 197)
        self.messages = [(int(first), message) for first, digits in self.rows
                         if first.isdecimal() for message in codec.decode(bytes.fromhex(digits))]
        self.last_ns = self.messages[-1][0]

    def replay(self):
        """Give the state of the vehicle after all messages, and the answers to them."""
        vehicle = Vehicle(self.settings, plan(self.settings))
        answers = []
        for at_ns, message in self.messages:
            answers += vehicle.receive(message, at_ns, at_ns)
            if self.settings.autopilot == 'px4':    # the other capture has gaps of seconds
                vehicle.tick(at_ns, at_ns)
        return vehicle, answers

    def timesync(self):
        """Give the exchange of the times, and the ages (ms) of the attitudes by it."""
        timesync = Timesync()
        timesync.request(self.asked_ns, 10**12)
        for at_ns, message in self.messages:
            if message.get_type() == 'TIMESYNC':
                timesync.receive(message.tc1, message.ts1, at_ns)
        return timesync, [
            (at_ns - message.time_boot_ms * 1_000_000 + timesync.best.offset_ns) / 1e6
            for at_ns, message in self.messages if message.get_type() == 'ATTITUDE']


PX4 = Capture('px4_1.17_sitl.txt', target_system=0)
ARDUPILOT = Capture('ardupilot_4.7_sitl.txt', autopilot='ardupilot',
                    origin=(47.3977419, 8.5455938, 488.0))


@pytest.mark.parametrize(('capture', 'version', 'altitude', 'parameters'), [
    # Read, then written: EKF2_EV_CTRL from 15 to 11, EKF2_EV_DELAY from 0 to 12.5.
    (PX4, ('PX4', '1.17.0'), 0.0, {
        'EKF2_EV_CTRL': 11, 'EKF2_HGT_REF': 3, 'EKF2_EV_DELAY': 12.5, 'EKF2_GPS_CTRL': 0,
        'EKF2_MAG_TYPE': 5}),
    # Integers are converted to floats, not stored in their bytes; the last one was written.
    (ARDUPILOT, ('ArduPilot', '4.7.0'), 488.0, {
        'VISO_TYPE': 1, 'AHRS_EKF_TYPE': 3, 'EK3_ENABLE': 1, 'EK3_SRC1_POSXY': 6,
        'EK3_SRC1_POSZ': 6, 'EK3_SRC1_YAW': 6, 'EK3_SRC1_VELXY': 6, 'EK3_SRC1_VELZ': 0})],
    ids=['px4', 'ardupilot'])
def test_it_is_recognised_with_version_parameters_and_origin(
        capture, version, altitude, parameters):
    vehicle, _ = capture.replay()
    assert (vehicle.link, vehicle.system, vehicle.armed) == (VehicleLink.ALIVE, 1, False)
    assert (vehicle.firmware, vehicle.version) == version
    assert vehicle.origin.present == pytest.approx((47.3977419, 8.5455938, altitude))
    values = {one.rule.name: one for one in vehicle.parameters.verdicts}
    assert {name: values[name].value for name in parameters} == parameters
    assert all(values[name].good for name in parameters)
    # The ground station, whose heartbeats are forwarded, is no vehicle and no sender of poses.
    assert not vehicle.other_vehicles(capture.last_ns)
    assert not vehicle.other_senders(capture.last_ns)


@pytest.mark.parametrize('capture', [PX4, ARDUPILOT], ids=['px4', 'ardupilot'])
def test_requests_for_the_time_are_answered_at_once(capture):
    _, answers = capture.replay()
    begin_ns = next(at_ns for at_ns, one in capture.messages
                    if one.get_type() == 'HEARTBEAT' and one.get_srcSystem() == 1)
    asked = [(at_ns, one.ts1) for at_ns, one in capture.messages
             if one.get_type() == 'TIMESYNC' and one.tc1 == 0 and at_ns >= begin_ns]
    assert asked and [(one.tc1, one.ts1) for one in answers] == asked


# The stamps of PX4 are whole milliseconds; the clock of ArduPilot's simulation slips by
# milliseconds. The computer was loaded.
@pytest.mark.parametrize(('capture', 'count', 'least_ms', 'most_ms'), [
    (PX4, 20, -1.0, 40.0), (ARDUPILOT, 3, -10.0, 80.0)], ids=['px4', 'ardupilot'])
def test_its_clock_explains_the_arrival_of_its_attitudes(capture, count, least_ms, most_ms):
    timesync, ages = capture.timesync()
    assert len(ages) >= count and least_ms <= min(ages) and max(ages) < most_ms
    if capture is PX4:
        assert timesync.best.round_trip_ns < 1_000_000 and min(ages) < 2.0


def test_the_estimator_of_ardupilot_without_poses_has_no_horizontal_position():
    vehicle, _ = ARDUPILOT.replay()
    assert vehicle.estimator.flags == 1 | 2 | 4 | 32 | 128


@pytest.mark.parametrize(('state', 'level'), [
    ('no_poses', WARN), ('standing_poses_fused', INFO),
    ('flying_poses_fused', INFO), ('flying_no_pose_for_3_s', WARN),
    ('no_pose_for_7_s', WARN)])
def test_the_check_sees_whether_px4_fuses_the_poses(state, level):
    vehicle, _ = PX4.replay()
    (status,) = Codec(1, 197).decode(bytes.fromhex(dict(PX4.rows)[state]))
    vehicle.receive(status, PX4.asked_ns, PX4.asked_ns)
    chosen = plan(PX4.settings)
    found = {one.check: one for one in findings(
        PX4.settings, chosen, VisionSource('/cf1/odom', 1, 'TRACKED', '/cf1/odom', 50.0),
        Gate(chosen), LinkReport(True, '', 'peer', 0, {}), vehicle, PX4.asked_ns)}
    assert found['estimator'].severity is level
