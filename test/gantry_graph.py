# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""gantry_controller in this process, and what any user commands and sees of its axes."""

from contextlib import contextmanager

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn.guests.machine.gantry_controller_ros import GantryController
from rcl_interfaces.srv import SetParameters
import rclpy.parameter
from rosgraph import NodeHere, wait_until
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

NODE = '/gantry_controller'


@contextmanager
def controller(active=True, **parameters):
    """Run a controller without mocap control, configured and, unless stated otherwise, active."""
    with NodeHere({'control.generations': ['none'], **parameters}, cls=GantryController) as here:
        assert here.run(here.node.trigger_configure).name == 'SUCCESS'
        if active:
            assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        yield here


class User:
    """Command a controller with nothing but the messages."""

    def __init__(self, observer):
        self.observer = observer

    def set(self, service, **values):
        """Call a service with values; gives the reasons of what was refused."""
        request = SetParameters.Request(parameters=[
            rclpy.parameter.Parameter(name, value=value).to_parameter_msg()
            for name, value in values.items()])
        results = self.observer.call(SetParameters, f'{NODE}/{service}', request).results
        return [result.reason for result in results if not result.successful]

    def trigger(self, service):
        """Call a service without values; True if it succeeded."""
        return self.observer.call(Trigger, f'{NODE}/{service}', Trigger.Request()).success


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
