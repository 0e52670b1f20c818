# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Layouts of NatNet's data as values: one description decodes and encodes.

A layout reads its value from a ``Reader`` and writes it as bytes, both for a version of the
bitstream. Layouts are composed; the tables are in ``frames`` and ``definitions``.
"""

from collections.abc import Callable, Iterable
import math
import struct
from typing import Any, Optional

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.drivers.natnet.messages import Buffer, CERTAIN, MAX_NAME, Version

#: What a layout reads and writes: a number, a text, a tuple or a list of others. The type follows
#: from the table of layouts, which mypy does not evaluate.
Value = Any
_I32 = struct.Struct('<i')
_SECTION = struct.Struct('<ii')
_ZERO = _I32.pack(0)


def _disagreeing(count: int, least: int, size: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f'{count} entries of {least} bytes are announced with {size} bytes')


def decoded_text(data: bytes) -> str:
    """Decode a text; invalid UTF-8 is escaped, so that names stay different."""
    return data.decode('utf-8', 'backslashreplace')


class Reader:
    """
    A position in a payload.

    Counts are checked against the remaining bytes, so that no count makes this side allocate more
    memory than the datagram contained.

    :param data: the payload.
    :param position: first byte.
    :param end: end; by default the end of the data.
    :param texts: takes the first byte and the NUL of each text; None without.
    """

    __slots__ = ('data', 'position', 'end', 'texts')

    def __init__(self, data: Buffer, position: int = 0, end: int = -1,
                 texts: Optional[list[tuple[int, int]]] = None) -> None:
        self.data = data if isinstance(data, bytes) else bytes(data)
        self.position = position
        self.end = len(self.data) if end < 0 else end
        self.texts = texts

    @property
    def left(self) -> int:
        """Return the number of remaining bytes."""
        return self.end - self.position

    def skip(self, size: int) -> int:
        """
        Skip bytes; return the position of the first of them.

        :raises RemoteProtocolError: if fewer bytes remain.
        """
        start = self.position
        if not 0 <= size <= self.end - start:
            raise RemoteProtocolError(
                f'{size} bytes are announced at byte {start}, {self.left} are left')
        self.position = start + size
        return start

    def i32(self) -> int:
        """Decode a signed 32-bit integer."""
        position = self.position
        if self.end - position < 4:
            raise RemoteProtocolError(f'the payload ends at byte {self.end}, within a number')
        self.position = position + 4
        return int(_I32.unpack_from(self.data, position)[0])

    def count(self, least_size: int) -> int:
        """
        Decode the number of the entries that follow.

        :param least_size: minimum size of an entry (bytes).
        :raises RemoteProtocolError: if the entries do not fit into the remaining bytes.
        """
        count = self.i32()
        if not 0 <= count * least_size <= self.end - self.position or count < 0:
            raise RemoteProtocolError(
                f'{count} entries are announced at byte {self.position - 4}, '
                f'{self.left} bytes are left')
        return count

    def block(self) -> 'Reader':
        """Decode a size, skip as many bytes, and return a reader of them."""
        size = self.i32()
        start = self.skip(size)
        return Reader(self.data, start, start + size, self.texts)

    def skip_section(self) -> None:
        """Skip a section that states its size."""
        count, size = _SECTION.unpack_from(self.data, self.skip(_SECTION.size))
        if count < 0:
            raise RemoteProtocolError(f'a negative count at byte {self.position - _SECTION.size}')
        self.skip(size)

    def text(self, most: int) -> str:
        """
        Decode a text up to its NUL.

        :param most: longest text (bytes), its NUL included.
        :raises RemoteProtocolError: if the text has no end or is longer.
        """
        start = self.position
        found = self.data.find(0, start, self.end)
        if found < 0:
            raise RemoteProtocolError(f'the text at byte {start} does not end')
        self.position = found + 1
        if self.position - start > most:
            raise RemoteProtocolError(
                f'the name at byte {start} has {found - start} bytes; '
                f'at most {most - 1} are accepted')
        if self.texts is not None:
            self.texts.append((start, found))
        return decoded_text(self.data[start:found])


class Layout:
    """
    A layout; this one is of no bytes and has a constant value.

    :ivar least: minimum size (bytes).
    """

    def __init__(self, value: Value = None, least: int = 0) -> None:
        self.value = value
        self.least = least

    def read(self, reader: Reader, version: Version) -> Value:
        """
        Decode a value.

        :raises RemoteProtocolError: if the bytes contradict the layout.
        """
        return self.value

    def write(self, value: Value, version: Version) -> bytes:
        """
        Encode a value.

        :raises LocalProtocolError: if the layout cannot hold it.
        """
        return b''


class Numbers(Layout):
    """Numbers; values of floats that are not finite become 0, since NaN never equals NaN."""

    def __init__(self, code: str) -> None:
        self.struct = struct.Struct('<' + code)
        super().__init__(least=self.struct.size)

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode the numbers."""
        values = self.struct.unpack_from(reader.data, reader.skip(self.least))
        return tuple(value if math.isfinite(value) else 0.0 for value in values)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode the numbers."""
        return self.struct.pack(*value)


class Number(Numbers):
    """One number."""

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode the number."""
        return super().read(reader, version)[0]

    def write(self, value: Value, version: Version) -> bytes:
        """Encode the number."""
        return self.struct.pack(value)


class Text(Layout):
    """
    A text that ends with NUL.

    :param most: longest accepted text (bytes), its NUL included; written ones are names.
    """

    def __init__(self, most: int = MAX_NAME) -> None:
        super().__init__(least=1)
        self.most = most

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode the text."""
        return reader.text(self.most)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode the text."""
        data: bytes = value.encode('utf-8', 'surrogateescape')
        if len(data) >= MAX_NAME:
            raise LocalProtocolError(
                f'the name {value!r:.40} has {len(data)} bytes; at most {MAX_NAME - 1} are '
                'allowed')
        return data + b'\0'


class Since(Layout):
    """A layout from a version on, and another one before; without that, a constant."""

    def __init__(self, since: Version, new: Layout, old: Value) -> None:
        self.since = since
        self.new = new
        self.old: Layout = old if isinstance(old, Layout) else Layout(old)
        super().__init__(least=min(new.least, self.old.least))

    def at(self, version: Version) -> Layout:
        """Return the layout of a version."""
        return self.new if version >= self.since else self.old

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode a value."""
        return self.at(version).read(reader, version)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode a value."""
        return self.at(version).write(value, version)


class Many(Layout):
    """
    A count and as many entries of one layout.

    :param kind: makes the result of all entries.
    """

    def __init__(
        self, entry: Layout, kind: Callable[[Iterable[Value]], Value] = tuple,
    ) -> None:
        super().__init__(least=4)
        self.entry = entry
        self.kind = kind

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode count and entries."""
        return self.entries(reader, version, reader.count(self.entry.least))

    def skip(self, reader: Reader, version: Version) -> None:
        """Skip count and entries."""
        self.read(reader, version)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode count and entries."""
        return _I32.pack(len(value)) + self.packed(value, version)

    def entries(self, reader: Reader, version: Version, count: int) -> Value:
        """Decode entries."""
        return self.kind([self.entry.read(reader, version) for _ in range(count)])

    def packed(self, value: Value, version: Version) -> bytes:
        """Encode the entries."""
        return b''.join([self.entry.write(one, version) for one in value])

    def sized(self, reader: Reader, version: Version) -> Value:
        """Decode a section that states its size, as from 4.1 on."""
        count = reader.count(self.entry.least)
        block = reader.block()
        size = block.left
        if count * self.entry.least <= size:
            found = self.entries(block, version, count)
            if not block.left:
                return found
        raise _disagreeing(count, self.entry.least, size)


class Rows(Many):
    """
    A count and as many entries of numbers.

    :param make: makes an entry of its numbers; None for plain tuples.
    """

    def __init__(
        self, code: struct.Struct, make: Optional[Callable[[Value], Value]] = None,
        kind: Callable[[Iterable[Value]], Value] = tuple,
    ) -> None:
        super().__init__(Layout(least=code.size), kind)
        self.struct = code
        self.make = make
        self.width = len(code.unpack(bytes(code.size)))

    def entries(self, reader: Reader, version: Version, count: int) -> Value:
        """Decode entries."""
        start = reader.skip(count * self.struct.size)
        return self._made(self.struct.iter_unpack(reader.data[start:reader.position]))

    def _made(self, rows: Iterable[Value]) -> Value:
        return self.kind(rows if self.make is None else map(self.make, rows))

    def skip(self, reader: Reader, version: Version) -> None:
        """Skip count and entries."""
        reader.skip(self.struct.size * reader.count(self.struct.size))

    def packed(self, value: Value, version: Version) -> bytes:
        """Encode the entries, as far as the layout has fields."""
        if self.width == 1:
            return b''.join(map(self.struct.pack, value))
        return b''.join([self.struct.pack(*one[:self.width]) for one in value])

    def sized(self, reader: Reader, version: Version) -> Value:
        """Decode a section; later versions may append fields to each entry."""
        count, size = reader.i32(), reader.i32()
        start = reader.skip(size)
        if count * self.struct.size == size:
            return self._made(self.struct.iter_unpack(reader.data[start:start + size]))
        stride, rest = divmod(size, max(1, count))
        if version <= CERTAIN or count < 1 or rest or stride <= self.struct.size:
            raise _disagreeing(count, self.struct.size, size)
        return self._made([self.struct.unpack_from(reader.data, at)
                           for at in range(start, start + size, stride)])


class Packed(Layout):
    """A count and as many entries of numbers, kept as bytes."""

    def __init__(self, code: struct.Struct) -> None:
        super().__init__(least=4)
        self.size = code.size

    def read(self, reader: Reader, version: Version) -> Value:
        """Return the bytes of the entries."""
        size = reader.count(self.size) * self.size
        start = reader.skip(size)
        return reader.data[start:start + size]

    def write(self, value: Value, version: Version) -> bytes:
        """Encode count and entries."""
        return _I32.pack(len(value) // self.size) + bytes(value)


class Ignored(Layout):
    """A list that is read and forgotten; it is written without an entry."""

    def __init__(self, inner: Layout) -> None:
        super().__init__(least=inner.least)
        self.inner = inner

    def read(self, reader: Reader, version: Version) -> Value:
        """Skip the list."""
        self.inner.read(reader, version)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode an empty list."""
        return _ZERO


class Record(Layout):
    """
    Fields one after the other.

    :param make: makes the value of the fields that are not ignored.
    """

    def __init__(self, make: Callable[[Value], Value], *fields: Layout) -> None:
        super().__init__(least=sum(field.least for field in fields))
        self.make = make
        self.fields = fields

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode the fields."""
        found = []
        for field in self.fields:
            value = field.read(reader, version)
            if not isinstance(field, Ignored):
                found.append(value)
        return self.make(found)

    def write(self, value: Value, version: Version) -> bytes:
        """Encode the fields."""
        values = iter(value if isinstance(value, tuple) else (value,))
        return b''.join([
            field.write(None if isinstance(field, Ignored) else next(values), version)
            for field in self.fields])


class Columns(Layout):
    """A count, then as many values of each field: a tuple of tuples."""

    def __init__(self, *fields: Layout) -> None:
        super().__init__(least=4)
        self.fields = fields
        self.each = sum(field.least for field in fields)

    def read(self, reader: Reader, version: Version) -> Value:
        """Decode the columns."""
        count = reader.count(self.each)
        return tuple(zip(*[[field.read(reader, version) for _ in range(count)]
                           for field in self.fields]))

    def write(self, value: Value, version: Version) -> bytes:
        """Encode the columns."""
        return _I32.pack(len(value)) + b''.join([
            field.write(one, version)
            for field, column in zip(self.fields, zip(*value)) for one in column])
