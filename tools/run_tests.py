# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the tests in two steps, then repeat the failed ones once, one at a time.

  run_tests.py [PYTEST ARGUMENTS]

First the tests without the marks below run in parallel. Then the tests marked `timed` run one at
a time: they compare results with the clock, and need a free processor. The other processor runs
the long computations meanwhile (marked `computes` by test/conftest.py).

Tests that start processes and wait for sockets and DDS can time out on a busy machine. A run may
repeat at most BUDGET of them, each once; the output names them. A run that needs more repetitions
fails, and so does a test that fails again. Tests of pure code are never repeated.

Without arguments the whole suite runs. Arguments go to pytest unchanged, and then nothing is
repeated. A single file or `-k` runs in one process.
"""

import fcntl
import glob
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time

BUDGET = 3
#: The exit code of pytest if it finds no test.
NOTHING_COLLECTED = 5
#: Seconds after which a run is ended: many times what it takes, also on a loaded machine.
LIMIT_S = 2700.0
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, '.pytest_cache')
#: The steps of a whole run; the tests of a step that are selected by each marker run at once.
STEPS = (('not timed and not computes',), ('timed', 'computes'))


def test_environment():
    """
    Return the environment of test programs.

    Bytecode is kept, also if the user's shell disables it. Otherwise each of the parallel programs
    rewrites and compiles all test files, which takes 10 s of processor time.
    """
    variables = dict(os.environ)
    variables.pop('PYTHONDONTWRITEBYTECODE', None)
    return variables


def pytest_command(arguments, workers, spread):
    """
    Return the command that runs tests in parallel, or one by one without pytest-xdist.

    :param spread: how they go to the workers: `loadfile` keeps the tests of a file together, which
        those that start nodes need; `worksteal` gives each worker as much to do as the others.
    """
    parallel = ['-n', str(workers), '--dist', spread] \
        if workers and importlib.util.find_spec('xdist') else []
    # Not `-m pytest`: it would import the package of this folder instead of the installed one.
    start = 'import sys; del sys.path[0]; import pytest; sys.exit(pytest.console_main())'
    return [sys.executable, '-c', start] + parallel + arguments


def start(arguments, workers=0, apart=False):
    """
    Start pytest in the project's folder.

    :param apart: in a session of its own, so that it gets one SIGINT, however often the user
        presses Ctrl-C: a second one shows tracebacks of pytest.
    """
    return subprocess.Popen(
        pytest_command(arguments, workers, 'loadfile'), cwd=ROOT, env=test_environment(),
        start_new_session=apart, stdin=subprocess.DEVNULL if apart else None)


def wait(processes, apart):
    """
    Wait until all have ended; return the largest exit code, as of a shell if a signal ended it.

    The first Ctrl-C interrupts those in a session of their own, the second one kills them.
    """
    end, pressed = time.monotonic() + LIMIT_S, 0
    while left := [process for process in processes if process.poll() is None]:
        try:
            left[0].wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            print('\nthe tests did not end within {:.0f} min'.format(LIMIT_S / 60.0), flush=True)
            for process in left:
                os.killpg(process.pid, signal.SIGKILL) if apart else process.kill()
                process.wait()
            return 3
        except KeyboardInterrupt:
            pressed += 1
            for process in left:
                if apart and pressed == 1:
                    process.send_signal(signal.SIGINT)
                elif apart:
                    os.killpg(process.pid, signal.SIGKILL)
    if pressed:
        raise KeyboardInterrupt
    # Popen has negative numbers for signals: they are no success.
    return max(code if code >= 0 else 128 - code for code in (
        process.returncode for process in processes))


def pytest(arguments, workers=0):
    """Run pytest; return its exit code."""
    apart = bool(workers)
    return wait([start(arguments, workers, apart)], apart)


def run_step(markers):
    """Run the tests of a step; return the largest exit code."""
    return wait([start(
        ['-q', '--durations=15', '-m', marker, '-o', 'cache_dir={}'.format(cache_of(marker))],
        workers() if len(markers) == 1 else 0, True) for marker in markers], True)


def cache_of(marker):
    """Return the folder in which pytest notes what failed: each of those at once has its own."""
    return os.path.join(CACHE, marker.replace(' ', '_'))


def failed_tests():
    """Read the names of the tests that failed; a file that could not be collected is one."""
    found = set()
    for path in glob.glob(os.path.join(CACHE, '*', 'v', 'cache', 'lastfailed')):
        try:
            with open(path) as stream:
                found |= set(json.load(stream))
        except (OSError, ValueError):
            continue
    return sorted(found)


def abandoned():
    """
    Return the files in shared memory of Fast DDS's programs that ended without removing them.

    Each has a lock file, which its program holds; the system releases it when the program ends.
    """
    found = set()
    for path in glob.glob('/dev/shm/fast*_el'):
        try:
            with open(path) as stream:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:    # held, gone meanwhile, or of another user
            continue
        found.add(path)
    return found


def workers():
    """
    Return the number of parallel tests.

    It is above that of processors, since tests of sockets and nodes wait for most of their time.
    """
    return 3 * (os.cpu_count() or 1)


def main(arguments):
    """Run the tests; return the exit code."""
    # SIGINT may be ignored, as after `nohup make test &`: tests send it to processes they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments:
        whole = all(word in ('-q', '-m', 'pure') for word in arguments)
        return pytest(arguments, workers() if whole else 0)
    began, left_before = time.monotonic(), abandoned()
    shutil.rmtree(CACHE, ignore_errors=True)
    code, repeated = 0, []
    for markers in STEPS:
        if code in (0, 1):
            step_began = time.monotonic()
            code = max(code, run_step(markers))
            print('{}: {:.0f} s'.format(', '.join(markers), time.monotonic() - step_began))
    if code == 1:
        failed = failed_tests()
        if len(failed) > BUDGET:
            print('too many failed tests: the machine is overloaded or tests are broken')
        elif pytest(['-q', '--collect-only', '-m', 'pure or computes', *failed]) != (
                NOTHING_COLLECTED):
            print('a pure test failed: it is not repeated')
        else:
            print('\nrepeating the tests that failed, one at a time', flush=True)
            code, repeated = pytest(['-q'] + failed), failed
    for name in repeated:
        print('repeated: {}'.format(name))
    print('repetitions: {} of at most {}; {:.0f} s'.format(
        len(repeated), BUDGET, time.monotonic() - began))
    print('left in shared memory by killed programs: {}'.format(len(abandoned() - left_before)))
    return code


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:    # pytest has reported what it was doing
        sys.exit(130)
