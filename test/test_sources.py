# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of VRPN, the table of protocols, and a third protocol that is added from outside."""

from contextlib import contextmanager
import json
import os
from pathlib import Path
import random
import re

from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.drivers.automatic_io import AutomaticSource
from optitrack_vrpn.drivers.choice import Patience, SourceChoice
from optitrack_vrpn.drivers.driver import LinkStatus, ServerFacts
from optitrack_vrpn.drivers.frames import Body, Body as PoseReport, Frame, Motion, ServerText
from optitrack_vrpn.drivers.link import link_event, LinkState
from optitrack_vrpn.drivers.table import SOURCES
from optitrack_vrpn.drivers.vrpn.codec import PongReport, TextReport
from optitrack_vrpn.drivers.vrpn.frames import to_frames
import pytest
from tool_kit import run_tool, start_tool
from transport_kit import Recorder

S = 10**9
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
TESTS = Path(__file__).resolve().parent


def pose(name, time_ns):
    return PoseReport(name, 0, time_ns, (1.0, 2.0, 3.0), UPRIGHT)


def test_poses_of_one_time_are_a_frame_and_the_library_is_no_body():
    items = to_frames([
        pose('a', 1), pose('VRPN Control', 1), pose('b', 1), PongReport('a', 1), pose('a', 2),
        Motion('a', 0, 2, True, (1.0, 0.0, 0.0), UPRIGHT, 0.1),
        Motion('a', 0, 2, False, (2.0, 0.0, 0.0), UPRIGHT, 0.1),
        TextReport('a', 2, 1, 0, 'hot'), pose('b', 2)])
    first, second, velocity, acceleration, text = items
    assert [body.name for body in first.bodies] == ['a', 'b']
    assert [body.name for body in second.bodies] == ['a', 'b']
    assert first == Frame(1, [Body('a', 0, 1, (1.0, 2.0, 3.0), UPRIGHT, True, 0.0),
                              Body('b', 0, 1, (1.0, 2.0, 3.0), UPRIGHT, True, 0.0)])
    assert velocity == Motion('a', 0, 2, True, (1.0, 0.0, 0.0), UPRIGHT, 0.1)
    assert not acceleration.is_velocity and text == ServerText('a', WARN, 'hot')


def test_a_frame_has_its_bodies_however_its_poses_arrive():
    time_ns = 1_700_000_000_000_000_000
    poses = [pose('a', time_ns), pose('b', int(str(time_ns)))]    # equal times, two objects
    later = pose('a', time_ns + 1)
    frame, control = Frame(time_ns, poses), pose('VRPN Control', time_ns)
    assert to_frames(poses) == to_frames([*poses, control]) == [frame]
    assert to_frames([control, *poses, PongReport('a', 1)]) == to_frames(tuple(poses)) == [frame]
    assert to_frames([*poses, later]) == [frame, Frame(time_ns + 1, [later])]
    assert to_frames([]) == to_frames([control]) == []


def test_the_best_protocol_has_a_time_alone_then_all_are_tried():
    of = tuple(SOURCES)[:3]
    choice, started = SourceChoice(of, 0), []
    for now in range(0, 3 * S, S // 10):
        found = choice.to_start(now)
        started += [(name, now) for name in found]
    assert started == [(of[0], 0), *((name, 3 * S // 2) for name in of[1:])]


@pytest.mark.parametrize('seed', range(200))
def test_at_random_the_first_protocol_that_delivers_is_used_until_its_stream_has_ended(seed):
    chance, of, now = random.Random(seed), tuple(SOURCES)[:2], 0
    choice, started, silent_ns = SourceChoice(of, now), set(), None
    for _ in range(200):
        now += chance.choice([0, S // 10, S, 3 * S])
        before = choice.chosen
        started |= set(choice.to_start(now))
        if choice.has_ended(now):
            assert before and now - silent_ns >= 5 * S
            choice.restart(now)
            assert not choice.chosen
            started, silent_ns = set(), None
            continue
        assert silent_ns is None or now - silent_ns < 5 * S
        name = chance.choice(of)
        if name not in started:
            continue
        state = chance.choice([LinkState.STREAMING, LinkState.LOST, LinkState.CONNECTED])
        begins = choice.changed(name, state, now)
        # Whoever streams while none is in use; then no other, however good it is.
        assert begins == (not before and state is LinkState.STREAMING)
        assert choice.chosen == (name if begins else before)
        if choice.chosen == name:
            silent_ns = None if state is LinkState.STREAMING else silent_ns or now


class Waiting:
    """A client that reports one state."""

    def __init__(self, gate, change, status):
        self.gate, self.change, self.status = gate, change, lambda: status

    def start(self):
        self.gate.link_changed(self.change)

    def stop(self):
        """Do nothing."""


@contextmanager
def choosing(natnet, natnet_status, vrpn, vrpn_status):
    """Choose among two clients; gives the source and its sink after both have started."""
    sink, changes = Recorder(), {'natnet': (natnet, natnet_status), 'vrpn': (vrpn, vrpn_status)}
    source = AutomaticSource(
        ('natnet', 'vrpn'), lambda protocol, gate, answered: Waiting(gate, *changes[protocol]),
        sink, Patience(1, 1000 * S))
    source.start()
    try:
        sink.wait(lambda: any(vrpn.text in change.text for change in sink.changes))
        yield source, sink
    finally:
        source.stop()


def status(**changes):
    return LinkStatus(LinkState.CONNECTING, '', **changes)


@pytest.mark.parametrize('state, known, why', [
    (LinkState.SILENT, ServerFacts(undecodable='too short', version='4.9'),
     'frames cannot be decoded as NatNet 4.9: too short'),
    (LinkState.SILENT, ServerFacts(unconfirmed_s=1.5), 'their names are not confirmed'),
    (LinkState.SILENT, ServerFacts(unconfirmed_s=0.5), 'does not: no pose yet'),
    # What a server was found to do before is no reason when it does not answer.
    (LinkState.LOST, ServerFacts(undecodable='too short'), 'does not: no pose yet')])
def test_why_another_protocol_is_used_is_the_reason_that_is_known(state, known, why):
    with choosing(link_event(WARN, 'no pose yet', state), status(known=known),
                  link_event(INFO, 'poses', LinkState.STREAMING), status()) as (_, sink):
        sink.wait(lambda: any(why in change.text for change in sink.changes
                              if change.text.startswith('VRPN is used')))


def test_a_host_that_any_protocol_refused_is_known_before_one_is_chosen():
    refused = {'192.0.2.7': 'a TCP connection'}
    with choosing(
            link_event(WARN, 'no answer', LinkState.LOST),
            status(server='natnet', unexpected_peers=1, refused={'192.0.2.8': 'a datagram'}),
            link_event(WARN, 'no connection', LinkState.LOST),
            status(server='vrpn', unexpected_peers=2, refused=refused)) as (source, _):
        found = source.status()
    assert found.server == 'natnet' and found.unexpected_peers == 3
    assert found.refused == {'192.0.2.8': 'a datagram', **refused}


@pytest.fixture
def with_text(tmp_path, monkeypatch):
    """Add the row of the third protocol in every Python that starts."""
    (tmp_path / 'sitecustomize.py').write_text('import text_source\n')
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join(
        [str(tmp_path), str(TESTS), os.environ.get('PYTHONPATH', '')]))


@pytest.mark.network
def test_the_doctor_receives_a_third_protocol_from_the_simulator(with_text):
    with start_tool(
            'motive_sim', '--protocol', 'text', '--text-port', '0', '--rate', '100') as sim:
        port = re.fullmatch(r'text on 127\.0\.0\.1:(\d+)\n', sim.stdout.readline())[1]
        done = run_tool('doctor', '--server', '127.0.0.1', '--protocol', 'text', '--text-port',
                        port, '--no-ros', '--seconds', '1', '--json')
        sim.terminate()
    checks = {one['check']: one for one in json.loads(done.stdout)['checks']}
    # A busy machine gives warnings.
    assert done.returncode < 2, done.stdout
    assert checks['data']['values']['transport'] == 'text'
    assert checks['bodies']['values']['tracked'] == 3
    assert checks['rate']['values']['rate_hz'] == pytest.approx(100.0, abs=5.0)


@pytest.mark.ros
@pytest.mark.network
def test_the_demo_shows_a_third_protocol_from_the_simulator_to_the_topics(with_text):
    done = run_tool('demo', '--protocol', 'text', '--seconds', '2')
    assert done.returncode == 0, done.stderr
    assert 'all 3 bodies streamed' in done.stdout
