# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What is fuzzed over NatNet: datagrams of a peer, through the client's connection into the pipeline.

An input is a byte of options as in fuzz_target, a byte that selects the version, and then records
as there: datagrams of n bytes, n * 10 ms in which nothing comes, or a new conversation.
"""

from fuzz_target import Broken, PAUSE, play, PREAMBLE, record, Run
import numpy as np
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.connection import NatNetConnection
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    Analog, AssetDefinition, BODY, BodyDefinition, Definitions, Echo, Held, MessageId, NatNetBody,
    NatNetFrame, NatNetMarker, NatNetSkeleton, PlateDefinition, Response, ServerInfo,
    SkeletonDefinition, Unanswered, Unrecognized)
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.skeletons.plates import channel_order, plate_frame, wrenches
from optitrack_vrpn.stream.skeletons.stage import SkeletonStage

_NS = 1_000_000_000
VERSIONS = ((2, 7), (2, 9), (3, 0), (4, 0), (4, 1), (4, 2), (4, 4))
#: All that a frame can hold beside rigid bodies is decoded.
EXTRAS = frozenset({'markers', 'skeletons', 'plates', 'devices'})
_FREQUENCY = 10_000_000
#: The interval of the frames.
STEP_NS = 10_000_000
#: Bodies of one frame of the largest datagram.
_MOST_BODIES = 65507 // 38 + 1
_DATAGRAM, _RECONNECT = 3, 7


def info(version):
    """Make the server information of a version."""
    if version < (3, 0):
        return ServerInfo('NatNetLib', (2, 7, 0, 0), version, 0, 0, None, '')
    return ServerInfo('Motive', (3, 1, 0, 0), version, _FREQUENCY, 1511, False, '0.0.0.0')


def definitions(version):
    """Make the description of two bodies, a skeleton, a trained marker set and a plate."""
    bones = tuple(BodyDefinition(name, i + 1, i, (0.0, 0.2, 0.0))
                  for i, name in enumerate(('Hip', 'Ab', 'Chest')))
    assets = (AssetDefinition('Cloth', 1, 4, bones[:1]),) if version >= (4, 1) else ()
    return encode_definitions(Definitions(
        (BodyDefinition('Rigid Body 1', 1), BodyDefinition('1drone', 2)), ('all',),
        (SkeletonDefinition('Bob', 3, bones),), assets, (PlateDefinition(
            1, 'FP', 0.5, 0.5, (0.0, 0.0, 0.0), (0.0,) * 144, (
                (0.2, 0.0, -0.2), (0.2, 0.0, 0.2), (-0.2, 0.0, 0.2), (-0.2, 0.0, -0.2)), 2, 0,
            ('Fx', 'Fy', 'Fz', 'Mx', 'My', 'Mz')),)), version)


def frame(number, version, params=0):
    """Make a frame of each of them and markers at 50 Hz."""
    ticks = 1_000 * _FREQUENCY + number * _FREQUENCY // 50
    bodies = [NatNetBody(i, 0.001 * number, 1.0, float(i), 0.0, 0.0, 0.0, 1.0, 0.0003, 1)
              for i in (1, 2)]
    bones = b''.join(BODY.pack(3 << 16 | i, 0.001 * number, 0.2 * i, 0.0, 0.0, 0.0, 0.0, 1.0,
                               0.001, 1) for i in (1, 2, 3))
    return encode_frame(NatNetFrame(
        number, bodies, [NatNetMarker(1 << 16 | 1, 0.0, 1.0, 0.0, 0.014, 12, 0.0002)], 0.0, 0, 0,
        number / 50, ticks, ticks + 46_000, ticks + 54_000, 0, 0, params, ((2.0, 1.0, 0.0),),
        (NatNetSkeleton(3, bones),), (NatNetSkeleton(4, BODY.pack(
            4 << 16 | 1, 0.001 * number, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.001, 1)),)
        if version >= (4, 1) else (), (Analog(1, ((1.0, 2.0),) * 6),)), version)


class NatNetRun(Run):
    """
    One input on its way.

    :param options: the first byte.
    :param version: of the server.
    """

    def __init__(self, options, version):
        self._version = version
        self._stage = SkeletonStage(lambda *event: None)
        self.figures = 0
        super().__init__(options)

    def connect(self):
        """Begin a conversation."""
        self.over = False
        self._stated = []
        self._models = set()
        self._described = b''    # the last definitions, with which requests are answered
        self.connection = NatNetConnection(self.now_ns, wanted=EXTRAS)
        self._translator, self._watch = Translator(0), ServerWatch('y')
        for command in ServerWatch.QUESTIONS:
            self.connection.request(command)
        if self.with_preamble:
            self.datagram(codec.encode_server_info(info(self._version)))
            self.datagram(definitions(self._version))

    def datagram(self, data):
        """Let a datagram come, and send what is due."""
        self.now_ns += STEP_NS
        connection = self.connection
        if connection.echo_due(self.now_ns):
            connection.echo_request(self.now_ns)
        self._send()
        if data[:1] == bytes((MessageId.MODEL_DEFINITIONS,)):
            self._described = bytes(data)
        self._receive(data)
        if len(connection.models.names) > _MOST_BODIES:
            raise Broken('names without bound')

    def pause(self, hundredths):
        """Let nothing come for a while."""
        super().pause(hundredths)
        self._send()

    def _send(self):
        due = self.connection.due(self.now_ns)
        if len(due) > 8:
            raise Broken('requests without bound')
        if self._described and any(
                codec.decode_message(request)[0] == MessageId.REQUEST_MODEL_DEFINITIONS
                for request in due):
            self._receive(self._described)

    def _receive(self, data):
        connection = self.connection
        for event in connection.receive(memoryview(data), self.now_ns):
            self._event(event)

    def _event(self, event):
        remarks = []
        event = event.frame if isinstance(event, Held) else event
        if isinstance(event, NatNetFrame):
            self._translator.names = self.connection.models.names
            named = self._translator.frame(event)
            self._judge_names(event, named)
            if named is not None and named.extras is not None:
                self._judge_extras(named)
            self.give([] if named is None else [named])
            remarks = self._watch.frame(event)
            remarks += self._watch.unknown(self._translator.unknown)
        elif isinstance(event, Echo):
            self.give([self._translator.echo(*event)])
        elif isinstance(event, ServerInfo):
            self._translator = Translator(event.frequency)
        elif isinstance(event, Definitions):
            self._stated = [(body.name, body.streaming_id) for body in event.bodies]
            self._models = {one.name for one in (*event.skeletons, *event.assets)}
            remarks = self._watch.definitions(event, name_table(event))
        elif isinstance(event, (Response, Unrecognized, Unanswered)):
            remarks = self._watch.answer(event)
        for remark in remarks:
            if not remark.text.isprintable():
                raise Broken(f'not fit for a log: {remark.text!r}')

    def _judge_names(self, frame, named):
        """Compare names with the last definitions: each belongs to one id, of this frame."""
        ids = {body[0] for body in frame.bodies}
        for body in named.bodies if named is not None else ():
            owners = [number for name, number in self._stated if name == body.name]
            if len(owners) != 1 or owners[0] not in ids:
                raise Broken(f'{body.name!r} is not the name of a body of this frame')

    def _judge_extras(self, named):
        """Look at bones and forces that would be published."""
        for skeleton in named.extras.skeletons:
            if skeleton.model.name not in self._models:
                raise Broken(f'{skeleton.model.name!r} is no model of the last definitions')
            figure = self._stage.convert(
                skeleton, named.sender_time_ns, PipelineConfig(), 'fbx', self.now_ns)
            if figure is None or not figure.valid.any():
                continue
            self.figures += 1
            quats = figure.quats_xyzw[figure.valid]
            if not (np.isfinite(figure.positions[figure.valid]).all() and np.allclose(
                    np.linalg.norm(quats, axis=1), 1.0, atol=1e-9)):
                raise Broken(f'a bone of {figure.name} that is no pose')
        for plate in named.extras.plates:
            order, place = channel_order(plate.model), plate_frame(plate.model)
            if order is not None and place is not None and not np.isfinite(
                    wrenches(plate, order)).all():
                raise Broken('a force that is no number')

    def give(self, reports):
        """Give reports to the pipeline, and look at what comes out."""
        if reports:
            found = self.pipeline.process(reports, self.now_ns, 1_700_000_000 * _NS)
            self.look()
            if found.samples:
                self.judge(found)


def one_input(data):
    """Run one input: bytes of options and of the version, then records; see ``play``."""
    run = NatNetRun(data[0] if data else 0, VERSIONS[
        (data[1] if len(data) > 1 else 0) % len(VERSIONS)])
    return play(run, data, 2, datagrams_from=0)


def seeds():
    """Make inputs of conversations that go well."""
    made = []
    for number, version in enumerate(VERSIONS):
        # Long enough for the first frames of a connection to prove that they are live.
        frames = [piece for k in range(1, 41) for piece in (
            record(_DATAGRAM, frame(k, version)), record(PAUSE, count=1))]
        change = [record(_DATAGRAM, frame(41, version, 2)),
                  record(_DATAGRAM, definitions(version)), record(_DATAGRAM, frame(42, version))]
        hello = [record(_DATAGRAM, codec.encode_server_info(info(version))),
                 record(_DATAGRAM, definitions(version))]
        answers = [record(_DATAGRAM, codec.encode_response(100.0)),
                   record(_DATAGRAM, codec.encode_response(1000.0)),
                   record(_DATAGRAM, codec.encode_response(2)),
                   record(_DATAGRAM, codec.encode_response(
                       f'Bitstream,{version[0]}.{version[1]}')),
                   record(_DATAGRAM, codec.encode_message(MessageId.UNRECOGNIZED_REQUEST))]
        for option in (0, 1, 2, 3):
            made.append(bytes((option, number)) + b''.join(hello + answers + frames))
        made.append(bytes((PREAMBLE, number)) + b''.join(frames + change))
        made.append(bytes((PREAMBLE, number)) + b''.join(
            frames + [record(_RECONNECT)] + frames[:20]))
    return made
