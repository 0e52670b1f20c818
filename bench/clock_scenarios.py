# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of the stamp benchmarks: the hours of docs/stamps.md, and short sessions."""

from __future__ import annotations

from dataclasses import replace
import random

from clock_sim import Scenario

WIRED = Scenario('wired 240 Hz')
WIFI = Scenario('WiFi 120 Hz', rate_hz=120.0, delay='wifi', loss=0.005, stall_ms=(10.0, 100.0),
                skew_ppm=-35.0)
_EVENTS = (
    ('host_step', 50.0), ('host_step', -50.0), ('host_slew', 25.0), ('host_slew', -25.0),
    ('sender_restart', -1.0), ('sender_restart', 90_000.0), ('gap', 60.0), ('gap', 10.0),
    ('delay_jump', 2.0),
)
_LONG = ('load swells for 120 s to 1.5 ms', 'sender disciplined in steps of 5 to 60 ppm',
         '5 ppm in waves, load of 30 s')
"""Sessions of the second review that are measured over hours as well."""


def _spread(seconds: float, *events: tuple[str, float]) -> tuple[tuple[float, str, float], ...]:
    """Spread events evenly over a session."""
    return tuple((seconds * (i + 1) / (len(events) + 1), kind, size)
                 for i, (kind, size) in enumerate(events))


def main_scenarios(seconds: float) -> list[Scenario]:
    """Return the sessions of some hours in which the methods are compared."""
    return [
        WIRED,
        replace(WIRED, name='wired, load spikes of 30 s', spike_every_s=600.0, skew_ppm=-48.0,
                walk=1e-8, thermal_ppm=1.0),
        replace(WIRED, name='wired 360 Hz', rate_hz=360.0, delay='exponential', delay_us=100.0,
                skew_ppm=49.0),
        WIFI,
        replace(WIFI, name='WiFi 100 Hz', rate_hz=100.0, skew_ppm=48.0, thermal_ppm=1.0),
        replace(WIRED, name='busy: 60 s spikes every 3 min', spike_every_s=180.0, spike_s=60.0,
                spike_regular=True, skew_ppm=23.0),
        replace(WIRED, name='polled every 10 ms', poll_ms=10.0, skew_ppm=25.0),
        replace(WIRED, name='events', skew_ppm=31.0, events=_spread(seconds, *_EVENTS)),
        *(s for s in hard_scenarios(seconds) if s.name in _LONG),
    ]


def more_scenarios(seconds: float) -> list[Scenario]:
    """Return short sessions of other rates, noise and events."""
    wired, wifi = WIRED, WIFI
    once = 10.0 * seconds
    return [
        *(replace(wired, name=f'{hz} Hz', rate_hz=float(hz)) for hz in (30, 60, 100, 1000)),
        *(replace(wired, name=f'skew {ppm} ppm', skew_ppm=float(ppm)) for ppm in (-200, 100, 200)),
        replace(wifi, name='WiFi 30 Hz', rate_hz=30.0),
        replace(wifi, name='WiFi, load spikes of 60 s', spike_every_s=180.0, spike_s=60.0),
        replace(wired, name='exponential delay, 300 us', rate_hz=100.0, delay='exponential',
                delay_us=300.0),
        replace(wired, name='uniform delay, 2 ms', delay='uniform', delay_us=2000.0),
        replace(wired, name='bimodal delay', delay='bimodal'),
        replace(wired, name='constant delay', delay='constant'),
        *(replace(wired, name=f'polled every {ms} ms', poll_ms=float(ms), poll_jitter_us=50.0)
          for ms in (1, 2, 4, 5)),
        replace(wired, name='sender time in whole ms', quantum_us=1000.0),
        replace(wired, name='2 % repeated, 1 % overtaken', duplicates=0.02, reorder=0.01),
        replace(wired, name='time since 1970', epoch=True),
        replace(wired, name='starts under load of 60 s', spike_every_s=once, spike_first_s=0.0,
                spike_s=60.0, spike_ms=(2.0, 2.0)),
        replace(wired, name='load 80 of every 100 s', spike_every_s=100.0, spike_regular=True,
                spike_s=80.0, spike_first_s=120.0),
        replace(wired, name='load of 15 to 40 ms, 10 s', spike_every_s=200.0, spike_s=10.0,
                spike_ms=(15.0, 40.0)),
        replace(wired, name='load of 20 to 150 us', spike_every_s=100.0, spike_ms=(0.02, 0.15)),
        replace(wired, name='load wanders, 1 ms, 5 s', queue_us=1000.0, queue_s=5.0),
        replace(wired, name='load wanders, 0.2 ms, 30 s', queue_us=200.0),
        replace(wired, name='delays fivefold and back', events=_spread(
            seconds, ('noise', 5.0), ('noise', 1.0))),
        replace(wired, name='wired, as slow as WiFi, wired', events=_spread(
            seconds, ('noise', 30.0), ('noise', 1.0))),
        replace(wired, name='rate 240, 100, 360 Hz', events=_spread(
            seconds, ('rate', 100.0), ('rate', 360.0))),
        *(replace(wired, name=f'rate of clock steps {ppm} ppm', events=_spread(
            seconds, ('skew', ppm), ('skew', -ppm))) for ppm in (2.0, 10.0, 100.0)),
        replace(wired, name='5 ppm in waves of 10 min', thermal_ppm=5.0, thermal_period_s=600.0),
        replace(wired, name='random walk 1e-7 /sqrt(s)', walk=1e-7),
        replace(wired, name='gaps of 1 to 120 s', events=_spread(
            seconds, ('gap', 1.0), ('gap', 5.0), ('gap', 29.0), ('gap', 31.0), ('gap', 120.0))),
        replace(wired, name='sender clock stands 1 to 29 s', events=_spread(
            seconds, ('pause', 1.0), ('pause', 5.0), ('pause', 29.0))),
        replace(wired, name='sender steps 20, 300 ms', events=_spread(
            seconds, ('sender_step', 20.0), ('sender_step', -20.0), ('sender_step', 300.0),
            ('sender_step', -300.0))),
        replace(wired, name='delay jumps 2 ms up, down', events=_spread(
            seconds, ('delay_jump', 2.0), ('delay_jump', -2.0))),
        replace(wifi, name='WiFi, steps and slews', events=_spread(
            seconds, ('host_step', 50.0), ('host_step', -50.0), ('host_slew', 25.0),
            ('host_slew', -25.0))),
    ]


def hard_scenarios(seconds: float) -> list[Scenario]:
    """Return the sessions of the second review, at least 15 minutes each."""
    wired = WIRED
    rnd = random.Random(7)
    steps = []
    at, now = 100.0, 0.0
    while at < seconds:
        ppm = rnd.choice((-1.0, 1.0)) * rnd.uniform(5.0, 60.0)
        steps.append((at, 'discipline', ppm - now))
        at, now = at + rnd.uniform(60.0, 300.0), ppm
    return [
        *(replace(wired, name=f'load swells for {length:g} s to {ms} ms', swell_every_s=300.0,
                  swell_s=length, swell_ms=ms)
          for length, ms in ((60.0, 1.5), (60.0, 0.3), (120.0, 1.5))),
        replace(wired, name='sender restarts, load 20 s later', events=(
            (300.0, 'sender_restart', -1.0),), loads=((325.0, 30.0, 2.0),)),
        replace(wired, name='host steps, load 20 s later', events=(
            (300.0, 'host_step', 50.0),), loads=((320.0, 30.0, 2.0),)),
        replace(wired, name='load 12 s after the start', loads=((12.0, 30.0, 2.0),)),
        replace(wired, name='sender disciplined in steps of 5 to 60 ppm', epoch=True,
                events=tuple(steps)),
        replace(wired, name='5 ppm in waves, load of 30 s', thermal_ppm=5.0,
                thermal_period_s=600.0, spike_every_s=300.0),
        replace(wired, name='polled at 240 Hz', poll_ms=1000.0 / 240.0, skew_ppm=25.0),
        replace(wired, name='ticks of 1 ms', quantum_us=1000.0),
        replace(wired, name='ticks of 1 ms, 0.5 % loss', quantum_us=1000.0, loss=0.005),
        replace(wired, name='ticks of 15.6 ms', quantum_us=15_625.0),
        replace(wired, name='ticks of 15.6 ms, 60 Hz', quantum_us=15_625.0, rate_hz=60.0),
        replace(wired, name='stamped 0.2 ms late, 0.5 % loss', late_us=200.0, loss=0.005),
    ]
