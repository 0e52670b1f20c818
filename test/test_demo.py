# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo as a new user runs it, and its table."""

import fcntl
from functools import partial
import math
import os
import random
import re
import signal
import subprocess
import termios
import time

from conftest import children_of, gone, lacking
from optitrack_vrpn.core.names import counted
import pytest
from tool_kit import ROOT, run_tool, start_tool
from transport_kit import wait_until

pytestmark = pytest.mark.timeout(300)


def demo(*arguments):
    done = run_tool('demo', *arguments)
    table = [line for line in done.stdout.splitlines() if not line.startswith(('demo: ', 'try: '))]
    assert max(map(len, table), default=0) <= int(os.environ.get('COLUMNS', 80))
    return done


def running(*arguments):
    """Start a demo that runs until it is ended."""
    from rosgraph import NodeProcess
    return NodeProcess('--seconds', '60', *arguments, tool='demo', ros=False)


@pytest.fixture(autouse=True)
def ros2(tmp_path, monkeypatch):
    """Put a ros2 on the path, which a ROS from PyPI lacks."""
    path = tmp_path / 'bin' / 'ros2'
    path.parent.mkdir()
    path.write_text('#!/bin/sh\n')
    path.chmod(0o755)
    monkeypatch.setenv('PATH', f'{path.parent}{os.pathsep}{os.environ["PATH"]}')
    monkeypatch.setenv('COLUMNS', '140')
    return path


def test_demo_shows_every_body_and_ends_well():
    done = demo('--seconds', '3')
    for cells in rows_of(done, ('Demo_Body_1', 'body_1demo', 'demo_wand')):
        check_row(cells)
    hint, = [line for line in done.stdout.splitlines() if 'ros2' in line]
    assert re.fullmatch(r'try: ROS_DOMAIN_ID=\d+ ros2 topic echo '
                        r'/(Demo_Body_1|body_1demo|demo_wand)/pose', hint)
    assert re.search(r'skew [-\d.]+ ppm', done.stdout)


def rows_of(done, bodies):
    """Give the cells of each body, all of which must have streamed."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'all {counted(len(bodies), "body")} streamed' in done.stdout
    for body in bodies:
        found = [line for line in done.stdout.splitlines() if line.startswith(body)]
        assert len(found) == 1, done.stdout
        yield re.split(r'  +', found[0])


def check_row(cells):
    """Compare a body's cells with what is simulated: level circles, a network that jitters."""
    assert int(cells[1]) > 100
    assert 100 < float(cells[2]) < 300    # by arrivals; a busy machine may lose some
    east, north = float(cells[3]), float(cells[4])
    assert math.hypot(east, north) == pytest.approx(1.0, abs=0.01)
    # Nose ahead, turning left: a quarter turn left of the way out.
    heading = float(cells[6].removesuffix(' deg'))
    ahead = math.degrees(math.atan2(-north, east))
    assert abs((heading - ahead + 180.0) % 360.0 - 180.0) < 3.0
    assert cells[-1] == 'yes'


@pytest.mark.parametrize('parameters, bodies, echo', [
    ("topics: {pose: '{body}_enu', pose_ned: '{body}_ned'}, qos: {reliability: best_effort}, "
     "frames: {body: 'm/{body}'}", ['demo_wand'], '/BODY_enu'),
    ('bodies: {demo wand: {topic: stick, frame: base}}, outputs: [pose_ned, tf_ned]', ['stick'],
     '/BODY/pose_ned'),
    ("topics: {pose: '/lab/{body}/pose'}, outputs: [pose], bodies: {allow: ['Demo*', 1demo]}",
     [], '/lab/BODY/pose'),
], ids=['enu', 'ned', 'allow'])
def test_demo_follows_the_parameters_of_the_node(parameters, bodies, echo, tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text(f'/**: {{ros__parameters: {{{parameters}}}}}\n')
    done = demo('--seconds', '2', '--params-file', str(path))
    bodies = ['Demo_Body_1', 'body_1demo', *bodies]
    *_, last = rows_of(done, bodies)
    assert last[-1] == ('no' if 'outputs: [pose' in parameters else 'yes')
    check_row([*last[:-1], 'yes'])
    expected = [echo.replace('BODY', body) for body in bodies]
    hint, = re.findall(r'ros2 topic echo (\S+)', done.stdout)
    assert hint in expected


@pytest.mark.parametrize('ned', [False, True])
def test_a_row_is_what_a_subscriber_has_received(ned):
    """100 Hz; nose south-east; nothing is shown of a body whose poses have stopped."""
    chain = pytest.importorskip('optitrack_vrpn.sim.demo.chain_ros')
    from geometry_msgs.msg import PoseStamped
    topic = chain.BodyTopic('wand')
    for i in range(101):
        message = PoseStamped()
        place = message.pose.position
        place.x, place.y, place.z = (2.0, 1.0, -3.0) if ned else (1.0, 2.0, 3.0)
        half = math.radians(135.0 if ned else -45.0) / 2
        message.pose.orientation.z, message.pose.orientation.w = math.sin(half), math.cos(half)
        topic.add(message, 0.01 * i)
    row = topic.row('wand', ned, True, 1.1)
    assert (row.name, row.poses, row.has_transform) == ('wand', 101, True)
    assert row.rate_hz == pytest.approx(100.0)
    assert row.position == (1.0, 2.0, 3.0)
    assert row.heading_deg == pytest.approx(135.0)
    silent = topic.row('wand', ned, True, 1.6)
    assert (silent.poses, silent.rate_hz, silent.position) == (101, None, None)


@pytest.mark.parametrize('text, said', [
    ("/**: {ros__parameters: {bodies: {deny: ['*']}}}",
     ['bodies.deny', 'Demo Body 1, 1demo, demo wand']),
    ('/**: {ros__parameters: {outputs: [tf, status]}}', ['no poses']),
    # A file that ROS cannot read ends the node at once.
    ('{', ["Couldn't parse"])])
def test_parameters_that_leave_nothing_to_show_end_the_demo(text, said, tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    done = demo('--params-file', str(path))
    assert done.returncode == 64
    assert not lacking(done.stderr, *said)
    assert 'did not appear' not in done.stderr and 'Traceback' not in done.stderr


def test_demo_fails_where_nothing_streams():
    # The discard port: no program listens there.
    done = demo('--seconds', '3', '--server', '127.0.0.1:9')
    assert done.returncode == 1
    line, = done.stderr.splitlines()
    assert line.startswith('demo: no body appeared: ')
    assert re.search('nothing listens on (UDP|TCP) port 9', line)
    assert 'doctor' not in line
    assert 'clock' not in done.stdout and 'latency' not in done.stdout
    assert 'ros2 topic' not in done.stdout


def test_the_hint_is_a_command_that_shows_a_pose_without_ros2(ros2, monkeypatch):
    """Also the proof that the demo is where it says and nowhere else."""
    monkeypatch.setenv('PATH', str(ros2.parent))
    ros2.unlink()
    with running() as process:
        hint = process.wait_for(r'try: ROS_DOMAIN_ID=(\d+) (.*)')
        domain, command = hint[1], hint[2]
        assert domain != os.environ['ROS_DOMAIN_ID']
        shown = subprocess.run(
            command.split(), cwd=ROOT, capture_output=True, text=True, timeout=60,
            env=dict(os.environ, ROS_DOMAIN_ID=domain))
        assert shown.returncode == 0, shown.stderr
        assert 'frame_id: optitrack' in shown.stdout and 'orientation:' in shown.stdout
        # It does not show in the domain of its user.
        assert 'demo' not in run_tool('topics').stdout.lower()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_a_signal_ends_the_demo_at_once(number):
    with running('--web') as process:
        process.wait_for('node is active')
        children = children_of(process.process.pid)
        assert len(children) == 1, 'the page; simulator, node and table are threads'
        began = time.monotonic()
        code, _ = process.end(number)
        assert time.monotonic() - began < 20.0    # 0.4 s on a quiet machine; it would run 60 s
        assert gone(children)
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        assert 'Traceback' not in process.log


def has_handler(pid, number):
    """Return whether a process has a handler of a signal of its own, as Linux tells."""
    with open(f'/proc/{pid}/status') as stream:
        caught = int(re.search(r'SigCgt:\s*([0-9a-f]+)', stream.read())[1], 16)
    return caught >> (number - 1) & 1


@pytest.mark.slow
def test_a_signal_at_any_moment_leaves_no_process():
    generator = random.Random(20261128)
    for _ in range(8):
        number = generator.choice([signal.SIGINT, signal.SIGTERM])
        process = start_tool('demo', '--seconds', '600', *generator.choice([(), ('--web',)]))
        # Before that, Python ends by itself: test_commands.py has those moments.
        wait_until(partial(has_handler, process.pid, signal.SIGTERM))
        time.sleep(generator.choice([0.1, 1.0, 3.0]) * generator.random())
        children = children_of(process.pid)
        process.send_signal(number)
        output, error = process.communicate(timeout=100)
        assert gone(children)
        assert process.returncode in (128 + number, -number), (output, error)
        assert 'Traceback' not in error and 'Exception' not in error, error


def test_a_closed_terminal_ends_the_demo():
    leader, follower = os.openpty()
    process = start_tool(
        'demo', '--seconds', '60', stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(follower)
    said = b''
    while b'try: ' not in said:
        said += os.read(leader, 4096)
    os.close(leader)
    assert process.wait(60) == 128 + signal.SIGHUP
