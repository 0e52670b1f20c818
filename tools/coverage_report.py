# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run all tests as plain Python and print the covered share of lines, per package.

  coverage_report.py [PYTEST ARGUMENTS]

Lines are counted in the test process and in the processes that tests start. Files of ROS nodes
(`*_ros.py`) are listed apart: the limit is for the others.
"""

import collections
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Least covered share of the lines outside files of ROS nodes.
LIMIT = 0.9
CONFIGURATION = """
[run]
source = {root}/optitrack_vrpn
parallel = true
data_file = {folder}/data
sigterm = true
concurrency = multiprocessing,thread
"""


def measure(folder, arguments):
    """Run the tests with every process measured; return the exit code and the figures by file."""
    configuration = os.path.join(folder, 'configuration')
    with open(configuration, 'w') as stream:
        stream.write(CONFIGURATION.format(root=ROOT, folder=folder))
    # Processes that tests start import this module first and measure themselves.
    with open(os.path.join(folder, 'sitecustomize.py'), 'w') as stream:
        stream.write('import coverage\ncoverage.process_startup()\n')
    variables = dict(
        os.environ, COVERAGE_PROCESS_START=configuration,
        PYTHONPATH=os.pathsep.join([folder, ROOT]))
    code = subprocess.call(
        [sys.executable, os.path.join(ROOT, 'tools', 'run_tests.py')] + arguments,
        cwd=ROOT, env=variables)
    for command in (['combine', '-q'], ['json', '-q', '-o', os.path.join(folder, 'figures')]):
        subprocess.check_call(
            [sys.executable, '-m', 'coverage'] + command + ['--rcfile=' + configuration],
            cwd=folder)
    with open(os.path.join(folder, 'figures')) as stream:
        return code, json.load(stream)['files']


def main(arguments):
    """Print one row per package; return the exit code."""
    if not importlib.util.find_spec('coverage'):
        print('make coverage needs the Python package coverage: {} -m pip install coverage'.format(
            sys.executable))
        return 2
    with tempfile.TemporaryDirectory() as folder:
        code, files = measure(folder, arguments)
    rows = collections.defaultdict(lambda: [0, 0])
    for path, figures in files.items():
        inside = os.path.relpath(os.path.join(ROOT, path), os.path.join(ROOT, 'optitrack_vrpn'))
        name = 'ROS nodes' if inside.endswith('_ros.py') else inside.split(os.sep)[0]
        for row in (rows[name], *([] if name == 'ROS nodes' else [rows['all without them']])):
            row[0] += figures['summary']['covered_lines']
            row[1] += figures['summary']['num_statements']
    for name, (covered, lines) in sorted(rows.items()):
        print('{:20} {:6} lines {:6.1%}'.format(name, lines, covered / max(lines, 1)))
    covered, lines = rows['all without them']
    if not arguments and covered < LIMIT * lines:
        print('below {:.0%} outside files of ROS nodes'.format(LIMIT))
        return code or 1
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
