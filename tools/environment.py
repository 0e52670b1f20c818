# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A virtual environment that is made in stages.

Every stage writes a stamp with a hash of its inputs. A second run does nothing, a changed input
repeats the stages that depend on it, and an interrupted run continues at the stage it stopped in.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOLS = os.path.join(ROOT, 'tools')
# What the package needs; what tests and lint need; what optional capabilities need.
RUNTIME, TEST, OPTIONAL = (os.path.join(TOOLS, 'requirements-{}.txt'.format(group))
                           for group in ('runtime', 'test', 'optional'))


class EnvironmentFailure(Exception):
    """Something is missing or failed; the user sees only the message."""


def say(text):
    """Print progress on standard error; results go to standard output."""
    print('[env] ' + text, file=sys.stderr, flush=True)


class Steps:
    """
    Number the steps of a long run, with the time since its begin.

    :param names: what each step does, in order
    """

    def __init__(self, names):
        self._names = list(names)
        self._done = 0
        self._begin = time.monotonic()

    def next(self):
        """Announce the next step."""
        self._done += 1
        say('step {} of {} ({:.0f} s): {}'.format(
            self._done, len(self._names), time.monotonic() - self._begin,
            self._names[self._done - 1]))


def digest(strings, paths=()):
    """Hash strings, and files and folders by their names and contents."""
    total = hashlib.sha256(repr(list(strings)).encode())
    for path in paths:
        names = [path]
        if os.path.isdir(path):
            names = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path)
                           for name in names if not name.endswith('.pyc'))
        for name in names:
            with open(name, 'rb') as stream:
                total.update(repr(os.path.relpath(name, ROOT)).encode() + stream.read())
    return total.hexdigest()


def base_python():
    """Return the base Python of this one: itself, or that of its virtual environment."""
    return os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)


def python_facts(python):
    """Ask a Python for its version, as in `3.11.7`, and for the folder of its C headers."""
    script = ('import platform, sysconfig; '
              'print(platform.python_version(), sysconfig.get_path("include"))')
    return subprocess.check_output(
        [python, '-c', script], universal_newlines=True).strip().split(' ', 1)


class Environment:
    """One environment folder with its stamps and logs, made from one Python."""

    def __init__(self, folder, base):
        self.folder = os.path.join(ROOT, folder)
        self.name = os.path.relpath(self.folder, ROOT)
        self.base = base
        self.version, self.include = python_facts(base)
        self.python = os.path.join(self.folder, 'bin', 'python')
        minor = '.'.join(self.version.split('.')[:2])
        self.site = os.path.join(self.folder, 'lib', 'python' + minor, 'site-packages')
        self._lock = None

    def _path(self, kind, stage):
        path = os.path.join(self.folder, kind, stage.replace('/', '-'))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def log_size(self, stage):
        """Return the size of a stage's log (bytes)."""
        path = self._path('log', stage) + '.log'
        return os.path.getsize(path) if os.path.exists(path) else 0

    def log_text(self, stage, begin):
        """Read a stage's log from a position on (bytes)."""
        if not self.log_size(stage):
            return ''
        with open(self._path('log', stage) + '.log', 'rb') as stream:
            stream.seek(begin)
            return stream.read().decode(errors='replace')

    def done(self, stage, key):
        """Return whether a stage was finished with inputs of that hash."""
        try:
            with open(os.path.join(self.folder, 'stamps', stage.replace('/', '-'))) as stream:
                return stream.read() == key
        except OSError:
            return False

    def mark(self, stage, key):
        """Write a stage's stamp atomically."""
        path = self._path('stamps', stage)
        with open(path + '.new', 'w') as stream:
            stream.write(key)
        os.replace(path + '.new', path)

    @contextlib.contextmanager
    def locked(self):
        """
        Block a second run until this one, and every process that it started, has ended.

        The commands inherit the lock: a run that was killed may leave a pip or a compiler behind.
        """
        try:
            lock = os.open(self.folder + '.lock', os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise EnvironmentFailure('cannot write here: use a folder of your own ({}: {})'.format(
                self.name + '.lock', error.strerror)) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say('another run is making {}, waiting for it'.format(self.name))
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._lock = lock
            yield
        finally:
            self._lock = None
            os.close(lock)

    def run(self, stage, command, hint='', shown=False, **options):
        """
        Run a command with its output in a log file, whose end is shown if it fails.

        :param shown: show its progress bar, if there is a terminal
        :raises EnvironmentFailure: if the command is missing or its exit code is not 0
        """
        path = self._path('log', stage) + '.log'
        with open(path, 'ab') as stream:
            stream.write(('$ ' + ' '.join(command) + '\n').encode())
            stream.flush()
            try:
                code = subprocess.call(
                    command, stdin=subprocess.DEVNULL, stdout=stream,
                    stderr=None if shown and sys.stderr.isatty() else subprocess.STDOUT,
                    pass_fds=[] if self._lock is None else [self._lock], **options)
            except OSError as error:
                raise EnvironmentFailure('{}: {}'.format(command[0], error)) from None
        if code:
            with open(path, errors='replace') as stream:
                tail = ''.join(stream.readlines()[-15:]).rstrip()
            # The remedy comes first, because the output of the tool may be long.
            raise EnvironmentFailure('{}: {} failed (exit code {}). {}\nThe end of {}:\n{}'.format(
                self.name, stage, code, hint, os.path.relpath(path, ROOT), tail))

    def create(self, *options):
        """Make the empty virtual environment; replace an incomplete one."""
        key = digest([self.base, self.version] + list(options))
        half = os.path.exists(os.path.join(self.folder, 'stamps', 'installing'))
        if self.done('venv', key) and os.path.exists(self.python) and not half:
            return
        if os.path.isdir(self.folder) and os.listdir(self.folder):
            if not any(os.path.exists(os.path.join(self.folder, name))
                       for name in ('pyvenv.cfg', 'log')):
                raise EnvironmentFailure(
                    '{} exists and is no virtual environment: move it away'.format(self.name))
            if half:
                say('an installation into {} was interrupted: starting again'.format(self.name))
            # Rename in one step: a partly removed folder looks like a folder of the user.
            old = self.folder + '.old'
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.folder, old)
            shutil.rmtree(old, ignore_errors=True)
        need_venv(self.base)
        self.run('venv', [self.base, '-m', 'venv'] + list(options) + [self.folder])
        self.mark('venv', key)

    def install(self, stage, key, *arguments, uv=None):
        """
        Install packages; `create` replaces an environment whose installation was interrupted.

        :param uv: an :class:`installer.Uv` that is tried before pip
        """
        if self.done(stage, key):
            return
        self.mark('installing', stage)
        try:
            if uv is None or not uv.install(stage, arguments):
                self.run(stage, [self.python, '-m', 'pip', 'install', '--quiet', '--retries', '1',
                                 '--disable-pip-version-check'] + list(arguments),
                         'Check that PyPI, or the mirror that pip uses, can be reached.')
        except EnvironmentFailure:
            os.remove(self._path('stamps', 'installing'))  # pip has removed its files
            raise
        self.mark(stage, key)
        os.remove(self._path('stamps', 'installing'))

    def see_project(self):
        """Let the environment's Python import the project from any working directory."""
        key = digest([self.version, ROOT])
        if not self.done('project', key):
            with open(os.path.join(self.site, 'optitrack_vrpn.pth'), 'w') as stream:
                stream.write(ROOT + '\n')
            self.mark('project', key)


def need_venv(python):
    """Check that a Python can make virtual environments, which Debian packages separately."""
    if subprocess.call([python, '-c', 'import ensurepip, venv'], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        raise EnvironmentFailure(
            '{} lacks the venv module. On Debian and Ubuntu: sudo apt install python3-venv'
            .format(python))


def requirement_lines(names):
    """Return the pinned lines of these distributions in the requirements files."""
    lines = []
    for path in (RUNTIME, TEST, OPTIONAL):
        with open(path) as stream:
            lines += [line.strip() for line in stream]
    return [line for line in lines if line.split('=')[0] in names]
