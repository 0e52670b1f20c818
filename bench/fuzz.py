# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fuzz what a peer can send, guided by coverage.

    python bench/fuzz.py CORPUS -runs=10000000 -max_len=4096     needs: pip install atheris
    python bench/fuzz.py --natnet CORPUS -runs=10000000          the same over NatNet
    python bench/fuzz.py [--natnet] --replay FILE...             run single inputs again
    python bench/fuzz.py [--natnet] --mutate 10000               mutated seeds, without atheris

CORPUS is a folder, filled from the recorded sessions in test/data where it is empty; flags with
one dash are libFuzzer's. What must hold is in fuzz_target.py, for NatNet also in
fuzz_target_natnet.py. An input that breaks it is written
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
        DATAGRAM, ESTIMATE, FEW, PAUSE, PREAMBLE, record, RECONNECT, SERVER_MOTION, STREAM)
    import sessions
    made = []
    options = (0, 1, 2, 3, ESTIMATE, SERVER_MOTION | FEW)
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


def target_of(natnet):
    """Import what is fuzzed: a module with ``one_input``, and its seeds."""
    if natnet:
        import fuzz_target_natnet
        return fuzz_target_natnet, fuzz_target_natnet.seeds
    import fuzz_target
    return fuzz_target, seeds


def fuzz(arguments, natnet):
    """Run libFuzzer; it ends the process."""
    import atheris
    packages = ('bodies', 'clock', 'motion', 'natnet', 'pipeline', 'vrpn')
    with atheris.instrument_imports(include=[f'optitrack_vrpn.{name}' for name in packages]):
        module, make_seeds = target_of(natnet)
    folders = [Path(a) for a in arguments if not a.startswith('-')]
    if folders:
        folders[0].mkdir(parents=True, exist_ok=True)
        if not any(folders[0].iterdir()):
            for number, data in enumerate(make_seeds()):
                (folders[0] / f'seed-{number:03d}').write_bytes(data)

    def target(data):
        module.one_input(data)

    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


def replay(files, natnet):
    """Run single inputs and say how far each got."""
    module, _ = target_of(natnet)
    for file in files:
        run = module.one_input(Path(file).read_bytes())
        print(f'{file}: {run.published} poses, {run.connection.counters}')


def mutate(count, natnet):
    """Run seeds with random bytes changed, removed and repeated; the same each time."""
    import random
    module, make_seeds = target_of(natnet)
    inputs, dice, datagrams = make_seeds(), random.Random(1), 0
    for _ in range(count):
        data = bytearray(dice.choice(inputs))
        for _ in range(dice.choice((1, 2, 4, 16))):
            at = dice.randrange(2, len(data))
            kind = dice.randrange(4)
            if kind < 2:
                data[at] = dice.choice((0, 1, 2, 127, 128, 255, dice.randrange(256)))
            elif kind == 2:
                del data[at:at + dice.randrange(1, 40)]
            else:
                data[at:at] = data[at:at + dice.randrange(1, 400)]
            if len(data) < 4:
                break
        run = module.one_input(bytes(data))
        datagrams += getattr(run.connection.counters, 'datagrams', 0)
    print(f'{count} inputs, {datagrams} datagrams: nothing broken')


if __name__ == '__main__':
    words = [word for word in sys.argv[1:] if word != '--natnet']
    over_natnet = '--natnet' in sys.argv[1:]
    if words[:1] == ['--replay']:
        replay(words[1:], over_natnet)
    elif words[:1] == ['--mutate']:
        mutate(int(words[1]), over_natnet)
    elif not words or words[0] in ('-h', '--help'):
        print(__doc__.strip())
    else:
        fuzz(words, over_natnet)
