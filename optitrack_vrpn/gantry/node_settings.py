# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node gantry_controller; the machine's YAML file describes the axes."""

from dataclasses import dataclass

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.mocap_control.lifecycle_settings import LifecycleSettings
from optitrack_vrpn.settings import checked, setting

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
    record_folder: str = setting('', doc='folder of the recordings; empty: nothing is recorded')

    def check(self) -> None:
        """
        Check the address of the machine.

        :raises ConfigurationError: if it is missing.
        """
        if self.driver == 'udp' and not self.machine_host.strip():
            raise ConfigurationError('machine_host: give the address of the machine')
