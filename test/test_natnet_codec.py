# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
NatNet's bytes against the independent decoder ``natnet`` from PyPI.

Captures of real Motives cannot be part of this repository; docs/evidence/compatibility.md has what
became of them.
"""

import math
import struct

from conftest import examples, independent
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions, encode_definitions
from optitrack_vrpn.drivers.natnet.frames import decode_frame, decode_sections, encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    Analog, AssetDefinition, BODY, BodyDefinition, Definitions, MAX_PAYLOAD, MessageId, NatNetBody,
    NatNetFrame, NatNetMarker, NatNetSkeleton, PlateDefinition, ServerInfo, SkeletonDefinition)
import pytest

VERSIONS = [
    (2, 7), (2, 9), (2, 10), (2, 11), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4),
    (4, 5)]
EVERYTHING = frozenset({'markers', 'skeletons', 'plates', 'devices'})

f32 = st.floats(width=32, allow_nan=False)
bodies = st.builds(
    NatNetBody, st.integers(-2**31, 2**31 - 1), *[f32] * 8, st.integers(0, 2**15 - 1))
markers = st.builds(
    NatNetMarker, st.integers(0, 2**31 - 1), *[f32] * 4, st.integers(0, 2**15 - 1), f32)
u64 = st.integers(0, 2**63 - 1)
i32s = st.integers(-2**31, 2**31 - 1)
skeletons = st.lists(st.builds(
    NatNetSkeleton, i32s, st.lists(bodies, max_size=3).map(
        lambda found: b''.join(BODY.pack(*one) for one in found))), max_size=2).map(tuple)
analogs = st.lists(st.builds(
    Analog, i32s, st.lists(st.lists(f32, max_size=3).map(tuple), max_size=3).map(tuple)),
    max_size=2).map(tuple)
frames = st.builds(
    NatNetFrame, st.integers(0, 2**31 - 1), st.lists(bodies, max_size=5),
    st.lists(markers, max_size=5), f32, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1),
    st.floats(0.0, 1e9), u64, u64, u64, st.just(0), st.just(0), st.integers(0, 15),
    st.lists(st.tuples(f32, f32, f32), max_size=3).map(tuple), skeletons, skeletons, analogs,
    analogs)


def payload(message):
    return codec.decode_message(message)[1]


def as_sent(frame, version):
    """Leave out of a frame what that version does not carry."""
    frame = frame._replace(
        bodies=list(map(tuple, frame.bodies)),
        assets=frame.assets if version >= (4, 1) else (),
        plates=frame.plates if version >= (2, 9) else (),
        devices=frame.devices if version >= (2, 11) else ())
    if version >= (3, 0):
        return frame._replace(latency=math.nan)
    return frame._replace(
        exposure=0, received=0, transmit=0,
        markers=[marker._replace(residual=math.nan) for marker in frame.markers])


@settings(deadline=None, max_examples=25)
@given(frames, st.sampled_from(VERSIONS))
def test_a_frame_comes_back_as_it_was_sent(frame, version):
    found = decode_frame(payload(encode_frame(frame, version)), version, EVERYTHING)
    assert repr(found) == repr(as_sent(frame, version))


@settings(deadline=None, max_examples=300)
@given(frames, st.sampled_from(VERSIONS), st.integers(0, 1 << 16), st.integers(0, 255),
       st.integers(0, 60))
def test_one_pass_finds_what_the_layouts_of_the_sections_find(frame, version, place, value, cut):
    """Damaged bytes included: both ways accept the same frames."""
    def outcome(decode):
        try:
            return repr(decode(bytes(data), version, frozenset()))
        except RemoteProtocolError as error:
            return str(error)
    data = bytearray(payload(encode_frame(frame, version)))
    if value:
        data[place % len(data)] ^= value
    data = data[:len(data) - cut] if value % 2 else data
    assert outcome(decode_frame) == outcome(decode_sections)


@settings(deadline=None, max_examples=25)
@given(frames, st.sampled_from(VERSIONS))
def test_another_decoder_reads_the_same_frame(frame, version):
    natnet = independent('natnet')
    from natnet.data_frame import DataFrame
    from natnet.packet_buffer import PacketBuffer
    found = DataFrame.read_from_buffer(
        PacketBuffer(payload(encode_frame(frame, version))), natnet.Version(*version))
    assert found.prefix.frame_number == frame.number
    assert [(b.id_num, *b.pos, *b.rot, b.marker_error, b.tracking_valid)
            for b in found.rigid_bodies] == [
        (body.streaming_id % 2**32, *body[1:8], body.mean_error, bool(body.params & 1))
        for body in frame.bodies]    # it reads an id without its sign
    assert [(m.id_num, *m.pos) for m in found.labeled_markers] == [
        marker[:4] for marker in frame.markers]
    assert list(found.unlabeled_marker_pos) == list(frame.others)
    assert [[(b.id_num, *b.pos, *b.rot) for b in one.rigid_bodies] for one in found.skeletons] == [
        [(bone.streaming_id % 2**32, *bone[1:8]) for bone in one.bones()]
        for one in frame.skeletons]
    frame = as_sent(frame, version)
    for sent, read in ((frame.plates, found.force_plates), (frame.devices, found.devices)):
        assert [(one.id_num, *(tuple(channel) for channel in one.channel_arrays))
                for one in read or ()] == [
            (one.device_id % 2**32, *one.channels) for one in sent]
    suffix = found.suffix
    if version >= (3, 0):    # before that it does not know the latency
        assert suffix.timestamp == frame.timestamp
        assert (suffix.stamp_camera_mid_exposure, suffix.stamp_data_received,
                suffix.stamp_transmit) == (frame.exposure, frame.received, frame.transmit)
    if (3, 0) <= version < (4, 1):    # from there on it takes the PTP time for the parameters
        assert suffix.param == frame.params


def bone(name, number, parent, version):
    """Make a definition with what that version carries."""
    return BodyDefinition(
        name, number, parent, (0.0, 0.25, -0.5),
        (0.5, 0.5, 0.5, 0.5) if version >= (4, 2) else (0.0, 0.0, 0.0, 1.0),
        () if version < (3, 0) else (
            ((0.125, 0.0, 0.0), 7, 'Marker 1' if version >= (4, 0) else ''),) * 2)


def everything(version):
    """Describe one model of each type that a version knows."""
    bones = bone('Hip', 1, 0, version), bone('Ab', 2, 1, version)
    plate = PlateDefinition(
        3, 'FP-1', 0.5, 0.25, (0.0, 0.0, -0.125), tuple(map(float, range(144))),
        ((0.25, 0.0, 0.5), (0.25, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.5)), 2, 0,
        ('Fx', 'Fy', 'Fz', 'Mx', 'My', 'Mz'))
    device = (4, 'NI', 'sn', 1, 1, ('in 1',))
    return Definitions(
        (bone('Rigid Body 1', 1, -1, version), BodyDefinition('Würfel', 7)),
        ('Rigid Body 1', 'all'), (SkeletonDefinition('Bob', 2, bones),),
        (AssetDefinition('Box', 1, 9, bones, (
            ('m', 5, (1.0, 0.0, 0.0), 0.5, 10),)),) if version >= (4, 1) else (),
        (plate,) if version >= (2, 9) else (), (device,) if version >= (2, 11) else (),
        (('Cam', (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)),))


@pytest.mark.parametrize('version', VERSIONS)
def test_model_definitions_come_back_as_they_were_sent(version):
    sent = everything(version)
    assert decode_definitions(payload(encode_definitions(sent, version)), version) == sent


@pytest.mark.parametrize('version', VERSIONS)
def test_another_decoder_reads_the_same_model_definitions(version):
    natnet = independent('natnet')
    from natnet.data_descriptions import DataDescriptions
    from natnet.packet_buffer import PacketBuffer
    sent = everything(version)._replace(plates=())    # it reads three of the four corners
    packed = payload(encode_definitions(sent, version))
    found = DataDescriptions.read_from_buffer(PacketBuffer(packed), natnet.Version(*version))
    assert [(body.name, body.id_num) for body in found.rigid_bodies] == [
        ('Rigid Body 1', 1), ('Würfel', 7)]
    assert [one.name for one in found.marker_sets] == ['Rigid Body 1', 'all']
    if version < (3, 0):
        return    # it reads markers of bones, which these versions have not
    (skeleton,) = found.skeletons
    assert (skeleton.name, skeleton.id_num) == ('Bob', 2)
    assert [(one.name, one.id_num, one.parent_id, tuple(one.pos))
            for one in skeleton.rigid_body_descriptions] == [
        ('Hip', 1, 0, (0.0, 0.25, -0.5)), ('Ab', 2, 1, (0.0, 0.25, -0.5))]
    assert [(one.name, one.serial_number) for one in found.devices] == [('NI', 'sn')]
    assert [one.name for one in found.cameras] == ['Cam']


def test_a_name_that_is_not_utf_8_is_sent_as_it_was_given():
    """A shell passes such bytes of a command line as surrogates."""
    packed = payload(encode_definitions(Definitions((BodyDefinition('caf\udce9', 1),)), (4, 1)))
    assert b'caf\xe9\0' in packed
    assert decode_definitions(packed, (4, 1)).bodies == (BodyDefinition('caf\\xe9', 1),)


@pytest.mark.parametrize('names', [
    (b'\xb1\xe3\xcc\xa8', b'\xc9\xe3\xcf\xf1'), (b'Gr\xf6X', b'Gr\xfcX')])
def test_different_names_that_are_not_utf_8_stay_different(names):
    """GBK and Latin-1, as Motive on a Chinese or German Windows can send them."""
    plain = encode_definitions(Definitions((BodyDefinition('AAAA', 1), BodyDefinition('BBBB', 2))),
                               (4, 1))
    packed = payload(plain)
    for place, name in zip((b'AAAA', b'BBBB'), names):
        packed = packed.replace(place, name.ljust(4, b' '))
    found = decode_definitions(packed, (4, 1)).bodies
    assert found[0].name != found[1].name


UNKNOWN = struct.pack('<i', 9) + b'thing\0' + struct.pack('<2i', 1, 2)


@pytest.mark.parametrize('version', [(2, 9), (3, 0), (3, 1), (4, 0)])
def test_what_is_before_a_description_of_unknown_type_and_size_is_understood(version):
    rest = payload(encode_definitions(
        Definitions((BodyDefinition('a', 1), BodyDefinition('b', 2))), version))[4:]
    behind = decode_definitions(struct.pack('<i', 3) + rest + UNKNOWN, version)
    assert [body.name for body in behind.bodies] == ['a', 'b']
    assert (behind.unknown, behind.cut) == ((9,), 1)
    before = decode_definitions(struct.pack('<i', 3) + UNKNOWN + rest, version)
    assert (before.bodies, before.unknown, before.cut) == ((), (9,), 3)


def i32(*values):
    return struct.pack(f'<{len(values)}i', *values)


def filled_sections(version):
    """Write a frame in which every section has something, by the layout of docs/natnet.md."""
    def sized(count, data):
        return i32(count) + (i32(len(data)) if version >= (4, 1) else b'') + data
    floats = struct.pack('<3f', 1.0, 2.0, 3.0)
    new = version >= (3, 0)
    body = i32(5) + floats + struct.pack('<4f', 0.0, 0.0, 0.0, 1.0) + (
        b'' if new else i32(1) + floats + i32(1) + struct.pack('<f', 0.01)
    ) + struct.pack('<fh', 0.001, 1)
    bone = i32(0x10001) + body[4:]
    analog = i32(3, 2) + i32(1) + struct.pack('<f', 1.0) + i32(0)
    frame = i32(42)
    frame += sized(1, b'all\0' + i32(2) + floats * 2)
    frame += sized(3, floats * 3)
    frame += sized(1, body)
    frame += sized(1, i32(1, 2) + bone * 2)
    if version >= (4, 1):
        frame += sized(1, i32(9, 1) + bone + i32(1) + i32(1) + floats
                       + struct.pack('<fhf', 0.01, 0, 0.0))
    frame += sized(1, i32(0x50001) + floats + struct.pack('<fh', 0.01, 10)
                   + (struct.pack('<f', 0.0002) if new else b''))
    if version >= (2, 9):
        frame += sized(1, analog)
    if version >= (2, 11):
        frame += sized(1, analog)
    return frame


def suffix(version, params=1):
    if version >= (4, 1):
        return struct.pack('<IIdQQQIIhI', 0, 0, 1.5, 10, 20, 30, 1, 2**31, params, 0)
    if version >= (3, 0):
        return struct.pack('<IIdQQQhI', 0, 0, 1.5, 10, 20, 30, params, 0)
    return struct.pack('<fIIdhI', 0.005, 0, 0, 1.5, params, 0)


@pytest.mark.parametrize('version', VERSIONS)
@pytest.mark.parametrize('wanted', [False, True])
def test_sections_that_are_not_wanted_are_skipped(version, wanted):
    frame = decode_frame(
        filled_sections(version) + suffix(version), version, frozenset(['markers'] * wanted))
    assert frame.number == 42 and frame.timestamp == 1.5 and frame.params == 1
    assert [(body[0], body[1], body[7]) for body in frame.bodies] == [(5, 1.0, 1.0)]
    assert [marker.marker_id for marker in frame.markers] == [0x50001] * wanted
    if version >= (4, 1):
        assert (frame.ptp_seconds, frame.ptp_fraction) == (1, 2**31)
        assert (frame.exposure, frame.received, frame.transmit) == (10, 20, 30)


def test_later_sections_and_fields_are_skipped():
    version = (4, 5)
    head = filled_sections((4, 2))
    unknown = i32(2, 10) + b'0123456789'
    assert decode_frame(head + unknown + suffix(version), version) == decode_frame(
        head + suffix((4, 2)), (4, 2))._replace(latency=pytest.approx(math.nan, nan_ok=True))
    body = i32(5) + struct.pack('<3f4ffh', 1, 2, 3, 0, 0, 0, 1, 0.001, 1) + b'more'
    frame = i32(1) + i32(0, 0) * 2 + i32(2, 84) + body * 2 + i32(0, 0) * 5
    assert [one[1] for one in decode_frame(frame + suffix(version), version).bodies] == [1.0, 1.0]
    with pytest.raises(RemoteProtocolError, match='entries of 38 bytes'):
        decode_frame(frame + suffix(version), (4, 2))


@pytest.mark.parametrize('with_markers', [False, True])
def test_bones_with_or_without_markers_are_told_apart(with_markers):
    def body(name, markers):
        return name + b'\0' + i32(1, -1) + bytes(12) + (
            i32(2) + bytes(32) if markers else b'')
    # Before 4.0 rigid bodies have markers for certain, bones only for some decoders.
    data = i32(2, 2) + b'Skeleton\0' + i32(1, 2) + body(b'Hip', with_markers) * 2
    data += i32(1) + body(b'Wand', True)
    found = decode_definitions(data, (3, 0))
    assert [one.name for one in found.bodies] == ['Wand']


PLATE = (i32(3, 1) + b'FP-1\0' + bytes(4 * (2 + 3 + 144 + 12)) + i32(0, 0, 2) + b'Fx\0Fy\0')
DEVICE_AND_CAMERA = (i32(4, 2) + b'NI\0sn\0' + i32(0, 0, 1) + b'in 1\0',
                     i32(5) + b'Cam\0' + bytes(28))


@pytest.mark.parametrize('version', [(3, 0), (3, 1), (4, 0)])
@pytest.mark.parametrize('others', [[PLATE], DEVICE_AND_CAMERA], ids=['plate', 'device'])
def test_bodies_are_found_after_plates_devices_and_cameras(version, others):
    wand = i32(1) + b'Wand\0' + i32(7, -1) + bytes(12) + i32(0)
    data = i32(len(others) + 1) + b''.join(others) + wand
    assert decode_definitions(data, version).bodies == (BodyDefinition('Wand', 7),)
    if PLATE not in others:    # of the four corners of a plate, that decoder reads three
        natnet = independent('natnet')
        from natnet.data_descriptions import DataDescriptions
        from natnet.packet_buffer import PacketBuffer
        found = DataDescriptions.read_from_buffer(PacketBuffer(data), natnet.Version(*version))
        assert [(body.name, body.id_num) for body in found.rigid_bodies] == [('Wand', 7)]


def test_a_description_of_another_layout_does_not_hide_the_bodies():
    def described(kind, data):
        return i32(kind, len(data)) + data
    wand = b'Wand\0' + i32(1, -1) + bytes(12) + i32(10**6)    # its markers have another layout
    data = i32(3) + described(2, b'Skeleton\0' + i32(1, 10**6)) + described(1, wand) + described(
        9, b'unknown')
    found = decode_definitions(data, (4, 1))
    assert found.bodies == (BodyDefinition('Wand', 1),) and found.skipped == 2


@settings(deadline=None, max_examples=examples(80))
@given(st.binary(max_size=400), st.sampled_from([*VERSIONS, (1, 0), (4, 5), (255, 255)]))
def test_arbitrary_bytes_give_a_value_or_the_remote_error(data, version):
    for decode in (lambda: decode_frame(data, version, EVERYTHING),
                   lambda: decode_definitions(data, version),
                   lambda: codec.decode_server_info(data), lambda: codec.decode_hello(data),
                   lambda: codec.decode_message(data), lambda: codec.decode_request(data),
                   lambda: codec.decode_echo_response(data)):
        try:
            decode()
        except RemoteProtocolError:
            pass


@settings(deadline=None, max_examples=examples(80))
@given(st.data(), st.sampled_from(VERSIONS))
def test_a_damaged_frame_gives_a_value_or_the_remote_error(data, version):
    whole = filled_sections(version) + suffix(version)
    place = data.draw(st.integers(0, len(whole) - 4))
    damaged = whole[:place] + data.draw(st.binary(min_size=4, max_size=4)) + whole[place + 4:]
    for bytes_in in (damaged, whole[:place]):
        try:
            frame = decode_frame(bytes_in, version, EVERYTHING)
        except RemoteProtocolError:
            continue
        assert len(frame.bodies) <= len(whole) // 38


def test_a_count_that_cannot_fit_reserves_no_memory():
    for count in (2**31 - 1, -1, 10**6):
        with pytest.raises(RemoteProtocolError):
            decode_frame(i32(1) + i32(0) * 2 + i32(count) + suffix((3, 0)), (3, 0))


INFO = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10_000_000, 1511, True, '239.255.42.99')


@pytest.mark.parametrize('info', [
    INFO, ServerInfo('NatNetLib', (2, 7, 0, 0), (2, 7), 0, 0, None, '')])
def test_server_information_comes_back_as_it_was_sent(info):
    data = payload(codec.encode_server_info(info))
    assert codec.decode_server_info(data) == info
    assert len(data) == 279 or info is not INFO    # as captured from Motive 2.1


@pytest.mark.parametrize('damage', [
    lambda data: data[:264], lambda data: data[:264] + bytes(15)])
def test_server_information_needs_its_clock_from_3_0_on(damage):
    with pytest.raises(RemoteProtocolError):
        codec.decode_server_info(damage(payload(codec.encode_server_info(INFO))))


@pytest.mark.parametrize('frequency', [0, 999, 10**12 + 1])
def test_an_impossible_clock_frequency_is_refused(frequency):
    with pytest.raises(RemoteProtocolError):
        codec.decode_server_info(
            payload(codec.encode_server_info(INFO._replace(frequency=frequency))))


@pytest.mark.parametrize('group', ['0.0.0.0', '255.255.255.255', '10.0.0.5'])
def test_a_group_that_is_no_multicast_address_is_ignored(group):
    info = INFO._replace(group=group)
    assert codec.decode_server_info(payload(codec.encode_server_info(info))).group == ''


def test_an_impossible_message_is_refused_before_sending():
    with pytest.raises(LocalProtocolError):
        codec.encode_message(MessageId.FRAME, bytes(MAX_PAYLOAD + 1))
    with pytest.raises(LocalProtocolError):
        codec.encode_request('a\0b')
    assert codec.decode_message(codec.encode_message(MessageId.MODEL_DEFINITIONS, b'x'))[1] == b'x'


@pytest.mark.parametrize('data', [b'', b'\5\0\1', b'\5\0\3\0ab', b'\5\0\xff\xff' + bytes(100)])
def test_a_truncated_datagram_is_refused(data):
    with pytest.raises(RemoteProtocolError):
        codec.decode_message(data)
    assert codec.decode_message(b'\5\0\2\0abc') == (5, b'ab')


def test_round_trips_of_the_clocks_keep_token_and_ticks():
    _, payload = codec.decode_message(codec.encode_echo_response(2**63 + 5, 987654321))
    assert codec.decode_echo_response(payload) == (2**63 + 5, 987654321)
    with pytest.raises(RemoteProtocolError):
        codec.decode_echo_response(payload[:-1])


def test_a_client_states_its_name_and_the_bitstream_that_it_wants():
    payload = codec.encode_hello('client', (4, 1), bitstream=(3, 0))[4:]
    assert codec.decode_hello(payload) == ('client', (4, 1), (3, 0))
    assert codec.decode_hello(codec.encode_hello('client', (4, 1))[4:]) == (
        'client', (4, 1), None)
    payload = codec.encode_hello('client', (4, 1), discovery=True)[4:]
    assert codec.decode_hello(payload) == ('client', (4, 1), None)
    assert codec.decode_hello(b'old\0') == ('old', (0, 0), None)
