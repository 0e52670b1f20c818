# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Ten cases of clocks and delays that were written without knowledge of the estimator.

Time runs on one true axis. The sender's clock is that axis with a rate that wanders and with
steps, the host's is the axis with steps. Three conventions:

- The least delay of a path is its hardware's and stays, whatever the load: a load that shifts
  every delay makes frames older, not the path longer.
- The ideal stamp is the arrival less the true age above the least delay, thus on the host's
  clock as it is when the frame is read, also if the clock was stepped after the exposure.
- Frames are read in the order of their exposure, as one path and one socket deliver them.
"""

from typing import NamedTuple

import numpy as np

HOST_EPOCH_NS = 1_795_000_000_000_000_000
#: Steps (s) of the curves of the clocks' rates.
GRID_S = 0.1

# Recorded for this file: 600 bytes over UDP on loopback, 240 Hz, from sendto to the return of
# recv in Python, Linux 6.18 in a virtual machine with two processors at a load average of 9, and
# beside four more busy loops; 6000 frames each. Most frames take some microseconds; those above
# 0.5 ms come in stalls, 0.76 and 7.2 a second, after which all that waited is read at once.
BODY_P = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
BODY_US = (9, 27, 36, 39, 44, 110, 311)
BUSY_BODY_US = (3, 4, 14, 45, 76, 254, 487)
STALL_P = (0, 0.25, 0.5, 0.75, 0.9, 0.97, 1)
STALL_MS = (0.7, 1.1, 1.91, 5.53, 11.67, 30.76, 35.99)
BUSY_STALL_MS = (0.5, 1.21, 3.05, 9.18, 19.57, 67.1, 256.33)
# Exposure to Motive's receipt: 5.56 ms up to 180 Hz, 4.17 ms at 240 Hz and 2.78 ms at 360 Hz
# (docs.optitrack.com, NatNet SDK, 'Latency Measurements'); solving and the wire are guessed.
CAMERA_S = {180: 5.56e-3, 240: 4.17e-3, 360: 2.78e-3}
# net.core.rmem_default of Linux is 212992 bytes, about 1300 of them for a frame of 600 bytes.
SOCKET_FRAMES = 160


class Case(NamedTuple):
    """
    A stretch of frames, with the true stamps.

    Changes are arrivals (ns) at which a clock was stepped, the sender restarted or a stall ended.
    ``monotonic_ns`` are the arrivals on the host's monotonic clock, which stands while all stands.
    """

    name: str
    sentence: str
    sender_ns: np.ndarray
    arrival_ns: np.ndarray
    true_ns: np.ndarray
    changes: tuple
    monotonic_ns: np.ndarray


class Lab:
    """Exposures, delays, and the clocks of sender and host."""

    def __init__(self, rng, rate, seconds):
        """Make the exposures of cameras with a crystal of their own."""
        self.rng = rng
        self.seconds = seconds
        period_s = (1 + rng.normal(0, 15e-6)) / rate
        self.exposure = np.arange(rng.uniform(0, period_s), seconds, period_s)
        self.count = len(self.exposure)
        camera_s = next(delay for most, delay in CAMERA_S.items() if rate <= most)
        self.least_s = camera_s + rng.uniform(1.4e-3, 2e-3)
        self.delay = np.zeros(self.count)
        self.kept = np.ones(self.count, bool)
        self.grid = np.arange(0, seconds + 2 * GRID_S, GRID_S)
        # By 1 ppm/K (D. Hart, ntp.org's list of questions, 2012-02-24), also at a cold start.
        steps = rng.normal(0, 0.02 * GRID_S ** 0.5, len(self.grid))
        self.ppm = rng.uniform(-60, 60) + np.cumsum(steps)
        self.origin_s = rng.uniform(1e3, 1e6)
        self.sender_steps, self.host_steps, self.holds, self.ends = [], [], [], []
        self.stands = []

    def between(self, begin, end):
        """Return which frames are exposed in a time."""
        return (self.exposure >= begin) & (self.exposure < end)

    def jitter(self, mean_s, spike_every=2000, spike_s=2e-3):
        """Delay by a narrow distribution, and rarely by a thread that was not scheduled."""
        self.delay += self.rng.gamma(2, mean_s / 2, self.count)
        self.delay += ((self.rng.random(self.count) < 1 / spike_every) *
                       self.rng.exponential(spike_s, self.count))

    def recorded(self, body_us, stall_ms, every_s):
        """Delay as in a recording: the body of the delays, and stalls."""
        self.delay += np.interp(self.rng.random(self.count), BODY_P, body_us) * 1e-6
        self.stall(every_s, lambda: np.interp(self.rng.random(), STALL_P, stall_ms) * 1e-3)

    def stall(self, every_s, draw_s):
        """Let all frames wait until the end of stalls, which come at random."""
        at = self.rng.exponential(every_s)
        while at < self.seconds:
            end = at + draw_s()
            self.ends += [end] if end - at >= 0.2 else []
            ready = self.exposure + self.least_s + self.delay
            waits = (ready >= at) & (ready < end)
            self.delay[waits] += end - ready[waits]
            at += self.rng.exponential(every_s)

    def hold(self, begin, seconds, room=10 ** 6):
        """Hold back what would be read, and only the oldest if the queue has little room."""
        self.holds.append((begin, begin + seconds, room))
        self.ends.append(begin + seconds)

    def case(self, name, sentence, tick=None, gap_s=15e-6):
        """
        Let the frames arrive.

        :param tick: of the sender's clock (ns) for every frame; by default it has none.
        :param gap_s: time between two frames of a backlog (s).
        """
        numbers = np.arange(self.count) * gap_s
        arrival = self.exposure + self.least_s + self.delay
        arrival = np.maximum.accumulate(arrival - numbers) + numbers
        for begin, end, room in self.holds:
            held = self.kept & (arrival >= begin) & (arrival < end)
            arrival[held] = end
            self.kept[np.flatnonzero(held)[room:]] = False
        kept, numbers = self.kept, np.cumsum(self.kept) * gap_s
        arrival = np.maximum.accumulate(np.where(kept, arrival - numbers, -1)) + numbers
        age_ns = np.rint((arrival - self.exposure - self.least_s) * 1e9).astype(np.int64)
        arrival_ns = HOST_EPOCH_NS + np.rint(arrival * 1e9).astype(np.int64)
        for when, step in self.host_steps:
            arrival_ns[arrival >= when] += round(step * 1e9)
        monotonic_ns = np.rint(arrival * 1e9).astype(np.int64)
        for when, length in self.stands:
            monotonic_ns[arrival >= when] -= round(length * 1e9)
        slip_us = np.interp(self.exposure, self.grid, np.cumsum(self.ppm * GRID_S))
        sender_ns = np.rint(self.exposure * 1e9 + slip_us * 1e3).astype(np.int64)
        sender_ns += round(self.origin_s * 1e9)
        for when, step in self.sender_steps:
            sender_ns[self.exposure >= when] += round(step * 1e9)
        if tick is not None:
            sender_ns -= sender_ns % tick
        # A sender's step shows in the first frame exposed after it, the rest when it is read.
        firsts = [arrival >= when for when, _ in self.host_steps]
        firsts += [arrival >= end for end in self.ends if end < self.exposure[-1]]
        firsts += [self.exposure >= when for when, _ in self.sender_steps]
        changes = sorted({int(arrival_ns[np.argmax(first & kept)]) for first in firsts})
        frames = (numbers[kept] for numbers in (sender_ns, arrival_ns, arrival_ns - age_ns))
        return Case(name, sentence, *frames, tuple(changes), monotonic_ns[kept])


def viewport(rng):
    """Draw a load that shifts the delays and does not spread them."""
    lab = Lab(rng, 120, 240)
    lab.jitter(120e-6)
    begin, end = rng.uniform(75, 100), rng.uniform(165, 190)
    lab.delay[lab.between(begin, end)] += rng.uniform(5.5e-3, 7.5e-3)
    # The load warms the crystal by about a kelvin.
    lab.ppm += rng.choice([-1, 1]) * (1 - np.exp(-np.clip(lab.grid - begin, 0, 90) / 50))
    return lab.case('viewport', 'Somebody opens a video view in Motive, and for 90 s every frame '
                    'is solved some 6 ms later, as evenly as before.')


def paused_guest(rng):
    """Draw a host that is a virtual machine and is paused."""
    lab = Lab(rng, 100, 180)
    lab.recorded(BODY_US, STALL_MS, 1.3)
    begin, length = rng.uniform(60, 80), rng.uniform(5, 9)
    # QEMU's kvmclock does not count while a machine is stopped (hw/i386, M. Tosatti). A frame
    # on its way when the machine stops is lost: nothing distinguishes it from a fresh one.
    lab.hold(begin, length, room=256)
    lab.host_steps += [(begin + length, -length), (begin + length + rng.uniform(8, 14), length)]
    lab.stands.append((begin + length, length))
    lab.kept &= ~lab.between(begin - lab.least_s - 0.04, begin)
    return lab.case('paused guest', 'The host, a virtual machine, is paused for some seconds and '
                    'wakes to a full receive ring and a clock that stood still, which its agent '
                    'puts right ten seconds later.')


def wifi(rng):
    """Draw a radio with its measured tail and with scans of other channels."""
    lab = Lab(rng, 90, 200)
    # K. Sui et al., 'Characterizing and Improving WiFi Latency in Large-Scale Operational
    # Networks' (MobiSys 2016): round trips of typically 3 ms, of 20 ms at the 90th percentile and
    # of 250 ms at the 99th. About half of each is one way here, as short and long stalls.
    lab.jitter(1.7e-3)
    lab.stall(0.11, lambda: rng.exponential(15e-3))
    lab.stall(3, lambda: rng.exponential(0.1))
    lab.kept &= rng.random(lab.count) >= 0.01
    # A spike of 700 ms, or a hold of 100 ms, every 60 to 70 s: beaconsandwich.co.uk (2018-05-12)
    # and smallnetbuilder.com, 'Wi-Fi Ping Spikes'.
    for i, length in enumerate(rng.permutation([0.11, 0.34, 0.7])):
        lab.hold(rng.uniform(25, 35) + 65 * i, length)
    return lab.case('wifi', 'A laptop on the campus WiFi follows the stream and leaves the '
                    'channel once a minute to look for other access points.', gap_s=250e-6)


def unplugged(rng):
    """Draw multicast to a radio that sleeps between beacons."""
    lab = Lab(rng, 60, 210)
    lab.jitter(0.6e-3, spike_every=40)
    lab.stall(2, lambda: rng.exponential(8e-3))
    begin, end, phase = rng.uniform(50, 70), rng.uniform(140, 160), rng.uniform(0, 0.3)
    # Beacons come every 102.4 ms, and group frames after every third (DTIM 3); frames of 600
    # bytes take 0.9 ms at the basic rate of 6 Mbit/s.
    ready = lab.exposure + lab.least_s + lab.delay
    waits = np.ceil((ready - phase) / 0.3072) * 0.3072 + phase - ready
    lab.delay += np.where((ready >= begin) & (ready < end), waits, 0)
    return lab.case('unplugged', 'A laptop is unplugged for 90 s, and while its radio sleeps the '
                    'access point keeps multicast for every third beacon.', gap_s=0.9e-3)


def slewed(rng):
    """Draw a sender whose clock NTP slews."""
    lab = Lab(rng, 300, 200)
    lab.jitter(90e-6, spike_every=900, spike_s=1.5e-3)
    begin = rng.uniform(50, 65)
    # The most that ntpd slews; it steps from 128 ms on.
    slew = (lab.grid >= begin) & (lab.grid < begin + rng.uniform(80, 110))
    lab.ppm += rng.choice([-500, 500]) * slew
    return lab.case('slewed', 'ntpd on the Windows PC finds its clock some 50 ms wrong and '
                    'slews it by 500 ppm until it is right.')


def step_in_stall(rng):
    """Draw a sender's clock that is set while the host reads nothing."""
    lab = Lab(rng, 150, 90)
    lab.jitter(150e-6)
    begin = rng.uniform(45, 55)
    lab.hold(begin, rng.uniform(1.6, 1.9), room=SOCKET_FRAMES)
    # From 0.5 s on w32time sets a clock, and does not slew it.
    lab.sender_steps.append((begin + rng.uniform(0.3, 0.5), rng.uniform(0.7, 1.0)))
    return lab.case('step in stall', 'The host swaps for almost 2 s, its socket keeps the oldest '
                    'frames, and meanwhile Windows sets its clock forward by almost 1 s.')


def cold_start(rng):
    """Draw frames lost at random, a PC that warms up and a sender that is restarted."""
    lab = Lab(rng, 180, 300)
    lab.jitter(140e-6)
    # A copy of files through the same port, on and off: 512 KiB of buffer at 1 Gbit/s.
    for at in np.cumsum(rng.exponential(23, 30)):
        queue = np.minimum(rng.exponential(1.2e-3, lab.count), 4.2e-3)
        lab.delay += lab.between(at, at + rng.exponential(8)) * queue
    lab.kept &= rng.random(lab.count) >= 0.07
    lab.ppm += rng.choice([-1, 1]) * 14 * np.exp(-lab.grid / rng.uniform(60, 90))
    down = rng.uniform(130, 150)
    up = down + rng.uniform(9, 15)
    lab.kept &= ~lab.between(down, up)
    lab.sender_steps.append((up, rng.uniform(1, 5) - up - lab.origin_s))
    return lab.case('cold start', 'A PC that was just switched on warms up, a switch loses 7 % of '
                    'the frames, and Motive is restarted with a time that begins anew.')


def coarse_tick(rng):
    """Draw a clock whose tick does not divide the period of the frames."""
    lab = Lab(rng, 50, 240)
    lab.jitter(300e-6, spike_every=500, spike_s=4e-3)
    # Windows' system time moves by 15.625 ms, and by a sixteenth of it after timeBeginPeriod(1)
    # (windowstimestamp.com, 'Microsecond Resolution Time Services for Windows').
    late = lab.exposure >= rng.uniform(110, 140)
    return lab.case('coarse tick', 'At 50 Hz the sender stamps with a clock that ticks every '
                    '15.625 ms, until somebody opens a browser and it ticks every 0.977 ms.',
                    tick=np.where(late, 976_562, 15_625_000))


def held_back(rng):
    """Draw bursts of frames that a switch held back."""
    lab = Lab(rng, 360, 90)
    lab.jitter(60e-6)
    # A network card that interrupts 8000 times a second (e1000e: 4000 to 20000).
    ready = lab.exposure + lab.least_s + lab.delay
    lab.delay += np.ceil(ready * 8000) / 8000 - ready
    for i in range(5):
        lab.hold(rng.uniform(14, 20) + 15 * i, rng.uniform(0.15, 0.7))
    return lab.case('held back', 'A hung computer sends pause frames, and five times the switch '
                    'holds all frames for up to 0.7 s and delivers them at once.', gap_s=8e-6)


def busy_host(rng):
    """Draw a host with more work than processors, whose clock is set back."""
    lab = Lab(rng, 240, 150)
    lab.jitter(110e-6)
    lab.recorded(BUSY_BODY_US, BUSY_STALL_MS, 0.14)
    lab.host_steps.append((rng.uniform(65, 85), -rng.uniform(1.5, 3.5)))
    return lab.case('busy host', 'The host compiles with more jobs than processors from the '
                    'first frame on, and chrony sets its clock back by some seconds.')


def cases(seed):
    """Draw ten cases."""
    makers = (viewport, paused_guest, wifi, unplugged, slewed, step_in_stall, cold_start,
              coarse_tick, held_back, busy_host)
    return [make(np.random.default_rng([seed, i])) for i, make in enumerate(makers)]


def main():
    """Print ten cases."""
    print('ms above the least delay:     frames  changes      50 %      90 %      99 %       max')
    for case in cases(1):
        ages = (case.arrival_ns - case.true_ns) * 1e-6
        figures = ' '.join(f'{x:9.3f}' for x in np.quantile(ages, [0.5, 0.9, 0.99, 1]))
        print(f'{case.name:28} {len(ages):7} {len(case.changes):8} {figures}')
        print(f'    {case.sentence}')


if __name__ == '__main__':
    main()
