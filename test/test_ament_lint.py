# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the linters of ROS 2 in a workspace that has them; `make lint` checks the same elsewhere."""

from pathlib import Path
import xml.etree.ElementTree as ElementTree

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


def test_package_xml_is_what_bloom_and_rosdep_accept():
    """By catkin_pkg, which they read it with; ament_xmllint needs the schema from the network."""
    package = pytest.importorskip('catkin_pkg.package', reason='catkin_pkg is not installed')
    warnings = []
    path = ROOT / 'package.xml'
    read = package.parse_package_string(path.read_text(), str(path), warnings)
    read.validate(warnings)
    assert not warnings
    assert {url.type for url in read.urls} == {'website', 'repository', 'bugtracker'}
    assert read.licenses == ['BSD-3-Clause'] and (ROOT / read.licenses[0].file).is_file()


@pytest.mark.parametrize('path', [
    path.relative_to(ROOT) for folder in ('launch', 'config', 'underlay')
    for path in sorted((ROOT / folder).rglob('*.xml'))], ids=str)
def test_xml_files_are_well_formed(path):
    ElementTree.parse(ROOT / path)
