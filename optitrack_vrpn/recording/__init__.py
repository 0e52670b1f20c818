# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record, replay, export and report sessions; evaluate odometry against mocap."""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from optitrack_vrpn.recording.bag_io import BagWriter, NewTopic, recover
    from optitrack_vrpn.recording.bag_metadata import make_qos, TopicMetadata
    from optitrack_vrpn.recording.bag_read_io import find_file, read_records
    from optitrack_vrpn.recording.capture_io import load_sessions
    from optitrack_vrpn.recording.cdr import decode, parse_definition
    from optitrack_vrpn.recording.columns import ROW
    from optitrack_vrpn.recording.definitions import definition
    from optitrack_vrpn.recording.evaluation import (
        absolute_error, associate, pairs_apart, relative_error, umeyama)
    from optitrack_vrpn.recording.evaluation_calibration import (
        estimate_hand_eye, estimate_time_offset)
    from optitrack_vrpn.recording.evaluation_odometry import evaluate_odometry, OdometryEvaluation
    from optitrack_vrpn.recording.fields_io import FieldRows, read_fields
    from optitrack_vrpn.recording.figures import body_figures, euler_deg, running_deviation, turns
    from optitrack_vrpn.recording.losses import ClockSteps, LossTimes, SequenceWatch
    from optitrack_vrpn.recording.mcap_format import Cut, End, Message
    from optitrack_vrpn.recording.mcap_read_io import Damage
    from optitrack_vrpn.recording.pcap import (
        file_header, Packet, packet_bytes, read_packets, TCP, UDP)
    from optitrack_vrpn.recording.raw_events import arrivals, stamped
    from optitrack_vrpn.recording.raw_recorder_io import (
        LostDatagrams, PcapWriter, RawSink, record_raw)
    from optitrack_vrpn.recording.raw_session import (
        clip, first_sender_time_ns, scale_times, Session)
    from optitrack_vrpn.recording.record_command import Lines
    from optitrack_vrpn.recording.recorder_ros import Recorder, RecorderConfig
    from optitrack_vrpn.recording.replay_io import ReplayConfig, ReplayServer
    from optitrack_vrpn.recording.report_page_io import check_available
    from optitrack_vrpn.recording.rows_io import Scratch, StoredRows
    from optitrack_vrpn.recording.spool_io import Spool
    from optitrack_vrpn.recording.take import (
        Body, ClockRow, longest_rise, PosesInMemory, StateRow, Take)
    from optitrack_vrpn.recording.take_io import load_estimate, load_take
    from optitrack_vrpn.recording.topics import safe_name, TopicChoice
    from optitrack_vrpn.recording.trajectory import interpolate, slerp, Trajectory
    from optitrack_vrpn.recording.tum import format_tum, parse_tum

#: Imported at first use: numpy and scipy take long.
_MODULES = {
    'bag_io': ('BagWriter', 'NewTopic', 'recover'),
    'bag_metadata': ('TopicMetadata', 'make_qos'),
    'bag_read_io': ('find_file', 'read_records'),
    'capture_io': ('load_sessions',),
    'cdr': ('decode', 'parse_definition'),
    'columns': ('ROW',),
    'definitions': ('definition',),
    'evaluation': ('absolute_error', 'associate', 'pairs_apart', 'relative_error', 'umeyama'),
    'evaluation_calibration': ('estimate_hand_eye', 'estimate_time_offset'),
    'evaluation_odometry': ('OdometryEvaluation', 'evaluate_odometry'),
    'fields_io': ('FieldRows', 'read_fields'),
    'figures': ('body_figures', 'euler_deg', 'running_deviation', 'turns'),
    'losses': ('ClockSteps', 'LossTimes', 'SequenceWatch'),
    'mcap_format': ('Cut', 'End', 'Message'),
    'mcap_read_io': ('Damage',),
    'pcap': ('Packet', 'TCP', 'UDP', 'file_header', 'packet_bytes', 'read_packets'),
    'raw_events': ('arrivals', 'stamped'),
    'raw_recorder_io': ('LostDatagrams', 'PcapWriter', 'RawSink', 'record_raw'),
    'raw_session': ('Session', 'clip', 'first_sender_time_ns', 'scale_times'),
    'record_command': ('Lines',),
    'recorder_ros': ('Recorder', 'RecorderConfig'),
    'replay_io': ('ReplayConfig', 'ReplayServer'),
    'report_page_io': ('check_available',),
    'rows_io': ('Scratch', 'StoredRows'),
    'spool_io': ('Spool',),
    'take': ('Body', 'ClockRow', 'PosesInMemory', 'StateRow', 'Take', 'longest_rise'),
    'take_io': ('load_estimate', 'load_take'),
    'topics': ('TopicChoice', 'safe_name'),
    'trajectory': ('Trajectory', 'interpolate', 'slerp'),
    'tum': ('format_tum', 'parse_tum')}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    'BagWriter', 'Body', 'ClockRow', 'ClockSteps', 'Cut', 'Damage', 'End', 'FieldRows', 'Lines',
    'LossTimes', 'LostDatagrams', 'Message', 'NewTopic', 'OdometryEvaluation', 'Packet',
    'PcapWriter', 'PosesInMemory', 'ROW', 'RawSink', 'Recorder', 'RecorderConfig', 'ReplayConfig',
    'ReplayServer', 'Scratch', 'SequenceWatch', 'Session', 'Spool', 'StateRow', 'StoredRows',
    'TCP', 'Take', 'TopicChoice', 'TopicMetadata', 'Trajectory', 'UDP', 'absolute_error',
    'arrivals', 'associate', 'body_figures', 'check_available', 'clip', 'decode', 'definition',
    'estimate_hand_eye', 'estimate_time_offset', 'euler_deg', 'evaluate_odometry', 'file_header',
    'find_file', 'first_sender_time_ns', 'format_tum', 'interpolate', 'load_estimate',
    'load_sessions', 'load_take', 'longest_rise', 'make_qos', 'packet_bytes', 'pairs_apart',
    'parse_definition', 'parse_tum', 'read_fields', 'read_packets', 'read_records', 'record_raw',
    'recover', 'relative_error', 'running_deviation', 'safe_name', 'scale_times', 'slerp',
    'stamped', 'turns', 'umeyama']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)


#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('record', 'record_command:main',
     "record a session as a bag, or the server's bytes as a pcap"),
    ('replay', 'replay_command:main', 'serve a raw recording, or a pcap of VRPN, as a server'),
    ('export', 'export_command:main', 'poses of a recording as CSV, TUM or Parquet'),
    ('report', 'report_command:main', 'what happened in a recording, as one page with a verdict'),
)
