# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the linters of ROS 2 in a workspace that has them; `make lint` checks the same elsewhere."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Either reads every file again, several times over.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FOLDERS = [str(ROOT / name) for name in ('optitrack_vrpn', 'launch', 'test', 'setup.py')]


def test_ament_flake8_finds_nothing():
    """By setup.cfg, which is ament_flake8's own configuration and two exceptions."""
    main = pytest.importorskip('ament_flake8.main', reason='ament_flake8 is not installed')
    code, found = main.main_with_errors(argv=['--config', str(ROOT / 'setup.cfg'), *FOLDERS])
    assert code == 0, '\n'.join(found)


def test_ament_pep257_finds_nothing():
    main = pytest.importorskip('ament_pep257.main', reason='ament_pep257 is not installed')
    assert main.main(argv=FOLDERS) == 0
