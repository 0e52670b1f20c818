# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Skeletons, plates and unlabelled markers: simulator, client, faults, limits, NAT."""

from contextlib import suppress
import functools
import math
import os
import random
import shutil
import socket
import struct
import subprocess
import sys

from natnet_kit import following, MOTIVE, simulated, Talk
import numpy as np
from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions, encode_definitions
from optitrack_vrpn.drivers.natnet.frames import decode_frame, encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    Analog, BODY, BodyDefinition, Definitions, MessageId, NatNetBody, NatNetFrame, NatNetMarker,
    NatNetSkeleton, PlateDefinition, SkeletonDefinition)
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator
import pytest

ALL = frozenset({'markers', 'skeletons', 'plates', 'devices'})


def skeletons_of(frame):
    return frame.extras.skeletons if frame.extras else ()


@pytest.mark.parametrize('version', ['2.9', '3.0', '4.1', '4.2', '4.4'])
def test_every_bone_is_where_the_closed_form_has_it(version):
    with simulated(0, natnet={'version': version, 'skeletons': 2, 'bones': 51}) as server:
        truth = server.serving('natnet').world.models
        with following(server, {'wanted': ['skeletons']}) as (sink, _):
            sink.wait(lambda: len([f for f in sink.frames if skeletons_of(f)]) > 5)
    times = np.arange(2000) / server.scenario.rate
    hips = [figure.at(times)[0][:, 0] for figure in truth.figures]
    compared = 0
    for frame in sink.frames:
        for i, found in enumerate(skeletons_of(frame)):
            assert found.model.name == f'Skeleton {i + 1}' and found.valid.all()
            assert found.model.bones[:2] == ('Hip', 'Ab') and found.model.parents[:2] == (-1, 0)
            # The number of the frame is not neutral: find it by the place of the hip.
            number = np.argmin(np.linalg.norm(hips[i] - found.positions[0], axis=1))
            positions, quats = truth.truth(i, times[number])
            assert np.abs(positions - found.positions).max() < 1e-6
            assert np.abs(quats - found.quats_xyzw).max() < 1e-6
            compared += 1
    assert compared > 10


def test_bones_that_lie_at_the_offsets_of_their_parents_are_withheld():
    draw = np.random.default_rng(1)
    parents = (0, 1, 2, 2, 1)
    offsets = draw.normal(size=(5, 3)).astype(np.float32).astype(float)
    definition = SkeletonDefinition('Bob', 3, tuple(
        BodyDefinition(f'b{i}', i + 1, parents[i], tuple(offsets[i])) for i in range(5)))
    translator = Translator(1000)
    translator.names = name_table(Definitions((), (), (definition,))).names
    for place, local in ((offsets, True), (offsets + 1e-3, False)):
        rows = b''.join(
            BODY.pack(3 << 16 | i + 1, *place[i], 0.0, 0.0, 0.0, 1.0, 0.0, 1) for i in range(5))
        frame = NatNetFrame(1, [], [], 0.0, 0, 0, 1.0, 0, 0, 1, 0, 0, 0,
                            skeletons=(NatNetSkeleton(3, rows),))
        (found,) = translator.frame(frame).extras.skeletons
        assert found.valid.tolist() == [not local] * 5
        assert translator.looks_local == ('Bob' if local else '')


def test_an_unlabelled_marker_counts_once():
    with simulated(1, natnet={'markers': 2, 'unlabelled': 3}) as server:
        with following(server, {'wanted': ['markers']}) as (sink, _):
            sink.wait(lambda: len(sink.markers) > 3)
        for markers in sink.markers:
            assert [(one.body, one.member, one.labelled) for one in markers] == [
                (1, 1, True), (1, 2, True), (0, 1001, False), (0, 1002, False), (0, 1003, False)]
    # A server that has them in the deprecated section only, which repeats a labelled one.
    place = (1.0, 2.0, 3.0)
    frame = NatNetFrame(1, [], [NatNetMarker(65537, *place, 0.01, 10, 0.0)], 0.0, 0, 0, 1.0, 0, 0,
                        1, 0, 0, 0,
                        ((4.0, 5.0, 6.0), place, (4.0, 5.0, 6.0)))
    found = Translator(1000).frame(frame).markers
    assert [(one.position, one.labelled) for one in found] == [
        (place, True), ((4.0, 5.0, 6.0), False)]


def test_force_plates_keep_their_samples_and_corners():
    with simulated(1, natnet={'plates': 2}) as server:
        with following(server, {'wanted': ['plates']}) as (sink, _):
            sink.wait(lambda: len([f for f in sink.frames if f.extras]) > 3)
    plate = [frame for frame in sink.frames if frame.extras][-1].extras.plates[1]
    assert plate.model.name == 'Plate 2' and plate.model.calibrated
    assert [len(channel) for channel in plate.samples] == [10] * 6
    forces = np.array(plate.samples)
    np.testing.assert_allclose(forces[2], -35.0 * forces[0], rtol=1e-5)    # 700 N, 20 N
    np.testing.assert_allclose(
        plate.model.corners, [(1.2, 0, -0.3), (1.2, 0, 0.3), (0.8, 0, 0.3), (0.8, 0, -0.3)],
        atol=1e-6)


def library_connects(server):
    """Connect as libNatNet 4.4 does, with its checks; return the reasons to drop frames."""
    dropped = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10.0)
        name = b'NatNetLib'.ljust(256, b'\0') + bytes((4, 4, 0, 0)) * 2
        sock.sendto(struct.pack('<HH', 0, 269) + name + bytes(5), server)
        info = b''
        frames = 0
        while frames < 10:
            data, address = sock.recvfrom(65536)
            kind, size = struct.unpack_from('<HH', data)
            if kind == 1:
                info = data[4:]
                assert len(info) == 279 and info[:7] == b'Motive\0'
                sock.sendto(struct.pack('<HH', 10, 0), server)
                sock.sendto(struct.pack('<HH', 4, 0), server)
            elif kind == 7:
                frames += 1
                if address[1] != struct.unpack_from('<H', info, 272)[0]:
                    dropped.append('source port')
                if data[-4:] != bytes(4) or size != len(data) - 4:
                    dropped.append('end')
            else:
                assert kind == 5    # an answer to a keep-alive would be one too many
        sock.sendto(struct.pack('<HH', 2, 11) + b'Disconnect\0', server)
        while kind != 3:
            kind, = struct.unpack_from('<H', sock.recv(65536))
    return dropped


@pytest.mark.parametrize('version', ['3.1', '4.1', '4.4'])
def test_the_closed_library_would_take_every_frame(version):
    with simulated(2, natnet={'version': version, 'skeletons': 1, 'plates': 1}) as server:
        assert library_connects(('127.0.0.1', server.port_of('natnet'))) == []


def mutated(data, draw):
    """Change, cut or repeat some bytes."""
    data = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        where = draw.randrange(len(data))
        how = draw.randrange(4)
        if how == 0:
            data[where] = draw.randrange(256)
        elif how == 1:
            data[where:where + 4] = struct.pack('<i', draw.choice(
                (0, 1, -1, 2, 2**31 - 1, -2**31, draw.randrange(1 << 16))))
        elif how == 2:
            del data[where:where + draw.randrange(1, 9)]
        else:
            data[where:where] = data[where:where + draw.randrange(1, 9)]
        data = data or bytearray(1)
    return bytes(data)


@functools.cache
def sent(version):
    """Make a frame and a list of models with something of each kind."""
    bones = tuple(BodyDefinition(name, i + 1, i) for i, name in enumerate(('Hip', 'Ab', 'Chest')))
    models = Definitions(
        (BodyDefinition('Wand', 1), BodyDefinition('drone', 2)), ('all',),
        (SkeletonDefinition('Bob', 1, bones),),
        plates=(PlateDefinition(1, 'FP', 0.5, 0.5, (0.0, 0.0, 0.0), (0.0,) * 144,
                                ((0.0, 0.0, 0.0),) * 4, 2, 0, ('Fx', 'Fy')),))
    pose = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.001, 1)
    frame = NatNetFrame(
        7, [NatNetBody(1, *pose), NatNetBody(2, *pose)],
        [NatNetMarker(65537, 1.0, 2.0, 3.0, 0.01, 10, 0.0)],
        0.0, 0, 0, 1.0, 10, 20, 30, 0, 0, 0, ((1.0, 2.0, 3.0),),
        (NatNetSkeleton(1, b''.join(BODY.pack(1 << 16 | i + 1, *pose) for i in range(3))),), (),
        (Analog(1, ((1.0, 2.0), (3.0, 4.0))),))
    return codec.decode_message(encode_frame(frame, version))[1], \
        codec.decode_message(encode_definitions(models, version))[1]


@functools.cache
def named(version):
    return name_table(decode_definitions(sent(version)[1], version)).names


def run_mutations(number, seed=1):
    """
    Decode mutated frames and as many lists; return how many were accepted.

    docs/natnet.md has the result of 1 000 000, by
    ``PYTHONPATH=test python -c 'import test_natnet_models as t; print(t.run_mutations(10**6))'``.
    """
    draw = random.Random(seed)
    accepted = 0
    versions = [(2, 7), (2, 11), (3, 0), (4, 0), (4, 1), (4, 2), (4, 4), (4, 5)]
    for i in range(number):
        version = versions[i % len(versions)]
        frame_data, list_data = sent(version)
        # The list is intact: names in frames must be those of the list, whatever the frame says.
        translator = Translator(1000)
        translator.names = named(version)
        with suppress(RemoteProtocolError):
            found = translator.frame(decode_frame(mutated(frame_data, draw), version, ALL))
            accepted += 1
            if found is not None:
                assert {one.name for one in found.bodies} <= {'Wand', 'drone'}
                for one in found.extras.skeletons if found.extras else ():
                    assert one.model.bones == ('Hip', 'Ab', 'Chest')
                    assert one.positions.shape == (3, 3) and one.valid.shape == (3,)
        with suppress(RemoteProtocolError):
            table = name_table(decode_definitions(mutated(list_data, draw), version))
            accepted += 1
            assert all(isinstance(key, int) for key in table.names)
    return accepted


def test_mutated_frames_and_lists_are_refused_or_keep_their_names():
    assert run_mutations(400) > 100


def test_ids_that_a_changed_list_describes_otherwise_have_no_bones():
    """The bones of a skeleton are withheld from a sign of a change until a new list confirms."""
    talk = Talk(MOTIVE._replace(version=(4, 4)), wanted=ALL)
    models = talk.driver.models
    frame_data, list_data = sent((4, 4))
    talk.due(0)
    talk.receive(codec.encode_message(MessageId.MODEL_DEFINITIONS, list_data), 1)
    key = next(key for key in models.names if key > 1 << 32)
    assert models.names[key].name == 'Bob'
    for number, now in ((1, 2), (2, 10**7)):
        data = bytearray(frame_data)
        data[:4] = struct.pack('<i', number)
        talk.receive(codec.encode_message(MessageId.FRAME, bytes(data)), now)
    flagged = bytearray(frame_data)
    flagged[:4] = struct.pack('<i', 3)
    flagged[-6:-4] = struct.pack('<h', 2)    # model list changed
    talk.receive(codec.encode_message(MessageId.FRAME, bytes(flagged)), 2 * 10**7)
    assert key not in models.names


def test_a_lost_bone_is_invalid_by_its_flag_or_nan():
    pose = (0.0, 0.0, 0.0, 1.0, 0.0)
    rows = (BODY.pack(1 << 16 | 1, math.nan, math.nan, math.nan, *pose, 0)
            + BODY.pack(1 << 16 | 2, 1.0, 2.0, 3.0, *pose, 0)
            + BODY.pack(1 << 16 | 3, 1.0, 2.0, 3.0, *pose, 1))
    translator = Translator(1000)
    _, list_data = sent((4, 4))
    translator.names = name_table(decode_definitions(list_data, (4, 4))).names
    (found,) = translator.frame(NatNetFrame(
        1, [], [], 0.0, 0, 0, 1.0, 0, 0, 1, 0, 0, 0, skeletons=(NatNetSkeleton(1, rows),))
    ).extras.skeletons
    assert found.valid.tolist() == [False, False, True]


# -- a NAT ----------------------------------------------------------------------------------------

def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


@pytest.fixture
def behind_nat():
    """
    Make three network namespaces: client, NAT (masquerading), server; give their names.

    The NAT is the one of Linux, as in front of a container.
    """
    if not all(map(shutil.which, ('ip', 'iptables'))):
        pytest.skip('ip and iptables are not installed')
    tag = f'nn{random.randrange(10**5)}'
    names = client, nat, server = tuple(f'{tag}{kind}' for kind in 'cns')
    made = []
    try:
        try:
            for name in names:
                run('ip', 'netns', 'add', name)
                made.append(name)
                run('ip', '-n', name, 'link', 'set', 'lo', 'up')
            for name, inner, outer, subnet in (
                    (client, 'c0', 'nc', '10.231.1'), (server, 's0', 'ns', '10.231.2')):
                run('ip', '-n', nat, 'link', 'add', outer, 'type', 'veth', 'peer', 'name', inner,
                    'netns', name)
                run('ip', '-n', nat, 'addr', 'add', f'{subnet}.1/24', 'dev', outer)
                run('ip', '-n', nat, 'link', 'set', outer, 'up')
                run('ip', '-n', name, 'addr', 'add', f'{subnet}.2/24', 'dev', inner)
                run('ip', '-n', name, 'link', 'set', inner, 'up')
            run('ip', '-n', client, 'route', 'add', 'default', 'via', '10.231.1.1')
            run('ip', 'netns', 'exec', nat, 'sysctl', '-qw', 'net.ipv4.ip_forward=1')
            run('ip', 'netns', 'exec', nat, 'iptables', '-t', 'nat', '-A', 'POSTROUTING', '-o',
                'ns', '-j', 'MASQUERADE')
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f'network namespaces with masquerading are not permitted: '
                        f'{getattr(error, "stderr", error)}')
        yield names
    finally:
        for name in made:
            subprocess.run(['ip', 'netns', 'del', name], timeout=20, check=False)


OURS = """
from natnet_kit import following
with following(1510, server='10.231.2.2') as (sink, _):
    sink.wait(lambda: len(sink.bodies) > 20)
print('frames')
"""
PLAIN = """
import socket, struct
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(2.0)
sock.sendto(struct.pack('<HH', 0, 0), ('10.231.2.2', 1510))
kinds = set()
try:
    for _ in range(50):
        kinds.add(sock.recv(65536)[0])
except TimeoutError:
    pass
print('frames' if 7 in kinds else 'an answer only' if 1 in kinds else 'nothing')
"""


@pytest.mark.parametrize(('script', 'result'), [(OURS, 'frames'), (PLAIN, 'an answer only')])
def test_frames_pass_a_nat_because_the_keep_alive_goes_to_the_data_port(
        behind_nat, script, result):
    client, _, server = behind_nat
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(
        [os.path.dirname(__file__), os.environ.get('PYTHONPATH', '')])}
    motive = subprocess.Popen(
        ['ip', 'netns', 'exec', server, sys.executable, '-m', 'optitrack_vrpn', 'motive_sim',
         '--protocol', 'natnet', '--host', '10.231.2.2', '--bodies', '1'],
        stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert motive.stdout.readline()
        found = subprocess.run(
            ['ip', 'netns', 'exec', client, sys.executable, '-c', script],
            capture_output=True, text=True, timeout=60, env=environment)
    finally:
        motive.terminate()
        motive.wait(10)
    assert found.stdout.strip() == result, found.stderr
