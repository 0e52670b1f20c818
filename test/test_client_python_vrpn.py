# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ``vrpn`` module as a backend, tested with a module that has the documented interface."""

from datetime import datetime, timedelta
import sys
import threading
import types

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import BackendUnavailableError, TransportError
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.frames import Body as PoseReport, Motion
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn.client_io import make_backend
from optitrack_vrpn.drivers.vrpn.python_vrpn_io import sender_time_ns
import pytest
from transport_kit import link, Recorder, wait_until

STAMP = datetime(2026, 3, 1, 12, 0, 0, 123456)
STAMP_NS = 1772366400_123456000
KINDS = ('position', 'velocity', 'acceleration', 'unit2sensor', 'workspace', 'tracker2room')


class FakeModule(types.ModuleType):
    """
    A module that behaves as ``vrpn`` is documented to.

    Handlers are called from ``mainloop`` with (userdata, dictionary); one that raises makes
    ``mainloop`` raise ``vrpn.error``, and so does a wrong registration.
    """

    def __init__(self):
        super().__init__('vrpn')
        module = self
        self.error = type('error', (Exception,), {})
        self.trackers = []
        self.fault = None
        self.threads = set()

        class Tracker:
            """A tracker by NAME@HOST."""

            def __init__(self, address):
                module.threads.add(threading.current_thread().name)
                self.address = address
                self.handlers = []
                self.waiting = []
                module.trackers.append(self)

            def register_change_handler(self, userdata, callback, kind, sensor=-1):
                if kind not in KINDS:
                    raise module.error("Third attribut must be 'position', ...")
                self.handlers.append((kind, userdata, callback))
                return True

            def mainloop(self):
                module.threads.add(threading.current_thread().name)
                if module.fault is not None:
                    fault, module.fault = module.fault, None
                    raise fault
                while self.waiting:
                    kind, report = self.waiting.pop(0)
                    for wanted, userdata, callback in self.handlers:
                        if wanted == kind:
                            try:
                                callback(userdata, report)
                            except Exception as error:
                                raise module.error('callback failed') from error

        self.receiver = types.SimpleNamespace(Tracker=Tracker)

    def tell(self, number, kind, **report):
        """Let a tracker's next turn report something."""
        self.trackers[number].waiting.append((kind, report))


@pytest.fixture
def module(monkeypatch):
    fake = FakeModule()
    monkeypatch.setitem(sys.modules, 'vrpn', fake)
    return fake


@pytest.fixture
def run(module):
    """Start backends that are stopped at the end."""
    made = []

    def start(**config):
        sink = Recorder()
        settings_ = {'server': 'motive', 'trackers': ('wand', 'Rigid Body 1'), 'link': link()}
        backend = make_backend(
            ClientConfig(**{**settings_, **config}, backend='python_vrpn'), sink)
        made.append(backend)
        backend.start()
        sink.wait_state(LinkState.CONNECTING)
        count = len(config.get('trackers', settings_['trackers']))
        wait_until(lambda: len(module.trackers) >= count
                   and len(module.trackers[-1].handlers) >= 3)
        return backend, sink
    yield start
    for backend in made:
        backend.stop()
        backend.stop()


def test_without_the_module_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, 'vrpn', None)
    with pytest.raises(BackendUnavailableError, match='use backend: builtin'):
        make_backend(ClientConfig(backend='python_vrpn', trackers=('a',)), Recorder())


def test_reports_come_out_as_the_built_in_clients_do(module, run):
    backend, sink = run()
    assert [t.address for t in module.trackers] == [
        'wand@tcp://motive', 'Rigid Body 1@tcp://motive']
    module.tell(1, 'position', time=STAMP, sensor=0, position=(1.0, 2.0, 3.0),
                quaternion=(0.0, 0.6, 0.0, 0.8))
    module.tell(1, 'velocity', time=STAMP, sensor=0, velocity=(4.0, 5.0, 6.0),
                **{'future quaternion': (0.0, 0.0, 0.0, 1.0), 'future delta': 1717986918})
    module.tell(1, 'acceleration', time=STAMP, sensor=2, acceleration=(7.0, 8.0, 9.0),
                **{'future acceleration ?': (0.0, 0.0, 0.0, 1.0), 'future delta': 0})
    sink.wait(lambda: len(sink.events) == 3)
    (frame, *motions) = sink.events
    assert [*frame.bodies, *motions] == [
        PoseReport('Rigid Body 1', 0, STAMP_NS, (1.0, 2.0, 3.0), (0.0, 0.6, 0.0, 0.8)),
        Motion('Rigid Body 1', 0, STAMP_NS, True, (4.0, 5.0, 6.0), (0.0, 0.0, 0.0, 1.0), 0.0),
        Motion(
            'Rigid Body 1', 2, STAMP_NS, False, (7.0, 8.0, 9.0), (0.0, 0.0, 0.0, 1.0), 0.0)]
    (_, arrival_ns, host_minus_arrival_ns, called_ns) = sink.batches[0]
    assert 0 <= called_ns - arrival_ns < 5_000_000_000
    assert host_minus_arrival_ns > 0
    assert sink.states == [LinkState.CONNECTING, LinkState.STREAMING]
    status = backend.status()
    assert (status.transport, status.server, status.sessions) == ('python_vrpn', 'motive:3883', 1)
    assert status.counters == {'reports': 3}
    # The library is no friend of threads: one alone touches it.
    assert module.threads == {'python_vrpn client'}


def test_silence_and_the_end_are_reported(module, run):
    backend, sink = run(link=link(silent_after_s=0.1))
    module.tell(0, 'position', time=STAMP, sensor=0, position=(0.0, 0.0, 0.0),
                quaternion=(0.0, 0.0, 0.0, 1.0))
    sink.wait_state(LinkState.SILENT)
    backend.stop()
    assert sink.states[-1] is LinkState.STOPPED
    assert not [t for t in threading.enumerate() if t.name == 'python_vrpn client']
    with pytest.raises(TransportError):
        backend.start()


def test_a_fault_of_the_module_is_reported_and_retried(module, run):
    _, sink = run(trackers=('wand',))
    module.fault = module.error('the connection is broken')
    sink.wait_state(LinkState.LOST)
    assert 'is broken' in sink.reasons(LinkState.LOST)[0]
    sink.wait_state(LinkState.CONNECTING, 2)
    wait_until(lambda: len(module.trackers) > 1 and module.trackers[1].handlers)
    module.tell(1, 'position', time=STAMP, sensor=0, position=(0.0, 0.0, 0.0),
                quaternion=(0.0, 0.0, 0.0, 1.0))
    sink.wait_state(LinkState.STREAMING)


def test_a_module_that_always_fails_is_tried_again(module):
    def broken(address):
        raise module.error(f'no {address}')
    module.receiver.Tracker = broken
    sink = Recorder()
    backend = make_backend(ClientConfig(
        backend='python_vrpn', trackers=('a',), link=link()), sink)
    backend.start()
    sink.wait_state(LinkState.LOST, 3)
    assert sink.changes[-1].severity != INFO or backend.status().failures
    backend.stop()


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 4_000_000_000), st.integers(0, 999_999))
def test_time_stamps_keep_every_microsecond(seconds, microseconds):
    stamp = datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=microseconds)
    assert sender_time_ns(stamp) == (seconds * 10**6 + microseconds) * 1000
