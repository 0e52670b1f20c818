# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The server of the dashboard without a browser: aiohttp's client, and plain sockets."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import socket
import time

from dashboard_kit import aiohttp, connect, run, Served, until
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from optitrack_vrpn.takes.dashboard.takes_io import Takes
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import NodeProcess, Observer
from server_kit import free_port


TOKEN = 'correct-horse'


@pytest.fixture(scope='module')
def served(tmp_path_factory):
    served = Served('--takes', tmp_path_factory.mktemp('takes'))
    yield served
    served.close()


@pytest.fixture(scope='module')
def secured():
    served = Served('--token', TOKEN)
    yield served
    served.close()


async def status_of(session, served, path='/', **options):
    async with session.get(served.origin + path, allow_redirects=False, **options) as answer:
        return answer.status


async def refused(session, served, headers, path='/ws'):
    """Give the status with which a WebSocket is refused."""
    try:
        async with session.ws_connect(served.origin + path, headers=headers):
            return 101
    except aiohttp.WSServerHandshakeError as error:
        return error.status


def test_the_first_message_is_a_snapshot(served):
    async def work(session):
        async with connect(session, served) as socket:
            began = time.monotonic()
            first = json.loads((await socket.receive()).data)
            assert time.monotonic() - began < 1.0
            return first
    first = run(work)
    assert first['type'] == 'snapshot' and first['you']['control'] is True
    assert {'bodies', 'findings', 'nodes', 'control', 'recording', 'age_s'} <= first.keys()


def test_the_page_needs_nothing_from_outside_and_forbids_it(served):
    async def work(session):
        for path in ('/', '/page.js', '/view.js', '/page.css', '/icon.svg'):
            async with session.get(served.origin + path) as answer:
                assert answer.status == 200
                policy = answer.headers['Content-Security-Policy']
                assert "default-src 'self'" in policy and 'unsafe' not in policy
                assert 'http' not in policy and '*' not in policy
                text = (await answer.text()).replace('http://www.w3.org/2000/svg', '')
                assert not re.findall(r'https?://\w', text), path
                assert not re.search(r'innerHTML|insertAdjacentHTML|document\.write|eval\(', text)
        for path in ('/nothing', '/../command.py', '/takes/..%2f..%2fetc/report',
                     '/takes/.%2e/report'):
            assert await status_of(session, served, path) in (400, 403, 404)
    run(work)


@pytest.mark.parametrize('headers, status', [
    ({'Origin': None}, 403), ({'Origin': 'http://evil.example'}, 403), ({'Origin': 'null'}, 403),
    ({'Origin': 'http://evil.example', 'Host': 'evil.example'}, 403),
    ({'Origin': 'http://127.0.0.1:1'}, 403)])
def test_a_page_of_another_site_gets_no_websocket(served, headers, status):
    """With DNS rebinding, Host and Origin are both the other site's."""
    headers = {key: value for key, value in headers.items() if value}
    assert run(lambda session: refused(session, served, headers)) == status


def test_a_rebound_name_gets_no_page(served):
    async def work(session):
        assert await status_of(session, served, headers={'Host': 'evil.example'}) == 403
        own = {'Host': f'localhost:{served.port}'}
        assert await status_of(session, served, headers=own) == 200
    run(work)


def test_a_token_becomes_a_cookie_and_leaves_the_address(secured):
    async def work(session):
        assert f'token={TOKEN}' in secured.url
        headers = {'Origin': secured.origin}
        assert await status_of(session, secured) == 401
        assert await status_of(session, secured, '/?token=wrong') == 401
        assert await refused(session, secured, headers) == 401
        assert await refused(session, secured, headers, '/ws?token=wrong') == 401
        async with session.get(secured.url, allow_redirects=False) as answer:
            cookie = answer.headers['Set-Cookie']
            assert (answer.status, answer.headers['Location']) == (303, '/')
            assert 'HttpOnly' in cookie and 'SameSite=Strict' in cookie and TOKEN not in cookie
        assert await status_of(session, secured) == 200
        async with connect(session, secured) as socket:
            assert (await socket.receive_json())['you']['control'] is True
    run(work)


def test_read_only_admits_everybody_and_executes_nothing():
    served = Served('--read-only')
    try:
        async def work(session):
            async with connect(session, served) as socket:
                assert (await socket.receive_json())['you']['control'] is False
                for kind, more in (('start', {}), ('stop', {}), ('record', {'on': True})):
                    await socket.send_json({'type': kind, 'id': kind, **more})
                    answer = await until(socket, lambda one: True, 'refused')
                    assert answer['id'] == kind and 'read only' in answer['text']
                found = await until(socket, lambda one: True)
                assert found['control']['commands'] == [] and not found['recording']['active']
        run(work)
    finally:
        served.close()


def test_another_address_gets_a_token():
    served = Served('--host', '127.0.0.2')    # loopback too
    assert 'token' not in served.url
    served.close()
    served = Served('--host', '0.0.0.0')
    try:
        assert re.search(r'\?token=[\w-]{20,}$', served.url)
    finally:
        served.close()


def test_malformed_and_oversized_messages_end_only_their_sender(served):
    async def work(session):
        async with connect(session, served) as other:
            for data in ('{', '[]', 'null', '{"type": "fly"}', '{"type": "start"}',
                         '{"type": "start", "id": 5}', '{"type": "history", "body": "x"}',
                         '{"type": "start", "id": "1", "on": 1}', '[' * 2000,
                         '{"type": "stop", "id": "1", "session": "a\\u0000b"}',
                         f'{{"type": "stop", "id": "1", "session": "{"a" * 65}"}}'):
                async with connect(session, served) as socket:
                    await socket.send_json({'type': 'history', 'body': 77})
                    await until(socket, lambda one: one['body'] is None, 'history')
                    await socket.send_str(data)
                    with pytest.raises(AssertionError, match='closed with 1008'):
                        await until(socket, lambda one: False)
            async with connect(session, served) as socket:
                await socket.send_str('x' * 5000)
                with pytest.raises(AssertionError, match='closed with 1009'):
                    await until(socket, lambda one: False)
            assert await until(other, lambda one: one['clients'] == 1)
    run(work)


def test_what_a_peer_does_to_http_fills_no_log():
    process = NodeProcess('--port', '0', tool='dashboard', ros=False)
    with process:
        host, port = re.search(r'http://([^:]+):(\d+)', process.wait_for(
            r'http://\S+', 60.0)[0]).groups()

        upgrade = (
            f'GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n'
            'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n'
            'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n').encode()

        async def work(session):
            for kind in range(40):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write((b'GET /' + b'A' * 9000, b'\xff\0\r\n\r\n',
                              b'X / HTTP/9.9\r\n\r\n', upgrade)[kind % 4])
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                writer.transport.abort()
            async with session.get(f'http://{host}:{port}/takes/{"a" * 300}/report') as answer:
                assert answer.status == 404
            async with session.get(f'http://{host}:{port}/') as answer:
                assert answer.status == 200
        run(work)
        assert process.end()[0] == 0
    assert len(process.lines) <= 1, process.log


def test_the_17th_page_is_refused_until_another_closes(served):
    async def work(session):
        sockets = [await connect(session, served) for _ in range(16)]
        assert await refused(session, served, {'Origin': served.origin}) == 503
        assert await status_of(session, served) == 200
        await sockets.pop().close()
        await until(sockets[0], lambda one: one['clients'] == 15)
        async with connect(session, served) as socket:
            assert (await socket.receive_json())['type'] == 'snapshot'
        for one in sockets:
            await one.close()
    run(work)


def handshake(served):
    """Open a WebSocket by hand, whose reader can stop."""
    plain = socket.create_connection((served.host, int(served.port)), timeout=20.0)
    plain.sendall((f'GET /ws HTTP/1.1\r\nHost: {served.host}:{served.port}\r\n'
                   f'Origin: {served.origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                   'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n'
                   '\r\n').encode())
    assert b' 101 ' in plain.recv(200)
    return plain


@pytest.mark.timed
def test_a_client_that_stops_reading_is_cut_and_disturbs_nobody(served):
    silent = handshake(served)    # reads nothing, and answers no ping

    async def work(session):
        async with connect(session, served) as other:
            began = last = time.monotonic()
            longest = 0.0
            while True:
                found = await until(other, lambda one: True)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
                if found['clients'] == 1:
                    return time.monotonic() - began, longest
    after_s, longest_s = run(work)
    assert 3.0 < after_s < 12.0 and longest_s < 3.0
    silent.close()


def test_record_starts_the_recorder_alone_is_shown_to_all_and_the_take_is_assessed(served):
    pytest.importorskip('mocap4r2_control_msgs.msg', reason='control messages')

    async def work(session):
        async with connect(session, served) as first, connect(session, served) as second:
            async def both(wanted, other=None):
                """Wait for both pages: one that is not read is cut."""
                return await asyncio.gather(until(first, wanted), until(second, other or wanted))

            record = {'type': 'record', 'id': 'r', 'on': True, 'session': 'a/../b', 'by': 'Ada'}
            await first.send_json(record)
            refused = await until(first, lambda one: one['id'] == 'r', 'refused')
            assert 'record --control' in refused['text']
            folder = (await both(lambda one: True))[0]['recording']['folder']
            with NodeProcess('--control', '-o', folder, tool='record', ros=False) as recorder:
                await both(lambda one: sorted(system['state'] for system in one['control'][
                    'systems']) == ['active', 'inactive'])
                await first.send_json(record)
                active, _ = await both(lambda one: one['recording']['active'] and one[
                    'recording']['active']['seconds'] > 3.0)
                name = active['recording']['active']['name']
                assert re.fullmatch(r'a_+\.*_*b_\d{8}-\d{6}', name), name
                sent, = active['control']['commands']
                assert sent['by'].startswith('Ada (')
                bridge.publish(DiagnosticStatus(name='/bridge', hardware_id='cf1', values=[
                    KeyValue(key='armed', value='true'), KeyValue(key='stop', value='refused')]))
                await both(lambda one: one['control']['armed'])    # of no concern to it
                await second.send_json({**record, 'on': False})
                found, _ = await both(
                    lambda one: one['recording']['recorder'] == 'inactive' and one['recording'][
                        'takes'] and one['recording']['takes'][0]['level'],
                    lambda one: one['recording']['takes'])
                assert [[answer['system'] for answer in command['answers']]
                        for command in found['control']['commands']] == [['recorder']] * 2
                assert 'active' in [one['state'] for one in found['control']['systems']]
                assert recorder.end()[0] == 0
            take, = found['recording']['takes']
            assert take['name'] == name and take['verdict'] and take['seconds'] is not None
            async with session.get(f'{served.origin}/takes/{name}/report') as answer:
                assert answer.status == 200
                script, = re.findall('<script>(.*?)</script>', await answer.text(), re.S)
                policy = dict(part.split(' ', 1) for part in answer.headers[
                    'Content-Security-Policy'].split('; '))
                digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
                assert (policy['default-src'], policy['script-src']) == (
                    "'none'", f"'sha256-{digest}'")

    with Observer() as observer, \
            NodeProcess('-p', f'port:={free_port()}', '-p', 'autostart:=true'):
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        bridge = observer.node.create_publisher(DiagnosticStatus, '/armed_vehicles', latched)
        run(work, 100.0)


def test_a_take_that_cannot_be_read_hides_no_other(tmp_path):
    for name in 'abc':
        (tmp_path / name).mkdir()
        (tmp_path / name / f'{name}.mcap').touch()
    (tmp_path / 'b' / 'b.mcap').rename(tmp_path / 'b' / 'b.mcap.broken')
    (tmp_path / 'c' / 'more.mcap').symlink_to('gone')
    (tmp_path / 'd').mkdir()
    takes = Takes(tmp_path, print)
    takes.update(False, 0.0)
    assert [row['name'] for row in takes.status()['takes']] == ['a']


def test_a_report_is_written_into_folders_of_takes_only(tmp_path):
    folder = tmp_path / 'takes'
    for path in (folder / 'empty', folder / 'take', tmp_path / 'elsewhere'):
        path.mkdir(parents=True)
    (folder / 'link').symlink_to(tmp_path / 'elsewhere')
    for path in (folder / 'take', tmp_path / 'elsewhere'):
        (path / 'a.mcap').touch()
    before = sorted(tmp_path.rglob('*'))
    takes = Takes(folder, print)
    for name, reason in (('link', 'no folder in'), ('empty', 'no recording'), ('..', 'no folder'),
                         ('gone', 'cannot be read'), ('.', 'no folder'), ('a' * 300, 'read')):
        with pytest.raises(ValueError, match=reason):
            takes.page(name)
        assert reason in asyncio.run(takes.report(name))
    assert sorted(tmp_path.rglob('*')) == before
    assert takes.page('take') == folder / 'take' / 'report.html'
    assert 'cannot be assessed' in asyncio.run(takes.report('take'))
    assert (folder / 'take' / 'report.json').is_file()


def test_the_take_that_is_recorded_grows_and_is_missed_until_it_is_closed(tmp_path):
    def write(name, age_s=0.0):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / 'a.mcap').touch()
        at = time.time() - age_s
        os.utime(tmp_path / name / 'a.mcap', (at, at))

    def active(now, recording=True):
        takes.update(recording, now)
        return (takes.status()['active'] or {}).get('name'), takes.unfinished

    takes = Takes(tmp_path, print)
    write('killed', 60.0)
    assert active(0.0, False) == (None, '')
    assert active(1.0) == (None, ''), 'the recorder writes elsewhere'
    write('new')
    write('copied', -5.0)
    (tmp_path / 'copied' / 'metadata.yaml').touch()
    assert active(3.0) == ('new', '')
    assert active(3.1, False) == (None, 'new'), 'nobody records it'
    assert active(5.0) == ('new', ''), 'it was stopped, and goes on'
    assert active(6.0, False) == (None, 'new')
    write('new', 30.0)
    assert active(7.0) == (None, ''), 'another recorder, elsewhere'
    assert active(7.1, False) == (None, ''), 'the take before it is no longer the last one'
    assert active(7.2) == (None, '')
    write('more')
    assert active(9.0) == ('more', '')

    async def close():
        (tmp_path / 'more' / 'metadata.yaml').touch()
        assert active(9.1, False) == (None, ''), 'closed: read at once'
        await takes.close()
    asyncio.run(close())
