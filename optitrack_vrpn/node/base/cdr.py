# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Serialise messages to CDR in one step, from plain numbers.

rclpy copies a message field by field to C, and the middleware serialises it to CDR. All messages
of a body that change with each pose have the same structure: encapsulation and stamp, constant
names, then doubles up to the end. This module therefore serialises the constant part once, and a
single ``struct`` call per message inserts the numbers; ``Publisher.publish`` accepts bytes.

The layout is verified: rclpy serialises a message with known numbers, and the bytes must be equal
except for the padding, which is undefined in rclpy and zero here. If they differ (another encoding
or byte order), ``UnsupportedCdr`` is raised, and messages are published as objects
(``messages.py``).
"""

from itertools import chain
import struct
from typing import Any, Callable, Final, Mapping, NamedTuple, Sequence, TYPE_CHECKING

from builtin_interfaces.msg import Time
from optitrack_vrpn.core.units import NS_PER_S
from rclpy.serialization import serialize_message

if TYPE_CHECKING:
    from geometry_msgs.msg import TransformStamped

#: Encapsulation header of little-endian CDR without options.
ENCAPSULATION: Final = b'\0\1\0\0'
#: Stamp: seconds and nanoseconds.
_STAMP = struct.Struct('<iI')
pack_stamp: Final = _STAMP.pack
_PACK_COUNT: Final = struct.Struct('<I').pack
_PROBE_TIME = Time(sec=1_234_567_890, nanosec=987_654_321)
_PADDINGS = (b'\0', b'\xff')
_PROBE_STAMP = _STAMP.pack(_PROBE_TIME.sec, _PROBE_TIME.nanosec)

#: Fills a message: stamp, then groups of numbers.
Fill = Callable[..., None]
#: Makes a message, ready to be published, from a stamp in CDR and the same groups of numbers.
Write = Callable[..., Any]


class UnsupportedCdr(Exception):
    """rclpy serialises a message with a layout that this module does not support."""


def stamp_bytes(stamp_ns: int) -> bytes:
    """Convert nanoseconds since the Unix epoch to a ROS time in CDR."""
    return pack_stamp(stamp_ns // NS_PER_S, stamp_ns % NS_PER_S)


def time_of(stamp: bytes) -> Time:
    """Convert a ROS time in CDR to a message."""
    seconds, nanoseconds = _STAMP.unpack(stamp)
    return Time(sec=seconds, nanosec=nanoseconds)


def serialisation_template(message: Any, fill: Fill, sizes: Sequence[int]) -> Write:
    """
    Prepare the serialisation of a message with constant names.

    :param message: message with its names set; used for the verification.
    :param fill: fills the message.
    :param sizes: length of each group of numbers that ``fill`` takes.
    :returns: ``write(stamp, *groups)``, which returns the bytes that rclpy would make of the
        filled message.
    :raises UnsupportedCdr: if rclpy serialises the message differently.
    """
    groups, numbers = _probe(sizes)
    fill(message, _PROBE_TIME, *groups)
    strings = _strings(message)
    # Alignment is relative to the end of the encapsulation; the stamp has 8 bytes.
    _check(message, *(
        b''.join((ENCAPSULATION, _PROBE_STAMP, _names(strings, 8, padding), numbers))
        for padding in _PADDINGS))
    return _writer(ENCAPSULATION, _names(strings, 8), sizes)


class PoseWriter:
    """
    Write a message that ends with a position and an attitude.

    :param before: its beginning, before the stamp.
    :param names: what follows the stamp.
    :ivar pack: makes the bytes of ``before``, the stamp in CDR, ``names`` and seven numbers; the
        hot path calls it, which saves a call.
    """

    __slots__ = ('before', 'names', 'pack')

    def __init__(self, before: bytes, names: bytes) -> None:
        self.before = before
        self.names = names
        self.pack: Callable[..., bytes] = struct.Struct(
            f'<{len(before)}s8s{len(names)}s7d').pack

    def __call__(self, stamp: bytes, position: Any, quat: Any) -> bytes:
        """Return the bytes of a message."""
        return self.pack(self.before, stamp, self.names, *position, *quat)


class TransformWriter(NamedTuple):
    """
    Serialise one body's transform within a TFMessage.

    Doubles are aligned to 8 bytes from the beginning of the message. The padding of the first
    transform, which follows the count (4 bytes), can therefore differ from that of the others.

    :ivar first: writes the first transform of a message.
    :ivar other: writes each following transform.
    """

    first: Write
    other: Write


def transform_template(transform: 'TransformStamped', fill: Fill) -> TransformWriter:
    """
    Prepare a transform within a TFMessage.

    :param transform: transform with its names set; used for the verification.
    :param fill: fills the transform.
    :returns: writers of pieces, which ``tf_message`` joins.
    :raises UnsupportedCdr: if rclpy serialises the message differently.
    """
    from tf2_msgs.msg import TFMessage    # with numpy, which the start does not wait for
    sizes = (3, 4)
    groups, numbers = _probe(sizes)
    fill(transform, _PROBE_TIME, *groups)
    strings = _strings(transform)
    _check(TFMessage(transforms=[transform] * 3), *(
        tf_message([
            _PROBE_STAMP + _names(strings, offset, padding) + numbers for offset in (12, 8, 8)])
        for padding in _PADDINGS))
    return TransformWriter(
        _writer(b'', _names(strings, 12), sizes), _writer(b'', _names(strings, 8), sizes))


def tf_message(pieces: Sequence[bytes]) -> bytes:
    """Join serialised transforms to a TFMessage; ``first`` must have written the first one."""
    return b''.join((ENCAPSULATION, _PACK_COUNT(len(pieces)), *pieces))


def status_message(
    name: str, level: int, text: str, values: Mapping[str, str], hardware_id: str,
    padding: bytes = b'\0',
) -> bytes:
    """
    Serialise a diagnostic_msgs/DiagnosticStatus with these fields.

    :param padding: padding byte; ``check_status`` uses two different ones.
    """
    head = _names((name, text, hardware_id), 1, padding, 4)
    pairs = [word for pair in values.items() for word in pair]
    return b''.join((ENCAPSULATION, bytes((level,)), head, _PACK_COUNT(len(values)),
                     _names(pairs, 0, padding, 1)))


def check_status(status: Any) -> None:
    """
    Verify that ``status_message`` writes a message as rclpy does.

    :param status: a diagnostic_msgs/DiagnosticStatus.
    :raises UnsupportedCdr: if rclpy serialises it differently.
    """
    values = {pair.key: pair.value for pair in status.values}
    _check(status, *(status_message(
        status.name, status.level[0], status.message, values, status.hardware_id, padding)
        for padding in _PADDINGS))


# -- layout of a message -------------------------------------------------------------------------

def _strings(message: Any) -> list[str]:
    """List the names in a message, in the order in which they are serialised."""
    strings = [message.header.frame_id]
    if hasattr(message, 'child_frame_id'):
        strings.append(message.child_frame_id)
    return strings


def _names(
    strings: Sequence[str], offset: int, padding: bytes = b'\0', end: int = 8,
) -> bytes:
    """
    Serialise names: length including NUL, text, NUL, aligned to 4 bytes.

    :param offset: offset of the first name (bytes).
    :param padding: padding byte between the names, and between the last name and what follows.
    :param end: alignment of what follows (bytes), by default that of doubles.
    """
    data = bytearray()
    for string in strings:
        text = string.encode() + b'\0'
        data += padding * (-(offset + len(data)) % 4)
        data += _PACK_COUNT(len(text)) + text
    return bytes(data + padding * (-(offset + len(data)) % end))


def _probe(sizes: Sequence[int]) -> tuple[list[list[float]], bytes]:
    """Make groups of different numbers, and the same numbers serialised as doubles."""
    numbers = [0.1 + number for number in range(sum(sizes))]
    groups, start = [], 0
    for size in sizes:
        groups.append(numbers[start:start + size])
        start += size
    return groups, struct.pack(f'<{len(numbers)}d', *numbers)


def _check(message: Any, zeros: bytes, ones: bytes) -> None:
    """Compare rclpy's serialisation with the expected bytes, except for padding."""
    data = serialize_message(message)
    same = len(data) == len(zeros) and all(
        byte == zero or zero != one for byte, zero, one in zip(data, zeros, ones))
    if not same:
        raise UnsupportedCdr(type(message).__name__)


def _writer(before: bytes, names: bytes, sizes: Sequence[int]) -> Write:
    """Create the function that inserts a stamp and groups of numbers."""
    if tuple(sizes) == (3, 4):
        return PoseWriter(before, names)
    if tuple(sizes) == (3, 3):
        # Explicit arguments are faster than chain(). Compiled code unpacks tuples without an
        # iterator.
        pack = struct.Struct(f'<{len(before)}s8s{len(names)}s6d').pack

        def write_vectors(stamp: bytes, linear: Any, angular: Any) -> bytes:
            x, y, z = tuple(linear)
            p, q, r = tuple(angular)
            return pack(before, stamp, names, x, y, z, p, q, r)
        return write_vectors
    return _long_writer(before, names, sizes)


#: Numbers of a covariance.
_COVARIANCE = struct.Struct('<36d')


class _Covariance:
    """Serialise a covariance; the same list object is serialised only once."""

    def __init__(self) -> None:
        self._values: Any = None
        self._data = b''

    def data(self, values: Sequence[float]) -> bytes:
        """Return the bytes of 36 numbers."""
        if values is not self._values:
            self._data = _COVARIANCE.pack(*values)
            self._values = values
        return self._data


def _long_writer(before: bytes, names: bytes, sizes: Sequence[int]) -> Write:
    """Create the function that inserts a stamp and groups of numbers, some of them covariances."""
    numbers = ''.join(
        f'{_COVARIANCE.size}s' if size == 36 else f'{size}d' for size in sizes)
    pack = struct.Struct(f'<{len(before)}s8s{len(names)}s{numbers}').pack
    if tuple(sizes) == (3, 4, 36):
        only = _Covariance()

        def write_pose(stamp: bytes, position: Any, quat: Any, covariance: Any) -> bytes:
            x, y, z = tuple(position)
            qx, qy, qz, qw = tuple(quat)
            return pack(before, stamp, names, x, y, z, qx, qy, qz, qw, only.data(covariance))
        return write_pose
    if tuple(sizes) == (3, 4, 36, 3, 3, 36):
        pose, twist = _Covariance(), _Covariance()

        def write_motion(
            stamp: bytes, position: Any, quat: Any, covariance: Any, linear: Any, angular: Any,
            more: Any,
        ) -> bytes:
            x, y, z = tuple(position)
            qx, qy, qz, qw = tuple(quat)
            u, v, w = tuple(linear)
            p, q, r = tuple(angular)
            return pack(before, stamp, names, x, y, z, qx, qy, qz, qw, pose.data(covariance),
                        u, v, w, p, q, r, twist.data(more))
        return write_motion
    plain = struct.Struct(f'<{len(before)}s8s{len(names)}s{sum(sizes)}d').pack
    return lambda stamp, *groups: plain(before, stamp, names, *chain.from_iterable(groups))
