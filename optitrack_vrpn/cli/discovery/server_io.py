# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find Fast DDS's program ``fast-discovery-server``."""

from collections.abc import Iterable, Mapping
import contextlib
import errno
import os
from pathlib import Path
import shutil
import socket
import sys
import sysconfig

from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError, TransportError
from optitrack_vrpn.drivers.sockets_io import card_address

_PROGRAM = 'fast-discovery-server'


def ready(port: int) -> tuple[list[str], dict[str, str]]:
    """
    Return the command line and the environment of the server.

    :param port: its UDP port.
    :raises BackendUnavailableError: if the program is missing.
    :raises ConfigurationError: if another middleware is set, or no discovery at all.
    :raises TransportError: if the port is in use.
    """
    middleware = os.environ.get('RMW_IMPLEMENTATION', '')
    if middleware and 'fastrtps' not in middleware:
        raise ConfigurationError(
            f'the Discovery Server is of Fast DDS, but RMW_IMPLEMENTATION is {middleware}: set '
            'rmw_fastrtps_cpp, or start without the server')
    if os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE') == 'OFF':
        raise ConfigurationError(
            'ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: programs do not discover each other, by the '
            'Discovery Server either: unset it, here and on the robots')
    folder = os.path.dirname(sys.executable)
    program = shutil.which(_PROGRAM, path=os.pathsep.join(
        [os.environ.get('PATH', ''), folder]))
    if program is None:
        raise BackendUnavailableError(
            f'{_PROGRAM} of Fast DDS is neither in PATH nor in {folder}: ' + how_to_install(
                'source the setup.bash of ROS 2, or sudo apt install ros-$ROS_DISTRO-fastrtps'))
    environment = {**os.environ, 'LD_LIBRARY_PATH': os.pathsep.join(_libraries(os.environ))}
    _check_free(port)
    return [program, '--server-id', '0', '--udp-address', '0.0.0.0',
            '--udp-port', str(port)], environment


def _libraries(environment: Mapping[str, str]) -> Iterable[str]:
    """List the folders of libraries: wheels from PyPI have theirs beside the packages."""
    if given := environment.get('LD_LIBRARY_PATH', ''):
        yield given
    for place in (Path(sys.prefix, 'lib'), Path(sysconfig.get_path('platlib'),
                                                'ros_fastrtps.libs')):
        if place.is_dir() and sys.prefix != sys.base_prefix:
            yield str(place)


def _check_free(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind(('0.0.0.0', port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise TransportError(f'UDP port {port}: {error.strerror}') from None
            raise TransportError(
                f'UDP port {port} is in use: another Discovery Server? End it, or use it: export '
                f'ROS_DISCOVERY_SERVER=127.0.0.1:{port} and start without a server; or choose '
                'another port') from None


def cards() -> dict[str, str]:
    """Return the IPv4 addresses of the network cards, without loopback, by name."""
    found = {}
    for _, name in socket.if_nameindex():
        with contextlib.suppress(ConfigurationError, OSError):
            address = card_address(name)
            if not address.startswith('127.'):
                found[name] = address
    return found
