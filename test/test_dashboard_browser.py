# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The dashboard in Debian's Chromium, with a simulated Motive and the node as in a lab."""

import contextlib
from pathlib import Path
import signal
import time

from dashboard_kit import Served
import pytest
from rosgraph import NodeProcess, Observer, wait_until
from sensor_msgs.msg import PointCloud2, PointField
from server_kit import free_port

pytest.importorskip('aiohttp')
webdriver = pytest.importorskip('selenium.webdriver', reason='selenium drives the browser')

CHROMIUM, DRIVER = Path('/usr/bin/chromium'), Path('/usr/bin/chromedriver')
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not (CHROMIUM.exists() and DRIVER.exists()),
    reason='needs Chromium: apt install chromium chromium-driver')]
PHONE, DESK = (390, 844), (1280, 800)


@contextlib.contextmanager
def browser(url, size=DESK, dark=True):
    """Open the page."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage'):
        options.add_argument(flag)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1,
            'mobile': size is PHONE})
        driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})
        driver.get(url)
        yield driver
    finally:
        driver.quit()


def text(driver, selector):
    """Give the text of an element as it is shown."""
    return driver.execute_script(
        'return document.querySelector(arguments[0])?.innerText ?? ""', selector)


def eventually(driver, selector, wanted, timeout_s=30.0):
    """Wait until an element shows a text; gives the seconds."""
    begin = time.monotonic()
    wait_until(lambda: wanted in text(driver, selector), timeout_s,
               f'{wanted!r} in {selector} ({text(driver, selector)!r})')
    return time.monotonic() - begin


def sign(driver, name):
    """Give the sign with which a body is drawn, and the state in its row."""
    return driver.execute_script(
        'const body = [...view.bodies.values()].find(one => one.row?.name === arguments[0]);'
        'return body ? [view.sign(body), body.row.state] : [null, null]', name)


def online(driver):
    return not driver.execute_script("return document.body.classList.contains('offline')")


def errors(driver):
    return [line for line in driver.get_log('browser') if line['level'] == 'SEVERE']


@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    """Run a simulated Motive, an inactive node and a dashboard."""
    port = free_port()
    with NodeProcess('--port', port, '--names', 'drone', 'wand', '--rate', 120, '--noise-mm', 0.1,
                     '--motion', 'figure_eight', '--occlude', 'drone:silent:5-8/12',
                     tool='motive_sim', ros=False), \
            NodeProcess('-p', f'port:={port}', '-p', 'autostart:=true', '-p',
                        'activate:=false') as node:
        served = Served('--takes', tmp_path_factory.mktemp('takes'))
        served.node = node.process
        yield served
        served.close()


def test_start_lost_bodies_stop_and_no_answer_on_two_pages(lab):
    with browser(lab.url) as page, browser(lab.url, PHONE, dark=False) as phone:
        eventually(page, '#systems', 'inactive')
        eventually(page, '#causes', 'it publishes no poses')
        page.execute_script("""
            document.getElementById('by').value = 'Ada <b>';
            document.getElementById('session').value = 'take_1';
            window.began = performance.now();
            new MutationObserver(() => {
              if (!window.took && document.getElementById('log').innerText.includes('after'))
                window.took = performance.now() - window.began;
            }).observe(document.getElementById('log'), {childList: true, subtree: true});
            document.getElementById('start').click();""")
        for one in (page, phone):
            eventually(one, '#log', 'optitrack_vrpn after')
            assert 'START take_1 by Ada <b> (127.0.0.1)' in text(one, '#log')
        # 60 ms on a quiet machine.
        assert page.execute_script('return window.took') < 2000.0
        eventually(phone, '#verdict', '2 bodies tracked')
        places = set()
        wait_until(lambda: places.add(page.execute_script(
            'return JSON.stringify([...view.bodies.values()].map(one => one.pose))'))
            or len(places) > 5, 20.0, 'moving bodies')
        # Out of view: the last pose is at most half a second old when the body is grey.
        for one in (page, phone):
            after_ms, gap_ms = one.execute_async_script("""
                const [done] = arguments;
                let live = 0, last = performance.now();    // a busy machine looks seldom
                const wait = () => {
                  const body = [...view.bodies.values()].find(one => one.row.name === 'drone');
                  const now = performance.now(), lost = view.sign(body) === 'lost';
                  if (lost && live) done([now - body.at, now - last]);
                  else [live, last] = [live + !lost, now], setTimeout(wait, 5);
                };
                wait();""")
            assert after_ms - gap_ms < 550.0
        wait_until(lambda: sign(page, 'drone') == ['lost', 'STALE'], 10.0, 'the state')
        assert 'last valid pose' in text(page, 'tr.lost .state')
        assert 'STALE' in text(page, '#causes')
        assert text(page, '#rows tr').startswith('drone'), 'the worst is first'
        assert sign(page, 'wand') == ['ok', 'TRACKED']
        shown = "return [...document.querySelectorAll('#rows .name')].map(one => one.innerText)"
        for words, names in (('lost', ['drone']), ('WAND', ['wand']), ('', ['drone', 'wand'])):
            page.execute_script("""
                document.getElementById('filter').value = arguments[0];
                document.getElementById('filter').dispatchEvent(new Event('input'));""", words)
            assert page.execute_script(shown) == names
        page.execute_script("""
            document.getElementById('trails').click();
            document.getElementById('labels').click();""")
        assert page.execute_script('return [view.trails, view.labels]') == [False, False]
        page.execute_script("document.querySelector('#rows .name').click()")
        eventually(page, '#detail-name', 'drone')
        wait_until(lambda: page.execute_script(
            "return document.getElementById('chart-place').height !== 150"), 10.0, 'charts')
        # The detail is beside the view; START is dimmed while all systems are active.
        assert page.execute_script("""
            const stop = document.getElementById('stop').getBoundingClientRect();
            const at = document.elementFromPoint(stop.x + stop.width / 2, stop.y + 9);
            const detail = document.getElementById('detail').getBoundingClientRect();
            return [at.id, document.getElementById('start').disabled, detail.right <= stop.left];
            """) == ['stop', True, True]
        page.execute_script("document.getElementById('detail-close').click()")
        wait_until(lambda: page.execute_script("""
            return [...document.querySelectorAll('#rows tr.ok td:nth-child(6)')].some(
              cell => cell.innerText > 60 && cell.innerText < 150)"""), 10.0, 'the rate')
        phone.execute_script("document.getElementById('stop').click()")
        phone.execute_script("document.getElementById('stop').click()")
        eventually(phone, '#confirm', 'lose', 2.0)
        time.sleep(0.5)
        assert 'STOP' not in text(page, '#log'), 'a double tap is no STOP'
        phone.execute_script("document.getElementById('stop-now').click()")
        eventually(page, '#log li', 'STOP')
        eventually(page, '#systems', 'inactive')
        wait_until(lambda: sign(page, 'wand')[0] == 'lost', 10.0, 'no body is live')
        wait_until(lambda: page.execute_script("""
            return [...document.querySelectorAll('#rows tr')].every(row => [...row.cells]
              .slice(2, 8).every(cell => cell.innerText === '\u2013'))"""), 5.0, 'no figures')
        wait_until(lambda: not phone.execute_script(
            "return document.getElementById('start').disabled"), 10.0, 'START again')
        lab.node.send_signal(signal.SIGSTOP)
        try:
            phone.execute_script("document.getElementById('start').click()")
            eventually(page, '#log', 'no answer from optitrack_vrpn')
            eventually(page, '#causes', 'sends no diagnostics')
        finally:
            lab.node.send_signal(signal.SIGCONT)
        for one in (page, phone):
            assert errors(one) == []


@pytest.mark.parametrize('size', [PHONE, DESK])
@pytest.mark.parametrize('dark', [True, False])
def test_the_page_fits_and_a_thumb_hits_its_buttons(lab, size, dark):
    with browser(lab.url, size, dark) as page:
        eventually(page, '#systems', 'optitrack_vrpn')
        wide, colour = page.execute_script(
            'return [document.documentElement.scrollWidth, '
            'getComputedStyle(document.body).backgroundColor]')
        assert wide <= size[0]
        assert (sum(map(int, colour[4:-1].split(','))) < 380) is dark
        heights = page.execute_script(
            "return [...document.querySelectorAll('#commands button')].map(b => b.offsetHeight)")
        assert min(heights) >= 44
        for _ in range(40):
            page.switch_to.active_element.send_keys('\t')
            if page.execute_script('return document.activeElement.id') == 'stop':
                break
        else:
            raise AssertionError('STOP cannot be reached by keyboard')
        assert errors(page) == []


def test_a_page_without_its_server_says_so_and_comes_back(lab):
    served = Served()
    cloud = PointCloud2(height=1, width=1, point_step=12, data=bytes(12), fields=[
        PointField(name=name, offset=4 * at, datatype=7, count=1)
        for at, name in enumerate('xyz')])
    try:
        with Observer() as observer, browser(served.url) as page:
            wait_until(lambda: online(page), 20.0, 'a connection')
            publisher = observer.node.create_publisher(PointCloud2, '/lab/markers', 1)

            def markers():
                publisher.publish(cloud)
                return page.execute_script('return view.markers.length')

            page.execute_script("document.getElementById('markers').click()")
            wait_until(markers, 20.0, 'a marker')
            served.process.process.send_signal(signal.SIGSTOP)    # no end of the connection
            assert eventually(page, '#verdict', 'disconnected') < 3.0
            assert page.execute_script("return document.getElementById('start').disabled")
            assert 'everything below is old' in text(page, '#banner')
            assert page.execute_script('return document.title') == '✕ disconnected'
            assert page.execute_script('return view.markers.length') == 0
            served.process.process.send_signal(signal.SIGCONT)
            wait_until(lambda: online(page), 20.0, 'a new connection')
            wait_until(markers, 20.0, 'a marker again')
            # A refusal has a reason on the page, another disconnection has none.
            assert not page.execute_script('return page.why')
            page.execute_script("""
                page.attempt = 5;
                lost();
                window.more = Array.from({length: 16},
                  () => new WebSocket(location.origin + '/ws'));
                """)
            wait_until(lambda: page.execute_script(
                'return window.more.every(one => one.readyState === 1)'), 20.0, '16 others')
            page.execute_script('connect()')
            eventually(page, '#banner', '16 pages are open already')
            page.execute_script('window.more.forEach(one => one.close()); connect()')
            wait_until(lambda: online(page), 20.0, 'a place')
            page.execute_script('lost()')
            wait_until(lambda: page.execute_script('return page.why') == '', 20.0, 'no reason')
    finally:
        served.process.process.send_signal(signal.SIGCONT)
        served.close()
