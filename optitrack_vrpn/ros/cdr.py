# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Messages as the bytes that go over the wire, made in one step from plain numbers.

rclpy copies a message field by field into C, and the middleware from there into CDR. But every
message of a body that changes with each pose looks alike: encapsulation and stamp, then names that
never change, then doubles up to the end. So what rclpy itself makes of a message is taken apart
once, and from then on a single ``struct`` call puts new numbers between the same names;
``Publisher.publish`` takes bytes.

The layout is not taken on trust: a message with tell-tale numbers is serialised by rclpy and must
come out the same, but for the padding, in which rclpy leaves what happened to be in memory and
this module zeros. Where it does not (another encoding, another byte order), ``UnsupportedCdr``
says so, and messages go out as objects (``messages.py``).
"""

from itertools import chain
import struct
from typing import Any, Callable, NamedTuple, Sequence

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

_NS = 1_000_000_000
#: Encapsulation header of little-endian CDR without options.
ENCAPSULATION = b'\0\1\0\0'
#: Stamp: seconds and nanoseconds.
_STAMP = struct.Struct('<iI')
_COUNT = struct.Struct('<I')
_PROBE_TIME = Time(sec=1_234_567_890, nanosec=987_654_321)
_PADDINGS = (b'\0', b'\xff')
_PROBE_STAMP = _STAMP.pack(_PROBE_TIME.sec, _PROBE_TIME.nanosec)

#: Fills a message: stamp, then groups of numbers.
Fill = Callable[..., None]
#: Makes a message, ready to be published, from a stamp in CDR and the same groups of numbers.
Write = Callable[..., Any]


class UnsupportedCdr(Exception):
    """rclpy serialises a message in another way than this module understands."""


def stamp_bytes(stamp_ns: int) -> bytes:
    """Turn nanoseconds since the Unix epoch into a ROS time in CDR."""
    return _STAMP.pack(stamp_ns // _NS, stamp_ns % _NS)


def time_of(stamp: bytes) -> Time:
    """Turn a ROS time in CDR into a message."""
    seconds, nanoseconds = _STAMP.unpack(stamp)
    return Time(sec=seconds, nanosec=nanoseconds)


def serialisation_template(message: Any, fill: Fill, sizes: Sequence[int]) -> Write:
    """
    Prepare a message whose names are known.

    :param message: with its names set; serves to try things out.
    :param fill: fills it.
    :param sizes: how many numbers there are in each group that ``fill`` takes.
    :returns: ``write(stamp, *groups)``, which gives the bytes that rclpy would make of the
        message filled with the same.
    :raises UnsupportedCdr: if rclpy makes something else of it.
    """
    groups, numbers = _probe(sizes)
    fill(message, _PROBE_TIME, *groups)
    strings = _strings(message)
    # Alignment counts from behind the encapsulation; the stamp takes 8 bytes.
    _check(message, *(
        b''.join((ENCAPSULATION, _PROBE_STAMP, _names(strings, 8, padding), numbers))
        for padding in _PADDINGS))
    return _writer(ENCAPSULATION, _names(strings, 8), sizes)


class TransformWriter(NamedTuple):
    """
    Makes one body's piece of a TFMessage.

    Doubles are aligned to 8 bytes from the beginning of the message, so that the first piece,
    which follows the 4 bytes of the count, may have other padding than the rest.

    :ivar first: where it is the first one.
    :ivar other: anywhere behind.
    """

    first: Write
    other: Write


def transform_template(transform: TransformStamped, fill: Fill) -> TransformWriter:
    """
    Prepare a transform within a TFMessage.

    :param transform: with its names set; serves to try things out.
    :param fill: fills it.
    :returns: makes pieces, which ``tf_message`` joins.
    :raises UnsupportedCdr: if rclpy makes something else of it.
    """
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
    """Join transforms, the first made as such, to a TFMessage."""
    return b''.join((ENCAPSULATION, _COUNT.pack(len(pieces)), *pieces))


# -- how a message is laid down ------------------------------------------------------------------

def _strings(message: Any) -> list[str]:
    """List the names in a message, in the order in which they are serialised."""
    strings = [message.header.frame_id]
    if hasattr(message, 'child_frame_id'):
        strings.append(message.child_frame_id)
    return strings


def _names(strings: Sequence[str], offset: int, padding: bytes = b'\0') -> bytes:
    """
    Serialise names that stand before doubles: length with NUL, text, NUL, aligned to 4 bytes.

    :param offset: where they begin.
    :param padding: what is between them, and between the last and the doubles.
    """
    data = b''
    for string in strings:
        text = string.encode() + b'\0'
        data += padding * (-(offset + len(data)) % 4)
        data += _COUNT.pack(len(text)) + text
    return data + padding * (-(offset + len(data)) % 8)


def _probe(sizes: Sequence[int]) -> tuple[list[list[float]], bytes]:
    """Make groups of numbers of which no two are alike, and their doubles in one row."""
    numbers = [0.1 + number for number in range(sum(sizes))]
    groups, start = [], 0
    for size in sizes:
        groups.append(numbers[start:start + size])
        start += size
    return groups, struct.pack(f'<{len(numbers)}d', *numbers)


def _check(message: Any, zeros: bytes, ones: bytes) -> None:
    """Compare what rclpy makes of a message with what is expected, with either padding."""
    data = serialize_message(message)
    same = len(data) == len(zeros) and all(
        byte == zero or zero != one for byte, zero, one in zip(data, zeros, ones))
    if not same:
        raise UnsupportedCdr(type(message).__name__)


def _writer(before: bytes, names: bytes, sizes: Sequence[int]) -> Write:
    """Make a function that puts a stamp and groups of numbers around names."""
    pack = struct.Struct(f'<{len(before)}s8s{len(names)}s{sum(sizes)}d').pack
    if len(sizes) == 2:
        # Nearly all of them; naming the groups is quicker.
        return lambda stamp, first, second: pack(before, stamp, names, *first, *second)
    return lambda stamp, *groups: pack(before, stamp, names, *chain.from_iterable(groups))
