# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From events to samples without a socket: body, clock, validity."""

from dataclasses import replace
import math
import re

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.names import NameTemplates
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.rotation import Transform
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.frames import ServerText
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.node.report import body_entry
from optitrack_vrpn.stream.bodies.settings import BodyConfig, Selection
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import body_name
from optitrack_vrpn.telling.facts import facts_of_body, facts_of_pipeline
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import of_log
from pipeline_kit import HOST, make_pipeline, MS, pose_report, ProblemLog, S
import pytest
import sessions

FIRST = BodyConfig(acquire_frames=1)
TOPIC = re.compile(r'[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')


def pose(body, number, x=0.0, sensor=0, rate=100, start_ns=5 * S):
    """Make the pose of a body that moves a little with every frame."""
    return pose_report(
        body, start_ns + number * S // rate, (x + 0.001 * number, 1.0, 0.0), sensor=sensor)


def feed(pipeline, frames, rate=100, begin=0):
    """Send frames (lists of reports) at a rate; gives what comes out of each."""
    return [pipeline.process(frame, (begin + i) * S // rate, HOST).samples
            for i, frame in enumerate(frames)]


def stream(pipeline, bodies, count, begin=0, **more):
    """Send so many frames of some bodies; gives all samples."""
    frames = [[pose(body, begin + i, **more) for body in bodies] for i in range(count)]
    return [s for samples in feed(pipeline, frames, begin=begin) for s in samples]


def names(samples):
    return [sample.channel.names.motive for sample in samples]


# -- what the real library sent -------------------------------------------------------------------

def recorded(name):
    """Give a recording's events as (arrival in ns of the capture, events)."""
    (session,) = sessions.sessions(name)
    connection = VrpnConnection()
    for action in session.server_actions:
        yield action.time_ns, (
            to_frames(connection.receive_stream(action.data)) if action.kind == 'tcp' else
            connection.receive_datagram(action.data))


@pytest.mark.parametrize('name', ['motive_like_5x240', 'udp_lob', 'tcp_only'])
@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'arrival', 'sender'])
def test_every_recorded_pose_comes_out_in_order_on_its_clock(name, mode):
    # A body returns turned by 159 degrees after 2 s.
    pipeline = make_pipeline(mode, body=replace(FIRST, max_turn=0.0, max_angular_rate=0.0))
    rows = iter(sessions.sent(name, 'pose'))
    last = {}
    count = 0
    for arrival_ns, events in recorded(name):
        samples = pipeline.process(events, arrival_ns, 0).samples
        for channel, stamp_ns, _, position, *_ in samples:
            row = next(rows)
            x, y, z = row.vector
            assert (channel.names.motive, position) == (row.body, (z, x, y))
            if mode == 'sender':
                assert stamp_ns == row.sender_time_ns
            else:
                assert arrival_ns - 100 * MS < stamp_ns <= arrival_ns
            assert stamp_ns > last.get(row.body, 0)
            last[row.body] = stamp_ns
            count += 1
    assert next(rows, None) is None and count > 70
    assert 'VRPN Control' not in {channel.names.motive for channel in pipeline.bodies}


@pytest.mark.parametrize('up_axis, motive_x, enu', [
    ('y', 'north', lambda x, y, z: (z, x, y)), ('y', 'east', lambda x, y, z: (x, -z, y)),
    ('z', 'north', lambda x, y, z: (-y, x, z)), ('z', 'east', lambda x, y, z: (x, y, z))])
def test_recorded_poses_come_out_on_the_axes_of_the_settings(up_axis, motive_x, enu):
    axes = AxesConfig(up_axis, motive_x)
    pipeline = make_pipeline(
        'sender', axes=axes, body=replace(FIRST, max_turn=0.0, max_angular_rate=0.0))
    rows = iter(sessions.sent('motive_like_5x240', 'pose'))
    count = 0
    for arrival_ns, events in recorded('motive_like_5x240'):
        for sample in pipeline.process(events, arrival_ns, 0).samples:
            row = next(rows)
            assert sample.position == enu(*row.vector)
            # These functions are compared with attitudes worked by hand in test_motion_frames.
            assert sample.quat_xyzw == pytest.approx(frame_maps(axes).quat_to_enu(row.quat_xyzw))
            count += 1
    assert count > 70


def test_raw_attitudes_have_the_sign_with_which_they_are_sent():
    raw = make_pipeline('sender', axes=AxesConfig(axes='raw'))
    enu = make_pipeline('sender')
    turned = []
    for number in range(40):
        angle, sign = 0.01 * number, -1.0 if number % 3 else 1.0
        quat = (0.0, sign * math.sin(angle), 0.0, sign * math.cos(angle))
        event = pose_report('wand', 5 * S + number * 10 * MS, (0.01 * number, 0.0, 1.0), quat)
        for sample in raw.process([event], S + number * 10 * MS, HOST).samples:
            assert sample.quat_xyzw == pytest.approx(quat)
        turned += [sample.quat_xyzw for sample in enu.process(
            [event], S + number * 10 * MS, HOST).samples]
    assert len(turned) > 30
    assert all(sum(a * b for a, b in zip(one, two)) > 0 for one, two in zip(turned, turned[1:]))


def test_a_recorded_body_out_of_view_is_stale_and_returns():
    pipeline = make_pipeline()
    changes, out = [], []
    for arrival_ns, events in recorded('motive_like_5x240'):
        out += pipeline.process(events, arrival_ns, 0).samples
        pipeline.tick(arrival_ns)
        changes += pipeline.take_state_changes()
    drone = [change.after for change in changes if change.body == '1drone']
    assert drone == [State.TRACKED, State.STALE, State.JUMPED, State.TRACKED]
    sent = [row.body for row in sessions.sent('motive_like_5x240', 'pose')]
    for body in set(sent):
        # It has turned by 159 degrees meanwhile, and is withheld for a second.
        withheld = 2 + 240 * (body == '1drone')
        assert names(out).count(body) == pytest.approx(sent.count(body) - withheld, abs=2)
    assert {c.names.ros for c in pipeline.bodies} == {
        'Rigid_Body_1', 'body_1drone', 'wand', 'drone/left', 'Umbrella_2'}


# -- in the order stamp, age, truth ---------------------------------------------------------------


def test_a_body_of_which_all_is_too_old_says_so():
    pipeline = make_pipeline(max_age_s=0.5)
    log = ProblemLog(pipeline, 0)

    def wait(begin, count, waited_ns):
        for i in range(begin, begin + count):
            arrival_ns = i * S // 100
            for sample in pipeline.process(
                    [pose('wand', i)], arrival_ns, HOST, arrival_ns + waited_ns).samples:
                sample.channel.published += 1    # as the publishers do
            if i % 10 == 0:
                pipeline.tick(arrival_ns + waited_ns)
                log.look(arrival_ns + waited_ns)
        lines, log.lines = log.lines, []
        return [line for line in lines if 'max_age_s' in line.text]

    assert not wait(0, 300, 0)
    channel = pipeline.bodies[0]
    assert not wait(300, 90, S), 'a hiccup'
    assert not wait(390, 100, 0)
    (notice,) = wait(490, 300, S)
    assert notice.severity == WARN and "'wand'" in notice.text and '0.5 s' in notice.text
    assert channel.all_too_old and channel.published == 298 + 98
    entry = body_entry(
        'wand', facts_of_body(channel, 0), channel.dispositions(), 0, max_age_s=0.5)
    assert entry.severity is WARN and 'max_age_s' in entry.message
    assert not wait(790, 50, 0)
    assert not channel.all_too_old
    assert not wait(840, 11, S)
    pipeline.tick(12 * S)
    assert not channel.all_too_old, 'silence is no pose that is too old'
    assert not wait(1100, 300, S) and channel.all_too_old, 'written within the minute'
    pipeline.tick(20 * S)
    assert not channel.all_too_old


@pytest.mark.parametrize('bodies, more', [('abcd', ''), ('abcdef', 'and 2 more')])
def test_of_many_bodies_that_are_too_old_four_are_named_in_one_line(bodies, more):
    pipeline = Pipeline(PipelineConfig(max_age_s=0.5))
    log = ProblemLog(pipeline)
    for i in range(300):
        pipeline.process([pose(name, i) for name in bodies], i * S // 100, HOST, i * S // 100 + S)
        pipeline.tick(i * S // 100 + S)
        log.look(i * S // 100 + S)
    (event,) = [line for line in log.lines if 'max_age_s' in line.text]
    assert more in event.text and ('more' in event.text.split('published')[0]) is bool(more)
    assert all((repr(name) in event.text) is (name in 'abcd') for name in bodies)


def test_nothing_is_published_until_a_burst_after_an_outage_is_over():
    pipeline = make_pipeline(max_age_s=0.5)
    assert len(stream(pipeline, ['wand'], 300)) == 298
    # Two seconds of frames in one burst, at frame 500.
    assert not pipeline.process([pose('wand', 300 + i) for i in range(200)], 5 * S, HOST).samples
    assert pipeline.dropped['backlog'] == 200
    out = feed(pipeline, [[pose('wand', i)] for i in range(500, 600)], begin=500)
    assert 60 < sum(map(len, out)) < 80


def test_stamps_that_ros_cannot_hold_are_withheld_and_cost_no_other():
    pipeline = make_pipeline('sender', body=FIRST)
    late = pose_report('far', (1 << 31) * S, (1.0, 2.0, 3.0))
    samples = pipeline.process([pose('a', 0), late, pose('b', 1)], S, HOST).samples
    assert 'far' not in names(samples) and 'a' in names(samples)
    assert all(sample.stamp_ns < (1 << 31) * S for sample in samples)


def test_a_restarted_sender_teaches_a_new_clock_and_its_stamps_go_on():
    pipeline = make_pipeline()
    before = stream(pipeline, ['wand'], 300)
    again = [[pose('wand', i, start_ns=S)] for i in range(200)]
    after = [s for samples in feed(pipeline, again, begin=310) for s in samples]
    # Within 0.7 s, once frames prove to be fresh.
    assert 130 < len(after) < 198
    stamps = [sample.stamp_ns for sample in before + after]
    assert all(a < b for a, b in zip(stamps, stamps[1:]))
    (line,) = [one for one in of_log(facts_of_pipeline(pipeline)) if one.severity is WARN]
    assert 'stamp epoch 1 begins: the sender restarted' in line.text


# -- which bodies ---------------------------------------------------------------------------------

# Not by a whole number of frames: equal times are repeats.
@pytest.mark.parametrize('fall_ms', [21, 51, 101, 241])
def test_poses_keep_their_stamps_when_the_senders_clock_is_set_back_a_little(fall_ms):
    pipeline = make_pipeline()
    late, seen = [], []
    for k in range(1440):
        sent, fall = k * S // 240, fall_ms * MS if k >= 720 else 0
        out = pipeline.process([pose_report(
            'wand', 50 * S + sent - fall, (0.008 * k, 1.0, 0.0))], sent + MS, HOST).samples
        late += [abs(sample.stamp_ns - HOST - sent - MS) for sample in out]
        seen += [k] * len(out)
    # Not one pose is wrong by the fall; the body, at 2 m/s, is published again at once.
    assert max(late) < MS
    assert max(b - a for a, b in zip(seen, seen[1:])) < 240 * 0.6
    assert pipeline.stamps.status().restarts == {'sender_restarted': 1}
    assert pipeline.bodies[0].gate.resets == 1


@pytest.mark.parametrize('repeated', [False, True])
def test_frames_that_are_overtaken_or_repeated_in_a_burst_are_no_step(repeated):
    pipeline = make_pipeline()
    arrivals = []
    for k in range(2400):
        arrival = k * S // 240 + MS
        if k % 240 < 5 and k > 5:
            # Another route, or another copy: in order, as fast as the link is.
            late = (k - k % 240 + 10) * S // 240 + MS + k % 240 * 1000
            arrivals.append((late, k))
            if not repeated:
                continue
        arrivals.append((arrival, k))
    out = []
    for arrival, k in sorted(arrivals):
        out += pipeline.process([pose_report(
            'wand', 50 * S + k * S // 240, (0.001 * k, 1.0, 0.0))], arrival, HOST).samples
    assert len(out) == 2400 - 2 - (0 if repeated else 45)
    assert pipeline.stamps.status().epoch == pipeline.bodies[0].gate.resets == 0


@pytest.mark.parametrize('behind_ms', [0, 300])
def test_a_process_that_is_behind_reports_no_silence(behind_ms):
    """What was sent meanwhile waits in the kernel; who has gone silent is noticed after it."""
    pipeline = make_pipeline(max_age_s=0.5)
    bodies = ['wand', 'drone']
    for number in range(100):
        at = number * 10 * MS
        pipeline.process([pose(name, number) for name in bodies], at, HOST, at + behind_ms * MS)
    taken = at + behind_ms * MS

    def states_after(milliseconds):
        pipeline.tick(taken + milliseconds * MS)
        return [channel.gate.state for channel in pipeline.bodies]
    assert states_after(60) == [State.TRACKED] * 2
    # Without news the socket is empty, whatever waited in it before.
    assert states_after(260) == [State.STALE] * 2


def test_more_bodies_than_allowed_are_ignored_and_told_of_once():
    pipeline = make_pipeline(body=FIRST, max_bodies=3)
    many = [f'body {i}' for i in range(1000)]
    out = stream(pipeline, many, 2)
    assert set(names(out)) == {'body 0', 'body 1', 'body 2'}
    assert len(pipeline.roster.channels) == 3 and pipeline.roster.refused == 2 * 997
    (line,) = of_log(facts_of_pipeline(pipeline))
    assert line.code == 'too many bodies' and line.severity is ERROR


@pytest.mark.parametrize('selection', [Selection(allow=('wand*',)), Selection(deny=('[!w]*',))])
def test_ignored_bodies_take_no_room(selection):
    pipeline = make_pipeline(body=FIRST, max_bodies=2, selection=selection)
    ignored = ['a', 'b', 'c']
    assert set(names(stream(pipeline, [*ignored, 'wand', 'wand 2', 'wand 3'], 2))) == {
        'wand', 'wand 2'}
    assert pipeline.roster.refused == 2
    said = pipeline.take_events()
    assert [one.code for one in of_log(facts_of_pipeline(pipeline))] == ['too many bodies']
    assert sum(notice.key[0] == 'ignored' for notice in said) == 3
    # Those that are ignored are not among those that are too many.
    stream(pipeline, ['d'], 2, begin=2)
    assert pipeline.roster.refused == 2


def test_settings_are_matched_once_after_bodies_appeared():
    config = PipelineConfig(
        selection=Selection(deny=('wand',)), bodies={
            'A': {'max_speed': 3.0}, 'B': {'topic': 'b'}, 'C': {'offset': Transform()}})
    pipeline = Pipeline(config)
    assert pipeline.roster.to_match(0) is None    # nothing streams: that is no fault of names
    assert pipeline.roster.to_match(100 * S) is None
    stream(pipeline, ['a', 'wand'], 3)
    assert pipeline.roster.to_match(101 * S) is None
    assert pipeline.roster.to_match(105 * S) is None
    selection, named, seen = pipeline.roster.to_match(107 * S)
    assert (selection, sorted(named), seen) == (
        config.selection, ['A', 'B', 'C'], ['a', 'wand'])
    assert pipeline.roster.to_match(120 * S) is None
    # The same settings again are no news, others are.
    for more, news in (({}, False), ({'D': {'max_speed': 3.0}}, True)):
        pipeline.apply(replace(config, bodies={**config.bodies, **more}))
        stream(pipeline, ['a', 'wand'], 3, begin=100)
        assert pipeline.roster.to_match(200 * S) is None
        assert (pipeline.roster.to_match(206 * S) is not None) is news


def test_no_name_is_missing_while_names_are_unknown():
    pipeline = make_pipeline(max_bodies=1, bodies={'A': {'max_speed': 3.0}})
    stream(pipeline, ['a', 'b'], 3)
    assert pipeline.roster.to_match(0) is None
    assert pipeline.roster.to_match(60 * S) is None


def test_names_that_are_ignored_are_bounded_in_memory_and_in_the_log():
    pipeline = make_pipeline(body=FIRST, max_bodies=2, selection=Selection(allow=('wand',)))
    stream(pipeline, ['wand'], 1)
    pipeline.take_events()
    texts = []
    for number in range(5000):
        assert pipeline.process([pose(f'made up {number}', 0)], S, HOST).samples == []
        texts += [n.text for n in pipeline.take_events()]
    assert len(pipeline.roster.channels) == 1 + 1000 and len(texts) == 1001
    assert 'further' in texts[-1]
    assert set(names(stream(pipeline, ['made up 4999', 'wand'], 2, begin=1))) == {'wand'}
    assert pipeline.roster.refused == 0


def test_sensors_of_one_sender_are_bodies_of_their_own():
    pipeline = make_pipeline(body=FIRST)
    frame = [pose('wand', 0), pose('wand', 0, sensor=1), pose('wand/sensor1', 0),
             pose('wand', 0, sensor=-1)]
    out = pipeline.process(frame, S, HOST).samples
    assert len({sample.channel.names.motive for sample in out}) == 4
    assert len({sample.channel.names.topics['pose'] for sample in out}) == 4


@given(st.lists(st.tuples(
    st.text('a/sensor0-1', max_size=20), st.integers(-11, 11)), unique=True))
def test_no_two_sensors_have_one_name(pairs):
    assert len({body_name(*pair) for pair in pairs}) == len(pairs)


# -- names and notices ----------------------------------------------------------------------------

@settings(max_examples=60, deadline=None)
@given(bodies=st.lists(st.text(max_size=99), min_size=1, max_size=12, unique=True),
       short=st.booleans())
def test_names_of_bodies_are_valid_and_unique(
        bodies, short):
    """With the templates of the original package, whose names are easily taken twice."""
    templates = NameTemplates({'pose': '{body}', 'pose_ned': '{body}_ned'},
                              {'body': '{body}', 'body_ned': '{body}_ned'})
    pipeline = Pipeline(PipelineConfig(
        body=FIRST, **({'templates': templates} if short else {})))
    out = pipeline.process([pose(body, 0) for body in bodies], S, HOST).samples
    assert len(out) == len(bodies) == len(pipeline.bodies)
    for kind, taken in (('topics', []), ('frames', ['optitrack', 'optitrack_ned'])):
        every = [name for c in pipeline.bodies for name in getattr(c.names, kind).values()]
        assert len(set(every + taken)) == len(every + taken)
        for name in every:
            assert TOPIC.fullmatch(name) and '__' not in name and len(name) < 130
    for notice in pipeline.take_events():
        assert notice.text.isprintable() and len(notice.text) < 1500


def test_hostile_texts_are_one_bounded_clean_line_each_and_bounded_in_number():
    pipeline = make_pipeline()
    text = '\x1b[2Jgone\r\nFATAL: \u202e' + 'x' * 5000
    events = [ServerText('wand\n', (INFO, WARN, ERROR)[number % 3], f'{number} {text}')
              for number in range(20_000)]
    pipeline.process(events, S, HOST)
    *lines, summary = problem_lines(Repetition(), of_log(facts_of_pipeline(pipeline)), S)
    assert len(lines) == 20 and 'more than 20 different texts' in summary.text
    assert {line.severity for line in lines} == {INFO, WARN, ERROR}
    for line in lines:
        assert line.text.isprintable() and len(line.text) < 600
        assert '\\x1b[2Jgone\\r\\nFATAL' in line.text


def test_a_text_of_the_server_that_comes_again_is_written_again():
    """Once as long as it is repeated, and again after a pause, which is less than a minute."""
    pipeline, written = make_pipeline(), []
    log = ProblemLog(pipeline)
    for second in range(100):
        if second < 15 or second == 45:
            pipeline.process([ServerText('wand', ERROR, 'the camera failed')], second * S, HOST)
        pipeline.tick(second * S)
        written += [second for line in log.look(second * S) if 'the camera failed' in line.text]
    assert written == [0, 45]


def test_texts_of_the_server_are_limited_in_the_log():
    pipeline = make_pipeline()
    log = ProblemLog(pipeline)
    for tick in range(1200):
        flood = 50 * (200 <= tick < 800)
        pipeline.process([
            ServerText('wand', WARN, 'the same always'),
            *(ServerText('wand', WARN, f'text {tick} {i}') for i in range(flood))],
                         tick * S // 10, HOST)
        pipeline.tick(tick * S // 10)
        log.look(tick * S // 10)
    texts = [line.text for line in log.lines if 'text ' in line.text]
    assert 100 <= len(texts) <= 160
    assert sum('the same always' in line.text for line in log.lines) == 1
    begin, end = [line for line in log.lines if 'different texts' in line.text
                  or 'few texts again' in line.text]
    assert begin.severity is WARN and f'{600 * 50 - len(texts)} were not' in end.text
