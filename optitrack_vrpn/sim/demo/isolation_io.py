# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS domain of a demo, and its display."""

import contextlib
import os
from pathlib import Path
import tempfile
from typing import Iterator, Optional, Sequence

from optitrack_vrpn.cli.child_io import Child
from optitrack_vrpn.cli.files_io import package_file
from optitrack_vrpn.cli.signals_io import ignore
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.node.graph.domain_io import claim_domain, in_use, isolate, own_domain
from optitrack_vrpn.sim.demo.table import display


@contextlib.contextmanager
def display_file(names: Sequence[str]) -> Iterator[str]:
    """
    Write the display for a demo into a file that exists during the block.

    :param names: the simulated bodies.
    :returns: its path.
    """
    shipped = package_file('optitrack_vrpn.rviz').read_text(encoding='utf-8')
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        path = Path(folder) / 'demo.rviz'
        path.write_text(display(shipped, names), encoding='utf-8')
        yield str(path)


@contextlib.contextmanager
def isolated(domain: Optional[int], simulated: bool = True) -> Iterator[
        tuple[int, list[Child], contextlib.ExitStack]]:
    """
    Stay in a ROS domain of this computer during a block, and end the processes that it started.

    :param domain: the domain; None for a free one.
    :param simulated: whether poses are simulated, which must not reach programs of the domain.
    :returns: the domain, the list of started processes, and a stack for what must be removed.
    :raises TransportError: if the domain is in use, or none is free.
    """
    children: list[Child] = []
    with contextlib.ExitStack() as files:
        try:
            if domain is None:
                domain = files.enter_context(claim_domain({own_domain()})).domain
            elif simulated and in_use(domain):
                raise TransportError(
                    f'ROS domain {domain} is in use on this computer, and simulated poses would '
                    'reach it: omit --domain for a free one, or end its programs (ros2 daemon '
                    'stop, too)')
            isolate(os.environ, domain)
            yield domain, children, files
        finally:
            ignore()    # a second signal does not interrupt the end of the processes
            for child in children:
                child.process.terminate()
            for child in children:
                child.stop()
