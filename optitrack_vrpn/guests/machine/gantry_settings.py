# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a machine's axes and of the node; lengths in m, angles in degrees."""

from dataclasses import dataclass, MISSING
import math
from typing import Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, LifecycleSettings, section, setting
from optitrack_vrpn.guests.machine.setpoints import Limits

KINDS = ('linear', 'rotary')
ACTIONS = ('kalman', 'thesis')


@checked
@dataclass(frozen=True)
class CorrectionSettings:
    """How the measured position corrects the set point."""

    dead_band: float = setting(
        1e-3, unit='m or deg', low=0.0, high=10.0,
        doc='an error below this counts as 0; thesis: 1 mm, yaw 0.1, pitch 0.3 degrees')
    max_step: float = setting(
        2e-5, unit='m or deg', low=0.0, high=1.0, doc='greatest correction in one cycle')
    limit: float = setting(
        0.05, unit='m or deg', low=0.0, high=360.0,
        doc='total correction beyond which the axis stops: wrong sign, axis or body')
    require_mocap: bool = setting(
        True, doc='after mocap_lost refuse motions until mocap is back or tracking is switched '
        'off; a reference search is allowed')
    action: str = setting(
        'kalman', choices=ACTIONS, doc='kalman: estimates slip and backlash and corrects them '
        'ahead; thesis: the whole error each cycle')


@checked
@dataclass(frozen=True)
class PlantSettings:
    """The simulated mechanics of an axis; zeros are a perfect one."""

    slip_positive: float = setting(0.0, low=-0.5, high=0.5,
                                   doc='share of the way lost when moving up')
    slip_negative: float = setting(0.0, low=-0.5, high=0.5,
                                   doc='share of the way lost when moving down')
    backlash: float = setting(0.0, unit='m or deg', low=0.0, high=100.0,
                              doc='play between motor and load')
    reversal_loss: float = setting(0.0, unit='m or deg', low=0.0, high=1.0,
                                   doc='way lost at each turn into the positive direction')
    reference: float = setting(0.0, unit='m or deg', low=-1e4, high=1e4,
                               doc='true position of the reference switch')
    reference_width: float = setting(0.01, unit='m or deg', low=0.0, high=100.0,
                                     doc='the switch is on from there over this width')
    start: float = setting(0.0, unit='m or deg', low=-1e4, high=1e4,
                           doc='true position at the start')


@checked
@dataclass(frozen=True)
class AxisSettings:
    """One axis of the machine."""

    name: str = setting(MISSING, doc='its name, as in the axis table')
    steps_per_unit: float = setting(MISSING, low=1e-3, high=1e9, doc='motor steps per m or deg')
    kind: str = setting('linear', choices=KINDS, doc='linear: m; rotary: degrees')
    low: Optional[float] = setting(None, unit='m or deg', doc='lower soft limit; none: endless')
    high: Optional[float] = setting(None, unit='m or deg', doc='upper soft limit')
    switch_low: Optional[float] = setting(
        None, unit='m or deg', doc='true position of the lower limit switch (simulation)')
    switch_high: Optional[float] = setting(
        None, unit='m or deg', doc='true position of the upper limit switch (simulation)')
    max_velocity: float = setting(0.2, unit='1/s', low=1e-6, high=1e4, doc='greatest velocity')
    max_acceleration: float = setting(0.2, unit='1/s^2', low=1e-6, high=1e5,
                                      doc='greatest acceleration')
    max_jerk: float = setting(2.0, unit='1/s^3', low=1e-6, high=1e7,
                              doc='greatest jerk of planned motions and stops')
    reference_velocity: float = setting(
        0.0, unit='1/s', low=-1e4, high=1e4,
        doc='velocity of the reference search, signed; 0: no reference switch')
    correction: CorrectionSettings = section(CorrectionSettings(), doc='the closed loop')
    plant: PlantSettings = section(PlantSettings(), doc='of the simulation')

    def check(self) -> None:
        """Check the limits against one another; the error names the axis."""
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigurationError(f'axis {self.name!r}: low must be below high')
        if abs(self.reference_velocity) > self.max_velocity:
            raise ConfigurationError(
                f'axis {self.name!r}: reference_velocity exceeds max_velocity')
        if self.correction.limit < self.correction.dead_band:
            raise ConfigurationError(
                f'axis {self.name!r}: correction.limit is below correction.dead_band')

    @property
    def limits(self) -> Limits:
        """Return the limits of its motions."""
        return Limits(self.max_velocity, self.max_acceleration, self.max_jerk,
                      -math.inf if self.low is None else self.low,
                      math.inf if self.high is None else self.high)

    @property
    def stopping_s(self) -> float:
        """Return the time of a stop from the greatest velocity and acceleration (s)."""
        return (self.max_velocity / self.max_acceleration
                + 2.0 * self.max_acceleration / self.max_jerk)

    @property
    def search_range(self) -> float:
        """Return the longest way of a reference search (unit); infinite if unknown."""
        way = 360.0 if self.kind == 'rotary' else math.inf
        if self.low is not None and self.high is not None:
            way = self.high - self.low
        return 1.1 * way    # chosen: switches can lie beyond the limits

    @property
    def si_per_unit(self) -> float:
        """Return one unit in m or rad."""
        return 1.0 if self.kind == 'linear' else math.radians(1.0)

    @property
    def unit(self) -> str:
        """Name the unit."""
        return 'm' if self.kind == 'linear' else 'deg'


@checked
@dataclass(frozen=True)
class MachineSettings:
    """All axes of a machine."""

    axes: tuple[AxisSettings, ...] = setting(MISSING, doc='one entry per axis')
    rate_hz: float = setting(100.0, unit='Hz', low=10.0, high=1000.0, doc='rate of the loop')
    loss_cycles: int = setting(
        100, low=1, high=100000,
        doc='cycles without mocap or stream after which an axis stops; thesis: 100')

    def check(self) -> None:
        """Check number and names of the axes, and that corrections are not faster than they."""
        for axis in self.axes:
            if axis.correction.max_step * self.rate_hz > axis.max_velocity:
                raise ConfigurationError(
                    f'axis {axis.name!r}: correction.max_step in each cycle exceeds '
                    f'max_velocity; allowed: at most {axis.max_velocity / self.rate_hz:g}')
        names = [axis.name for axis in self.axes]
        if not 1 <= len(names) <= 32:
            raise ConfigurationError(f'axes: {len(names)} are not allowed; allowed: 1 to 32')
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f'axes: two are called {name!r}; names must differ')
            if not name.isidentifier() or name == 'all':
                raise ConfigurationError(
                    f'axes: {name!r} is no name: letters, digits and underscores, and not "all"')


DRIVERS = ('sim', 'udp')


@checked
@dataclass(frozen=True)
class ControllerSettings(LifecycleSettings):
    """A machine in closed loop on mocap; its axes stand in the file of the machine."""

    machine: str = setting('gantry_orion', doc='YAML file of the machine, or a name in config/')
    driver: str = setting(
        'sim', choices=DRIVERS,
        doc='sim: a simulated machine in this process; udp: a machine that takes set points')
    machine_host: str = setting('127.0.0.1', doc='machine of the driver udp')
    machine_port: int = setting(9200, low=1, high=65535, doc='its UDP port')
    axes_topic: str = setting('axis_states', doc='topic of the measured axes, from axis_bridge')
    max_age_s: float = setting(
        0.5, unit='s', low=0.01, high=2.0,
        doc='a measurement or target whose stamp is older than this counts as none')

    def check(self) -> None:
        """Check the address of the machine."""
        if self.driver == 'udp' and not self.machine_host.strip():
            raise ConfigurationError('machine_host: give the address of the machine')
