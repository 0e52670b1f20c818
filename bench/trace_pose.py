# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Print the calls and files that a pose passes, and those of one ``param set``.

    python -m bench.trace_pose             the figures
    python -m bench.trace_pose --calls     and each call

A pose: from the read of the socket to the calls of the middleware, of one body by VRPN, in the
steady state, with the default outputs and a subscriber each; and of these calls those after the
loop, from the bytes of a datagram on. A setting: ``validation.max_speed`` of a configured node.
Calls of functions of this package count, as plain Python.
"""

import argparse
from collections import Counter
import contextlib
import os
from pathlib import Path
import socket
import sys

# The other benchmarks are started as files.
sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

from cost_steps import OwnShare    # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent / 'optitrack_vrpn'


class Trace:
    """
    Record calls of functions of this package within a ``with`` block.

    :ivar calls: file and function of each call, in order.
    """

    def __init__(self):
        self.calls = []

    def _called(self, frame, event, _):
        code = frame.f_code
        if event == 'call' and code.co_filename.startswith(f'{FOLDER}{os.sep}'):
            name = getattr(code, 'co_qualname', code.co_name)
            self.calls.append((str(Path(code.co_filename).relative_to(FOLDER)), name))

    def __enter__(self):
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    @property
    def figures(self):
        """Return the numbers of calls, functions, files and packages."""
        files = {file for file, _ in self.calls}
        return (len(self.calls), len(set(self.calls)), len(files),
                len({file.split('/')[0] for file in files}))


class Times:
    """The clocks of the conversation, which the caller sets."""

    def __init__(self):
        self.ns = 0

    def now_ns(self):
        """Return the arrival clock (ns)."""
        return self.ns

    @staticmethod
    def host_minus_arrival_ns():
        """Return the difference of the clocks (ns)."""
        return 0


def trace_pose():
    """Trace a pose of one body after 2000 others."""
    from optitrack_vrpn.drivers.config import LinkConfig
    from optitrack_vrpn.drivers.link import Link
    from optitrack_vrpn.drivers.loop_io import Conversation, SocketChannel
    from optitrack_vrpn.drivers.vrpn.driver import LAST_OF_A_FRAME, UDP, VrpnDriver
    from optitrack_vrpn.node.publishers import Publishers
    from optitrack_vrpn.node.receiver import Receiver, TurnLock
    from optitrack_vrpn.node.shared_output import SharedOutput
    share = OwnShare(1, ['pose', 'pose_ned', 'tf', 'status'])
    clock = Times()

    # Those of the node, without its ROS node.
    publishers = object.__new__(Publishers)
    publishers.outputs, publishers.tf_way = share.outputs, share.tf_way
    publishers.shared = SharedOutput(None, None)
    path = Receiver(TurnLock(), lambda: clock.ns, lambda *_: None, print)
    path.pipeline, path.publishers, path.active = share.pipeline, publishers, True
    path.link_changed = None
    sender, own = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    trace = Trace()
    with sender, own:
        own.bind(('127.0.0.1', 0))
        sender.connect(own.getsockname())
        driver = VrpnDriver()
        driver.connection = share.connection
        channel = SocketChannel(UDP, own, full=LAST_OF_A_FRAME)
        loop = Conversation(
            driver, [channel], ('127.0.0.1', 1), '127.0.0.1', Link(LinkConfig(), 0), clock, path,
            print, print)
        for number, (time_ns, (data,)) in enumerate(share.encoded(2010)):
            clock.ns = time_ns + 2_000_000
            sender.send(data)
            # One in 16 is measured too.
            with contextlib.ExitStack() as stack:
                if number >= 2000 and number % 16 != 15 and not trace.calls:
                    stack.enter_context(trace)
                loop._read_datagrams(channel)
    trace.calls = [
        one for one in trace.calls if not one[1].startswith(('Times', 'trace_pose'))]
    (body,) = share.pipeline.bodies
    assert body.published > 1900
    return trace


def after_loop(trace):
    """Return the part of a pose's trace that is not the loop's."""
    part = Trace()
    names = [function for _, function in trace.calls]
    part.calls = trace.calls[names.index('VrpnDriver.feed') + 1:]
    part.calls = [one for one in part.calls if 'loop_io' not in one[0]]
    return part


def trace_setting():
    """Trace one change of a parameter of a configured node."""
    from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate
    claim = claim_domain()
    isolate(os.environ, claim.domain)
    import rclpy
    from rclpy.parameter import Parameter
    rclpy.init()
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    node = OptitrackVrpnNode(parameter_overrides=[Parameter('server', value='127.0.0.1')])
    trace = Trace()
    try:
        node.trigger_configure()
        with trace:
            (result,) = node.set_parameters([Parameter('validation.max_speed', value=10.0)])
        assert result.successful, result.reason
        node.trigger_cleanup()
    finally:
        node.destroy_node()
        rclpy.shutdown()
    return trace


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--calls', action='store_true', help='list each call')
    shown = parser.parse_args().calls
    pose = trace_pose()
    for name, trace in (('a pose, from the socket', pose),
                        ('a pose, from the datagram', after_loop(pose)),
                        ('one param set', trace_setting())):
        calls, functions, files, packages = trace.figures
        print(f'{name}: {calls} calls of {functions} functions in {files} files of {packages} '
              'packages')
        if shown:
            for (file, function), count in Counter(trace.calls).items():
                print(f'    {count:3} {file}: {function}')


if __name__ == '__main__':
    main()
