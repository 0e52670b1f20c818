# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Camera noise, faults and network impairments; random, and reproducible by the seed."""

import math
import random

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.sim.faults import (
    BodyFault, Flip, Frames, NotFinite, Occlusion, Outlier, Teleport)
from optitrack_vrpn.sim.motion import Array, quat_from_rotation_vector, quat_multiply
from optitrack_vrpn.sim.scenario_io import Network, Noise

#: Chosen: frames per block of random numbers. Halved or doubled, the same seed gives other poses.
_BLOCK = 256
_HALF_TURN = {'x': (1.0, 0.0, 0.0, 0.0), 'y': (0.0, 1.0, 0.0, 0.0), 'z': (0.0, 0.0, 1.0, 0.0)}
_NANOSECONDS = 1e9
#: Standard deviation of the logarithm of a wireless delay. Chosen: the 99 % delay is 4 times the
#: median. Halved, 2 times; doubled, 16 times.
_LOGNORMAL_SIGMA = 0.6
#: Shape of the gamma distribution. Chosen: three queues in series on a wired path. Halved or
#: doubled, the tail is longer or shorter at the same mean.
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


def frozen_frames(faults: tuple[BodyFault, ...], frames: Frames, rate: float) -> Frames:
    """Replace frames in which a body is frozen by the last one before it froze."""
    for fault in faults:
        if isinstance(fault, Occlusion) and fault.mode == 'frozen':
            active, since = fault.hits(frames, rate)
            frames = np.where(active, np.maximum(since - 1, 0), frames)
    return frames


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
        if not active.any():
            continue
        if isinstance(fault, Flip):
            quat_xyzw[active] = quat_multiply(
                quat_xyzw[active], np.array(_HALF_TURN[fault.axis]))
        elif isinstance(fault, Teleport):
            position[active] += fault.offset
        elif isinstance(fault, Outlier):
            position[active] += fault.offset
            half = math.radians(fault.turn_deg) / 2
            quat_xyzw[active] = quat_multiply(
                quat_xyzw[active], np.array((0.0, math.sin(half), 0.0, math.cos(half))))
        elif isinstance(fault, NotFinite):
            if fault.field != 'attitude':
                position[active] = float(fault.value)
            if fault.field != 'position':
                quat_xyzw[active] = float(fault.value)
        elif fault.mode == 'zeroed':
            position[active] = 0.0
            quat_xyzw[active] = (0.0, 0.0, 0.0, float(fault.attitude == 'identity'))
    return position, quat_xyzw


def visible(
    faults: tuple[BodyFault, ...], frames: Frames, rate: float,
) -> NDArray[np.bool_]:
    """Find the frames (n,) in which a body is sent."""
    seen = np.ones(len(frames), dtype=bool)
    for fault in faults:
        if isinstance(fault, Occlusion) and fault.mode == 'silent':
            seen &= ~fault.hits(frames, rate).active
    return seen


def occluded(
    faults: tuple[BodyFault, ...], frames: Frames, rate: float,
) -> NDArray[np.bool_]:
    """Find the frames (n,) in which the cameras do not see a body, whether it is sent or not."""
    lost = np.zeros(len(frames), dtype=bool)
    for fault in faults:
        if isinstance(fault, Occlusion):
            lost |= fault.hits(frames, rate).active
    return lost


class Link:
    """
    The simulated network of one client: arrival of each transmission, or its loss.

    :param network: impairments of the network.
    :param seed: seed of the scenario.
    :param number: number of the client; different clients are independent.
    """

    def __init__(self, network: Network, seed: int, number: int) -> None:
        self._network = network
        self._random = random.Random(f'{seed}/{number}')
        self._last = 0
        self.ideal = network == Network()

    def datagram(self, now_ns: int, time: float) -> list[int]:
        """
        Send one datagram.

        Jitter keeps the order, as in one queue; only ``reorder`` changes the order.

        :param now_ns: time of transmission (ns), on any clock.
        :param time: the same in seconds of the scenario, for the outages.
        :returns: arrival times on the clock of ``now_ns``: none, one or two.
        """
        network, draw = self._network, self._random.random
        if self._outage_end(time) is not None or (network.loss and draw() < network.loss):
            return []
        due = self._last = max(self._last, now_ns + self._delay())
        if network.reorder and draw() < network.reorder:
            due += round(network.reorder_ms * 1e6)
        if network.duplicate and draw() < network.duplicate:
            return [due, due]
        return [due]

    def stream(self, now_ns: int, time: float) -> int:
        """
        Send a piece of a TCP stream, without loss and reordering.

        :returns: its arrival time; arguments as in ``datagram``.
        """
        end = self._outage_end(time)
        held = 0 if end is None else round((end - time) * _NANOSECONDS)
        self._last = max(self._last, now_ns + held + self._delay())
        return self._last

    def _outage_end(self, time: float) -> 'float | None':
        for start, end in self._network.outages:
            if start <= time < end:
                return end
        return None

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
        elif network.jitter == 'uniform':
            extra = self._random.uniform(0.0, 2 * mean)
        else:
            extra = self._random.lognormvariate(math.log(mean), _LOGNORMAL_SIGMA)
        return round((network.delay_ms + extra) * 1e6)
