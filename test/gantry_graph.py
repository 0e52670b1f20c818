# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What gantry_controller publishes of its axes, as any user sees it."""

from diagnostic_msgs.msg import DiagnosticArray
from rosgraph import wait_until
from sensor_msgs.msg import JointState

NODE = '/gantry_controller'


class Axes:
    """
    The last published state of each axis.

    :ivar commanded: the topic with the commanded states, one message a cycle.
    """

    def __init__(self, observer):
        self.commanded = observer.listen(JointState, f'{NODE}/commanded', 10)
        self._view = observer.listen(DiagnosticArray, f'{NODE}/axes', 10)

    def status(self, name):
        """Give mode and cells of an axis: ('', {}) before the first message."""
        for array in self._view.messages(-1):
            status = next(each for each in array.status if each.name == name)
            return status.message, {pair.key: pair.value for pair in status.values}
        return '', {}

    def value(self, name, cell='position'):
        """Give a number of an axis; a NaN if there is none."""
        return float(self.status(name)[1].get(cell) or 'nan')

    def wait_mode(self, name, mode):
        """Wait until an axis is in a mode."""
        wait_until(lambda: self.status(name)[0] == mode, what=f'{name} {mode}')

    def wait_position(self, name, position):
        """Wait until an axis is at a position, to the published digits."""
        wait_until(lambda: abs(self.value(name) - position) < 1e-9, what=f'{name} {position}')

    def next_view(self):
        """Wait until the state has been published once more."""
        count = len(self._view)
        wait_until(lambda: len(self._view) > count, what='the next state')
