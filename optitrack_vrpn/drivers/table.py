# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The table of protocols, one row each, and what follows from it: choices, settings, clients.

A row names functions and classes as ``MODULE:NAME``, so that a node imports only what it uses.
"""

from dataclasses import dataclass, field, make_dataclass
import importlib
from typing import Any, Protocol, runtime_checkable

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import section
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Sink, Source

#: The server name that requests a search.
AUTO = 'auto'


@dataclass(frozen=True)
class SourceKind:
    """
    One value of the parameter ``protocol``.

    :ivar client: function that makes the client, ``(config, settings, sink, options) -> Source``:
        the server and the connection to it, all sections of ``source_settings``, the receiver of
        frames and changes, ``SourceOptions``.
    :ivar settings: frozen dataclass of its own parameters, which are named after the row; or ''.
    :ivar searches: function that finds the server if that is ``auto``, ``(waiting, port, card)
        -> address``; or ''.
    :ivar sends: what it sends beyond poses: 'markers', 'skeletons', 'plates', 'recording'.
    :ivar title: its name in texts.
    :ivar probe: function that finds out for the doctor what the client cannot know, see
        ``drivers.probing``; or ''.
    :ivar of: the protocols among which it chooses, best first.
    :ivar merit: what its frames have that those of others lack, for texts; or ''.
    :ivar server: class of its server in the simulated Motive, see ``sim.server_io.Served``; or ''.
    :ivar server_settings: frozen dataclass of that server's settings, which are the section of
        scenarios that is named after the row; '' if ``server.port`` is enough.
    """

    client: str
    settings: str = ''
    title: str = ''
    probe: str = ''
    of: tuple[str, ...] = ()
    searches: str = ''
    sends: frozenset[str] = field(default_factory=frozenset)
    merit: str = ''
    server: str = ''
    server_settings: str = ''


@runtime_checkable
class RecordingSource(Protocol):
    """A source that can record at the sender."""

    def record(self, take: str) -> None:
        """Start a recording under this name."""
        ...

    def stop_recording(self) -> None:
        """Stop the recording."""
        ...


#: The protocols.
SOURCES: dict[str, SourceKind] = {
    'vrpn': SourceKind(
        'optitrack_vrpn.drivers.vrpn.client_io:make_source', title='VRPN',
        probe='optitrack_vrpn.drivers.vrpn.probe_io:look',
        server='optitrack_vrpn.sim.vrpn_io:VrpnServer'),
    'natnet': SourceKind(
        'optitrack_vrpn.drivers.natnet.client_io:make_source',
        'optitrack_vrpn.drivers.natnet.settings:NatNetConfig', title='NatNet',
        probe='optitrack_vrpn.drivers.natnet.probe_io:look',
        searches='optitrack_vrpn.drivers.natnet.client_io:find_server',
        sends=frozenset({'markers', 'skeletons', 'plates', 'recording'}),
        merit='exposure times and tracking flags',
        server='optitrack_vrpn.sim.natnet_io:NatNetServer',
        server_settings='optitrack_vrpn.sim.natnet_settings:NatNet'),
}
#: The protocol that is used where none is set.
DEFAULT = AUTO
SOURCES[AUTO] = SourceKind(
    'optitrack_vrpn.drivers.automatic_io:make_automatic', of=('natnet', 'vrpn'),
    searches=SOURCES['natnet'].searches, sends=SOURCES['natnet'].sends)


@dataclass(frozen=True)
class SourceOptions:
    """
    What a client must know of the settings of others.

    :ivar wanted: what is wanted beyond poses, see ``SourceKind.sends``.
    """

    wanted: frozenset[str] = frozenset()


def source_settings() -> Any:
    """Return the default of a settings dataclass with a section for each row that has settings."""
    kinds = {name: load(kind.settings) for name, kind in SOURCES.items() if kind.settings}
    return make_dataclass('SourceSettings', [
        (name, kind, section(kind())) for name, kind in kinds.items()], frozen=True)()


def own_settings(settings: object, protocol: str) -> Any:
    """Return the section of a protocol; None if it has none."""
    return getattr(settings, protocol, None)


def own_port(protocol: object) -> bool:
    """Return whether a protocol has a port of its own, in place of the parameter ``port``."""
    if not isinstance(protocol, str) or protocol not in SOURCES:
        return False
    settings = SOURCES[protocol].settings
    return bool(settings) and hasattr(load(settings), 'port')


def port_parameter(protocol: str) -> str:
    """Return the name of the parameter that holds the port of a protocol."""
    return f'{protocol}.port' if own_port(protocol) else 'port'


def title(protocol: str) -> str:
    """Return the name of a protocol in texts."""
    return SOURCES[protocol].title or protocol


def protocols_of(protocol: str, config: ClientConfig, settings: object) -> tuple[str, ...]:
    """
    Return the protocols among which one of ``SOURCES`` chooses, best first; else itself.

    Who names the VRPN port of a server, or a backend, and no port of another protocol, means VRPN
    alone.

    :param config: see ``ClientConfig``.
    :param settings: the sections of ``source_settings``.
    """
    of = SOURCES[protocol].of
    if not of:
        return (protocol,)
    if config.server == AUTO:
        return tuple(name for name in of if SOURCES[name].searches)
    usual = ClientConfig()
    ports_named = any(
        own_settings(settings, name).port != load(SOURCES[name].settings)().port
        for name in of if own_port(name))
    if config.backend != usual.backend or (config.port != usual.port and not ports_named):
        return tuple(name for name in of if not own_port(name))
    return of


def using(protocol: str) -> list[str]:
    """Return the values of the parameter ``protocol`` that can use a protocol."""
    return [name for name, kind in SOURCES.items() if protocol in (name, *kind.of)]


def recording_wanted(settings: object) -> str:
    """Return the name of the parameter by which a source is to record, if it is set; else ''."""
    return next((f'{name}.record' for name in SOURCES
                 if getattr(own_settings(settings, name), 'record', False)), '')


def lacking(protocol: str, wanted: str) -> str:
    """Return the protocols to which to set ``protocol`` for something; '' if it sends it."""
    if wanted in SOURCES[protocol].sends:
        return ''
    return ' or '.join(name for name, kind in SOURCES.items() if wanted in kind.sends)


def check_server(protocol: str, server: str) -> None:
    """
    Check that the protocol can find the server.

    :raises ConfigurationError: for an unknown protocol, or a server that cannot be searched.
    """
    if protocol not in SOURCES:
        raise ConfigurationError(f'protocol is {protocol!r}; allowed are {", ".join(SOURCES)}')
    if server == AUTO and not SOURCES[protocol].searches:
        able = ' or '.join(name for name, kind in SOURCES.items() if kind.searches)
        raise ConfigurationError(
            f'server is auto; servers of protocol {protocol} cannot be searched: set protocol to '
            f'{able}, or server to the address of the Motive PC')


def make_source(
    protocol: str, config: ClientConfig, settings: object, sink: Sink,
    options: SourceOptions = SourceOptions(),
) -> Source:
    """
    Make the client of a protocol: see ``driver.Source``.

    :param config: the server and the connection to it.
    :param settings: the sections of ``source_settings``.
    :param sink: see ``driver.Sink``.
    :raises ConfigurationError: for another protocol, or a server that cannot be searched.
    """
    check_server(protocol, config.server)
    made: Source = load(SOURCES[protocol].client)(config, settings, sink, options)
    return made


def load(path: str) -> Any:
    """Import what ``MODULE:NAME`` names."""
    module, _, name = path.partition(':')
    return getattr(importlib.import_module(module), name)
