# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The errors that this package raises, in one tree.

- ``OptitrackVrpnError``: the root; catch it to catch everything below.

  - ``ConfigurationError``: a parameter, option or file has a value that is not allowed.
    Scenario: ``up_axis: x`` in the YAML. Nothing has been applied when it is raised.

    - ``BackendUnavailableError``: the module of a requested backend is not installed.
      Scenario: ``backend: python_vrpn`` on a machine without the ``vrpn`` module.

  - ``ProtocolError``: an error of the wire protocol.

    - ``LocalProtocolError``: this side requested something that the protocol does not allow; a
      bug in the caller. Scenario: a sender name of more than 99 bytes.
    - ``RemoteProtocolError``: the peer sent invalid bytes; the only error that bytes from the
      network may raise. Scenario: a web server answers on port 3883.

      - ``VersionRefusedError``: the peer uses another major version of VRPN.

  - ``DamagedError``: nothing can be read from a recording any more.
    Scenario: the disk was full when the first pose was written.

  - ``TransportError``: the operating system refused a socket or the network failed.
    Scenario: the host name does not resolve, or the port is already in use.
"""


class OptitrackVrpnError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(OptitrackVrpnError, ValueError):
    """A setting is wrong; the message names it, its place and what is allowed."""


class BackendUnavailableError(ConfigurationError):
    """A requested backend or optional module is not installed."""


class ProtocolError(OptitrackVrpnError):
    """The wire protocol was violated."""


class LocalProtocolError(ProtocolError):
    """This side violated the protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer's bytes are not valid."""


class VersionRefusedError(RemoteProtocolError):
    """The peer uses a major version of VRPN that this side does not support."""


class DamagedError(OptitrackVrpnError):
    """Nothing can be read from a file because it is damaged."""


class TransportError(OptitrackVrpnError, OSError):
    """A socket could not be created or used."""
