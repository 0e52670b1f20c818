# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure report and export on long takes: wall and processor time, and memory.

    make bench-takes                              1 body x 60 s, 20 bodies x 10 min
    make bench-takes ARGS='--minutes 120'         20 bodies x 2 h: 14 GB in TMPDIR, 10 minutes
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
sys.path[len(sys.path):] = [str(ROOT), str(ROOT / 'test')]
from optitrack_vrpn.cli.terminal_io import Progress  # noqa: E402
from optitrack_vrpn.takes.mcap_format import Message  # noqa: E402
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic  # noqa: E402
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
    frame, rng = text('optitrack'), np.random.default_rng(1)
    stamp_at, rest = 4, bytes(36 * 8 + 6 * 8 + 36 * 8)    # covariances and twist
    children = [text(name) for name in names]
    head = bytes((0, 1, 0, 0)) + bytes(8) + frame

    def padded(data):
        return data + bytes(-(len(data) - 4) % 8) + bytes(56)

    transforms, places = struct.pack('<I', bodies), []
    for child in children:
        transforms += bytes(-len(transforms) % 4)
        stamp_in = len(transforms) + 4
        transforms += head[4:] + child
        transforms += bytes(-len(transforms) % 8)
        places.append((stamp_in, len(transforms) + 4))
        transforms += bytes(56)
    rows = [(Rows(padded(head)), Rows(padded(head + child) + rest)) for child in children]
    tree = Rows(head[:4] + transforms)
    count = poses = 0
    bar = Progress(f'writing {folder.name}', round(seconds))
    for first in bar.over(range(0, round(seconds * RATE), RATE)):
        at = np.arange(first, min(first + RATE, round(seconds * RATE)))
        stamps = BEGIN_NS + at * 1_000_000_000 // RATE
        values = np.zeros((bodies, len(at), 7))
        for body, own in enumerate(values):
            angle = 0.1 * at / RATE + body
            own[:, :3] = rng.normal(0.0, 1e-4, (len(at), 3)) + np.column_stack((
                np.sin(angle), np.full(len(at), body), 1.0 + ((body == 2) & (at >= 9600))))
            own[:, 5:] = np.column_stack((np.sin(angle / 2), np.cos(angle / 2)))
            if body == 1:
                own[(at >= 4800) & (at < 4860)] = (0.0, body, 1.0, 0.0, 0.0, 0.0, 1.0)
        pose, odom = ([part.filled(stamps, [(stamp_at, part.size - 56 - more, own)])
                       for part, own in zip(column, values)]
                      for column, more in zip(zip(*rows), (0, len(rest))))
        frames = tree.filled(stamps, [(*place, own) for place, own in zip(places, values)])
        for row, number in enumerate(at.tolist()):
            log = int(stamps[row]) + 3_000_000
            for body in range(bodies):
                if body == 0 and 2400 <= number < 2640:
                    continue
                poses += 1
                writer.write(Message(
                    3 * body + 1, count, log, log - 500_000, pose[body][row]), log)
                writer.write(Message(
                    3 * body + 2, count, log, log - 400_000, odom[body][row]), log)
                if number % RATE == 0:
                    writer.write(Message(3 * body + 3, count, log, log, bytes((
                        0, 1, 0, 0, 0, 0, 0, 0)) + text(f'node: body {names[body]}')
                        + text('TRACKED') + text('') + struct.pack('<I', 1) + text('state')
                        + text('TRACKED')), log)
                count += 1
            writer.write(Message(len(topics), count, log, log - 300_000, frames[row]), log)
            writer.tick(log)
    with bar:
        writer.close()
    return poses


class Rows:
    """
    Messages of equal length.

    :param sample: their bytes, without stamps and poses.
    """

    def __init__(self, sample):
        self.size = len(sample)
        self._bytes = np.tile(np.frombuffer(sample, np.uint8), (RATE, 1))

    def filled(self, stamps, parts):
        """
        Give the bytes of each message.

        :param parts: place of the stamp, place of the pose, and the poses.
        """
        table = self._bytes[:len(stamps)]
        times = np.column_stack(np.divmod(stamps, 10**9)).astype('<u4').view(np.uint8)
        for stamp_at, pose_at, poses in parts:
            table[:, stamp_at:stamp_at + 8] = times
            table[:, pose_at:pose_at + 56] = np.ascontiguousarray(poses).view(np.uint8)
        data = table.tobytes()
        return [data[at:at + self.size] for at in range(0, len(data), self.size)]


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
                    command, take, '--force', *more, '-o', Path(scratch) / 'output')
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
