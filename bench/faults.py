# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the node with every fault, and compare the published poses with the truth.

    make bench-faults                          some minutes; the table
    make bench-faults ARGS=--quick             a few cases, as a check of the benchmark
    make bench-faults ARGS='--only killed'     one case
    make bench-faults ARGS='--protocol natnet' the same over NatNet
    make bench-faults ARGS=--write-docs        update docs/evidence/faults.md too: all rows, or
                                               those of --only and --quick, if no pose was bad

The node runs in its own process against simulated servers in theirs, two cases at a time. The
exit code is 1 if a stale, wrong or repeated pose was published; the documents stay then.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import traceback

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'test')]
from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate, own_domain  # noqa: E402
VARIABLE = 'FAULT_PROTOCOL'
DOCS = ROOT / 'docs' / 'evidence' / 'faults.md'
MARKS = {'vrpn': '<!-- bench/faults.py: {} -->',
         'natnet': '<!-- bench/faults.py --protocol natnet: {} -->'}
AT_ONCE = 2
LONGEST_S = 180.0
#: A server that skipped frames lacked processor time: bodies were silent outside the fault.
ATTEMPTS = 3
STANDING_STILL = ('paused',)


def run_here(name):
    """Run one case in this process, in its own ROS domain; return its rows."""
    with tempfile.TemporaryDirectory() as logs, claim_domain({own_domain()}) as claim:
        isolate(os.environ, claim.domain)
        os.environ['ROS_LOG_DIR'] = logs
        from relay_kit import packet_relay_allowed
        cases = cases_of(os.environ[VARIABLE])
        if name in cases.PRIVILEGED and not packet_relay_allowed():
            return [{'name': name, 'skipped': 'no network namespaces without the rights to'}]
        return cases.CASES[name]()


def cases_of(protocol):
    """Import the cases of a protocol."""
    if protocol == 'natnet':
        import fault_natnet
        return fault_natnet
    import fault_cases
    return fault_cases


def run_apart(name):
    """
    Run one case by itself, again where the server was starved; return its rows.

    Of several attempts the one in which the server skipped the fewest frames counts.
    """
    attempts = []
    for _ in range(ATTEMPTS):
        rows = attempt(name)
        skipped = 0 if name in STANDING_STILL else max(
            row.get('skipped_frames', 0) for row in rows)
        attempts.append((skipped, len(attempts), rows))
        for row in rows:
            print(f'{name}: {summary(row)}', file=sys.stderr, flush=True)
        if not skipped:
            break
        print(f'{name}: the machine was too busy for the server, which skipped {skipped} frames',
              file=sys.stderr, flush=True)
    return min(attempts)[2]


def attempt(name):
    """Run one case in its own process; return its rows."""
    done = None
    try:
        done = subprocess.run(
            [sys.executable, __file__, '--case', name, '--protocol', os.environ[VARIABLE]],
            capture_output=True, text=True, timeout=LONGEST_S)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        tail = '' if done is None else done.stderr[-2000:]
        return [{'name': name, 'failed': f'{error!r} {tail}'}]


def summary(row):
    """Write a row as a line."""
    return ' | '.join(cells(row))


HEAD = ('Fault', 'Noticed', 'Poses again', 'Lost/made', 'Bad', 'Oldest out', 'Stamp off by')
#: Number of columns in docs/evidence/faults.md.
IN_DOCS = 4
BAD = ('stale', 'wrong', 'repeated', 'backwards')


def cells(row):
    """Write the cells of a row."""
    if 'skipped' in row or 'failed' in row:
        return [row['name'], row.get('skipped') or f'FAILED: {row["failed"]}']
    name = row['name'] + (f' ({row["note"]})' if row['note'] else '')
    return [
        name, ' '.join(filter(None, [seconds(row['noticed_s']), row['word']])),
        seconds(row['recovered_s']), f'{row["lost"]}/{row["made"]}',
        ', '.join(f'{row[key]} {key}' for key in BAD if row[key]) or '0',
        f'{row["oldest_ms"]:.0f} ms' if row['poses'] else '-',
        f'{row["stamp_error_ms"]:.1f} ms' if row['poses'] else '-']


def seconds(value):
    """Write a time."""
    return '-' if value is None else f'{max(value, 0.0):.2f} s'


def table(rows, columns):
    """Write all rows in Markdown, with the first columns."""
    lines = ['| ' + ' | '.join(HEAD[:columns]) + ' |', '|---|---|' + '--:|' * (columns - 2)]
    for row in rows:
        line = cells(row)[:columns]
        lines.append('| ' + ' | '.join(line + [''] * (columns - len(line))) + ' |')
    return '\n'.join(lines)


def write_docs(text, protocol, partly):
    """Put the table between its marks; if only some cases ran, replace their rows in it."""
    begin, end = MARKS[protocol].format('begin'), MARKS[protocol].format('end')
    before, _, rest = DOCS.read_text().partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f'{DOCS} has lost its marks {begin} and {end}')
    old = rest.partition(end)[0].strip().split('\n')
    if partly and len(old) > 2:
        text = '\n'.join(merged(old, text.split('\n')))
    DOCS.write_text(f'{before}{begin}\n{text}\n{end}{after}')


def merged(old, new):
    """Replace the rows of a table that stand for the same cases; add others at the end."""
    def case(line):
        return line.split(' | ')[0].partition(' (the worst')[0].partition(' (held')[0]
    renewed = {case(line): line for line in new[2:]}
    lines = new[:2] + [renewed.pop(case(line), line) for line in old[2:]]
    return lines + list(renewed.values())


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='a few cases')
    parser.add_argument('--only', action='append', metavar='NAME', help='one case, or more')
    parser.add_argument('--protocol', choices=tuple(MARKS), default='vrpn')
    parser.add_argument('--write-docs', action='store_true', help='renew docs/evidence/faults.md')
    parser.add_argument('--case', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ[VARIABLE] = arguments.protocol    # for the processes of the cases too
    if arguments.case:
        try:
            rows = run_here(arguments.case)
        except BaseException:
            rows = [{'name': arguments.case, 'failed': traceback.format_exc()}]
        print(json.dumps(rows), flush=True)
        os._exit(0)    # whatever a broken case left running
    cases = cases_of(arguments.protocol)
    names = arguments.only or list(cases.QUICK if arguments.quick else cases.CASES)
    unknown = set(names) - set(cases.CASES)
    if unknown:
        parser.error(f'no case {sorted(unknown)}; there are {", ".join(cases.CASES)}')
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = [row for rows in pool.map(run_apart, names) for row in rows]
    print(table(rows, len(HEAD)))
    if any('failed' in row or any(row.get(key) for key in BAD) for row in rows):
        return 1
    if arguments.write_docs:
        write_docs(table(rows, IN_DOCS), arguments.protocol,
                   partly=len(set(names)) < len(cases.CASES))
    return 0


if __name__ == '__main__':
    sys.exit(main())
