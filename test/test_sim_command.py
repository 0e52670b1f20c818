# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The tool motive_sim as a process: its first line, its exit and its errors."""

import contextlib
import os
from pathlib import Path
import re
import select
import signal
import socket
import time

from optitrack_vrpn.cli import files_io
from optitrack_vrpn.cli.files_io import find_config
from optitrack_vrpn.core.errors import ConfigurationError
import pytest
import rawvrpn
from rawvrpn import RawClient
from tool_kit import ROOT, start_tool

SCENARIOS = 'scenarios/*.yaml'


@contextlib.contextmanager
def running(*argv, **popen):
    """Run the tool."""
    with start_tool('motive_sim', *argv, **popen) as process:
        try:
            yield process
        finally:
            process.kill()


def port_of(process):
    assert select.select([process.stdout], [], [], 20)[0]
    line = process.stdout.readline()
    match = re.fullmatch(r'listening on 127\.0\.0\.1:(\d+)\n', line)
    assert match, (line, process.stderr.read())
    return int(match[1])


def end(process):
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def until_full(port):
    """Return whether the buffers of a connection to a port became full within 20 s."""
    waiting = []
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        rows = [line.split() for line in Path('/proc/net/tcp').read_text().splitlines()[1:]]
        waiting += [int(row[4].partition(':')[0], 16) for row in rows
                    if int(row[2].partition(':')[2], 16) == port]
        if len(waiting) > 20 and waiting[-1] == waiting[-20] > 0:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_it_says_its_port_streams_and_ends_on_a_signal_with_0(number):
    with running('--port', '0', '--names', 'a b', 'c', '--rate', '200',
                 '--ros-args', '-r', '__node:=sim') as tool:
        with RawClient(port_of(tool), 'udp') as client:
            client.hello(udp=True)
            assert client.read_until(lambda: len(client.udp_messages) > 20)
            found = rawvrpn.poses(client.udp_messages, client.senders)
            assert {name for name, *_ in found} == {'a b', 'c'}
            out = tool.stdout.readline()
            tool.send_signal(number)
            code, _, err = end(tool)
    assert code == 0
    assert 'Traceback' not in err
    # That only this machine can connect is said, since a laboratory has two.
    assert '--host 0.0.0.0' in out


def test_it_ends_at_once_although_a_client_on_tcp_does_not_read():
    """As a client that is stopped or suspended: its buffers are full, and it answers nothing."""
    with running('--port', '0', '--bodies', '60', '--rate', '500') as tool:
        with RawClient(port_of(tool), 'tcp') as client:
            client.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.hello(udp=False)
            assert client.read_until(lambda: len(client.messages) > 200)
            assert until_full(client.tcp.getsockname()[1])
            began = time.monotonic()
            tool.send_signal(signal.SIGINT)
            code, _, err = end(tool)
            assert time.monotonic() - began < 2.0
    assert code == 0 and 'Traceback' not in err


@pytest.mark.parametrize('arguments, said', [
    (['--names', 'a'], '\n1 body at '), (['--bodies', '2'], '\n2 bodies at 120 Hz: ')])
def test_it_ends_by_itself_when_the_duration_is_over(arguments, said):
    with running('--port', '0', '--duration', '0.3', *arguments) as tool:
        code, out, err = end(tool)
    assert (code, err) == (0, '')
    assert out.startswith('listening on 127.0.0.1:') and said in out


@pytest.mark.parametrize('name', ['hard_day', 'hard_day.yaml', 'wireless'])
def test_the_packages_own_scenarios_are_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, kept = Path(find_config(name, SCENARIOS)), ROOT / 'config' / 'scenarios' / name
    assert found.is_absolute(), 'of the source, or of the installed package'
    assert found.read_bytes() == kept.with_suffix('.yaml').read_bytes()
    (tmp_path / name).write_text('rate: 50')
    assert find_config(name, SCENARIOS) == name


def test_an_installed_package_finds_its_scenarios_in_its_share_folder(tmp_path, monkeypatch):
    share = tmp_path / 'share' / 'optitrack_vrpn' / 'config' / 'scenarios'
    share.mkdir(parents=True)
    (share / 'hard_day.yaml').write_text('rate: 50')
    installed = tmp_path / 'lib' / 'python3' / 'site-packages' / 'optitrack_vrpn' / 'cli'
    monkeypatch.setattr(files_io, '__file__', str(installed / 'files_io.py'))
    monkeypatch.setenv('AMENT_PREFIX_PATH', '')
    assert find_config('hard_day', SCENARIOS) == str(share / 'hard_day.yaml')
    monkeypatch.setattr(files_io, '__file__', '/elsewhere/optitrack_vrpn/cli/files.py')
    with pytest.raises(ConfigurationError, match='hard_day: cannot be read'):
        find_config('hard_day', SCENARIOS)
    monkeypatch.setenv('AMENT_PREFIX_PATH', os.pathsep.join(['/elsewhere', str(tmp_path)]))
    assert find_config('hard_day', SCENARIOS) == str(share / 'hard_day.yaml')
