# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The web server of the page: static files, the WebSocket, reports. See docs/dashboard.md.

Everything runs in one loop: it reads ROS thirty times a second. Each client has a task that sends
the newest snapshot and the newest frame, so that a slow client gets fewer and delays nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
import contextlib
import json
import logging
from pathlib import Path
import time
from typing import Any, Optional

from aiohttp import web, WSMsgType
from optitrack_vrpn.control.protocol import Kind
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.takes.assess.report_page_io import page_policy
from optitrack_vrpn.takes.dashboard.access import Access, Right
from optitrack_vrpn.takes.dashboard.causes import FindingLog, page_findings
from optitrack_vrpn.takes.dashboard.control import ControlLog
from optitrack_vrpn.takes.dashboard.feed_ros import Feed
from optitrack_vrpn.takes.dashboard.lab import age, Lab
from optitrack_vrpn.takes.dashboard.page_rules import RecordingFacts
from optitrack_vrpn.takes.dashboard.takes_io import Takes

_STATIC = Path(__file__).parent / 'static'
_FILES = {'/': ('index.html', 'text/html'), '/page.css': ('page.css', 'text/css'),
          '/page.js': ('page.js', 'text/javascript'), '/view.js': ('view.js', 'text/javascript'),
          '/icon.svg': ('icon.svg', 'image/svg+xml')}
#: Chosen: periods (s) of frames, of frames without news, and of snapshots.
_FRAME_S, _IDLE_S, _SNAPSHOT_S = 1 / 30, 0.2, 0.5
#: Chosen: clients; a lab has five. Further ones get 503.
MOST_CLIENTS = 16
_MOST_BYTES = 4096
#: Time (s) without an answer to a ping after which a client is cut, and after which it gets
#: nothing until it answers: what lies in its buffers would be old when it is read.
_CUT_S, _HOLD_S, _PING_S = 5.0, 1.0, 1.0
_HEADERS = {
    'Content-Security-Policy': "default-src 'self'; object-src 'none'; base-uri 'none'; "
                               "form-action 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Resource-Policy': 'same-origin', 'Cache-Control': 'no-store'}
_UNAUTHORISED = (
    '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<title>Token needed</title><p>This page needs its address with the token, which the command '
    '<code>dashboard</code> printed at its start.<p>If you have just followed a link with the '
    'token: <a href="/">continue</a>.')


#: What a peer does to HTTP is no news: anybody in the network could fill the log.
_NO_LOG = logging.Logger('dashboard')
_NO_LOG.addHandler(logging.NullHandler())


class PageClient:
    """
    One connected page.

    :ivar pinged_at: when the ping was sent that is not answered yet; None if there is none.
    """

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, right: Right) -> None:
        self.socket, self.request, self.right = socket, request, right
        self.wake = asyncio.Event()
        self.pinged_at: Optional[float] = None
        self.markers = False

    async def send(self, message: dict[str, Any]) -> None:
        """Send a JSON text; waits while the client does not read, until it is cut."""
        await self.socket.send_str(json.dumps(message))

    def cut(self) -> None:
        """Close the connection at once, without waiting for the client."""
        if self.request.transport is not None:
            self.request.transport.abort()


class Dashboard:
    """
    Serve the page.

    :param complain: called with each problem.
    """

    def __init__(self, access: Access, takes: Path, ros_arguments: list[str],
                 complain: Callable[[str], None]) -> None:
        self._access, self._complain = access, complain
        self._lab, self._control, self._findings = Lab(), ControlLog(), FindingLog()
        self._feed = Feed(ros_arguments, self._lab, self._control, complain)
        self._takes = Takes(takes, self._changed)
        self._clients: set[PageClient] = set()
        self._dirty = True
        self._snapshot = ''
        self._frame = self._markers = self._lines = b''
        self._cookie = 'optitrack_vrpn'
        self._runner: Optional[web.AppRunner] = None

    async def start(self, host: str, port: int) -> int:
        """
        Listen.

        :returns: the port.
        :raises OSError: if the address cannot be used.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=_MOST_BYTES)
        for path in _FILES:
            app.router.add_get(path, self._file)
        app.router.add_get('/ws', self._websocket)
        app.router.add_post('/ws', self._websocket)    # why was it refused?
        app.router.add_get('/takes/{name}/report', self._report)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, logger=_NO_LOG)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, shutdown_timeout=1.0).start()
        number = int(self._runner.addresses[0][1])
        self._cookie = f'optitrack_vrpn_{number}'    # browsers send cookies to all ports
        return number

    async def run(self, stop: asyncio.Event) -> None:
        """Read ROS and make frames until the event is set."""
        snapshot_at = frame_at = 0.0
        while not stop.is_set():
            now = time.monotonic()
            self._dirty |= self._feed.poll(now)
            self._takes.update(self._control.recording, now)
            fresh = self._lab.newest_at == now
            if self._clients:
                if fresh or now - frame_at >= _IDLE_S:
                    frame_at, self._frame = now, self._lab.frame(now)
                    self._markers, self._lines = self._feed.marker_data, self._feed.line_data
                if self._dirty or now - snapshot_at >= _SNAPSHOT_S:
                    snapshot_at, self._dirty = now, False
                    self._snapshot = json.dumps(self._state(now), separators=(',', ':'))
                for client in self._clients:
                    if client.pinged_at is not None and now - client.pinged_at > _CUT_S:
                        client.cut()
                    client.wake.set()
            elif now - snapshot_at >= _SNAPSHOT_S:
                snapshot_at = now
                self._find(now)
            rest = _FRAME_S if self._clients else 3 * _FRAME_S
            await asyncio.sleep(max(rest - (time.monotonic() - now), 0.002))

    async def close(self) -> None:
        """Close all connections, end the reports and the node."""
        for client in list(self._clients):
            client.cut()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._takes.close()
        self._feed.close()

    def _watch(self) -> None:
        self._feed.watch(bool(self._clients), any(one.markers for one in self._clients))

    def _changed(self) -> None:
        self._dirty = True

    def _find(self, now: float) -> list[dict[str, Any]]:
        return self._findings.update(page_findings(self._lab, now, RecordingFacts(
            [self._control.systems[name] for name in self._control.recorders],
            self._takes.unfinished)), now)

    def _recorder(self) -> str:
        """Return the state of the recorders; '' without one."""
        return ('active' if self._control.recording else 'inactive') if (
            self._control.recorders) else ''

    def _state(self, now: float) -> dict[str, Any]:
        """Return the content of a snapshot."""
        return {
            'type': 'snapshot', 'time': round(time.time(), 3), 'clients': len(self._clients),
            'age_s': age(now, self._lab.newest_at), 'bodies': self._lab.body_rows(now),
            'nodes': self._lab.node_rows(now),
            'findings': self._find(now),
            'control': {
                'problem': self._feed.control_problem, 'armed': self._feed.armed,
                'vehicles': self._feed.vehicles,
                'systems': [vars(one) for one in self._control.systems.values()],
                'commands': self._control.rows(now)},
            'recording': {**self._takes.status(), 'recorder': self._recorder()}}

    # -- requests ------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Awaitable[
            web.StreamResponse]]) -> web.StreamResponse:
        """Check names and rights of every request; set the headers of every answer."""
        try:
            response = await self._refusal(request) or await handler(request)
        except web.HTTPException as answer:
            response = answer
        except Exception as error:    # a bug must not end the page of others
            self._complain(f'a request failed: {type(error).__name__}: {error}')
            response = web.Response(status=500)
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _refusal(self, request: web.Request) -> Optional[web.Response]:
        address = request.transport.get_extra_info('sockname') if request.transport else None
        if not self._access.allows_host(request.headers.get('Host', ''),
                                        address[0] if address else ''):
            return web.Response(status=403, text='unknown name in the address: use an address '
                                'that the command "dashboard" allows (--name)\n')
        token = request.query.get('token')
        right = self._right(request)
        if right is Right.NONE or (
                token and self._access.token and self._access.right(token) < Right.CONTROL):
            return web.Response(status=401, text=_UNAUTHORISED, content_type='text/html')
        if request.path == '/' and token is not None:
            answer = web.Response(status=303, headers={'Location': '/'})
            if self._access.token:
                answer.set_cookie(self._cookie, self._access.cookie, httponly=True,
                                  samesite='Strict', path='/')
            return answer
        return None

    def _right(self, request: web.Request) -> Right:
        return self._access.right(
            request.query.get('token', ''), request.cookies.get(self._cookie, ''))

    async def _file(self, request: web.Request) -> web.Response:
        name, kind = _FILES[request.path]
        return web.Response(body=(_STATIC / name).read_bytes(), content_type=kind, charset='utf-8')

    async def _report(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info['name']
        try:
            page = self._takes.page(name)
        except ValueError as error:
            return web.Response(status=404, text=f'{error}\n')
        problem = await self._takes.report(name) if self._right(request) is Right.CONTROL else ''
        if not page.is_file():
            return web.Response(
                status=404, text=f'{problem or "there is no report of this take"}\n')
        return web.Response(body=page.read_bytes(), content_type='text/html', charset='utf-8',
                            headers={'Content-Security-Policy': page_policy()})

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        if not self._access.allows_origin(
                request.headers.get('Origin', ''), request.headers.get('Host', '')):
            return web.Response(status=403, text='Origin must be the address of this page\n')
        if len(self._clients) >= MOST_CLIENTS:
            return web.Response(status=503, headers={'Retry-After': '10'}, text=(
                f'{MOST_CLIENTS} pages are open already; close one\n'))
        socket = web.WebSocketResponse(autoping=False, max_msg_size=_MOST_BYTES, compress=False)
        if not socket.can_prepare(request):
            return web.Response(status=400, text='this address is a WebSocket\n')
        client = PageClient(socket, request, self._right(request))
        self._clients.add(client)    # before the first await, so that the limit holds
        self._watch()
        sender = None
        try:
            await socket.prepare(request)
            await client.send({**self._state(time.monotonic()), 'you': {
                'control': client.right is Right.CONTROL, 'address': request.remote}})
            sender = asyncio.ensure_future(self._send(client))
            await self._receive(client)
        except ConnectionError:
            client.cut()
            if not socket.prepared:
                return web.Response(status=400)    # the client has gone
        finally:
            if sender is not None:
                sender.cancel()
            self._clients.discard(client)
            self._watch()
        return socket

    async def _send(self, client: PageClient) -> None:
        """Send the newest snapshot and frame whenever there is a new one."""
        sent: list[Any] = [None] * 4
        ping_at = 0.0
        with contextlib.suppress(ConnectionError, RuntimeError):    # it has left
            while not client.socket.closed:
                await client.wake.wait()
                client.wake.clear()
                now = time.monotonic()
                if client.pinged_at is not None and now - client.pinged_at > _HOLD_S:
                    continue
                if client.pinged_at is None and now - ping_at >= _PING_S:
                    client.pinged_at = ping_at = now
                    await client.socket.ping()
                newest: tuple[str | bytes, ...] = (
                    self._snapshot, self._frame,
                    *((self._markers, self._lines) if client.markers else ()))
                for at, data in enumerate(newest):
                    if data and data is not sent[at]:
                        sent[at] = data
                        await (client.socket.send_str(data) if isinstance(data, str)
                               else client.socket.send_bytes(data))

    async def _receive(self, client: PageClient) -> None:
        async for message in client.socket:
            if message.type is WSMsgType.PONG:
                client.pinged_at = None
            elif message.type is WSMsgType.PING:
                await client.socket.pong(message.data)
            elif message.type is not WSMsgType.TEXT or not await self._handle(
                    client, message.data):
                await client.socket.close(code=1008, message=b'see docs/dashboard.md')

    async def _handle(self, client: PageClient, text: str) -> bool:
        """Process a message of a page; return whether it is well-formed."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return False
        kind = message.get('type') if isinstance(message, dict) else None
        if kind == 'history' and isinstance(message.get('body'), int):
            found = self._lab.history(message['body'], time.monotonic())
            await client.send({'type': 'history', **(found or {'body': None})})
        elif kind == 'markers' and isinstance(message.get('on'), bool):
            client.markers = message['on']
            self._watch()
        elif kind in ('start', 'stop', 'record') and valid(message):
            problem = self._command(client, kind, message)
            await client.send({
                'type': 'refused' if problem else 'sent', 'id': message['id'], 'text': problem})
        else:
            return False
        return True

    def _command(self, client: PageClient, kind: str, message: dict[str, Any]) -> str:
        """
        Execute a command of a page.

        :returns: '' or why not.
        """
        if client.right is not Right.CONTROL:
            return 'this page is read only'
        name = message.get('by', '').strip()
        by = f'{name} ({client.request.remote})' if name else str(client.request.remote)
        session = message.get('session', '').strip()
        self._dirty = True
        if kind == 'record':
            recorders = self._control.recorders
            if not recorders:
                return 'no recorder listens to mocap control: start record --control'
            return self._feed.command(Kind.START if message.get('on') else Kind.STOP, session, by,
                                      time.monotonic(), recorders)
        return self._feed.command(
            Kind.START if kind == 'start' else Kind.STOP, session, by, time.monotonic())


def valid(message: dict[str, Any]) -> bool:
    """Return whether the fields of a command have their types and lengths."""
    return (
        all(isinstance(message.get(key, ''), str) and len(message.get(key, '')) <= 64
            and message.get(key, '') == printable(message.get(key, ''))
            for key in ('by', 'session', 'id')) and 'id' in message
        and isinstance(message.get('on', False), bool))
