# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Recordings on disks that are full, slow or hang."""

from contextlib import contextmanager
import os
import shutil
import subprocess
import threading
import time

from optitrack_vrpn.takes.bag_read_io import read_records
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter, recover
from optitrack_vrpn.takes.record.spool_io import Spool
import pytest
from recording_kit import add_topic, by_mcap, by_rosbags, message, topic
from transport_kit import wait_until

pytest.importorskip('mcap.reader', reason='an independent reader')
pytest.importorskip('rosbags', reason='an independent reader')


@contextmanager
def small_disk(folder, size='2m'):
    """Mount a tmpfs, where that is allowed."""
    folder.mkdir()
    run = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', folder],
                         capture_output=True)
    if run.returncode:
        pytest.skip('only root may mount a small disk')
    try:
        yield folder
    finally:
        subprocess.run(['umount', folder], check=True)


def recording(disk, **settings):
    """Record on a disk; give the writer and the spool."""
    writer = BagWriter(disk / 'take', 'none')
    add_topic(writer, topic('/a'))
    spool = Spool(writer, disk, **settings)
    spool.start()
    return writer, spool


def random_messages(count):
    return [message(number)._replace(data=os.urandom(1000)) for number in range(count)]


def test_a_nearly_full_disk_ends_the_recording_cleanly(tmp_path):
    with small_disk(tmp_path / 'disk', '4m') as disk:
        writer, spool = recording(disk, min_free=2_500_000)    # more than a chunk is open
        given = 0
        while not spool.status().stopped and given < 20_000:
            spool.put(random_messages(50))
            given += 50
            wait_until(lambda: not spool.status().waiting)
            time.sleep(0.005)
        assert 'nearly full' in spool.stop()
        kept = by_mcap(writer.path)
        assert len(kept) + spool.status().dropped == given
        assert len(by_rosbags(disk / 'take')[0]) == len(kept) > 300


def test_a_full_disk_leaves_a_whole_or_repairable_file(tmp_path):
    """Another program fills the disk between two looks."""
    with small_disk(tmp_path / 'disk', '5m') as disk:
        writer, spool = recording(disk, min_free=0)
        spool.put(random_messages(8000))
        wait_until(lambda: spool.status().stopped)
        assert 'No space left' in spool.stop()
        assert spool.status().messages > 500
        found = sum(isinstance(r, Message) for r in read_records(writer.path))
        assert found == spool.status().messages
        assert found + spool.status().dropped <= 8000
        # with room again it can be repaired, unless it was closed
        subprocess.run(['mount', '-o', 'remount,size=20m', disk], check=True)
        recover(disk / 'take')
        assert len(by_mcap(writer.path)) == found


def test_a_disk_that_is_full_for_a_chunk_or_the_index_leaves_a_repairable_file(tmp_path):
    """Nothing is written behind an incomplete write, and what was written before it is read."""
    for name, kept in (('chunk', 2), ('index', 3)):
        writer = BagWriter(tmp_path / name, 'none')
        add_topic(writer, topic('/a'))
        for number in range(3):
            writer.write(message(number), 1)
            if number == kept:
                break
            writer.flush()
        writer._file._file = Full(writer._file._file)
        with pytest.raises(OSError):
            writer.close()
        assert writer.messages == kept
        assert sum(isinstance(r, Message) for r in read_records(writer.path)) == kept
        assert recover(tmp_path / name)[1][::2] == (kept, '')
        assert len(by_mcap(writer.path)) == len(by_rosbags(tmp_path / name)[0]) == kept


class Full:
    """A file on a disk that becomes full within the next write."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._file.write(bytes(data)[:5])
        raise OSError(28, 'No space left on device')


def test_a_bug_in_the_notes_is_reported(tmp_path):
    def notes():
        raise RuntimeError('no notes')
    spool = Spool(BagWriter(tmp_path / 'take', 'none'), tmp_path, notes=notes)
    spool.start()
    assert 'no notes' in spool.stop()


@pytest.mark.parametrize('rename', [False, True])
@pytest.mark.parametrize('name', ['take', 'take.mcap'])
def test_a_removed_or_renamed_recording_ends_with_the_reason(tmp_path, name, rename):
    """Linux continues to write to a removed file, whose content is lost when it is closed."""
    made = tmp_path / name
    spool = Spool(BagWriter(made, 'none'), tmp_path)
    spool.start()
    if rename:
        made.rename(tmp_path / 'better')
    elif made.is_dir():
        shutil.rmtree(made)
    else:
        made.unlink()
    wait_until(lambda: spool.status().stopped)
    assert 'was removed' in spool.stop()
    if rename and (tmp_path / 'better').is_dir():
        recover(tmp_path / 'better')
        assert by_rosbags(tmp_path / 'better')[0] == []


class SlowWriter:
    """A disk that hangs until it is let go."""

    remedy = 'repair it with record --recover'

    def __init__(self):
        self.go_on = threading.Event()
        self.messages = self.size = 0
        self.notes = None

    def write(self, item, now_ns):
        self.go_on.wait(30.0)
        self.messages += 1

    def tick(self, now_ns):
        pass

    def sync(self):
        pass

    def close(self, notes=None):
        self.notes = notes


def test_a_slow_disk_holds_nothing_up_and_drops_are_counted(tmp_path):
    writer = SlowWriter()
    size = len(message(0).data) + 64    # that of its object
    spool = Spool(writer, tmp_path, max_waiting=1001 * size)
    spool.start()
    began = time.monotonic()
    for number in range(0, 5000, 8):
        spool.put([message(number + k) for k in range(8)])
    assert time.monotonic() - began < 5.0    # it would be 30 s otherwise
    status = spool.status()
    assert status.waiting <= 1008 * size    # the last batch fills the queue
    assert status.dropped >= 5000 - 1000 - 2000    # what a batch takes is on its way
    writer.go_on.set()
    assert 'messages dropped' in spool.stop()
    assert writer.messages + spool.status().dropped == 5000
    assert writer.notes['dropped'] == str(spool.status().dropped)


def test_a_message_larger_than_the_queue_is_recorded(tmp_path):
    writer = BagWriter(tmp_path / 'take', 'none')
    add_topic(writer, topic('/a'))
    spool = Spool(writer, tmp_path, max_waiting=1000)
    spool.put([message(0)])
    spool.put([message(1)._replace(data=bytes(5000))])
    spool.start()
    assert spool.stop() == ''
    assert len(by_mcap(writer.path)) == 2


def test_a_disk_that_hangs_at_the_end_is_given_up(tmp_path):
    writer = SlowWriter()
    spool = Spool(writer, tmp_path)
    spool.start()
    spool.put([message(0)])
    assert 'record --recover' in spool.stop(patience_s=0.1)
    writer.go_on.set()
