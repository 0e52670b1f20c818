# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The report: its figures against closed forms, its verdict, and a page without scripts."""

from html import unescape
from itertools import combinations
import json
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis.strategies import integers, lists
import numpy as np
from optitrack_vrpn.cli.arguments import USAGE
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess import report_command
from optitrack_vrpn.takes.assess.figures import body_figures
from optitrack_vrpn.takes.assess.series import running_deviation
from optitrack_vrpn.takes.calibrate.command import main as calibrate
from optitrack_vrpn.takes.export import export_command
from optitrack_vrpn.takes.take import longest_rise
from optitrack_vrpn.takes.take_io import load_take
from optitrack_vrpn.takes.trajectory import Trajectory
from optitrack_vrpn.takes.trajectory_text import format_tum
import pytest
from raw_kit import capture
from recording_kit import (
    BEGIN_NS, cdr, header, make, POSE, typestore,
    write_poses)
from scipy.spatial.transform import Rotation
from take_kit import (
    body, body_of, poses_of, STILL, take_of, texts, written)
from test_recording_evaluation import CAMERA_M, recording

pytest.importorskip('jinja2', reason='the page is a template')
pytest.importorskip('rosbags', reason='an independent writer')
NO_POSE = 'no pose of any body'


def test_the_running_deviation_is_numpys():
    values = np.random.default_rng(1).normal(5.0, 0.1, (300, 3))
    expected = [values[i:i + 100].std(axis=0, ddof=1).max() for i in range(201)]
    np.testing.assert_allclose(running_deviation(values.T), expected, rtol=1e-9)
    assert not len(running_deviation(values[:99].T))


def test_noise_rate_latency_and_coverage_are_what_was_put_in():
    take = take_of(body(noise_m=0.0002, noise_deg=0.03))
    f = body_figures(take, take.bodies['wand'])
    # the worst of three axes over 100 samples is some 8 % above one axis
    assert f.rest.sigma3_mm == pytest.approx(0.6, rel=0.15)
    assert f.rest.sigma3_deg == pytest.approx(0.09, rel=0.15)
    assert f.rest.drift_mm < 0.05
    assert f.rate_hz == pytest.approx(240, rel=1e-3)
    assert f.latency_ms == pytest.approx(3.0)
    assert f.coverage == pytest.approx(1.0)
    assert texts(take)[0][0] is INFO


def test_a_slow_body_is_seen_between_its_poses():
    take = take_of(body(), body('slow', rate=1))
    assert body_figures(take, take.bodies['slow']).coverage == pytest.approx(1.0, abs=0.001)


@pytest.mark.filterwarnings('error::RuntimeWarning')
@pytest.mark.parametrize('far', [1.1e100, 1e155, 1e300, -1.7e308])
def test_numbers_that_overflow_are_no_positions(tmp_path, capsys, far):
    write_poses(tmp_path / 'take', [
        ('/drone/pose', BEGIN_NS + i * 10**7, BEGIN_NS + i * 10**7,
         (far if i % 10 == 5 else 0.001 * i, far if i % 20 == 5 else 0, 1), (0, 0, 0, 1))
        for i in range(300)])
    assert report_command.main([str(tmp_path / 'take'), '-o', str(tmp_path / 'page.html')]) == 0
    assert '30 poses of 300' in capsys.readouterr().out


def test_poses_after_a_restart_of_the_stamps_are_reported_as_left_out(tmp_path, capsys):
    """As of a bag that was recorded while another one was played in a loop."""
    again = poses_of(1.0)
    take = written(tmp_path / 'take', {
        '/pose': (POSE, again + [(4.0 + at, data) for at, data in again])})
    severity, text = texts(take)[0]
    assert severity is WARN
    assert text.startswith('400 poses of 800 on /pose')
    assert list(take.bodies) == ['pose'] and len(take.bodies['pose'].trajectory) == 400
    assert export_command.main([str(tmp_path / 'take'), '-o', str(tmp_path / 'x.csv')]) == 0
    assert 'x.csv: 400 poses of 1 body; left out: 400 poses ' in capsys.readouterr().out


@given(lists(integers(0, 9), max_size=12))
def test_as_few_poses_as_possible_are_left_out(stamps):
    """A single stamp in the far future costs one pose, not all after it."""
    kept = [stamps[at] for at in longest_rise(np.array(stamps, np.int64)).tolist()]
    assert kept == sorted(set(kept))
    assert len(kept) == max(
        size for size in range(len(stamps) + 1)
        if any(part == tuple(sorted(set(part))) for part in combinations(stamps, size)))


def page_of(tmp_path, capsys, *arguments):
    code = report_command.main([*map(str, arguments), '-o', str(tmp_path / 'r.html')])
    assert code == 0, capsys.readouterr().err
    return (tmp_path / 'r.html').read_text()


def test_the_page_is_self_contained_and_complete_without_its_script(tmp_path, capsys):
    """Names are neither tags nor formulas."""
    poses = [(f'/{name}/pose', BEGIN_NS + i * 4_166_667 + 3_000_000, BEGIN_NS + i * 4_166_667,
              (0.001 * i, 0.0, 1.0 + 1e-4 * (i % 7)), STILL)
             for i in range(1000) for name in ('<wand>&', r'a $\frac$', 'b_$1')]
    write_poses(tmp_path / 'take', poses, notes={'session': '<b>7</b>'})
    page = page_of(tmp_path, capsys, tmp_path / 'take', '--compare', tmp_path / 'take',
                   '--body', 'b_$1')
    assert len(page) < 1_000_000
    page, script, end = re.split('</?script>', page)    # as a reader without scripts sees it
    assert 'MIT License' in script and '<script' not in page + end
    plots = [json.loads(unescape(text)) for text in re.findall('data-plot="(.*?)"', page)]
    ((east, _, _),) = [panel['lines'] for panels in plots for panel in panels
                       if panel['y'] == 'position (m)']
    assert (east['low'][0], east['high'][-1]) == (0.0, 0.999)    # of a pixel: the extremes
    # nothing is loaded from elsewhere: links are those of parts of the pictures
    assert set(re.findall(r'(?:href|src)="(.)', page)) <= {'#'}
    assert not re.search(r'url\((?!#)', page)
    assert 'prefers-color-scheme' in page and '@media print' in page and 'viewport' in page
    assert '<b>7</b>' not in page and 'frac' in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for svg in re.findall(r'<svg.*?</svg>', page, flags=re.S):
        ElementTree.fromstring(svg)
    assert page.index('verdict') < page.index('<table')


def test_the_page_tells_when_and_where_and_links_to_the_timeline(tmp_path, capsys):
    poses = [('/wand/pose', BEGIN_NS + i * 4_166_667, BEGIN_NS + i * 4_166_667,
              (0.0, 0.0, 1.0), STILL) for i in range(1000) if not 300 <= i < 600]
    write_poses(tmp_path / 'take', poses, notes={
        'utc_offset_s': '7200', 'host': 'lab-pc', 'settings of /node': '{"a.b": [1, "<x>"]}'})
    page = page_of(tmp_path, capsys, tmp_path / 'take')
    # 1 790 000 000 s is 14:13:20 UTC on this day
    assert '2026-09-21 16:13:20 to 16:13:24 UTC+02:00' in page and 'lab-pc' in page
    assert 'Settings of /node (parameters: 1)' in page and '[1, &#39;&lt;x&gt;&#39;]' in page
    anchor = re.search(
        r'no pose for up to 1\.25 s.*?<a href="#([\w-]+)">16:13:21\.2 \(\+1\.2 s\)', page)
    assert f'<i id="{anchor[1]}" class="error"' in page


def test_the_page_tells_changes_over_gaps_speeds_counts_and_bodies_apart(tmp_path, capsys):
    """Each figure is that which was put in, with a unit that suits it."""
    def poses(name, rate, seconds):
        for at in np.arange(0.0, seconds, 1 / rate).tolist():
            if name != 'wand' or not (5.0 <= at < 5.695 or 9.0 <= at < 9.115):
                turn = np.radians(30.0) * (at > 5.5)
                stamp = BEGIN_NS + round(at * 1e9)
                yield (f'/{name}/pose', stamp + 2_000_000, stamp, (0.5 * at, 0.0, 1.0 + len(name)),
                       (0.0, 0.0, np.sin(turn / 2), np.cos(turn / 2)))
    others = [f'body_{"x" * number}' for number in range(6)]
    write_poses(tmp_path / 'take', sorted([*poses('wand', 100, 125.0), *(
        row for name in others for row in poses(name, 5, 20.0))], key=lambda row: row[1]))
    page = page_of(tmp_path, capsys, tmp_path / 'take', '--body', 'wand')
    rows = [re.findall('<td>(.*?)</td>', row)[1:] for row in re.findall(
        r'<tr><td>[\d:.]+ \(\+(?:5|9)\.0 s\).*?</tr>', page)]
    assert rows == [['710.0 ms', '0.355 m', '30.0°', 'yes'],
                    ['130.0 ms', '0.065 m', '0.0°', 'yes']]
    row = re.search('<tr><td>wand</td>(.*?)</tr>', page)[1]
    cells = dict(zip(re.findall('<th>(.*?)</th>', page[:page.index(row)])[1:], re.findall(
        '<td>(.*?)</td>', row)))
    assert (cells['poses'], cells['fastest m/s'], cells['latency ms']) == (
        '12\N{NARROW NO-BREAK SPACE}418', '0.50', '2.0')
    assert '13\N{NARROW NO-BREAK SPACE}018 messages' in page and not re.search(
        r'\d[,.\'’]\d{3} (?:poses|messages)', page)
    shown = page[page.index('poses arrive, or the row reports'):]
    assert 'warning' in shown[:200] and 'error' in shown[:200], 'the legend of the timeline'
    colours = [re.findall(r'class="line c\d" style="stroke:(hsl\(.*?\))"', re.search(
        f'<svg[^>]*aria-label="{title}">.*?</svg>', page, re.S)[0])
        for title in ('path from above', 'heights')]
    assert colours[0] == colours[1] and len(set(colours[0])) == 7


def turned_on_the_spot(folder):
    """Write a take of a body that turns about a point 0.1 m behind and 0.3 m below it."""
    turns = Rotation.from_rotvec(np.linspace(0.0, 6.0, 1000)[:, None] * (0.0, 0.0, 1.0))
    write_poses(folder, [
        ('/wand/pose', BEGIN_NS + i * 10_000_000, BEGIN_NS + i * 10_000_000,
         tuple(turn.apply((0.1, 0.0, 0.3))), tuple(turn.as_quat()))
        for i, turn in enumerate(turns)])


def test_the_calibrations_of_a_take_are_in_its_report(tmp_path, capsys):
    take = tmp_path / 'take'
    turned_on_the_spot(take)
    assert 'Calibrations' not in page_of(tmp_path, capsys, take)
    turn = ['base', str(take), '--turn']
    params = tmp_path / 'node.yaml'
    params.write_text('optitrack_vrpn: {ros__parameters: {domain: 7, '
                      'bodies: {wand: {offset: [0.125, 0.0, 0.0]}}}}')
    assert calibrate(turn) == 0 and not list(take.glob('calibration*'))
    assert calibrate([*turn, '-o', str(tmp_path / 'refused.yaml')]) == 0
    assert calibrate([*turn, '--height', '0', '--params', str(params),
                      '-o', str(tmp_path / 'found.yaml')]) == 0
    kept = [json.loads(path.read_text()) for path in sorted(take.glob('calibration*.json'))]
    assert kept == [json.loads((tmp_path / name).read_text())
                    for name in ('refused.json', 'found.json')]
    page = unescape(page_of(tmp_path, capsys, take))
    text = ' '.join(re.sub('<[^>]*>', ' ', page[page.index('>Calibrations<'):]).split())
    said = [kept[1]['record']['made'] + ' base wand offset [-0.1, ',
            'parameter bodies.wand.offset [0.025',
            'bodies.wand.offset in force in the take [0.125',
            kept[0]['record']['made'] + ' base wand',
            'offset refused: ' + kept[0]['reasons']['offset']]
    place = 0
    for words in said:    # the latest first
        place = text.index(words, place)
    assert 'domain' not in text
    cells = [json.loads(cell) for cell in re.findall(r'\[[^]]*\]', text)[:2]]
    assert cells[0] == pytest.approx(kept[1]['offset']['value'], rel=1e-4)
    assert cells[1] == pytest.approx(kept[1]['offset']['sd'], rel=0.06)


def test_a_malformed_record_is_one_line_of_the_report(tmp_path, capsys):
    turned_on_the_spot(tmp_path / 'take')
    good = '{"record": {}, "refused": [], "reasons": {}, "parameters": {"<b>": 1}}'
    wrong = [
        b'', b'{', b'[]', b'{}', b'\xff', b'[' * 100_000, b'{"record": 1}', b' ' * 2_000_000,
        good.replace('[]', '["<b>"]').encode(), good.replace('1', '1' + '0' * 400).encode(),
        good.replace('{}', '{"in_force": [1]}', 1).encode(),
        good.replace('{', '{"a": {"value": "x", "sd": {}}, ', 1).encode()]
    for number, text in enumerate(wrong):
        (tmp_path / 'take' / f'calibration_{number}.json').write_bytes(text)
    (tmp_path / 'take' / 'calibration_z.json').write_text(good)
    page = page_of(tmp_path, capsys, tmp_path / 'take')
    lines = re.findall(r'calibration_(\d+).json is not a record of', page)
    assert lines == sorted(map(str, range(len(wrong))))
    assert 'parameter &lt;b&gt;' in page and 'parameter <b>' not in page


def test_peaks_between_the_columns_of_pixels_are_drawn():
    times = np.arange(0, 60.0, 1 / 240)
    height = np.ones(len(times))
    height[7777], height[9999] = 1.75, 0.25
    stamps = BEGIN_NS + np.round(times * 1e9).astype(np.int64)
    made = body_of('wand', Trajectory(
        stamps, np.column_stack((times, times, height)), np.tile(STILL, (len(times), 1))))
    envelope = body_figures(take_of(made), made).envelope
    assert (envelope.high['up'].max(), envelope.low['up'].min()) == (1.75, 0.25)
    assert len(envelope.times_ns) == 800
    for name, row in (('east', times), ('up', height)):
        np.testing.assert_array_equal(envelope.low[name], [
            part.min() for part in np.split(row, np.searchsorted(stamps, envelope.times_ns[1:]))])


def test_events_of_a_long_take_are_found_once():
    made = body(seconds=130_000 / 240, noise_m=0.0002, move=lambda t: np.where(
        t > 99_999.5 / 240, 0.5, 0.0)).trajectory
    made.positions[59_990:60_010] = made.positions[59_990]
    made.stamps_ns[120_000:] += NS_PER_S
    f = body_figures(take_of(one := body_of('wand', made)), one)
    stamps = made.stamps_ns.tolist()
    assert f.breaks.frozen_ns == [(stamps[59_990], stamps[60_009])]
    assert f.breaks.gaps_ns == [(stamps[119_999], stamps[120_000])]
    assert [jump.end_ns for jump in f.breaks.jumps] == [stamps[100_000]] and f.poses == 130_000
    assert f.rest.seconds == pytest.approx(100_000 / 240, abs=0.01)
    assert f.rest.drift_mm < 0.01
    windows = np.lib.stride_tricks.sliding_window_view(made.positions[:100_000], 100, axis=0)
    assert f.rest.sigma3_mm == pytest.approx(
        3e3 * np.median(windows[::10].std(axis=2, ddof=1).max(axis=1)), rel=0.01)
    assert f.intervals[1].sum() == 129_999 and f.latencies[1].sum() == 130_000


def test_empty_and_broken_takes_have_a_page(tmp_path, capsys):
    write_poses(tmp_path / 'none', [])
    assert NO_POSE in page_of(tmp_path, capsys, tmp_path / 'none')
    write_poses(tmp_path / 'one', [('/wand/pose', BEGIN_NS, BEGIN_NS, (0.0, 0.0, 1.0), STILL)])
    page = page_of(tmp_path, capsys, tmp_path / 'one')
    assert "only one pose of 'wand' was recorded" in unescape(page) and NO_POSE not in page
    poses = [('/wand/pose', BEGIN_NS + i * 4_000_000, BEGIN_NS + i * 4_000_000,
              (0.0, 0.0, float(i)), STILL) for i in range(300)]
    writer = write_poses(tmp_path / 'killed', poses, close=False)
    writer.flush()
    assert 'was not closed' in page_of(tmp_path, capsys, tmp_path / 'killed')


def test_a_raw_capture_shows_the_body_that_was_out_of_view(tmp_path, capsys):
    page = page_of(tmp_path, capsys, capture('motive_like_5x240'), '--body', 'body_1drone')
    assert re.search(r"'body_1drone': no pose [a-z ]+ 3\.\d\d s", unescape(page))


def written_by_rosbags(folder, reference, estimate):
    """Write the poses of a body and the odometry of a camera with another program."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    def rows(trajectory, message_of):
        for stamp_ns, position, quat in zip(
                trajectory.stamps_ns.tolist(), trajectory.positions, trajectory.quats_xyzw):
            pose = make('geometry_msgs/Pose', make('geometry_msgs/Point', *position),
                        make('geometry_msgs/Quaternion', *quat))
            yield stamp_ns, message_of(stamp_ns, pose)

    zero = make('geometry_msgs/Vector3', 0.0, 0.0, 0.0)
    twist = make('geometry_msgs/TwistWithCovariance', make('geometry_msgs/Twist', zero, zero),
                 np.zeros(36))
    recorded = [(*row, '/drone/pose') for row in rows(reference, lambda stamp_ns, pose: make(
        'geometry_msgs/PoseStamped', header(stamp_ns), pose))]
    recorded += [(*row, '/camera/odom') for row in rows(estimate, lambda stamp_ns, pose: make(
        'nav_msgs/Odometry', header(stamp_ns, 'odom'), 'camera',
        make('geometry_msgs/PoseWithCovariance', pose, np.zeros(36)), twist))]
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connections = {}
        for stamp_ns, message, topic in sorted(recorded, key=lambda row: row[0]):
            if topic not in connections:
                connections[topic] = writer.add_connection(
                    topic, message.__msgtype__, typestore=typestore())
            writer.write(connections[topic], stamp_ns + 3_000_000, cdr(message))


@pytest.mark.parametrize('way', ['file', 'topic'])
def test_an_odometry_is_evaluated_with_offset_and_hand_eye(tmp_path, capsys, way):
    """The estimate is a file in TUM's format, or a topic of the recording."""
    reference, estimate = recording(21, duration_s=12.0)
    estimate = Trajectory(estimate.stamps_ns, 1.02 * estimate.positions, estimate.quats_xyzw)
    if way == 'topic':
        written_by_rosbags(tmp_path / 'take', reference, estimate)
        what = '/camera/odom'
    else:
        write_poses(tmp_path / 'take', [
            ('/drone/pose', stamp + 1_000_000, stamp, tuple(p), tuple(q)) for stamp, p, q in zip(
                reference.stamps_ns.tolist(), reference.positions.tolist(),
                reference.quats_xyzw.tolist())])
        what = tmp_path / 'odometry.txt'
        what.write_text(''.join(format_tum(estimate)))
    page = page_of(tmp_path, capsys, tmp_path / 'take', '--reference', 'drone', '--estimate', what)
    offset = float(re.search(r'of the estimate: ([\d.]+) ms', page)[1])
    assert offset == pytest.approx(37.1, abs=1.0)
    sensor = re.search(r'on the body: \[(.*?)\] m', page)[1]
    np.testing.assert_allclose(
        [float(text) for text in sensor.split(',')], CAMERA_M, atol=0.002)
    assert 'ATE, position' in page and 'RPE over 1 s, attitude' in page
    size, deviation = map(float, re.search(
        r'The estimate is ([\d.]+) ± ([\d.]+) times', page).groups())
    assert abs(size - 1.02) < 4 * deviation < 0.02
    way_m, = (panel['at'][-1] for panels in (json.loads(unescape(text)) for text in re.findall(
        'data-plot="(.*?)"', page)) for panel in panels if panel['x'] == 'way (m)')
    sensor = reference.at(slice(240, -240, 8)).of_child(Rotation.identity(), CAMERA_M)
    steps = np.linalg.norm(np.diff(sensor.positions, axis=0), axis=1)
    assert way_m == pytest.approx(steps.sum(), rel=0.01)


@pytest.mark.parametrize('arguments, said', [
    (['--reference', 'x', '--estimate', '/y'], 'has no body'),
    (['--reference', 'wand', '--estimate', '/y'], 'neither a file nor a recorded topic'),
    (['--body', 'x'], 'has no body')])
def test_what_cannot_be_reported_is_said(tmp_path, capsys, arguments, said):
    write_poses(tmp_path / 'take', [('/wand/pose', BEGIN_NS + i, BEGIN_NS + i * 10**6,
                                     (0.0, 0.0, 0.0), STILL) for i in range(10)])
    assert report_command.main(
        [str(tmp_path / 'take'), *arguments, '-o', str(tmp_path / 'r.html')]) == USAGE
    assert said in capsys.readouterr().err


def test_a_raw_recording_is_read_with_its_bodies_and_clock():
    take = load_take(capture('udp_lob'))
    assert set(take.bodies) == {'rigid_body_1', 'rigid_body_2', 'rigid_body_3'}
    assert take.kind == 'raw'
    assert take.clock[-1].epoch == 0


def test_the_rate_of_equal_intervals_is_the_same_in_the_first_bin():
    made = body(rate=120)
    made.trajectory.stamps_ns[1:] -= 1000
    made = body_of('wand', made.trajectory)
    assert body_figures(take_of(made), made).rates[1] == pytest.approx(120.0)


def not_json(name):
    raise AssertionError(f'{name} is not JSON')


@pytest.mark.parametrize('kept, moved, severity', [
    (lambda i: True, 0.0, INFO), (lambda i: not 300 <= i < 310, 0.0, WARN),
    (lambda i: True, 3.0, ERROR)])
def test_json_is_complete_and_strict_exits_by_severity(
        tmp_path, capsys, monkeypatch, kept, moved, severity):
    monkeypatch.chdir(tmp_path)
    write_poses(tmp_path / 'take', [
        ('/wand/pose', BEGIN_NS + i * 4_166_667, BEGIN_NS + i * 4_166_667,
         (1e-4 * (i % 7) + (moved if i > 1500 else 0.0), 0.0, 1.0), STILL)
        for i in range(3000) if kept(i)])
    command = [str(tmp_path / 'take')]
    assert report_command.main([*command, '--json']) == 0
    assert not (tmp_path / 'report.html').exists()    # it is written where it is asked for
    data = json.loads(capsys.readouterr().out, parse_constant=not_json)
    assert report_command.main([*command, '--json', '--strict']) == severity
    assert data['severity'] == severity.word
    assert data['verdict'] == data['findings'][0]['text']
    (one,) = data['bodies']
    assert one['name'] == 'wand' and one['rate_hz'] == pytest.approx(240.0, rel=1e-4)
    assert one['poses'] == data['topics']['/wand/pose'] == sum(map(kept, range(3000)))
    for gap in one['gaps']:
        assert gap['end_ns'] - gap['begin_ns'] == 11 * 4_166_667
    for jump in one['jumps']:
        assert jump['metres'] == pytest.approx(moved, abs=0.001)
    capsys.readouterr()
    assert report_command.main([*command, '--strict']) == severity


def test_a_fault_of_the_take_that_is_compared_is_in_the_verdict(tmp_path, capsys):
    for name, moved in (('good', 0.0), ('bad', 3.0)):
        write_poses(tmp_path / name, [
            ('/wand/pose', BEGIN_NS + i * 4_166_667, BEGIN_NS + i * 4_166_667,
             (1e-4 * (i % 7) + (moved if i > 1500 else 0.0), 0.0, 1.0), STILL)
            for i in range(3000)])
    command = [str(tmp_path / 'good'), '--compare', str(tmp_path / 'bad')]
    assert report_command.main([*command, '--json', '--strict']) == ERROR
    data = json.loads(capsys.readouterr().out)
    assert data['severity'] == data['compared']['severity'] == 'error'
    assert data['findings'][0]['severity'] != 'error'
    jumped = data['compared']['verdict']
    assert data['compared']['name'] == 'bad' and jumped != data['verdict']
    page = page_of(tmp_path, capsys, *command)
    assert f'bad: {jumped}' in capsys.readouterr().out
    assert jumped in unescape(page)
