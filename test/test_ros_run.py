# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A node's process ends when it should, and not earlier, whatever the middleware does."""

import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import pytest

ROOT = Path(__file__).resolve().parent.parent

STUCK = """
import time, rclpy
from optitrack_vrpn.node.base import process
process.LEAVE_S = 0.5
rclpy.try_shutdown = lambda: time.sleep(60)
def interrupted():
    raise KeyboardInterrupt
raise SystemExit(process.run(interrupted, ['node']))
"""

#: A waitable that is destroyed while the executor looks at it, so many times.
STUMBLING = """
import sys, threading, rclpy
from optitrack_vrpn.node.base import process
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.waitable import NumberOfEntities, Waitable

class Gone(Waitable):
    left = int(sys.argv[1])
    def __enter__(self): pass
    def __exit__(self, *_): pass
    def get_num_entities(self): return NumberOfEntities()
    def is_ready(self, wait_set): return False
    def add_to_wait_set(self, wait_set):
        if self.left:
            self.left -= 1
            raise InvalidHandle('destruction was requested')

def make():
    node = Node('stumbling')
    gone = Gone(node.default_callback_group)
    node.add_waitable(gone)
    def end():
        if not gone.left:
            print('went on')
            rclpy.shutdown()
    node.create_timer(0.01, end)
    return node
raise SystemExit(process.run(make, ['node']))
"""

#: A node whose terminal is closed, or that gets Ctrl-\\, shortly after its start.
CLOSED = """
import os, sys
from optitrack_vrpn.node.base import process
from rclpy.node import Node

class Mine(Node):
    def __init__(self):
        super().__init__('closed')
        self.create_timer(0.01, lambda: os.kill(os.getpid(), int(sys.argv[1])))
    def destroy_node(self):
        print('released')
        super().destroy_node()
raise SystemExit(process.run(Mine, ['node']))
"""


REFUSED = """
import sys
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.node.base.process import run
def make():
    raise RuntimeError(sys.argv[1])
try:
    run(make, ['node'])
except ConfigurationError as error:
    print(error)
"""


def run_program(text, *arguments):
    """Run a Python program with the package."""
    return subprocess.run([sys.executable, '-c', text, *map(str, arguments)], cwd=ROOT,
                          capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize('error, remedy', [
    ('parse error: Sequence should be of same type. Value type', 'write 0.0 for 0'),
    ("Couldn't parse parameter override rule: '-p server:='. Error: error not set, at rcl.c:352",
     'gives an empty text'),
    # Cyclone DDS 0.10.5 with a wrong CYCLONEDDS_URI.
    ('error creating node: error not set, at rcl/node.c:252', 'CYCLONEDDS_URI'),
], ids=['mixed list', 'no value', 'middleware'])
def test_a_node_that_ros_refuses_is_explained(error, remedy):
    done = run_program(REFUSED, error)
    assert remedy in done.stdout, done.stderr
    assert 'Error: error not set' not in done.stdout


def test_a_middleware_that_does_not_let_go_is_left_behind():
    begin = time.monotonic()
    done = run_program(STUCK)
    assert done.returncode == 0, done.stderr
    assert 'within 0.5 s' in done.stderr
    assert time.monotonic() - begin < 40


def test_something_destroyed_under_the_executor_does_not_end_the_node():
    done = run_program(STUMBLING, 3)
    assert (done.returncode, done.stdout) == (0, 'went on\n'), done.stderr
    assert done.stderr.count('executor continues after') == 1


@pytest.mark.parametrize('number', [signal.SIGHUP, signal.SIGQUIT])
def test_a_node_whose_terminal_is_closed_ends_as_on_sigterm(number):
    done = subprocess.run([sys.executable, '-c', CLOSED, str(int(number))], cwd=ROOT,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, 'released\n', '')


def test_an_executor_that_never_works_again_is_given_up():
    done = run_program(STUMBLING, 10**9)
    assert done.returncode != 0 and 'InvalidHandle' in done.stderr


#: A signal while a message is converted, after which pybind11 raises another error.
CONVERTING = """
import os, signal, time
from optitrack_vrpn.node.base.process import run
from rclpy.node import Node

def make():
    node = Node('converting')
    def convert():
        if {signal}:
            os.kill(os.getpid(), signal.SIGINT)
        try:
            time.sleep(0.2 if {signal} else 0)
        except KeyboardInterrupt:
            pass
        raise RuntimeError('unable to convert')
    node.create_timer(0.01, convert)
    return node
raise SystemExit(run(make, ['node']))
"""


def test_an_error_caused_by_a_signal_is_a_normal_end():
    for by_signal in (True, False):
        done = run_program(CONVERTING.format(signal=by_signal))
        assert (done.returncode == 0) == by_signal, done.stderr
        assert ('unable to convert' in done.stderr) != by_signal


@pytest.mark.parametrize('tool, arguments, code, said', [
    ('optitrack_vrpn_node', [], 64, 'optitrack_vrpn_node: ROS_DOMAIN_ID is 233; '),
    ('mocap_control', ['status'], 64, 'mocap_control: ROS_DOMAIN_ID is 233; '),
    ('doctor', ['--server', '127.0.0.1', '--port', '1', '--timeout', '0.1'], 2, 'ROS_DOMAIN_ID')])
def test_a_domain_without_ports_is_one_clear_error(tool, arguments, code, said):
    """Fast DDS would end the process in the middle of a report, with the exit code 1."""
    done = subprocess.run(
        [sys.executable, '-m', 'optitrack_vrpn', tool, *arguments], cwd=ROOT, timeout=60.0,
        env={**os.environ, 'ROS_DOMAIN_ID': '233'}, capture_output=True, text=True)
    assert done.returncode == code, done
    assert said in done.stdout + done.stderr and 'Traceback' not in done.stderr
