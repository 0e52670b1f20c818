// Copyright 2026 The optitrack_vrpn authors
// SPDX-License-Identifier: BSD-3-Clause
// The 3D view, on a 2D canvas: x east, y north, z up. It draws only after a change.
'use strict';

const LIVE_MS = 500;      // age of a pose above which a body is drawn as lost
const TRAIL_MS = 10000;   // length of a trail, of all trails together (more would hide the bodies)
const TRAILS_MS = 120000;
const STEP_MS = 60;       // period of the points of a trail
const LONGEST = 26;       // characters of a label
const SHADES = 5;         // a trail fades in so many steps

class LabView {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext('2d');
    this.bodies = new Map();
    this.markers = [];
    this.lines = [];        // begin, end, kind: bone, plate, force
    this.trails = this.labels = true;
    this.followed = 0;
    this.offline = true;
    this.auto = true;       // frame all bodies until the user moves the camera
    this.camera = {target: [0, 0, 0.8], yaw: -2.2, pitch: 0.5, distance: 9};
    this.dirty = true;
    this.listen();
    const styles = matchMedia('(prefers-color-scheme: dark)');
    styles.addEventListener('change', () => this.recolour());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.recolour();
    const loop = () => {
      if (this.dirty) this.draw();
      requestAnimationFrame(loop);
    };
    requestAnimationFrame(loop);
  }

  recolour() {
    const style = getComputedStyle(document.documentElement);
    this.colour = {};
    for (const name of ['ink', 'dim', 'ground', 'grid', 'ok', 'warn', 'lost', 'bad', 'x', 'y', 'z'])
      this.colour[name] = style.getPropertyValue('--' + name).trim();
    this.dirty = true;
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.dirty = true;
  }

  // -- content ----------------------------------------------------------------------------------

  describe(rows) {    // of a snapshot
    const known = new Set();
    for (const row of rows) {
      known.add(row.index);
      let body = this.bodies.get(row.index);
      // Another server numbers its bodies differently.
      if (!body || body.row.name !== row.name || body.row.node !== row.node)
        this.bodies.set(row.index, body = {trail: [], at: -1e9, pose: null});
      body.row = row;
      body.lostAt = performance.now() - 1000 * (row.age_s ?? 0);
      if (row.position.length && performance.now() - body.at > LIVE_MS)
        body.pose = [...row.position, ...row.quat_xyzw];
    }
    for (const index of this.bodies.keys()) if (!known.has(index)) this.bodies.delete(index);
    this.dirty = true;
  }

  pose(index, ageMs, pose) {    // of a frame
    const body = this.bodies.get(index), now = performance.now();
    if (!body || ageMs > LIVE_MS) return;
    body.pose = pose;
    body.at = now - ageMs;
    const last = body.trail[body.trail.length - 1];
    if (!last || now - last[0] >= STEP_MS) {
      if (last && now - last[0] > LIVE_MS) body.trail.push(null);    // a gap
      body.trail.push([now, pose[0], pose[1], pose[2]]);
    }
    this.dirty = true;
  }

  sign(body) {
    if (this.offline || !body.row || performance.now() - body.at > LIVE_MS) return 'lost';
    return body.row.sign;
  }

  // -- camera -----------------------------------------------------------------------------------

  prepare() {
    const {target, yaw, pitch, distance} = this.camera;
    const [sa, ca, sp, cp] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
    this.right = [-sa, ca, 0];
    this.up = [-sp * ca, -sp * sa, cp];
    this.forward = [-cp * ca, -cp * sa, -sp];
    this.focal = 1.45 * Math.min(this.height, 1.1 * this.width);
    this.near = 0.02 * distance;
  }

  project(x, y, z) {
    const t = this.camera.target, [a, b, c] = [x - t[0], y - t[1], z - t[2]];
    const dot = v => a * v[0] + b * v[1] + c * v[2];
    const depth = this.camera.distance + dot(this.forward);
    if (depth < this.near) return null;
    const scale = this.focal / depth;
    return [this.width / 2 + dot(this.right) * scale, this.height / 2 - dot(this.up) * scale,
      depth];
  }

  line(from, to) {    // clipped at the near plane, added to the path
    const depth = p => this.camera.distance + [0, 1, 2].reduce(
      (sum, i) => sum + (p[i] - this.camera.target[i]) * this.forward[i], 0);
    const [d, e] = [depth(from), depth(to)], near = this.near * 1.01;
    if (d < near && e < near) return;
    const cut = (p, q, dp, dq) => p.map((v, i) => v + (q[i] - v) * (near - dp) / (dq - dp));
    const a = this.project(...(d < near ? cut(from, to, d, e) : from));
    const b = this.project(...(e < near ? cut(to, from, e, d) : to));
    if (!a || !b) return;
    this.pen.moveTo(a[0], a[1]);
    this.pen.lineTo(b[0], b[1]);
  }

  placed() {
    return [...this.bodies.values()].filter(body => body.pose);
  }

  frameAll(ease) {
    const places = this.placed().map(body => body.pose);
    if (!places.length) return;
    const low = [0, 1, 2].map(i => Math.min(...places.map(p => p[i])));
    const high = [0, 1, 2].map(i => Math.max(...places.map(p => p[i])));
    const size = Math.hypot(...low.map((v, i) => high[i] - v));
    const goal = Math.max(2.5, 1.05 * size + 1);
    const move = (a, b) => Math.abs(b - a) < 0.002 ? a : a + (b - a) * ease;
    this.camera.target = this.camera.target.map((v, i) => move(v, (low[i] + high[i]) / 2));
    // Nearer only when much nearer: the view must not pulse with the motion.
    const now = this.camera.distance;
    if (ease === 1 || goal > now || goal < 0.6 * now) this.camera.distance = move(now, goal);
  }

  fit() { this.auto = true; this.followed = 0; this.camera.pitch = Math.min(this.camera.pitch, 0.6);
    this.frameAll(1); this.dirty = true; }
  top() { this.camera.yaw = -Math.PI / 2; this.camera.pitch = Math.PI / 2; this.dirty = true; }
  follow(index) { this.followed = index; this.auto = !index;
    if (index) this.camera.distance = Math.min(this.camera.distance, 4); this.dirty = true; }

  turn(dx, dy) {
    this.camera.yaw -= dx;
    this.camera.pitch = Math.min(Math.max(this.camera.pitch + dy, -0.2), Math.PI / 2);
    this.dirty = true;
  }

  zoom(factor) {
    this.auto = false;
    this.camera.distance = Math.min(Math.max(this.camera.distance * factor, 0.3), 200);
    this.dirty = true;
  }

  pan(dx, dy) {    // pixels
    const scale = this.camera.distance / this.focal;
    this.auto = false;
    this.followed = 0;
    this.camera.target = this.camera.target.map(
      (v, i) => v - (dx * this.right[i] - dy * this.up[i]) * scale);
    this.dirty = true;
  }

  listen() {
    const canvas = this.canvas, pointers = new Map();
    canvas.addEventListener('pointerdown', event => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener('pointermove', event => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
      const others = [...pointers].filter(([id]) => id !== event.pointerId);
      if (others.length) {
        const gap = p => Math.hypot(p[0] - others[0][1][0], p[1] - others[0][1][1]);
        this.zoom(gap(before) / Math.max(gap(now), 1));
        this.pan(dx / 2, dy / 2);
      } else if (event.shiftKey || event.buttons & 2) this.pan(dx, dy);
      else this.turn(dx * 0.008, dy * 0.008);
      pointers.set(event.pointerId, now);
    });
    for (const end of ['pointerup', 'pointercancel'])
      canvas.addEventListener(end, event => pointers.delete(event.pointerId));
    canvas.addEventListener('contextmenu', event => event.preventDefault());
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-0.4, Math.min(0.4, event.deltaY * 0.0015))));
    }, {passive: false});
    canvas.addEventListener('keydown', event => {
      const act = {ArrowLeft: () => this.turn(-0.1, 0), ArrowRight: () => this.turn(0.1, 0),
        ArrowUp: () => this.turn(0, 0.08), ArrowDown: () => this.turn(0, -0.08),
        '+': () => this.zoom(0.85), '=': () => this.zoom(0.85), '-': () => this.zoom(1.18),
      }[event.key];
      if (act) { act(); event.preventDefault(); }
    });
  }

  // -- drawing ----------------------------------------------------------------------------------

  draw() {
    if (!this.width) return this.resize();
    this.dirty = false;
    const followed = this.bodies.get(this.followed);
    if (followed && followed.pose) this.camera.target = followed.pose.slice(0, 3);
    else if (this.auto) this.frameAll(0.06);
    this.prepare();
    const pen = this.pen;
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineCap = pen.lineJoin = 'round';
    this.drawFloor();
    const bodies = this.placed().map(body => [body, this.project(...body.pose)])
      .filter(([, at]) => at).sort((a, b) => b[1][2] - a[1][2]);
    const now = performance.now();
    if (this.trails) for (const [body] of bodies) this.drawTrail(body, now);
    this.drawLines();
    pen.fillStyle = this.colour.ink;
    for (const [x, y, z, owner] of this.markers) {
      const at = this.project(x, y, z);
      if (!at) continue;
      pen.globalAlpha = owner ? 0.55 : 1;
      pen.fillStyle = owner ? this.colour.ink : this.colour.warn;
      pen.fillRect(at[0] - 1.5, at[1] - 1.5, 3, 3);
    }
    pen.globalAlpha = 1;
    for (const [body, at] of bodies) this.drawBody(body, at);
    this.drawLabels(this.labels ? bodies
      : bodies.filter(([body]) => body.row && (body.row.index === this.followed || this.sign(body) !== 'ok')), now);
  }

  drawFloor() {
    const pen = this.pen, places = this.placed().map(body => body.pose);
    const reach = Math.max(2, ...places.map(p => Math.max(Math.abs(p[0]), Math.abs(p[1]))));
    const step = this.step = reach > 15 ? 5 : 1, half = Math.min(step * Math.ceil(reach / step + 0.5), 100);
    pen.lineWidth = 1;
    pen.strokeStyle = this.colour.grid;
    pen.beginPath();
    for (let i = -half; i <= half; i += step) {
      this.line([i, -half, 0], [i, half, 0]);
      this.line([-half, i, 0], [half, i, 0]);
    }
    pen.stroke();
    pen.lineWidth = 2;
    pen.font = '600 12px system-ui, sans-serif';
    pen.textAlign = 'center';
    for (const [end, colour, letter] of [[[1, 0, 0], 'x', 'x east'], [[0, 1, 0], 'y', 'y north'],
      [[0, 0, 1], 'z', 'z up']]) {
      pen.strokeStyle = pen.fillStyle = this.colour[colour];
      pen.globalAlpha = 0.8;
      pen.beginPath();
      this.line([0, 0, 0], end.map(v => v * 0.8));
      pen.stroke();
      const at = this.project(...end.map(v => v * 0.95));
      if (at) pen.fillText(letter, at[0], at[1] + 4);
      pen.globalAlpha = 1;
    }
  }

  drawLines() {    // skeletons, force plates
    const pen = this.pen, colours = ['ink', 'dim', 'warn'];
    pen.font = '600 12px system-ui, sans-serif';
    pen.textAlign = 'left';
    for (const [from, to, kind] of this.lines) {
      pen.strokeStyle = pen.fillStyle = this.colour[colours[kind] || 'dim'];
      pen.lineWidth = kind === 2 ? 4 : 2;
      pen.beginPath();
      this.line(from, to);
      pen.stroke();
      const newtons = 1000 * Math.hypot(...to.map((v, i) => v - from[i])), at = kind === 2 && this.project(...to);
      if (at && newtons >= 1) pen.fillText(`${newtons.toFixed(0)} N`, at[0] + 8, at[1]);
    }
  }

  drawTrail(body, now) {
    const trail = body.trail, pen = this.pen;
    const length = Math.min(TRAIL_MS, TRAILS_MS / Math.max(this.bodies.size, 1));
    while (trail.length && (!trail[0] || now - trail[0][0] > length)) trail.shift();
    pen.strokeStyle = this.colour[this.sign(body)];
    pen.lineWidth = 2;
    pen.lineCap = 'butt';    // round ends would overlap
    let at = 0;
    for (let shade = 0; shade < SHADES; shade++) {
      const until = now - length * (1 - (shade + 1) / SHADES);
      pen.globalAlpha = 0.1 + 0.6 * (shade + 1) / SHADES;
      pen.beginPath();
      let drawing = false;
      for (; at < trail.length; at++) {
        const point = trail[at] && this.project(trail[at][1], trail[at][2], trail[at][3]);
        if (!point) { drawing = false; continue; }
        if (drawing) pen.lineTo(point[0], point[1]); else pen.moveTo(point[0], point[1]);
        drawing = true;
        if (trail[at][0] >= until) break;    // the next shade begins here
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.lineCap = 'round';
  }

  drawBody(body, at) {
    const pen = this.pen, [x, y, z, qx, qy, qz, qw] = body.pose, sign = this.sign(body);
    const lost = sign === 'lost', pixel = at[2] / this.focal;
    pen.strokeStyle = this.colour.dim;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 1;
    pen.setLineDash([2, 4]);
    pen.beginPath();
    this.line([x, y, z], [x, y, 0]);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    const size = Math.max(0.16, 20 * pixel);
    const axes = [[1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy + qz * qw), 2 * (qx * qz - qy * qw)],
      [2 * (qx * qy - qz * qw), 1 - 2 * (qx * qx + qz * qz), 2 * (qy * qz + qx * qw)],
      [2 * (qx * qz + qy * qw), 2 * (qy * qz - qx * qw), 1 - 2 * (qx * qx + qy * qy)]];
    pen.lineWidth = lost ? 1.5 : 2.6;
    axes.forEach((axis, i) => {
      pen.strokeStyle = lost ? this.colour.lost : this.colour['xyz'[i]];
      pen.beginPath();
      this.line([x, y, z], [x + axis[0] * size, y + axis[1] * size, z + axis[2] * size]);
      pen.stroke();
    });
    // The second sign, for those who do not see the colours: disc, triangle, cross.
    const r = 5.5, [u, v] = at;
    pen.strokeStyle = pen.fillStyle = this.colour[sign];
    pen.beginPath();
    if (lost) {
      pen.lineWidth = 3;
      pen.moveTo(u - r, v - r); pen.lineTo(u + r, v + r);
      pen.moveTo(u + r, v - r); pen.lineTo(u - r, v + r);
      pen.stroke();
      return;
    }
    if (sign === 'warn') {
      pen.moveTo(u, v - r * 1.4); pen.lineTo(u + r * 1.3, v + r); pen.lineTo(u - r * 1.3, v + r);
      pen.closePath();
    } else pen.arc(u, v, r, 0, 7);
    pen.fill();
    pen.lineWidth = 1.5;
    pen.strokeStyle = this.colour.ground;
    pen.stroke();
  }

  drawLabels(bodies, now) {
    const pen = this.pen, taken = [];
    const rank = body => (body.row.index === this.followed ? -2 : this.sign(body) === 'ok' ? 0 : -1);
    pen.font = '600 12px system-ui, sans-serif';
    pen.textAlign = 'left';
    for (const [body, at] of bodies.filter(([body]) => body.row)
      .sort((a, b) => rank(a[0]) - rank(b[0]) || a[1][2] - b[1][2])) {
      const sign = this.sign(body), lost = sign === 'lost';
      const since = ((now - Math.max(body.at, body.lostAt)) / 1000).toFixed(1);
      const name = body.row.name.length <= LONGEST ? body.row.name
        : `${body.row.name.slice(0, LONGEST / 2 - 1)}…${body.row.name.slice(-LONGEST / 2)}`;
      const text = lost ? `${name}  ${since} s` : name;
      const wide = pen.measureText(text).width, y = at[1] - 9;
      const x = Math.max(2, at[0] + 11 + wide > this.width ? at[0] - 11 - wide : at[0] + 11);
      if (taken.some(([a, b, w]) => x < a + w && a < x + wide && Math.abs(y - b) < 13)) continue;
      taken.push([x, y, wide]);
      pen.lineWidth = 4;
      pen.strokeStyle = this.colour.ground;
      pen.strokeText(text, x, y);
      pen.fillStyle = lost ? this.colour.dim : this.colour.ink;
      pen.fillText(text, x, y);
    }
  }
}
