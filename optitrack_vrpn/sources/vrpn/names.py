# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of names and their numbers in the protocol; each side of a connection has its own."""

from optitrack_vrpn.errors import LocalProtocolError
from optitrack_vrpn.sources.vrpn.codec import encode_name
from optitrack_vrpn.sources.vrpn.constants import CONNECTION_TYPES, CONTROL_SENDER, MAX_IDS


class LocalNames:
    """
    This side's senders and types, numbered in the order of their registration.

    A server shares one table between its connections. Sender 0 and the types 0 to 3 belong to
    the library, as every peer expects.
    """

    def __init__(self) -> None:
        self.senders: dict[str, int] = {CONTROL_SENDER: 0}
        self.types: dict[str, int] = {name: i for i, name in enumerate(CONNECTION_TYPES)}

    def sender_id(self, name: str) -> int:
        """
        Return the number of a sender; register a new sender.

        :raises LocalProtocolError: if the name does not fit the wire or the table is full.
        """
        return self._register(self.senders, name)

    def type_id(self, name: str) -> int:
        """
        Return the number of a message type; register a new type.

        :raises LocalProtocolError: if the name does not fit the wire or the table is full.
        """
        return self._register(self.types, name)

    @staticmethod
    def _register(table: dict[str, int], name: str) -> int:
        number = table.get(name)
        if number is None:
            encode_name(name)
            if len(table) >= MAX_IDS:
                raise LocalProtocolError(f'a VRPN server has at most {MAX_IDS} names')
            number = table[name] = len(table)
        return number


class RemoteNames:
    """
    The peer's senders and types by their numbers, with the limits of the library's tables.

    :ivar refused: number of descriptions refused because their number is out of range.
    """

    def __init__(self) -> None:
        self.senders: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.refused = 0

    def describe_sender(self, number: int, name: str) -> bool:
        """Store a sender; return False if it was known already or is out of range."""
        return self._describe(self.senders, number, name)

    def describe_type(self, number: int, name: str) -> bool:
        """Store a type; return False if it was known already or is out of range."""
        return self._describe(self.types, number, name)

    def _describe(self, table: dict[int, str], number: int, name: str) -> bool:
        if not 0 <= number < MAX_IDS:
            self.refused += 1
            return False
        if table.get(number) == name:
            return False
        table[number] = name
        return True
