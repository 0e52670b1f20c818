# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the repository (tools/rules.py) find what breaks them."""

from pathlib import Path
import shutil
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(not (ROOT / 'docs').is_dir(), reason='runs in a checkout alone')
PARTS = ('optitrack_vrpn', 'tools', 'launch', 'config', 'bench', 'docs', 'resource')
#: A file, what is appended to it, and the rule that this breaks.
BREAKS = [
    ('node/node.py', '#\n' * 250, 'the node class is wiring: '),
    ('core/stats.py', 'class News:\n    severity: str\n    text: str\n',
     'events for users have one type: News'),
    ('stray.py', '#\n', 'every module has its layer: stray'),
    ('sim/stray.py', '#\n', 'every file begins with its copyright: optitrack_vrpn/sim/stray.py'),
    ('stream/clock/line.py', 'if 0:\n    import optitrack_vrpn.sim\n',
     'dependencies point one way: optitrack_vrpn/stream/clock/line.py:'),
    ('node/graph/conflicts.py', 'if 0:\n    from optitrack_vrpn.core import clean\n',
     'names are imported from their module: optitrack_vrpn/node/graph/conflicts.py:'),
    ('core/axes.py', 'import time\n',
     'pure files import nothing that does io or reads a clock: optitrack_vrpn/core/axes.py:'),
    ('core/units.py', "if 0:\n    open('x')\n",
     'pure files open no files and read no input: optitrack_vrpn/core/units.py:'),
    ('node/base/process.py', 'if 0:\n    print()\n',
     'only commands print: optitrack_vrpn/node/base/process.py:'),
    ('cli/rows_io.py', 'if 0:\n    import pandas\n',
     'package xml names every dependency: optitrack_vrpn/cli/rows_io.py imports pandas'),
    ('node/base/tf.py', 'import socket\n',
     'only io files import sockets: optitrack_vrpn/node/base/tf.py:'),
    ('core/throttle.py', 'import rclpy\n',
     'only ros files import ros: optitrack_vrpn/core/throttle.py:'),
    ('core/throttle.py', 'class Tracker:\n    pass\n',
     'a class name occurs once: optitrack_vrpn/core/throttle.py:'),
    ('core/throttle.py', '', 'importing the pure files loads no ros: rclpy'),
    ('guests/autopilot/gate.py', 'GAP_NS = 200_000_000\n',
     "rows of mutate fit the package: tools/mutate.py: 'GAP_NS = 200_000_000' occurs 2 times"),
    ('../config/optitrack_vrpn.yaml', '#\n',
     'generated files are what the settings say: optitrack_vrpn.yaml'),
    ('../config/stray.py', '#\n', 'setup installs the tools and all files: config/stray.py'),
    ('../docs/bodies.md', '`ros2 run optitrack_vrpn doctor --sever 10.0.0.1`\n',
     'commands of the documents are understood: bodies.md: '),
    ('../config/scenarios/README.md', 'x\n',
     'pages show what is defined elsewhere: config/scenarios/README.md'),
    ('../launch/optitrack_vrpn.launch.py', "ARGUMENTS = (*ARGUMENTS, ('a', '', 'b'))\n",
     'launch files have the same arguments everywhere: lab.md'),
    ('guests/rgbd/settings.py', '',
     'the architecture page has a row for every package: guests.rgbd'),
    ('guests/rgbd/settings.py', '', 'the readme lists every tool: record'),
    ('../test/test_stray.py', 'from optitrack_vrpn.node.publishers import Publishers\n'
     "def test_it(monkeypatch):\n    monkeypatch.setattr(Publishers, 'close', None)\n",
     'tests patch no names of this package: test/test_stray.py: 1'),
]


def test_what_breaks_a_rule_is_found(tmp_path):
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns(
            '__pycache__', 'img', 'data'))
    for name in ('Makefile', 'package.xml', 'setup.py', 'README.md'):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / 'test').mkdir(exist_ok=True)
    for path, text, _ in BREAKS:
        with (tmp_path / 'optitrack_vrpn' / path).open('a') as stream:
            stream.write(text)
    for path, word in (('docs/architecture.md', '`guests/rgbd/`'), ('README.md', '| `record`')):
        text = (tmp_path / path).read_text()
        assert word in text
        (tmp_path / path).write_text(text.replace(word, ''))
    run = subprocess.run([sys.executable, 'tools/rules.py'], cwd=tmp_path, timeout=100,
                         capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    lines = run.stdout.splitlines()
    assert not [rule for *_, rule in BREAKS if not any(line.startswith(rule) for line in lines)]


@pytest.mark.parametrize('command, understood', [
    ('ros2 run optitrack_vrpn doctor --server 10.0.0.1', True),
    ('ros2 run optitrack_vrpn doctor --sever 10.0.0.1', False), ('make bench-nothing', False),
    ('ros2 run optitrack_vrpn optitrack_vrpn_node --ros-args -p frames.world:=/map', False),
    ('ros2 run optitrack_vrpn optitrack_vrpn_node --ros-args -p sever:=a', False),
    ("make demo ARGS='--secnds 5'", False), ('python -m bench.gantry --no-such-option', False),
    ('ros2 launch optitrack_vrpn optitrack_vrpn.launch.py sever:=a', False),
    ('sudo_make_me_a_sandwich', False)])
def test_a_command_of_the_documents_is_understood_or_not(command, understood, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools'))
    from rules_documents import mistake
    assert (not mistake(command)) == understood
