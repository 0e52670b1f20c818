# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Messages that ArduPilot sent in SITL (test/data/ardupilot_4.7_sitl.txt), to a vehicle."""

from pathlib import Path

from optitrack_vrpn.guests.autopilot.exchanges import Timesync
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import Vehicle, VehicleLink
import pytest

pytest.importorskip('pymavlink')

LINES = [line.split() for line in (
    Path(__file__).parent / 'data' / 'ardupilot_4.7_sitl.txt').read_text().splitlines()]
#: Time of the TIMESYNC request that the third line names (ns).
ASKED_NS = int(LINES[2][6])
SETTINGS = BridgeSettings(
    body='cf1', autopilot='ardupilot', origin=(47.3977419, 8.5455938, 488.0))


def messages():
    """Give (arrival, message) of all messages."""
    codec = Codec(1, 197)
    for at, digits in LINES[3:]:
        for message in codec.decode(bytes.fromhex(digits)):
            yield int(at), message


def replayed():
    """Give the state of the vehicle after all messages, and the answers to them."""
    vehicle = Vehicle(SETTINGS, plan(SETTINGS))
    answers = []
    for at_ns, message in messages():
        answers += vehicle.receive(message, at_ns, at_ns)
    return vehicle, answers


def test_ardupilot_is_recognised_with_version_parameters_and_origin():
    vehicle, answers = replayed()
    assert (vehicle.link, vehicle.system, vehicle.armed) == (VehicleLink.ALIVE, 1, False)
    assert (vehicle.firmware, vehicle.version) == ('ArduPilot', '4.7.0')
    assert vehicle.origin.present == pytest.approx((47.3977419, 8.5455938, 488.0))
    # Integers are converted to floats, not stored in their bytes; the last one was written.
    assert [(one.rule.name, one.value, one.good) for one in vehicle.parameters.verdicts] == [
        ('VISO_TYPE', 1, True), ('AHRS_EKF_TYPE', 3, True), ('EK3_ENABLE', 1, True),
        ('EK3_SRC1_POSXY', 6, True), ('EK3_SRC1_POSZ', 6, True), ('EK3_SRC1_YAW', 6, True),
        ('EK3_SRC1_VELXY', 6, True), ('EK3_SRC1_VELZ', 0, True)]
    # The ground station, whose heartbeats ArduPilot forwards, is no vehicle.
    last_ns = int(LINES[-1][0])
    assert not vehicle.other_vehicles(last_ns) and not vehicle.other_senders(last_ns)
    # Without poses: constant position mode, no horizontal position.
    assert vehicle.estimator is not None and vehicle.estimator['flags'] == 1 | 2 | 4 | 32 | 128
    requests = [one.fields['ts1'] for _, one in messages()
                if one.name == 'TIMESYNC' and one.fields['tc1'] == 0]
    assert [one.fields['ts1'] for one in answers] == requests != []


def test_the_clock_of_ardupilot_explains_the_arrival_of_its_attitudes():
    timesync = Timesync()
    timesync.request(ASKED_NS, 10**12)
    for at_ns, message in messages():
        if message.name == 'TIMESYNC':
            timesync.receive(message.fields['tc1'], message.fields['ts1'], at_ns)
    assert timesync.best is not None
    ages = [(at_ns - message.fields['time_boot_ms'] * 1_000_000 + timesync.best.offset_ns) / 1e6
            for at_ns, message in messages() if message.name == 'ATTITUDE']
    assert len(ages) == 3
    # The clock of the simulation slips by milliseconds; the computer was loaded.
    assert -10.0 < min(ages) and max(ages) < 80.0
