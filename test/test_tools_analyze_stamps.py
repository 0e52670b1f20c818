# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The analysis of a series of stamps and of a live topic."""

import math
import os
import random
import signal
import sys
import time

from hypothesis import given, strategies as st
from optitrack_vrpn.errors import BackendUnavailableError
from optitrack_vrpn.stats import histogram, summarise
from optitrack_vrpn.tools import analyze_stamps_command as analyze_stamps
import pytest
from tool_kit import start_tool

UNIX = 1_700_000_000 * 10**9
MS = 1_000_000


def test_a_regular_series_with_one_hole():
    stamps = [UNIX + i * 4 * MS for i in range(1000) if not 500 <= i < 510]
    report = summarise(stamps, [s + 2 * MS for s in stamps])
    assert report.messages == 990 and report.rate_hz == pytest.approx(250.0)
    assert report.duration_s == pytest.approx(3.996)
    assert report.intervals.median == pytest.approx(0.004)
    assert report.intervals.maximum == pytest.approx(0.044)
    assert [(gap.after_s, gap.length_s) for gap in report.gaps] == [
        (pytest.approx(1.996), pytest.approx(0.044))]
    assert report.missing == 10
    assert report.age.mean == pytest.approx(0.002) and report.age.std == pytest.approx(0, abs=1e-9)


def test_jitter_is_its_standard_deviation():
    rnd = random.Random(1)
    stamps = [UNIX + i * 10 * MS + int(rnd.gauss(0, 300e3)) for i in range(5000)]
    report = summarise(stamps, stamps)
    assert report.intervals.std == pytest.approx(300e-6 * math.sqrt(2), rel=0.05)
    assert report.intervals.mean == pytest.approx(0.010, rel=1e-3)


def test_repeated_and_backward_stamps_are_counted_and_kept_out_of_the_intervals():
    report = summarise([UNIX + t * MS for t in (0, 10, 10, 20, 15, 30, 40)], [UNIX] * 7)
    assert (report.repeated, report.backwards) == (1, 1)
    assert report.intervals.minimum == pytest.approx(0.010)


def test_age_is_unknown_when_the_stamps_are_of_another_clock():
    stamps = [1234 * 10**9 + i * MS for i in range(100)]
    report = summarise(stamps, [UNIX + i * MS for i in range(100)])
    assert math.isnan(report.age.mean)
    assert 'unknown' in analyze_stamps.describe('/a', report, [])


@given(st.lists(st.integers(0, 10**10), max_size=50))
def test_any_series_is_described(stamps):
    report = summarise(stamps, stamps)
    bars = histogram(stamps)
    rising = sum(b > a for a, b in zip(stamps, stamps[1:]))
    assert sum(count for _, _, count in bars) == rising
    assert report.repeated + report.backwards + rising == max(0, len(stamps) - 1)
    assert analyze_stamps.describe('/wand/pose', report, bars).startswith('/wand/pose: ')


def test_lengths_must_agree():
    with pytest.raises(ValueError, match='2 stamps and 1'):
        summarise([1, 2], [1])


def test_plot_without_matplotlib_is_told_before_anything_else(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    with pytest.raises(BackendUnavailableError, match='python3-matplotlib|make env'):
        analyze_stamps.empty_figure()
    assert analyze_stamps.main(['/a/pose', '--plot', 'x.png']) == 1
    assert '--plot needs matplotlib' in capsys.readouterr().err


def test_plot_writes_a_picture(tmp_path):
    pytest.importorskip('matplotlib', reason='the picture needs matplotlib')
    stamps = [UNIX + i * 4 * MS for i in range(100)]
    path = tmp_path / 'stamps.png'
    analyze_stamps.plot(analyze_stamps.empty_figure(), str(path), '/a', stamps,
                        [s + MS for s in stamps])
    assert path.read_bytes().startswith(b'\x89PNG')


@pytest.mark.ros
@pytest.mark.parametrize('arguments, said', [
    (['bad topic'], "'bad topic' is not a topic name"), ([''], "'' is not a topic name"),
    (['/a/{b}'], "'/a/{b}' is not a topic name"), (['/x/1'], "'/x/1' is not a topic name"),
    (['/x', '--ros-args', '-p'], "Couldn't parse trailing -p flag"),
    (['/x', '--ros-args', '-r', '__ns:=/a b'], "Couldn't parse remap rule")])
def test_what_ros_does_not_take_is_told_in_a_line_and_is_code_64(arguments, said, capsys):
    pytest.importorskip('rclpy', reason='needs ROS 2')
    assert analyze_stamps.main(arguments) == 64
    line, = capsys.readouterr().err.splitlines()
    assert line.startswith('analyze_stamps: ') and said in line


def start(*arguments):
    """Start the tool in a process of its own."""
    return start_tool(
        'analyze_stamps', *arguments, env=dict(os.environ, PYTHONUNBUFFERED='1'))


@pytest.fixture
def publish(observer):
    """Give a function that makes a publisher."""
    return lambda kind, topic: observer.node.create_publisher(kind, topic, 10)


@pytest.mark.ros
def test_a_live_topic_is_judged(publish):
    from geometry_msgs.msg import PoseStamped
    publisher = publish(PoseStamped, '/wand/pose')
    child = start('/wand/pose', '--seconds', '2', '--wait', '40')
    message = PoseStamped()
    message.header.frame_id = 'optitrack'
    begin, i = time.time_ns() - 5 * MS, 0
    end = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < end:
        # exact stamps of 100 Hz, 5 ms old when they leave, however late this wakes
        time.sleep(max(0.0, (begin + i * 10 * MS + 5 * MS - time.time_ns()) * 1e-9))
        stamp = begin + i * 10 * MS
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
        publisher.publish(message)
        i += 1
    out, err = child.communicate(timeout=10)
    assert child.returncode == 0, err
    assert ', 100.000 Hz (median)' in out and 'frame optitrack' in out
    table = (line.split() for line in out.splitlines())
    rows = {cells[0]: cells[1:] for cells in table if len(cells) == 7}
    assert float(rows['intervals'][3]) == pytest.approx(10.0, abs=1e-3)
    assert 4.9 < float(rows['age'][3]) < 3000


@pytest.mark.ros
def test_an_empty_topic_is_explained(capsys):
    pytest.importorskip('rclpy', reason='needs ROS 2')
    assert analyze_stamps.main(['/absent/pose', '--wait', '1']) == 1
    assert '0 publishers' in capsys.readouterr().err


@pytest.mark.ros
def test_an_interrupt_ends_the_wait_for_the_first_message():
    pytest.importorskip('rclpy', reason='needs ROS 2')
    child = start('/absent/pose', '--wait', '600')
    try:
        assert 'listening to /absent/pose' in child.stdout.readline()
        time.sleep(1.0)    # in the midst of waiting; right before is as good
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130 and err == 'analyze_stamps: stopped\n'


@pytest.mark.ros
def test_a_topic_of_another_type_is_told_with_those_that_will_do(publish, capsys):
    from geometry_msgs.msg import PoseStamped
    from nav_msgs.msg import Odometry
    publish(Odometry, '/cf1/odom')
    publish(PoseStamped, '/cf1/pose')
    publish(PoseStamped, '/a/pose')
    assert analyze_stamps.main(['/cf1/odom', '--wait', '60']) == 64
    line, = capsys.readouterr().err.splitlines()
    assert 'type nav_msgs/msg/Odometry' in line
    assert 'try /cf1/pose, /a/pose' in line
