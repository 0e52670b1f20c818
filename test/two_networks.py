# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A computer with two network cards and a Motive PC on both networks, in network namespaces.

It needs the right to make namespaces. Threads take part: what a test does ``inside`` one of them
happens there, threads and sockets included that are made there.
"""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess

_CLONE_NEWNET = 0x40000000
_COUNT = itertools.count()


def _ip(*words):
    subprocess.run(['ip', *' '.join(words).split()], check=True, capture_output=True)


@contextlib.contextmanager
def inside(name):
    """Let this thread work in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/thread-self/ns/net') as here, open(f'/run/netns/{name}') as there:
        if libc.setns(there.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), 'setns')
        try:
            yield
        finally:
            libc.setns(here.fileno(), _CLONE_NEWNET)


class TwoNetworks:
    """
    Two networks with two computers.

    :ivar robot, motive: names of the namespaces of either computer.
    :ivar lab, office: addresses (robot, motive) in either network; the robot's cards are called
        ``lab0`` and ``office0``, and multicast leaves the Motive PC by the first.
    :ivar other: another address in the laboratory's network, also of the Motive PC's namespace.
    """

    def __init__(self):
        number = f'{os.getpid()}_{next(_COUNT)}'
        self.robot, self.motive = f'robot{number}', f'motive{number}'
        self.lab = ('10.214.1.1', '10.214.1.2')
        self.office = ('10.214.2.1', '10.214.2.2')
        self.other = '10.214.1.9'

    def __enter__(self):
        try:
            for name in (self.robot, self.motive):
                _ip('netns add', name)
                _ip('-n', name, 'link set lo up')
                with contextlib.suppress(subprocess.SubprocessError):    # a read-only /proc
                    subprocess.run(
                        ['ip', 'netns', 'exec', name, 'sh', '-c', 'for place in all default; do '
                         'echo 0 > /proc/sys/net/ipv4/conf/$place/rp_filter; done'], check=True,
                        capture_output=True)
            for card, (here, there) in (('lab0', self.lab), ('office0', self.office)):
                _ip('-n', self.robot, f'link add {card} type veth peer name {card} netns',
                    self.motive)
                for name, address in ((self.robot, here), (self.motive, there)):
                    _ip('-n', name, f'addr add {address}/24 dev {card}')
                    _ip('-n', name, f'link set {card} up')
            _ip('-n', self.motive, f'addr add {self.other}/24 dev lab0')
            _ip('-n', self.motive, 'route add 239.0.0.0/8 dev lab0')
            # The trap: the robot's system prefers the wrong card for the group.
            _ip('-n', self.robot, 'route add 239.0.0.0/8 dev office0')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.robot, self.motive):
            with contextlib.suppress(subprocess.SubprocessError):
                _ip('netns del', name)


def allowed():
    """Return whether this process may make network namespaces."""
    if os.geteuid() or not shutil.which('ip'):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError), TwoNetworks() as networks:
        with inside(networks.robot):
            return True
    return False
