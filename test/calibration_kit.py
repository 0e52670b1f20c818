# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Simulated takes for the tests of calibrate."""

from bench.calibrate import Case, error_of, NAMES, simulate, to_ns
import numpy as np
from recording_kit import cdr, header, make, typestore
from scipy.spatial.transform import Rotation

__all__ = ['Case', 'NAMES', 'Rotation', 'error_of', 'holds', 'simulate', 'to_ns', 'write_take']


def holds(quantities, truth, times=4.0):
    """Check that the values of a result are within so many deviations; return their names."""
    scales = {'lever_arm_m': 1e3, 'gravity': np.degrees(1.0 / 9.80665)}
    for name in NAMES:
        if name in quantities:
            value, sd = quantities[name]['value'], np.atleast_1d(quantities[name]['sd'])
            error = np.abs(error_of(name, value, truth[name]))
            assert (error <= times * sd[:len(error)] * scales.get(name, 1.0)).all(), (name, error)
    return {name for name in NAMES if name in quantities}


def write_take(folder, poses, imu, plugin='MCAP', pose_topic='/wand/pose',
               imu_topic='/imu/data_raw', frame='optitrack', motive_name=''):
    """Write poses and samples with another program, in the order of their arrivals."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    rows = []
    for stamp, place, turn in zip(
            poses.stamps_ns.tolist(), poses.positions.tolist(), poses.quats_xyzw.tolist()):
        pose = make('geometry_msgs/Pose', make('geometry_msgs/Point', *place),
                    make('geometry_msgs/Quaternion', *turn))
        rows.append((stamp + 5_000_000, 0, make(
            'geometry_msgs/PoseStamped', header(stamp, frame), pose)))
    nine = np.zeros(9)
    for stamp, rate, force in zip(
            imu.stamps_ns.tolist(), imu.gyro.tolist(), imu.accelerometer.tolist()):
        rows.append((stamp + 1_000_000, 1, make(
            'sensor_msgs/Imu', header(stamp, 'imu_link'),
            make('geometry_msgs/Quaternion', 0.0, 0.0, 0.0, 1.0), nine,
            make('geometry_msgs/Vector3', *rate), nine,
            make('geometry_msgs/Vector3', *force), nine)))
    topics = [(pose_topic, 'geometry_msgs/msg/PoseStamped'), (imu_topic, 'sensor_msgs/msg/Imu')]
    if motive_name:
        values = [make('diagnostic_msgs/KeyValue', key, value) for key, value in (
            ('state', 'TRACKED'), ('motive_name', motive_name))]
        rows.append((int(poses.stamps_ns[0]), 2, make(
            'diagnostic_msgs/DiagnosticStatus', 0, 'mocap: body wand', 'TRACKED: seen', '',
            values)))
        topics.append(('/wand/status', 'diagnostic_msgs/msg/DiagnosticStatus'))
    rows.sort(key=lambda row: row[0])
    with Writer(folder, version=9, storage_plugin=getattr(StoragePlugin, plugin)) as writer:
        connections = [writer.add_connection(topic, kind, typestore=typestore())
                       for topic, kind in topics]
        for log_ns, number, message in rows:
            writer.write(connections[number], log_ns, cdr(message))
