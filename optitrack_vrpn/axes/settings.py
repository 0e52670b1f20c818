# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node axis_bridge: topics, rate, conversion of poses, format of datagrams."""

from dataclasses import dataclass

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion import MOTIVE_X
from optitrack_vrpn.settings import checked, LifecycleSettings, section, setting

FORMATS = ('float32', 'float64', 'csv', 'json')
BYTE_ORDERS = ('little', 'big')
INVALID = ('nan', 'hold')


@checked
@dataclass(frozen=True)
class LowpassSettings:
    """The low-pass of the poses, the same filter as in the main node."""

    cutoff_hz: float = setting(0.0, unit='Hz', low=0.0, high=1000.0,
                               doc='cutoff of the Butterworth low-pass; 0: off')
    order: int = setting(5, low=1, high=10, doc='its order')
    compensate_delay: bool = setting(
        True, doc='subtract the delay of the filter from the stamps')


@checked
@dataclass(frozen=True)
class MapperSettings:
    """Settings of the conversion of poses to axis values."""

    motive_x: str = setting('north', choices=MOTIVE_X,
                            doc="direction of Motive's x axis on the map, as in the main node")
    invalid: str = setting(
        'nan', choices=INVALID,
        doc='value of an invalid axis in datagrams: nan, or hold (the last one, flag cleared)')
    stale_after_s: float = setting(
        0.15, unit='s', low=0.005, high=10.0,
        doc='age of the last pose, from its stamp, above which the axes of a body are invalid')
    connect_timeout_s: float = setting(
        5.0, unit='s', low=0.1, high=600.0,
        doc='time without any pose after which the status is 2 (unable to connect)')
    lowpass: LowpassSettings = section(LowpassSettings(), doc='the low-pass')


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
class BridgeSettings(LifecycleSettings):
    """Tracked bodies to the axes of a machine."""

    table: str = setting('axes_orion', doc='YAML file of the axes, or a name in config/')
    topic: str = setting('{body}/pose', doc="topic of a body's pose (ENU) from the main node")
    rate_hz: float = setting(100.0, unit='Hz', low=1.0, high=1000.0, doc='output rate')
    udp_host: str = setting('', doc='controller that receives the datagrams; empty: none')
    udp_port: int = setting(9100, low=1, high=65535, doc='its UDP port')
    axes_topic: str = setting('axis_states', doc='topic of the sensor_msgs/JointState')
    mapper: MapperSettings = section(MapperSettings(), doc='poses to values')
    datagram: DatagramSettings = section(DatagramSettings(), doc='the datagrams')

    def check(self) -> None:
        """Check the combination of the fields."""
        if '{body}' not in self.topic:
            raise ConfigurationError(f"topic: {self.topic!r} must contain '{{body}}'")
        if (self.mapper.invalid == 'hold' and self.udp_host and not self.datagram.header
                and self.datagram.format != 'json'):
            raise ConfigurationError(
                'mapper.invalid: hold needs datagram.header (or the format json): without the '
                'validity bits a controller cannot distinguish a held value from a new one')
