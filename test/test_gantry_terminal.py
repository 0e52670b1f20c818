# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command gantry: its commands for a running controller, its view and the terminal."""

import os
import pty
import signal
import subprocess
import termios
import threading

from conftest import lacking
from gantry_graph import Axes, controller, User
from optitrack_vrpn.guests.machine import gantry_command as command
import pytest
from rosgraph import wait_until
from tool_kit import start_tool

pytestmark = [pytest.mark.ros, pytest.mark.network]


def test_the_terminal_commands_the_controller_and_reports_what_is_refused(observer, capsys):
    with controller():
        axes = Axes(observer)

        def run(line):
            return command.main(line.split())
        assert run('jog target_yaw 0.5') == 0
        axes.wait_position('target_yaw', 0.5)
        assert run('go_to chaser_x 99') == 1
        assert not lacking(capsys.readouterr().err, 'chaser_x', '99 m', 'soft limits')
        assert run('sine chaser_yaw 1 0.5') == 0
        axes.wait_mode('chaser_yaw', 'sine')
        assert run('calibrate chaser_yaw 1') == 1
        assert run('stop') == 0
        axes.wait_mode('chaser_yaw', 'stopping')
        assert run('view --once') == 0
        assert 'chaser_pitch  stopping' in capsys.readouterr().out


def test_the_terminal_view_shows_all_axes_and_its_key_stops_them(observer):
    user, axes = User(observer), Axes(observer)
    with controller():
        assert user.set('jog', chaser_x=2.0) == []
        view = start_tool('gantry', 'view', stdin=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PYTHONUNBUFFERED='1'))
        out = []
        reader = threading.Thread(
            target=lambda: out.extend(iter(lambda: view.stdout.read(1), '')))
        reader.start()
        try:
            wait_until(lambda: 'target_pitch' in ''.join(out), 20.0, 'the table')
            axes.wait_mode('chaser_x', 'manual')
            view.stdin.write(' ')
            view.stdin.flush()
            axes.wait_mode('chaser_x', 'stopping')
            wait_until(lambda: 'stop: done' in ''.join(out), 10.0)
            view.stdin.write('q')
            view.stdin.flush()
            assert view.wait(10) == 0
        finally:
            view.kill()
            view.wait()
            reader.join()


def test_a_terminated_view_leaves_the_terminal_as_it_was():
    controller, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    view = start_tool('gantry', 'view', stdin=terminal)
    try:
        assert view.stdout.readline() == 'no axes yet\n'
        assert termios.tcgetattr(terminal) != before
        view.terminate()
        assert view.wait(20) == 128 + signal.SIGTERM
        assert termios.tcgetattr(terminal) == before
    finally:
        view.kill()
        view.communicate()
        os.close(controller)
        os.close(terminal)
