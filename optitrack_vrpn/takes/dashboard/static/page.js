// Copyright 2026 The optitrack_vrpn authors
// SPDX-License-Identifier: BSD-3-Clause
// The page: the connection, tables, commands. Texts from the network become text nodes only.
'use strict';

const SILENT_MS = 900;               // without a message for this long the page is disconnected
const CONNECT_MS = 3000;             // time for a connection and the first message
const CONFIRM_MS = 8000;             // time for the second tap on STOP
const PAUSES_S = [0.5, 1, 2, 4, 8, 15];    // before attempts to connect again
const MARK = {ok: '●', warn: '▲', lost: '✕', error: '✕', warning: '▲', good: '●'};

const $ = id => document.getElementById(id);
const seconds = s => s == null ? '–' : s < 10 ? `${s.toFixed(1)} s` : s < 120 ? `${Math.round(s)} s`
  : s < 7200 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
const number = (v, digits) => v == null ? '–' : v.toFixed(digits);
const minutes = s => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, '0')}`;
const clock = s => new Date(1000 * s).toLocaleTimeString();

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name in element && name !== 'list') element[name] = value;
    else element.setAttribute(name, value);
  element.append(...children.filter(child => child != null && child !== ''));
  return element;
}

// A long name is broken behind its underscores.
const breakable = name => name.split(/(?<=_)/).flatMap((part, i) => i ? [make('wbr'), part] : [part]);

function patch(old, fresh) {    // in place, so that focus and selection stay
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName || !old.attributes) return old.replaceWith(fresh);
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes) old.setAttribute(name, value);
  fill(old, [...fresh.childNodes]);
}

function fill(parent, rows) {
  while (parent.childNodes.length > rows.length) parent.lastChild.remove();
  rows.forEach((row, i) => {
    if (parent.childNodes[i]) patch(parent.childNodes[i], row); else parent.append(row);
  });
}

const page = {
  socket: null, heard: 0, ageAt: 0, age: null, attempt: 0, state: null, you: {control: false},
  chosen: 0, serial: 0, retry: 0, stopUntil: 0,
};
const view = new LabView($('view'));

// -- connection ---------------------------------------------------------------------------------

function connect() {
  clearTimeout(page.retry);
  if (page.socket) page.socket.onclose = null, page.socket.close();
  const socket = page.socket = new WebSocket(
    `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`);
  socket.binaryType = 'arraybuffer';
  page.got = false;
  page.opened = performance.now();
  socket.onmessage = event => {
    if (socket !== page.socket) return;
    page.heard = performance.now();
    page.got = true;
    page.attempt = 0;
    if (typeof event.data === 'string') receive(JSON.parse(event.data));
    else receiveFrame(new DataView(event.data));
  };
  socket.onclose = () => { if (socket === page.socket) lost(); };
}

function lost() {
  const pause = PAUSES_S[Math.min(page.attempt++, PAUSES_S.length - 1)] * (1 + 0.2 * Math.random());
  page.got = false;
  if (page.socket) page.socket.onclose = null, page.socket.close();
  page.socket = null;
  page.next = performance.now() + 1000 * pause;
  page.retry = setTimeout(connect, 1000 * pause);
  tick();
  // A browser does not tell a page why a WebSocket was refused; the same address does. POST, since
  // browsers send Origin with it as with a WebSocket, and not with GET.
  fetch('/ws', {method: 'POST'}).then(async answer => {
    page.why = [401, 403, 503].includes(answer.status) ? (await answer.text()).replace(/<.*?>/g, '')
      : '';
  }).catch(() => { page.why = ''; });
}

function send(message) {
  if (page.socket && page.socket.readyState === 1) page.socket.send(JSON.stringify(message));
}

function receive(message) {
  if (message.type === 'snapshot') {
    if (message.you) {    // a new connection: the server does not know what this page shows
      page.you = message.you;
      if ($('markers').getAttribute('aria-pressed') === 'true') send({type: 'markers', on: true});
    }
    page.state = message;
    page.age = message.age_s;
    page.ageAt = performance.now();
    view.describe(message.bodies);
    show();
  } else if (message.type === 'history') showHistory(message);
  else if (message.type === 'refused') $('refused').textContent = `Refused: ${message.text}`;
}

function receiveFrame(data) {
  const kind = data.getUint8(0), count = data.getUint16(2, true);
  const floats = (at, n) => Array.from({length: n}, (_, i) => data.getFloat32(at + 4 * i, true));
  if (kind === 1) {
    const age = data.getFloat32(4, true);
    page.age = Number.isFinite(age) ? age : null;
    page.ageAt = performance.now();
    for (let i = 0, at = 8; i < count; i++, at += 32)
      view.pose(data.getUint16(at, true), data.getUint16(at + 2, true), floats(at + 4, 7));
  } else if (kind === 2) {
    view.markers = Array.from({length: count}, (_, i) => [
      ...floats(8 + 16 * i, 3), data.getUint32(20 + 16 * i, true)]);
  } else if (kind === 3) {
    view.lines = Array.from({length: count}, (_, i) => [
      floats(8 + 28 * i, 3), floats(20 + 28 * i, 3), data.getUint32(32 + 28 * i, true)]);
  }
}

function tick() {    // ten times a second: ages go on without messages
  const now = performance.now(), online = page.got && now - page.heard < SILENT_MS;
  const waiting = page.socket && !page.got && now - page.opened < CONNECT_MS;
  if (!online && !waiting && page.socket) return lost();
  document.body.classList.toggle('offline', !online);
  view.offline = !online;
  view.dirty = true;
  $('grid').textContent = view.step ? `grid ${view.step} m` : '';
  $('link').textContent = online ? 'connected' : waiting ? 'connecting' : 'disconnected';
  $('link').className = `chip ${online ? 'ok' : 'lost'}`;
  const age = page.age == null ? null : page.age + (now - page.ageAt) / 1000;
  $('age').textContent = age == null ? 'no data' : `data ${age < 10 ? age.toFixed(1) : Math.round(age)} s old`;
  $('age').className = `chip ${age != null && age < 0.5 && online ? 'ok' : 'lost'}`;
  $('banner').hidden = online || (waiting && !page.state);
  if (!online) {
    const pause = Math.max(0, (page.next - now) / 1000);
    $('banner').textContent = `Disconnected: everything below is old. ${page.why || ''} ` +
      (waiting || !pause ? 'Connecting …' : `Next attempt in ${Math.max(1, Math.ceil(pause))} s`);
    $('verdict').textContent = 'disconnected';
    $('verdict').className = 'lost';
    document.title = '✕ disconnected';
    view.markers = view.lines = [];
    $('detail-state').textContent = '✕ disconnected: everything below is old';
    $('detail-state').className = 'lost';
  }
  showButtons(now, online && page.you.control);
}

function showButtons(now, allowed) {
  const {systems = [], armed = ''} = page.state ? page.state.control : {};
  const here = systems.filter(one => !one.gone);
  const all = here.length > 0 && here.every(one => one.state === 'active');
  $('record').disabled = !allowed || !page.state.recording.recorder;
  $('start').disabled = !allowed || all;
  $('start').title = all ? 'all systems are active' : '';
  $('stop').disabled = !allowed || armed !== '';
  $('armed').textContent = armed ? `STOP is refused: ${armed}` : '';
  if ($('stop').disabled) page.stopUntil = 0;
  $('confirm').hidden = now >= page.stopUntil;
  const live = [...view.bodies.values()].filter(body => view.sign(body) !== 'lost').length;
  const text = !live ? 'No body has poses now. STOP deactivates all systems.'
    : `STOP deactivates all systems: ${live === 1 ? '1 body loses its' : `${live} bodies lose their`} poses.`;
  if ($('confirm-text').textContent !== text) $('confirm-text').textContent = text;
}

// -- tables -------------------------------------------------------------------------------------

function show() {
  const {bodies, findings, control, nodes, recording} = page.state;
  const bad = bodies.filter(body => body.sign === 'lost').length;
  const warned = bodies.filter(body => body.sign === 'warn').length;
  const all = bodies.length === 1 ? '1 body' : `${bodies.length} bodies`;
  $('verdict').textContent = !bodies.length ? 'No bodies yet'
    : bad ? `${bad} of ${all} lost`
      : warned ? `${warned} of ${all} with a warning` : `${all} tracked`;
  $('verdict').className = bad || !bodies.length ? 'lost' : warned ? 'warn' : 'ok';
  document.title = `${bad ? `✕ ${bad} lost` : '●'} mocap`;
  $('empty').hidden = bodies.length > 0;
  $('empty').textContent = nodes.length ? 'no bodies yet' : 'no node yet: is optitrack_vrpn_node running in this ROS domain?';
  showBodies(bodies);
  const open = findings.filter(one => one.over_s == null);
  $('count').textContent = open.length || '';
  fill($('causes'), findings.length ? findings.map(cause)
    : [make('li', {className: 'none'}, bodies.length ? 'Nothing is wrong.' : 'Nothing to report yet.')]);
  showControl(control);
  fill($('clock'), nodes.length ? nodes.map(nodeCard) : [make('p', {className: 'dim'}, 'no node has reported yet')]);
  showTakes(recording);
  if (page.chosen) showDetail();
}

function cause(one) {
  const over = one.over_s != null;
  return make('li', {className: `${one.severity}${over ? ' over' : ''}`},
    make('span', {className: 'mark', ariaLabel: one.severity}, MARK[one.severity]),
    make('div', {}, make('strong', {}, one.text),
      one.remedy ? make('p', {}, one.remedy) : null,
      make('small', {}, over ? `over since ${seconds(one.over_s)}` : `for ${seconds(one.since_s)}`)));
}

function showBodies(bodies) {
  const rank = {lost: 0, warn: 1, ok: 2};
  const sorted = [...bodies].sort((a, b) => rank[a.sign] - rank[b.sign]
    || a.name.localeCompare(b.name, undefined, {numeric: true}));
  const wanted = $('filter').value.trim().toLowerCase();
  const found = sorted.filter(body => [body.name, body.motive_name, body.state, body.sign === 'warn' ? 'warning' : body.sign]
    .some(text => (text || '').toLowerCase().includes(wanted)));
  $('tally').textContent = !bodies.length ? '' : wanted ? `${found.length} of ${bodies.length}` : bodies.length;
  fill($('rows'), found.map(body => {
    const title = body.motive_name && body.motive_name !== body.name ? body.motive_name : '';
    const live = body.sign !== 'lost';
    return make('tr', {className: body.sign, 'data-body': body.index},
      make('th', {scope: 'row'}, make('button', {className: 'name', title}, ...breakable(body.name))),
      make('td', {className: 'state'}, make('span', {className: 'mark'}, MARK[body.sign]),
        make('b', {}, body.state), body.reason ? make('small', {}, body.reason) : null),
      ...[0, 1, 2].map(i => make('td', {}, number(live ? body.position[i] : null, 3))),
      make('td', {}, number(body.rate_hz, 0)), make('td', {}, number(body.latency_ms, 2)),
      make('td', {}, number(body.jitter_ms, 2)),
      make('td', {}, live ? body.lost_s == null ? 'none' : minutes(body.lost_s)
        : body.age_s == null ? 'not seen' : minutes(body.age_s)));
  }));
}

function nodeCard(node) {
  const part = (name, pairs) => {
    const one = node[name];
    if (!one) return null;
    const level = node.silent || one.level === 2 ? 'lost' : ['ok', 'warn', '', 'idle'][one.level];
    return make('div', {className: `part ${level}`},
      make('h4', {}, make('span', {className: 'mark'}, MARK[level] || '–'), ` ${name}`),
      make('p', {}, one.message),
      make('dl', {}, ...pairs.map(([text, key, unit]) => make('div', {}, make('dt', {}, text),
        make('dd', {}, one.values[key] == null ? '–' : key.endsWith('_us') && one.values[key] > 0
          ? `${(one.values[key] / 1000).toFixed(2)} ms` : key === 'offset_s' && one.values[key] ? `${Number(one.values[key]).toFixed(3)} s` : `${one.values[key]}${unit || ''}`)))));
  };
  return make('article', {},
    make('h3', {}, node.name, make('small', {}, ` ${node.state} · reported ${seconds(node.age_s)} ago`)),
    part('connection', [['server', 'server'], ['transport', 'transport'], ['lost', 'udp_lost_percent', ' %'],
      ['sessions', 'sessions']]),
    part('clock', [['offset', 'offset_s', ' s'], ['skew', 'skew_ppm', ' ppm'], ['uncertainty', 'uncertainty_us'],
      ['jitter p99', 'arrival_jitter_p99_us'], ['epoch', 'epoch']]),
    part('frames', [['latency p50', 'latency_p50_us'], ['p99', 'latency_p99_us'], ['pose path', 'pose_path']]));
}

function showControl({problem, systems, commands, vehicles}) {
  fill($('vehicles'), vehicles.map(one => make('li', {className: one.armed === false ? '' : 'armed', title: one.bridge},
    one.body, make('small', {}, one.armed ? '▲ armed' : one.armed === false ? 'not armed' : '▲ armed or not: unknown'))));
  fill($('systems'), problem ? [make('li', {className: 'dim'}, `No mocap control: ${problem}`)]
    : !systems.length ? [make('li', {className: 'dim'}, 'no system listens to mocap control')]
      : systems.map(one => make('li', {className: one.gone || one.mute ? 'lost' : ''}, one.name,
        make('small', {}, one.gone ? 'gone from the graph' : one.mute ? 'does not answer' : one.state || 'state unknown'))));
  fill($('log'), commands.slice(0, 6).map(one => make('li', {},
    make('div', {}, make('b', {className: one.kind.toLowerCase()}, one.kind), one.session ? ` ${one.session}` : '',
      make('small', {}, ` by ${one.by} at ${clock(one.time)}`)),
    ...one.answers.map(answer => make('div', {className: 'ok'}, make('span', {className: 'mark'}, '✓'),
      ` ${answer.system} after ${answer.after_ms < 1000 ? `${answer.after_ms.toFixed(0)} ms` : seconds(answer.after_ms / 1000)}`)),
    one.waiting.length ? make('div', {className: 'dim'}, `sent, waiting for ${one.waiting.join(', ')}`) : null,
    one.no_answer.length ? make('div', {className: 'bad'}, make('span', {className: 'mark'}, '✕'),
      ` no answer from ${one.no_answer.join(', ')}`) : null,
    !one.answers.length && !one.waiting.length && !one.no_answer.length
      ? make('div', {className: 'dim'}, 'sent; no known system was addressed') : null)));
}

function showTakes({active, recorder, takes, folder}) {
  const on = recorder === 'active';
  $('record').textContent = on ? 'Stop recording' : 'Record';
  $('record').classList.toggle('on', on);
  $('recording').hidden = !on && Boolean(recorder);
  $('recording').className = on ? 'on' : 'dim';
  $('recording').textContent = active ? `Recording ${active.name} for ${seconds(active.seconds)}, ${active.megabytes} MB`
    : on ? `A recorder records, but not into the folder ${folder}`
      : `To record from this page: ros2 run optitrack_vrpn record --control -o ${folder}`;
  fill($('list'), takes.length ? takes.map(take => make('li', {className: take.level || 'dim'},
    make('span', {className: 'mark', ariaLabel: take.level || 'not assessed'}, MARK[take.level] || '·'),
    make('div', {}, page.you.control || take.level
      ? make('a', {href: `/takes/${encodeURIComponent(take.name)}/report`, target: '_blank', rel: 'noopener'}, take.name) : take.name,
    make('small', {}, ` ${seconds(take.seconds)}, ${take.megabytes} MB, ${new Date(1000 * take.time).toLocaleString()}`),
    make('p', {}, take.verdict)))) : [make('li', {className: 'dim'}, `no recording in the folder ${folder} yet`)]);
}

// -- one body -----------------------------------------------------------------------------------

function choose(index) {
  page.chosen = index;
  $('detail').hidden = !index;
  if (!index) return;
  send({type: 'history', body: index});
  showDetail();
  const {top, bottom} = $('detail').getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) $('detail').scrollIntoView({block: 'nearest'});
}

function showDetail() {
  const body = page.state.bodies.find(one => one.index === page.chosen);
  $('detail-name').textContent = body ? body.name : 'removed';
  if (!body) return fill($('detail-state'), []), fill($('detail-pose'), []);
  $('detail-state').className = body.sign;
  $('detail-state').textContent = `${MARK[body.sign]} ${body.state}${body.reason ? `: ${body.reason}` : ''}`;
  $('detail-pose').textContent = [body.motive_name && body.motive_name !== body.name ? `In Motive: ${body.motive_name}` : '',
    `node ${body.node}`, body.sign === 'lost' || !body.position.length ? ''
      : `x ${number(body.position[0], 3)}, y ${number(body.position[1], 3)}, z ${number(body.position[2], 3)} m`].filter(Boolean).join(' · ');
  $('detail-follow').textContent = view.followed === page.chosen ? 'Followed' : 'Follow';
  fill($('detail-causes'), page.state.findings.filter(one => one.bodies.includes(body.name)).map(cause));
}

function showHistory(history) {
  if (history.body !== page.chosen) return;
  chart($('chart-rate'), history.rates.map(row => [row[0], row[1]]), ['--ok'], true);
  chart($('chart-latency'), history.rates.map(row => [row[0], row[2]]), ['--ok'], true);
  chart($('chart-place'), history.places, ['--x', '--y', '--z'], false);
}

function roundTicks(low, high) {    // steps of 1, 2 or 5, two to four of them
  const span = Math.max(high - low, 1e-3), decade = 10 ** Math.floor(Math.log10(span / 2));
  const step = decade * [1, 2, 5, 10].find(m => span / (m * decade) <= 3);
  const first = Math.floor(low / step + 1e-9), count = Math.max(Math.ceil(high / step - 1e-9) - first, 1);
  return [Array.from({length: count + 1}, (_, i) => (first + i) * step), Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
}

function chart(canvas, rows, colours, fromZero) {
  const style = getComputedStyle(document.documentElement), ratio = devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [w * ratio, h * ratio];
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  const values = rows.flatMap(row => row.slice(1)).filter(value => value != null);
  if (!values.length) return;
  const [ticks, digits] = roundTicks(fromZero ? 0 : Math.min(...values), Math.max(...values));
  const [low, high] = [ticks[0], ticks[ticks.length - 1]];
  const place = (t, v) => [44 + (w - 50) * (1 + t / 60), h - 16 - (h - 24) * (v - low) / (high - low)];
  pen.font = '11px system-ui, sans-serif';
  pen.fillStyle = style.getPropertyValue('--dim');
  pen.strokeStyle = style.getPropertyValue('--grid');
  for (const value of ticks) {
    const y = place(0, value)[1];
    pen.textAlign = 'right';
    pen.fillText(value.toFixed(digits), 40, y + 4);
    pen.beginPath(); pen.moveTo(44, y); pen.lineTo(w - 6, y); pen.stroke();
  }
  pen.textAlign = 'center';
  for (const t of [-60, -40, -20, 0]) pen.fillText(t ? `${t} s` : 'now', Math.min(place(t, low)[0] + (t === -60 ? 10 : 0), w - 16), h - 2);
  pen.lineWidth = 1.6;
  colours.forEach((colour, i) => {
    pen.strokeStyle = style.getPropertyValue(colour);
    pen.beginPath();
    let before = null;
    for (const row of rows) {
      if (row[i + 1] == null) { before = null; continue; }
      const [x, y] = place(row[0], row[i + 1]);
      if (before == null || row[0] - before > 2.5) pen.moveTo(x, y); else pen.lineTo(x, y);
      before = row[0];
    }
    pen.stroke();
  });
}

// -- actions ------------------------------------------------------------------------------------

function follow(index) {
  view.follow(index);
  $('follow').setAttribute('aria-pressed', String(Boolean(index)));
  if (page.chosen) showDetail();
}

function followNext() {
  const order = [...view.bodies.keys()];
  follow(order[order.indexOf(view.followed) + 1] ?? 0);
}

function command(type, more = {}) {
  $('refused').textContent = '';
  send({type, id: String(++page.serial), session: $('session').value.trim(), by: $('by').value.trim(), ...more});
}

$('start').onclick = () => command('start');
// Two taps at two places: a double tap, or one beside START, ends no pose.
$('stop').onclick = () => { page.stopUntil = performance.now() + CONFIRM_MS; tick(); };
$('stop-now').onclick = () => { page.stopUntil = 0; command('stop'); tick(); };
$('stop-not').onclick = () => { page.stopUntil = 0; tick(); };
$('record').onclick = () => command('record', {on: page.state.recording.recorder !== 'active'});
$('commands').onsubmit = event => event.preventDefault();
$('fit').onclick = () => { follow(0); view.fit(); };
$('top').onclick = () => view.top();
$('follow').onclick = followNext;
function toggled(button) {
  const on = button.getAttribute('aria-pressed') !== 'true';
  button.setAttribute('aria-pressed', String(on));
  view.dirty = true;
  return on;
}

$('trails').onclick = event => { view.trails = toggled(event.currentTarget); };
$('labels').onclick = event => { view.labels = toggled(event.currentTarget); };
$('markers').onclick = event => {
  view.markers = view.lines = [];
  send({type: 'markers', on: toggled(event.currentTarget)});
};
$('filter').oninput = () => { if (page.state) showBodies(page.state.bodies); };
$('rows').onclick = event => {
  const row = event.target.closest('tr');
  if (row) choose(Number(row.dataset.body));
};
$('detail-close').onclick = () => choose(0);
$('detail-follow').onclick = () => { follow(page.chosen); $('scene').scrollIntoView({block: 'nearest'}); };
$('by').value = localStorage.getItem('by') || '';
$('by').onchange = () => localStorage.setItem('by', $('by').value);
document.onkeydown = event => {
  if (event.target.tagName === 'INPUT' || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {escape: () => choose(0), t: () => view.top(), r: () => $('fit').click(), f: followNext}[event.key.toLowerCase()];
  if (act) act();
};
addEventListener('online', connect);
setInterval(tick, 100);
setInterval(() => { if (page.chosen) send({type: 'history', body: page.chosen}); }, 1000);
connect();
