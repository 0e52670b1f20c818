# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From arrivals to figures, and from figures to tables and curves."""

import csv
import itertools
import math
import statistics

import numpy as np

#: Time between two looks at the age of the newest pose (ns); 1 % of a period of 50 Hz.
LOOK_NS = 200_000
DISCOVERIES = {
    'default': 'Fast DDS default', 'server': 'Discovery Server', 'peer': 'ground station as peer',
    'domain': 'a domain per robot', 'static': 'ROS_STATIC_PEERS'}


def ages_ms(found, begin_ns, end_ns):
    """
    Look at the age of the newest pose all the time, not only when one arrives.

    :param found: (arrival, stamp) of each pose newer than those before it, in order (ns).
    :returns: ages (ms) at a fixed interval, from the first arrival on.
    """
    if not found:
        return np.empty(0)
    arrivals, stamps = np.array(found, dtype=np.int64).T
    looks = np.arange(max(begin_ns, arrivals[0]), end_ns, LOOK_NS)
    return (looks - stamps[np.searchsorted(arrivals, looks, 'right') - 1]) / 1e6


def share_without(found, begin_ns, end_ns, period_ns):
    """
    Give the share of periods in which no newer pose arrived.

    A period begins half a period from the mean phase of the arrivals, so that a small jitter does
    not put two of them into one period.
    """
    inside = np.array([arrival for arrival, _ in found if begin_ns <= arrival < end_ns])
    angles = (inside - begin_ns) % period_ns * (2 * math.pi / period_ns)
    phase = math.atan2(np.sin(angles).sum(), np.cos(angles).sum()) / (2 * math.pi) + 0.5
    first_ns = begin_ns + round(phase % 1.0 * period_ns)
    count = (end_ns - first_ns) // period_ns
    numbers = np.unique((inside - first_ns) // period_ns)
    return 1.0 - np.count_nonzero((numbers >= 0) & (numbers < count)) / count


def middle(rows, name, digits=0):
    """Write the median of a column, with the least and the largest value from three rows on."""
    values = sorted(float(row[name]) for row in rows if row[name] != '')
    if not values:
        return '-'
    text = f'{statistics.median(values):.{digits}f}'
    low, high = (f'{values[end]:.{digits}f}' for end in (0, -1))
    return f'{text} ({low} to {high})' if len(values) > 2 and low != high else text


def select(rows, **wanted):
    """Give the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values_of(rows, name):
    """Give the values of a column, each once, in order."""
    return sorted({row[name] for row in rows}, key=lambda value: (isinstance(value, str), value))


def table(head, lines):
    """Write a table in Markdown."""
    return '\n'.join(['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head),
                      *('| ' + ' | '.join(map(str, line)) + ' |' for line in lines)])


def growth(rows):
    """Give the exponent of N in the start-up frames, by the two largest N; 1 is linear."""
    counts = values_of(rows, 'robots')[-2:]
    if len(counts) < 2:
        return math.nan
    low, high = (statistics.median(row['frames'] for row in select(rows, robots=count))
                 for count in counts)
    return math.log(high / low) / math.log(counts[1] / counts[0])


def start_tables(starts):
    """Write what discovery costs."""
    counts = values_of(starts, 'robots')
    found = {name: rows for name in DISCOVERIES if (rows := select(starts, discovery=name))}
    most = {name: select(rows, robots=counts[-1]) for name, rows in found.items()}
    return ['Frames on the air, from the start of all robots to 3 s after the last one was ready; '
            'exponent of N by the two largest N:', table(
                ['discovery', *(f'N = {count}' for count in counts), 'exponent'],
                [[DISCOVERIES[name], *(middle(select(rows, robots=count), 'frames')
                                       for count in counts), f'{growth(rows):.1f}']
                 for name, rows in found.items()]),
            f'The same for {counts[-1]} robots: packets and MB at the cards of all robots, where '
            'a multicast packet counts once per receiver; *idle*: no pose is published:', table(
                ['discovery', 'packets', 'MB', 'idle frames/s on the air', 'idle kB/s at cards'],
                [[DISCOVERIES[name], middle(rows, 'packets'), middle(rows, 'megabytes', 2),
                  middle(rows, 'idle_frames_s'), middle(rows, 'idle_kilobytes_s', 1)]
                 for name, rows in most.items() if rows])]


def stream_tables(streams):
    """Write what the streams cost and how old the poses are."""
    calm = select(streams, loss=0)
    counts = values_of(calm, 'robots')
    parts = ['Streams without loss:', table(
        ['output', 'discovery', 'N', 'kB/s per robot', 'age p50 ms', 'age p99 ms',
         'periods without a fresh pose %', 'robots without any pose', 'node, % of a core',
         'machine busy %'],
        [[f'`{output}`', DISCOVERIES[name], count, middle(rows, 'kilobytes_s', 1),
          middle(rows, 'p50_ms', 1), middle(rows, 'p99_ms', 1), middle(rows, 'missed_percent', 1),
          middle(rows, 'mute'), middle(rows, 'node_percent', 1), middle(rows, 'machine_percent')]
         for output in values_of(calm, 'output') for name in DISCOVERIES
         for count in (counts if name == 'default' else counts[-1:])
         if (rows := select(calm, output=output, discovery=name, robots=count))])]
    if lossy := [row for row in streams if row['loss']]:
        where = {name: lossy[0][name] for name in ('robots', 'output', 'discovery')}
        parts += [f'Frames dropped in both directions, {where["robots"]} robots, '
                  f'`{where["output"]}`:', table(
                      ['loss %', 'age p50 ms', 'age p99 ms', 'periods without a fresh pose %'],
                      [[loss, middle(rows, 'p50_ms', 1), middle(rows, 'p99_ms', 1),
                        middle(rows, 'missed_percent', 1)]
                       for loss in values_of(streams, 'loss')
                       for rows in [select(streams, loss=loss, **where)]])]
    return parts


def fault_tables(faults):
    """Write what the failure of one robot does to the others."""
    return ['One robot fails; age of the newest pose at the others:', table(
        ['one robot', 'p99 before ms', 'p99 meanwhile ms', 'ratio', 'its poses are back after s'],
        [[fault, middle(rows, 'before_ms', 1), middle(rows, 'during_ms', 1),
          middle(rows, 'ratio', 2), middle(rows, 'back_s', 1)]
         for fault in values_of(faults, 'fault') for rows in [select(faults, fault=fault)]])]


def aims(starts, streams, faults):
    """Compare with the aims of the project, for `own` and the cheapest discovery in one domain."""
    outputs, most = values_of(streams, 'output'), values_of(starts, 'robots')[-1]
    output = 'own' if 'own' in outputs else outputs[0]
    names = values_of(streams, 'discovery')
    own = select(streams, output=output, loss=0, robots=most,
                 discovery='peer' if 'peer' in names else names[0])
    lost = select(streams, output=output, loss=10)
    powers = {name: growth(rows) for name in DISCOVERIES
              if (rows := select(starts, discovery=name))}
    linear = [DISCOVERIES[name] for name, power in powers.items() if power <= 1.2]
    lines = [['start-up linear in N: exponent at most 1.2', ', '.join(linear) or (
        'not measured' if all(map(math.isnan, powers.values())) else 'no')]]

    def line(text, rows, name, limit, unit):
        if rows:
            value = statistics.median(row[name] for row in rows)
            lines.append([text, f'{"yes" if value <= limit else "no"}: {value:.3g} {unit}'])
    line('at most 6 kB/s per robot', own, 'kilobytes_s', 6.0, 'kB/s')
    line('10 % loss: p99 below two periods', lost, 'p99_ms', 40.0, 'ms')
    for fault in values_of(faults, 'fault'):
        line(f'one robot {fault}: p99 of the others grows by at most 10 %',
             select(faults, fault=fault), 'ratio', 1.1, 'times')
    line(f'node below 25 % of a core, {most} robots', own, 'node_percent', 25.0, '%')
    return ['`' + output + '` and the aims:', table(['aim', 'reached'], lines)]


def tables(starts, streams, faults):
    """Write all tables."""
    return '\n\n'.join([
        *aims(starts, streams, faults), *start_tables(starts), *stream_tables(streams),
        *(fault_tables(faults) if faults else ())])


def write_rows(path, rows):
    """Keep the figures of every run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', newline='') as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)


def draw(starts, streams, path):
    """Draw the curves; the colour of text and axes follows the reader's dark or light mode."""
    from matplotlib import pyplot as plt
    plt.switch_backend('Agg')
    neutral = '#46566b'
    plt.rcParams.update({
        'svg.fonttype': 'none', 'svg.hashsalt': 'swarm', 'font.size': 10, 'axes.grid': True,
        'grid.alpha': 0.25, **{f'{part}color': neutral for part in (
            'axes.edge', 'axes.label', 'text.', 'xtick.', 'ytick.', 'grid.')}})
    figure, (left, centre, right) = plt.subplots(1, 3, figsize=(12, 3.8))
    colours = itertools.cycle(
        ('#e5534b', '#4f9be8', '#3fa65a', '#b083f0', '#d4a72c', '#39c5cf', '#db61a2'))

    def curve(axis, rows, name, label, **style):
        counts = values_of(rows, 'robots')
        axis.plot(counts, [statistics.median(row[name] for row in select(rows, robots=count))
                           for count in counts], marker='o', label=label, markersize=4, **style)

    for name in values_of(starts, 'discovery'):
        curve(left, select(starts, discovery=name), 'frames', DISCOVERIES[name],
              color=next(colours))
    for output in values_of(streams, 'output'):
        rows, colour = select(streams, output=output, loss=0, discovery='default'), next(colours)
        if not rows:
            continue
        curve(centre, rows, 'kilobytes_s', output, color=colour)
        curve(right, rows, 'p99_ms', f'{output}, p99', color=colour)
        curve(right, rows, 'p50_ms', f'{output}, p50', color=colour, linestyle=':')
    for axis, label in ((left, 'start-up frames on the air'), (centre, 'kB/s at one robot'),
                        (right, 'age of the newest pose (ms)')):
        axis.set(xscale='log', yscale='linear' if axis is centre else 'log', xlabel='robots',
                 ylabel=label)
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter('{x:g}')
            scale.set_minor_formatter('')
        axis.set_xticks(values_of(starts, 'robots'))
        if axis.lines:
            axis.legend(fontsize=8, framealpha=0.0)
    centre.set_ylim(bottom=0.0)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={'Date': None})
    plt.close(figure)
    head, tag, rest = path.read_text().partition('<defs>')
    style = (f'<style>svg{{color:{neutral}}}@media (prefers-color-scheme:dark)'
             '{svg{color:#aab8c9}}</style>')
    path.write_text(head + style + tag + rest.replace(neutral, 'currentColor'))
