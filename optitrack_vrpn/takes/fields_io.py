# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read chosen numbers of all messages of some types in a bag, with their stamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes import mcap_format as mcap
from optitrack_vrpn.takes.bag_read_io import BAGS, find_files, inflate, read_batches
from optitrack_vrpn.takes.cdr import leaves, parse_definition, Types
from optitrack_vrpn.takes.columns import ColumnBatch, DATA_AT, gather

_STAMP = (('header', 'stamp', 'sec'), ('header', 'stamp', 'nanosec'))
_ZSTD = np.void(b'\x28\xb5\x2f\xfd')


class FieldRows(NamedTuple):
    """
    Numbers of one topic, in the order of the file.

    :ivar stamps_ns: (n,) from the headers.
    :ivar values: (n, fields) float64.
    :ivar frame_id: of the last message.
    """

    type_name: str
    stamps_ns: Any
    values: Any
    frame_id: str


def read_fields(
    path: Path, wanted: Mapping[str, Sequence[tuple[str, ...]]],
) -> dict[str, FieldRows]:
    """
    Read numbers.

    :param path: a bag's folder or file.
    :param wanted: by type, as in 'sensor_msgs/msg/Imu', the paths of numbers in its messages,
        which have a header and no text or sequence elsewhere.
    :returns: by topic.
    :raises ConfigurationError: if the bag cannot be read.
    """
    topics: dict[str, _Topic] = {}
    try:
        for file in find_files(path, *BAGS):
            schemas: dict[int, mcap.Schema] = {}
            channels: dict[int, _Topic] = {}
            for item in read_batches(file):
                if not isinstance(item, ColumnBatch):
                    continue
                for record in item.others:
                    if isinstance(record, mcap.Schema):
                        schemas[record.id] = record
                    elif isinstance(record, mcap.Channel):
                        schema = schemas.get(record.schema_id)
                        if schema is not None and schema.name in wanted:
                            channels[record.id] = topics.setdefault(
                                record.topic, _Topic(schema, wanted[schema.name]))
                _read(item, channels)
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None
    return {name: topic.rows() for name, topic in topics.items() if topic.count}


def _read(batch: ColumnBatch, channels: Mapping[int, _Topic]) -> None:
    numbers = batch.field(9, '<u2')
    for number, topic in channels.items():
        part = batch._replace(offsets=batch.offsets[numbers == number])
        if len(part.offsets) and (part.field(DATA_AT, 'V4') == _ZSTD).any():
            part = inflate(batch, part.offsets)
        topic.read(part)


class _Topic:
    """The messages of one topic; a layout holds for messages of one length."""

    def __init__(self, schema: mcap.Schema, paths: Sequence[tuple[str, ...]]) -> None:
        self._name, self._paths = schema.name, paths
        self._types: Types = parse_definition(
            schema.name, schema.definition.decode(errors='replace'), schema.encoding)
        self._parts: list[tuple[Any, Any]] = []
        self._frame_id, self.count = '', 0

    def read(self, batch: ColumnBatch) -> None:
        """Take messages; those that cannot be decoded are left out."""
        offsets = batch.offsets
        lengths = gather(batch.data, offsets + 1, '<u8').astype(np.int64) - 22
        for length in np.unique(lengths):
            chosen = offsets[lengths == length]
            first = batch.data[chosen[0] + DATA_AT:chosen[0] + DATA_AT + length].tobytes()
            try:
                found = {leaf.path: leaf for leaf in leaves(
                    first, self._types, self._name.replace('/msg/', '/'))}
                places = [found[path] for path in (*_STAMP, *self._paths)]
            except (ValueError, KeyError):
                continue
            columns = [gather(batch.data, chosen + (DATA_AT + leaf.at), leaf.code)
                       for leaf in places]
            stamps = columns[0].astype(np.int64) * NS_PER_S + columns[1].astype(np.int64)
            self._parts.append((stamps, np.stack(columns[2:], axis=1).astype(float)))
            self.count += len(stamps)
            text = found[('header', 'frame_id')]
            self._frame_id = first[text.at + 4:text.at + text.size].rstrip(b'\0').decode(
                errors='replace')

    def rows(self) -> FieldRows:
        """Return all rows."""
        stamps, values = (np.concatenate(column) for column in zip(*self._parts))
        return FieldRows(self._name, stamps, values, self._frame_id)
