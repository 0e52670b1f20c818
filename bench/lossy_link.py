# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A link that loses packets, between this network namespace and another; needs root.

Two TUN devices joined by a thread that drops a share of the IP packets, in both directions. Both
ends are the kernel's own TCP, so that retransmissions are real; no netem module is needed. The
thread adds some 0.1 ms, to TCP and UDP alike.
"""

import contextlib
import fcntl
import os
import random
import select
import struct
import subprocess
import threading

from two_networks import inside

_TUNSETIFF = 0x400454CA    # linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


def _tun(name):
    """Make a TUN device in the present namespace; return its file descriptor."""
    fd = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack('16sH22x', name.encode(), _IFF_TUN | _IFF_NO_PI))
    return fd


class LossyLink:
    """
    A network namespace for the server, and the link to it.

    :ivar loss: share of the packets that are dropped; may be changed at any time.
    :ivar server, client: the addresses at either end.
    :ivar prefix: the words before a command that is to run at the server's end.
    """

    def __init__(self, loss=0.0, seed=1):
        number = os.getpid() % 250 + 1
        self.loss = loss
        self.server, self.client = f'10.214.{number}.2', f'10.214.{number}.1'
        self._name = f'lossy{number}'
        self._cards = f'lossa{number}', f'lossb{number}'
        self.prefix = ['ip', 'netns', 'exec', self._name]
        self._dice = random.Random(seed)
        self._fds = []
        self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        try:
            self._ip(f'netns add {self._name}')
            self._fds.append(_tun(self._cards[0]))
            with inside(self._name):
                self._fds.append(_tun(self._cards[1]))
            for address, card, place in ((self.client, self._cards[0], []),
                                         (self.server, self._cards[1], ['-n', self._name])):
                self._ip(f'addr add {address}/24 dev {card}', place)
                self._ip(f'link set {card} up', place)
            self._ip('link set lo up', ['-n', self._name])
        except BaseException:
            self._clean_up()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_):
        os.write(self._stop[1], b'\0')
        self._thread.join()
        self._clean_up()

    def _clean_up(self):
        for fd in (*self._fds, *self._stop):
            os.close(fd)
        with contextlib.suppress(subprocess.SubprocessError):
            self._ip(f'netns del {self._name}')

    def _run(self):
        poll = select.poll()
        for fd in (*self._fds, self._stop[0]):
            poll.register(fd, select.POLLIN)
        other = dict(zip(self._fds, reversed(self._fds)))
        while True:
            for fd, _ in poll.poll():
                if fd not in other:
                    return
                with contextlib.suppress(OSError):    # read empty, or the other end is full
                    while True:
                        packet = os.read(fd, 2048)
                        if self._dice.random() >= self.loss:
                            os.write(other[fd], packet)

    def _ip(self, command, inside=()):
        subprocess.run(['ip', *inside, *command.split()], check=True, capture_output=True)
