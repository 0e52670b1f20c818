# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The stamps of the node for recorded pairs of times."""

import csv
import random

from hypothesis import given, strategies as st
from optitrack_vrpn.clock import StampConfig, StampSource
from optitrack_vrpn.tools import main, parse_seconds
from optitrack_vrpn.units import format_seconds
import pytest
from tool_kit import run_tool

UNIX = 1_700_000_000


@given(st.integers(0, 4_000_000_000 * 10**9))
def test_seconds_are_exact_both_ways(time_ns):
    assert parse_seconds(format_seconds(time_ns)) == time_ns


@pytest.mark.parametrize('text', [
    'nan', 'inf', '-inf', '-1', '-0.000001', '1e30', '1e999999', '1e99999999', '', 'abc', None,
    '1;2', '4611686019'])
def test_what_is_no_time_is_refused(text):
    assert parse_seconds(text) == -1


@pytest.mark.parametrize(('text', 'time_ns'), [
    ('0', 0), (' 12.5 ', 12_500_000_000), ('1.7e9', UNIX * 10**9), ('1e-9', 1), ('1e-99', 0),
    ('1700000000.123456789', UNIX * 10**9 + 123_456_789)])
def test_decimals_are_read_as_they_stand(text, time_ns):
    assert parse_seconds(text) == time_ns


def recording(path, rows=2000, restart_at=1200):
    """Write a session with a restart of the sender; return the pairs in ns."""
    rnd, pairs = random.Random(2), []
    for i in range(rows):
        sent = (77 if i < restart_at else 3) * 10**9 + i * 4_166_667 // 1000 * 1000
        pairs.append((sent, UNIX * 10**9 + i * 4_166_667 + rnd.randrange(300_000)))
    with open(path, 'w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['body', 'sender_time', ' receive_time', 'x'])
        for sent, arrival in pairs:
            writer.writerow(['wand, left', format_seconds(sent), format_seconds(arrival), '1.5'])
    return pairs


@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'arrival', 'sender'])
def test_stamps_are_those_of_the_node_and_the_rest_passes_through(tmp_path, mode, capsys):
    pairs = recording(tmp_path / 'in.csv')
    assert main([str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv'), '--mode', mode,
                 '--latency-ms', '2.5']) == 0
    source = StampSource(StampConfig(mode=mode, latency_ms=2.5))
    with open(tmp_path / 'out.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ['body', 'sender_time', 'receive_time', 'x', 'stamp', 'epoch']
    for row, (sent, arrival) in zip(rows, pairs, strict=True):
        stamp = source.stamp(sent, arrival)
        assert row['stamp'] == ('' if stamp is None else format_seconds(stamp))
        assert int(row['epoch']) == source.status().epoch
        assert (row['body'], row['x']) == ('wand, left', '1.5')
    assert rows[0]['epoch'] == '0' and rows[-1]['epoch'] == '1'
    reported = capsys.readouterr().err
    assert 'went back by' in reported and f'{mode}: 2000 rows, epoch 1' in reported


def test_rows_that_cannot_be_stamped_are_kept_and_the_first_ones_named(tmp_path, capsys):
    (tmp_path / 'in.csv').write_text(
        'sender_time,receive_time\n1.0,100.0\n1.1,x\n-4,100.2\n1.3\n1.4,100.4\n'
        + 'nan,1\n' * 4)
    assert main([str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv')]) == 0
    stamped = [line.split(',')[-2] != ''
               for line in (tmp_path / 'out.csv').read_text().splitlines()[1:]]
    assert stamped == [True, False, False, False, True, *[False] * 4]
    *lines, last = capsys.readouterr().err.splitlines()
    reported = [line for line in lines if line.startswith(('line ', 'and further'))]
    assert reported[0].startswith("line 3: receive_time is 'x'")
    assert reported[1].startswith("line 4: sender_time is '-4'")
    assert reported[2].startswith('line 5: receive_time is missing')
    assert [line.split(':')[0] for line in reported[3:6]] == [
        'line 7', 'line 8', 'and further lines']
    assert '7 refused' in last


@pytest.mark.parametrize(('text', 'complaint'), [
    ('a,b\n1,2\n', 'no column sender_time and no column receive_time'),
    ('sender_time,b\n1,2\n', 'no column receive_time'),
    ('', 'no column sender_time'),
    ('sender_time,receive_time,stamp\n1,2,3\n', 'has a column stamp already'),
    ('sender_time,receive_time,sender_time\n1,2,3\n', 'in.csv: two columns'),
    ('sender_time,\udcff\n1,2\n', 'in.csv: is not UTF-8'),
])
def test_a_wrong_file_gets_one_clear_line(tmp_path, capsys, text, complaint):
    (tmp_path / 'in.csv').write_text(text, encoding='utf-8', errors='surrogateescape')
    assert main([str(tmp_path / 'in.csv'), str(tmp_path / 'out.csv')]) == 1
    error = capsys.readouterr().err
    assert complaint in error and error.count('\n') == 1


def test_a_missing_file_and_the_input_as_output_are_refused(tmp_path, capsys):
    assert main([str(tmp_path / 'none.csv'), '-']) == 1
    assert 'No such file' in capsys.readouterr().err
    recording(tmp_path / 'in.csv', rows=3)
    before = (tmp_path / 'in.csv').read_text()
    (tmp_path / 'link.csv').symlink_to(tmp_path / 'in.csv')
    for name in ('in.csv', 'link.csv'):
        assert main([str(tmp_path / 'in.csv'), str(tmp_path / name)]) == 1
    assert (tmp_path / 'in.csv').read_text() == before


def test_it_runs_as_a_module_in_a_pipe(tmp_path):
    recording(tmp_path / 'in.csv', rows=150)
    done = run_tool('restamp', '-', '-', '--mode', 'min_offset',
                    input=(tmp_path / 'in.csv').read_text())
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 151
    assert 'constant, the least of 100 frames' in done.stderr
