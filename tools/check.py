# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run lint, types, rules and the fast pure tests at the same time, and print the seconds of each.

  check.py [PYTEST ARGUMENTS]    all of it
  check.py --lint                ruff, flake8, mypy and the rules of tools/rules.py alone

The pure tests that are marked `slow` run in `make test` only, and property tests draw a quarter
of their examples here (the profile `fast` in test/conftest.py). flake8 reads only the files that
changed since it last found nothing in them.
"""

import hashlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from run_tests import pytest_command, ROOT, test_environment

#: Target for a check on two processors (s). A longer check is reported and does not fail, because
#: it depends on the load of the machine.
TARGET_S = 60.0
CACHE = os.path.join(ROOT, '.flake8_cache', 'clean.json')
#: Folders in which nothing is linted, beside those whose name begins with a dot: setup.cfg.
LEFT_OUT = ('build', 'install', 'log', '__pycache__')


def python_files():
    """List the project's Python files."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders
                            if name not in LEFT_OUT and not name.startswith('.'))
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith('.py')]
    return found


def flake8_keys():
    """Hash each file together with the configuration and versions of flake8."""
    versions = sorted({
        '{} {}'.format(entry.dist.name, entry.dist.version)
        for entry in importlib.metadata.entry_points(group='flake8.extension')})
    with open(os.path.join(ROOT, 'setup.cfg'), 'rb') as stream:
        base = hashlib.sha256(repr((versions, sys.version)).encode() + stream.read())
    keys = {}
    for path in python_files():
        key = base.copy()
        with open(path, 'rb') as stream:
            key.update(os.path.relpath(path, ROOT).encode() + stream.read())
        keys[path] = key.hexdigest()
    return keys


def clean_keys():
    """Read the hashes of the files in which flake8 found nothing."""
    try:
        with open(CACHE) as stream:
            return set(json.load(stream))
    except (OSError, ValueError):
        return set()


def keep_clean_keys(keys):
    """Write the hashes of the files in which flake8 found nothing, atomically."""
    os.makedirs(os.path.dirname(CACHE), exist_ok=True)
    with open(CACHE + '.new', 'w') as stream:
        json.dump(sorted(keys), stream)
    os.replace(CACHE + '.new', CACHE)


class Part:
    """
    One tool that runs beside the others.

    :ivar seconds: how long it ran; None while it runs.
    """

    def __init__(self, name, command, variables, shown=False):
        self.name = name
        self.seconds = None
        self._begin = time.monotonic()
        self._output = None if shown else tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=self._output,
            stderr=None if shown else subprocess.STDOUT,
            # Ctrl-C reaches this program alone, which ends them without their tracebacks.
            start_new_session=True) if command else None

    def ended(self):
        """Return whether it has ended, and store the time of its end."""
        if self.seconds is None and (self.process is None or self.process.poll() is not None):
            self.seconds = time.monotonic() - self._begin
        return self.seconds is not None

    @property
    def failed(self):
        return self.process is not None and self.process.returncode != 0

    def output(self):
        """Return what it wrote, unless it was shown at once."""
        if self._output is None:
            return ''
        self._output.seek(0)
        return self._output.read().decode(errors='replace')


def main(arguments):
    """Run the command line; return the exit code."""
    variables = test_environment()
    tool = [sys.executable, '-m']
    keys = flake8_keys()
    clean = clean_keys()
    changed = [path for path, key in keys.items() if key not in clean]
    style = Part('flake8', changed and [*tool, 'flake8', *changed], variables)
    parts = [Part('ruff', [*tool, 'ruff', 'check', '--quiet'], variables), style,
             Part('mypy', [*tool, 'mypy'], variables),
             Part('rules', [sys.executable, os.path.join(ROOT, 'tools', 'rules.py')], variables)]
    if '--lint' not in arguments:
        parts.append(Part('tests', pytest_command(
            ['-q', '-m', 'pure', '--hypothesis-profile', 'fast', *arguments],
            workers=os.cpu_count() or 1, spread='worksteal'), variables, shown=True))
    begin = time.monotonic()
    try:
        while [part for part in parts if not part.ended()]:
            time.sleep(0.05)
    except KeyboardInterrupt:
        for part in parts:
            if not part.ended():
                os.killpg(part.process.pid, signal.SIGTERM)
        return 130
    if not style.failed and clean != set(keys.values()):
        keep_clean_keys(keys.values())
    failed = [part for part in parts if part.failed]
    for part in failed:
        sys.stdout.write(part.output())
    seconds = time.monotonic() - begin
    print(', '.join('{} {:.1f} s'.format(part.name, part.seconds) for part in parts))
    print('{} in {:.0f} s{}'.format(
        'failed: ' + ' '.join(part.name for part in failed) if failed else 'passed', seconds,
        '' if seconds < TARGET_S else ' (target: {:.0f} s on two processors)'.format(TARGET_S)))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
