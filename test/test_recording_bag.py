# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bags read by independent readers, and bags after failures."""

import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes import mcap_format
from optitrack_vrpn.takes.bag_read_io import find_file, read_records
from optitrack_vrpn.takes.cdr import definition
from optitrack_vrpn.takes.mcap_format import Cut, End, Message
from optitrack_vrpn.takes.mcap_read_io import Damage
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic, recover
from optitrack_vrpn.takes.record.record_command import main as record
from optitrack_vrpn.takes.take_io import load_estimate, load_take
import pytest
from recording_kit import (
    add_topic, BEGIN_NS, by_mcap, by_rosbags, HASH, message, pose_cdr, topic, write_poses)

mcap = pytest.importorskip('mcap.reader', reason='an independent reader')
mcap_errors = pytest.importorskip('mcap.exceptions')
rosbags = pytest.importorskip('rosbags', reason='an independent reader')


def some_poses(count=500, period_ns=4_166_667):
    return [(f'/body_{i % 3}/pose', BEGIN_NS + i * period_ns, BEGIN_NS + i * period_ns - 5_000_000,
             (0.1 * i, -0.2, 1.5), (0.0, 0.6, 0.0, 0.8)) for i in range(count)]


def expected(poses):
    return [(name, log_ns, log_ns - 1000, pose_cdr(stamp_ns, position, quat))
            for name, log_ns, stamp_ns, position, quat in poses]


# -- independent readers --------------------------------------------------------------------------

@pytest.mark.parametrize('compression', ['none', 'zstd', 'lz4'])
def test_independent_readers_read_equal_bytes_and_times(tmp_path, compression):
    poses = some_poses()
    write_poses(tmp_path / 'take', poses, compression)
    assert by_mcap(tmp_path / 'take' / 'take.mcap') == expected(poses)
    messages, connections = by_rosbags(tmp_path / 'take')
    assert messages == [(name, log_ns, data) for name, log_ns, _, data in expected(poses)]
    assert {c.topic: c.msgcount for c in connections} == {
        '/body_0/pose': 167, '/body_1/pose': 167, '/body_2/pose': 166}


def test_players_decode_the_recorded_values(tmp_path):
    from rosbags.highlevel import AnyReader
    poses = some_poses(10)
    write_poses(tmp_path / 'take', poses)
    with AnyReader([tmp_path / 'take']) as reader:
        for (connection, _, data), row in zip(reader.messages(), poses):
            found = reader.deserialize(data, connection.msgtype)
            stamp, place, turn = found.header.stamp, found.pose.position, found.pose.orientation
            assert (stamp.sec * 10**9 + stamp.nanosec, (place.x, place.y, place.z),
                    (turn.x, turn.y, turn.z, turn.w)) == row[2:]


def test_checksums_and_index_satisfy_the_mcap_package(tmp_path):
    from mcap.reader import SeekingReader
    write_poses(tmp_path / 'take', some_poses(50_000), 'zstd', {'session': 'seven'})
    with open(tmp_path / 'take' / 'take.mcap', 'rb') as file:
        reader = SeekingReader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert summary.statistics.message_count == 50_000
        assert summary.statistics.chunk_count == len(summary.chunk_indexes) > 2
        found = list(reader.iter_messages(
            topics=['/body_1/pose'], starting_at=BEGIN_NS + 10**9,
            ending_before=BEGIN_NS + 2 * 10**9))
        assert len(found) == 80
        notes = {row.name: row.metadata for row in reader.iter_metadata()}
        assert notes['optitrack_vrpn'] == {'session': 'seven'}


def test_qos_and_type_hash_are_kept_for_players(tmp_path):
    writer = BagWriter(tmp_path / 'take')
    add_topic(writer, topic('/tf_static', durability='transient_local'))
    writer.close()
    _, (connection,) = by_rosbags(tmp_path / 'take')
    assert connection.digest == HASH
    (qos,) = connection.ext.offered_qos_profiles
    assert qos.durability.name == 'TRANSIENT_LOCAL'
    assert qos.reliability.name == 'RELIABLE'
    assert qos.deadline.sec == 9223372036


def test_a_recording_without_a_message_is_a_valid_bag(tmp_path):
    writer = BagWriter(tmp_path / 'take')
    add_topic(writer, topic('/wand/pose'))
    writer.close()
    assert by_mcap(tmp_path / 'take' / 'take.mcap') == []
    assert by_rosbags(tmp_path / 'take')[0] == []
    BagWriter(tmp_path / 'nothing').close()
    assert by_mcap(tmp_path / 'nothing' / 'nothing.mcap') == []


def test_only_recording_needs_the_mcap_package(tmp_path):
    """It has no rosdep key; reports and exports work without it."""
    write_poses(tmp_path / 'take', some_poses(30))
    root = Path(__file__).resolve().parent.parent
    run = subprocess.run([sys.executable, '-c', """
import sys
from pathlib import Path
sys.modules['mcap.writer'] = sys.modules['mcap'] = None
from optitrack_vrpn.takes.take_io import load_take
print(sum(load_take(Path(sys.argv[1])).topics.values()))
from optitrack_vrpn.takes.record.bag_io import BagWriter
BagWriter(Path('new'))
""", str(tmp_path / 'take')], capture_output=True, text=True, cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(root)))
    assert run.stdout == '30\n'
    assert 'BackendUnavailableError' in run.stderr and 'pip install "mcap>=1.6"' in run.stderr
    assert not (tmp_path / 'new').exists()


def test_a_definition_from_fields_equals_that_of_the_msg_files():
    fields = {
        'a/msg/Outer': {'many': 'sequence<b/Inner>', 'few': 'sequence<double, 5>',
                        'fixed': 'double[36]', 'raw': 'octet', 'on': 'boolean',
                        'text': 'string<10>', 'names': 'sequence<string>'},
        'b/msg/Inner': {'x': 'float', 'again': 'c/Leaf'}, 'c/msg/Leaf': {'n': 'uint8'}}
    assert definition('a/msg/Outer', fields.__getitem__) == (
        'b/Inner[] many\nfloat64[<=5] few\nfloat64[36] fixed\nbyte raw\nbool on\n'
        'string<=10 text\nstring[] names\n' + '=' * 80 + '\nMSG: b/Inner\nfloat32 x\n'
        'c/Leaf again\n' + '=' * 80 + '\nMSG: c/Leaf\nuint8 n\n')


# -- killed, cut off, broken ----------------------------------------------------------------------


RECORDER = """
import sys, time
from pathlib import Path
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.record.spool_io import Spool
from optitrack_vrpn.takes.mcap_format import Message
from recording_kit import add_topic, pose_cdr, topic
writer = BagWriter(Path(sys.argv[1]))
channel = add_topic(writer, topic('/wand/pose'))
spool = Spool(writer, Path(sys.argv[1]))
spool.start()
while True:
    now = time.time_ns()
    spool.put([Message(channel, 0, now, now, pose_cdr(now, (0, 0, 0), (0, 0, 0, 1)))])
    print(now, flush=True)
    time.sleep(0.004)
"""


def test_a_killed_recorder_loses_less_than_a_second(tmp_path):
    root = Path(__file__).resolve().parent
    process = subprocess.Popen(
        [sys.executable, '-c', RECORDER, str(tmp_path / 'take')], stdout=subprocess.PIPE,
        text=True, env=dict(os.environ, PYTHONPATH=f'{root}:{root.parent}'))
    given_ns = []
    for line in process.stdout:
        given_ns.append(int(line))
        if given_ns[-1] - given_ns[0] > 2.5e9:
            process.send_signal(signal.SIGKILL)
            break
    given_ns += [int(line) for line in process.stdout.read().split()]
    process.wait()
    path, (count, reason, lost) = recover(tmp_path / 'take')
    assert not lost
    assert 'not closed' in reason
    kept_ns = [log_ns for _, log_ns, *_ in by_mcap(path)]
    assert kept_ns == given_ns[:count]
    assert given_ns[-1] - kept_ns[-1] < 1e9
    assert len(by_rosbags(tmp_path / 'take')[0]) == count
    assert path.with_suffix('.mcap.broken').is_file()
    assert recover(tmp_path / 'take') == (path, (0, '', ''))


@given(st.data())
@settings(max_examples=int(os.environ.get('DAMAGED_FILES', '60')), deadline=None)
def test_a_damaged_file_gives_the_rest_or_says_so(tmp_path_factory, data):
    """No loss is silent, whatever is cut off or changed."""
    folder = tmp_path_factory.mktemp('cut')
    poses = some_poses(400, 10_000_000)
    writer = write_poses(folder / 'take', poses, data.draw(st.sampled_from(['none', 'zstd'])))
    whole = writer.path.read_bytes()
    cut = data.draw(st.integers(len(mcap_format.MAGIC), len(whole)))
    broken = bytearray(whole[:cut])
    for _ in range(data.draw(st.integers(0, 4)) if cut > 100 else 0):
        broken[data.draw(st.integers(60, cut - 1))] ^= data.draw(st.integers(1, 255))
    writer.path.write_bytes(bytes(broken))
    rows = list(read_records(writer.path))
    assert isinstance(rows[-1], (Cut, End))
    found = [(r.log_time_ns, r.data) for r in rows if isinstance(r, Message)]
    wanted = [(log_ns, data) for _, log_ns, _, data in expected(poses)]
    left = iter(wanted)
    assert all(row in left for row in found)    # in order
    assert found == wanted or any(isinstance(r, (Cut, Damage)) for r in rows)


@pytest.mark.parametrize('place, code', [(0.5, 1), (0.0, 0)])
def test_a_repair_that_loses_messages_fails(tmp_path, capfd, place, code):
    poses = some_poses(60_000)
    writer = write_poses(tmp_path / 'take', poses, 'none', close=False)
    writer.flush()
    whole = writer.path.read_bytes()
    (tmp_path / 'cut.mcap').write_bytes(
        whole[:round(place * len(whole))] + bytes(200) + whole[round(place * len(whole)) + 200:]
        if place else whole)
    assert record(['--recover', str(tmp_path / 'cut.mcap')]) == code
    assert ('not saved' in capfd.readouterr().err) == bool(code)
    assert (len(by_mcap(tmp_path / 'cut.mcap')) == len(poses)) == (not code)
    assert len(by_mcap(tmp_path / 'cut.mcap')) > len(poses) // 2


@pytest.mark.parametrize('cut, filled', [(1, 0), (8, 0), (100, 0), (0, 4096), (20, 4096)])
def test_a_file_cut_in_its_index_is_repaired_without_loss(tmp_path, cut, filled):
    """The messages are complete, but the ``mcap`` package and players cannot open the file."""
    writer = write_poses(tmp_path / 'take', [
        ('/drone/pose', BEGIN_NS + i, BEGIN_NS + i, (i, 0, 0), (0, 0, 0, 1)) for i in range(50)])
    whole, content = by_mcap(writer.path), writer.path.read_bytes()
    writer.path.write_bytes(content[:len(content) - cut] + b'\0' * filled)
    with pytest.raises(mcap_errors.McapError):
        by_mcap(writer.path)
    assert recover(tmp_path / 'take')[1].messages == 50
    assert by_mcap(writer.path) == whole


def test_what_a_cut_recording_counted_is_reported_and_kept_by_its_repair(tmp_path):
    writer = write_poses(tmp_path / 'take', some_poses(60_000))
    content = writer.path.read_bytes()
    writer.path.write_bytes(content[:len(content) // 2])
    repair = recover(tmp_path / 'take')[1]
    assert 0 < repair.messages < 60_000
    told = f'{60_000 - repair.messages} of the 60000 messages that its metadata.yaml counted'
    assert told in repair.lost
    assert told in ' '.join((tmp_path / 'take' / 'metadata.yaml').read_text().split())


def test_a_recording_in_progress_is_not_repaired(tmp_path):
    writer = write_poses(tmp_path / 'take', some_poses(3), close=False)
    writer.flush()
    with pytest.raises(ConfigurationError, match='is being recorded'):
        recover(tmp_path / 'take')
    writer.close()
    assert recover(tmp_path / 'take') == (writer.path, (0, '', ''))


def test_a_bag_of_ros2_bag_keeps_the_language_of_its_definitions(tmp_path):
    """rosbag2 stores the IDL of types that have no .msg file."""
    writer = BagWriter(tmp_path / 'take')
    writer.write(NewTopic(7, topic('/a'), 'module std_msgs { };', 'ros2idl'), 1)
    writer.write(message(0, channel=7), 1)
    writer.flush()
    (tmp_path / 'cut.mcap').write_bytes(writer.path.read_bytes())    # without an index
    path, (count, _, _) = recover(tmp_path / 'cut.mcap')
    with open(path, 'rb') as file:
        (schema,) = mcap.make_reader(file).get_summary().schemas.values()
    assert (count, schema.encoding, schema.data) == (1, 'ros2idl', b'module std_msgs { };')


def test_a_read_only_disk_prevents_a_repair(tmp_path, monkeypatch):
    write_poses(tmp_path / 'take', some_poses(3), close=False).flush()

    def read_only(*args, **kwargs):
        raise OSError(30, 'Read-only file system')
    monkeypatch.setattr(tempfile, 'mkdtemp', read_only)
    with pytest.raises(ConfigurationError, match='Read-only'):
        recover(tmp_path / 'take')


@pytest.mark.parametrize('names, said', [
    (['a.db3'], 'ros2 bag convert'), (['a.mcap', 'b.mcap'], '2 .mcap files'),
    (['a.txt'], 'no .mcap file')])
def test_a_folder_without_the_one_file_is_refused(tmp_path, names, said):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=said):
        find_file(tmp_path, '.mcap')
    if names == ['a.db3']:
        with pytest.raises(ConfigurationError, match=said):
            find_file(tmp_path / 'a.db3', '.mcap')


@pytest.mark.parametrize('place', ['chunk', 'copy'])
def test_damage_of_one_place_costs_no_names_and_types(tmp_path, place):
    """A killed recorder leaves no index, and the first messages have their topics beside them."""
    poses = some_poses(3000)
    writer = write_poses(tmp_path / 'take', poses[:1000], close=False)
    writer.flush()
    first = writer.size
    for number, (_, log_ns, stamp_ns, *pose) in enumerate(poses[1000:]):
        writer.write(Message(number % 3 + 1, number, log_ns, log_ns, pose_cdr(stamp_ns, *pose)), 1)
        if number % 500 == 499:
            writer.flush()
    data = bytearray(writer.path.read_bytes())
    where = data.index(b'/body_1/pose', first if place == 'copy' else 0)
    data[where:where + 4] = b'\xff' * 4
    (tmp_path / 'bad.mcap').write_bytes(data)
    rows = list(read_records(tmp_path / 'bad.mcap'))
    named = {row.id: row.topic for row in rows if isinstance(row, mcap_format.Channel)}
    kept = [row for row in rows if isinstance(row, Message) and row.channel_id in named]
    assert len(kept) >= 2000 - 500 * (place == 'copy')
    if place == 'chunk':
        assert [row.messages for row in rows if isinstance(row, Damage)] == [1000]
        assert set(named.values()) == {'/body_0/pose', '/body_1/pose', '/body_2/pose'}


def test_a_missing_part_of_a_split_bag_is_told_with_its_messages(tmp_path, capsys):
    folder = split_bag(tmp_path, parts=3)
    assert load_take(folder).missing == 0
    (folder / 'part_1.mcap').unlink()
    take = load_take(folder)
    assert take.missing == 100 and 'part_1.mcap' in take.damaged[0][0]
    before = (folder / 'metadata.yaml').read_bytes()
    assert load_take(folder / 'part_0.mcap').missing == 0    # one part was asked for
    assert record(['--recover', str(folder / 'part_0.mcap')]) == 0
    (folder / 'part_0.mcap').write_bytes((folder / 'part_0.mcap').read_bytes()[:-100])
    assert record(['--recover', str(folder / 'part_0.mcap')]) == 0    # it has lost its index
    (folder / 'part_2.mcap').unlink()
    assert record(['--recover', str(folder)]) == 1
    assert 'part_1.mcap, part_2.mcap' in capsys.readouterr().err
    assert (folder / 'metadata.yaml').read_bytes() == before


def split_bag(folder, parts):
    """Make a bag of files with 100 messages each, as rosbag2 splits one."""
    import yaml
    (folder / 'bag').mkdir()
    rows = []
    for part in range(parts):
        writer = write_poses(folder / f'part_{part}', some_poses(100))
        writer.path.rename(folder / 'bag' / writer.path.name)
        rows.append({'path': writer.path.name, 'message_count': 100})
    (folder / 'bag' / 'metadata.yaml').write_text(yaml.safe_dump({'rosbag2_bagfile_information': {
        'relative_file_paths': [row['path'] for row in rows], 'message_count': 100 * parts,
        'files': rows}}))
    return folder / 'bag'


@pytest.mark.parametrize('content, said', [
    (b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n', 'git lfs pull'),
    (b'\n<!DOCTYPE html>\n<html lang="en"><head>', 'page of the web'),
    (b'<HTML>\n', 'page of the web'), (b'PK\3\4\x14\0', 'ZIP'), (b'\x1f\x8b\x08', 'gunzip'),
    ('\ufeffFormat Version,1.23'.encode('utf-16-le'), 'UTF-16')])
@pytest.mark.parametrize('name', ['a.mcap', 'a.db3', 'a.csv'])
def test_what_is_in_the_place_of_a_recording_is_named(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    for read in (load_take, load_estimate):
        with pytest.raises(ConfigurationError, match=said):
            read(path)
    if name != 'a.csv':
        with pytest.raises(ConfigurationError, match=said):
            load_take(tmp_path)
    path.write_bytes(b'')
    with pytest.raises(ConfigurationError, match='is empty'):
        load_take(path)


def test_messages_across_a_clock_step_back_stay_readable(tmp_path):
    poses = [(name, log_ns if i < 250 else log_ns - 10**10, *rest)
             for i, (name, log_ns, *rest) in enumerate(some_poses())]
    write_poses(tmp_path / 'take', poses)
    assert by_mcap(tmp_path / 'take' / 'take.mcap') == sorted(
        expected(poses), key=lambda row: row[1])
    messages, _ = by_rosbags(tmp_path / 'take')
    assert len(messages) == 500
