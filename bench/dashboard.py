# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure what the dashboard costs: 50 bodies at 240 Hz, five pages.

    make bench-dashboard                         the figures
    make bench-dashboard ARGS=--write-docs       the same into docs/evidence/dashboard.md

Simulated Motive, node, dashboard and the clients run in separate processes. Processor times are of
the process in % of a core, medians of interleaved runs without dashboard, with one and with five
clients. The node publishes transforms only while it has a subscriber, which is part of the cost.

The simulator gets a real-time priority where that is permitted, since Motive has a computer of its
own: a stamp is the time of exposure, so that the latency of a pose contains the time for which the
simulator waits for a processor. The p99 is therefore of the node alone: from the arrival of a
datagram in the kernel to its reading, and from there to the publication.
"""

import argparse
import asyncio
import contextlib
import json
import os
from pathlib import Path
import re
import statistics
import subprocess
import sys
import time

ROOT = Path(__file__).resolve().parent.parent
sys.path[len(sys.path):] = [str(ROOT), str(ROOT / 'test')]
from optitrack_vrpn.cli.signals_io import with_parent  # noqa: E402
TICKS = os.sysconf('SC_CLK_TCK')
STATIC = ROOT / 'optitrack_vrpn' / 'takes' / 'dashboard' / 'static'
CASES = ('no dashboard', 'no page', '1 page', '5 pages')


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', *map(str, arguments)], cwd=ROOT,
        env=with_parent(os.environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def spent(process):
    """Give the processor time of a process (s)."""
    fields = Path(f'/proc/{process.pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def prefer(process):
    """Give all threads of a process a real-time priority, if this user may."""
    with contextlib.suppress(PermissionError):
        for thread in os.listdir(f'/proc/{process.pid}/task'):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(10))


def make_latencies():
    """Make a node that reads p99 of waiting and work (us) in the node, into ``p99_us``."""
    from diagnostic_msgs.msg import DiagnosticArray
    from optitrack_vrpn.core.status import StatusReport
    from optitrack_vrpn.node.base.tool_node import BackgroundNode
    made = BackgroundNode('bench')
    made.p99_us = []

    def take(message):
        for status in message.status:
            report = StatusReport.of(status)
            pair = [report.number(f'{part}_p99_us') for part in ('wait', 'work')]
            if report.subject == 'frames' and None not in pair:
                made.p99_us.append(pair)
    made.node.create_subscription(DiagnosticArray, '/diagnostics', take, 10)
    return made


async def count(url, results):
    """Be one page; counts its frames."""
    import aiohttp
    origin = url.rstrip('/')
    async with aiohttp.ClientSession() as session:
        began = time.monotonic()
        async with session.ws_connect(f'{origin}/ws', headers={'Origin': origin}) as socket:
            await socket.receive()
            results['first'].append(time.monotonic() - began)
            async for message in socket:
                results['bytes'] += len(message.data)
                results['frames'] += message.type is aiohttp.WSMsgType.BINARY


async def watch(url, pages, seconds, processes, latencies):
    """Let pages be open for a time; gives processor times, frames and the node's latency."""
    results = {'first': [], 'frames': 0, 'bytes': 0}
    tasks = [asyncio.ensure_future(count(url, results)) for _ in range(pages)]
    await asyncio.sleep(2.0)
    results.update(frames=0, bytes=0)
    latencies.p99_us.clear()
    before = [spent(process) for process in processes]
    began = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    results['cpu'] = [100.0 * (spent(process) - one) / took
                      for process, one in zip(processes, before)]
    results['p99_us'] = [*map(statistics.median, zip(*latencies.p99_us))]
    results['rate'] = results['frames'] / took / max(pages, 1)
    results['kilobytes'] = results['bytes'] / took / max(pages, 1) / 1000
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return results


async def answers(url, times):
    """Send START; gives the milliseconds until the message that shows the answer."""
    import aiohttp
    origin, found = url.rstrip('/'), []
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(f'{origin}/ws', headers={'Origin': origin}) as socket:
            for number in range(times):
                began = time.monotonic()
                await socket.send_json({'type': 'start', 'id': '1', 'session': f's{number}'})
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT and (
                            one := json.loads(message.data))['type'] == 'snapshot':
                        last = (one['control']['commands'] or [{'session': ''}])[0]
                        if last['session'] == f's{number}' and last['answers']:
                            break
                found.append(1000.0 * (time.monotonic() - began))
                await asyncio.sleep(0.3)
    return found


def picture(url):
    """Give the seconds from the navigation to drawn bodies in Chromium; None without it."""
    try:
        from selenium import webdriver
        options = webdriver.ChromeOptions()
        options.binary_location = '/usr/bin/chromium'
        for flag in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage'):
            options.add_argument(flag)
        driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService('/usr/bin/chromedriver'))
    except Exception:
        return None
    try:
        driver.get(url)
        return driver.execute_async_script("""
            const [done] = arguments, wait = () => view.placed().length && !view.dirty
              ? done(performance.now() / 1000) : requestAnimationFrame(wait);
            wait();""")
    finally:
        driver.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--bodies', type=int, default=50)
    parser.add_argument('--rate', type=float, default=240.0)
    parser.add_argument('--tf-rate', type=float, default=0.0, help='rates.tf of the node (Hz)')
    parser.add_argument('--seconds', type=float, default=8.0, help='of each run')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--write-docs', action='store_true')
    arguments = parser.parse_args()
    from conftest import claim_domain
    from server_kit import free_port
    domain, claim = claim_domain()
    os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')
    port = free_port()
    sim = start('motive_sim', '--port', port, '--bodies', arguments.bodies, '--rate',
                arguments.rate, '--noise-mm', 0.1)
    node = start('optitrack_vrpn_node', '--ros-args', '-p', f'port:={port}', '-p',
                 'autostart:=true', '-p', 'qos.depth:=200', '-p',
                 f'rates.tf:={arguments.tf_rate}')
    time.sleep(8.0)
    prefer(sim)
    found = {case: [] for case in CASES}
    pictures, acknowledged = [], []
    latencies = make_latencies().__enter__()
    for _ in range(arguments.rounds):
        found['no dashboard'].append(asyncio.run(
            watch('', 0, arguments.seconds, [node], latencies)))
        page = start('dashboard', '--port', 0)
        url = re.search(r'http://\S+', page.stdout.readline())[0]
        time.sleep(6.0)    # it has subscribed to all topics
        for case, pages in zip(CASES[1:], (0, 1, 5)):
            found[case].append(asyncio.run(
                watch(url, pages, arguments.seconds, [node, page], latencies)))
        acknowledged += asyncio.run(answers(url, 10))
        pictures += filter(None, [picture(url)])
        page.terminate()
        page.wait(30)
    latencies.__exit__()
    for process in (node, sim):
        process.terminate()
        process.wait(30)
    claim.close()
    show(arguments, found, pictures, acknowledged)


def show(arguments, found, pictures, acknowledged):
    """Print the figures, and write them into the page on request."""
    def median(case, value):
        return statistics.median(value(one) for one in found[case])

    def p99(case):
        return ' + '.join(
            f'{median(case, lambda one, at=at: one["p99_us"][at]) / 1000.0:.2f}' for at in (0, 1))
    base = median('no dashboard', lambda one: one['cpu'][0])
    lines = [f'`make bench-dashboard`: {arguments.bodies} bodies at {arguments.rate:g} Hz, '
             f'medians of {arguments.rounds} interleaved runs of {arguments.seconds:g} s, load '
             f'of the machine {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores:', '',
             '| case | page process, % of a core | node, % of a core | p99 of waiting + work in '
             'the node, ms | frames/s of a page | kB/s of a page |', '|---|---|---|---|---|---|',
             f'| no dashboard | - | {base:.1f} | {p99("no dashboard")} | - | - |']
    for case in CASES[1:]:
        node, page = (median(case, lambda one, at=at: one['cpu'][at]) for at in (0, 1))
        rate, size = median(case, lambda one: one['rate']), median(
            case, lambda one: one['kilobytes'])
        shown = f'{rate:.1f} | {size:.0f}' if case != 'no page' else '- | -'
        lines.append(f'| {case} | {page:.1f} | {node:.1f} ({node - base:+.1f}) | '
                     f'{p99(case)} | {shown} |')
    first = [time_s for one in found['5 pages'] for time_s in one['first']]
    script = sum(path.stat().st_size for path in STATIC.glob('*.js'))
    lines += ['', f'First snapshot after {1000 * statistics.median(first):.0f} ms (largest '
              f'{1000 * max(first):.0f} ms); '
              + (f'bodies drawn in Chromium after {statistics.median(pictures):.2f} s; '
                 if pictures else '')
              + 'START to the message with the acknowledgement '
              f'{statistics.median(acknowledged):.0f} ms (largest {max(acknowledged):.0f} ms); '
              f'JavaScript {script / 1000:.1f} kB.']
    text = '\n'.join(lines)
    print(text)
    if arguments.write_docs:
        document = ROOT / 'docs' / 'evidence' / 'dashboard.md'
        begin, end = (f'<!-- bench/dashboard.py: {word} -->' for word in ('begin', 'end'))
        before, _, rest = document.read_text().partition(begin)
        document.write_text(f'{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}')


if __name__ == '__main__':
    main()
