# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Every error this package raises on purpose, in one tree.

- ``OptitrackVrpnError``: the root; catch it to catch everything below.

  - ``ConfigurationError``: a parameter, option or file says something that cannot be done.
    Scenario: ``up_axis: x`` in the YAML. Nothing has been applied when it is raised.

    - ``BackendUnavailableError``: a backend was asked for whose module is not installed.
      Scenario: ``backend: python_vrpn`` on a machine without the ``vrpn`` module.

  - ``ProtocolError``: the VRPN conversation went wrong.

    - ``LocalProtocolError``: this side asked for something the protocol does not allow; a bug
      in the caller. Scenario: a sender name of more than 99 bytes is to be described.
    - ``RemoteProtocolError``: the peer sent bytes that are not VRPN; the only error that
      bytes from the network may raise. Scenario: a web server answers on port 3883.

      - ``VersionRefusedError``: the peer speaks another major version of VRPN.

  - ``TransportError``: the operating system refused a socket or the network failed.
    Scenario: the host name does not resolve, or the port is already in use.
"""


class OptitrackVrpnError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(OptitrackVrpnError, ValueError):
    """A setting is wrong; the message names it, its place and what is allowed."""


class BackendUnavailableError(ConfigurationError):
    """A backend was asked for that this machine does not have."""


class ProtocolError(OptitrackVrpnError):
    """The VRPN conversation cannot go on."""


class LocalProtocolError(ProtocolError):
    """This side used the protocol wrongly."""


class RemoteProtocolError(ProtocolError):
    """The peer's bytes are not valid VRPN."""


class VersionRefusedError(RemoteProtocolError):
    """The peer speaks a major version of VRPN that this side does not."""


class TransportError(OptitrackVrpnError, OSError):
    """A socket could not be made or used."""
