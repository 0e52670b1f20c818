# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bags of other writers: sqlite3, split, compressed, without chunks or index, odd definitions."""

import contextlib
import os
from pathlib import Path
import random
import sqlite3
import struct
import sys

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.cdr import decode, parse_definition
from optitrack_vrpn.takes.evaluate.evaluation import absolute_error, associate
from optitrack_vrpn.takes.take_io import load_take
import pytest
from recording_kit import (
    BEGIN_NS, cdr, definition_of, header, make, POSE, pose_cdr, POSE_TEXT, typestore, write_poses)

pytest.importorskip('rosbags', reason='an independent writer')
mcap_writer = pytest.importorskip('mcap.writer', reason='an independent writer')
COUNT, PERIOD_NS = 500, 4_166_667


def value(number):
    """Give position and quaternion of a pose; the norm is not exactly 1."""
    return (0.001 * number, -0.2, 1.5 + 1e-9 * number), (0.0, 0.6, 0.0, 0.8 + 1e-16 * number)


def messages(kind, name='wand', frame='optitrack'):
    """Give log time and bytes of messages, serialised by another program."""
    zero = make('geometry_msgs/Vector3', 0.0, 0.0, 0.0)
    for number in range(COUNT):
        stamp = BEGIN_NS + number * PERIOD_NS
        place, turn = value(number)
        pose = make('geometry_msgs/Pose', make('geometry_msgs/Point', *place),
                    make('geometry_msgs/Quaternion', *turn))
        if kind == 'nav_msgs/msg/Odometry':
            twist = make('geometry_msgs/TwistWithCovariance',
                         make('geometry_msgs/Twist', zero, zero), np.zeros(36))
            message = make('nav_msgs/Odometry', header(stamp, frame), name, make(
                'geometry_msgs/PoseWithCovariance', pose, np.ones(36)), twist)
        elif kind == 'tf2_msgs/msg/TFMessage':
            # another body with a longer name now and then, as publishers of frames do
            names = [name] if number % 7 else ['a_longer_name', name]
            message = make('tf2_msgs/TFMessage', [make(
                'geometry_msgs/TransformStamped', header(stamp, frame), each, make(
                    'geometry_msgs/Transform', make('geometry_msgs/Vector3', *place),
                    make('geometry_msgs/Quaternion', *turn))) for each in names])
        elif kind == 'geometry_msgs/msg/PoseWithCovarianceStamped':
            message = make('geometry_msgs/PoseWithCovarianceStamped', header(stamp, frame), make(
                'geometry_msgs/PoseWithCovariance', pose, np.ones(36)))
        else:
            message = make('geometry_msgs/PoseStamped', header(stamp, frame), pose)
        yield stamp + 3_000_000, cdr(message)


def by_rosbags(folder, topics, plugin='MCAP', **more):
    """Write a bag with rosbags; ``more`` are its compression mode and format."""
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
    writer = Writer(folder, version=9, storage_plugin=getattr(StoragePlugin, plugin))
    if more:
        writer.set_compression(getattr(CompressionMode, more['mode']), CompressionFormat.ZSTD)
    with writer:
        for topic, kind in topics.items():
            connection = writer.add_connection(topic, kind, typestore=typestore())
            for log_ns, data in messages(kind):
                writer.write(connection, log_ns, data)


def check(take, name='wand', count=COUNT):
    """Check that all poses were read, bit by bit."""
    assert (take.cut, take.damaged, take.unread, take.left_out) == ('', [], {}, {})
    table = take.bodies[name].table()
    numbers = range(COUNT - count, COUNT)
    np.testing.assert_array_equal(
        table['pose'], [[*place, *turn] for place, turn in map(value, numbers)])
    np.testing.assert_array_equal(
        table['stamp'], [BEGIN_NS + number * PERIOD_NS for number in numbers])
    np.testing.assert_array_equal(table['arrival'], table['stamp'] + 3_000_000)
    assert body_figures(take, take.bodies[name]).breaks.gaps_ns == []


@pytest.mark.parametrize('topic, kind', [
    ('/wand/pose', POSE), ('/wand/odom', 'nav_msgs/msg/Odometry'),
    ('/wand/pose_cov', 'geometry_msgs/msg/PoseWithCovarianceStamped'),
    ('/tf', 'tf2_msgs/msg/TFMessage')])
@pytest.mark.parametrize('plugin', ['MCAP', 'SQLITE3'])
def test_any_kind_of_pose_is_a_body_where_there_is_no_better(tmp_path, topic, kind, plugin):
    by_rosbags(tmp_path / 'bag', {topic: kind}, plugin)
    take = load_take(tmp_path / 'bag')
    check(take)
    assert take.topics == {topic: COUNT}


@pytest.mark.parametrize('plugin', ['MCAP', 'SQLITE3'])
@pytest.mark.parametrize('mode', ['FILE', 'MESSAGE', 'STORAGE'])
def test_compressed_bags_are_read(tmp_path, plugin, mode):
    pytest.importorskip('zstandard')
    if (plugin, mode) == ('SQLITE3', 'STORAGE'):
        pytest.skip('sqlite3 has no compression of its own')
    by_rosbags(tmp_path / 'bag', {'/wand/pose': POSE, '/wand/odom': 'nav_msgs/msg/Odometry'},
               plugin, mode=mode)
    check(load_take(tmp_path / 'bag'))


def test_the_most_specific_source_of_a_body_is_taken(tmp_path):
    by_rosbags(tmp_path / 'bag', {
        '/tf': 'tf2_msgs/msg/TFMessage', '/wand/odom': 'nav_msgs/msg/Odometry',
        '/wand/pose': POSE, '/camera/odom': 'nav_msgs/msg/Odometry'})
    take = load_take(tmp_path / 'bag')
    check(take)
    assert list(take.bodies) == ['wand']
    assert '/camera/odom' in take.estimates
    assert len(load_take(tmp_path / 'bag', '/wand/odom').estimates['/wand/odom']) == COUNT
    assert len(load_take(tmp_path / 'bag', '/tf:wand').estimates['/tf:wand']) == COUNT


def test_the_odometry_of_px4_can_be_evaluated(tmp_path):
    """A bag with the types that px4_msgs installs: NED, FRD, microseconds, w x y z."""
    prefixes = os.environ.get('AMENT_PREFIX_PATH', sys.prefix).split(os.pathsep)
    texts = [each for prefix in prefixes
             for each in Path(prefix).glob('share/px4_msgs/msg/VehicleOdometry.msg')]
    if not texts:
        pytest.skip('px4_msgs is not installed')
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_types_from_msg
    kind, name = 'px4_msgs/msg/VehicleOdometry', '/fmu/out/vehicle_odometry'
    store = typestore()
    store.register(get_types_from_msg(texts[0].read_text(), kind))
    times, none = 0.01 * np.arange(COUNT), np.zeros(3, np.float32)
    path = np.column_stack((np.cos(times), np.sin(times), 1.0 + 0.1 * np.sin(3.0 * times)))
    with Writer(tmp_path / 'bag', version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        px4 = writer.add_connection(name, kind, typestore=store)
        mocap = writer.add_connection('/drone/pose', POSE, typestore=store)
        for number, (east, north, up) in enumerate(path):
            stamp = BEGIN_NS + number * 10_000_000
            turn = np.array((np.cos(times[number] / 2), 0, 0, np.sin(times[number] / 2)), 'f4')
            writer.write(px4, stamp + 5_000_000, cdr(store.types[kind](
                stamp // 1000 + 3000, stamp // 1000, 1, np.array((north, east, -up), 'f4'), turn,
                1, none, none, none, none, none, 0, 100)))
            writer.write(mocap, stamp + 1_000_000, pose_cdr(
                stamp, (east, north, up), (0.0, 0.0, -turn[3], turn[0])))
    take = load_take(tmp_path / 'bag', name)
    assert list(take.bodies) == ['drone'] and take.unread == {}
    found = take.estimates[name]
    np.testing.assert_array_equal(found.stamps_ns, take.bodies['drone'].trajectory.stamps_ns)
    np.testing.assert_array_equal(
        found.positions, (path[:, [1, 0, 2]] * (1, 1, -1)).astype('f4'))
    assert absolute_error(
        *associate(take.bodies['drone'].trajectory, found)).translation.max < 1e-6
    assert name not in load_take(tmp_path / 'bag').estimates    # NED is no body


def by_mcap(path, definition=POSE_TEXT, rows=None, **options):
    """Write an MCAP file with the mcap package."""
    with open(path, 'wb') as file:
        writer = mcap_writer.Writer(file, **options)
        writer.start('ros2', 'other')
        schema = writer.register_schema(POSE, 'ros2msg', definition.encode())
        channel = writer.register_channel('/wand/pose', 'cdr', schema)
        for log_ns, data in rows or messages(POSE):
            writer.add_message(channel, log_ns, data, log_ns)
        writer.finish()


@pytest.mark.parametrize('options', [
    {'use_chunking': False}, {'index_types': mcap_writer.IndexType.NONE},
    {'chunk_size': 2000}, {'enable_crcs': False},
    {'compression': mcap_writer.CompressionType.LZ4}])
def test_files_without_chunks_index_or_checksum_are_read(tmp_path, options):
    by_mcap(tmp_path / 'a.mcap', **options)
    check(load_take(tmp_path / 'a.mcap'))


def test_a_wrong_index_is_noticed(tmp_path):
    by_mcap(tmp_path / 'a.mcap', compression=mcap_writer.CompressionType.NONE)
    data = bytearray((tmp_path / 'a.mcap').read_bytes())
    at = data.rindex(b'\x07', 0, data.index(b'\x0f' + struct.pack('<Q', 4)))
    for place in range(at + 15 + 8, at + 15 + 8 + 16 * 40, 16):    # offsets of messages
        data[place] ^= 0x0f
    (tmp_path / 'a.mcap').write_bytes(data)
    check(load_take(tmp_path / 'a.mcap'))


def test_split_bags_are_read_in_their_order(tmp_path):
    rows = list(messages(POSE))
    for number in range(11):
        by_mcap(tmp_path / f'bag_{number}.mcap', rows=rows[50 * number:50 * number + 50] or [
            rows[-1]])
    (tmp_path / 'bag_10.mcap').unlink()
    check(load_take(tmp_path))


def test_fields_are_found_in_any_order_of_the_definition(tmp_path):
    text = ('# the pose first\nuint8 KIND=3\nint16[] more\ngeometry_msgs/Pose pose\n'
            'string[<=4] names\nHeader header  # last\n'
            + POSE_TEXT[POSE_TEXT.index('='):].replace(
                'string frame_id', 'string frame_id "map"'))
    rows = []
    for log_ns, data in messages(POSE):
        order, frame = '>', b'optitrack\0'
        stamp = struct.unpack_from('<iI', data, 4)
        values = struct.unpack_from('<7d', data, 28)
        body = struct.pack('>I2hI', 2, 5, 6, 0)[:8] + struct.pack('>7d', *values)
        body += struct.pack('>II', 1, 3) + b'ab\0\0' + struct.pack(
            f'{order}iII', *stamp, len(frame)) + frame
        rows.append((log_ns, b'\0\0\0\0' + body))
    by_mcap(tmp_path / 'a.mcap', text, rows)
    check(load_take(tmp_path / 'a.mcap'))


@pytest.mark.parametrize('text, begin', [
    ('wstring first\n' + POSE_TEXT, b'\0\1\0\0'),
    (POSE_TEXT.replace('float64 x', 'float6'), b'\0\1\0\0'),
    (POSE_TEXT, b'\0\7\0\0')])    # the last is XCDR2
def test_what_is_not_understood_is_counted_and_not_guessed(tmp_path, text, begin):
    by_mcap(tmp_path / 'a.mcap', text, [(log_ns, begin + data[4:])
                                        for log_ns, data in messages(POSE)])
    take = load_take(tmp_path / 'a.mcap')
    assert not take.bodies and take.unread == {'/wand/pose': COUNT}


def test_messages_of_changing_length_and_frame_are_all_read(tmp_path):
    rows = []
    for number in range(COUNT):
        stamp = BEGIN_NS + number * PERIOD_NS
        rows.append((stamp + 3_000_000, pose_cdr(
            stamp, *value(number), 'map' + 'x' * (number % 11) + str(number % 3))))
    by_mcap(tmp_path / 'a.mcap', rows=rows)
    check(load_take(tmp_path / 'a.mcap'))


def test_a_damaged_chunk_costs_its_own_messages(tmp_path):
    by_mcap(tmp_path / 'a.mcap', chunk_size=5000, compression=mcap_writer.CompressionType.NONE)
    data = bytearray((tmp_path / 'a.mcap').read_bytes())
    data[data.index(list(messages(POSE))[COUNT // 2][1]) + 40] ^= 0xff
    (tmp_path / 'a.mcap').write_bytes(data)
    take = load_take(tmp_path / 'a.mcap')
    ((reason, (begin_ns, end_ns)),) = take.damaged
    assert 'checksum' in reason and BEGIN_NS < begin_ns < end_ns
    assert COUNT - 60 < len(take.bodies['wand'].rows) < COUNT


def test_what_an_unclosed_file_lacks_depends_on_its_writer(tmp_path):
    """Other recorders hold a chunk in memory until it is full, a minute of one body."""
    by_mcap(tmp_path / 'a.mcap', chunk_size=5000)
    whole = (tmp_path / 'a.mcap').read_bytes()
    (tmp_path / 'a.mcap').write_bytes(whole[:len(whole) // 2])
    assert 'up to minutes' in load_take(tmp_path / 'a.mcap').cut
    own = write_poses(tmp_path / 'own', [
        ('/wand/pose', BEGIN_NS + number, BEGIN_NS + number, *value(number))
        for number in range(50)], close=False)
    own.flush()
    assert 'up to a second' in load_take(own.path).cut


def test_a_damaged_chunk_with_damaged_times_is_shown_beside_its_neighbours(tmp_path):
    by_mcap(tmp_path / 'a.mcap', chunk_size=5000, compression=mcap_writer.CompressionType.NONE)
    data = bytearray((tmp_path / 'a.mcap').read_bytes())
    at = data.index(list(messages(POSE))[COUNT // 2][1])
    data[at + 40] ^= 0xff
    head = max(place for place in range(at) if data[place] == 6 and data[place + 1:place + 9] == (
        len(data[place + 9:place + 9 + int.from_bytes(data[place + 1:place + 9], 'little')])
    ).to_bytes(8, 'little') and data[place + 6:place + 9] == bytes(3) and data[place + 4] == 0)
    data[head + 9 + 7] ^= 0x70    # its first time: years away
    (tmp_path / 'a.mcap').write_bytes(data)
    ((_, (begin_ns, end_ns)),) = load_take(tmp_path / 'a.mcap').damaged
    assert BEGIN_NS <= begin_ns <= end_ns <= BEGIN_NS + 10**10


def writers(folder):
    """Write a bag by each writer; give its file, and whether checksums protect its values."""
    kinds = mcap_writer.CompressionType
    for name, options in (
            ('plain', {'chunk_size': 4000, 'compression': kinds.NONE}),
            ('lz4', {'chunk_size': 4000, 'compression': kinds.LZ4}),
            ('no_index', {'chunk_size': 4000, 'index_types': mcap_writer.IndexType.NONE}),
            ('no_crc', {'chunk_size': 4000, 'enable_crcs': False}),
            ('no_chunks', {'use_chunking': False})):
        (folder / name).mkdir()
        by_mcap(folder / name / 'a.mcap', **options)
        yield folder / name / 'a.mcap', not name.startswith('no_c')
    for plugin, mode in (('MCAP', ''), ('MCAP', 'STORAGE'), ('MCAP', 'FILE'), ('MCAP', 'MESSAGE'),
                         ('SQLITE3', ''), ('SQLITE3', 'FILE')):
        by_rosbags(folder / (plugin + mode), {'/wand/pose': POSE}, plugin,
                   **{'mode': mode} if mode else {})
        yield next(path for path in (folder / (plugin + mode)).iterdir()
                   if path.suffix != '.yaml'), False
    for compression in ('none', 'zstd'):
        yield write_poses(folder / compression, [
            ('/wand/pose', BEGIN_NS + number * PERIOD_NS, BEGIN_NS + number * PERIOD_NS,
             *value(number)) for number in range(COUNT)], compression).path, True


def damage(data, rng, lengths):
    """Change bytes at random: anywhere, and where MCAP has kinds and lengths of records."""
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(data)), rng.choice([1, 8, 300, 4096])
        kind = rng.choice(['flip', 'cut', 'zero', 'insert', 'repeat', 'remove', 'junk', 'head'])
        if kind == 'flip':
            data[at] ^= rng.randint(1, 255)
        elif kind == 'cut':
            del data[max(at, 100):]
        elif kind == 'head' and lengths:
            heads, at = [], 8
            while at + 9 < len(data):
                heads.append(at)
                at += 9 + int.from_bytes(data[at + 1:at + 9], 'little')
            data[rng.choice(heads) + rng.choice([0, 0, 1, 2])] = rng.randint(0, 255)
        else:
            data[at:at + size * (kind in ('zero', 'remove', 'junk'))] = {
                'zero': bytes(size), 'insert': rng.randbytes(size), 'remove': b'',
                'repeat': data[at:at + size]}.get(kind, rng.randbytes(size))


def test_no_damage_is_a_traceback_or_a_silent_loss(tmp_path):
    """A thousand files, more with the variable DAMAGED_FILES; the seeds are fixed."""
    pytest.importorskip('zstandard')
    whole = {BEGIN_NS + number * PERIOD_NS: [*place, *turn]
             for number in range(COUNT) for place, turn in [value(number)]}
    bags = list(writers(tmp_path))
    originals = [path.read_bytes() for path, _ in bags]
    for seed in range(int(os.environ.get('DAMAGED_FILES', '1000'))):
        rng = random.Random(seed)
        path, protected = bags[seed % len(bags)]
        data = bytearray(originals[seed % len(bags)])
        damage(data, rng, path.suffix == '.mcap')
        path.write_bytes(data)
        if rng.random() < 0.1:
            (path.parent / 'metadata.yaml').unlink(missing_ok=True)
        try:
            take = load_take(path.parent)
        except ConfigurationError:
            continue
        rows = [row for body in take.bodies.values() for row in body.table()]
        assert len(rows) >= COUNT or (
            take.cut or take.damaged or take.missing or take.unread or take.left_out), seed
        assert not protected or all(
            whole[int(row['stamp'])] == row['pose'].tolist() for row in rows), seed


def test_of_a_damaged_sqlite3_bag_all_rows_before_the_error_are_read(tmp_path):
    """As by a plain SELECT; those behind it are counted by metadata.yaml."""
    by_rosbags(tmp_path / 'bag', {'/wand/pose': POSE}, 'SQLITE3')
    (path,) = (tmp_path / 'bag').glob('*.db3')
    whole, partly = path.read_bytes(), 0
    for page in range(1, len(whole) // 4096):
        data = bytearray(whole)
        data[page * 4096:page * 4096 + 100] = b'\xff' * 100
        path.write_bytes(data)
        rows = 0
        try:
            with contextlib.closing(sqlite3.connect(path)) as base:
                for _ in base.execute('SELECT topic_id, timestamp, data FROM messages'):
                    rows += 1
        except sqlite3.Error:
            partly += 0 < rows < COUNT
        take = load_take(tmp_path / 'bag')
        read = sum(len(body.rows) for body in take.bodies.values())
        assert read + sum(take.unread.values()) == rows, page
        assert take.missing == COUNT - rows and (read == COUNT or take.cut or take.unread), page
    assert partly > 5


def test_the_decoder_finds_what_another_serialiser_wrote():
    kind = 'diagnostic_msgs/msg/DiagnosticArray'
    status = [make('diagnostic_msgs/DiagnosticStatus', 2, f'n{i}', 'text', '', [
        make('diagnostic_msgs/KeyValue', 'key', 'v' * i)] * i) for i in range(3)]
    message = make('diagnostic_msgs/DiagnosticArray', header(BEGIN_NS), status)
    for text in (definition_of(kind), ''):    # Humble's sqlite3 has no definitions
        found = decode(cdr(message), parse_definition(kind, text), kind)
        assert [[pair['value'] for pair in found['status'][i]['values'].values()]
                for i in range(3)] == [[], ['v'], ['vv', 'vv']]
        assert found['header']['stamp']['nanosec'] == BEGIN_NS % 10**9
