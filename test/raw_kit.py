# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Captures of the real library, and what was sent while they were made."""

import functools
from pathlib import Path
import tempfile

from optitrack_vrpn.drivers.frames import Body as PoseReport
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.record.raw_read_io import load_raw
from optitrack_vrpn.takes.record.raw_recorder_io import RawSink
import pcap
import sessions

_MADE = tempfile.TemporaryDirectory(prefix='raw_kit_')


def tap(path, remover=None):
    """Give a writer of a raw recording, and a sink that taps into it."""
    writer = BagWriter(Path(path))
    return writer, RawSink(lambda items: [writer.write(item, 1) for item in items], remover)


@functools.cache
def capture(name):
    """Make a raw recording of a capture in test/data."""
    path = Path(_MADE.name) / f'{name}.mcap'
    writer, sink = tap(path)
    pcap.convert(pcap.DATA / f'{name}.pcap', sink.tap)
    writer.close()
    return path


def load_sessions(path):
    return load_raw(path).sessions


def poses(events):
    return [(e.name, e.sender_time_ns, e.position, e.quat_xyzw) for e in events
            if isinstance(e, PoseReport)]


def sent(name):
    return [(row.body, row.sender_time_ns, row.vector, row.quat_xyzw)
            for row in sessions.sent(name, 'pose')]


def plain(samples):
    return [(s.channel.names.motive, s.stamp_ns, s.position, s.quat_xyzw) for s in samples]
