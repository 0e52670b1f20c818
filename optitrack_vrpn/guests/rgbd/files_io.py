# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read and write maps; read calibration files and sequences of the TUM RGB-D benchmark.

A map has ``0000.png`` (colour), ``0000_depth.png`` (16 bit, millimetres) and ``0000.yml`` (stamp,
poses, camera) for each keyframe; ``odometry.tum.txt`` and ``path.tum.txt`` for the path of the
camera.

A sequence of the benchmark has rgb.txt and depth.txt (``stamp file`` per line), the images, and
groundtruth.txt (``stamp tx ty tz qx qy qz qw``, of the colour camera's optical frame). Depth is
16-bit PNG with 5000 units per metre, 0 for no measurement, registered to the colour image. Source:
the page "File Formats" of the benchmark.
"""

from collections.abc import Iterable
import contextlib
import dataclasses
import os
from pathlib import Path
import re
import shutil
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.cli.files_io import read_yaml, whole_file
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import parse_seconds
from optitrack_vrpn.guests.rgbd.calibration import read_storage
from optitrack_vrpn.guests.rgbd.features import View
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth, unpack_depth
from optitrack_vrpn.guests.rgbd.mapper import Keyframe, pcd_bytes
from optitrack_vrpn.takes.trajectory import Trajectory
from optitrack_vrpn.takes.trajectory_text import format_tum, parse_trajectory
import yaml

#: Focal lengths and principal points of the benchmark's cameras at 640 x 480 (its page
#: "Intrinsic Camera Calibration"); ros: the default of the ROS drivers.
CAMERAS = {
    'fr1': (517.3, 516.5, 318.6, 255.3), 'fr2': (520.9, 521.0, 325.1, 249.7),
    'fr3': (535.4, 539.2, 320.1, 247.6), 'ros': (525.0, 525.0, 319.5, 239.5)}
#: The begin of a cloud that ``save_pcd`` wrote.
_PCD = re.compile(rb'# \.PCD')
_ODOMETRY, _PATH = 'odometry.tum.txt', 'path.tum.txt'


def _text(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError, RuntimeError) as error:    # also an unknown ~user
        raise ConfigurationError(
            f'{path}: cannot be read: {getattr(error, "strerror", None) or error}') from None


def load_storage(path: str) -> dict[str, Any]:
    """Read a YAML file of ROS or OpenCV."""
    return read_storage(_text(Path(path)), path)


def _image(path: Path, dtype: str, channels: int) -> NDArray[Any]:
    """Read a PNG; return colours as red, green and blue."""
    if not path.is_file():    # cv2.imread prints a warning of its own
        raise ConfigurationError(f'{path}: is missing')
    cv2 = opencv()
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None or str(image.dtype) != dtype or image.shape[2:] != (channels,) * (
            channels > 1):
        raise ConfigurationError(
            f'{path}: is not a PNG of type {dtype} with {channels} '
            f'channel{"s" * (channels > 1)}')
    return np.ascontiguousarray(image[..., ::-1]) if channels == 3 else image


def _pair(colour: Path, depth: Path) -> tuple[Bytes, NDArray[np.uint16]]:
    """Read a colour image and its registered depth."""
    images = _image(colour, 'uint8', 3), _image(depth, 'uint16', 1)
    if images[0].shape[:2] != images[1].shape:
        raise ConfigurationError(
            f'{depth}: is {images[1].shape[1]} x {images[1].shape[0]} pixels, its colour image '
            f'{images[0].shape[1]} x {images[0].shape[0]}: depth must be registered')
    return images


# -- sequences of the benchmark ------------------------------------------------------------------


class ListEntry(NamedTuple):
    """A line of a list."""

    stamp_ns: int
    name: str


class Pair(NamedTuple):
    """Images of one exposure; the stamp is that of the colour image."""

    stamp_ns: int
    colour: str
    depth: str


def parse_list(lines: Iterable[str], source: str) -> list[ListEntry]:
    """Read rgb.txt or depth.txt; return entries sorted by stamp."""
    entries = []
    for number, text in enumerate(lines, 1):
        fields = text.split()
        if not fields or fields[0].startswith('#'):
            continue
        try:
            if len(fields) != 2:
                raise ValueError(f'{len(fields)} words')
            entries.append(ListEntry(parse_seconds(fields[0]), fields[1]))
        except ValueError as error:
            raise ConfigurationError(
                f'{source}, line {number}: {error}; a line is a stamp (s) and a file') from None
    if not entries:
        raise ConfigurationError(f'{source}: lists no image')
    return sorted(entries)


def pair(
    colour: list[ListEntry], depth: list[ListEntry], tolerance_ns: int = 20_000_000,
) -> list[Pair]:
    """
    Pair images by their stamps, the closest first; each image is used once.

    :param tolerance_ns: greatest difference of their stamps; by default that of the benchmark.
    :returns: pairs, sorted by stamp.
    :raises ConfigurationError: if no two images are close enough.
    """
    stamps = np.array([each.stamp_ns for each in depth])
    candidates = []
    for at, entry in enumerate(colour):
        first, last = np.searchsorted(
            stamps, (entry.stamp_ns - tolerance_ns, entry.stamp_ns + tolerance_ns + 1))
        candidates += [(abs(depth[other].stamp_ns - entry.stamp_ns), at, other)
                       for other in range(first, last)]
    used: set[str] = set()
    pairs = []
    for _, at, other in sorted(candidates):
        if used.isdisjoint((f'colour {at}', f'depth {other}')):
            used |= {f'colour {at}', f'depth {other}'}
            pairs.append(Pair(colour[at].stamp_ns, colour[at].name, depth[other].name))
    if not pairs:
        raise ConfigurationError(
            f'no colour and depth images are within {tolerance_ns / 1e6:g} ms of each other')
    return sorted(pairs)


def camera_of(
    folder: str, width: int, height: int, name: Optional[str] = None,
    intrinsics: Optional[tuple[float, float, float, float]] = None,
) -> Intrinsics:
    """
    Choose the camera of a sequence.

    :param folder: name of the folder; in the benchmark it contains the camera.
    :param width: width of the images (px).
    :param height: height of the images (px); used only with ``intrinsics``.
    :param name: key of ``CAMERAS``; replaces the name in ``folder``.
    :param intrinsics: fx, fy, cx and cy for this size of the images; they replace both.
    :raises ConfigurationError: if neither the folder nor an argument determines the camera.
    """
    if intrinsics is not None:
        return Intrinsics(width, height, *intrinsics)
    if name is None:
        name = next((f'fr{number}' for number in (1, 2, 3)
                     if f'freiburg{number}' in folder.lower()), None)
    if name is None:
        raise ConfigurationError(
            f'{folder}: the name of the folder does not contain freiburg1, 2 or 3: set --camera '
            f'{", ".join(CAMERAS)}, or give --intrinsics FX FY CX CY')
    return Intrinsics(640, 480, *CAMERAS[name]).scaled(width / 640)


class Sequence:
    """
    A sequence on disk.

    :param folder: folder with rgb.txt, depth.txt and, optionally, groundtruth.txt.
    :raises ConfigurationError: if a list is missing or cannot be read.
    :ivar pairs: pairs of images, sorted by stamp.
    :ivar truth: world_from_optical; None without groundtruth.txt.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        colour, depth = (parse_list(_text(folder / name).splitlines(), str(folder / name))
                         for name in ('rgb.txt', 'depth.txt'))
        self.pairs = pair(colour, depth)
        truth = folder / 'groundtruth.txt'
        self.truth: Optional[Trajectory] = parse_trajectory(
            _text(truth).splitlines(), str(truth)) if truth.is_file() else None

    def load(self, images: Pair) -> tuple[Bytes, Depth]:
        """Read a pair: colours (height, width, 3) and depth in metres, 0 for no measurement."""
        rgb, depth = _pair(self.folder / images.colour, self.folder / images.depth)
        return rgb, unpack_depth(depth, 1 / 5000)


# -- maps ----------------------------------------------------------------------------------------


def save_keyframes(
    folder: Path, keyframes: list[Keyframe], odometry: Trajectory, path: Trajectory,
) -> None:
    """Save a map with both paths; the folder appears only when it is complete."""
    part = folder.with_name(folder.name + '.part')
    try:
        if os.path.lexists(folder):
            raise ConfigurationError(
                f'{folder} exists and is not overwritten: name another folder, or remove it')
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for keyframe in keyframes:
            _save(part / f'{keyframe.number:04d}', keyframe)
        for name, trajectory in ((_ODOMETRY, odometry), (_PATH, path)):
            with open(part / name, 'w', encoding='ascii') as file:
                file.writelines(format_tum(trajectory))
        os.replace(part, folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise ConfigurationError(f'{folder} cannot be written: {error}') from None


def load_keyframes(folder: Path) -> tuple[list[Keyframe], Optional[Trajectory]]:
    """Load keyframes with empty views, and the path by odometry, if it has a file."""
    # by number, because the text order puts 10000 before 9999
    names = sorted((name for name in folder.glob('*.yml') if name.stem.isdecimal()),
                   key=lambda name: int(name.stem))
    if not names:
        raise ConfigurationError(
            f'{folder} has no keyframes (files such as 0000.yml); the mapper saves them with its '
            'service save_keyframes')
    keyframes = [_load(name) for name in names]
    stamps = [each.stamp_ns for each in keyframes]
    for name, before, after in zip(names[1:], stamps, stamps[1:]):
        if after <= before:
            raise ConfigurationError(f'{name}: its stamp is not later than that of the previous '
                                     'keyframe')
    file = folder / _ODOMETRY
    return keyframes, (
        parse_trajectory(_text(file).splitlines(), str(file)) if file.exists() else None)


def save_pcd(file: Path, points: Floats, colours: Bytes) -> None:
    """Save a cloud as binary PCD; a complete new file replaces an existing one."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file, _PCD) as part:
        part.write_bytes(pcd_bytes(points, colours))


def _save(base: Path, keyframe: Keyframe) -> None:
    cv2 = opencv()
    for name, image in ((f'{base}.png', keyframe.colour[..., ::-1]),
                        (f'{base}_depth.png', keyframe.depth)):
        done, data = cv2.imencode('.png', np.ascontiguousarray(image))
        if not done:
            raise OSError(f'{name} cannot be encoded')
        Path(name).write_bytes(data.tobytes())
    Path(f'{base}.yml').write_text(yaml.safe_dump({
        'stamp_ns': int(keyframe.stamp_ns), 'joined': keyframe.joined,
        'odometry': keyframe.odometry.tolist(), 'pose': keyframe.pose.tolist(),
        'variances': [float(value) for value in keyframe.variances],
        'camera': {**dataclasses.asdict(keyframe.camera), 'distortion':
                   list(keyframe.camera.distortion)}}, sort_keys=False), encoding='ascii')


def _load(file: Path) -> Keyframe:
    base = file.with_suffix('')
    content: dict[str, Any] = read_yaml(file)
    try:
        camera = content['camera']
        intrinsics = Intrinsics(**{**camera, 'distortion': tuple(camera['distortion'])})
        variances = tuple(float(value) for value in content['variances'])
        if len(variances) != 2:
            raise ValueError(f'variances has {len(variances)} values instead of 2')
        poses = [_transform(content[name], name) for name in ('odometry', 'pose')]
        stamp, joined = int(content['stamp_ns']), bool(content['joined'])
    except (KeyError, TypeError, ValueError, ConfigurationError) as error:
        reason = f'{error.args[0]} is missing' if isinstance(error, KeyError) else error
        raise ConfigurationError(f'{file}: {reason}') from None
    colour, depth = _pair(Path(f'{base}.png'), Path(f'{base}_depth.png'))
    if depth.shape != (intrinsics.height, intrinsics.width):
        raise ConfigurationError(
            f'{file}: the camera has {intrinsics.width} x {intrinsics.height} pixels, its images '
            f'{depth.shape[1]} x {depth.shape[0]}')
    return Keyframe(int(file.stem), stamp, poses[0], (variances[0], variances[1]), poses[1],
                    colour, depth, intrinsics, View(), joined)


def _transform(values: Any, name: str) -> Floats:
    transform = np.array(values, float)
    if transform.shape != (4, 4) or not np.isfinite(transform).all() or not np.allclose(
            transform[:3, :3] @ transform[:3, :3].T, np.eye(3), atol=1e-6):
        raise ValueError(f'{name} is not a rigid transform (4 x 4)')
    return transform
