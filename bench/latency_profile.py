# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the processor time of each step of a pose in the node.

    python bench/latency_profile.py

The node runs in this process, with a sender and a subscriber in other processes at the real rate
(so that caches are as cold as in use). Each step is wrapped in a timer of the thread's processor
time; the cost of the timer is subtracted. The node runs as plain Python, because compiled code
calls no timer that is put around its functions.
"""

import argparse
import os
from pathlib import Path
import socket
import statistics
import sys
import threading
import time

from latency import Child, environment
from matplotlib import pyplot as plt

plt.switch_backend('Agg')
POINTS = ((1, 240), (20, 240))
STEPS = ('read the socket', 'take messages apart', 'stamp, validate, rotate', 'make bytes',
         'publish poses (DDS)', 'publish transforms (DDS)', 'the rest of the thread')
COLOURS = ('#57606a', '#0969da', '#1a7f37', '#bf8700', '#d1242f', '#8250df', '#d0d7de')


class Watch:
    """Add up the processor time of functions, step by step."""

    def __init__(self):
        self.spent = dict.fromkeys(STEPS, 0)
        self.calls = 0
        #: Of the thread that takes messages apart: the one that does all steps.
        self.thread = None
        # What a look at the clock adds to the step itself, and to what is around it (ns).
        self.inside = self.outside = 0
        probe, rounds = self.around(STEPS[0], lambda: None), []
        for _ in range(50):
            self.reset()
            begun = time.thread_time_ns()
            for _ in range(100):
                probe()
            rounds.append((self.spent[STEPS[0]], time.thread_time_ns() - begun))
        self.inside = statistics.median(inside for inside, _ in rounds) / 100
        self.outside = statistics.median(whole for _, whole in rounds) / 100 - self.inside

    def reset(self):
        """Begin to count."""
        self.calls = 0
        for step in STEPS:
            self.spent[step] = 0

    def around(self, step, function):
        """Wrap a function whose time counts for a step."""
        clock, spent = time.thread_time_ns, self.spent

        def timed(*arguments):
            begun = clock()
            try:
                return function(*arguments)
            finally:
                spent[step] += clock() - begun - self.inside
                self.calls += 1
        return timed


def install(watch):
    """Put the watch around every step, before the node is created."""
    from optitrack_vrpn.drivers.vrpn import session_io
    from optitrack_vrpn.drivers.vrpn.connection import Connection
    from optitrack_vrpn.node import publishers
    from optitrack_vrpn.node.body_output import BodyOutput
    from optitrack_vrpn.stream.pipeline import Pipeline
    watched_socket = type('WatchedSocket', (socket.socket,), {
        'recvmsg_into': watch.around(STEPS[0], socket.socket.recvmsg_into)})
    open_socket = session_io.datagram_socket
    session_io.datagram_socket = lambda *arguments: watched_socket(
        fileno=open_socket(*arguments).detach())
    take_apart = watch.around(STEPS[1], Connection.receive_datagram)

    def receive_datagram(connection, data):
        watch.thread = threading.get_native_id()
        return take_apart(connection, data)
    Connection.receive_datagram = receive_datagram
    Pipeline.process = watch.around(STEPS[2], Pipeline.process)
    sender, equip = publishers.sender, BodyOutput.equip

    def watched_equip(output, settings):
        equip(output, settings)
        output.write_pose = watch.around(STEPS[3], output.write_pose)
        output.write_tf = type(output.write_tf)(*(
            watch.around(STEPS[3], write) for write in output.write_tf))
        output.send_pose = watch.around(STEPS[4], output.send_pose)
    BodyOutput.equip = watched_equip
    publishers.sender = lambda *arguments: watch.around(STEPS[5], sender(*arguments))


def processor_ns(thread):
    """Return the processor time of a thread of this process."""
    return int(Path(f'/proc/self/task/{thread}/schedstat').read_text().split()[0])


def measure(bodies, rate, seconds, watch):
    """
    Stream so many bodies through a node in this process.

    :param watch: installed around the steps.
    :returns: microseconds per pose of each step, and those of the executor's thread.
    """
    variables = environment()
    os.environ.update(variables)
    from optitrack_vrpn.drivers.client_io import use_batch_scheduling
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
        threads = spinning.native_id, watch.thread
        begun = [processor_ns(thread) for thread in threads]
        watch.reset()
        time.sleep(seconds)
        calls, steps = watch.calls, dict(watch.spent)
        executor_ns, client_ns = (
            processor_ns(thread) - before for thread, before in zip(threads, begun))
        node.destroy_node()
        rclpy.shutdown()
        spinning.join()
    finally:
        for child in (receiver, sender):
            child.stop()
    steps[STEPS[-1]] = client_ns - calls * (watch.inside + watch.outside) - sum(steps.values())
    steps['ticks, diagnostics (another thread)'] = executor_ns
    return {step: spent / 1e3 / (bodies * rate * seconds) for step, spent in steps.items()}


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


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=8.0)
    arguments = parser.parse_args()
    watch = Watch()
    install(watch)
    results = {point: measure(*point, arguments.seconds, watch) for point in POINTS}
    print(table(results))
    return 0


if __name__ == '__main__':
    sys.exit(main())
