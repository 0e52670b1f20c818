# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sessions of the stamp benchmark."""

from __future__ import annotations

from dataclasses import replace
import math
import random

from clock_sim import Scenario

# Aims: 25 us on a wire, 200 on WiFi, 500 where a clock is slewed or disciplined.
WIRED = Scenario('wired 240 Hz', aim_us=25.0)
WIFI = Scenario('WiFi 120 Hz', rate_hz=120.0, delay='wifi', loss=0.005, stall_ms=(10.0, 100.0),
                skew_ppm=-35.0, aim_us=200.0)
_EVENTS = (
    ('host_step', 50.0), ('host_step', -50.0), ('host_slew', 25.0), ('host_slew', -25.0),
    ('sender_restart', -1.0), ('sender_restart', 90_000.0), ('gap', 60.0), ('gap', 10.0),
    ('delay_jump', 2.0),
)


def _spread(seconds: float, *events: tuple[str, float]) -> tuple[tuple[float, str, float], ...]:
    """Spread events evenly over a session."""
    return tuple((seconds * (i + 1) / (len(events) + 1), kind, size)
                 for i, (kind, size) in enumerate(events))


def _disciplined(seconds: float) -> tuple[tuple[float, str, float], ...]:
    """Give the changes of rate of a clock that w32time disciplines (ppm)."""
    rnd = random.Random(7)
    steps = []
    at, now = 100.0, 0.0
    while at < seconds:
        ppm = rnd.choice((-1.0, 1.0)) * rnd.uniform(5.0, 60.0)
        steps.append((at, 'discipline', ppm - now))
        at, now = at + rnd.uniform(60.0, 300.0), ppm
    return tuple(steps)


def scenarios(seconds: float) -> list[Scenario]:
    """Return the sessions of the table."""
    wired, wifi = WIRED, WIFI
    slewed, other = (replace(wired, aim_us=aim) for aim in (500.0, math.inf))
    once = 10.0 * seconds
    return [
        wired,
        replace(wired, name='wired, load spikes of 30 s', spike_every_s=600.0, skew_ppm=-48.0,
                walk=1e-8, thermal_ppm=1.0),
        replace(wired, name='wired 360 Hz', rate_hz=360.0, delay='exponential', delay_us=100.0,
                skew_ppm=49.0),
        replace(wired, name='busy: 60 s spikes every 3 min', spike_every_s=180.0, spike_s=60.0,
                spike_regular=True, skew_ppm=23.0),
        replace(wired, name='load 80 of every 100 s', spike_every_s=100.0, spike_regular=True,
                spike_s=80.0, spike_first_s=120.0),
        replace(wired, name='load of 15 to 40 ms, 10 s', spike_every_s=200.0, spike_s=10.0,
                spike_ms=(15.0, 40.0)),
        replace(other, name='load wanders, 1 ms, 5 s', queue_us=1000.0, queue_s=5.0),
        replace(other, name='load swells for 60 s to 1.5 ms', swell_every_s=300.0, swell_s=60.0),
        *(replace(other, name=f'starts under load of {length:g} s', spike_every_s=once,
                  spike_first_s=0.0, spike_s=length, spike_ms=(2.0, 2.0))
          for length in (30.0, 60.0)),
        wifi,
        replace(wifi, name='WiFi 100 Hz', rate_hz=100.0, skew_ppm=48.0, thermal_ppm=1.0),
        replace(wifi, name='WiFi 30 Hz', rate_hz=30.0),
        replace(wifi, name='WiFi, load spikes of 60 s', spike_every_s=180.0, spike_s=60.0,
                aim_us=math.inf),
        replace(wifi, name='H: WiFi power save 102.4 ms', rate_hz=100.0, poll_ms=102.4,
                poll_jitter_us=300.0, aim_us=math.inf),
        replace(slewed, name='5 ppm in waves, load of 30 s', thermal_ppm=5.0,
                thermal_period_s=600.0, spike_every_s=300.0),
        replace(slewed, name='sender slewed by 25 ms', events=_spread(
            seconds, ('host_slew', 25.0), ('host_slew', -25.0), ('host_slew', 25.0))),
        *(replace(slewed, name=f'{letter}sender disciplined, counts from {base}', epoch=epoch,
                  events=_disciplined(seconds))
          for letter, base, epoch in (('', '1970', True), ('G: ', 'its start', False))),
        replace(slewed, name='rate of clock steps 100 ppm', events=_spread(
            seconds, ('skew', 100.0), ('skew', -100.0))),
        *(replace(wired, name=f'C: skew {ppm} ppm', skew_ppm=float(ppm))
          for ppm in (400, 700, 1000, -1000)),
        replace(wired, name='events', skew_ppm=31.0, events=_spread(seconds, *_EVENTS)),
        replace(other, name='sender restarts, load 20 s later', events=(
            (300.0, 'sender_restart', -1.0),), loads=((325.0, 30.0, 2.0),)),
        replace(other, name='sender steps 20, 300 ms', events=_spread(
            seconds, ('sender_step', 20.0), ('sender_step', -20.0), ('sender_step', 300.0),
            ('sender_step', -300.0))),
        replace(wired, name='gaps of 1 to 120 s', events=_spread(
            seconds, ('gap', 1.0), ('gap', 5.0), ('gap', 29.0), ('gap', 31.0), ('gap', 120.0))),
        replace(other, name='delay jumps 2 ms up, down', events=_spread(
            seconds, ('delay_jump', 2.0), ('delay_jump', -2.0))),
        replace(other, name='delays fivefold and back', events=_spread(
            seconds, ('noise', 5.0), ('noise', 1.0))),
        *(replace(other, name=f'ticks of {us / 1e3:g} ms', quantum_us=us)
          for us in (1000.0, 4000.0, 15_625.0, 64_000.0)),
        replace(other, name='ticks of 1 ms, 0.5 % loss', quantum_us=1000.0, loss=0.005),
        replace(other, name='ticks of 15.6 ms, 60 Hz', quantum_us=15_625.0, rate_hz=60.0),
        replace(other, name='I: ticks of 4 ms, 120 Hz, 0.5 % loss', rate_hz=120.0,
                quantum_us=4000.0, loss=0.005),
        replace(other, name='I: ticks of 2 ms, 0.5 % loss', quantum_us=2000.0, loss=0.005),
        replace(other, name='stamped 0.2 ms late, 0.5 % loss', late_us=200.0, loss=0.005),
        *(replace(other, name=f'polled every {ms:g} ms', poll_ms=ms, poll_jitter_us=50.0)
          for ms in (1.0, 2.0, 4.0, 5.0, 10.0)),
        # No minimum shows the wait before it begins anew for the first time.
        replace(other, name='polled at 240 Hz, from 170 s on', poll_ms=1000.0 / 240.0,
                skew_ppm=25.0, from_s=170.0),
    ]
