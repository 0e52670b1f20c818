# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A scenario: bodies and their motion, faults, and network impairments.

A tree of frozen dataclasses, created in Python, from a YAML file or from the flags of
``motive_sim``; the names of values are the same in all three.
"""

from collections import Counter
import dataclasses
from dataclasses import dataclass, make_dataclass, MISSING, replace
from pathlib import Path
from typing import Any, Optional, Union

from optitrack_vrpn.cli.files_io import read_yaml
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.documents import yaml_value
from optitrack_vrpn.core.settings.schema import build, checked, rule_of, setting, SettingRule
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.table import AUTO, load, SOURCES, title
from optitrack_vrpn.sim.faults import BODY_FAULTS, BodyFault, FRAME_FAULTS, FrameFault, SwapLabels
from optitrack_vrpn.sim.motion import arranged, Motion, MOTIONS

#: Chosen: the limit of the node; a frame of more bodies needs several datagrams of NatNet.
MAX_BODIES = 500
#: The value of ``protocol`` for those that ``protocol: auto`` of the node chooses from.
BOTH = 'both'


def both() -> list[str]:
    """List the protocols of ``BOTH``."""
    return [name for name in SOURCES if name in SOURCES[AUTO].of]


@checked
@dataclass(frozen=True)
class Noise:
    """Noise of the cameras: normal, independent per axis."""

    position_mm: float = setting(0.0, unit='mm', low=0.0, high=10000.0,
                                 doc='standard deviation of each coordinate')
    attitude_deg: float = setting(0.0, unit='deg', low=0.0, high=180.0,
                                  doc='standard deviation about each body axis')


@checked
@dataclass(frozen=True)
class SimBody:
    """One rigid body."""

    name: str = setting(MISSING, doc='its name in Motive; spaces and case matter')
    motion: Optional[Motion] = setting(None, tags=MOTIONS, doc="none: the scenario's own")
    faults: tuple[BodyFault, ...] = setting((), tags=BODY_FAULTS, doc='faults of this body')


@checked
@dataclass(frozen=True)
class SimClock:
    """
    The sender's clock.

    A frame at time t of the scenario has the stamp base + t and is sent after t / (1 + skew) on
    this computer's raw clock.
    """

    base: str = setting('motive', choices=('motive', 'epoch'),
                        doc="origin of the stamps: Motive's start or the system's epoch")
    start: float = setting(0.0, unit='s', low=0.0, high=3e9,
                           doc='stamp of the first frame where base is motive')
    skew_ppm: float = setting(0.0, unit='ppm', low=-10000.0, high=10000.0,
                              doc="skew relative to this computer's clock")


@checked
@dataclass(frozen=True)
class Network:
    """Network impairments, independent for each client."""

    delay_ms: float = setting(
        0.0, unit='ms', low=0.0, high=10000.0, doc='constant delay of every frame')
    jitter_ms: float = setting(0.0, unit='ms', low=0.0, high=10000.0,
                               doc='mean of the additional random delay; median for lognormal')
    jitter: str = setting('gamma', choices=('gamma', 'exponential', 'lognormal'),
                          doc='its distribution: wired, loaded, wireless')
    loss: float = setting(0.0, low=0.0, high=1.0, doc='probability of the loss of a datagram')
    duplicate: float = setting(0.0, low=0.0, high=1.0, doc='probability of its duplication')
    reorder: float = setting(
        0.0, low=0.0, high=1.0, doc='probability that it is delayed past later datagrams')
    reorder_ms: float = setting(10.0, unit='ms', low=0.0, high=10000.0,
                                doc='delay of a reordered datagram')
    outages: tuple[tuple[float, float], ...] = setting(
        (), unit='s', doc='intervals [start, end] of an interrupted network: datagrams are lost, '
        'TCP data arrives in one burst afterwards')

    def check(self) -> None:
        """
        Check the outages.

        :raises ConfigurationError: if one ends before it begins.
        """
        for start, end in self.outages:
            if not 0 <= start < end:
                raise ConfigurationError(
                    f'outages is [{start:g}, {end:g}]; allowed: 0 <= start < end')


@checked
@dataclass(frozen=True)
class Server:
    """Address of the server, port of a protocol without its own, and limits for clients."""

    host: str = setting('127.0.0.1', doc='local IPv4 address; 0.0.0.0 for every network')
    port: int = setting(
        ClientConfig().port, low=0, high=65535, doc='TCP and UDP port; 0: any free one')
    connect_timeout: float = setting(
        21.0, unit='s', low=0.01, high=300.0,
        doc='timeout of a connect-back, in which no client is served; 21 s on Windows')
    firewall: bool = setting(
        False, doc="as if the clients' firewalls dropped every connect-back until that timeout")

    def check(self) -> None:
        """
        Check the host.

        :raises ConfigurationError: if it is empty, which would be every network.
        """
        if not self.host.strip():
            raise ConfigurationError(
                'host is empty; allowed: a local IPv4 address; 0.0.0.0 for every network')


#: A section for each protocol whose server in the simulator has settings, named after it.
_SECTIONS: Any = make_dataclass('Sections', [
    (name, kind, setting(kind(), doc=f'settings of {title(name)}'))
    for name, kind in ((name, load(row.server_settings)) for name, row in SOURCES.items()
                       if row.server_settings)], frozen=True, kw_only=True)


@checked
@dataclass(frozen=True)
class Scenario(_SECTIONS):
    """All settings of ``motive_sim``."""

    bodies: tuple[SimBody, ...] = setting((), doc='a number, a list of names, or a list of bodies')
    rate: float = setting(120.0, unit='Hz', low=0.1, high=5000.0, doc='frames per second')
    duration: Optional[float] = setting(None, unit='s', low=0.0, high=1e7, doc=(
        'end after this time; none: unlimited'))
    seed: int = setting(0, low=0, high=2**63 - 1, doc='equal seeds give equal poses')
    motion: str = setting('circle', choices=tuple(MOTIONS),
                          doc='motion of bodies without one, each in its own place')
    noise: Noise = setting(Noise(), doc='noise of the poses')
    velocities: bool = setting(False, doc='send velocities and accelerations too, as other VRPN '
                               'servers do')
    clock: SimClock = setting(SimClock(), doc="the sender's clock")
    faults: tuple[FrameFault, ...] = setting((), tags=FRAME_FAULTS, doc='faults of whole frames')
    network: Network = setting(Network(), doc='network between server and clients')
    server: Server = setting(Server(), doc='address and limits')
    protocol: str = setting(
        'vrpn', choices=(*(name for name, kind in SOURCES.items() if kind.server), BOTH),
        doc=f'protocol of the server; {BOTH}: {" and ".join(map(title, both()))}')

    def check(self) -> None:
        """
        Check the consistency of the fields.

        :raises ConfigurationError: for two bodies of one name, too many bodies, and faults of
            bodies that do not exist.
        """
        names = [body.name for body in self.bodies]
        if len(names) > MAX_BODIES:
            raise ConfigurationError(f'bodies: {len(names)} are too many; allowed: {MAX_BODIES}')
        for name, count in Counter(names).items():
            if count > 1:
                raise ConfigurationError(f'bodies: two have the name {name!r}; names must differ')
        for i, fault in enumerate(self.faults):
            if isinstance(fault, SwapLabels):
                for name in fault.bodies:
                    if name not in names:
                        raise ConfigurationError(
                            f'faults[{i}].bodies: no body has the name {name!r}; '
                            f'allowed: {", ".join(map(repr, names))}')

    @property
    def protocols(self) -> list[str]:
        """List the protocols of the server."""
        return both() if self.protocol == BOTH else [self.protocol]

    def settled(self) -> tuple[SimBody, ...]:
        """List the bodies; a missing motion is that of the scenario."""
        count = len(self.bodies)
        return tuple(
            replace(body, motion=body.motion or arranged(self.motion, i, count))
            for i, body in enumerate(self.bodies))


def named_bodies(names: Union[int, list[str], tuple[str, ...]]) -> tuple[SimBody, ...]:
    """
    Create bodies with default settings.

    :param names: their names, or their number; numbered bodies get Motive's default names.
    """
    if isinstance(names, int):
        names = [f'Rigid Body {i + 1}' for i in range(names)]
    return tuple(SimBody(name=name) for name in names)


def scenario_from_mapping(data: Any, where: str = '') -> Scenario:
    """
    Create a scenario from plain data.

    :param data: nested mappings and lists, as in a YAML file.
    :param where: prefix of error messages, such as ``scenario.yaml: ``.
    :raises ConfigurationError: for an invalid value; names the key and the allowed values.
    """
    if isinstance(data, dict) and 'bodies' in data:
        data = {**data, 'bodies': plain_bodies(data['bodies'], f'{where}bodies')}
    return build(Scenario, data, where)


def plain_bodies(value: Any, where: str) -> Any:
    """
    Convert a number of bodies or a list of their names to a list of mappings.

    :param where: name of the value, for messages.
    :returns: the value unchanged if it is anything else.
    :raises ConfigurationError: if the number is not allowed.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_BODIES:
            raise ConfigurationError(f'{where} is {value}; allowed: 0 to {MAX_BODIES}')
        value = [body.name for body in named_bodies(value)]
    if isinstance(value, list):
        return [{'name': item} if isinstance(item, str) else item for item in value]
    return value


def read_mapping(path: Union[str, Path]) -> dict[str, Any]:
    """
    Read the plain data of a scenario file.

    :raises ConfigurationError: if it cannot be read or is not a YAML mapping.
    """
    data = read_yaml(path)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigurationError(f'{path}: a scenario is a mapping of settings')
    return data


def reference() -> str:
    """
    Generate the reference of scenario files.

    :returns: Markdown; config/scenarios/README.md contains it unchanged.
    """
    return '\n'.join((
        *(_table(title, {'': cls}) for title, cls in (
            ('The scenario itself', Scenario), ('`bodies`: each of the list', SimBody),
            ('`noise`', Noise), ('`clock`', SimClock), ('`network`', Network),
            ('`server`', Server),
            *((f'`{name}`', load(kind.server_settings)) for name, kind in SOURCES.items()
              if kind.server_settings))),
        _table('`motion: {type: ...}`', MOTIONS),
        _table('`faults: [{type: ...}]` of a body', BODY_FAULTS),
        _table('`faults: [{type: ...}]` of the scenario', FRAME_FAULTS)))


def _table(title: str, classes: dict[str, type[Any]]) -> str:
    """Write one table for several types; equal rows are written once."""
    lines = [f'#### {title}', '']
    rows: dict[str, list[str]] = {}
    for name, cls in classes.items():
        if name:
            summary = (cls.__doc__ or '').strip().split('\n\n')[0]
            lines.append(f'- `{name}`: {" ".join(summary.split())}'.replace('``', '`'))
        for field in dataclasses.fields(cls):
            rows.setdefault(f'| `{field.name}` | {_default(field)} | {_allowed(field)} | '
                            f'{_rule(field).doc} |', []).append(name)
    if '' in classes:
        return '\n'.join((
            *lines, '| key | default | allowed | meaning |', '|---|---|---|---|', *rows, ''))
    return '\n'.join((
        *lines, '', '| types | key | default | allowed | meaning |', '|---|---|---|---|---|',
        *(f'| {"all" if len(names) == len(classes) else ", ".join(names)} {row}'
          for row, names in rows.items()), ''))


def _default(field: 'dataclasses.Field[Any]') -> str:
    value = field.default
    if value is MISSING:
        return 'required'
    if dataclasses.is_dataclass(value):
        return 'see below'
    return 'none' if value is None else yaml_value(value)


def _allowed(field: 'dataclasses.Field[Any]') -> str:
    if _rule(field).tags:
        return 'see below'
    if isinstance(field.default, bool):
        return 'true, false'
    return _rule(field).allowed or _rule(field).unit


def _rule(field: 'dataclasses.Field[Any]') -> SettingRule:
    return rule_of(field) or SettingRule()
