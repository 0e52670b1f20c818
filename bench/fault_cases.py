# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The cases of the fault table: one function per case, which returns its rows."""

from collections import deque
import json
import signal
import time

import fault_bridge
from fault_kit import BODIES, Heard, RATE, row, running, scenario, Session
from fault_protocol import follower, NATNET, other_client
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from relay_kit import PacketRelay
from rosgraph import wait_until
from server_kit import FakeServer, free_port

#: The same bodies at other places of their curves, so that two servers' poses differ.
_LATER = 0.37
#: What is on its way still comes after the way has ended.
_LAG_NS = 500_000_000


def later():
    """Make the scenario of a server that comes after another."""
    mapping = scenario(BODIES)
    for body in mapping['bodies']:
        body['motion']['phase'] = _LATER
    return mapping


# -- servers ------------------------------------------------------------------------------------

def absent():
    with Session(BODIES) as session:
        node = session.start_node(free_port())
        begin = session_begin(node, session)
        time.sleep(8.0)
        return [row(session, 'server absent', begin, begin, begin, recovers=False, settle_s=0.1)]


def session_begin(node, session):
    """Return the time at which the node began to look for its server."""
    node.wait_for(r'resolving')
    return session.noticed(0, 'resolving', ('INFO',))[0]


def late():
    with Session(BODIES) as session:
        port = free_port()
        node = session.start_node(port)
        begin = session_begin(node, session)
        time.sleep(8.0)
        server = session.server(scenario(BODIES), port=port)
        return [row(session, 'server 8 s late', begin, begin, server.begin_ns)]


def killed():
    session, server, steady = running()
    with session:
        begin = time.time_ns()
        server.kill()
        time.sleep(3.0)
        again = session.server(later(), port=server.port)
        return [row(session, 'server killed, there again after 3 s', steady, begin,
                    again.begin_ns)]


def restarted():
    mapping = scenario(BODIES, clock={'base': 'motive', 'start': 5000.0})
    session, server, steady = running(mapping)
    with session:
        begin = time.time_ns()
        server.ask('restart 1')
        end = time.time_ns()
        server.away.append((begin, end))
        return [row(session, 'server restarted: other ids, clock back at its start', steady,
                    begin, end)]


def paused():
    session, server, steady = running()
    with session:
        begin = time.time_ns()
        server.stop_for(20.0)
        end = time.time_ns()
        return [row(session, 'server stopped for 20 s (SIGSTOP)', steady, begin, end)]


def _node_stopped(name, **parameters):
    session, _, steady = running(**parameters)
    with session:
        begin = time.time_ns()
        session.node.process.send_signal(signal.SIGSTOP)
        time.sleep(5.0)
        session.node.process.send_signal(signal.SIGCONT)
        end = time.time_ns()
        return [row(session, name, steady, begin, end)]


def node_stopped():
    return _node_stopped('node stopped for 5 s, poses by UDP', connection='udp')


def node_stopped_tcp():
    return _node_stopped('node stopped for 5 s, poses by TCP', connection='tcp')


def version_refused():
    def serve(server, sock):
        sock.sendall(b'vrpn: ver. 08.00  0\0\0\0\0\0')
        server.hold(sock)
    with Session(BODIES) as session:
        with FakeServer(serve) as fake:
            node = session.start_node(fake.port)
            begin = session_begin(node, session)
            time.sleep(6.0)
        server = session.server(scenario(BODIES), port=fake.port)
        return [row(session, 'version refused, then the right server', begin, begin,
                    server.begin_ns)]


# -- networks -----------------------------------------------------------------------------------

def _black_hole(name, seconds, **parameters):
    session, relay, steady = running(relayed=True, **parameters)
    with session:
        begin = time.time_ns()
        relay.hole(True)
        time.sleep(seconds)
        end = time.time_ns()
        relay.hole(False)
        return [row(session, name, steady, begin, end)]


def black_hole_udp():
    return _black_hole('black hole for 6 s (proxy), poses by UDP', 6.0, connection='udp')


def black_hole_tcp():
    return _black_hole('black hole for 6 s (proxy), poses by TCP: a backlog comes after it', 6.0,
                       connection='tcp')


def held_up(name='datagrams held up for 3 s (proxy), then a burst, some overtaken', **settings):
    """Hold datagrams up."""
    session, relay, steady = running(
        scenario(BODIES, **settings), relayed=True, connection='udp')
    with session:
        begin = time.time_ns()
        relay.hold(True)
        time.sleep(3.0)
        end = time.time_ns()
        relay.hold(False)
        return [row(session, name, steady, begin, end)]


def half_open():
    session, relay, steady = running(relayed=True)
    with session:
        begin = time.time_ns()
        relay.half_open()
        return [row(session, 'half-open TCP: the server forgot the node', steady, begin, begin,
                    lag_ns=_LAG_NS)]


def _in_namespace(name, fault, recovers=True, lag_ns=0, **parameters):
    """Run the server in a network namespace behind a relay of packets; needs root."""
    with Session(BODIES) as session:
        lab = session.hold(PacketRelay())
        server = session.server(scenario(BODIES), host=lab.server, prefix=lab.prefix)
        session.start_node(server.port, lab.server, **parameters)
        steady = session.steady()
        begin = time.time_ns()
        fault(lab)
        return [row(session, name, steady, begin, time.time_ns(), recovers=recovers,
                    lag_ns=lag_ns)]


def _hole_of_15_s(lab):
    lab.hole(True)
    time.sleep(15.0)
    lab.hole(False)


def _other_address(lab):
    lab.change_client_address()


def black_hole_namespace():
    return _in_namespace('black hole for 15 s (packets)' + ('' if NATNET else ', poses by TCP'),
                         _hole_of_15_s, connection='tcp')


def address_changed():
    def stays(lab):
        _other_address(lab)
        time.sleep(30.0)
    name = "the node's address changed (packets)"
    return [*_in_namespace(name, _other_address, lag_ns=_LAG_NS, connection='udp'),
            *([] if NATNET else _in_namespace(
                f'{name}, poses by TCP: the server waits for the old connection', stays,
                recovers=False, connection='tcp'))]


def _impaired(name, seconds, **network):
    session, server, _ = running(connection='udp')
    with session:
        begin = time.time_ns()
        server.ask(f'network {json.dumps(network)}')
        time.sleep(seconds)
        return [row(session, name, begin, begin, begin, recovers=False, settle_s=0.5)]


def loss():
    return _impaired('30 % of the datagrams lost', 8.0, loss=0.3)


def reordering():
    return _impaired('10 % of the datagrams overtaken, by 25 ms', 8.0, reorder=0.1,
                     reorder_ms=25.0)


def duplicates():
    return _impaired('30 % of the datagrams twice', 8.0, duplicate=0.3)


def jitter():
    return _impaired('200 ms of jitter (exponential)', 12.0, jitter_ms=200.0,
                     jitter='exponential')


# -- other clients ------------------------------------------------------------------------------

def five_clients():
    session, server, steady = running()
    with session:
        others = [session.hold(other_client(server.port)) for _ in range(4)]
        wait_until(lambda: all(count() > 20 for count in others))
        begin = time.time_ns()
        heard = [count() for count in others]
        time.sleep(6.0)
        seconds = (time.time_ns() - begin) / 1e9
        least = min(count() - had for count, had in zip(others, heard))
        return [row(session, 'five clients', steady, begin, begin, recovers=False, settle_s=0.5,
                    note=f'the worst of the others got {least / (BODIES * RATE * seconds):.1%}')]


# -- clocks -------------------------------------------------------------------------------------

class SteppedClock(HostClock):
    """The host's clocks, one of which is set by hand and else runs with the other."""

    def __init__(self):
        self.step_ns = 0
        self._distance_ns = super().host_minus_arrival_ns()

    def host_minus_arrival_ns(self):
        """Read the distance, on the clock as it is set."""
        return self._distance_ns + self.step_ns


class Stamper:
    """
    What the node does with events, without ROS.

    :ivar out: (body, time of publication and stamp on a clock that nothing sets, pose).
    :ivar ended: when epochs of the stamps ended.
    """

    def __init__(self, clock):
        self.clock = clock
        self.pipeline = Pipeline(PipelineConfig())
        self.out = deque()
        self.ended = []

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        """Take events as the node does."""
        samples = self.pipeline.process(
            events, arrival_ns, host_minus_arrival_ns, self.clock.now_ns()).samples
        step_ns = host_minus_arrival_ns - HostClock().host_minus_arrival_ns()
        epochs = self.pipeline.clock_status().epoch
        self.ended += [time.time_ns()] * (epochs - len(self.ended))
        for sample in samples:
            self.out.append((sample.channel.names.ros, Heard(
                time.time_ns(), sample.stamp_ns - step_ns, sample.position, sample.quat_xyzw)))

    def link_changed(self, change):
        """Take no note."""


def clock_stepped():
    with Session(BODIES, listen=False) as session:
        server = session.server(scenario(BODIES))
        clock = SteppedClock()
        sink = Stamper(clock)
        following = follower(server.port, sink, clock)
        following.start()
        rows = []

        def take():
            while sink.out:
                body, heard = sink.out.popleft()
                session.heard[body].append(heard)
        try:
            wait_until(lambda: len(sink.out) > 60 * BODIES)
            take()
            for name, step_s in (('1 h ahead', 3600), ('2 h back', -7200), ('0.2 s back', -0.2),
                                 ('50 ms ahead', 0.05)):
                # From here on the frames count that a starved server skips.
                begin = session.steady(0.0)
                clock.step_ns += round(step_s * 1e9)
                time.sleep(4.0)
                take()
                noticed = next((at for at in sink.ended if at >= begin), None)
                rows.append({
                    'name': f'host clock set {name} (clock seam)', 'note': '',
                    'noticed_s': None if noticed is None else (noticed - begin) / 1e9,
                    'word': 'epoch ended', 'recovered_s': None,
                    **session.judge(begin, time.time_ns())})
        finally:
            following.stop()
        return rows


def sender_stepped():
    session, server, steady = running(
        scenario(BODIES, clock={'base': 'motive', 'start': 5000.0}))
    with session:
        begin = time.time_ns()
        server.ask('step -0.3')
        return [row(session, "the server's clock set back by 0.3 s", steady, begin, begin,
                    lag_ns=50_000_000)]


# -- bodies -------------------------------------------------------------------------------------

#: Every fault of one body, each on a body of its own: what, how long (s), and in the scenario.
BODY_FAULTS = (
    ('silent for 1 s', 1.0, {'type': 'occlusion', 'mode': 'silent'}),
    ('frozen for 1 s', 1.0, {'type': 'occlusion', 'mode': 'frozen'}),
    ('zeroed for 1 s', 1.0, {'type': 'occlusion', 'mode': 'zeroed'}),
    ('zeroed, identity attitude, 1 s', 1.0,
     {'type': 'occlusion', 'mode': 'zeroed', 'attitude': 'identity'}),
    ('flipped by 180 degrees for 1 s', 1.0, {'type': 'flip', 'axis': 'y'}),
    ('teleported by 1 m for 1 s', 1.0, {'type': 'teleport', 'offset': [0.0, 1.0, 0.0]}),
    ('a single outlier of 0.5 m', 0.0, {'type': 'outlier', 'offset': [0.0, 0.5, 0.0]}),
    ('NaN for 0.2 s', 0.2, {'type': 'not_finite'}),
)
_BODY_FAULT_S = 12.0
#: What hits every body or two of them: what, from, to (s), bodies (None: all), in the scenario.
FRAME_FAULTS = (
    ('labels of two bodies swapped for 0.5 s', 16.0, 16.5, (8, 9), {'type': 'swap_labels'}),
    ('two bodies exchange names for 5 s', 12.0, 17.0, (10, 11), {'type': 'swap_labels'}),
    ('30 % of the frames dropped for 2 s', 20.0, 22.0, None,
     {'type': 'drop_frames', 'probability': 0.3}),
    ('30 % of the frames twice for 2 s', 24.0, 26.0, None,
     {'type': 'duplicate_frames', 'probability': 0.3}),
)


def bodies():
    count = 12
    mapping = scenario(count)
    for number, (_, length, fault) in enumerate(BODY_FAULTS):
        times = {'at': _BODY_FAULT_S} if not length else {
            'start': _BODY_FAULT_S, 'end': _BODY_FAULT_S + length}
        mapping['bodies'][number]['faults'] = [{**fault, **times}]
    mapping['faults'] = [
        {**fault, 'start': start, 'end': end,
         **({'bodies': [f'body{i}' for i in hit]} if hit else {})}
        for _, start, end, hit, fault in FRAME_FAULTS]
    session, server, steady = running(mapping, count)
    with session:
        def at(seconds):
            return server.origin_ns + round(seconds * 1e9)
        assert steady < at(_BODY_FAULT_S - 0.5), 'the node was too slow to come up'
        time.sleep(28.0 - (time.time_ns() - server.origin_ns) / 1e9)
        cases = [(f'body{i}', name, _BODY_FAULT_S, _BODY_FAULT_S + length)
                 for i, (name, length, _) in enumerate(BODY_FAULTS)]
        cases = [((body,), *rest) for body, *rest in cases] + [
            (session.names if hit is None else [f'body{i}' for i in hit], name, start, end)
            for name, start, end, hit, _ in FRAME_FAULTS]
        return [_body_row(session, names, name, at(start), at(end), at)
                for names, name, start, end in cases]


def _body_row(session, names, name, begin, end, at):
    """Sum one fault of one body up, from half a second before it to three after."""
    noticed = min((entry for body in names for entry in session.reported[body]
                   if begin <= entry[0] <= end + 2 * 10**8 and not entry[1]), default=None)
    back = [next((heard.at_ns for heard in session.heard[body] if heard.at_ns > end), None)
            for body in names]
    return {
        'name': name, 'note': '',
        'noticed_s': None if noticed is None else (noticed[0] - begin) / 1e9,
        'word': '' if noticed is None else noticed[2],
        'recovered_s': None if None in back else (max(back) - end) / 1e9,
        **session.judge(begin - 5 * 10**8, end + 2 * 10**9, names, begin)}


CASES = {
    'bodies': bodies, 'absent': absent, 'late': late, 'killed': killed, 'restarted': restarted,
    'paused': paused, 'node_stopped': node_stopped, 'node_stopped_tcp': node_stopped_tcp,
    'black_hole_udp': black_hole_udp, 'black_hole_tcp': black_hole_tcp,
    'held_up': held_up,
    'black_hole_namespace': black_hole_namespace, 'loss': loss, 'reordering': reordering,
    'duplicates': duplicates, 'jitter': jitter, 'half_open': half_open,
    'address_changed': address_changed, 'clock_stepped': clock_stepped,
    'sender_stepped': sender_stepped,
    'version_refused': version_refused, 'five_clients': five_clients,
    **fault_bridge.CASES,
}
#: Those that need a network namespace.
PRIVILEGED = ('black_hole_namespace', 'address_changed')
QUICK = ('bodies', 'killed', 'clock_stepped')
