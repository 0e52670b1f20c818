# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fuzz what a peer can send, guided by coverage.

    python bench/fuzz.py CORPUS -runs=10000000 -max_len=4096     needs: pip install atheris
    python bench/fuzz.py --replay FILE...                        run single inputs again

CORPUS is a folder, filled from the recorded sessions in test/data where it is empty; flags with
one dash are libFuzzer's. What must hold is in fuzz_target.py. An input that breaks it is written
to a file ``crash-...``; make a test of it in test/test_fuzz.py.
"""

from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'test')]
_CAPTURES = ('late_server_then_restart', 'motive_like_5x240', 'tcp_only', 'two_clients', 'udp_lob',
             'vrpn_server_spin')
#: Bytes; small inputs mutate better, and libFuzzer makes longer ones itself.
_SIZE = 1500


def seeds():
    """Make inputs of the recorded sessions."""
    from fuzz_target import (
        DATAGRAM, ESTIMATE, FEW, PAUSE, PREAMBLE, record, RECONNECT, SERVER_MOTION, STREAM,
        UNTRACKED)
    import sessions
    made = []
    options = (0, 1, 2, 3, ESTIMATE, SERVER_MOTION | FEW, UNTRACKED)
    for session in (s for name in _CAPTURES for s in sessions.sessions(name)):
        actions = session.server_actions
        pieces = [record(STREAM if action.kind == 'tcp' else DATAGRAM, action.data)
                  for action in actions]
        made += [_cut(bytes((option,)), pieces) for option in options]
        # Poses alone, from a server that has introduced itself already.
        poses = [piece for piece in pieces if len(piece) < 300 or piece[0] == DATAGRAM][-5:]
        for option in options:
            made.append(_cut(bytes((option | PREAMBLE,)), poses))
            made.append(_cut(bytes((option | PREAMBLE,)), [
                *poses[:3], record(PAUSE, count=20), *poses[3:], record(RECONNECT)]))
        made.append(_cut(b'\0', [record(STREAM, session.client_stream[:600])]))
    return [data for data in made if len(data) > 1]


def _cut(head, pieces):
    """Take as many whole records as fit."""
    data = head
    for piece in pieces:
        if len(data) + len(piece) > _SIZE:
            break
        data += piece
    return data


def fuzz(arguments):
    """Run libFuzzer; it ends the process."""
    import atheris
    packages = ('bodies', 'clock', 'motion', 'pipeline', 'vrpn')
    with atheris.instrument_imports(include=[f'optitrack_vrpn.{name}' for name in packages]):
        import fuzz_target
    folders = [Path(a) for a in arguments if not a.startswith('-')]
    if folders:
        folders[0].mkdir(parents=True, exist_ok=True)
        if not any(folders[0].iterdir()):
            for number, data in enumerate(seeds()):
                (folders[0] / f'seed-{number:03d}').write_bytes(data)

    def target(data):
        fuzz_target.one_input(data)

    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


def replay(files):
    """Run single inputs and say how far each got."""
    from fuzz_target import one_input
    for file in files:
        run = one_input(Path(file).read_bytes())
        print(f'{file}: {run.published} poses, {run.connection.counters}')


if __name__ == '__main__':
    if sys.argv[1:2] == ['--replay']:
        replay(sys.argv[2:])
    elif len(sys.argv) < 2 or sys.argv[1] in ('-h', '--help'):
        print(__doc__.strip())
    else:
        fuzz(sys.argv[1:])
