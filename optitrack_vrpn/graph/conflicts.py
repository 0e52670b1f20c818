# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What to do where two nodes publish the same, in the words of log and doctor alike."""

#: Topics follow the namespace, not the node's name; transforms follow neither.
_APART = 'a namespace (-r __ns:=/NAME) and frames (frames.body, frames.body_ned) of its own'
#: Where two nodes have one full name: their services are mixed up too, whatever they publish.
ONE_NAME = f'end one, or give one {_APART}'
#: Where two nodes of different names publish on one topic.
ONE_TOPIC = (
    f'end one, let each follow bodies of its own (bodies.allow), or give one {_APART}')
#: Whoever has just been ended need not be ended.
LINGERS = 'one that was killed is seen for some 20 s more'
