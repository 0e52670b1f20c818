# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record, replay, export and report sessions; evaluate odometry against mocap."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('record', 'record.record_command:main',
     'record a session as a bag, or the bytes of the server'),
    ('replay', 'record.replay_command:main',
     'serve a raw recording as a server of its protocol'),
    ('export', 'export.export_command:main', 'poses of a recording as CSV, TUM or Parquet'),
    ('report', 'assess.report_command:main',
     'what happened in a recording, as one page with a verdict'),
)
