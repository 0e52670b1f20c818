# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of one body without ROS: what would be published is noted."""

import copy
from types import SimpleNamespace

from optitrack_vrpn.node.base.cdr import TransformWriter
from optitrack_vrpn.node.body_output import BodyOutput, OutputRow
from optitrack_vrpn.node.configuration import make_configuration
from optitrack_vrpn.node.topic_kinds import Content


def poses_alone(channel, send_pose, piece=b'', tf=False):
    """
    Make publishers of a body's pose.

    :param send_pose: called with ``piece`` for each pose.
    :param tf: whether there are transforms, ``piece`` each.
    """
    def write(*_):
        return piece

    output = BodyOutput(channel, None, None, True)
    output.rows = [OutputRow(Content.POSE, False, write, send_pose, None)]
    output.tf = output.tf_heard = tf
    output.write_tf = TransformWriter(write, write)
    return output


def every_output(channel, outputs, sent, **settings):
    """
    Make publishers of a body that all have subscribers.

    :param outputs: the parameter ``outputs``.
    :param sent: gets the last message of each kind.
    :param settings: further settings of the node.
    """
    def create(message_type, topic, kind):
        return SimpleNamespace(
            publish=lambda message: sent.update({kind: copy.deepcopy(message)}),
            handle=SimpleNamespace(get_subscription_count=lambda: 1))
    output = BodyOutput(channel, create, lambda _: None, False, lambda: False)
    output.create_publishers(
        make_configuration({'server': '127.0.0.1', 'outputs': outputs, **settings}).settings)
    return output
