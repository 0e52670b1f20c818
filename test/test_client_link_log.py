# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The log messages of a connection that is lost and restored."""

from optitrack_vrpn.client.link import link_event, LinkState
from optitrack_vrpn.client.link_log import LinkLog

MS = 1_000_000
OUTAGE = ((LinkState.LOST, 'warn'), (LinkState.REQUESTING, 'info'))
RETURN = ((LinkState.CONNECTED, 'info'), (LinkState.STREAMING, 'info'))


def reported(changes, step_ms, log=None):
    """Let changes come so far apart; gives (time in ms, state) of those that are logged."""
    log = log or LinkLog()
    return [(number * step_ms, state) for number, (state, severity) in enumerate(changes)
            if log.allow(link_event(state, f'because of port {40000 + number}', severity),
                         number * step_ms * MS)]


def test_every_state_of_an_outage_is_told_of_once():
    changes = [*RETURN, *OUTAGE * 10, *RETURN]
    assert [state for _, state in reported(changes, 2500)] == [
        s for s, _ in (*RETURN, *OUTAGE, *RETURN)]


def test_an_outage_that_lasts_is_told_of_again_once_a_minute():
    lost = [at for at, state in reported(OUTAGE * 100, 1000) if state is LinkState.LOST]
    assert lost == [0, 60_000, 120_000, 180_000]


def test_the_end_of_an_outage_is_told_of_however_soon_it_comes():
    changes = [*RETURN, *OUTAGE, *RETURN]
    assert len(reported(changes, 100)) == len(changes)


def test_poses_after_a_silence_are_logged_also_in_the_first_minute():
    changes = [*RETURN, (LinkState.SILENT, 'warn'), (LinkState.STREAMING, 'info')]
    assert [state for _, state in reported(changes, 10_000)] == [state for state, _ in changes]


def test_a_connection_that_flaps_neither_fills_the_log_nor_leaves_it_at_lost():
    seconds, step_ms = 60, 50
    changes = [*RETURN, *OUTAGE] * (seconds * 1000 // step_ms // 4) + [*RETURN]
    lines = reported(changes, step_ms)
    assert len(changes) == 1202 and len(lines) <= 6 * (seconds // 5 + 1)
    assert lines[-1][1] is LinkState.STREAMING
    last = {state: at for at, state in lines}
    assert last[LinkState.STREAMING] > last[LinkState.LOST]
