# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Camera noise, faults and network impairments; random, and reproducible by the seed."""

import math
import random
from typing import Callable, NamedTuple

import numpy as np

from optitrack_vrpn.core.arrays import quat_multiply
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.sim.faults import BodyFault, Frames, Mask, Occlusion
from optitrack_vrpn.sim.motion import Array, quat_from_rotation_vector
from optitrack_vrpn.sim.scenario_io import Network, Noise

#: Chosen: frames per block of random numbers.
_BLOCK = 256
#: Shape of the gamma distribution. Chosen: three queues in series on a wired path.
_GAMMA_SHAPE = 3.0


class Draws:
    """
    Random numbers of numbered frames, equal for any order of evaluation.

    A counter-based generator (Philox) gives each block of frames its own part of one stream.

    :param seed: seed of the scenario.
    :param stream: number of the stream; different streams are independent.
    :param columns: numbers per frame.
    """

    def __init__(self, seed: int, stream: int, columns: int, uniform: bool = False) -> None:
        self._key = (seed, stream)
        self._columns = columns
        self._uniform = uniform
        self._blocks: dict[int, Array] = {}

    def at(self, frames: Frames) -> Array:
        """
        Draw for some frames.

        :param frames: (n,) numbers from 0.
        :returns: (n, columns), standard normal, or uniform in [0, 1).
        """
        blocks = frames // _BLOCK
        numbers = np.empty((len(frames), self._columns))
        for block in np.unique(blocks).tolist():
            chosen = blocks == block
            numbers[chosen] = self._block(block)[frames[chosen] % _BLOCK]
        return numbers

    def _block(self, number: int) -> Array:
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= 4:
                del self._blocks[next(iter(self._blocks))]
            generator = np.random.Generator(np.random.Philox(
                key=np.array(self._key, dtype=np.uint64),
                counter=np.array((0, number, 0, 0), dtype=np.uint64)))
            shape = (_BLOCK, self._columns)
            block = (generator.random(shape) if self._uniform
                     else generator.standard_normal(shape))
            self._blocks[number] = block
        return block


def add_noise(
    position: Array, quat_xyzw: Array, noise: Noise, draws: Array,
) -> tuple[Array, Array]:
    """
    Add normal noise to poses.

    :param position: (n, 3) metres.
    :param quat_xyzw: (n, 4).
    :param draws: (n, 6) standard normal numbers.
    """
    if noise.position_mm:
        position = position + noise.position_mm * 1e-3 * draws[:, :3]
    if noise.attitude_deg:
        turn = quat_from_rotation_vector(math.radians(noise.attitude_deg) * draws[:, 3:])
        quat_xyzw = quat_multiply(quat_xyzw, turn)
    return position, quat_xyzw


def apply_faults(
    faults: tuple[BodyFault, ...], frames: Frames, rate: float,
    position: Array, quat_xyzw: Array,
) -> tuple[Array, Array]:
    """
    Modify poses where a fault is active, in the order of the faults.

    :param frames: (n,) frame number of each pose.
    :param rate: frames per second.
    :param position: (n, 3) metres.
    :param quat_xyzw: (n, 4).
    """
    position, quat_xyzw = position.copy(), quat_xyzw.copy()
    for fault in faults:
        active = fault.hits(frames, rate).active
        if active.any():
            fault.apply(position, quat_xyzw, active)
    return position, quat_xyzw


class Occlusions(NamedTuple):
    """
    The occlusions of a body in n frames.

    :ivar lost: (n,) whether the cameras do not see the body, whether it is sent or not.
    :ivar silent: (n,) whether the body is not sent.
    :ivar held: (n,) number of the frame whose pose is sent: the last one before a body froze.
    """

    lost: Mask
    silent: Mask
    held: Frames


def occlusions(faults: tuple[BodyFault, ...], frames: Frames, rate: float) -> Occlusions:
    """Evaluate the occlusions of a body in some frames (n,)."""
    lost, silent = np.zeros((2, len(frames)), dtype=bool)
    held = frames
    for fault in faults:
        if isinstance(fault, Occlusion):
            lost |= (active := fault.hits(frames, rate).active)
            if fault.mode == 'silent':
                silent |= active
            elif fault.mode == 'frozen':
                frozen, since = fault.hits(held, rate)
                held = np.where(frozen, np.maximum(since - 1, 0), held)
    return Occlusions(lost, silent, held)


class ImpairedLink:
    """
    The simulated network of one client: arrival of each transmission, or its loss.

    :param network: impairments of the network.
    :param seed: seed of the scenario.
    :param number: number of the client; different clients are independent.
    :param seconds: converts a time of the server's clock (ns) to seconds of the scenario.
    """

    def __init__(
        self, network: Network, seed: int, number: int, seconds: Callable[[int], float],
    ) -> None:
        self._seconds = seconds
        self._random = random.Random(f'{seed}/{number}')
        self._last = 0
        self.set_network(network)

    def set_network(self, network: Network) -> None:
        """Change the impairments."""
        self._network = network
        self.ideal = network == Network()

    def datagram(self, now_ns: int) -> list[int]:
        """
        Send one datagram.

        Jitter keeps the order, as in one queue; only ``reorder`` changes the order.

        :param now_ns: time of transmission (ns), on the server's clock.
        :returns: arrival times on the same clock: none, one or two.
        """
        network, draw = self._network, self._random.random
        if self._outage_ns(now_ns) or (network.loss and draw() < network.loss):
            return []
        due = self._last = max(self._last, now_ns + self._delay())
        if network.reorder and draw() < network.reorder:
            due += round(network.reorder_ms * 1e6)
        if network.duplicate and draw() < network.duplicate:
            return [due, due]
        return [due]

    def stream(self, now_ns: int) -> int:
        """
        Send a piece of a TCP stream, without loss and reordering.

        :returns: its arrival time on the server's clock.
        """
        held_ns = self._outage_ns(now_ns)
        self._last = max(self._last, now_ns + held_ns + self._delay())
        return self._last

    def _outage_ns(self, now_ns: int) -> int:
        """Return how long the network remains interrupted (ns)."""
        if not self._network.outages:
            return 0
        time = self._seconds(now_ns)
        return max((round((end - time) * NS_PER_S) for start, end in self._network.outages
                    if start <= time < end), default=0)

    def _delay(self) -> int:
        """Draw a delay in nanoseconds."""
        network = self._network
        mean = network.jitter_ms
        if not mean:
            extra = 0.0
        elif network.jitter == 'gamma':
            extra = self._random.gammavariate(_GAMMA_SHAPE, mean / _GAMMA_SHAPE)
        elif network.jitter == 'exponential':
            extra = self._random.expovariate(1 / mean)
        else:
            # Standard deviation of the logarithm of a wireless delay. Chosen: the 99 % delay is 4
            # times the median.
            extra = self._random.lognormvariate(math.log(mean), 0.6)
        return round((network.delay_ms + extra) * 1e6)
