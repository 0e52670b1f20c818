# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Collect the changes of state of all bodies, and compare the bodies to find swaps."""

from typing import Optional

from optitrack_vrpn.bodies import (
    ChangeLog, find_swap, review, State, StateChange, SwapCandidate, TimedPose, ValidityGate)
from optitrack_vrpn.events import Event
from optitrack_vrpn.pipeline.roster import Roster


class StateMonitor:
    """
    Follow the validity gates of all bodies.

    :param roster: the bodies.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._changes: list[StateChange] = []
        self._unreported: list[StateChange] = []
        self._log = ChangeLog()

    @property
    def _gates(self) -> list[ValidityGate]:
        return [channel.gate for channel in self._roster.bodies]

    def follow(self, gate: ValidityGate) -> None:
        """Collect the changes of state of one body; check for a swap after a jump."""
        changes = gate.take_changes()
        self._changes += changes
        self._unreported += changes
        if any(change.after is State.JUMPED for change in changes):
            review(self._gates)

    def find_swap(self, gate: ValidityGate, seen: TimedPose) -> Optional[SwapCandidate]:
        """Find a body whose place a jumping body may have taken."""
        return find_swap(gate, self._gates, seen)

    def tick(self, now_ns: int) -> list[Event]:
        """
        Detect silent bodies; return the reports of all changes since the last call.

        :param now_ns: present time on the arrival clock (ns).
        """
        gates = self._gates
        for gate in gates:
            gate.tick(now_ns)
            if gate.changes:
                self.follow(gate)
        review(gates)
        changes, self._unreported = self._unreported, []
        return list(self._log.take(changes, (gate.state for gate in gates)))

    def take_changes(self) -> list[StateChange]:
        """Return and clear the bodies' changes of state, oldest first."""
        changes, self._changes = self._changes, []
        return changes
