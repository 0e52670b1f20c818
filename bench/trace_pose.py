# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Print the calls and files that a pose passes, and those of one ``param set``.

    python -m bench.trace_pose             the figures
    python -m bench.trace_pose --calls     and each call

A pose: from the bytes of a VRPN datagram of one body, in the steady state, to the calls of the
middleware, with the default outputs and a subscriber each. A setting: ``validation.max_speed`` of
a configured node. Calls of functions of this package count, as plain Python.
"""

import argparse
from collections import Counter
import os
from pathlib import Path
import sys

# The other benchmarks are started as files.
sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

from pose_cost import OwnShare    # noqa: E402

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


def trace_pose():
    """Trace a pose of one body after 2000 others."""
    from optitrack_vrpn.drivers.vrpn.frames import to_frames
    from optitrack_vrpn.node.publishers import Publishers
    from optitrack_vrpn.node.receiver import Receiver, TurnLock
    from optitrack_vrpn.node.shared_output import SharedOutput
    share = OwnShare(1, ['pose', 'pose_ned', 'tf', 'status'])
    present = [0]

    # Those of the node, without its ROS node.
    publishers = object.__new__(Publishers)
    publishers.outputs, publishers.tf_way = share.outputs, share.tf_way
    publishers.shared = SharedOutput(None, None)
    path = Receiver(TurnLock(), lambda: present[0], lambda *_: None, print)
    path.pipeline, path.publishers, path.active = share.pipeline, publishers, True
    path.link_changed = None
    trace = Trace()
    for number, (time_ns, (data,)) in enumerate(share.encoded(2010)):
        present[0] = time_ns + 2_000_000
        if number < 2000 or len(trace.calls) > 0:
            path.receive(to_frames(share.connection.receive_datagram(data)), present[0], 0)
            continue
        if number % 16 == 15:
            continue    # this one is measured too
        with trace:
            path.receive(to_frames(share.connection.receive_datagram(data)), present[0], 0)
    (body,) = share.pipeline.bodies
    assert body.published > 1900
    return trace


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
    for name, made in (('a pose', trace_pose), ('one param set', trace_setting)):
        trace = made()
        calls, functions, files, packages = trace.figures
        print(f'{name}: {calls} calls of {functions} functions in {files} files of {packages} '
              'packages')
        if shown:
            for (file, function), count in Counter(trace.calls).items():
                print(f'    {count:3} {file}: {function}')


if __name__ == '__main__':
    main()
