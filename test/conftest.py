# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Isolate the ROS graph of a test run.

Set before anything imports rclpy: a domain that no other test run on this machine has, no traffic
beyond this machine, and logs that vanish with the run. Subprocesses of tests inherit all three.
"""

import ast
import contextlib
import functools
import gc
import importlib
import logging
import os
from pathlib import Path
import re
import secrets
import signal
import sys
import tempfile
import time
import tracemalloc

from optitrack_vrpn.node.graph.domain_io import claim_domain, isolate, own_domain
import pytest
from shared_memory import clear_ports

try:
    import hypothesis
except ImportError:    # its tests say so themselves
    hypothesis = None
else:
    # What takes long on a busy machine is no slower than elsewhere.
    hypothesis.settings.register_profile('any machine', deadline=None, suppress_health_check=[
        *hypothesis.settings.default.suppress_health_check, hypothesis.HealthCheck.too_slow])
    hypothesis.settings.register_profile(
        'fast', hypothesis.settings.get_profile('any machine'), max_examples=25)
    hypothesis.settings.load_profile('any machine')


# Before tests import numpy, also in the programs that they start: the threads of OpenBLAS turn in
# circles while they wait for each other, and parallel tests use all processors anyway.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')


def examples(count):
    """Give the number of examples of a property test: a quarter of `count` in `make check`."""
    return max(1, count * hypothesis.settings.default.max_examples // 100)


#: Marks a test of the node that both protocols have to pass. Tests of what lies behind the events
#: of a client are not among them: it is the same code for both.
BOTH_PROTOCOLS = pytest.mark.parametrize('protocol', ['vrpn', 'natnet'])


def independent(name):
    """
    Import another implementation, with which a test compares this one.

    Only an environment that tools/env.py did not make may lack it; the test is skipped there.
    """
    made = Path(sys.prefix, 'seed').is_dir() and sys.version_info < (3, 14)
    return importlib.import_module(name) if made else pytest.importorskip(name)


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


def gone(pids):
    """Wait until no process of these is left; what is left is killed and makes this False."""
    end = time.monotonic() + 20.0
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left


def alive(pid):
    """Return whether a process runs; one that has ended may wait for its new parent."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def lacking(text, *parts):
    """
    Give the parts that a message does not contain.

    A test of a message asks for what a reader needs: the value or the name that is wrong, the
    option that helps. It does not ask for a sentence, which may be worded better tomorrow.
    """
    return [part for part in parts if part not in text]


def lacking_in_lines(lines, *expected):
    """Give what each line lacks of its expected parts; there are as many lines as expected."""
    assert len(lines) == len(expected), lines
    return [lack for line, parts in zip(lines, expected) if (lack := lacking(line, *parts))]


def memory_growth(step, count):
    """
    Measure how much memory (bytes) the second half of many steps keeps.

    :param step: called with 0 to 2 * count - 1.
    """
    def kept(numbers):
        for number in numbers:
            step(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = kept(range(count))
        return kept(range(count, 2 * count)) - before
    finally:
        tracemalloc.stop()


#: The signals that tests send.
SENT = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


def restore_signals():
    """
    Give the children of this process the default handlers of the signals that tests send.

    A shell ignores SIGINT and SIGQUIT for a job in the background, `nohup` ignores SIGHUP, and
    children inherit that; a signal with a handler has its default in a child again.
    """
    for number in SENT:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


#: Modules that open sockets, start processes or threads, or are of ROS.
IMPURE = ('multiprocessing', 'rclpy', 'select', 'signal', 'socket', 'subprocess', 'threading')


IMPORT = re.compile(r'^[ \t]*((?:from[ \t]+\S+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n]*))', re.M)


def imports_of(text):
    """
    Parse the import statements of a Python file, wherever they stand.

    By themselves, since this is done for all files at the start of each test program.
    """
    for statement in IMPORT.findall(text):
        try:
            node, = ast.parse(statement).body
        except (SyntaxError, ValueError):    # prose that begins like one
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


@functools.cache
def is_pure(path):
    """
    Return whether a test file, with the helpers beside it, imports only pure code.

    Files of the package are pure by the naming rule of docs/architecture.md.
    """
    for node in imports_of(path.read_text()):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module, *(f'{node.module}.{alias.name}' for alias in node.names)]
        for module in modules:
            parts = module.split('.')
            if parts[0] in IMPURE or parts[0].endswith(('_msgs', '_interfaces')):
                return False
            if parts[0] == 'optitrack_vrpn' and (
                    ('node' in parts and 'graph' not in parts) or 'command' in parts or any(
                        part.endswith(('_io', '_ros', '_command')) for part in parts)):
                return False
            helper = path.parent / f'{parts[0]}.py'
            if helper.exists() and parts[0] != 'conftest' and not is_pure(helper):
                return False
    return True


def pytest_ignore_collect(collection_path, config):
    """Leave out files of which no test is wanted: importing them all takes seconds."""
    wanted = config.option.markexpr
    if collection_path.suffix != '.py' or not collection_path.name.startswith('test_'):
        return None
    if wanted == 'pure':
        return not is_pure(collection_path) or None
    if wanted in ('timed', 'computes'):
        text = collection_path.read_text()
        return not (f'mark.{wanted}' in text or (
            wanted == 'computes' and 'mark.slow' in text and is_pure(collection_path))) or None
    return None


#: Where the last file of a kind comes in the order of all files. Long ones end early, so that all
#: workers end together, and the pure ones, which compute, are spread among those that wait.
LAST_OF_KIND = {'slow': 0.5, 'ros': 0.7, 'other': 0.85, 'pure': 1.0}


def mix_kinds(items):
    """Order the files so that at any time some workers wait while others compute."""
    slow = {item.path for item in items if any(item.iter_markers('slow'))}
    ros = {item.path for item in items if any(item.iter_markers('ros'))}
    files = {kind: [] for kind in LAST_OF_KIND}
    for path in dict.fromkeys(item.path for item in items):
        files['pure' if is_pure(path) else 'slow' if path in slow else
              'ros' if path in ros else 'other'].append(path)
    place = {path: LAST_OF_KIND[kind] * (number + 0.5) / len(paths)
             for kind, paths in files.items() for number, path in enumerate(paths)}
    items.sort(key=lambda item: place[item.path])


def pytest_collection_modifyitems(items):
    mix_kinds(items)
    for item in items:
        if is_pure(item.path):
            item.add_marker('computes' if any(item.iter_markers('slow')) else 'pure')


def pytest_configure(config):
    restore_signals()
    # Recent pytest-xdist would begin with the files of the most tests, which end soonest.
    config.option.loadscopereorder = False
    # Runs begin at different places, so that leftovers of one seldom meet the next.
    config.domain_claim = claim_domain({own_domain()}, start=os.getpid())
    config.folders = contextlib.ExitStack()
    clear_ports(config.domain_claim.domain)
    isolate(os.environ, config.domain_claim.domain)
    os.environ['ROS_LOG_DIR'] = config.folders.enter_context(
        tempfile.TemporaryDirectory(prefix='optitrack_vrpn_log_'))
    # Fast DDS's default makes every second or third start wait 3 s for a missed announcement.
    profile = str(Path(__file__).resolve().parent.parent / 'config' / 'fast_discovery.xml')
    for name in ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE'):
        os.environ.setdefault(name, profile)


def pytest_unconfigure(config):
    clear_ports(config.domain_claim.domain)
    config.domain_claim.close()
    config.folders.close()


def pytest_report_header(config):
    return f'ROS domain {os.environ["ROS_DOMAIN_ID"]}'


@pytest.fixture(scope='session')
def state_folders(tmp_path_factory):
    """Give a folder for what the tests make the package remember about this computer."""
    return tmp_path_factory.mktemp('state')


@pytest.fixture(autouse=True)
def no_memory(monkeypatch, state_folders):
    """Let each test begin on a computer of which nothing is remembered."""
    monkeypatch.setenv('XDG_STATE_HOME', str(state_folders / secrets.token_hex(8)))


@pytest.fixture(autouse=True)
def no_ignored_signals():
    """Fail a test that leaves a signal ignored, which the children of later tests inherit."""
    yield
    left = [number.name for number in SENT if signal.getsignal(number) is signal.SIG_IGN]
    restore_signals()
    assert not left, f'ignored after the test: {left}; run the command in a process of its own'


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


@pytest.fixture
def unused_domain(monkeypatch):
    """Run a test in a ROS domain of its own, where no earlier program has left anything."""
    with claim_domain({own_domain()}, start=os.getpid()) as claim:
        clear_ports(claim.domain)
        monkeypatch.setenv('ROS_DOMAIN_ID', str(claim.domain))
        yield
        clear_ports(claim.domain)


@pytest.fixture(scope='module')
def user():
    """Give the node of a user that all tests of a file share; see ``rosgraph.Observer``."""
    from rosgraph import Observer
    with Observer('user') as found:
        yield found


@pytest.fixture
def observer():
    """Give the node of a user of its own for each test."""
    from rosgraph import Observer
    with Observer() as found:
        yield found


@pytest.fixture
def world():
    """Give what makes simulated Motives, nodes and a user; see ``world.World``."""
    from world import World
    with World() as found:
        yield found


@pytest.fixture
def motive(world):
    """Give a function that starts a simulated Motive with bodies and returns its port."""
    def start(*names, rate=100.0, protocol='vrpn'):
        server = world.motive(list(names), rate=rate, protocol=protocol)
        return server.port if protocol == 'vrpn' else server.port_of('natnet')
    return start


@pytest.fixture
def load_launch(monkeypatch):
    """Load launch files without ROS 2's launch; see ``launch_kit.loader``."""
    from launch_kit import loader
    return loader(monkeypatch)


@pytest.fixture
def unused_port():
    """Give a port on which no program listens, by TCP or UDP."""
    from server_kit import free_port
    return free_port()


class Console:
    """
    What this process writes to its standard error, ROS's log among it, while it goes on.

    ``capfd.readouterr`` empties its file, and loses what another thread writes just then.
    """

    def __init__(self):
        self._at = 0

    def unread(self):
        """Give what has been written since the last call."""
        read = os.pread(2, 1 << 24, self._at)
        self._at += len(read)
        return read.decode(errors='replace')


@pytest.fixture
def console(capfd):
    """Look at standard error without taking it away; see ``Console``."""
    return Console()
