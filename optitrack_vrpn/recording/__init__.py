# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record, replay, export and report sessions; evaluate odometry against mocap."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.recording.bag_io import BagWriter, NewTopic, recover
    from optitrack_vrpn.recording.bag_metadata import make_qos, TopicMetadata
    from optitrack_vrpn.recording.bag_read_io import find_file, read_records
    from optitrack_vrpn.recording.capture_io import load_sessions
    from optitrack_vrpn.recording.cdr import decode, definition, parse_definition
    from optitrack_vrpn.recording.columns import ROW
    from optitrack_vrpn.recording.evaluation import (
        absolute_error, associate, pairs_apart, relative_error, umeyama)
    from optitrack_vrpn.recording.evaluation_calibration import (
        estimate_hand_eye, estimate_time_offset)
    from optitrack_vrpn.recording.evaluation_odometry import evaluate_odometry, OdometryEvaluation
    from optitrack_vrpn.recording.fields_io import FieldRows, read_fields
    from optitrack_vrpn.recording.figures import body_figures
    from optitrack_vrpn.recording.losses import ClockSteps, LossTimes, SequenceWatch
    from optitrack_vrpn.recording.mcap_format import Cut, End, Message
    from optitrack_vrpn.recording.mcap_read_io import Damage
    from optitrack_vrpn.recording.pcap import (
        file_header, Packet, packet_bytes, read_packets, TCP, UDP)
    from optitrack_vrpn.recording.raw_capture import arrivals, stamped
    from optitrack_vrpn.recording.raw_recorder_io import (
        LostDatagrams, PcapWriter, RawSink, record_raw)
    from optitrack_vrpn.recording.raw_session import (
        clip, first_sender_time_ns, NameRemover, scale_times, Session)
    from optitrack_vrpn.recording.record_command import Lines, main, make_parser
    from optitrack_vrpn.recording.recorder_ros import Recorder, RecorderConfig
    from optitrack_vrpn.recording.remarks import findings
    from optitrack_vrpn.recording.replay_io import ReplayConfig, ReplayServer
    from optitrack_vrpn.recording.report_page_io import check_available, page_policy
    from optitrack_vrpn.recording.rows_io import Scratch, StoredRows
    from optitrack_vrpn.recording.series import euler_deg, running_deviation, Sample, turns
    from optitrack_vrpn.recording.spool_io import Spool
    from optitrack_vrpn.recording.take import (
        Body, ClockRow, longest_rise, StateRow, Take)
    from optitrack_vrpn.recording.take_io import load_estimate, load_take
    from optitrack_vrpn.recording.topics import safe_name, TopicChoice
    from optitrack_vrpn.recording.trajectory import (
        format_tum, interpolate, parse_tum, slerp, Trajectory)
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('record', 'record_command:main',
     "record a session as a bag, or the server's bytes as a pcap"),
    ('replay', 'replay_command:main', 'serve a raw recording, or a pcap of VRPN, as a server'),
    ('export', 'export_command:main', 'poses of a recording as CSV, TUM or Parquet'),
    ('report', 'report_command:main', 'what happened in a recording, as one page with a verdict'),
)
