# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Reproduce the thesis's table on the simulated gantry, and compare the rules of the closed loop.

    python -m bench.gantry                     print the tables (simulated time)
    python -m bench.gantry --write-docs        also write the plot to docs/
    python -m bench.gantry --cycles 600        run the loop at 100 Hz for 600 s of real time,
                                               beside busy processes, and print the late cycles
"""

import argparse
from dataclasses import replace
import multiprocessing
import os
from pathlib import Path
import statistics
import sys
import threading
import time

from bench.gantry_mocap import NOISE_DEG, NOISE_M, SimulatedMocap
from optitrack_vrpn.guests.machine.axis_bridge_io import CycleThread
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings
from optitrack_vrpn.guests.machine.gantry_sim_io import SimulatedMachine, UdpMachine
from optitrack_vrpn.guests.machine.machine import Feedback, Machine
from optitrack_vrpn.guests.machine.machine_io import load_machine, UdpDriver

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs' / 'evidence' / 'gantry.md'
PLOT = ROOT / 'docs' / 'img' / 'gantry.png'
ORION = load_machine('gantry_orion')
#: Name -> changed settings of the rule; None is the open loop.
RULES = {
    'open loop': None,
    'thesis': {},
    'kalman': {'action': 'kalman'},
}
#: Axis, amplitude, frequency (Hz), minutes, drift in open loop according to the thesis.
SINES = (
    ('chaser_y', 0.5, 0.05, 5.0, '1.7 mm'),
    ('chaser_x', 0.3, 0.05, 5.0, '0.3 mm'),
    ('chaser_yaw', 30.0, 0.1, 5.0, '0'),
    ('chaser_pitch', 12.0, 0.32, 5.0, '0.45 deg'),
)


class Rig:
    """One axis of ORION with a simulated mocap channel, in simulated time."""

    def __init__(self, name, rule, seed):
        axis = next(each for each in ORION.axes if each.name == name)
        if rule is not None:
            axis = replace(axis, correction=replace(
                axis.correction, **{'action': 'thesis', **rule}))
        settings = MachineSettings(axes=(axis,))
        self.name = name
        self.machine = Machine(settings)
        self.axis = self.machine.axes[name]
        self.plant = SimulatedMachine(settings)
        self.mocap = SimulatedMocap(
            NOISE_M if axis.kind == 'linear' else NOISE_DEG, 0.01, seed, origin=3.0)
        self.now = 0.0
        self.run(1.0)
        if rule is not None:
            self.axis.track(True)
        self.run(3.0)

    def run(self, seconds):
        """Run for a time (s); return the true position after each cycle."""
        found = []
        for _ in range(round(seconds * 100)):
            position = self.plant.axes[self.name].position
            cubics = self.machine.step(
                self.now, {self.name: self.mocap.measure(self.now, position)},
                Feedback(True, self.plant.switches()))
            self.plant.run(cubics, 0.01)
            self.now += 0.01
            found.append(self.plant.axes[self.name].position)
        return found


def sine_run(name, amplitude, frequency, minutes, rule, seed):
    """Run a sine; return middle and amplitude of each period, and the residual at rest."""
    rig = Rig(name, rule, seed)
    start = rig.plant.axes[name].position
    refusal = rig.axis.sine(amplitude, frequency)
    assert not refusal, refusal
    rig.run(1.0 / frequency)        # the amplitude rises
    found = rig.run(60.0 * minutes)
    period = round(100.0 / frequency)
    middles, amplitudes = [], []
    for k in range(len(found) // period):
        part = found[k * period:(k + 1) * period]
        middles.append((max(part) + min(part)) / 2 - start)
        amplitudes.append((max(part) - min(part)) / 2)
    rig.axis.leave_sine()
    rest = statistics.fmean(rig.run(15.0)[-200:]) - start
    assert not rig.axis.warnings, rig.axis.warnings
    return middles, amplitudes, rest


def strokes_run(rule, seed):
    """Move ten times 2 m forth and back; return the deviations at both ends after a rest."""
    rig = Rig('chaser_x', rule, seed)
    start = rig.plant.axes['chaser_x'].position
    near, far = [], []
    for _ in range(10):
        for target, ends in ((2.0, far), (0.0, near)):
            refusal = rig.axis.go_to(target)
            assert not refusal, refusal
            ends.append(rig.run(25.0)[-1] - start - target)
    return near, far


def repeat_run(name, size, rule, seed):
    """Move to the same position ten times; return the greatest difference of two results."""
    rig = Rig(name, rule, seed)
    ends = []
    for _ in range(10):
        for target in (size, 0.0):
            assert not rig.axis.go_to(target)
            position = rig.run(6.0)[-1]
        ends.append(position)
    return max(ends) - min(ends)


def shown(name, value):
    """Format a value in mm or degrees."""
    if name.endswith(('x', 'y')):
        return f'{value * 1e3:+.2f} mm'
    return f'{value:+.3f} deg'


def tables(seeds, minutes):
    """Make the tables as lines of markdown, and the data of the plot."""
    lines = ['| case | thesis, open | ' + ' | '.join(RULES) + ' |',
             '|---|---|' + '---|' * len(RULES)]
    plot = {}
    for name, amplitude, frequency, default, said in SINES:
        length = minutes or default
        drift, size, rests = [], [], []
        for label, rule in RULES.items():
            runs = [sine_run(name, amplitude, frequency, length, rule, s) for s in range(seeds)]
            middles = [run[0] for run in runs]
            plot[name, label] = (middles[0], runs[0][1])
            drift.append(shown(name, statistics.median(each[-1] for each in middles)))
            size.append(f'{statistics.median(run[1][-1] for run in runs):.4f}')
            rests.append(shown(name, statistics.median(run[2] for run in runs)))
        unit = 'm' if name.endswith(('x', 'y')) else 'deg'
        what = f'{name}, {amplitude:g} {unit}, {frequency:g} Hz, {length:g} min'
        lines.append(f'| {what}: middle moved | {said} | ' + ' | '.join(drift) + ' |')
        lines.append(f'| amplitude reached ({unit}) | '
                     + ('11.5 deg' if 'pitch' in name else '') + ' | ' + ' | '.join(size) + ' |')
        lines.append('| deviation at rest afterwards | | ' + ' | '.join(rests) + ' |')
    ends = []
    for rule in RULES.values():
        runs = [strokes_run(rule, s) for s in range(seeds)]
        ends.append(statistics.median(max(map(abs, near + far)) for near, far in runs))
    lines.append('| chaser_x, ten times 2 m forth and back: greatest deviation after 15 s of rest '
                 '| 0.4 mm | ' + ' | '.join(f'{end * 1e3:.2f} mm' for end in ends) + ' |')
    for name, size in (('chaser_x', 0.5), ('chaser_y', 0.5), ('chaser_yaw', 30.0),
                       ('chaser_pitch', 12.0)):
        found = [statistics.median(repeat_run(name, size, rule, s) for s in range(seeds))
                 for rule in RULES.values()]
        lines.append(f'| {name}, ten times to the same place: spread | | '
                     + ' | '.join(shown(name, each).lstrip('+') for each in found) + ' |')
    return lines, plot


def draw(plot):
    """Plot the middle of each period over time, and the amplitude of pitch."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, 3, figsize=(13, 3.8), constrained_layout=True)
    for panel, name, part, title, factor in (
            (panels[0], 'chaser_y', 0, 'Y, 0.5 m, 0.05 Hz: middle of the period (mm)', 1e3),
            (panels[1], 'chaser_pitch', 0, 'pitch, 12 deg, 0.32 Hz: middle (deg)', 1.0),
            (panels[2], 'chaser_pitch', 1, 'pitch: amplitude reached (deg)', 1.0)):
        period = next(1.0 / f for n, _, f, *_ in SINES if n == name)
        for label in RULES:
            values = plot[name, label][part]
            panel.plot([period * (k + 1) / 60.0 for k in range(len(values))],
                       [value * factor for value in values], label=label, linewidth=1.2)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel('min')
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=80)


def busy():
    """Keep a core busy."""
    while True:
        pass


def cycles(seconds, loads):
    """Run the loop of six axes over UDP in real time, beside busy processes."""
    workers = [multiprocessing.Process(target=busy, daemon=True) for _ in range(loads)]
    for worker in workers:
        worker.start()
    simulated = UdpMachine(ORION)
    driver = UdpDriver(ORION, '127.0.0.1', simulated.port)
    machine = Machine(ORION)
    work = []
    ended = threading.Event()

    def cycle(periods):
        begun = time.perf_counter()
        driver.run(machine.step(time.monotonic(), {}, driver.feedback(), periods), machine.dt)
        work.append(time.perf_counter() - begun)

    for axis in machine.axes.values():
        linear = axis.settings.kind == 'linear'
        assert not axis.sine(0.3 if linear else 12.0, 0.05 if linear else 0.1)
    thread = CycleThread(machine.dt, cycle, 'bench')
    thread.start()
    load = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        load.append(os.getloadavg()[0])
        ended.wait(min(5.0, max(0.0, end - time.monotonic())))
    thread.stop()
    driver.close()
    simulated.close()
    for worker in workers:
        worker.kill()
    counts = thread.cycle
    work.sort()
    stopped = [name for name, axis in machine.axes.items() if axis.mode.value != 'sine']
    return [
        f'{seconds:g} s at 100 Hz, 6 axes over UDP, {os.cpu_count()} cores with a load average '
        f'of {statistics.fmean(load):.1f} ({loads} busy processes of the benchmark): '
        f'{counts.cycles} cycles, {counts.late} late by more than half a period, '
        f'{counts.skipped} skipped',
        f'delay of a cycle: standard deviation {counts.jitter_ns / 1e6:.2f} ms, worst '
        f'{counts.worst_ns / 1e6:.1f} ms; work of a cycle: median '
        f'{work[len(work) // 2] * 1e6:.0f} us, 99 % {work[int(0.99 * len(work))] * 1e6:.0f} us',
        f'datagrams received by the machine: {simulated.received} of {counts.cycles}; axes that '
        f'stopped: {", ".join(stopped) or "none"}']


def write(lines):
    """Replace the late cycles of the page."""
    text = PAGE.read_text(encoding='utf-8')
    begin, end = '<!-- cycles -->\n', '<!-- /cycles -->'
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    assert found, f'{PAGE} has no {end}'
    PAGE.write_text(head + begin + '\n'.join(lines) + '\n' + end + tail, encoding='utf-8')


def main():
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=3, help='runs of each case (median)')
    parser.add_argument('--minutes', type=float,
                        help='duration of the sines (default: that of each case)')
    parser.add_argument('--cycles', type=float, metavar='S',
                        help='only run in real time for S seconds')
    parser.add_argument('--loads', type=int, default=2, help='busy processes beside --cycles')
    parser.add_argument('--write-docs', action='store_true',
                        help='update docs/gantry.md or its plot')
    arguments = parser.parse_args()
    if arguments.cycles:
        lines = [f'- {line}' for line in cycles(arguments.cycles, arguments.loads)]
        print('\n'.join(lines))
        if arguments.write_docs:
            write(lines)
        return 0
    lines, plot = tables(arguments.seeds, arguments.minutes)
    print('\n'.join(lines))
    if arguments.write_docs:
        draw(plot)
    return 0


if __name__ == '__main__':
    sys.exit(main())
