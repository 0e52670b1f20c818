# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Draw latency distributions and the scaling curve."""

from latency_tables import find
from matplotlib import pyplot as plt

plt.switch_backend('Agg')

COLOURS = {'floor': '#57606a', 'node': '#d1242f', 'floor all on': '#8c959f',
           'all on': '#8250df', 'polled': '#0969da'}


def distributions(runs, path):
    """
    Draw how many poses are later than what, a panel a point.

    :param runs: figures of runs by (bodies, rate, bridge).
    """
    points = list(dict.fromkeys((bodies, rate) for bodies, rate, _ in runs))
    bridges = list(dict.fromkeys(bridge for _, _, bridge in runs))
    columns = min(3, len(points))
    rows = -(-len(points) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 3.1 * rows), squeeze=False, sharex=True,
        sharey=True)
    for number, (bodies, rate) in enumerate(points):
        axis = axes[number // columns][number % columns]
        for bridge in bridges:
            several = runs.get((bodies, rate, bridge), ())
            pooled = sorted(x for figures in several for x in figures['latencies_us'])
            if pooled:
                step = max(1, len(pooled) // 2000)
                kept = [*range(0, len(pooled) - 50, step),
                        *range(max(0, len(pooled) - 50), len(pooled))]
                axis.plot([pooled[i] / 1e3 for i in kept],
                          [1 - i / len(pooled) for i in kept],
                          color=COLOURS.get(bridge), label=bridge, linewidth=1.4)
        axis.set_xscale('log')
        axis.set_yscale('log')
        axis.set_title(f'{bodies} x {rate} Hz', fontsize=10)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel('latency (ms)')
    for row in axes:
        row[0].set_ylabel('share of poses later')
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def scaling(result, path):
    """Draw processor time and latency over the number of bodies at 240 Hz."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    counts = sorted({row['bodies'] for row in result['rows'] if row['rate'] == 240})
    for bridge in dict.fromkeys(row['bridge'] for row in result['rows']):
        rows = [row for count in counts if (row := find(result, count, 240, bridge))]
        xs = [row['bodies'] for row in rows]
        line, = left.plot(xs, [row['cpu_percent'] for row in rows], 'o-',
                          color=COLOURS.get(bridge), label=bridge)
        colour = line.get_color()
        right.plot(xs, [row['p50_us'] / 1e3 for row in rows], 'o-', color=colour, label=bridge)
        right.plot(xs, [row['p99_us'] / 1e3 for row in rows], 'o:', color=colour, alpha=0.6)
    left.set_ylabel('processor (% of a core)')
    right.set_ylabel('latency (ms): p50 solid, p99 dotted')
    right.set_yscale('log')
    left.set_ylim(bottom=0)
    for axis in (left, right):
        axis.set_xlabel('bodies at 240 Hz')
        axis.grid(alpha=0.3)
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
