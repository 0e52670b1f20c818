# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Every parameter of the node, once.

The node's descriptors and checks are made from ``TABLE``, and by ``tools/parameters_command.py``
``config/optitrack_vrpn.yaml`` and the table in the README; a test holds them together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
import difflib
import math
from typing import Any, Optional, Union

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.client.link import CONNECTIONS
from optitrack_vrpn.clock import MODES
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.frames import MOTIVE_X, UP_AXES
from optitrack_vrpn.motion.kalman import MotionConfig
from optitrack_vrpn.motion.lowpass import LowpassConfig
from optitrack_vrpn.motion.transform import body_from_base

Value = Union[bool, int, float, str, tuple[str, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Parameter:
    """
    One parameter.

    :ivar name: as in the YAML, sections separated by dots.
    :ivar default: its default; its type is the parameter's type.
    :ivar description: one sentence.
    :ivar unit: of numbers that have one.
    :ivar choices: the values allowed, where they can be listed.
    :ivar low: the least value allowed.
    :ivar high: the greatest value allowed.
    :ivar dynamic: True if it can be changed while the node is configured.
    :ivar at_start: True if it is read when the node starts, and never again.
    """

    name: str
    default: Value
    description: str
    unit: str = ''
    choices: tuple[str, ...] = ()
    low: Optional[float] = None
    high: Optional[float] = None
    dynamic: bool = False
    at_start: bool = False

    @property
    def type_name(self) -> str:
        """Name the type as ROS users know it."""
        if isinstance(self.default, tuple):
            return 'double[]' if self._is_numbers else 'string[]'
        return {bool: 'bool', int: 'int', float: 'double', str: 'string'}[type(self.default)]

    @property
    def _wanted(self) -> str:
        """Name the type in a sentence."""
        if isinstance(self.default, tuple):
            return f'a list of {len(self.default)} decimals' if self._is_numbers else (
                "a list of strings, as ['wand']")
        return f'{"an" if self.type_name == "int" else "a"} {self.type_name}'

    @property
    def _is_numbers(self) -> bool:
        return (isinstance(self.default, tuple) and bool(self.default)
                and isinstance(self.default[0], float))

    @property
    def allowed(self) -> str:
        """Say what is allowed, for people."""
        if self.choices:
            return ', '.join(self.choices)
        low, high = _plain(self.low), _plain(self.high)
        if low and high:
            return f'{low} to {high}'
        if low:
            return f'{low} or more'
        return ''

    def check(self, value: Any) -> Value:
        """
        Check a value given by a user.

        Whole numbers are taken where fractions are expected, since YAML has no other way to
        write ``5``.

        :returns: the value in the parameter's own type.
        :raises ConfigurationError: if it is of another type or not allowed.
        """
        checked = self._convert(value)
        if checked is None:
            raise ConfigurationError(
                f'{self.name} is {shown(value)}; it must be {self._wanted}'
                f'{f" ({self.allowed})" if self.allowed else ""}')
        if self.choices and checked not in self.choices:
            near = difflib.get_close_matches(str(checked), self.choices, 1)
            raise ConfigurationError(
                f'{self.name} is {checked!r}; allowed are {self.allowed}'
                f'{f" (did you mean {near[0]!r}?)" if near else ""}')
        if isinstance(checked, (int, float)) and not isinstance(checked, bool):
            if (not math.isfinite(checked) or (self.low is not None and checked < self.low)
                    or (self.high is not None and checked > self.high)):
                unit = f' {self.unit}' if self.unit else ''
                raise ConfigurationError(
                    f'{self.name} is {checked:g}; allowed is {self.allowed or "a number"}{unit}')
        return checked

    def _convert(self, value: Any) -> Optional[Value]:
        """Bring a value to the parameter's type; None if it is of another."""
        default = self.default
        if isinstance(default, tuple):
            if value is None and not self._is_numbers:
                return ()
            if isinstance(value, (str, bytes)) or not hasattr(value, '__iter__'):
                return None
            items = list(value)
            if self._is_numbers:
                if len(items) != len(default) or not all(
                        isinstance(i, (int, float)) and not isinstance(i, bool)
                        and math.isfinite(i) for i in items):
                    return None
                return tuple(float(i) for i in items)
            # ROS cannot write an empty list of strings; [''] stands for it.
            return tuple(i for i in items if i) if all(
                isinstance(i, str) for i in items) else None
        if isinstance(default, float):
            if isinstance(value, int) and not isinstance(value, bool):
                return float(value)
            return value if isinstance(value, float) else None
        return value if type(value) is type(default) else None


def shown(value: Any) -> str:
    """Write a value as its user did: rclpy has arrays of Python's for lists of numbers."""
    return repr(value.tolist() if hasattr(value, 'tolist') else value)


def _plain(limit: Optional[float]) -> str:
    """Write a limit without an exponent."""
    return '' if limit is None else f'{limit:.6f}'.rstrip('0').rstrip('.')


def _truth_rows() -> list[Parameter]:
    """Make the rows of the thresholds from the dataclass that holds them."""
    said = {
        'acquire_frames': ('consistent frames that make a body TRACKED', '', 1, 1000),
        'stale_after_s': ('silence after which a body is STALE; 0 takes stale_frames', 's', 0, 60),
        'stale_frames': (
            "the same in frame intervals of the body's own rate; 0 for off", '', 0, 10000),
        'stale_min_s': ('the shortest silence that stale_frames may mean', 's', 0, 60),
        'frozen_after_s': (
            'time of one bit-identical pose after which a body is FROZEN; repeats before that '
            'are withheld too; 0 for off (simulators whose bodies stand perfectly still)',
            's', 0, 60),
        'detect_zeroed': ('take an exactly zero pose for a body out of view', '', None, None),
        'max_speed': ('fastest believed motion; 0 for off', 'm/s', 0, 1000),
        'max_angular_rate': ('fastest believed rotation; 0 for off', 'rad/s', 0, 1000),
        'position_margin': ('allowance for noise beside max_speed', 'm', 0, 10),
        'attitude_margin': ('allowance for noise beside max_angular_rate', 'rad', 0, 3.2),
        'max_turn': (
            'rotation between two poses that is a flip however long apart they are; 0 for off',
            'rad', 0, math.pi),
        'memory_s': ('how long the last good pose says anything about the next', 's', 0.01, 60),
        'jump_accept_s': (
            'time in its new place until a jump becomes the new truth; 0 for never', 's', 0, 600),
        'norm_tolerance': (
            "deviation of a quaternion's norm from 1 that is restored; 0 for any", '', 0, 0.99),
        'publish_untracked': (
            "publish every finite pose whatever the body's state: for debugging, never for "
            'flight', '', None, None),
    }
    defaults = BodyConfig()
    rows = []
    for field in fields(BodyConfig):
        text, unit, low, high = said[field.name]
        rows.append(Parameter(
            f'truth.{field.name}', getattr(defaults, field.name), text, unit=unit, low=low,
            high=high, dynamic=True))
    return rows


def _motion_rows() -> list[Parameter]:
    """Make the rows of the motion estimate from the dataclass that holds its settings."""
    said = {
        'position_noise': ('standard deviation of a measured position, each axis', 'm'),
        'attitude_noise': ('standard deviation of a measured attitude, each axis', 'rad'),
        'acceleration_wander': (
            'change of the acceleration in one second; more follows faster, less is smoother',
            'm/s^2'),
        'angular_wander': ('the same for the angular acceleration', 'rad/s^2'),
        'adaptive': ('learn both wanders from the motion, starting from these', ''),
        'reset_after_s': ('gap between poses after which velocities begin anew', 's'),
    }
    defaults = MotionConfig()
    return [
        Parameter(
            f'motion.{field.name}', getattr(defaults, field.name), said[field.name][0],
            unit=said[field.name][1],
            low=None if field.name == 'adaptive' else 1e-9,
            high=None if field.name == 'adaptive' else 1e6, dynamic=True)
        for field in fields(MotionConfig)]


TABLE: tuple[Parameter, ...] = (
    Parameter('server', 'localhost', 'host name or IPv4 address of the Motive PC'),
    Parameter('port', 3883, 'its VRPN port', low=1, high=65535),
    Parameter(
        'connection', 'auto', 'way to the server: tcp (connect out, passes NAT and firewalls), '
        'udp (request and connect-back), or auto (tcp; udp only where TCP is refused)',
        choices=CONNECTIONS),
    Parameter('interface', '', 'local IPv4 address or network card; empty for the routed one'),
    Parameter(
        'advertise', '', 'HOST or HOST:PORT that the server is told to connect back to, where '
        'that is not the local address'),
    Parameter(
        'backend', 'builtin', 'the client: built in, or the vrpn module of the VRPN library',
        choices=('builtin', 'python_vrpn')),
    Parameter('trackers', ('',), 'tracker names, which python_vrpn cannot find out by itself'),
    Parameter(
        'connect.max_attempts', 0, 'failed attempts in a row before giving up; 0 for never',
        low=0, high=1_000_000),
    Parameter(
        'connect.timeout_s', 0.0, 'time without a connection before giving up; 0 for never',
        unit='s', low=0, high=1e6),
    Parameter(
        'connect.retry_max_s', 2.0, 'longest pause between attempts', unit='s', low=0.05,
        high=600),
    Parameter(
        'watchdog.silent_after_s', 1.0, 'time without a pose that is reported as silence; 0 for '
        'never', unit='s', low=0, high=3600),
    Parameter(
        'watchdog.reconnect_after_s', 10.0, 'time without a pose after which the connection is '
        'made anew, doubling up to 60 s while that does not help; 0 for never', unit='s', low=0,
        high=3600),
    Parameter('autostart', False, 'configure by itself at start, for use without a manager',
              at_start=True),
    Parameter(
        'activate', True, 'let autostart go on to active; false waits in inactive, as '
        'mocap control wants it', at_start=True),
    Parameter('up_axis', 'y', 'the up axis of what Motive sends', choices=UP_AXES),
    Parameter(
        'motive_x', 'north', "where Motive's x axis points on the map", choices=MOTIVE_X),
    Parameter('frames.world', 'optitrack', 'frame id of the ENU world'),
    Parameter('frames.world_ned', 'optitrack_ned', 'frame id of the NED world'),
    Parameter('frames.body', '{body}', 'frame id of a body in ENU (FLU axes)'),
    Parameter('frames.body_ned', '{body}_ned', 'frame id of a body in NED (FRD axes)'),
    Parameter('topics.pose', '{body}/pose', "topic of a body's pose in ENU"),
    Parameter('topics.pose_ned', '{body}/pose_ned', "topic of a body's pose in NED"),
    Parameter(
        'topics.pose_cov', '{body}/pose_cov', "topic of a body's pose in ENU with covariance"),
    Parameter('topics.odom', '{body}/odom', "topic of a body's odometry in ENU"),
    Parameter('topics.twist', '{body}/twist', "topic of a body's velocity along ENU's axes"),
    Parameter(
        'topics.accel', '{body}/accel', "topic of a body's acceleration along ENU's axes"),
    Parameter('topics.status', '{body}/status', "topic of a body's state"),
    Parameter('publish.enu', True, 'publish poses in ENU', dynamic=True),
    Parameter('publish.ned', True, 'publish poses in NED', dynamic=True),
    Parameter('publish.tf', True, 'broadcast transforms of the worlds that are published',
              dynamic=True),
    Parameter('publish.pose_cov', False, 'publish poses with covariance', dynamic=True),
    Parameter('publish.odom', False, "publish odometry: pose in ENU, twist in the body's axes",
              dynamic=True),
    Parameter('publish.twist', False, "publish velocities along ENU's axes",
              dynamic=True),
    Parameter('publish.accel', False, "publish accelerations along ENU's axes",
              dynamic=True),
    Parameter('publish.status', True, "publish every body's state, latched", dynamic=True),
    Parameter(
        'publish.keep_up', True, 'where this computer does not keep up, leave whole frames out, '
        'evenly, so that the others are fresh; false: all go out, late, until stamps.max_age_s',
        dynamic=True),
    Parameter(
        'velocity_source', 'estimate', 'velocities and accelerations: estimated from the poses, '
        'or those that the server itself sends (Motive sends none)',
        choices=('estimate', 'server')),
    *_motion_rows(),
    Parameter(
        'motion.learn_noise', True, 'take the noise from the body itself once it has been at '
        'rest, for covariances and for the filter', dynamic=True),
    Parameter(
        'lowpass.cutoff_hz', 0.0, 'smooth poses by a causal Butterworth low-pass of this '
        'cutoff; 0 for off', unit='Hz', low=0, high=1000),
    Parameter('lowpass.order', 5, 'its order', low=1, high=10),
    Parameter(
        'lowpass.compensate_delay', False, 'take its delay off the stamps, which are older then'),
    Parameter(
        'world_offset.origin', (0.0, 0.0, 0.0), 'where in the mocap world (ENU) your origin is',
        unit='m'),
    Parameter(
        'world_offset.yaw', 0.0, 'heading of your x axis in the mocap world, about up',
        unit='rad', low=-2 * math.pi, high=2 * math.pi),
    Parameter(
        'qos.preset', 'default', 'sensor_data is best effort with a depth of 5 and overrides '
        'the two below', choices=('default', 'sensor_data')),
    Parameter(
        'qos.reliability', 'reliable', 'reliability of all poses; reliable serves every '
        'subscriber', choices=('reliable', 'best_effort')),
    Parameter('qos.depth', 10, 'messages kept for a slow subscriber', low=1, high=100000),
    Parameter(
        'stamps.mode', 'tracking', 'where stamps come from, see docs/stamps.md', choices=MODES),
    Parameter(
        'stamps.offset_samples', 100, 'messages from which min_offset takes its constant', low=1,
        high=1_000_000),
    Parameter(
        'stamps.latency_ms', 0.0, 'from exposure to the earliest possible arrival, as measured '
        'by you; taken off every stamp', unit='ms', low=0, high=1000),
    Parameter(
        'stamps.max_gap_s', 30.0, 'time without a frame after which the next begins a new epoch',
        unit='s', low=1, high=3600),
    Parameter(
        'stamps.max_age_s', 0.5, 'a pose that waits longer than this is not published; what '
        'stamps.latency_ms and lowpass.compensate_delay take off its stamp is no waiting; 0 for '
        'any', unit='s', low=0, high=3600),
    Parameter(
        'expected_rate_hz', 0.0, 'the camera rate; a slower body is a warning on /diagnostics; '
        '0 compares with the fastest body, and warns of 60 Hz, the rate of displays', unit='Hz',
        low=0, high=10000, dynamic=True),
    Parameter(
        'bodies.allow', ('*',), 'names or patterns (*, ?, [abc]) of bodies that are wanted',
        dynamic=True),
    Parameter('bodies.deny', ('',), 'names or patterns of bodies that are not', dynamic=True),
    Parameter('bodies.max', 500, 'most bodies followed', low=1, high=2000),
    Parameter(
        'control.generations', ('auto',), 'generations of mocap control that are followed: auto '
        'for those whose messages are installed, or some of mocap4r2, mocap and seed, or none',
        at_start=True),
    Parameter(
        'control.absolute_topics', True, 'its topics in the root namespace, where rqt looks, '
        'whatever the namespace of the node', at_start=True),
    Parameter('control.configure_on_start', False, 'let a START configure an unconfigured node',
              at_start=True),
    *_truth_rows(),
)

BY_NAME: dict[str, Parameter] = {row.name: row for row in TABLE}

#: What can be set for one body, as ``bodies.<name>.<setting>`` with Motive's name for it: names
#: in ROS, where its base is, thresholds (all of ``truth.*``, with or without that word), and how
#: it is smoothed and its motion estimated.
BODY_NAMES = ('name', 'frame', 'topic')
BODY_THRESHOLDS: tuple[str, ...] = tuple(field.name for field in fields(BodyConfig))
BODY_ESTIMATES: tuple[str, ...] = (
    *(f'lowpass.{field.name}' for field in fields(LowpassConfig)),
    *(f'motion.{field.name}' for field in fields(MotionConfig)))
BODY_SETTINGS: tuple[str, ...] = (*BODY_NAMES, 'offset', *BODY_THRESHOLDS, *BODY_ESTIMATES)
_BODY_SECTIONS = ('truth', 'lowpass', 'motion')


def defaults() -> dict[str, Value]:
    """Give every parameter's default in its checked form."""
    return {row.name: row.check(row.default) for row in TABLE}


def is_body_setting(name: str) -> bool:
    """Tell whether a name is that of a setting for one body."""
    return name.startswith('bodies.') and name not in BY_NAME and name.count('.') >= 2


def body_settings(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """
    Collect the settings of single bodies.

    :param values: parameter values by name; ``bodies.<name>.<setting>`` are looked at.
    :returns: checked settings by body name or pattern.
    :raises ConfigurationError: naming every setting that is unknown or whose value is not
        allowed, one a line.
    """
    found, wrong = sift_body_settings(values)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return found


def sift_body_settings(
    values: Mapping[str, Any],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """
    Part the settings of single bodies into those that hold and what is wrong with the rest.

    :returns: checked settings by body name or pattern, and a line for each that is wrong.
    """
    found: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    for name, value in values.items():
        if not is_body_setting(name):
            continue
        body, setting = split_body_setting(name)
        settings = found.setdefault(body, {})
        try:
            if setting in settings:
                raise ConfigurationError(
                    f'{name} is given twice, with and without the word truth: give one of the two')
            settings[setting] = _check_body_setting(name, setting, value)
        except ConfigurationError as error:
            wrong.append(str(error))
    return found, wrong


def _check_body_setting(name: str, setting: str, value: Any) -> Any:
    """
    Check one setting of one body.

    :raises ConfigurationError: if it is unknown or its value not allowed.
    """
    if setting not in BODY_SETTINGS:
        near = difflib.get_close_matches(setting, BODY_SETTINGS, 1, 0.7)
        allowed = ', '.join((*BODY_NAMES, 'offset', *(f'{one}.*' for one in _BODY_SECTIONS)))
        raise ConfigurationError(
            f'{name}: there is no setting {setting!r} for a body; '
            f'{f"did you mean {near[0]!r}?" if near else f"allowed are {allowed}"}')
    if setting in BODY_NAMES:
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f'{name} is {shown(value)}; give a name for ROS')
        return value
    if setting == 'offset':
        return body_from_base(value, name)
    row = BY_NAME.get(setting) or BY_NAME[f'truth.{setting}']
    try:
        return row.check(value)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace(row.name, name, 1)) from None


def split_body_setting(name: str) -> tuple[str, str]:
    """
    Tell body and setting apart in ``bodies.<name>.<setting>``.

    The setting is what follows the last dot, or the last but one where that is a section of the
    table; so the names of bodies may hold dots and spaces.

    :returns: the body's name or pattern, and the setting, without ``truth.``.
    """
    body, _, setting = name[len('bodies.'):].rpartition('.')
    whose, _, section = body.rpartition('.')
    if whose and section in _BODY_SECTIONS:
        return whose, setting if section == 'truth' else f'{section}.{setting}'
    return body, setting


def is_fixed(name: str) -> bool:
    """Tell whether a setting of one body can not be changed while the node is configured."""
    _, setting = split_body_setting(name)
    row = BY_NAME.get(setting) or BY_NAME.get(f'truth.{setting}')
    return row is None or not row.dynamic


def check_all(values: Mapping[str, Any]) -> dict[str, Value]:
    """
    Check a whole set of parameters; what is not given takes its default.

    :raises ConfigurationError: naming every value that is wrong, one a line.
    """
    checked, wrong = sift(values)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return checked


def sift(values: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    """
    Part a whole set of parameters into those that hold and what is wrong with the rest.

    :returns: every parameter, at its default where it is not given or wrong; and a line for
        each that is wrong.
    """
    checked = defaults()
    wrong = []
    for name, value in values.items():
        row = BY_NAME.get(name)
        if row is None:
            if not is_body_setting(name):
                wrong.append(unknown(name))
            continue
        try:
            checked[name] = row.check(value)
        except ConfigurationError as error:
            wrong.append(str(error))
    return checked, wrong


def unknown(name: str) -> str:
    """Say that a parameter does not exist, and which one may have been meant."""
    return f'there is no parameter {name!r}; {_suggest(name, list(BY_NAME))}'


def foreign(name: str) -> bool:
    """
    Tell whether an unknown parameter resembles none of this package's.

    It then belongs to another node of a shared parameter file rather than to a typing error.
    """
    section = name.partition('.')[0]
    return not (
        difflib.get_close_matches(name, list(BY_NAME), 1, 0.7)
        or ('.' in name and any(known.startswith(f'{section}.') for known in BY_NAME)))


def _suggest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return f'did you mean {near[0]!r}?' if near else 'see the table in README.md'
