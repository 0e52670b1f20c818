# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The axis table: body, quantity, unit, sign, scale and zero of each axis; values to SI and back.

The value of an axis is ``sign * scale * (quantity - zero)``, with the quantity in the row's unit.
"""

from dataclasses import dataclass, MISSING
import math
from typing import Mapping, Optional

from optitrack_vrpn.axes.quantities import FRAMES, LENGTHS, pose_from_quantities, QUANTITIES
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.frames import Pose
from optitrack_vrpn.settings import checked, setting

#: Factors from units to SI, for lengths and angles.
LENGTH_UNITS = {'m': 1.0, 'mm': 1e-3}
ANGLE_UNITS = {'deg': math.radians(1.0), 'rad': 1.0}
#: Width of the datagram's validity word: one bit per axis.
MAX_AXES = 32


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
        """
        Check the combination of the fields.

        :raises ConfigurationError: names the axis and the allowed values.
        """
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
        """
        Convert a quantity to the value of the axis.

        :param quantity_si: in m or rad.
        :returns: in the row's unit times its scale.
        """
        return self.sign * self.scale * (quantity_si / self.si_per_unit - self.zero)

    def quantity_si(self, value: float) -> float:
        """
        Convert a value of the axis to the quantity: the inverse of ``value``.

        :returns: in m or rad.
        """
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
        """
        Check the combination of the rows.

        :raises ConfigurationError: if there is no row, too many rows, or two rows with one name.
        """
        if not 1 <= len(self.axes) <= MAX_AXES:
            raise ConfigurationError(
                f'axes: {len(self.axes)} rows are not allowed; allowed: 1 to {MAX_AXES}')
        seen: set[str] = set()
        for row in self.axes:
            if row.name in seen:
                raise ConfigurationError(
                    f'axes: two rows are named {row.name!r}; names must differ')
            seen.add(row.name)

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
