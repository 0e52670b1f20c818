# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Parameters of other motion capture drivers, and what stands for them here.

docs/migrate.md has the same rows. A parameter file of such a driver is recognised by them.
"""

from collections.abc import Iterable

_NO_POLL = 'none: each pose is published when it arrives'
_NO_SEARCH = 'none: a body has its topics from its first pose on'
_NO_SENSORS = 'none: sensors have no topics of their own'
_EXPOSURE = 'stamps.mode'
_BY_MOTIVE = 'none: Motive fits the bodies'
_NO_LOG = 'none: the report of a take shows it'
_VRPN = {
    'server': 'server', 'port': 'port', 'frame_id': 'frames.world'}
_NATNET_ROS2 = {
    'serverIP': 'server', 'clientIP': 'interface', 'serverType': 'natnet.transport',
    'multicastAddress': 'natnet.group', 'serverCommandPort': 'natnet.port',
    'serverDataPort': 'none: Motive states it', 'global_frame': 'frames.world',
    'remove_latency': _EXPOSURE, 'pub_rigid_body': 'outputs: pose',
    'pub_rigid_body_marker': 'outputs: markers', 'pub_individual_marker': 'none: name bodies',
    'individual_marker_msg_type': 'none: name bodies', 'object_names': 'none: name bodies',
    'pub_pointcloud': 'outputs: point_cloud', 'activate': 'activate',
    'log_internals': 'none: log_level:=debug', 'log_frames': _NO_LOG, 'log_latencies': _NO_LOG}

#: Old names and new ones, by driver; an old name is also the section of others.
PEERS: dict[str, dict[str, str]] = {
    'vrpn_mocap': {
        **_VRPN, 'update_freq': _NO_POLL, 'refresh_freq': _NO_SEARCH, 'multi_sensor': _NO_SENSORS,
        'use_vrpn_timestamps': _EXPOSURE, 'sensor_data_qos': 'qos.reliability: best_effort'},
    'vrpn_client_ros': {
        **_VRPN, 'update_frequency': _NO_POLL, 'refresh_tracker_frequency': _NO_SEARCH,
        'trackers': 'bodies.allow', 'use_server_time': _EXPOSURE,
        'broadcast_tf': 'outputs: tf', 'process_sensor_id': _NO_SENSORS},
    'mocap4r2_optitrack': {
        'connection_type': 'natnet.transport', 'server_address': 'server',
        'local_address': 'interface', 'multicast_address': 'natnet.group',
        'server_command_port': 'natnet.port', 'server_data_port': 'none: Motive states it',
        'qos_reliability_policy': 'qos.reliability', 'qos_depth': 'qos.depth',
        'qos_history_policy': 'none: the last qos.depth messages', 'rigid_body_name': 'none',
        'lastFrameNumber': 'none', 'frameCount': 'none', 'droppedFrameCount': 'none',
        'n_markers': 'none', 'n_unlabeled_markers': 'none'},
    'natnet_ros2': _NATNET_ROS2,
    'motion_capture_tracking': {
        'type': 'protocol', 'hostname': 'server', 'interface_ip': 'interface',
        'topics.frame_id': 'frames.world', 'topics.poses.qos.mode': 'qos.poses',
        'topics.poses.qos.deadline': 'qos.poses: deadline',
        'topics.tf.child_frame_id': 'frames.body',
        'topics.poses.version': 'outputs: poses or poses_v2', 'logfilepath': 'none: record',
        'marker_configurations': _BY_MOTIVE, 'dynamics_configurations': _BY_MOTIVE},
    'mocap_optitrack': {
        'rigid_bodies': 'bodies.allow, by name', 'optitrack_config.multicast_address':
        'natnet.group', 'optitrack_config.command_port': 'natnet.port',
        'optitrack_config.data_port': 'none: Motive states it',
        'optitrack_config.enable_optitrack': 'activate'},
    'ros2_vicon_receiver': {
        'hostname': 'server', 'world_frame': 'frames.world', 'vicon_frame': 'none',
        'map_xyz': 'world_offset.origin, of the inverse', 'map_rpy': 'world_offset.yaw, inverse',
        'map_rpy_in_degrees': 'none: rad', 'buffer_size': 'none',
        'namespace': 'topics.pose, topics.other'},
}


def of_other_drivers(names: Iterable[str]) -> str:
    """
    Describe those parameters that another driver has.

    :param names: names that this node does not have.
    :returns: one sentence; '' if none is of another driver.
    """
    found: dict[str, str] = {}
    for name in names:
        for rows in PEERS.values():
            for old, new in rows.items():
                if name == old or name.startswith(f'{old}.'):
                    found.setdefault(old, new)
    if not found:
        return ''
    listed = ', '.join(f'{old} ({"here " if not new.startswith("none") else ""}{new})'
                       for old, new in found.items())
    return f'parameters of another driver, see docs/migrate.md: {listed}'
