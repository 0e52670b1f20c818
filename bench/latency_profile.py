# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the processor time of each step of a pose in the node.

    python bench/latency_profile.py                print the table
    python bench/latency_profile.py --write-docs   and put it and the picture into docs/

The node runs in this process, with a sender and a subscriber in other processes at the real rate
(so that caches are as cold as in use). Each step is wrapped in a timer of the thread's processor
time; the cost of the timer is subtracted. The node runs as plain Python, because compiled code
calls no timer that is put around its functions.
"""

import argparse
import os
from pathlib import Path
import statistics
import sys
import threading
import time

#: Read when the package is imported.
PLAIN = {'OPTITRACK_VRPN_COMPILE': '0'}
if __name__ == '__main__':
    os.environ.update(PLAIN)

from latency import Child, DOCS, environment, ROOT    # noqa: E402
from latency_tables import write_block    # noqa: E402
from matplotlib import pyplot as plt    # noqa: E402

plt.switch_backend('Agg')
POINTS = ((1, 240), (20, 240))
STEPS = ('read the socket', 'take messages apart', 'stamp, validate, rotate', 'make bytes',
         'publish poses (DDS)', 'publish transforms (DDS)', 'the rest of the thread')
COLOURS = ('#57606a', '#0969da', '#1a7f37', '#bf8700', '#d1242f', '#8250df', '#d0d7de')


class Watch:
    """Add up the time spent in functions, step by step, within one turn of the thread."""

    def __init__(self):
        self.now = dict.fromkeys(STEPS, 0)
        self.turns = []
        self.inside = self.outside = self.calls = 0
        # What a look at the clock adds to the step itself, and to what is around it.
        probe = self.around(STEPS[0], lambda: None)
        trial = self.turn(lambda: [probe() for _ in range(100)])
        for _ in range(50):
            trial()
        inside = statistics.median(turn[STEPS[0]] for turn in self.turns) / 100
        self.outside = statistics.median(turn[STEPS[-1]] for turn in self.turns) / 100
        self.inside = inside
        self.turns.clear()

    def around(self, step, function):
        """Wrap a function whose time counts for a step."""
        clock, now = time.thread_time_ns, self.now

        def timed(*arguments):
            begun = clock()
            try:
                return function(*arguments)
            finally:
                now[step] += clock() - begun - self.inside
                self.calls += 1
        return timed

    def turn(self, function):
        """Wrap what the thread does from one wake to the next; the rest is what no step took."""
        clock, now = time.thread_time_ns, self.now

        def timed(*arguments):
            self.calls = 0
            for step in STEPS:
                now[step] = 0
            begun = clock()
            result = function(*arguments)
            whole = clock() - begun - self.calls * (self.inside + self.outside)
            now[STEPS[-1]] = whole - sum(now[step] for step in STEPS[:-1])
            self.turns.append(dict(now))
            return result
        return timed

    def waiting(self, wait):
        """Wrap the function in which the thread waits: a turn is from one wait to the next."""
        clock, now = time.thread_time_ns, self.now
        begun = None

        def timed(timeout_ms):
            nonlocal begun
            if begun is not None:
                whole = clock() - begun - self.calls * (self.inside + self.outside)
                now[STEPS[-1]] = whole - sum(now[step] for step in STEPS[:-1])
                self.turns.append(dict(now))
            self.calls = 0
            for step in STEPS:
                now[step] = 0
            begun = clock()
            return wait(timeout_ms)
        return timed


class Watched:
    """An object with a watch on one method."""

    def __init__(self, watched, name, function):
        self._watched = watched
        setattr(self, name, function)

    def __getattr__(self, name):
        return getattr(self._watched, name)


def install(node, conversation, watch):
    """Put the watch around every step of a node that streams."""
    conversation._receive_into = watch.around(STEPS[0], conversation._receive_into)
    connection = conversation.connection
    conversation.connection = Watched(connection, 'receive_datagram', watch.around(
        STEPS[1], connection.receive_datagram))
    path = node._path
    path.pipeline = Watched(path.pipeline, 'process', watch.around(
        STEPS[2], path.pipeline.process))
    for channel in path.pipeline.bodies:
        output = channel.user
        output.write_pose = watch.around(STEPS[3], output.write_pose)
        first, other = (watch.around(STEPS[3], write) for write in output.write_tf)
        output.write_tf = type(output.write_tf)(first, other)
        output.send_pose = watch.around(STEPS[4], output.send_pose)
    path.publishers._publish_tf = watch.around(STEPS[5], path.publishers._publish_tf)
    conversation._wait = watch.waiting(conversation._wait)


def measure(bodies, rate, seconds):
    """
    Stream so many bodies through a node in this process.

    :returns: median microseconds per pose of each step, and those of the executor's thread.
    """
    variables = environment()
    os.environ.update(variables)
    from optitrack_vrpn.client.scheduling_io import use_batch_scheduling
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    import rclpy
    use_batch_scheduling()    # as in the node's own process
    sender = Child(['latency_sender.py', '--bodies', str(bodies), '--rate', str(rate)], variables)
    receiver = Child(['latency_receiver.py', '--bodies', str(bodies)], variables)
    try:
        port = int(sender.line())
        receiver.line()
        rclpy.init(args=['profile', '--ros-args', '--log-level', 'error', *(
            word for pair in (
                'autostart:=true', 'server:=127.0.0.1', f'port:={port}',
                'outputs:=[pose, tf, status]') for word in ('-p', pair))])
        node = OptitrackVrpnNode()
        spinning = threading.Thread(target=rclpy.spin, args=(node,), daemon=True)
        spinning.start()
        receiver.ask('wait 30')
        time.sleep(1.5)
        watch = Watch()
        install(node, node._backend._account[1], watch)
        time.sleep(1.2)    # the client uses the wrapped wait from its next check on, within 1 s
        watch.turns.clear()
        task = f'/proc/self/task/{spinning.native_id}/schedstat'
        begun = int(Path(task).read_text().split()[0])
        time.sleep(seconds)
        executor_ns = int(Path(task).read_text().split()[0]) - begun
        turns = [turn for turn in watch.turns if turn[STEPS[1]]]
        node.destroy_node()
        rclpy.shutdown()
        spinning.join()
    finally:
        for child in (receiver, sender):
            child.stop()
    # A turn holds one frame or part of it; sums over turns, less the slowest hundredth.
    turns.sort(key=lambda turn: sum(turn.values()))
    kept = turns[:len(turns) * 99 // 100]
    poses = bodies * rate * seconds * len(kept) / len(turns)
    result = {step: sum(turn[step] for turn in kept) / 1e3 / poses for step in STEPS}
    result['ticks, diagnostics (another thread)'] = executor_ns / 1e3 / (bodies * rate * seconds)
    return result


def table(results):
    """Write the figures as Markdown."""
    heads = [f'{bodies} x {rate} Hz' for bodies, rate in results]
    lines = [f'| us per pose | {" | ".join(heads)} |', '|---|' + '---|' * len(heads)]
    steps = list(next(iter(results.values())))
    for step in steps:
        lines.append(
            f'| {step} | ' + ' | '.join(f'{one[step]:.1f}' for one in results.values()) + ' |')
    totals = (f'{sum(one.values()):.1f}' for one in results.values())
    lines.append('| together | ' + ' | '.join(totals) + ' |')
    return '\n'.join(lines)


def picture(results, path):
    """Draw a bar a point."""
    figure, axis = plt.subplots(figsize=(9, 1.2 + 0.7 * len(results)))
    colours = (*COLOURS, '#eac54f')
    for row, steps in enumerate(results.values()):
        whole, left = sum(steps.values()), 0.0
        for (step, value), colour in zip(steps.items(), colours):
            share = 100 * value / whole
            axis.barh(row, share, left=left, color=colour, label=None if row else step)
            if share > 4:
                axis.text(left + share / 2, row, f'{value:.1f}', ha='center', va='center',
                          fontsize=8, color='white' if colour not in colours[-2:] else 'black')
            left += share
        axis.text(101, row, f'{whole:.1f} us', va='center', fontsize=9)
    axis.set_yticks(range(len(results)), [f'{bodies} x {rate} Hz' for bodies, rate in results])
    axis.set_xlim(0, 110)
    axis.invert_yaxis()
    axis.set_xlabel('share of the time per pose (%); figures in microseconds')
    axis.legend(fontsize=8, ncol=4, loc='lower center', bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=8.0)
    parser.add_argument('--write-docs', action='store_true')
    arguments = parser.parse_args()
    results = {point: measure(*point, arguments.seconds) for point in POINTS}
    text = table(results)
    print(text)
    if arguments.write_docs:
        write_block(DOCS, 'profile', text)
        picture(results, ROOT / 'docs' / 'img' / 'latency_profile.png')
    return 0


if __name__ == '__main__':
    sys.exit(main())
