# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the tests in parallel, and the few that failed once more by themselves.

  run_tests.py [PYTEST ARGUMENTS]

Tests that start real processes and wait for sockets and DDS can be starved on a busy machine. This
is the only retry mechanism: at most RETRIES failed tests are repeated, one at a time, and named.
More failures, or one that fails again, fail the run. What is broken fails both times.

Without arguments the whole suite runs; arguments go to pytest as they are, and then nothing is
repeated. A single file or `-k` runs in one process.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time

RETRIES = 6
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAST_FAILED = os.path.join(ROOT, '.pytest_cache', 'v', 'cache', 'lastfailed')


def pytest(arguments):
    """Run pytest in the project's folder; gives its exit code."""
    return subprocess.call([sys.executable, '-m', 'pytest'] + arguments, cwd=ROOT)


def failed_tests():
    """Read the names of the tests that failed; a file that could not be collected is one."""
    try:
        with open(LAST_FAILED) as stream:
            return sorted(json.load(stream))
    except (OSError, ValueError):
        return []


def workers():
    """Choose how many tests run at once: most of them wait for sockets and timers."""
    return (os.cpu_count() or 1) + 1


def main(arguments):
    """Run the tests; gives the exit code."""
    # SIGINT may be ignored, as after `nohup make test &`: tests send it to processes they start.
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parallel = []
    if importlib.util.find_spec('xdist'):
        parallel = ['-n', str(workers()), '--dist', 'loadfile']
    if arguments:
        whole = all(word.startswith('-m') or word.startswith('not ') for word in arguments)
        return pytest((parallel if whole else []) + arguments)
    began = time.monotonic()
    if os.path.exists(LAST_FAILED):
        os.remove(LAST_FAILED)
    code = pytest(['-q'] + parallel)
    failed = failed_tests()
    if code == 1 and 0 < len(failed) <= RETRIES:
        print('\nrepeating {} of at most {} tests that failed, one at a time:\n  {}'.format(
            len(failed), RETRIES, '\n  '.join(failed)), flush=True)
        code = pytest(['-q', '-p', 'no:randomly'] + failed)
    elif code == 1:
        print('\n{} tests failed; at most {} are repeated'.format(len(failed), RETRIES))
    print('repeated {} of at most {} tests; {:.0f} s'.format(
        len(failed) if len(failed) <= RETRIES else 0, RETRIES, time.monotonic() - began))
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
