# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From runs to figures, and from figures to tables."""

import re
import statistics

from latency_bridges import BEST_EFFORT, VRPN_MOCAP

#: Turns from which on a ratio is compared with an aim: a 99th percentile varies by a factor of two
#: between turns.
ENOUGH = 5


def percentile(ordered, share):
    """Read a percentile off a sorted list."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(runs):
    """
    Put several runs into one set of figures.

    Percentiles and costs are medians over the runs, so that one disturbed run does not count;
    p99.9 is read off all runs together, since one alone has too few poses; losses are added.

    :param runs: figures of runs by (bodies, rate, bridge).
    """
    rows = []
    for (bodies, rate, bridge), several in runs.items():
        each = [sorted(figures['latencies_us']) for figures in several]
        pooled = sorted(x for latencies in each for x in latencies)
        row = {'bodies': bodies, 'rate': rate, 'bridge': bridge, 'poses_timed': len(pooled),
               'p50_us': statistics.median(percentile(one, 0.5) for one in each),
               'p99_us': statistics.median(percentile(one, 0.99) for one in each),
               'p999_us': percentile(pooled, 0.999)}
        for name in ('cpu_us', 'cpu_percent', 'resident_mb', 'connected_s', 'first_pose_s'):
            row[name] = statistics.median(figures[name] for figures in several)
        for name in ('lost', 'expected', 'tf_lost', 'tf_expected'):
            row[name] = sum(figures[name] for figures in several)
        row['runs'] = [
            {'p50_us': percentile(one, 0.5), 'p99_us': percentile(one, 0.99),
             **{name: round(figures[name], 3) for name in (
                 'cpu_us', 'cpu_percent', 'resident_mb', 'connected_s', 'first_pose_s')}}
            for one, figures in zip(each, several)]
        rows.append(row)
    return {'rows': rows}


def find(result, bodies, rate, bridge):
    """Find the figures of one bridge at one point, or None."""
    for row in result['rows']:
        if (row['bodies'], row['rate'], row['bridge']) == (bodies, rate, bridge):
            return row
    return None


def ratios(over, under, name):
    """
    Divide a figure of one bridge by that of another, for each turn of both.

    The speed of the machine changes between turns, for both bridges equally.

    :returns: the ratios in rising order; none if one bridge was not measured.
    """
    if not over or not under:
        return []
    return sorted(a[name] / b[name] for a, b in zip(over['runs'], under['runs']))


def with_spread(values):
    """Write the median of some ratios, and from three on the least and the largest."""
    if not values:
        return ''
    ends = f' ({values[0]:.2f} to {values[-1]:.2f})' if len(values) > 2 else ''
    return f'{statistics.median(values):.2f}{ends}'


def conditions(result):
    """Write in one line on which machine and how it was measured."""
    machine = result['machine']
    return (
        f'{machine["processors"]} cores ({machine["machine"]}), {machine["system"]}, Python '
        f'{machine["python"]}, ROS 2 {machine["ros"]}, node {machine["node"]}; medians of '
        f'{machine["repetitions"]} runs of {machine["seconds"]:g} s; load before the first: '
        f'{machine["load_before"]:.1f}')


def tables(result):
    """Write the ratios and then the figures as Markdown."""
    return '\n'.join([
        conditions(result), '', *against_floor(result), '', *against_client(result),
        *figures(result), '', *aims(result)])


def figures(result):
    """Write latency, cost and losses of every bridge, as a table's lines."""
    lines = [
        '| bodies x Hz | bridge | p50 ms | p99 ms | p99.9 ms | CPU us/pose | CPU % of a core '
        '| lost | memory MB | connected s | first pose s |',
        '|---|---|---|---|---|---|---|---|---|---|---|']
    points = points_of(result)
    for row in sorted(result['rows'], key=lambda row: points.index((row['bodies'], row['rate']))):
        share = (row['lost'] + row['tf_lost']) / max(1, row['expected'] + row['tf_expected'])
        lost = f'{100 * share:.2g} %' if share else '0'
        lines.append(
            f'| {row["bodies"]} x {row["rate"]} | {row["bridge"]} | {row["p50_us"] / 1e3:.3f} '
            f'| {row["p99_us"] / 1e3:.3f} | {row["p999_us"] / 1e3:.3f} | {row["cpu_us"]:.1f} '
            f'| {row["cpu_percent"]:.1f} | {lost} | {row["resident_mb"]:.0f} '
            f'| {row["connected_s"]:.2f} | {row["first_pose_s"]:.2f} |')
    return lines


def against_floor(result):
    """Write the ratios to the floor, as a table's lines: medians of the turns and their ends."""
    points = points_of(result)
    columns = {}
    for over, under, name, head in (
            ('node', 'floor', 'p50_us', 'p50 / floor'), ('node', 'floor', 'p99_us', 'p99 / floor'),
            ('node', 'floor', 'cpu_us', 'CPU / floor'),
            ('node', 'floor', 'first_pose_s', 'first pose / floor'),
            ('all on', 'floor all on', 'p50_us', 'all on: p50 / floor all on'),
            ('all on', 'floor all on', 'cpu_us', 'all on: CPU / floor all on'),
            ('polled', 'node', 'p50_us', 'polled: p50 / node')):
        cells = [with_spread(ratios(find(result, *point, over), find(result, *point, under), name))
                 for point in points]
        if any(cells):
            columns[head] = cells
            if head == 'p99 / floor':    # of all turns together: one has too few poses
                columns['p99.9 / floor'] = [
                    f'{find(result, *point, over)["p999_us"] / base["p999_us"]:.2f}'
                    if (base := find(result, *point, under)) else '' for point in points]
    lines = [f'| bodies x Hz | {" | ".join(columns)} |', '|---|' + '---|' * len(columns)]
    lines += [f'| {bodies} x {rate} | {" | ".join(cells)} |'
              for (bodies, rate), *cells in zip(points, *columns.values())]
    return lines


def points_of(result):
    """List the measured points: bodies and rate (Hz)."""
    return list(dict.fromkeys((row['bodies'], row['rate']) for row in result['rows']))


def client_table(result):
    """Write the ratios to the C++ client and then the figures, as Markdown."""
    return '\n'.join([conditions(result), '', *against_client(result), *figures(result)])


def against_client(result):
    """Write floor and node over the C++ client at each poll rate, as a table's lines."""
    lines = ['| bodies x Hz | ratio | p50 | p99 | p99.9 | CPU |', '|---|---|---|---|---|---|']
    for row in result['rows']:
        if not row['bridge'].startswith(VRPN_MOCAP):
            continue
        ending = BEST_EFFORT if row['bridge'].endswith(BEST_EFFORT) else ''
        for name in ('floor', 'node', 'node poses'):
            own = find(result, row['bodies'], row['rate'], name + ending)
            if own:
                p50, p99, cpu = (with_spread(ratios(own, row, figure)) for figure in (
                    'p50_us', 'p99_us', 'cpu_us'))
                cells = f'{p50} | {p99} | {own["p999_us"] / row["p999_us"]:.2f} | {cpu}'
                lines.append(f'| {row["bodies"]} x {row["rate"]} '
                             f'| {name} / {row["bridge"]} | {cells} |')
    return [*lines, ''] if len(lines) > 2 else []


def side_by_side(result, bridges):
    """Write latency and processor time of some bridges beside each other, as Markdown."""
    points = points_of(result)
    names = ('p50 ms', 'p99 ms', 'CPU us/pose', 'lost')
    heads = ' | '.join(f'{name}, {bridge}' for name in names for bridge in bridges)
    lines = [f'| bodies x Hz | {heads} |', '|---|' + '---|' * (len(names) * len(bridges))]
    for bodies, rate in points:
        rows = [find(result, bodies, rate, bridge) for bridge in bridges]
        cells = [f'{row[name] / 1e3:.3f}' for name in ('p50_us', 'p99_us') for row in rows]
        cells += [f'{row["cpu_us"]:.1f}' for row in rows]
        cells += [f'{row["lost"] + row["tf_lost"]}' for row in rows]
        lines.append(f'| {bodies} x {rate} | {" | ".join(cells)} |')
    return '\n'.join(lines)


def aims(result):
    """Write what was aimed at beside what was reached, as a table's lines."""
    points = points_of(result)
    lines = ['| aim | reached | where it is worst |', '|---|---|---|']

    def row(text, values, reached, figure='{:.2f}'):
        if values:
            worst = max(values, key=values.__getitem__)
            met = [point for point in values if reached(values[point])]
            answer = 'yes' if len(met) == len(values) else (
                'no' if not met else 'at ' + ', '.join(f'{b} x {r}' for b, r in met))
            lines.append(f'| {text} | {answer} | {figure.format(values[worst])} '
                         f'at {worst[0]} x {worst[1]} |')

    def over_floor(name):
        several = {point: ratios(find(result, *point, 'node'), find(result, *point, 'floor'), name)
                   for point in points}
        return {point: statistics.median(found) for point, found in several.items()
                if len(found) >= ENOUGH}

    row("p50 at most 1.2 times the floor's", over_floor('p50_us'),
        lambda x: x <= 1.2)
    row('p99 at most 1.3 times', over_floor('p99_us'), lambda x: x <= 1.3)
    row('processor time of a pose at most 1.25 times', over_floor('cpu_us'),
        lambda x: x <= 1.25)
    row('all on: no pose lost', {
        point: a['lost'] + a['tf_lost'] for point in points
        if (a := find(result, *point, 'all on'))}, lambda x: not x, '{:.0f}')
    # It does not depend on bodies and rate: the starts at all points are one set.
    starts = sorted(
        run['first_pose_s'] for row in result['rows'] if row['bridge'] == 'node'
        for run in row['runs'])
    if starts:
        median = statistics.median(starts)
        lines.append(
            f'| first pose within 0.6 s of the start | {"yes" if median <= 0.6 else "no"} '
            f'| {median:.2f} s, median of {len(starts)} starts; 9 of 10 within '
            f'{percentile(starts, 0.9):.2f} s |')
    return lines if len(lines) > 2 else []


def write_block(path, name, text):
    """Put text between the markers of that name."""
    page = path.read_text(encoding='utf-8')
    found = re.compile(f'(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)', re.DOTALL)
    if not found.search(page):
        raise SystemExit(f'{path} has no block {name}')
    path.write_text(found.sub(lambda m: f'{m[1]}{text}\n{m[2]}', page), encoding='utf-8')
