# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Keep the ROS graph of a test run to itself.

Set before anything imports rclpy: a domain that no other test run on this machine has, no traffic
beyond this machine, and logs that vanish with the run. Subprocesses of tests inherit all three.
"""

import fcntl
import logging
import os
from pathlib import Path
import shutil
import sys
import tempfile

import pytest

try:
    import hypothesis
except ImportError:    # its tests say so themselves
    hypothesis = None
else:
    # What takes long on a busy machine is no slower than elsewhere.
    hypothesis.settings.register_profile('any machine', deadline=None, suppress_health_check=[
        *hypothesis.settings.default.suppress_health_check, hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile('any machine')

# More domains than these need ports of which the kernel may have given some away.
DOMAINS = range(1, 101)


def claim_domain():
    """
    Take a domain that no other run holds, from a place that runs start at differently.

    :returns: the domain and the locked file that holds it until this process ends
    """
    start = os.getpid() % len(DOMAINS)
    for domain in [*DOMAINS[start:], *DOMAINS[:start]]:
        path = os.path.join(tempfile.gettempdir(), f'optitrack_vrpn_test_domain_{domain}.lock')
        try:
            claim = open(path, 'a')
        except OSError:    # another user's
            continue
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not inhabited(domain):
                return domain, claim
        except OSError:
            pass
        claim.close()
    raise pytest.UsageError(f'all ROS domains from {DOMAINS[0]} to {DOMAINS[-1]} are in use')


def inhabited(domain):
    """Tell whether programs that claimed nothing are there: an orphan of a run, a user's own."""
    ports = range(7400 + 250 * domain, 7650 + 250 * domain)
    try:
        with open('/proc/net/udp') as table:
            next(table)
            return any(int(line.split()[1][-4:], 16) in ports for line in table)
    except OSError:    # not Linux
        return False


def at_last(check, *attempts):
    """
    Check with one thing after the other until it holds; the last one counts.

    For what hangs on how much a busy machine lets other programs do in a given time. What is
    broken fails every time.

    :param attempts: what the check is called with; more patience each time.
    """
    for attempt in attempts[:-1]:
        try:
            return check(attempt)
        except AssertionError as error:
            print(f'with {attempt!r}: {error}')
    return check(attempts[-1])


def children_of(parent):
    """List the processes that a process has started."""
    found = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = stat.read_text().rpartition(')')[2].split()
        except OSError:    # gone meanwhile
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def pytest_configure(config):
    domain, config.domain_claim = claim_domain()
    config.ros_log = tempfile.mkdtemp(prefix='optitrack_vrpn_log_')
    os.environ.update(
        ROS_DOMAIN_ID=str(domain),
        ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST',
        ROS_LOG_DIR=config.ros_log)
    # Humble's name for the same; later releases complain about it.
    if os.environ.get('ROS_DISTRO') == 'humble':
        os.environ['ROS_LOCALHOST_ONLY'] = '1'


def pytest_unconfigure(config):
    config.domain_claim.close()
    shutil.rmtree(config.ros_log, ignore_errors=True)


def pytest_report_header(config):
    return f'ROS domain {os.environ["ROS_DOMAIN_ID"]}'


@pytest.fixture
def caplog(caplog):
    """Catch the package's log where launch's plugin for pytest has cut loggers from the root."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith('optitrack_vrpn'):
            logging.getLogger(name).propagate = True
    return caplog


@pytest.fixture
def seed_environment():
    """
    Make the variables for a subprocess that sees the control messages of 2021.

    They have the package name of those after them, so they live in a prefix of their own, which
    only an environment with ROS 2 from PyPI has.
    """
    prefix = Path(sys.prefix, 'seed')
    if not prefix.is_dir():
        pytest.skip('the control messages of 2021 are built in .venv alone (tools/env.py)')
    python = 'python{}.{}'.format(*sys.version_info)
    variables = dict(os.environ)
    for name, folder in (('PYTHONPATH', prefix / 'lib' / python / 'site-packages'),
                         ('LD_LIBRARY_PATH', prefix / 'lib'), ('AMENT_PREFIX_PATH', prefix)):
        variables[name] = os.pathsep.join(filter(None, [str(folder), variables.get(name)]))
    return variables


class Console:
    """
    What this process writes to its standard error, ROS's log among it, while it goes on.

    ``capfd.readouterr`` empties its file, and loses what another thread writes just then.
    """

    def __init__(self):
        self._at = 0

    def news(self):
        """Give what has been written since the last call."""
        read = os.pread(2, 1 << 24, self._at)
        self._at += len(read)
        return read.decode(errors='replace')


@pytest.fixture
def console(capfd):
    """Look at standard error without taking it away; see ``Console``."""
    return Console()
