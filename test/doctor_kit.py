# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the doctor in this process and parse its report."""

import contextlib
import json
import time

from conftest import lacking
from optitrack_vrpn.telling.doctor import command as doctor
import pytest

CHECKS = [
    'name', 'route', 'udp', 'connect-back', 'tcp', 'handshake', 'senders', 'data', 'rate',
    'bodies', 'axes', 'stamps', 'clock', 'natnet', 'natnet-clock',
    'qos', 'publishers', 'frames', 'published', 'lifecycle', 'shell', 'reach', 'settings']
#: For what does not answer: that time passes. Not too short for what does, on a busy machine.
IN_VAIN_S = 0.8


class Result:
    """What one run of the doctor said."""

    def __init__(self, code, out, err):
        self.code = code
        self.err = err
        self.report = json.loads(out)
        self.checks = {check['check']: check for check in self.report['checks']}

    def level(self, check):
        return self.checks[check]['level']

    def levels(self, *checks):
        return [self.level(check) for check in checks]

    def found(self, check):
        return self.checks[check]['found']

    def advice(self, check):
        return self.checks[check]['advice']

    def values(self, check):
        return self.checks[check]['values']

    def judged(self, check, level, *found, advice=()):
        """Assert the level of a check, and parts of its finding and of its advice."""
        assert self.level(check) == level, self.checks[check]
        assert not lacking(self.found(check), *found)
        assert not lacking(self.advice(check), *advice)


@pytest.fixture
def examine(capsys):
    """
    Run the doctor in this process, against the loopback interface unless stated otherwise.

    It is given a port, or a server that runs meanwhile.
    """
    def run(target, *arguments, server='127.0.0.1', timeout=3.0, seconds=1.0):
        capsys.readouterr()
        began = time.monotonic()
        with contextlib.nullcontext(target) if isinstance(target, int) else target:
            port = target if isinstance(target, int) else target.port
            code = doctor.main([
                '--server', server, '--port', str(port), '--json', '--no-ros',
                # Another program of this machine may use the default port.
                '--natnet-port', '9',
                *([] if '--protocol' in arguments else ['--protocol', 'vrpn']),
                '--timeout', str(timeout), '--seconds', str(seconds), *arguments])
        assert time.monotonic() - began < 40.0
        out, err = capsys.readouterr()
        result = Result(code, out, err)
        assert sorted(check['check'] for check in result.report['checks']
                      if check['check'] != 'also') == sorted(CHECKS)
        assert result.report['exit_code'] == code
        worst = {check['level'] for check in result.report['checks']}
        assert code == (2 if 'FAIL' in worst else 1 if 'WARN' in worst else 0)
        for check in result.report['checks']:
            assert bool(check['advice']) == (check['level'] in ('WARN', 'FAIL')), check
        return result
    return run
