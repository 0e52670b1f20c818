# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the description of a machine from its YAML file."""

from pathlib import Path
from typing import Union

from optitrack_vrpn.cli.config_files_io import find_config, read_yaml
from optitrack_vrpn.gantry.settings import MachineSettings
from optitrack_vrpn.settings import build


def load_machine(path: Union[str, Path]) -> MachineSettings:
    """
    Read a machine.

    :param path: a file, or the name of one of the package's own, as ``gantry_orion``.
    :raises ConfigurationError: if anything in it is not allowed; names file, axis and key.
    """
    found = find_config(str(path), 'gantry_*.yaml')
    return build(MachineSettings, read_yaml(found), f'{found}: ')
