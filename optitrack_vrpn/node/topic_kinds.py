# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The kinds of output of the node: their only definition.

Publishers, the parameter ``outputs`` and the table in docs/parameters.md are made from ``KINDS``.
This file imports no ROS, so that documents can be generated without it: types and functions are
given by name, and ``body_output.py`` resolves them.
"""

from dataclasses import make_dataclass
import enum
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.core.settings.schema import Change, checked, setting


class Computed(enum.Enum):
    """When an output is computed and published."""

    EVERY_POSE = 'with every pose'
    SUBSCRIBED = 'with every pose while it has subscribers'
    MOTION = 'while it has subscribers; starts the motion estimate'
    STATE = 'at most 0.1 s after a change of state that lasts as long, and every second'
    FRAME = 'once a frame, at most `rates.poses`, while it has subscribers'


class Content(enum.IntEnum):
    """What a message of one body is filled with; from ODOMETRY on with an estimate of motion."""

    NOTHING = 0
    POSE = 1
    NED = 2
    POSE_COVARIANCE = 3
    ODOMETRY = 4
    TWIST = 5
    ACCEL = 6


class TopicKind(NamedTuple):
    """
    A kind of output.

    :ivar name: as in the parameter ``outputs``.
    :ivar message: its ROS type.
    :ivar topic: default topic; without ``{body}`` if all bodies share it.
    :ivar enabled: whether it is on by default.
    :ivar computed: when it is computed.
    :ivar meaning: its content, for users.
    :ivar world: 'enu' or 'ned', the world frame of its header; '' without a frame.
    :ivar fill: the function of ``messages.py`` that writes stamp and groups of numbers into a
        message; '' if another file does.
    :ivar sizes: number of values in each group.
    :ivar content: what these values are; ``receiver.py`` reads them from a sample.
    :ivar needs: what the source must send for it beyond poses, see ``drivers.table.SourceKind``.
    :ivar rate_hz: default of its setting ``rates``, 0 for every pose; None if it has no such
        setting.
    """

    name: str
    message: str
    topic: str
    enabled: bool
    computed: Computed
    meaning: str
    world: str = 'enu'
    fill: str = ''
    sizes: tuple[int, ...] = ()
    content: Content = Content.NOTHING
    needs: str = ''
    rate_hz: Optional[float] = None

    @property
    def per_body(self) -> bool:
        """Return whether each body has its own topic of this kind."""
        return '{body}' in self.topic


KINDS: dict[str, TopicKind] = {kind.name: kind for kind in (
    TopicKind(
        'pose', 'geometry_msgs/msg/PoseStamped', '{body}/pose', True, Computed.EVERY_POSE,
        'pose in ENU', 'enu', 'fill_pose', (3, 4),
        content=Content.POSE, rate_hz=0.0),
    TopicKind(
        'pose_ned', 'geometry_msgs/msg/PoseStamped', '{body}/pose_ned', True,
        Computed.SUBSCRIBED, 'pose in NED', 'ned', 'fill_pose', (3, 4),
        content=Content.NED, rate_hz=0.0),
    TopicKind(
        'own', 'geometry_msgs/msg/PoseStamped', '{body}/{kind}', False, Computed.SUBSCRIBED,
        'pose in ENU for the robot itself, over WiFi: 50 Hz (`rates.own`), best effort, '
        'depth 1, deadline 100 ms', 'enu', 'fill_pose', (3, 4),
        content=Content.POSE, rate_hz=50.0),
    TopicKind(
        'tf', 'tf2_msgs/msg/TFMessage', '/tf', True, Computed.SUBSCRIBED,
        'transforms in ENU, one message a frame', rate_hz=0.0),
    TopicKind(
        'tf_ned', 'tf2_msgs/msg/TFMessage', '/tf', True, Computed.SUBSCRIBED,
        'transforms in NED, in the same message, and the NED world in the ENU world on /tf_static',
        'ned'),
    TopicKind(
        'tf_view', 'tf2_msgs/msg/TFMessage', '_tf_view', True, Computed.SUBSCRIBED,
        'transforms in ENU for the dashboard, at 30 Hz (`rates.tf_view`); a hidden name, so that '
        'recorders do not record transforms twice', rate_hz=30.0),
    TopicKind(
        'pose_cov', 'geometry_msgs/msg/PoseWithCovarianceStamped', '{body}/{kind}', False,
        Computed.SUBSCRIBED, 'pose in ENU with covariance', 'enu', 'fill_pose_cov', (3, 4, 36),
        content=Content.POSE_COVARIANCE, rate_hz=0.0),
    TopicKind(
        'odom', 'nav_msgs/msg/Odometry', '{body}/{kind}', False, Computed.MOTION,
        "odometry: pose in ENU, twist in the body's axes", 'enu', 'fill_odometry',
        (3, 4, 36, 3, 3, 36),
        content=Content.ODOMETRY, rate_hz=0.0),
    TopicKind(
        'twist', 'geometry_msgs/msg/TwistStamped', '{body}/{kind}', False, Computed.MOTION,
        "velocity along ENU's axes", 'enu', 'fill_twist', (3, 3),
        content=Content.TWIST, rate_hz=0.0),
    TopicKind(
        'accel', 'geometry_msgs/msg/AccelStamped', '{body}/{kind}', False, Computed.MOTION,
        "acceleration along ENU's axes", 'enu', 'fill_accel', (3, 3),
        content=Content.ACCEL, rate_hz=0.0),
    TopicKind(
        'pose_2d', 'geometry_msgs/msg/Pose2D', '{body}/{kind}', False, Computed.SUBSCRIBED,
        'x, y and heading in ENU, without a stamp, as mocap_optitrack publishes them', '',
        'fill_pose_2d', (3, 4),
        content=Content.POSE, rate_hz=0.0),
    TopicKind(
        'status', 'diagnostic_msgs/msg/DiagnosticStatus', '{body}/{kind}', True,
        Computed.STATE, "the body's state, latched", ''),
    TopicKind(
        'markers', 'sensor_msgs/msg/PointCloud2', 'markers', False, Computed.SUBSCRIBED,
        'markers in ENU with body, member, residual and whether they are labelled (NatNet only)',
        needs='markers'),
    TopicKind(
        'named_markers', 'mocap4r2_msgs/msg/Markers', 'named_markers', False,
        Computed.SUBSCRIBED, 'the same markers as MOCAP4ROS2 programs read them',
        needs='markers'),
    TopicKind(
        'marker_array', 'mocap_interfaces/msg/MarkerArray', 'marker_array', False,
        Computed.SUBSCRIBED, 'the same markers as the draft REP on motion capture has them',
        needs='markers'),
    TopicKind(
        'point_cloud', 'sensor_msgs/msg/PointCloud2', 'pointCloud', False, Computed.SUBSCRIBED,
        'the same markers as x, y, z alone, as motion_capture_tracking publishes them',
        needs='markers'),
    TopicKind(
        'skeleton_tf', 'tf2_msgs/msg/TFMessage', '/tf', False, Computed.SUBSCRIBED,
        'a transform for each bone, `<skeleton>_<bone>` (NatNet only)', needs='skeletons'),
    TopicKind(
        'skeletons', 'visualization_msgs/msg/MarkerArray', 'skeletons', False,
        Computed.SUBSCRIBED, 'line figures of skeletons for rviz', needs='skeletons'),
    TopicKind(
        'bones', 'mocap4r2_msgs/msg/RigidBodies', 'bones', False, Computed.SUBSCRIBED,
        'a rigid body for each bone', needs='skeletons'),
    TopicKind(
        'wrench', 'geometry_msgs/msg/WrenchStamped', '{model}/wrench', False,
        Computed.SUBSCRIBED, 'force and moment of each force plate, and its frame on /tf',
        needs='plates'),
    TopicKind(
        'poses', 'motion_capture_tracking_interfaces/msg/NamedPoseArray', 'poses', False,
        Computed.FRAME, 'poses in ENU of all bodies that are TRACKED, for Crazyswarm2',
        # Crazyswarm2 warns outside 80 to 120 Hz and sends each frame by radio.
        rate_hz=100.0),
    TopicKind(
        'poses_v2', 'motion_capture_tracking_interfaces/msg/NamedPoseArrayV2', 'poses_v2', False,
        Computed.FRAME, 'the same with the time of exposure and the latencies of camera and '
        'Motive; 0 and none if they are not sent (VRPN)'),
    TopicKind(
        'rigid_bodies', 'mocap4r2_msgs/msg/RigidBodies', 'rigid_bodies', False, Computed.FRAME,
        'the same for MOCAP4ROS2 programs and Aerostack2; with the markers of each body if an '
        'output of markers is on'),
    TopicKind(
        'rigid_body_array', 'mocap_interfaces/msg/RigidBodyArray', 'rigid_body_array', False,
        Computed.FRAME, 'the same as the draft REP on motion capture has it, likewise with '
        'markers'),
    TopicKind(
        'pose_array', 'geometry_msgs/msg/PoseArray', 'pose_array', False, Computed.FRAME,
        'the same without names, for viewers'),
)}

#: What a server can send itself (``velocity_source``).
SERVER_CONTENTS = frozenset((Content.TWIST, Content.ACCEL))
DEFAULT_OUTPUTS = tuple(kind.name for kind in KINDS.values() if kind.enabled)
#: Kinds of skeletons and force plates.
MODEL_KINDS = frozenset(
    kind.name for kind in KINDS.values() if kind.needs in ('skeletons', 'plates'))


def markdown_table() -> str:
    """Write the table of all outputs for docs/parameters.md."""
    lines = ['| output | type | topic | by default | meaning | published |',
             '|---|---|---|---|---|---|']
    for kind in KINDS.values():
        lines.append(
            f'| `{kind.name}` | {kind.message} | `{kind.topic.replace("{kind}", kind.name)}` '
            f'| {"on" if kind.enabled else "off"} | {kind.meaning} | '
            f'{"" if kind.computed is Computed.SUBSCRIBED else kind.computed.value} |')
    return '\n'.join(lines) + '\n'


_MEANING = {
    'tf': 'highest rate of transforms of bodies, in both worlds; 0: every frame',
    'tf_view': 'highest rate of tf_view; 0: every frame',
    'poses': ('highest rate of poses, poses_v2, pose_array, rigid_bodies and rigid_body_array; '
              '0: every frame')}
#: The output whose rate that of another follows.
FOLLOWS = {'tf_ned': 'tf'}


def _settings(name: str, of_body: bool) -> Any:
    made: Any = make_dataclass(name, [
        (kind.name, float, setting(
            kind.rate_hz, unit='Hz', low=0.0, high=10000.0, change=Change.ANY_TIME, doc=(
                _MEANING.get(kind.name, f'highest rate of {kind.name}; 0: every pose'))))
        for kind in KINDS.values()
        if kind.rate_hz is not None and (not of_body or kind.per_body or kind.name == 'tf')],
        frozen=True)
    return checked(made)()


#: Default rates of all bodies, and the ones that a single body can have.
RATES = _settings('RateSettings', False)
BODY_RATES = _settings('BodyRateSettings', True)
