# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""How processes end: signals at inconvenient times, and parents that have exited."""

import os
from pathlib import Path
import signal
import subprocess
import sys

from conftest import gone
import pytest
from rosgraph import wait_until

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='signals as Linux has them')

#: The simulator's own loop many times in one process, with two signals right after its start.
#: A handler that takes the lock of the event which the main thread waits for hangs here.
HAMMER = """
import contextlib, os, signal, threading
from optitrack_vrpn.sim import command

class Server:
    scenario = None
    failure = None
    finished = threading.Event()
    def __init__(self, scenario, live): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass

go = threading.Semaphore(0)
def shoot():
    while True:
        go.acquire()
        for number in (signal.SIGINT, signal.SIGTERM) * 3:
            os.kill(os.getpid(), number)
        shot.release()
shot = threading.Semaphore(0)
threading.Thread(target=shoot, daemon=True).start()
command.MotiveSimServer = Server
command.announce = lambda server: go.release()
later = lambda number, frame: None
signal.signal(signal.SIGINT, later), signal.signal(signal.SIGTERM, later)
for i in range(1500):
    assert command.main(['--port', '0']) == 0
    shot.acquire()
print('done')
"""


def test_the_simulator_ends_when_signals_come_at_any_moment():
    done = subprocess.run([sys.executable, '-c', HAMMER], cwd=ROOT, capture_output=True,
                          text=True, timeout=60)
    assert done.stdout == 'done\n', done.stderr


def test_a_child_ends_when_its_parent_is_killed():
    grandchild = (
        'import time; from optitrack_vrpn.cli.signals_io import end_with_parent; '
        'end_with_parent(); print(__import__("os").getpid(), flush=True); time.sleep(60)')
    script = (
        'import os, subprocess, sys; from optitrack_vrpn.cli.signals_io import with_parent; '
        f'subprocess.Popen([sys.executable, "-c", {grandchild!r}], '
        'env=with_parent(os.environ)).wait()')
    parent = subprocess.Popen([sys.executable, '-c', script], cwd=ROOT, stdout=subprocess.PIPE,
                              text=True, start_new_session=True)
    pid = int(parent.stdout.readline())
    assert Path(f'/proc/{pid}').exists()
    parent.kill()
    parent.wait()
    parent.stdout.read()    # ends when the last process that holds the pipe has ended
    parent.stdout.close()
    assert gone([pid])


def test_a_child_whose_parent_is_gone_already_ends_at_once():
    script = ('from optitrack_vrpn.cli.signals_io import end_with_parent; end_with_parent(); '
              'print("still there")')
    done = subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True,
                          text=True, timeout=30, env=dict(os.environ, OPTITRACK_VRPN_PARENT='1'))
    assert done.returncode == -signal.SIGTERM and done.stdout == ''


@pytest.mark.parametrize('number', [
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_command_that_a_signal_ends_leaves_no_part_of_a_file(number, tmp_path):
    script = ('import sys\n'
              'from pathlib import Path\n'
              'import re\nfrom optitrack_vrpn.cli.command_io import command\n'
              'from optitrack_vrpn.cli.files_io import whole_file\n'
              '@command("x")\n'
              'def main():\n'
              '    with whole_file(Path("out.csv"), re.compile(b"")):\n'
              '        sys.stdin.read()\n'
              '    return 0\n'
              'sys.exit(main())\n')
    process = subprocess.Popen(
        [sys.executable, '-c', script], cwd=tmp_path, stdin=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=str(ROOT)))
    with process:
        wait_until(lambda: os.listdir(tmp_path), what='the beginning of a file')
        process.send_signal(number)
        error = process.stderr.read()
    assert process.returncode == 128 + number and os.listdir(tmp_path) == []
    assert error.splitlines()[-1].startswith('x: ') and 'Traceback' not in error


def test_an_error_in_place_of_the_exception_of_a_signal_is_the_end_by_the_signal():
    """As pybind11 makes one of an exception during a conversion."""
    script = (
        'import os, signal, sys\n'
        'from optitrack_vrpn.cli.command_io import command\n'
        '@command("x")\n'
        'def main():\n'
        '    try:\n'
        '        os.kill(os.getpid(), signal.SIGTERM)\n'
        '    except BaseException:\n'
        '        raise RuntimeError from None\n'
        'sys.exit(main())\n')
    done = subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM and done.stderr.startswith('x: ')
