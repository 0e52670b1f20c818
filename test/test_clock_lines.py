# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Lines through and under points, held to numpy and scipy."""

from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.clock.lines import edge_over, fit, longest_edge, lower_hull
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

heights = st.lists(st.floats(-1e4, 1e4), min_size=4, max_size=40)


@given(heights, st.floats(-100, 100))
@settings(deadline=None)
def test_fit_is_numpys(ys, at):
    points = [(2.0 * i, y) for i, y in enumerate(ys)]
    line = fit(points, at)
    xs = np.array([p[0] for p in points])
    slope, level = np.polyfit(xs - at, ys, 1)
    assert line.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert line.level == pytest.approx(level, rel=1e-6, abs=1e-3)
    left = np.array(ys) - np.polyval([slope, level], xs - at)
    assert line.residual == pytest.approx(np.sqrt(np.sum(left**2) / (len(ys) - 2)), abs=1e-3)
    assert line.slope_var == pytest.approx(1 / np.sum((xs - xs.mean()) ** 2))


def test_lower_hull_is_the_lower_half_of_scipys():
    rng = np.random.default_rng(4)
    points = np.column_stack([np.sort(rng.uniform(0, 300, 200)), rng.exponential(5, 200)])
    hull = ConvexHull(points)
    # A facet with a normal that points down belongs to the lower half.
    below = {int(i) for simplex, equation in zip(hull.simplices, hull.equations, strict=True)
             if equation[1] < 0 for i in simplex}
    expected = sorted(tuple(points[i]) for i in below)
    assert np.allclose(lower_hull([tuple(p) for p in points]), expected)


def test_hull_edge_is_the_highest_line_under_all_points_there():
    rng = np.random.default_rng(5)
    points = [(float(i), 3.0 + 0.2 * i + float(rng.exponential(4))) for i in range(300)]
    edge = edge_over(points, 210.0, 210.0)
    # The linear program: raise level + slope (t - 210) as high as possible at 210.
    best = linprog([-1.0, 0.0], A_ub=[[1.0, t - 210.0] for t, _ in points],
                   b_ub=[y for _, y in points], bounds=[(None, None)] * 2)
    assert edge.level == pytest.approx(best.x[0], abs=1e-6)
    assert edge.slope == pytest.approx(best.x[1], abs=1e-6)


def test_longest_edge_finds_the_floor_under_a_saw_tooth():
    # teeth of 30 s and 800 us on a slope of 25 ppm, as a poll beating with the frames makes
    points = [(i * 1e9, 25e-6 * i * 1e9 + (i % 30) * 800e3 / 30) for i in range(90)]
    edge = longest_edge(points, 89e9)
    assert edge.slope == pytest.approx(25e-6, rel=1e-9)
    assert edge.level == pytest.approx(25e-6 * 89e9, rel=1e-9)
    assert edge.length == 60e9
