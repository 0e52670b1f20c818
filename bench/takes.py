# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure report and export on long takes: wall and processor time, and memory.

    make bench-takes                              1 body x 60 s, 20 bodies x 10 min
    make bench-takes ARGS='--minutes 120'         20 bodies x 2 h: 5 GB, and 3 GB in TMPDIR
    make bench-takes ARGS='--folder F'            keep the takes there and use them again

The takes have poses, odometry, transforms and states as the recorder writes them with the node's
outputs, with a gap, a freeze and a jump. The yardstick of the machine is a plain loop over the
messages by the ``mcap`` package, at most a million of them.
"""

import argparse
import os
from pathlib import Path
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'test')]
from optitrack_vrpn.cli import Progress  # noqa: E402
from optitrack_vrpn.recording import BagWriter, Message, NewTopic  # noqa: E402
from recording_kit import definition_of, topic  # noqa: E402

RATE = 240
BEGIN_NS = 1_790_000_000_000_000_000
MCAP = """
import sys, time
from mcap.stream_reader import StreamReader
from mcap.records import Message
begin, count = time.process_time(), 0
with open(sys.argv[1], 'rb') as file:
    for record in StreamReader(file).records:
        count += isinstance(record, Message)
        if count == 1_000_000:
            break
print(1e6 * (time.process_time() - begin) / count)
"""


def text(data):
    """Serialise a text, with padding to a multiple of four bytes."""
    data = data.encode() + b'\0'
    return struct.pack('<I', len(data)) + data + b'\0' * (-len(data) % 4)


def write(folder, bodies, seconds):
    """Write a take; gives the number of poses."""
    writer = BagWriter(folder)
    kinds = {'pose': 'geometry_msgs/msg/PoseStamped', 'odom': 'nav_msgs/msg/Odometry',
             'status': 'diagnostic_msgs/msg/DiagnosticStatus'}
    names = [f'body_{number}' for number in range(bodies)]
    topics = [(f'/{name}/{kind}', kinds[kind]) for name in names for kind in kinds]
    topics.append(('/tf', 'tf2_msgs/msg/TFMessage'))
    for number, (name, kind) in enumerate(topics, 1):
        writer.write(NewTopic(number, topic(name, kind), definition_of(kind)), 1)
    head = b'\0\1\0\0'
    frame, rng = text('optitrack'), np.random.default_rng(1)
    rest = bytes(36 * 8 + 6 * 8 + 36 * 8)
    children = [text(name) for name in names]
    count = poses = 0
    bar = Progress(f'writing {folder.name}', round(seconds))
    for first in bar.over(range(0, round(seconds * RATE), RATE)):
        at = np.arange(first, min(first + RATE, round(seconds * RATE)))
        noise = rng.normal(0.0, 1e-4, (len(at), bodies, 3))
        for row, number in enumerate(at.tolist()):
            stamp = BEGIN_NS + number * 1_000_000_000 // RATE
            log = stamp + 3_000_000
            stamped = struct.pack('<iI', *divmod(stamp, 10**9))
            transforms = []
            for body in range(bodies):
                angle = 0.1 * number / RATE + body
                frozen = body == 1 and 4800 <= number < 4860
                place = noise[row, body] + (0.0 if frozen else np.sin(angle), body, 1.0 + (
                    body == 2 and number >= 9600))
                values = struct.pack('<7d', *(place if not frozen else (0.0, body, 1.0)),
                                     0.0, 0.0, *((0.0, 1.0) if frozen else (
                                         np.sin(angle / 2), np.cos(angle / 2))))
                transforms.append(stamped + frame + children[body] + b'\0' * (
                    -(4 * body) % 8) + values)
                if body == 0 and 2400 <= number < 2640:
                    continue
                poses += 1
                data = head + stamped + frame
                writer.write(Message(3 * body + 1, count, log, log - 500_000, data
                             + b'\0' * (-(len(data) - 4) % 8) + values), log)
                data += children[body]
                writer.write(Message(3 * body + 2, count, log, log - 400_000, data
                             + b'\0' * (-(len(data) - 4) % 8) + values + rest), log)
                if number % RATE == 0:
                    writer.write(Message(3 * body + 3, count, log, log, head + b'\0\0\0\0' + text(
                        f'node: body {names[body]}') + text('TRACKED') + text('')
                        + struct.pack('<I', 1) + text('state') + text('TRACKED')), log)
                count += 1
            writer.write(Message(len(topics), count, log, log - 300_000, tf(
                stamped, frame, children, transforms)), log)
            writer.tick(log)
    with bar:
        writer.close()
    return poses


def tf(stamped, frame, children, transforms):
    """Serialise the transforms of a frame."""
    data = struct.pack('<I', len(transforms))
    for child, transform in zip(children, transforms):
        data += b'\0' * (-len(data) % 4) + stamped + frame + child
        data += b'\0' * (-len(data) % 8) + transform[-56:]
    return b'\0\1\0\0' + data


def measure(*command):
    """Run a command; gives wall and processor time (s) and peak memory (MB)."""
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, '-m', 'optitrack_vrpn', *map(str, command)],
                               cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f'{command[0]} failed')
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--bodies', type=int, default=20)
    parser.add_argument('--minutes', type=float, default=10.0)
    parser.add_argument('--folder', type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        print(f'{"take":22}{"command":10}{"wall s":>8}{"cpu s":>8}{"MB":>6}{"us a pose":>11}')
        used = {}    # poses and processor time of both takes, by command
        for bodies, seconds in ((1, 60.0), (arguments.bodies, 60 * arguments.minutes)):
            take = folder / f'take_{bodies}x{seconds:g}'
            if not take.exists():
                write(take, bodies, seconds)
            poses = bodies * seconds * RATE
            for command, more in (('report', ()), ('export', ('--format', 'csv')),
                                  ('export', ('--format', 'parquet'))):
                wall, cpu, memory = measure(
                    command, take, *more, '-o', Path(scratch) / 'output')
                used.setdefault((more or (command,))[-1], []).append((poses, cpu))
                print(f'{f"{bodies} x {seconds:g} s":22}{(more or (command,))[-1]:10}{wall:8.1f}'
                      f'{cpu:8.1f}{memory:6.0f}{1e6 * cpu / poses:11.2f}', flush=True)
        for command, ((few, least), (poses, cpu)) in used.items():
            two_hours = least + (cpu - least) / (poses - few) * (20 * 7200 * RATE - few)
            print(f'20 x 2 h, computed    {command:10}{"":8}{two_hours:8.0f}')
        found = subprocess.run([sys.executable, '-c', MCAP, take / f'{take.name}.mcap'],
                               capture_output=True, text=True, check=True)
        print(f'yardstick: a loop over the messages by mcap, {float(found.stdout):.2f} us of '
              f'processor time a message; load {os.getloadavg()[0]:.1f}')


if __name__ == '__main__':
    main()
