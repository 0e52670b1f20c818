# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read fields from a peer's bytes, with all bounds checked."""

import struct
from typing import Any, Union

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.sources.natnet.constants import MAX_NAME

Buffer = Union[bytes, bytearray, memoryview]
_I32 = struct.Struct('<i')


class Reader:
    """
    A position in a payload.

    Counts are checked against the remaining bytes, so that no count makes this side allocate more
    memory than the datagram contained.

    :param data: the payload.
    :param position: first byte.
    :param end: end; by default the end of the data.
    """

    __slots__ = ('data', 'position', 'end')

    def __init__(self, data: Buffer, position: int = 0, end: int = -1) -> None:
        self.data = data if isinstance(data, bytes) else bytes(data)
        self.position = position
        self.end = len(self.data) if end < 0 else end

    @property
    def left(self) -> int:
        """Return the number of remaining bytes."""
        return self.end - self.position

    def skip(self, size: int) -> None:
        """
        Skip bytes.

        :raises RemoteProtocolError: if fewer bytes remain.
        """
        if not 0 <= size <= self.end - self.position:
            raise RemoteProtocolError(
                f'{size} bytes are announced at byte {self.position}, {self.left} are left')
        self.position += size

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """
        Decode fields.

        :raises RemoteProtocolError: if the payload ends before the last field.
        """
        position = self.position
        self.skip(layout.size)
        return layout.unpack_from(self.data, position)

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
        start = self.position
        self.skip(size)
        return Reader(self.data, start, start + size)

    def skip_text(self) -> None:
        """
        Skip a text and its NUL.

        :raises RemoteProtocolError: if the text has no end.
        """
        found = self.data.find(0, self.position, self.end)
        if found < 0:
            raise RemoteProtocolError(f'the text at byte {self.position} does not end')
        self.position = found + 1

    def text(self) -> str:
        """
        Decode a text up to its NUL; invalid UTF-8 is replaced.

        :raises RemoteProtocolError: if the text has no end or exceeds the longest name.
        """
        start = self.position
        self.skip_text()
        if self.position - start > MAX_NAME:
            raise RemoteProtocolError(
                f'the name at byte {start} has {self.position - start - 1} bytes; '
                f'at most {MAX_NAME - 1} are accepted')
        return self.data[start:self.position - 1].decode('utf-8', 'replace')
