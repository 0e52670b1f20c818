# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The whole chain in processes: camera and Motive simulated, node, odometry, recorder, report."""

from pathlib import Path
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('cv2')
pytest.importorskip('matplotlib')
ROOT = Path(__file__).resolve().parent.parent
DEMO = [sys.executable, '-m', 'optitrack_vrpn', 'rgbd_demo']


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timed
@pytest.mark.timeout(400)
def test_the_chain_finds_where_the_camera_is_on_the_body(tmp_path):
    """
    The transform is near to the truth, by text and report.

    A busy machine loses images and interrupts the odometry, which makes the errors larger. The
    map does not suffer from that; the path does, and is compared only if it was not interrupted.
    """
    path = tmp_path / 'page.html'
    done = subprocess.run(
        [*DEMO, '--seconds', '28', '--rate', '10', '-o', str(path),
         '--keep', str(tmp_path / 'take'), '--map', str(tmp_path / 'map')],
        cwd=ROOT, capture_output=True, text=True, timeout=150)
    found = re.search(
        r'within ([\d.]+) mm and ([\d.]+) deg of the truth \(standard deviation ([\d.]+) mm, '
        r'([\d.]+) deg', done.stdout)
    assert found, done.stdout + done.stderr
    error_mm, error_deg, sd_mm, sd_deg = map(float, found.groups())
    assert done.returncode == 0, done.stderr
    assert error_mm <= 6.0 and error_deg <= 0.5
    assert sd_mm < 2.0 and sd_deg < 0.15
    ate = re.search(r'ATE +([\d.]+) mm', done.stdout)
    resets = re.search(r'interruptions +(\d+)', done.stdout)
    assert float(ate[1]) < 12.0 or int(resets[1])
    by_map = re.search(r'map .*: ATE ([\d.]+) mm', done.stdout)
    assert float(by_map[1]) < 12.0
    assert (tmp_path / 'map' / '0003_depth.png').exists()
    page = path.read_text()
    assert '<svg' in page
    # the mount of rgbd_sim: 60, 20 and 40 mm
    place = re.search(r'on the body: \[([-\d.]+), ([-\d.]+), ([-\d.]+)\] m', page)
    np.testing.assert_allclose(
        [float(value) for value in place.groups()], (0.06, 0.02, 0.04),
        atol=1e-3 * error_mm + 0.001)
