# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings of axis_bridge; the axis table, by which poses become values and back.

The value of an axis is ``sign * scale * (quantity - zero)``, with the quantity in the row's unit.
The frame of a row determines its six quantities:

| frame | x, y, z | roll, pitch, yaw about |
|---|---|---|
| ``motive`` | Motive's x (forward), y (up), z (right) | forward (x), left (-z), up (y) |
| ``motive_xyz`` | the same | x, y, z: the equations applied to Motive's numbers unchanged |
| ``enu`` | east, north, up | forward, left, up of the body (FLU) |
| ``ned`` | north, east, down | forward, right, down of the body (FRD) |

In ``motive`` yaw is the rotation about the vertical, which is unlimited, and pitch stays within
+-90 degrees. In ``motive_xyz`` the rotation about the vertical is pitch, limited to +-90 degrees.
Attitudes are relative to the body's attitude when it was created in Motive.
"""

from collections import Counter
from dataclasses import dataclass, MISSING
import math
from typing import Mapping, NamedTuple, Optional

from optitrack_vrpn.core.axes import enu_to_ned, MOTIVE_X, Pose
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import angles_from_quat, quat_from_angles, Vector
from optitrack_vrpn.core.settings.schema import checked, LifecycleSettings, section, setting
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig

FORMATS = ('float32', 'float64', 'json')
BYTE_ORDERS = ('little', 'big')


@checked
@dataclass(frozen=True)
class AxesMapperSettings:
    """Settings of the conversion of poses to axis values."""

    motive_x: str = setting('north', choices=MOTIVE_X,
                            doc="direction of Motive's x axis on the map, as in the main node")
    max_age_s: float = setting(
        0.15, unit='s', low=0.005, high=10.0,
        doc='a pose whose stamp is older than this counts as none: the axes of its body are '
        'invalid')
    connect_timeout_s: float = setting(
        5.0, unit='s', low=0.1, high=600.0,
        doc='time without any pose after which the status is 2 (unable to connect)')
    lowpass: LowpassConfig = section(
        LowpassConfig(), doc='the low-pass of the main node; stamps are corrected by its delay')


@checked
@dataclass(frozen=True)
class DatagramSettings:
    """Format of the datagrams to the controller."""

    format: str = setting('float32', choices=FORMATS, doc='format of the values')
    byte_order: str = setting('little', choices=BYTE_ORDERS, doc='of float32 and float64')
    header: bool = setting(
        False, doc='send sequence, status, time and validity bits first; see docs/axes.md')


@checked
@dataclass(frozen=True)
class AxisBridgeSettings(LifecycleSettings):
    """Tracked bodies to the axes of a machine."""

    table: str = setting('axes_orion', doc='YAML file of the axes, or a name in config/')
    topic: str = setting('{body}/pose', doc="topic of a body's pose (ENU) from the main node")
    status_topic: str = setting(
        '{body}/status', doc="topic of a body's state: a turn that time alone made valid is not "
        'followed')
    rate_hz: float = setting(100.0, unit='Hz', low=1.0, high=1000.0, doc='output rate')
    udp_host: str = setting('', doc='controller that receives the datagrams; empty: none')
    udp_port: int = setting(9100, low=1, high=65535, doc='its UDP port')
    axes_topic: str = setting('axis_states', doc='topic of the sensor_msgs/JointState')
    mapper: AxesMapperSettings = section(AxesMapperSettings(), doc='poses to values')
    datagram: DatagramSettings = section(DatagramSettings(), doc='the datagrams')

    def check(self) -> None:
        """Check the combination of the fields."""
        if '{body}' not in self.topic:
            raise ConfigurationError(f"topic: {self.topic!r} must contain '{{body}}'")


FRAMES = ('motive', 'motive_xyz', 'enu', 'ned')
LENGTHS = ('x', 'y', 'z')
QUANTITIES = (*LENGTHS, 'roll', 'pitch', 'yaw')


class Quantities(NamedTuple):
    """
    A pose as six numbers in one frame.

    :ivar values: x, y, z (m), roll, pitch, yaw (rad).
    :ivar gimbal_lock: True where roll and yaw are undetermined.
    """

    values: tuple[float, float, float, float, float, float]
    gimbal_lock: bool


def motive_from_enu(pose: Pose, motive_x: str) -> Pose:
    """
    Convert a pose from FLU in ENU to Motive's y-up axes.

    The inverse of ``frames.frame_maps``.

    :param motive_x: 'north' or 'east', as in the main node.
    """
    (east, north, up), (a, b, c, d) = pose
    if motive_x == 'east':
        return Pose((east, up, -north), (a, c, -b, d))
    half = math.sqrt(0.5)
    return Pose((north, up, east), (
        half * (a + b), half * (c - d), half * (a - b), half * (c + d)))


def quantities_of(pose_enu: Pose, frame: str, motive_x: str = 'north') -> Quantities:
    """
    Return the six quantities of a pose.

    :param pose_enu: the pose of FLU in ENU, as the main node publishes it.
    :param frame: one of ``FRAMES``.
    :param motive_x: direction of Motive's x axis, for the frames of Motive.
    """
    if frame in ('enu', 'ned'):
        pose = pose_enu if frame == 'enu' else enu_to_ned(pose_enu)
    else:
        pose = motive_from_enu(pose_enu, motive_x)
    x, y, z, w = pose.quat_xyzw
    angles = angles_from_quat((x, -z, y, w) if frame == 'motive' else (x, y, z, w))
    return Quantities((*pose.position, *angles), angles.gimbal_lock)


def pose_from_quantities(
    position: Vector, roll: float, pitch: float, yaw: float, frame: str,
    motive_x: str = 'north',
) -> Pose:
    """
    Compute the pose on Motive's y-up axes with these quantities: the inverse of ``quantities_of``.

    :param position: x, y, z (m) in the frame.
    :param frame: one of ``FRAMES``.
    """
    x, y, z, w = quat_from_angles(roll, pitch, yaw)
    if frame == 'motive':
        return Pose(position, (x, z, -y, w))
    pose = Pose(position, (x, y, z, w))
    if frame == 'ned':
        pose = enu_to_ned(pose)    # this rotation by 180 degrees is its own inverse
    return pose if frame == 'motive_xyz' else motive_from_enu(pose, motive_x)


class Unwrapper:
    """
    Count the turns of one angle.

    Between two samples the angle is assumed to change by the shorter way. If a body rotates by
    more than half a turn while it is not visible, the result is wrong by whole turns.

    :ivar angle: the unwrapped angle (rad), or None before the first sample.
    """

    def __init__(self) -> None:
        self.angle: float | None = None

    def update(self, wrapped: float) -> float:
        """Process an angle (rad); return it plus whole turns, nearest to the last result."""
        if self.angle is None:
            self.angle = wrapped
        else:
            self.angle += math.remainder(wrapped - self.angle, 2.0 * math.pi)
        return self.angle


#: Factors from units to SI, for lengths and angles.
LENGTH_UNITS = {'m': 1.0, 'mm': 1e-3}
ANGLE_UNITS = {'deg': math.radians(1.0), 'rad': 1.0}


@checked
@dataclass(frozen=True)
class AxisRow:
    """One axis of the machine."""

    name: str = setting(MISSING, doc='name of the axis in the controller')
    body: str = setting(MISSING, doc='rigid body that moves with it, by its name in Motive')
    quantity: str = setting(MISSING, choices=QUANTITIES, doc='quantity of its pose')
    frame: str = setting('motive', choices=FRAMES, doc='frame of the quantity')
    sign: int = setting(1, low=-1, high=1, doc='1 or -1')
    scale: float = setting(1.0, low=1e-6, high=1e6, doc='machine units per unit of the quantity')
    unit: str = setting('', choices=('', *LENGTH_UNITS, *ANGLE_UNITS),
                        doc='m or mm for lengths, deg or rad for angles; empty: m, deg')
    zero: float = setting(0.0, low=-1e6, high=1e6,
                          doc='quantity at which the axis is 0, in the unit')
    unwrap: bool = setting(False, doc='continue past a half turn (roll and yaw)')
    range: Optional[tuple[float, float]] = setting(
        None, doc='smallest and largest value; outside it the axis is invalid')

    def check(self) -> None:
        """Check the combination of the fields."""
        where = f'axis {self.name!r}: '
        if not self.name.strip() or any(c in self.name for c in ',;"\n'):
            raise ConfigurationError(
                f'{where}name: give a text without comma, semicolon, quote and line break')
        if not self.body.strip():
            raise ConfigurationError(f'{where}body: give the name of a rigid body')
        if self.sign == 0:
            raise ConfigurationError(f'{where}sign: 0 is not allowed; allowed: 1, -1')
        allowed = LENGTH_UNITS if self.quantity in LENGTHS else ANGLE_UNITS
        if self.unit and self.unit not in allowed:
            raise ConfigurationError(
                f'{where}unit: {self.unit} does not fit {self.quantity}; allowed: '
                f'{", ".join(allowed)}')
        if self.unwrap and self.quantity not in ('roll', 'yaw'):
            raise ConfigurationError(
                f'{where}unwrap: {self.quantity} has no turns; allowed for roll and yaw')
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ConfigurationError(f'{where}range: give [smallest, largest], the smallest first')

    @property
    def unit_name(self) -> str:
        """Return the unit, or its default if it is empty."""
        return self.unit or ('m' if self.quantity in LENGTHS else 'deg')

    @property
    def si_per_unit(self) -> float:
        """Return the length of one unit in m or rad."""
        return {**LENGTH_UNITS, **ANGLE_UNITS}[self.unit_name]

    @property
    def index(self) -> int:
        """Return the index of the quantity among x, y, z, roll, pitch, yaw."""
        return QUANTITIES.index(self.quantity)

    def value(self, quantity_si: float) -> float:
        """Convert a quantity (m or rad) to the value of the axis."""
        return self.sign * self.scale * (quantity_si / self.si_per_unit - self.zero)

    def quantity_si(self, value: float) -> float:
        """Convert a value of the axis to the quantity (m or rad): the inverse of ``value``."""
        return (self.sign * value / self.scale + self.zero) * self.si_per_unit

    def value_si(self, value: float) -> float:
        """Convert a value of the axis to m or rad, as required by sensor_msgs/JointState."""
        return value * self.si_per_unit


@checked
@dataclass(frozen=True)
class AxisTable:
    """All axes, in the order in which they are sent."""

    axes: tuple[AxisRow, ...] = setting(MISSING, doc='one row per axis, in order')

    def check(self) -> None:
        """Check the combination of the rows."""
        if not 1 <= len(self.axes) <= 32:       # the validity word of a datagram has 32 bits
            raise ConfigurationError(
                f'axes: {len(self.axes)} rows are not allowed; allowed: 1 to 32')
        for name, number in Counter(self.names).items():
            if number > 1:
                raise ConfigurationError(
                    f'axes: two rows are named {name!r}; names must differ')

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the axes, in order."""
        return tuple(row.name for row in self.axes)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Return the bodies that the table needs, in the order of their first rows."""
        return tuple(dict.fromkeys(row.body for row in self.axes))

    def carried_pose(
        self, body: str, values: Mapping[str, float], motive_x: str = 'north',
    ) -> Pose:
        """
        Compute a body's pose from the values of its axes.

        Angles without a row are 0. Coordinates without a row differ between the bodies: two
        bodies in one place could have exchanged names.

        :param values: values by the name of the axis, as from ``AxisRow.value``.
        :returns: the pose on Motive's y-up axes.
        :raises ConfigurationError: if rows of this body use different frames.
        """
        rows = [row for row in self.axes if row.body == body]
        frames = {row.frame for row in rows}
        if len(frames) != 1:
            raise ConfigurationError(
                f'the rows of body {body!r} use the frames {", ".join(sorted(frames))}: a '
                'simulated machine needs one frame for each body')
        numbers = [1.0 + self.bodies.index(body)] * 3 + [0.0] * 3
        for row in rows:
            numbers[row.index] = row.quantity_si(values[row.name])
        return pose_from_quantities(
            (numbers[0], numbers[1], numbers[2]), numbers[3], numbers[4], numbers[5],
            frames.pop(), motive_x)
