# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Most plausible path of the clock below the block minima (research version)."""

from __future__ import annotations

import math

SPAN_S = 300.0
LIFT_S = 90.0
FASTEST = 1e3
Q = 0.03
KNEE = 2.5
LOAD = KNEE * KNEE
BEND_COST = 4.0 * LOAD
JUMP_COST = 85.0 * LOAD
BELOW = 2.0
LEAST = 2.0


def solve(t, y, w, p, rate0, wrate, at):
    """Return path at t and at `at`, and information of the last."""
    n = len(t)
    D = [0.0] * (n + 1)
    U = [0.0] * (n + 1)
    V = [0.0] * (n + 1)
    Z = [0.0] * (n + 1)
    # second difference i couples i-1,i,i+1
    # accumulate diagonals on the fly
    a0 = list(w) + [0.0]
    a1 = [0.0] * (n + 1)
    a2 = [0.0] * (n + 1)
    b = [w[i] * y[i] for i in range(n)] + [0.0]
    T = t + [at]
    h0 = 1.0 / (T[1] - T[0])
    # prior of rate
    k = wrate * h0 * h0
    a0[0] += k
    a0[1] += k
    a1[0] -= k
    b[0] -= wrate * h0 * rate0
    b[1] += wrate * h0 * rate0
    for i in range(1, n):
        h1 = 1.0 / (T[i + 1] - T[i])
        pi = p[i]
        be = -(h0 + h1)
        x = pi * h0
        z = pi * h1
        a0[i - 1] += x * h0
        a0[i] += pi * be * be
        a0[i + 1] += z * h1
        a1[i - 1] += x * be
        a1[i] += z * be
        a2[i - 1] += x * h1
        h0 = h1
    d1 = d2 = 1.0
    u1 = v1 = v2 = z1 = z2 = 0.0
    for i in range(n + 1):
        l1 = u1 / d1
        l2 = v2 / d2
        d = a0[i] - l1 * u1 - l2 * v2
        z = b[i] - l1 * z1 - l2 * z2
        u = a1[i] - l1 * v1
        D[i] = d
        U[i] = u
        Z[i] = z
        v2 = v1
        v1 = a2[i]
        d2 = d1
        d1 = d
        z2 = z1
        z1 = z
        u1 = u
    x1 = x2 = 0.0
    X = Z
    for i in range(n, -1, -1):
        x = (Z[i] - U[i] * x1 - a2[i] * x2) / D[i]
        X[i] = x
        x2 = x1
        x1 = x
    return X, D[n]


class Floor:
    def __init__(self):
        self.rate = 0.0
        self.slewable = True
        self._rate_known = False
        self._s = 30.0
        self._depth = 0.0
        self.debug = None
        self.restart()

    def restart(self):
        self._t = []
        self._y = []      # effective (jumps removed)
        self._raw = []
        self._x = []
        self._kinks = []  # times
        self.blocks = 0
        self._x_end = self._at = 0.0
        self._var = self._s ** 2
        self._rate0 = self.rate
        self._wrate = 1.0 / ((1.0 if self._rate_known else 100.0) ** 2)
        self._r = self.rate * 1e6
        self._rate0 = self._r
        self._lifted = 0
        self._rose = 0.0
        self._rose_at = -1e9
        self._rose_slope = 0.0
        self._falls = []
        self._sunk = 0
        self._cap = 1e9
        self._corr = 0.0
        self._loaded = 0

    def line(self, t):
        return (self._x_end + self._r * (t * 1e-9 - self._at) - self._depth) * 1e3

    def rate_deviation(self):
        return 1e-7

    def uncertainty(self):
        if self.blocks < 4:
            return math.nan
        young = 1.0 + 8.0 / self.blocks
        return 1e3 * (3.0 * math.sqrt(self._var) + 2.0 * self._s * young + self._raised())

    def _raised(self):
        passed = self._at - self._rose_at
        if passed > LIFT_S:
            return 0.0
        return max(0.0, self._rose + self._rose_slope * passed)

    def add(self, t_ns, y_ns, loaded=False):
        t, y = t_ns * 1e-9, y_ns * 1e-3
        if self._t and t <= self._t[-1]:
            return
        n = len(self._t)
        self.blocks += 1
        if n == 0:
            self._t.append(t)
            self._y.append(y)
            self._raw.append(y)
            self._x.append(y)
            self._x_end = y
            self._at = t
            return
        pred = self._x_end + self._r * (t - self._at)
        off = y - pred
        self._t.append(t)
        self._y.append(y)
        self._raw.append(y)
        self._x.append(pred)
        while self._t[0] < t - SPAN_S:
            del self._t[0], self._y[0], self._raw[0], self._x[0]
        while self._kinks and self._kinks[0] <= self._t[0]:
            del self._kinks[0]
        if len(self._t) < 2:
            self._x_end = y
            self._at = t
            return
        self._noise()
        s = self._s
        sig = math.sqrt(self._var + s * s)
        if off < -6.0 * sig - 10.0 and self.blocks > 4:
            self._shift(len(self._t) - 1, off)
            self._falls.append(t)
            if self.debug is not None:
                self.debug.append((t, 'fall', off, sig))
        best = self._try(self._kinks, self._y, list(self._x))
        choice = None
        self._best = best
        n = len(self._t)
        self._falls = [f for f in self._falls if f > t - 12.0]
        if self.slewable and t - self._t[0] > 10.0:
            i0 = -1
            jumps = 0
            if len(self._falls) >= 3 and self._falls[-1] == t and self._falls[-3] > t - 4.5:
                i0 = next(i for i in range(n) if self._t[i] >= self._falls[0]) - 1
                jumps = len(self._falls)
            elif self._sunk >= 6 and self._sunk % 3 == 0:
                i0 = n - 2 - self._sunk
            elif 3 <= self._lifted and (self._lifted <= 12 or self._lifted % 4 == 0):
                i0 = n - 2 - self._lifted
            kinks, extra = self._kinks, BEND_COST
            if i0 > 0 and kinks and self._t[i0] - kinks[-1] < 20.0:
                # The last bend again, with what has come since.
                if kinks[-1] in self._t:
                    i0 = self._t.index(kinks[-1])
                    kinks, extra = kinks[:-1], 0.0
                    if self._y[i0] > 1e17:
                        i0 -= 1
                    else:
                        i0 = i0
            if i0 > 0:
                cand = self._bend(i0, kinks)
                if cand and cand[0] + extra < cand[8] + jumps * JUMP_COST:
                    best = cand
                    choice = ('bend', n - i0 - 1)
        # jump
        lifted = self._lifted
        if lifted * LOAD > JUMP_COST and lifted % 2 == 0:
            cand = self._jump()
            if cand and cand[0] + JUMP_COST < best[0]:
                best = cand
                choice = ('jump', lifted)
        if choice is None and lifted >= 8 and lifted % 6 == 2 and 2 * self._loaded < lifted:
            cand = self._rough()
            if cand:
                best = cand
                choice = ('rough', cand[8])
        if choice:
            if self.debug is not None:
                self.debug.append((t, choice))
            old = self._x_end + self._r * (t - self._at)
            oldr = self._r
            self._y, self._t, self._raw = best[4], best[5], best[6]
            self._kinks = best[7]
            self._falls = []
            self._take(best)
            new = self._x_end + self._r * (t - self._at)
            self._rose = self._raised() + new - old
            self._rose_slope = self._r - oldr
            self._rose_at = t if self._rose > 0 else -1e9
            self._lifted = 0
        else:
            self._take(best)
        r = self._y[-1] - self._x[-1]
        if r > KNEE * s * 1.5:
            if not self._lifted:
                self._lifted_from = t
                self._loaded = 0
            self._lifted += 1
            self._loaded += loaded
        else:
            self._lifted = 0
        self._sunk = self._sunk + 1 if r < -1.5 * s else 0
        self._rate_known = self._rate_known or self.blocks > 20

    def _shift(self, end, by):
        for i in range(end):
            self._y[i] += by
            self._x[i] += by

    def _noise(self):
        ok = [i for i, v in enumerate(self._y) if v < 1e17]
        y, t = [self._y[i] for i in ok], [self._t[i] for i in ok]
        n = len(t)
        if n < 5:
            return
        def scale(h, count):
            out = []
            for i in range(max(h, n - count), n - h):
                tl, tm, tr = t[i - h], t[i], t[i + h]
                out.append(abs(y[i] - y[i - h] - (y[i + h] - y[i - h]) * (tm - tl) / (tr - tl)))
            out.sort()
            return out[len(out) * 30 // 100] / 0.385 / 1.22 if len(out) >= 6 else 0.0
        s1 = scale(1, 62)
        self._white = s1
        s = max(s1, min(scale(8, 300), 20 * s1)) if n > 40 else max(s1, min(self._s, 3 * s1))
        if n > 16 and self.blocks % 8 == 0:
            r = sorted(a - b for a, b in zip(self._y, self._x) if a < 1e17)
            self._cap = 1.5 * (r[n * 30 // 100] - r[n * 5 // 100]) / 1.12
        self._corr *= 1.0 - 1.0 / 600.0
        self._s = max(min(s, max(self._cap, s1 * .5)), LEAST, self._corr)

    def _weights(self, x, y):
        s2 = 1.0 / (self._s * self._s)
        k2 = s2 / LOAD
        w = []
        for a, b in zip(y, x):
            r = a - b
            if r < 0:
                w.append(BELOW * s2)
            else:
                g = 1.0 + r * r * k2
                w.append(s2 / (g * g))
        return w

    def _cost(self, x, y, p):
        s2 = 1.0 / (self._s * self._s)
        c = 0.0
        t = self._t
        for i in range(len(y)):
            r = y[i] - x[i]
            u = r * r * s2
            c += BELOW * u if r < 0 else u / (1.0 + u / LOAD)
        for i in range(1, len(y) - 1):
            d = (x[i + 1] - x[i]) / (t[i + 1] - t[i]) - (x[i] - x[i - 1]) / (t[i] - t[i - 1])
            c += p[i] * d * d
        return c

    def _try(self, kinks, y, x, rounds=2):
        t = self._t
        n = len(t)
        ks = set(kinks)
        p = [0.0] * n
        q2 = 2.0 / (Q * Q)
        at = t[-1] + 1.0
        for i in range(1, n):
            nxt = t[i + 1] if i + 1 < n else at
            p[i] = 1e-6 if t[i] in ks else q2 / (nxt - t[i - 1])
        for _ in range(rounds):
            w = self._weights(x, y)
            X, info = solve(t, y, w, p, self._rate0, self._wrate, at)
            x = X
        end = x.pop()
        for k in kinks:
            pass
        p = [0.0 if v == 1e-6 else v for v in p]
        c = self._cost(x, y, p)
        return [c, x, end, info, y, p]

    def _bend(self, i0, kinks):
        """Hypothesis: since about node i0 the path has another slope."""
        n0 = len(self._t)
        keep = [i for i in range(n0) if self._y[i] < 1e17 or self._t[i] in kinks]
        t = [self._t[i] for i in keep]
        raw = [self._raw[i] for i in keep]
        y = [self._y[i] for i in keep]
        X = [self._x[i] for i in keep]
        while i0 >= len(t) or t[i0] > self._t[i0]:
            i0 -= 1
        n = len(t)
        by = y[i0] - raw[i0] - (y[-1] - raw[-1]) if raw[i0] < 1e17 else 0.0
        y = [v - by for v in y[:i0 + 1]] + raw[i0 + 1:]
        X = [v - by for v in X]
        tt = t[i0 + 1:]
        yy = y[i0 + 1:]
        m = len(tt)
        if m < 3 or max(yy) > 1e17:
            return None
        mt = sum(tt) / m
        my = sum(yy) / m
        sl = sum((a - mt) * (b - my) for a, b in zip(tt, yy)) / sum((a - mt) ** 2 for a in tt)
        if abs(sl) > FASTEST or i0 < 2:
            return None
        old = (X[i0 - 1] - X[i0 - 2]) / (t[i0 - 1] - t[i0 - 2])
        bend = sl - old
        if abs(bend) < 1.0:
            return None
        # where both lines meet
        lev = X[i0 - 1] + old * (t[i0] - t[i0 - 1])
        kt = t[i0] - (my + sl * (t[i0] - mt) - lev) / bend
        slack = 2.0 * self._s / abs(bend)
        j = i0
        if not t[i0 - 1] - 1.0 - slack < kt < t[i0 + 1] + 0.5 + slack:
            return None
        kt = min(max(kt, t[max(0, i0 - 2)]), t[i0 + 1])
        while t[j] > kt:
            j -= 1
        x = X[:j + 1]
        for i in range(max(1, i0), j + 1):
            x[i] = x[i - 1] + old * (t[i] - t[i - 1])
        virtual = kt - t[j] > 0.02 and t[j + 1] - kt > 0.02
        if virtual:
            x.append(x[j] + old * (kt - t[j]))
            t = t[:j + 1] + [kt] + t[j + 1:]
            y = y[:j + 1] + [1e18] + y[j + 1:]
            raw = raw[:j + 1] + [1e18] + raw[j + 1:]
        else:
            kt = t[j] if kt - t[j] <= 0.02 else t[j + 1]
        x += [my + sl * (a - mt) for a in t[len(x):]]
        save = self._t
        self._t = t
        s0 = self._s
        self._s = s = math.hypot(s0, 0.02 * bend)
        c = self._try(kinks + [kt], y, x)
        self._t = save
        base = self._cost(self._best[1], self._best[4], self._best[5])
        self._s = s0
        c[0] -= LOAD * (len(t) - len(save))
        if abs(c[2] - c[1][-1] - sl) > 0.5 * abs(bend):
            return None
        return c[:5] + [t, raw, kinks + [kt], base]

    def _jump(self):
        """Hypothesis: level and slope are others since the floor was lifted."""
        t = self._t
        n = len(t)
        i0 = n - self._lifted
        real = [i for i in range(i0, n) if self._y[i] < 1e17]
        half = len(real) // 2
        def low(part):
            q = sorted((self._y[i] - self._x[i], i) for i in part)[len(part) // 4]
            return q[1], q[0]
        ia, ra = low(real[:half])
        ib, rb = low(real[half:])
        sl = (rb - ra) / (t[ib] - t[ia])
        limit = 3.0 if not self.slewable else FASTEST
        if abs(sl) > limit:
            return None
        by = ra + sl * (t[i0] - t[ia])
        y = [v + by for v in self._y[:i0]] + self._y[i0:]
        x = [v + by for v in self._x[:i0]] + [v + by + sl * (a - t[i0]) for v, a in zip(self._x[i0:], t[i0:])]
        kinks = self._kinks + [t[i0]] if abs(sl) > 1.0 else self._kinks
        c = self._try(kinks, y, x)
        return c[:5] + [t, self._raw, kinks]

    def _rough(self):
        """Hypothesis: the minima scatter by more, in a pattern, and all of them count."""
        keep = [i for i, v in enumerate(self._y) if v < 1e17]
        t = [self._t[i] for i in keep]
        y = [self._y[i] for i in keep]
        n = len(t)
        hull = []
        for i in range(n):
            while len(hull) > 1:
                a, b = hull[-2], hull[-1]
                if (y[b] - y[a]) * (t[i] - t[a]) < (y[i] - y[a]) * (t[b] - t[a]):
                    break
                hull.pop()
            hull.append(i)
        # The last edge ends at the newest point, wherever that is: go on with the longest.
        k = max(range(1, len(hull)), key=lambda q: t[hull[q]] - t[hull[q - 1]])
        a, b = hull[k - 1], hull[k]
        sl = (y[b] - y[a]) / (t[b] - t[a])
        h = [y[i] - y[a] - sl * (t[i] - t[a]) for i in range(n)]
        o = sorted(abs(v) for v in h)[:max(3, n * 3 // 4)]
        mean = sum(o) / len(o)
        s1 = max(math.sqrt(sum((v - mean) ** 2 for v in o) / len(o)), LEAST)
        above = y[a] + sl * (t[-1] - t[a]) - self._x_end + self._r
        if s1 < 1.5 * self._s or abs(sl) > FASTEST or above < 6.0 * math.sqrt(self._var + self._s ** 2) + 10.0:
            return None
        s0 = self._s
        def total(x, yy, s):
            A = 2.0 * math.log(1e4 / s) if s < 3e3 else 2.0
            c = 0.0
            for p, q in zip(yy, x):
                if p < 1e17:
                    u = (p - q) * (p - q) / (s * s)
                    c += BELOW * u if p < q else u / (1.0 + u / A)
            return c + 2.0 * n * math.log(s)
        old = total(self._best[1], self._best[4], s0)
        self._s = s1
        save, saved = self._t, self._x
        self._t = t
        x = [y[a] + mean + sl * (q - t[a]) for q in t]
        c = self._try([], y, x)
        self._t = save
        new = total(c[1], y, s1)
        if new >= old:
            self._s = s0
            return None
        self._corr = s1
        return c[:5] + [t, [self._raw[i] for i in keep], [], s1]

    def _take(self, best):
        c, x, end, info, y = best[:5]
        self._x = x
        at = self._t[-1] + 1.0
        self._x_end = end
        self._at = at
        self._r = max(-FASTEST, min(FASTEST, end - x[-1]))
        self.rate = self._r * 1e-6
        self._var = 1.0 / info if info > 0 else 1e6
        s = self._s
        self._depth = 0.5 * s + min(max(0.0, max(a - b for a, b in zip(x, self._y)) - 0.5 * math.sqrt(min(self._var, s * s))), 4.0 * s) if len(x) > 2 else 0.0
