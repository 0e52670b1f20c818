# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Record what the node publishes of many bodies: processor time, memory, losses, size on disk.

    make bench-recorder                          a minute: 50 bodies at 240 Hz
    make bench-recorder ARGS='--seconds 3600'    the hour
    make bench-recorder ARGS='--in-process 43.2' 43.2 million messages, as of this hour, as fast
                                                 as the writer takes them

Simulated Motive, node (with its default outputs) and recorder run in separate processes. Memory of
the recorder is read every second; growth is from the second quarter to the last. A line is printed
each minute, or each tenth of a shorter run. Losses are counted by the middleware's sequence
numbers and by the recorder's queue, and listed by time; frames that the node itself sheds are not
losses of the recorder, and are distinguished by the recorded rate.
"""

import argparse
import math
import os
from pathlib import Path
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = Path(__file__).resolve().parent.parent
sys.path[len(sys.path):] = [str(ROOT), str(ROOT / 'test')]
from optitrack_vrpn.cli.signals_io import with_parent  # noqa: E402
from optitrack_vrpn.cli.terminal_io import Progress  # noqa: E402
TICKS = os.sysconf('SC_CLK_TCK')
#: Growth from the second quarter to the last that is taken for noise of the allocator.
NOISE_MB = 2.0


def start(log, *arguments):
    with open(log, 'w') as output:
        return subprocess.Popen(
            [sys.executable, '-m', 'optitrack_vrpn', *map(str, arguments)], cwd=ROOT,
            env=with_parent(os.environ), stdout=output, stderr=subprocess.STDOUT)


def reading(pid):
    """
    Give memory (MB) and processor time (s) of a process.

    :returns: its own memory, memory with mapped files and what it shares, processor time.
    """
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    status = Path(f'/proc/{pid}/status').read_text()
    own, rss = (int(re.search(name + r':\s+(\d+)', status)[1]) / 1024
                for name in ('RssAnon', 'VmRSS'))
    return own, rss, (int(fields[11]) + int(fields[12])) / TICKS


def threads(pid):
    """Give the processor time (s) of a process's threads by name."""
    spent = {}
    for path in Path(f'/proc/{pid}/task').glob('*/stat'):
        name, _, rest = path.read_text().partition('(')[2].rpartition(')')
        fields = rest.split()
        spent[name] = spent.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / TICKS
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--bodies', type=int, default=50)
    parser.add_argument('--rate', type=float, default=240.0)
    parser.add_argument('--seconds', type=float, default=60.0)
    parser.add_argument('--compression', default='zstd')
    parser.add_argument('--depth', type=int, default=200, help="the node's qos.depth")
    parser.add_argument('--profile', default=str(ROOT / 'config' / 'fast_recording.xml'),
                        help="Fast DDS's profile of node and recorder, '' for its defaults")
    parser.add_argument('--in-process', type=float, metavar='MILLIONS',
                        help='feed the writer without ROS')
    parser.add_argument('--limit', type=float, default=170.0, metavar='S',
                        help='end --in-process after so long')
    parser.add_argument('--folder', type=Path, default=None, help='of the recording')
    arguments = parser.parse_args()
    if arguments.in_process is not None and arguments.in_process < 1:
        parser.error('--in-process needs 1 or more: memory is read every half million messages')
    if arguments.in_process:
        with tempfile.TemporaryDirectory() as scratch:
            return feed(arguments, (arguments.folder or Path(scratch)) / 'take')
    from conftest import claim_domain
    domain, claim = claim_domain()
    os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')
    if arguments.profile:
        os.environ.update(FASTRTPS_DEFAULT_PROFILES_FILE=arguments.profile,
                          FASTDDS_DEFAULT_PROFILES_FILE=arguments.profile)
    with tempfile.TemporaryDirectory() as scratch:
        run(arguments, (arguments.folder or Path(scratch)) / 'take')
    claim.close()


def run(arguments, take):
    from server_kit import free_port
    port = free_port()
    take.parent.mkdir(parents=True, exist_ok=True)
    logs = {name: take.parent / f'{name}.log' for name in ('simulator', 'node', 'recorder')}
    processes = {
        'simulator': start(
            logs['simulator'], 'motive_sim', '--port', port, '--bodies', arguments.bodies,
            '--rate', arguments.rate, '--noise-mm', 0.1),
        'node': start(
            logs['node'], 'optitrack_vrpn_node', '--ros-args', '-p', 'autostart:=true', '-p',
            f'port:={port}', '-p', f'qos.depth:={arguments.depth}')}
    time.sleep(8.0)
    processes['recorder'] = recorder = start(
        logs['recorder'], 'record', '-o', take, '--min-free', 100, '--compression',
        arguments.compression)
    patience = time.monotonic() + 60.0
    while not (take / 'take.mcap').exists() and time.monotonic() < patience:
        time.sleep(0.1)
    time.sleep(5.0)
    memory, begin = [], time.monotonic()
    every = min(60.0, arguments.seconds / 10)
    bar = Progress('recording')
    next_line = every
    try:
        before = {name: reading(process.pid)[2] for name, process in processes.items()}
        while (elapsed := time.monotonic() - begin) < arguments.seconds:
            time.sleep(1.0)
            bar.show(elapsed / arguments.seconds)
            for name, process in processes.items():
                if process.poll() is not None:
                    raise SystemExit(f'{name} has ended:\n{logs[name].read_text()}')
            memory.append(reading(recorder.pid)[:2])
            if elapsed >= next_line:
                next_line += every
                print(f'{elapsed:5.0f} s: memory {memory[-1][0]:.1f} MB of its own, '
                      f'{memory[-1][1]:.1f} MB with files and shared; load '
                      f'{os.getloadavg()[0]:.1f}; {last_line(logs["recorder"])}', flush=True)
        bar.__exit__()
        took = time.monotonic() - begin
        cpu = {name: (reading(process.pid)[2] - before[name]) / took
               for name, process in processes.items()}
        parts = {name: spent / (took + 5.0) for name, spent in threads(recorder.pid).items()}
    finally:
        for process in reversed(processes.values()):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
    report(arguments, take, memory, cpu, parts, took, last_line(logs['recorder']))


def last_line(path):
    """Give the last line of a log, '' for none."""
    return (path.read_text().splitlines() or [''])[-1]


def feed(arguments, take):
    """Feed the queue and the writer in this process; gives 1 if a message is missing."""
    from mcap.reader import SeekingReader
    from optitrack_vrpn.takes.record.bag_io import BagWriter
    from optitrack_vrpn.takes.mcap_format import Message
    from optitrack_vrpn.takes.record.spool_io import Spool
    from recording_kit import add_topic, pose_cdr, topic
    writer = BagWriter(take, arguments.compression)
    channels = [add_topic(writer, topic(f'/body_{i}/pose'), i + 1)
                for i in range(arguments.bodies)]
    spool = Spool(writer, take, min_free=100 << 20)
    spool.start()
    period_ns = round(1e9 / arguments.rate)
    base_ns = time.time_ns()
    wanted, given, memory = round(arguments.in_process * 1e6), 0, []
    begin = time.monotonic()
    # Values that change in every bit that matters, so that they compress as real ones do.
    while given < wanted and time.monotonic() - begin < arguments.limit:
        batch = []
        for frame in range(given // len(channels), given // len(channels) + 20):
            now_ns = base_ns + frame * period_ns
            for number, channel in enumerate(channels):
                value = math.sin(frame * 0.01 + number)
                batch.append(Message(channel, frame, now_ns, now_ns, pose_cdr(
                    now_ns, (value, value * 0.7, 1.0), (0.0, 0.6, 0.0, 0.8))))
        # Real time is many times slower; here the writer sets the pace. What waits is kept small,
        # so that it does not hide whether the memory grows.
        while spool.status().waiting > 1 << 20:
            time.sleep(0.001)
        spool.put(batch)
        given += len(batch)
        if given // 500_000 != (given - len(batch)) // 500_000:
            memory.append(reading(os.getpid())[1])
    problem = spool.stop(120.0)
    took = time.monotonic() - begin
    with open(writer.path, 'rb') as file:
        kept = SeekingReader(file).get_summary().statistics.message_count
    hours = given / arguments.bodies / arguments.rate / 3600
    print(f'{given} messages, {hours:.2f} h of {arguments.bodies} bodies at '
          f'{arguments.rate:g} Hz, in {took:.0f} s: {given / took:.0f}/s')
    print(f'in the file {kept} by the mcap package; dropped {spool.status().dropped}'
          + (f'; {problem}' if problem else ''))
    quarter = max(len(memory) // 4, 1)
    growth = statistics.median(memory[-quarter:]) - statistics.median(memory[quarter:2 * quarter])
    print(f'memory      {memory[0]:.1f} MB after 0.5 million, {memory[-1]:.1f} MB at last; growth '
          f'{growth:+.1f} MB from the second quarter to the last')
    print(f'disk        {writer.size / 1e6:.0f} MB')
    return int(kept != given or bool(problem))


def report(arguments, take, memory, cpu, parts, took, said):
    import yaml
    about = yaml.safe_load((take / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    count, seconds = about['message_count'], about['duration']['nanoseconds'] / 1e9
    first_s = about['starting_time']['nanoseconds_since_epoch'] / 1e9
    notes, kinds = about.get('custom_data') or {}, {}
    for row in about['topics_with_message_count']:
        kind = row['topic_metadata']['name'].rpartition('/')[2]
        kinds[kind] = kinds.get(kind, 0) + row['message_count']
    size = (take / 'take.mcap').stat().st_size
    wanted = arguments.bodies * arguments.rate * 2 + arguments.rate
    print(f'{arguments.bodies} bodies at {arguments.rate:g} Hz, {took:.0f} s measured')
    print(f'recorded    {count} messages in {seconds:.0f} s: {count / seconds:.0f}/s of '
          f'{wanted:.0f}/s that the node publishes where it keeps up')
    print('topics      ' + ', '.join(
        f'{name} {number / seconds:.0f}/s' for name, number in sorted(
            kinds.items(), key=lambda row: -row[1]) if number > seconds / 2))
    lost = sum(map(int, re.findall(r': (\d+)', notes.get('lost', ''))))
    print(f'losses      on the way: {lost} ({100 * lost / (count + lost):.3g} %); in the queue: '
          f'{notes.get("dropped", "none")}')
    for second, number in losses_by_second(notes.get('lost_at', '')):
        print(f'            {number} lost at {second - first_s:.0f} s')
    print('processor   ' + ', '.join(f'{name} {100 * share:.1f} % of a core'
                                     for name, share in cpu.items())
          + f'; together {100 * sum(cpu.values()):.0f} %')
    print('            threads of the recorder: ' + ', '.join(
        f'{name} {100 * share:.1f} %' for name, share in sorted(
            parts.items(), key=lambda row: -row[1]) if share > 0.005))
    quarter = max(len(memory) // 4, 1)
    for column, name in enumerate(('of its own', 'with files and shared')):
        rows = [row[column] for row in memory]
        growth = statistics.median(rows[-quarter:]) - statistics.median(
            rows[quarter:2 * quarter] or rows)
        print(f'memory      {name}: {rows[0]:.1f} MB at first, {rows[-1]:.1f} MB at last; growth '
              f'from the second quarter to the last {growth:+.1f} MB'
              + ('' if growth < NOISE_MB else ' (it grows)'))
    print(f'disk        {size / seconds / 1e6:.2f} MB/s, {size / 1e6:.0f} MB')
    print(said)


def losses_by_second(text):
    """Give (second of the Unix epoch, messages lost) of the recorder's note."""
    found = {}
    for second, _, number in (row.split() for row in text.split(', ') if row):
        found[int(second)] = found.get(int(second), 0) + int(number)
    return sorted(found.items())


if __name__ == '__main__':
    sys.exit(main())
