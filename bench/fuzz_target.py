# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fuzz target: bytes of a peer, through ``VrpnConnection`` into ``Pipeline``, with invariants.

An input is a byte of options and then records, each a byte of its kind, two bytes n, and the data:
n bytes of the TCP stream, a datagram of n bytes, n * 10 ms without data, or a new conversation.
Any bytes are an input; a truncated record is used up to its end.
"""

import copy
import math

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.vrpn.codec import (
    ACCELERATION_TYPE, CONTROL_SENDER, encode_cookie, encode_message, encode_name, MAX_IDS,
    POSE_TYPE, RemoteNames, SENDER_DESCRIPTION, TEXT_TYPE, TYPE_DESCRIPTION, VELOCITY_TYPE)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection, VrpnCounters
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.stream.bodies.settings import Selection
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.pipeline import Pipeline

_NS = 1_000_000_000
STREAM, DATAGRAM, PAUSE, RECONNECT = 0, 3, 6, 7
#: Options: two bits of the mode of the stamps, then one each.
MODES = ('tracking', 'min_offset', 'arrival', 'sender')
SERVER_MOTION, PREAMBLE, ESTIMATE, FEW = 4, 16, 32, 64
TYPES = {4: POSE_TYPE, 5: VELOCITY_TYPE, 6: ACCELERATION_TYPE, 15: TEXT_TYPE}
ARRIVAL_NS = 1_000 * _NS
HOST_MINUS_ARRIVAL_NS = 1_700_000_000 * _NS
#: The interval of the frames in the recorded sessions: they arrive at the pace at which they were
#: sent.
STEP_NS = 4_166_667
MAX_AGE_NS = 250_000_000


class Broken(AssertionError):
    """An invariant is violated."""


def _configs():
    """Make every configuration once."""
    configs = []
    for options in range(128):
        watched = bool(options & ESTIMATE)
        estimate = EstimateConfig(learn_noise=watched, estimate_motion=watched)
        configs.append(PipelineConfig(
            stamps=StampConfig(mode=MODES[options & 3], offset_samples=5),
            server_motion=bool(options & SERVER_MOTION), estimate=estimate,
            selection=Selection(deny=('no*',)) if options & FEW else Selection(),
            max_bodies=3 if options & FEW else 500))
    return configs


CONFIGS = _configs()


def _introduced():
    """Make a connection whose peer has said its cookie and described what servers describe."""
    connection = VrpnConnection(udp_address=('127.0.0.1', 4000))
    parts = [encode_cookie()]
    for number, name in enumerate((CONTROL_SENDER, 'Rigid Body 1', '1drone', 'no thanks', 'a/b')):
        parts.append(encode_message(number, SENDER_DESCRIPTION, encode_name(name), 0, 0))
    # The numbers that they have in the recorded sessions.
    for number, name in TYPES.items():
        parts.append(encode_message(number, TYPE_DESCRIPTION, encode_name(name), 0, 0))
    connection.receive_stream(b''.join(parts))
    connection.data_to_send()
    return connection


_INTRODUCED = _introduced()


def introduced():
    """Copy that connection, which is much quicker than to let it hear everything again."""
    connection = copy.copy(_INTRODUCED)
    for name, value in (('remote', RemoteNames()), ('counters', VrpnCounters()),
                        ('_in', bytearray()), ('_out', bytearray())):
        setattr(connection, name, value)    # has no __dict__ where it is compiled
    connection.remote.senders.update(_INTRODUCED.remote.senders)
    connection.remote.types.update(_INTRODUCED.remote.types)
    return connection


class Run:
    """
    One input on its way.

    :param options: the first byte.
    """

    def __init__(self, options):
        self.sender_mode = MODES[options & 3] == 'sender'
        self.estimate = bool(options & ESTIMATE)
        self.with_preamble = bool(options & PREAMBLE)
        self.pipeline = Pipeline(CONFIGS[options & 127], self._discovered)
        self.topics = set()
        self.last = {}
        self.fell = False
        self.now_ns = ARRIVAL_NS
        self.published = 0
        self.connect()

    def connect(self):
        """Begin a conversation."""
        self.over = False
        self.connection = (introduced() if self.with_preamble
                           else VrpnConnection(udp_address=('127.0.0.1', 4000)))

    def stream(self, data):
        """Let bytes come by TCP."""
        self.now_ns += STEP_NS
        try:
            events = self.connection.receive_stream(data)
        except RemoteProtocolError as error:
            if not self.over:
                self.take(to_frames(self.connection.events_before_fault))
            self.over = True
            if not str(error):
                raise Broken('an error without a word') from error
            return
        if self.over:
            raise Broken('a conversation went on after its end')
        self.take(to_frames(events))

    def datagram(self, data):
        """Let a datagram come."""
        self.now_ns += STEP_NS
        self.take(self.connection.receive_datagram(memoryview(data)))

    def pause(self, hundredths):
        """Let nothing come for a while."""
        self.now_ns += hundredths * 10_000_000
        self.pipeline.tick(self.now_ns)
        self.look()

    def reconnect(self):
        """Begin again, as the client does."""
        self.connect()
        self.pipeline.reconnected()

    def take(self, items):
        """Give items to the pipeline, and look at what comes out."""
        if not items:
            return
        found = self.pipeline.process(items, self.now_ns, HOST_MINUS_ARRIVAL_NS)
        self.look()
        if found.samples or found.motions:
            self.judge(found)
        remote = self.connection.remote
        if len(remote.senders) > MAX_IDS or len(remote.types) > MAX_IDS:
            raise Broken('names without bound')
        self.connection.data_to_send()

    def look(self):
        """Look at what people would read."""
        for notice in self.pipeline.take_events():
            if not notice.text.isprintable():
                raise Broken(f'not fit for a log: {notice.text!r}')
            if self.sender_mode and 'stamp epoch' in notice.text:
                # The sender's clock stepped somewhere in this batch, and its times are the stamps.
                self.last.clear()
                self.fell = True
        self.pipeline.take_state_changes()

    def judge(self, found):
        """Compare what is to be published with the promises."""
        host_ns = self.now_ns + HOST_MINUS_ARRIVAL_NS
        for channel, stamp_ns, _, position, quat, motion, _ in found.samples:
            self.published += 1
            if not all(map(math.isfinite, position)):
                raise Broken(f'position {position}')
            if not abs(math.hypot(*quat) - 1.0) < 1e-6:
                raise Broken(f'attitude {quat}')
            if not 0 <= stamp_ns < _NS << 31:
                raise Broken(f'stamp {stamp_ns}')
            if not self.sender_mode and not 0 <= host_ns - stamp_ns <= MAX_AGE_NS:
                raise Broken(f'a stamp {host_ns - stamp_ns} ns before its arrival')
            last = self.last.get(channel)
            if last is not None and stamp_ns <= last and not self.fell:
                raise Broken(f'stamp {last}, then {stamp_ns}')
            self.last[channel] = stamp_ns
            if motion is not None and not all(
                    math.isfinite(number) for part in motion[1:] for number in part):
                raise Broken(f'motion {motion}')
        if self.fell:
            self.last.clear()
            self.fell = False
        for report in found.motions:
            if not all(map(math.isfinite, (*report.linear, *report.angular))):
                raise Broken(f'server motion {report}')

    def _discovered(self, channel):
        for topic in channel.names.topics.values():
            if topic in self.topics:
                raise Broken(f'two bodies on {topic}')
            self.topics.add(topic)
        channel.wants_motion = self.estimate


def play(run, data, at, datagrams_from=DATAGRAM):
    """
    Run the records of one input.

    :param at: offset of the first record.
    :param datagrams_from: the least kind that is a datagram; those below are pieces of a stream.
    :returns: the run, to see how far it got.
    :raises Broken: if something that must hold does not; whatever else is raised is a bug too.
    """
    while at + 3 <= len(data):
        kind, count = data[at] & 7, data[at + 1] << 8 | data[at + 2]
        at += 3
        if kind < PAUSE:
            take = run.stream if kind < datagrams_from else run.datagram
            take(data[at:at + count])
            at += count
        elif kind == PAUSE:
            run.pause(count)
        else:
            run.reconnect()
    return run


def one_input(data):
    """Run one input: a byte of options, then records; see ``play``."""
    return play(Run(data[0] if data else 0), data, 1)


def record(kind, data=b'', count=None):
    """Write one record of an input."""
    return bytes((kind,)) + (len(data) if count is None else count).to_bytes(2, 'big') + data
