# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Remedies for two nodes that publish the same topics, for log and doctor."""

#: Topics depend on the namespace, not on the node's name; transforms depend on neither.
_APART = 'another namespace (-r __ns:=/NAME) and other frames (frames.body, frames.body_ned)'
#: Remedy for two nodes with one full name; their services conflict too.
ONE_NAME = f'end one, or give one {_APART}'
#: Remedy for two nodes with different names that publish on one topic.
ONE_TOPIC = (
    f'end one, select different bodies for each (bodies.allow), or give one {_APART}')
#: A killed node stays in the graph until DDS's participant lease expires.
LINGERS = 'a killed node stays visible for about 20 s'
