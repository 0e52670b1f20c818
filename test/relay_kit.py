# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Programs between clients and a server on this machine that lose, delay and change data."""

import contextlib
import select
import socket
import threading
import time


class Background:
    """Call ``turn`` again and again in a thread, from the entry of a ``with`` block to its end."""

    def __init__(self):
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping = True
        self._thread.join()
        self.close()

    def _run(self):
        while not self._stopping:
            self.turn()

    def turn(self):
        """Do one step, of some 0.1 s at most."""
        raise NotImplementedError

    def close(self):
        """Close the sockets, after the last turn."""
        raise NotImplementedError


class Between(Background):
    """
    Stand between clients and a server; lose datagrams, or hold them up.

    :ivar hole_open: whether datagrams are lost.
    :ivar holding: whether datagrams to clients are held up.
    :ivar held: what ``deliver`` gets when the datagrams are released.
    """

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.hole_open = self.holding = False
        self.held = []

    def hole(self, open_):
        """Lose all datagrams; or end that."""
        with self.lock:
            self.hole_open = open_

    def hold(self, on):
        """Hold datagrams up; or release them in one burst, every 30th ahead of the one before."""
        with self.lock:
            self.holding = on
            held, self.held = self.held, []
            for at in range(29, len(held), 30):
                held[at - 1], held[at] = held[at], held[at - 1]
            for at, each in enumerate(held):
                self.deliver(*each)
                # A tenth of the time in which they were sent: more does not fit into a socket.
                time.sleep(0.001 if at % 10 else 0.002)

    def deliver(self, *each):
        """Send a datagram that was held up."""
        raise NotImplementedError


class Relay(Between):
    """
    Pass datagrams between NatNet clients and a server, by unicast.

    :param server_port: the command port of the server.
    :param rule: called with each datagram of a client; returns what the server gets, or None for
        nothing, and optionally answers the client itself with its second argument.
    :ivar port: the command port that clients find.
    """

    def __init__(self, server_port, rule=lambda data, answer: data):
        super().__init__()
        self._server = ('127.0.0.1', server_port)
        self._rule = rule
        self._front = self._socket()
        self.port = self._front.getsockname()[1]
        self._backs = {}

    @staticmethod
    def _socket():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(('127.0.0.1', 0))
        sock.setblocking(False)
        return sock

    @property
    def clients(self):
        """Return the addresses of the clients."""
        return list(self._backs)

    def close(self):
        """Close all sockets."""
        for sock in (self._front, *self._backs.values()):
            sock.close()

    def half_open(self):
        """Let the server lose every client: what a client sends comes from an unknown port."""
        with self.lock:
            for address, sock in self._backs.items():
                sock.close()
                self._backs[address] = self._socket()

    def deliver(self, data, client):
        """Send a datagram to a client."""
        self._front.sendto(data, client)

    def turn(self):
        """Pass on what has arrived."""
        with self.lock:
            owners = {sock: address for address, sock in self._backs.items()}
            ready, _, _ = select.select([self._front, *owners], [], [], 0.01)
            for sock in ready:
                with contextlib.suppress(OSError):
                    self._pass_on(sock, owners.get(sock))
        time.sleep(0)

    def _pass_on(self, sock, client):
        data, address = sock.recvfrom(65536)
        if self.hole_open:
            return
        if client is None:
            if address not in self._backs:
                self._backs[address] = self._socket()
            passed = self._rule(data, lambda answer: self._front.sendto(answer, address))
            if passed is not None:
                self._backs[address].sendto(passed, self._server)
        elif self.holding:
            self.held.append((data, client))
        else:
            self.deliver(data, client)
