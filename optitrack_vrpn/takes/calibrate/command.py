# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate latency, body to IMU, base and world: ``calibrate imu|base|world [TAKE]``."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
import json
import math
import os
from pathlib import Path
import sys
from typing import Any, Optional, TYPE_CHECKING

from optitrack_vrpn import __version__
from optitrack_vrpn.cli.arguments import duration, new_file, Parser
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.files_io import add_force, check_output, json_text, read_yaml, whole_file
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.names import counted

if TYPE_CHECKING:
    from optitrack_vrpn.takes.calibrate.results import CalibrationResult

NODE = 'optitrack_vrpn'
LATENCY = 'stamps.latency_ms'


def make_parser() -> Parser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='calibrate', description='Determine the latency of the stamps, where the IMU or the '
        'base is in the body, and which way is down, from motion.',
        epilog='What is refused is in the output, not in the exit code. See docs/calibration.md.')
    kinds = parser.add_subparsers(dest='kind', required=True, metavar='imu|base|world')
    imu = kinds.add_parser('imu', help='latency, body to IMU, gravity, biases')
    _add_common(imu, 'without it, a guided session that records one')
    imu.add_argument('--imu', default='', metavar='TOPIC', help='sensor_msgs/Imu; raw, not fused')
    imu.add_argument('--gravity', type=_between(9.7, 9.9), metavar='M_S2',
                     help='local gravity; default 9.80665, known to 0.02')
    imu.add_argument('--latency-ms', type=_between(0.0, 1000.0), metavar='MS',
                     help='stamps.latency_ms of the take, if it does not contain it')
    imu.add_argument('--imu-in-base', type=float, nargs=6, metavar=('X', 'Y', 'Z', 'R', 'P', 'Y'),
                     help='pose of the IMU in the base (m, rad): bodies.NAME.offset follows')
    imu.add_argument('--seconds', type=duration, default=120.0,
                     help='longest guided session (default %(default)g)')
    base = kinds.add_parser('base', help='bodies.NAME.offset, without an IMU')
    _add_common(base, 'a recording')
    how = base.add_mutually_exclusive_group(required=True)
    how.add_argument('--odometry', metavar='TOPIC', help="the robot's own odometry")
    how.add_argument('--turn', action='store_true', help='the robot turned on the spot')
    how.add_argument('--placements', type=Path, metavar='FILE',
                     help='YAML list of {at, x, y, yaw}: rests on known marks (s, m, rad)')
    base.add_argument('--height', type=float, metavar='M',
                      help='with --turn: height of the base in the mocap world')
    world = kinds.add_parser('world', help='world_offset')
    _add_common(world, 'a recording')
    where = world.add_mutually_exclusive_group(required=True)
    where.add_argument('--placements', type=float, nargs=2, metavar=('S', 'S'),
                       help='when the body rested on the origin, and on the x axis (s)')
    where.add_argument('--reference', metavar='TOPIC', help='the same wand in the other system')
    return parser


def _between(low: float, high: float) -> Callable[[str], float]:
    """Make a parser of numbers in a range."""
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f'{text!r} is not a number from {low:g} to {high:g}')
        return value
    return parse


def _yaml_file(text: str) -> Path:
    """Parse the name of the parameter file; the record has the same name and ends in .json."""
    if text.endswith('.json'):
        raise argparse.ArgumentTypeError(f'{text}: the record is written there; give FILE.yaml')
    return new_file(text)


def _add_common(parser: argparse.ArgumentParser, take: str) -> None:
    parser.add_argument('take', nargs='?', type=Path, metavar='TAKE', help=take)
    parser.add_argument('--body', default='', metavar='NAME', help='name or topic of the body')
    parser.add_argument('-o', '--output', type=_yaml_file, metavar='FILE.yaml',
                        help='write the parameters that passed, and FILE.json with the '
                        'record, which is kept in the folder of the take too')
    add_force(parser)
    parser.add_argument('--json', action='store_true', help='print everything as JSON')
    parser.add_argument('--params', type=Path, metavar='FILE',
                        help="the node's parameter file during the take: values in force")
    parser.add_argument('--apply', type=Path, metavar='FILE',
                        help='set the parameters in this file, with a backup')
    parser.add_argument('--node', default=NODE, help='name of the node (default %(default)s)')


def _imu(arguments: argparse.Namespace) -> 'CalibrationResult':
    from optitrack_vrpn.takes.calibrate.imu import calibrate_imu, Options
    from optitrack_vrpn.takes.calibrate.rows import add_imu_rows, compose_offset, number_in_force
    from optitrack_vrpn.takes.calibrate.take_io import (
        body_poses, latency_in_force, open_take, read_imu)
    take = open_take(arguments.take, arguments.body)
    body, trajectory = body_poses(take, arguments.body)
    topic, imu, unread = read_imu(arguments.take, arguments.imu)
    force = _in_force(arguments)
    stated = [
        value for value in (arguments.latency_ms, latency_in_force(take)) if value is not None]
    known = stated or [number_in_force(force, name) for name in force if name == LATENCY]
    latency = known[0] if known else 0.0
    damage = take.losses()
    result = calibrate_imu(trajectory, imu, Options(latency, arguments.gravity, damage=damage))
    result.notes += [damage] if damage else []
    if unread:
        result.notes.append(f'{counted(unread, "message")} on {topic} cannot be decoded: samples '
                            'are missing')
    if not known:
        result.notes.append('the take does not tell stamps.latency_ms: 0 is assumed, see '
                            '--latency-ms')
    result.record.update(body=body, imu_topic=topic, stamping=take.stamping,
                         connection=take.connection)
    add_imu_rows(result, body, imu.frame_id, take.stamping.get('mode', ''),
                 take.connection.get('transport', ''), arguments.imu_in_base)
    if known and not stated and LATENCY in result.rows:
        result.record['composed'] = [LATENCY]
    compose_offset(result, body, force, take.motive_names.get(body, ''))
    return result


def _base(arguments: argparse.Namespace) -> 'CalibrationResult':
    from optitrack_vrpn.takes.calibrate import base
    from optitrack_vrpn.takes.calibrate.rows import compose_offset
    from optitrack_vrpn.takes.calibrate.take_io import body_poses, open_take
    take = open_take(arguments.take, arguments.odometry or arguments.body)
    body, trajectory = body_poses(take, arguments.body)
    if arguments.odometry:
        from optitrack_vrpn.takes.evaluate.evaluation_calibration import estimate_hand_eye
        _, odometry = body_poses(take, arguments.odometry)
        result = base.odometry_result(estimate_hand_eye(trajectory, odometry), body)
    elif arguments.turn:
        result = base.turn_result(trajectory, arguments.height, body)
    else:
        result = base.placements_result([
            base.Placement(*base.rest_pose(trajectory, at), (x, y, yaw))
            for at, x, y, yaw in _read_placements(arguments.placements)], body)
    result.record.update(body=body)
    compose_offset(result, body, _in_force(arguments), take.motive_names.get(body, ''))
    return result


def _read_placements(path: Path) -> list[tuple[float, float, float, float]]:
    content = read_yaml(path)
    try:
        rows = [(float(row['at']), float(row['x']), float(row['y']), float(row['yaw']))
                for row in content]
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError(
            f'{path}: give a list of {{at: 12.0, x: 0.0, y: 0.0, yaw: 0.0}} (s, m, rad)') from None
    if any(abs(yaw) > 2.0 * math.pi for *_, yaw in rows):
        raise ConfigurationError(f'{path}: yaw is in radians, from -6.3 to 6.3')
    return rows


def _world(arguments: argparse.Namespace) -> 'CalibrationResult':
    from optitrack_vrpn.takes.calibrate import base
    from optitrack_vrpn.takes.calibrate.rows import compose_world
    from optitrack_vrpn.takes.calibrate.take_io import body_poses, open_take
    take = open_take(arguments.take, arguments.reference or arguments.body)
    body, trajectory = body_poses(take, arguments.body)
    if arguments.placements:
        origin, ahead = (base.rest_pose(trajectory, at)[0] for at in arguments.placements)
        result = base.world_result(origin, ahead)
    else:
        from optitrack_vrpn.takes.evaluate.evaluation_calibration import estimate_time_offset
        from optitrack_vrpn.takes.trajectory import interpolate, Trajectory
        _, other = body_poses(take, arguments.reference)
        offset = estimate_time_offset(trajectory, other)
        other = other.shifted(offset.offset_ns)
        positions, quats, valid = interpolate(trajectory, other.stamps_ns)
        ours = Trajectory(other.stamps_ns[valid], positions[valid], quats[valid])
        step = max(1, len(ours) // 600)
        result = base.reference_result(
            ours.at(slice(None, None, step)), other.at(valid).at(slice(None, None, step)))
        result.notes += offset.warnings
    result.record.update(body=body)
    compose_world(result, _in_force(arguments))
    return result


def _alike(first: Any, second: Any) -> bool:
    """Return whether two numbers or lists of them are the same, but for how they are written."""
    try:
        ours, theirs = (
            [float(part) for part in (value if isinstance(value, list) else [value])]
            for value in (first, second))
    except (TypeError, ValueError):
        return False
    return len(ours) == len(theirs) and all(
        math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-9) for one, other in zip(ours, theirs))


def _in_force(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.params is None:
        return {}
    from optitrack_vrpn.takes.calibrate.take_io import read_parameters
    return read_parameters(arguments.params, arguments.node)


def _check_not_from_this_take(arguments: argparse.Namespace, result: 'CalibrationResult') -> None:
    """Refuse a value in force that an earlier result of the same take set."""
    force = _in_force(arguments)
    composed = [name for name in result.record.get('composed', ()) if force.get(name)]
    for path in sorted(arguments.take.glob('calibration*.json')) if composed else ():
        try:
            earlier = json.loads(path.read_text(encoding='utf-8'))['parameters']
            if not isinstance(earlier, dict):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue    # a file of another program
        for name in composed:
            if name in earlier and _alike(earlier[name], force[name]):
                raise ConfigurationError(
                    f'{arguments.params}: its {name} is the result of this take ({path.name}) '
                    'already: --params is the file during the take, such as the .bak beside it')


def finish(arguments: argparse.Namespace, result: 'CalibrationResult') -> None:
    """Print and write a result."""
    from optitrack_vrpn.takes.calibrate.apply_io import apply, PARAMETERS, write_record
    from optitrack_vrpn.takes.calibrate.results import lines, yaml_text
    from optitrack_vrpn.takes.calibrate.take_io import digest
    made = datetime.now().astimezone()
    result.record.update(kind=result.kind, made=made.isoformat(timespec='seconds'),
                         version=__version__, take=str(arguments.take),
                         sha256=digest(arguments.take), in_force=_in_force(arguments))
    text = yaml_text(result, arguments.node)
    if arguments.json:
        print(json_text(result.plain()))
    else:
        print('\n'.join(lines(result)))
        print(f'\n{text}', end='')
    if arguments.output is not None:
        with whole_file(arguments.output, PARAMETERS, _inputs(arguments),
                        arguments.force) as part:
            part.write_text(text, encoding='utf-8')
        write_record(arguments.output.with_suffix('.json'), result.plain(), arguments.force)
    if arguments.apply is not None and result.rows:
        backup = apply(arguments.apply, result.rows, arguments.node)
        print(f'calibrate: {arguments.apply} is changed; the old file is {backup}',
              file=sys.stderr)
    elif arguments.apply is not None:
        print(f'calibrate: {arguments.apply} is unchanged: no parameter passed', file=sys.stderr)
    if arguments.output is not None or arguments.apply is not None:
        _keep_in_take(arguments, result, made)


def _keep_in_take(arguments: argparse.Namespace, result: 'CalibrationResult',
                  made: datetime) -> None:
    """Write the record into the folder of the take, where ``report`` finds it, or say why not."""
    from optitrack_vrpn.takes.calibrate.apply_io import write_record
    folder, output = arguments.take, arguments.output
    if output is not None and output.stem.startswith('calibration') and (
            os.path.realpath(output.parent) == os.path.realpath(folder)):
        return    # the record is there already
    try:
        if not folder.is_dir():
            raise TransportError(f'{folder} is a file')
        write_record(folder / f'calibration_{made:%Y%m%d_%H%M%S_%f}.json', result.plain())
    except TransportError as error:
        print(f'calibrate: no record in the take, its report will not show this: {error}',
              file=sys.stderr)


def _inputs(arguments: argparse.Namespace) -> list[Path]:
    """Return the files and folders that are read."""
    given = (arguments.take, arguments.params, getattr(arguments, 'placements', None))
    return [path for path in given if isinstance(path, Path)]


def _check_files(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be changed or must not be overwritten, before minutes of work."""
    from optitrack_vrpn.takes.calibrate.apply_io import check_changeable, PARAMETERS, RECORD
    if arguments.output is not None:
        try:
            check_output(arguments.output, PARAMETERS, _inputs(arguments), arguments.force)
        except ConfigurationError as error:
            raise ConfigurationError(
                f'{error}; --apply {arguments.output} sets the values in it') from None
        check_output(arguments.output.with_suffix('.json'), RECORD, _inputs(arguments),
                     arguments.force)
    if arguments.apply is not None:
        check_changeable(arguments.apply, arguments.node)
    _in_force(arguments)
    pose = getattr(arguments, 'imu_in_base', None) or [0.0]
    if max(map(abs, pose[:3])) > 20.0 or max(map(abs, pose[3:]), default=0.0) > 2.0 * math.pi:
        raise ConfigurationError(
            '--imu-in-base is x, y, z in metres, up to 20, and roll, pitch, yaw in radians, from '
            '-6.3 to 6.3')


@command('calibrate')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0, also if quantities were refused; else see ``exit_code``.
    """
    parser = make_parser()
    arguments, ros_arguments = parser.parse(argv)
    # The matrices are small: idle threads of the library cost more processor time than they save.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    _check_files(arguments)
    if arguments.take is None:
        if arguments.kind != 'imu':
            parser.error('give a TAKE, as `record` makes it')
        if not arguments.imu or not arguments.body:
            parser.error('a guided session needs --body and --imu')
        with loading('calibrate'):
            from optitrack_vrpn.takes.calibrate.session_ros import guide
        arguments.take = guide(
            arguments.body, arguments.imu, arguments.seconds, ros_arguments, json=arguments.json)
        if arguments.output is None:    # the record is kept beside the data
            arguments.output = arguments.take / 'calibration.yaml'
    with loading('calibrate'):
        result = {'imu': _imu, 'base': _base, 'world': _world}[arguments.kind](arguments)
    _check_not_from_this_take(arguments, result)
    finish(arguments, result)
    return 0
