# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read and write the files of a camera and of maps; read sequences of the TUM RGB-D benchmark.

A map has ``0000.png`` (colour), ``0000_depth.png`` (16 bit, millimetres) and ``0000.yml`` (stamp,
poses, camera) for each keyframe; ``odometry.tum.txt`` and ``path.tum.txt`` for the path of the
camera.
"""

import contextlib
import os
from pathlib import Path
import shutil
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording import format_tum, parse_tum, Trajectory
from optitrack_vrpn.rgbd.calibration import read_storage
from optitrack_vrpn.rgbd.camera import Intrinsics, opencv
from optitrack_vrpn.rgbd.keyframes import Keyframe, pcd_bytes
from optitrack_vrpn.rgbd.loops import View
from optitrack_vrpn.rgbd.tum_sequence import DEPTH_SCALE, Pair, pair, parse_list
import yaml


def load_storage(path: str) -> dict[str, Any]:
    """
    Read a YAML file of ROS or OpenCV.

    :raises ConfigurationError: if the file is missing, unreadable or not valid.
    """
    try:
        text = Path(path).expanduser().read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError, RuntimeError) as error:    # also an unknown ~user
        raise ConfigurationError(f'the calibration {path} cannot be read: {error}') from None
    return read_storage(text, path)


class Sequence:
    """
    A sequence on disk.

    :param folder: folder with rgb.txt, depth.txt and, optionally, groundtruth.txt.
    :raises ConfigurationError: if a list is missing or cannot be read.
    :ivar pairs: pairs of images, sorted by stamp.
    :ivar truth: world_from_optical; None without groundtruth.txt.
    """

    def __init__(self, folder: Path) -> None:
        self._cv2 = opencv()
        self.folder = folder
        colour, depth = (parse_list(_lines(folder / name), str(folder / name))
                         for name in ('rgb.txt', 'depth.txt'))
        self.pairs = pair(colour, depth)
        truth = folder / 'groundtruth.txt'
        self.truth: Optional[Trajectory] = None
        if truth.is_file():
            self.truth = parse_tum(_lines(truth), str(truth))

    def load(self, images: Pair) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """
        Read a pair.

        :returns: red, green and blue (height, width, 3), and depth in metres (height, width), 0
            for no measurement.
        :raises ConfigurationError: with the name of a missing, broken or unsuitable file.
        """
        bgr = self._read(images.colour, self._cv2.IMREAD_COLOR)
        depth = self._read(images.depth, self._cv2.IMREAD_UNCHANGED)
        if depth.dtype != np.uint16 or depth.ndim != 2:
            raise ConfigurationError(
                f'{self.folder / images.depth}: depth must be 16-bit grey, not '
                f'{depth.dtype} of shape {depth.shape}')
        if depth.shape != bgr.shape[:2]:
            raise ConfigurationError(
                f'{self.folder / images.depth}: is {depth.shape[1]} x {depth.shape[0]} pixels, '
                f'its colour image {bgr.shape[1]} x {bgr.shape[0]}: depth must be registered')
        metres: NDArray[np.float32] = depth.astype(np.float32) / np.float32(DEPTH_SCALE)
        rgb: NDArray[np.uint8] = np.ascontiguousarray(bgr[:, :, ::-1])
        return rgb, metres

    def _read(self, name: str, flags: int) -> NDArray[np.generic]:
        path = self.folder / name
        if not path.is_file():    # cv2.imread prints a warning of its own
            raise ConfigurationError(f'{path}: is missing')
        image = self._cv2.imread(str(path), flags)
        if image is None:
            raise ConfigurationError(f'{path}: is not an image')
        found: NDArray[np.generic] = image
        return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: cannot be read: {error}') from None


Floats = NDArray[np.float64]

_ODOMETRY, _PATH = 'odometry.tum.txt', 'path.tum.txt'
_NOTHING = View(np.zeros((0, 3)), np.zeros((0, 3, 3)), np.zeros((0, 32), np.uint8))


def save_keyframes(
    folder: Path, keyframes: list[Keyframe], odometry: Trajectory, path: Trajectory,
) -> None:
    """
    Save a map; the folder appears only when it is complete.

    :param odometry: path of the camera by odometry.
    :param path: the corrected path.
    :raises ConfigurationError: if the folder exists, or cannot be written.
    """
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
    """
    Load a map.

    :returns: keyframes with empty views, and the path by odometry, or None without its file.
    :raises ConfigurationError: with the name of the missing or wrong file.
    """
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
    try:
        lines = file.read_text(encoding='ascii').splitlines()
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{file}: cannot be read: {error}') from None
    return keyframes, parse_tum(lines, str(file)) if lines else None


def save_pcd(file: Path, points: Floats, colours: NDArray[np.uint8]) -> None:
    """
    Save a cloud as binary PCD; a complete new file replaces an existing one.

    :raises ConfigurationError: if it cannot be written.
    """
    part = file.with_name(file.name + '.part')
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(pcd_bytes(points, colours))
        os.replace(part, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise ConfigurationError(f'{file} cannot be written: {error}') from None


def _save(base: Path, keyframe: Keyframe) -> None:
    cv2 = opencv()
    camera = keyframe.camera
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
        'camera': {'width': camera.width, 'height': camera.height, 'fx': camera.fx,
                   'fy': camera.fy, 'cx': camera.cx, 'cy': camera.cy,
                   'distortion': list(camera.distortion)}}, sort_keys=False), encoding='ascii')


def _load(file: Path) -> Keyframe:
    base = file.with_suffix('')
    try:
        content: dict[str, Any] = yaml.safe_load(file.read_text(encoding='utf-8'))
        camera = content['camera']
        intrinsics = Intrinsics(**{**camera, 'distortion': tuple(camera['distortion'])})
        variances = tuple(float(value) for value in content['variances'])
        if len(variances) != 2:
            raise ValueError(f'variances has {len(variances)} values instead of 2')
        poses = [_transform(content[name], name) for name in ('odometry', 'pose')]
        stamp, joined = int(content['stamp_ns']), bool(content['joined'])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError,
            ConfigurationError) as error:
        reason = f'{error.args[0]} is missing' if isinstance(error, KeyError) else error
        raise ConfigurationError(f'{file}: {reason}') from None
    colour = _image(Path(f'{base}.png'), 'uint8', 3)[..., ::-1]
    depth = _image(Path(f'{base}_depth.png'), 'uint16', 1)
    for image in (colour, depth):
        if image.shape[:2] != (intrinsics.height, intrinsics.width):
            raise ConfigurationError(
                f'{file}: the camera has {intrinsics.width} x {intrinsics.height} pixels, an '
                f'image {image.shape[1]} x {image.shape[0]}')
    return Keyframe(int(file.stem), stamp, poses[0], (variances[0], variances[1]), poses[1],
                    np.ascontiguousarray(colour), depth, intrinsics, _NOTHING, joined)


def _transform(values: Any, name: str) -> Floats:
    transform = np.array(values, float)
    if transform.shape != (4, 4) or not np.isfinite(transform).all() or not np.allclose(
            transform[:3, :3] @ transform[:3, :3].T, np.eye(3), atol=1e-6):
        raise ValueError(f'{name} is not a rigid transform (4 x 4)')
    return transform


def _image(file: Path, dtype: str, channels: int) -> NDArray[Any]:
    cv2 = opencv()
    try:
        data = np.frombuffer(file.read_bytes(), np.uint8)
    except OSError as error:
        raise ConfigurationError(f'{file}: {error.strerror}') from None
    image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
    shape = 3 if channels == 3 else 2
    if image is None or str(image.dtype) != dtype or image.ndim != shape:
        raise ConfigurationError(
            f'{file}: is not a PNG of type {dtype} with {channels} channel'
            f'{"s" if channels > 1 else ""}')
    result: NDArray[Any] = image
    return result
