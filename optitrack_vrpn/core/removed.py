# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of earlier versions that are refused, each with what to do instead."""

_RECORD = ("run record -o FOLDER --topic '*gantry_controller/*', and export the recording with "
           '--format gantry')
#: Commands.
COMMANDS = {
    'compile': 'colcon build and pip compile what they install; --version says how it runs',
    'restamp': 'record a take and run report on it: it has the stamps as received',
    'analyze_stamps': 'record the topic and run report on the take: rate, gaps and age of its '
                      'stamps',
}
#: Arguments of launch files.
LAUNCH_ARGUMENTS = {
    'discovery': 'run "ros2 run optitrack_vrpn discovery_server" in another terminal, and set '
                 'ROS_DISCOVERY_SERVER here as it prints (docs/swarm.md)',
}
LAUNCH_ARGUMENTS['discovery_port'] = LAUNCH_ARGUMENTS['discovery']
LAUNCH_ARGUMENTS['record_folder'] = _RECORD
#: Parameters of nodes, also as ``bodies.NAME.SETTING`` by the name of the setting alone.
SETTINGS: dict[str, str] = {
    'record_folder': _RECORD,
    'lowpass.compensate_delay': 'stamps are those of the frames; the status has the delay of the '
                                'low-pass (lowpass_delay_s)',
    'stamps.in_covariance': 'the status of the clock has uncertainty_us: times the velocity it is '
                            'an error of position',
    'natnet.local_bones': 'switch Local Rigid Bodies off in Motive; relative bones are recognised '
                          'and withheld',
    'own_velocity': 'add odom to outputs, with rates.odom and bodies.NAME.rates.odom',
    'mount.source': 'set mount',
    'mount.xyz': 'set mount_position_m',
    'mount.position_m': 'set mount_position_m',
    'mount.rpy_deg': 'set mount_rpy_deg',
    'method.*': 'set the name without method.',
    **{f'{group}.{name}': f'set {new}' for group, name, new in (
        ('features', 'detector', 'detector'), ('features', 'count', 'keypoints'),
        ('features', 'max_range_m', 'max_range_m'), ('features', 'depth_noise', 'depth_noise'),
        ('model', 'capacity', 'landmarks'), ('keyframes', 'distance_m', 'keyframe_distance_m'),
        ('keyframes', 'angle_rad', 'keyframe_angle_rad'), ('keyframes', 'most', 'most_keyframes'),
        *(('cloud', name, name) for name in (
            'max_range_m', 'depth_noise', 'max_z_m', 'voxel_m')))},
    'predict': 'remove it; the search always begins at the predicted pose',
    **{f'{group}.*': 'remove it; this tuning of the method is fixed now' for group in (
        'features', 'icp', 'refinement', 'model', 'loops', 'graph', 'cloud')},
    **{f'{group}.{name}': f'set {name}' for group, names in (
        ('input', 'depth_unit_m tolerance_s queue frozen_after_s timeout_s colour depth info '
                  'rectified scale'),
        ('output', 'odometry fixed_frame base_frame map_frame tf'),
        ('file', 'folder pcd pattern'), ('camera', 'width height fx fy cx cy rate_hz'),
        ('sensor', 'baseline focal disparity_noise disparity_step near far image_noise'))
        for name in names.split()},
    'mapper.lowpass.order': 'remove it; the order is 5, as in the node',
    'mapper.lowpass.compensate_delay': 'remove it; the delay always corrects the stamps',
    'mapper.stale_after_s': 'set mapper.max_age_s, the same age under the name of the others',
    'mapper.invalid': 'an invalid axis is NaN; datagram.header and json have validity bits',
}
SETTINGS.update(dict.fromkeys(
    (f'qos.own.{name}' for name in ('reliability', 'depth', 'deadline_s', 'lifespan_s')),
    'own is best effort with depth 1 and a deadline of 100 ms; for other qualities of service '
    'take pose, with rates.pose and qos.*'))
SETTINGS.update(dict.fromkeys(
    (f'topics.{name}' for name in ('rigid_body_array', 'point_cloud', 'marker_array')),
    'its readers expect the one name; for another, remap the topic'))
#: Values of parameters.
VALUES: dict[str, str] = {
    'tcp:': 'use udpin or udpout of the bridge; start the simulator of ArduPilot with '
            '--serial2 udpclient:127.0.0.1:14540, and put a router such as mavlink-router between '
            'the bridge and a peer that offers TCP alone',
    'csv': 'take json, or the documented binary with datagram.header',
    'integral': 'take kalman',
    'uniform': 'take gamma or exponential',
    'joint_states': 'take skeleton_tf, and compute angles from the transforms of two bones',
}
#: Options of commands, as ``COMMAND --option``.
OPTIONS: dict[str, str] = {
    'calibrate --pivot': 'put the tip on marks that are known, and give --placements',
    **{f'{simulator} --stamp-in-pose': 'leave it out; a pose has its true place'
       for simulator in ('motive_sim', 'gantry_sim', 'imu_sim', 'rgbd_sim')},
    'demo --autopilot': 'run the demo, and mavlink_bridge in its ROS_DOMAIN_ID against a '
                        'simulator of the autopilot (docs/autopilot.md)',
}
#: Keys of YAML files that are no parameters.
KEYS: dict[str, str] = {
    'gain': 'only the action integral had it; remove the key, and take action: kalman',
    'stamp_in_pose': 'remove the key; a pose has its true place',
    'send_buffer': 'remove the key; the simulated server has the buffer of a usual one',
    'faulty_bone': 'remove the key; skeleton_faults are those of all bones',
    'repeat_unlabelled': 'remove the key; unlabelled markers are repeated as by Motive',
}


def refusal(table: dict[str, str], name: str) -> str:
    """
    Return the sentence with which a removed name is refused; '' for any other name.

    :param table: the table of its kind.
    :param name: the name as the user gave it; ``GROUP.*`` in a table stands for its group.
    """
    found = table.get(name) or table.get(f'{name.partition(".")[0]}.*')
    return f'{name} was removed: {found}' if found else ''
