# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find Fast DDS's program ``fast-discovery-server`` and check that it can start."""

from collections.abc import Iterable, Mapping
import contextlib
import errno
import os
from pathlib import Path
import shutil
import socket
import subprocess
import sys
import sysconfig

from optitrack_vrpn.cli import how_to_install
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError, TransportError
from optitrack_vrpn.sources import card_address

_PROGRAM = 'fast-discovery-server'
#: Chosen: longest time (s) to print its help.
_HELP_S = 10.0


def variables(port: int) -> dict[str, str]:
    """Return the variables of programs on this computer that use the server."""
    return {'ROS_DISCOVERY_SERVER': f'127.0.0.1:{port}'}


def ready(port: int) -> tuple[list[str], dict[str, str]]:
    """
    Check that the server can start.

    :param port: its UDP port.
    :returns: its command line and environment.
    :raises BackendUnavailableError: if the program is missing or does not run.
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
    try:
        subprocess.run([program, '--help'], env=environment, timeout=_HELP_S, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.SubprocessError) as error:
        text = (getattr(error, 'stderr', None) or b'').decode(errors='replace').strip()
        raise BackendUnavailableError(
            f'{program} does not run: {text or error}: ' + how_to_install(
                'source the setup.bash of ROS 2')) from None
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
