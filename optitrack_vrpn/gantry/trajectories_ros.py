# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert, check and start the trajectories that the node received: messages or named files."""

import os
from typing import Any, Mapping

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.control import Machine
from optitrack_vrpn.gantry.modes import Mode
from optitrack_vrpn.gantry.trajectory import make, parse, Trajectory
from trajectory_msgs.msg import JointTrajectory

#: The first point of a JointTrajectory, whose positions are absolute, may be this far from the set
#: point of the axis (unit). Chosen: ten times the least deviation of the closed loop. Halved, a
#: trajectory from the measured position can be rejected; doubled, the first step is larger.
_FIRST_POINT = {'linear': 0.01, 'rotary': 1.0}
#: A trajectory with a stamp further ahead (s) is refused, because it would begin later. Chosen:
#: synchronised computers differ by less. Halved, poor synchronisation is refused; doubled, a later
#: start passes as immediate.
_AHEAD_S = 0.1
#: Largest velocity of the last point (m/s, rad/s) that counts as rest. Chosen: the rounding of a
#: planner. Halved or doubled, no other trajectory is affected.
_AT_REST = 1e-6
#: Chosen: largest file (bytes): 300 for each of the most rows. Halved or doubled, so is the memory
#: that a file can take.
_MOST_BYTES = 30_000_000


def refusal(machine: Machine, paths: Mapping[str, Trajectory]) -> str:
    """Return why axes cannot follow their trajectories now, or ''."""
    for name, path in paths.items():
        axis = machine.axes[name]
        if axis.moving or axis.mode in (Mode.SINE, Mode.LOCK, Mode.EMERGENCY):
            return (f'{name}: a trajectory begins at rest, but the axis moves or is in mode '
                    f'{axis.mode.value}')
        if not path.greatest_velocity() <= axis.settings.motor_velocity:
            return (f'{name}: the trajectory reaches {path.greatest_velocity():.4g}, the motor '
                    f'follows {axis.settings.motor_velocity:.4g} at most')
    return ''


def start(machine: Machine, paths: Mapping[str, Trajectory]) -> str:
    """
    Start the trajectories of all given axes, or none.

    :returns: '' or the reason of a refusal.
    """
    return refusal(machine, paths) or '; '.join(filter(None, (
        machine.axes[name].follow(path) for name, path in paths.items())))


def paths_of(
    machine: Machine, message: JointTrajectory, now_s: float,
) -> dict[str, Trajectory]:
    """
    Make the trajectories of a JointTrajectory from where the axes are.

    Its positions (m, rad) are absolute. Where the first point differs from the position of the
    axis, the difference decreases linearly over the trajectory, so that the end is exact.

    :param now_s: present time on the clock of the stamp (s).
    :raises ConfigurationError: if stamp, joints or points are wrong.
    """
    names = list(message.joint_names)
    unknown = [name for name in names if name not in machine.axes]
    if not names or unknown or len(set(names)) < len(names):
        raise ConfigurationError(
            f'joints {", ".join(map(repr, unknown or names)) or "none"} are not axes, or one '
            f'is repeated; allowed: {", ".join(machine.axes)}')
    if not message.points:
        raise ConfigurationError('the trajectory has no points')
    if any(len(p.positions) != len(names) or len(p.velocities) not in (0, len(names))
           for p in message.points):
        raise ConfigurationError(
            f'each point needs {len(names)} positions, and as many velocities or none')
    if any(abs(velocity) > _AT_REST for velocity in message.points[-1].velocities):
        raise ConfigurationError('the trajectory does not end at rest: its last velocity is not 0')
    times = [p.time_from_start.sec + p.time_from_start.nanosec * 1e-9 for p in message.points]
    start_s = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    if start_s and not -times[-1] <= start_s - now_s <= _AHEAD_S:
        raise ConfigurationError(
            f'its start is {abs(start_s - now_s):.3g} s in the '
            f'{"future" if start_s > now_s else "past"}; use a stamp of 0 to begin at once')
    timed = all(len(p.velocities) for p in message.points)
    paths = {}
    for i, name in enumerate(names):
        settings = machine.axes[name].settings
        here = machine.axes[name].state.position
        positions = [p.positions[i] / settings.si_per_unit for p in message.points]
        speeds = [p.velocities[i] / settings.si_per_unit
                  for p in message.points] if timed else None
        at = list(times)
        if at[0] > 0.0:     # from where the axis is, as ros2_control does
            at, positions = [0.0, *at], [here, *positions]
            speeds = None if speeds is None else [0.0, *speeds]
        elif abs(positions[0] - here) > _FIRST_POINT[settings.kind]:
            raise ConfigurationError(
                f'{name}: the first point is {abs(positions[0] - here):.4g} '
                f'{settings.unit} from where the axis is')
        elif at[-1] > at[0]:
            apart, whole = here - positions[0], at[-1] - at[0]
            positions = [p + apart * (at[-1] - t) / whole for t, p in zip(at, positions)]
        paths[name] = make(at, positions, speeds)
    return paths


def load_file(machine: Machine, values: Mapping[str, Any]) -> dict[str, Trajectory]:
    """
    Read the thesis's file.

    :param values: ``file``: its path; ``loop``: begin again at its end.
    :raises ConfigurationError: if a value or the file is wrong.
    """
    path, loop = values.get('file'), values.get('loop', False)
    if not isinstance(path, str) or not isinstance(loop, bool) or set(values) - {'file', 'loop'}:
        raise ConfigurationError(
            'give the parameter file (a path) and optionally loop (true or false)')
    path = os.path.expanduser(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ConfigurationError(f'{path}: is not a regular file')
        if os.path.getsize(path) > _MOST_BYTES:
            raise ConfigurationError(f'{path}: is too large for a trajectory')
        with open(path, encoding='utf-8') as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: cannot be read: {error}') from None
    return parse(text, list(machine.axes), path, loop)
