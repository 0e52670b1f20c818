# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The datagrams of the axis bridge, decoded by independent code: C, struct, json."""

import json
import math
import shutil
import socket
import struct
import subprocess

from hypothesis import given, strategies as st
from optitrack_vrpn.guests.machine.axes_mapper import AxesSample, AxesStatus, AxisState
from optitrack_vrpn.guests.machine.axes_settings import DatagramSettings
from optitrack_vrpn.guests.machine.axis_bridge_io import encode, UdpSender
import pytest


def sample(axes, status=1, stamp_ns=1_700_000_000_250_000_000):
    """Make a sample of values with their validity."""
    return AxesSample(
        tuple(AxisState(value, None if valid else 'stale') for value, valid in axes), stamp_ns,
        AxesStatus(status))


SAMPLE = sample(((1.5, True), (-0.25, True), (math.nan, False)))
NUMBER = 4_000_000_001
NAMES = ('x', 'y', 'yaw')

# What a controller's programmer would write from docs/axes.md: a struct laid over the bytes.
READER = r"""
#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <arpa/inet.h>
struct header { uint32_t sequence; int32_t status; double time; uint32_t valid, count; };
static void swap(void *p, size_t n) {
  unsigned char *b = p;
  for (size_t i = 0; i < n / 2; i++) { unsigned char t = b[i]; b[i] = b[n-1-i]; b[n-1-i] = t; }
}
int main(int argc, char **argv) {
  int wide = argv[1][0] == 'd', with_header = argv[2][0] == '1';
  int other = (argv[3][0] == 'b') == (htonl(1) != 1);
  unsigned char buffer[2048];
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof a;
  struct timeval patience = {.tv_sec = 20};
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (bind(s, (void *)&a, sizeof a) || getsockname(s, (void *)&a, &length)) return 1;
  printf("%d\n", ntohs(a.sin_port)); fflush(stdout);
  ssize_t n = recv(s, buffer, sizeof buffer, 0);
  if (n < 0) return 2;
  size_t at = 0, size = wide ? sizeof(double) : sizeof(float);
  if (with_header) {
    struct header h;
    memcpy(&h, buffer, sizeof h);
    at = sizeof h;
    if (other) { swap(&h.sequence, 4); swap(&h.status, 4); swap(&h.time, 8); swap(&h.valid, 4);
                 swap(&h.count, 4); }
    printf("%" PRIu32 " %" PRId32 " %.6f %" PRIu32 " %" PRIu32 "\n",
           h.sequence, h.status, h.time, h.valid, h.count);
  }
  for (; at + size <= (size_t)n; at += size) {
    double value;
    if (other) swap(buffer + at, size);
    if (wide) memcpy(&value, buffer + at, size);
    else { float f; memcpy(&f, buffer + at, size); value = f; }
    printf("%.9g\n", value);
  }
  return at == (size_t)n ? 0 : 3;
}
"""


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    compiler = shutil.which('cc') or shutil.which('gcc') or shutil.which('clang')
    if compiler is None:
        pytest.skip('no C compiler')
    folder = tmp_path_factory.mktemp('reader')
    (folder / 'reader.c').write_text(READER)
    subprocess.run([compiler, '-std=gnu11', '-Wall', '-o', folder / 'reader',
                    folder / 'reader.c'], check=True, timeout=60)
    return folder / 'reader'


@pytest.mark.network
@pytest.mark.parametrize('order', ['little', 'big'])
@pytest.mark.parametrize('kind', ['float32', 'float64'])
@pytest.mark.parametrize('header', [True, False])
def test_a_c_program_reads_the_stream(reader, order, kind, header):
    settings = DatagramSettings(format=kind, byte_order=order, header=header)
    arguments = ['d' if kind == 'float64' else 'f', str(int(header)), order]
    with subprocess.Popen([reader, *arguments], stdout=subprocess.PIPE, text=True) as program:
        sender = UdpSender('127.0.0.1', int(program.stdout.readline()))
        assert sender.send(encode(SAMPLE, NUMBER, NAMES, settings))
        lines = program.stdout.read().split('\n')[:-1]
        sender.close()
        assert program.wait(10) == 0
    if header:
        assert lines.pop(0) == '4000000001 1 1700000000.250000 3 3'
    assert lines[:2] == ['1.5', '-0.25'] and lines[2] in ('nan', '-nan')


def test_json_says_null_and_never_zero():
    read = json.loads(encode(SAMPLE, NUMBER, NAMES, DatagramSettings(format='json')))
    assert read['axes']['yaw'] == {'value': None, 'valid': False}
    assert read['axes']['x'] == {'value': 1.5, 'valid': True}
    assert (read['sequence'], read['status'], read['time']) == (4_000_000_001, 1, 1_700_000_000.25)


@given(st.integers(0, 2**32 - 1), st.sampled_from([-1, 0, 1, 2]), st.integers(0, 4 * 10**18),
       st.lists(st.tuples(st.floats(width=32, allow_infinity=False), st.booleans()),
                min_size=1, max_size=32),
       st.sampled_from(['little', 'big']), st.sampled_from(['float32', 'float64']))
def test_what_is_written_is_read_back(sequence, status, stamp_ns, axes, order, kind):
    values, valid = zip(*axes)
    time = stamp_ns * 1e-9
    settings = DatagramSettings(format=kind, byte_order=order, header=True)
    head, body = ('<', '>')[order == 'big'] + 'IidII', 'fd'[kind == 'float64']
    read = struct.unpack(head + str(len(axes)) + body,
                         encode(sample(axes, status, stamp_ns), sequence, [''] * len(axes),
                                settings))
    bits = sum(good << i for i, good in enumerate(valid))
    assert repr(read) == repr((sequence, status, time, bits, len(axes), *values))


def test_a_value_too_great_for_float32_is_no_number():
    data = encode(sample([(1e300, True)]), 0, 'x', DatagramSettings())
    assert math.isnan(struct.unpack('<f', data)[0])


@pytest.mark.network
def test_a_receiver_that_is_gone_stops_nothing():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(('127.0.0.1', 0))
        port = gone.getsockname()[1]
    sender = UdpSender('127.0.0.1', port)
    for _ in range(5):
        sender.send(b'x')
    assert sender.sent + sender.failed == 5
    sender.close()
