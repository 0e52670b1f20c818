# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The tool motive_sim as a process: its first line, its exit and its errors."""

import contextlib
from pathlib import Path
import re
import select
import signal
import socket
import time
from types import SimpleNamespace

from optitrack_vrpn.sim.command import announce
import pytest
import rawvrpn
from rawvrpn import RawClient
from tool_kit import start_tool


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
            assert time.monotonic() - began < 10.0    # it would wait for ever
    assert code == 0 and 'Traceback' not in err


@pytest.mark.parametrize('host, said', [
    ('127.0.0.1', 'only this computer'), ('127.0.1.1', 'only this computer'),
    ('localhost', 'only this computer'), ('0.0.0.0', 'any host that reaches it')])
def test_it_says_who_can_connect(host, said, capsys):
    scenario = SimpleNamespace(rate=100.0, bodies=[])
    announce(SimpleNamespace(host=host, scenario=scenario, addresses=['']))
    assert f'; {said} ' in capsys.readouterr().out
