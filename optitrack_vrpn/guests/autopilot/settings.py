# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings of one bridge, the address of its link, and automatic values for each autopilot.

The rules of the autopilots were read in their sources (PX4 1.14 to 1.17, ArduPilot 4.5); see
docs/autopilot.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.removed import refusal, VALUES
from optitrack_vrpn.core.settings.schema import checked, LifecycleSettings, setting

#: Size of each message (bytes) in MAVLink 2 without signature, for the load of serial lines.
#: Measured with pymavlink; zero bytes at the end of a payload are omitted, so this is the maximum.
WIRE_BYTES = {'odometry': 245, 'vision_position_estimate': 129, 'vision_speed_estimate': 69,
              'att_pos_mocap': 132}
MESSAGES = tuple(WIRE_BYTES)
#: MAV_FRAME of the pose in ODOMETRY.
FRAMES = {'local_frd': 20, 'local_ned': 1}
#: Bits on a serial line for each byte: start, 8 data bits, stop.
BITS_PER_BYTE = 10
#: Altitude of the origin (m) that ArduPilot takes as unknown: it stores whole centimetres, and
#: while they are 0 and it is disarmed, it sets the zero of its height each second (AP_Baro's
#: update_field_elevation; 0.6 m of error within 20 s in SITL).
NO_ALTITUDE_M = 0.01
_FORMS = {'udpout': 'HOST:PORT', 'udpin': 'HOST:PORT', 'serial': 'DEVICE:BAUD'}


class Profile(NamedTuple):
    """
    Requirements of an autopilot.

    :ivar name: for the user.
    :ivar rate_hz: default rate (Hz).
    :ivar min_interval_ns: of two samples closer than this (ns), by stamp, only one is used.
    :ivar ignored: messages that its estimator does not use, with the reason.
    :ivar mav_autopilot: MAV_AUTOPILOT of its heartbeat.
    """

    name: str
    rate_hz: float
    min_interval_ns: int
    ignored: Mapping[str, str]
    mav_autopilot: int


PROFILES: dict[str, Profile] = {
    # EKF2's buffer drops samples closer than about 10.5 ms; its documentation recommends 30 to 50
    # Hz.
    'px4': Profile('PX4', 50.0, 10_500_000, {
        'vision_speed_estimate': 'PX4 has no handler for VISION_SPEED_ESTIMATE',
        'att_pos_mocap': "PX4's estimator (EKF2) does not read ATT_POS_MOCAP"}, 12),
    # EKF3 drops samples closer than 20 ms, in whole milliseconds; one more for the rounding.
    'ardupilot': Profile('ArduPilot', 40.0, 21_000_000, {}, 3),
}


class LinkAddress(NamedTuple):
    """
    A parsed address: kind (``udpout``, ...), host or serial device, port or baud rate.

    The syntax is that of pymavlink: ``udpout`` sends to an address, ``udpin`` listens on one,
    ``serial`` opens a serial port.
    """

    kind: str
    place: str
    number: int

    def __str__(self) -> str:
        return f'{self.kind}:{self.place}:{self.number}'


def parse(text: str) -> LinkAddress:
    """Parse an address; ConfigurationError if it has none of the three forms."""
    kind, _, rest = text.strip().partition(':')
    place, _, digits = rest.rpartition(':')
    forms = [f'{name}:{form}' for name, form in _FORMS.items()]
    number = int(digits) if digits.isascii() and digits.isdigit() else -1
    # Rates from those of radio modems to the fastest of USB adapters (FTDI's FT232H).
    low, high, unit = (1200, 12_000_000, 'baud rate') if kind == 'serial' else (1, 65535, 'port')
    problem = ''
    if removed := refusal(VALUES, f'{kind}:'):
        problem = removed
    elif kind not in _FORMS or not place or number < 0:
        problem = f'is not valid; write {", ".join(forms[:-1])} or {forms[-1]}'
    elif kind != 'serial' and (':' in place or any(c.isspace() for c in place)):
        problem = f'{place!r} is not a host name or IPv4 address'
    elif not low <= number <= high:
        problem = f'a {unit} is {low} to {high}'
    if problem:
        raise ConfigurationError(f'connection: {text!r}: {problem}')
    return LinkAddress(kind, place, number)


@checked
@dataclass(frozen=True)
class BridgeSettings(LifecycleSettings):
    """Settings of one bridge: one body, one vehicle."""

    body: str = setting('', doc='name of the body in ROS, as in its topics; required')
    autopilot: str = setting('px4', choices=tuple(PROFILES), doc='firmware of the vehicle')
    transport: str = setting(
        'mavlink', choices=('mavlink', 'dds'), doc='mavlink, or dds: uXRCE-DDS of PX4 (needs '
        'px4_msgs) and AP_DDS of ArduPilot')
    connection: str = setting(
        'udpin:0.0.0.0:14540', doc='link to the autopilot: udpout:HOST:PORT, udpin:HOST:PORT '
        'or serial:DEVICE:BAUD')
    message: tuple[str, ...] = setting(
        ('auto',), choices=('auto', *MESSAGES), doc='messages to send; auto: odometry')
    rate_hz: float = setting(
        0.0, unit='Hz', low=0, high=100, doc='samples sent in a second, decimated by stamp; '
        '0: 50 for px4, 40 for ardupilot')
    frame: str = setting(
        'local_frd', choices=tuple(FRAMES), doc='frame_id of ODOMETRY; local_ned states that '
        'the heading is relative to true north')
    topic_odom: str = setting(
        '{body}/odom', name='topics.odom', doc='nav_msgs/Odometry in ENU, with velocities and '
        'covariances')
    topic_pose: str = setting(
        '{body}/pose', name='topics.pose', doc='geometry_msgs/PoseStamped in ENU, used while '
        'there is no odometry')
    topic_status: str = setting(
        '{body}/status', name='topics.status', doc='state of the body, from the node')
    max_age_ms: float = setting(
        90.0, unit='ms', low=1, high=1000, doc='a sample older than this is not sent; 90 leaves '
        '10 ms for the error of its stamp and the transmission, so that none is used after 100')
    target_system: int = setting(
        0, low=0, high=255, doc='system id of the vehicle; 0: the only autopilot heard')
    set_parameters: bool = setting(
        False, doc='write wrong parameters, while the vehicle is disarmed')
    origin: tuple[float, float, float] = setting(
        (0.0, 0.0, 0.0), doc='latitude (deg), longitude (deg) and altitude (m) of the '
        'origin, sent if the autopilot has none; zeros: not sent. The altitude for px4 must be '
        '0, for ardupilot it must not')
    stop_while_armed: bool = setting(
        False, doc='follow a STOP of mocap control while the vehicle is armed, which ends the '
        'poses for its estimator; false: refuse it (with transport dds every STOP, because it '
        'does not tell the state)')
    dds_topic: str = setting(
        '', name='dds.topic', doc='topic of transport dds; empty: '
        '/fmu/in/vehicle_visual_odometry or /ap/tf')

    def check(self) -> None:
        """Check the combination of the fields."""
        if self.transport == 'mavlink':
            parse(self.connection)
        most_hz = 1e9 / PROFILES[self.autopilot].min_interval_ns
        latitude, longitude, altitude = self.origin
        ardupilot = self.autopilot == 'ardupilot'
        for wrong, text in (
                (len(set(self.message)) != len(self.message) or not self.message,
                 f'message: {list(self.message)} is not allowed; list each message only once'),
                ('auto' in self.message and len(self.message) > 1,
                 'message: auto must be the only entry, or list the messages'),
                (self.rate_hz > most_hz, f'rate_hz: {self.rate_hz:g} is not allowed; '
                 f'{self.autopilot} uses at most {most_hz:.0f} Hz'),
                (0.0 < self.rate_hz < 1.0,
                 f'rate_hz: {self.rate_hz:g} is not allowed; 0 (default) or at least 1 Hz'),
                (ardupilot and self.frame != 'local_frd',
                 'frame: ArduPilot drops ODOMETRY in any frame except local_frd'),
                (abs(latitude) > 90 or abs(longitude) > 180,
                 f'origin: {list(self.origin)} is not allowed; latitude -90 to 90, longitude '
                 '-180 to 180, altitude in metres'),
                (ardupilot and any(self.origin) and abs(altitude) < NO_ALTITUDE_M,
                 'origin: the altitude 0 is not allowed for ardupilot, which then sets its '
                 'height to zero every second: set the altitude of the place, or 1'),
                # Measured with PX4 1.17 in SITL; Ekf::controlEvHeightFusion takes the height of
                # vision as an altitude above sea level at each reset.
                (not ardupilot and altitude,
                 f'origin: the altitude {altitude:g} is not allowed for px4; PX4 1.16 and later '
                 'shift their local height by it at each reset of the poses: set it to 0')):
            if wrong:
                raise ConfigurationError(text)


class Plan(NamedTuple):
    """
    Settings with all automatic values replaced.

    :ivar messages: messages sent for each sample.
    :ivar period_ns: time between two samples (ns).
    :ivar min_interval_ns: see ``Profile``.
    :ivar max_age_ns: maximum age of a sample when it is sent (ns).
    :ivar frame_id: MAV_FRAME of the pose.
    :ivar velocity: whether a message contains a velocity.
    :ivar origin: latitude (deg), longitude (deg), altitude (m), or None.
    :ivar warnings: combinations that work, but probably not as intended; a sentence each.
    """

    messages: tuple[str, ...]
    period_ns: int
    min_interval_ns: int
    max_age_ns: int
    frame_id: int
    velocity: bool
    origin: Optional[tuple[float, float, float]]
    warnings: tuple[str, ...]


def plan(settings: BridgeSettings) -> Plan:
    """Replace the automatic values of the settings; refuse what does not fit."""
    if not settings.body:
        raise ConfigurationError(
            "body: '' is not allowed; name the body whose topics are to be sent, as in body: cf1")
    profile = PROFILES[settings.autopilot]
    messages = ('odometry',) if settings.message == ('auto',) else settings.message
    rate_hz = settings.rate_hz or profile.rate_hz
    if settings.transport == 'mavlink':
        # 450 B/s of heartbeats, TIMESYNC and parameter requests, measured with pymavlink: 21 B
        # per second, and 28 B for each of the 10 answers and 5 requests per second.
        _check_load(parse(settings.connection), 450.0 + rate_hz * sum(
            WIRE_BYTES[name] for name in messages))
    return Plan(
        messages, round(1e9 / rate_hz), profile.min_interval_ns, round(settings.max_age_ms * 1e6),
        FRAMES[settings.frame], bool({'odometry', 'vision_speed_estimate'} & set(messages)),
        settings.origin if any(settings.origin) else None,
        _warnings(settings, messages) if settings.transport == 'mavlink' else ())


def _check_load(connection: LinkAddress, bytes_per_s: float) -> None:
    # Chosen: heartbeats, TIMESYNC and parameters share the line, with telemetry on the other
    # direction, so that four fifths of it are usable.
    capacity = 0.8 * connection.number / BITS_PER_BYTE
    if connection.kind == 'serial' and bytes_per_s > capacity:
        raise ConfigurationError(
            f'connection: {connection.number} baud carry {capacity:.0f} B/s, but '
            f'{bytes_per_s:.0f} B/s are to be sent: raise the baud rate here and in the '
            'autopilot, or lower rate_hz')


def _warnings(settings: BridgeSettings, messages: tuple[str, ...]) -> tuple[str, ...]:
    ignored = PROFILES[settings.autopilot].ignored
    found = [ignored[name] for name in messages if name in ignored]
    if {'odometry', 'vision_position_estimate'} <= set(messages):
        found.append('odometry and vision_position_estimate send the same pose twice; the '
                     'estimator drops one of the two')
    if settings.autopilot == 'px4' and any(settings.origin) and settings.frame == 'local_frd' and (
            'odometry' in messages):
        found.append('with frame local_frd PX4 has no global position, whatever the origin, and '
                     'refuses Hold, Mission and Return: set frame to local_ned')
    return tuple(found)
