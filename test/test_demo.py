# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo as a newcomer runs it, and its table."""

import math
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

from conftest import at_last
from optitrack_vrpn.core.view import BodyRow, missing, table
import pytest

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).resolve().parent.parent
DEMO = [sys.executable, '-m', 'optitrack_vrpn', 'demo']


def demo(*arguments):
    return subprocess.run(
        [*DEMO, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=90,
        env=dict(os.environ))


def test_demo_shows_every_body_and_ends_well():
    # Its time begins before nodes and topics have found each other, which may take most of it.
    at_last(check_demo, '4', '12', '24')


def check_demo(seconds):
    done = demo('--seconds', seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    for body in ('Rigid_Body_1', 'body_1drone', 'wand'):
        found = [line for line in done.stdout.splitlines() if line.startswith(body)]
        assert len(found) == 1, done.stdout
        cells = re.split(r'  +', found[0])
        assert int(cells[1]) > 100
        assert 100 < float(cells[2]) < 245    # by stamps; a busy machine may lose some
        assert math.hypot(float(cells[3]), float(cells[4])) < 3
        assert cells[-1] == 'yes'
    assert 'all 3 bodies streamed' in done.stdout
    assert re.search(r'skew [-\d.]+ ppm', done.stdout)


def test_demo_fails_where_nothing_streams():
    at_last(check_failing_demo, '2', '10', '20')


def check_failing_demo(seconds):
    # The discard port: nobody listens there.
    done = demo('--seconds', seconds, '--server', '127.0.0.1:9')
    assert done.returncode == 1
    assert '0 of 1 bodies appeared' in done.stderr
    assert 'nothing listens on UDP port 9' in done.stderr


def children_of(parent):
    """List the processes that a process has started."""
    found = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = stat.read_text().rpartition(')')[2].split()
        except OSError:    # gone meanwhile
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def test_demo_ends_cleanly_on_interrupt():
    process = subprocess.Popen(
        [*DEMO, '--seconds', '60'], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=dict(os.environ, PYTHONUNBUFFERED='1'))
    for line in process.stdout:
        if 'the node is active' in line:
            break
    children = children_of(process.pid)
    time.sleep(0.5)    # somewhere in the midst of drawing
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and 'Traceback' not in rest
    assert len(children) >= 2
    assert not any(Path(f'/proc/{pid}').exists() for pid in children)


def test_table_says_what_is_missing():
    there = BodyRow('wand', 500, 240.0, (0.1, -0.2, 1.0), 90.0, 0.001, 5e-6, 4e-4, 500)
    lost = BodyRow('cup', 0, 0.0, None, math.nan, math.nan, math.nan, math.nan, 0)
    unframed = there._replace(name='box', transforms=0)
    assert missing([there], 1) == []
    assert missing([there, lost, unframed], 4) == [
        'cup did not stream', 'box has no transform on /tf', '3 of 4 bodies appeared']
    lines = table([there, lost], {'mode': 'tracking', 'skew_ppm': '-40.0'})
    assert '+0.100' in lines[2] and '1000 us' in lines[2] and 'skew -40.0 ppm' in lines[-2]
