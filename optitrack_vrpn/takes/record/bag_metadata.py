# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Contents that turn an MCAP file into a rosbag2 folder: metadata.yaml (version 9), QoS profiles.

The layout is that of rosbag2 in Jazzy: rosbag2_storage's ``MetadataIo`` and ``QoS`` conversions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import yaml

VERSION = 9
#: Chosen: depth offered to players, because the graph does not contain a publisher's depth.
_DEPTH = 10


#: A QoS profile in the layout of rosbag2.
Qos = Mapping[str, Any]


class _Dumper(yaml.SafeDumper):
    """Write equal parts in full: readers need no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class TopicMetadata(NamedTuple):
    """
    A topic of a bag.

    :ivar type_name: as in ``geometry_msgs/msg/PoseStamped``.
    :ivar qos: the distinct profiles of its publishers.
    :ivar type_hash: ``RIHS01_...``, or '' if unknown.
    """

    name: str
    type_name: str
    qos: Sequence[Qos]
    type_hash: str = ''


def make_qos(reliability: str = 'reliable', durability: str = 'volatile') -> Qos:
    """Make the QoS that a publisher offers."""
    infinite = {'sec': 9223372036, 'nsec': 854775807}    # RMW_DURATION_INFINITE
    return {
        'history': 'keep_last', 'depth': _DEPTH, 'reliability': reliability,
        'durability': durability, 'deadline': infinite, 'lifespan': infinite,
        'liveliness': 'automatic', 'liveliness_lease_duration': infinite,
        'avoid_ros_namespace_conventions': False}


def channel_metadata(topic: TopicMetadata) -> dict[str, str]:
    """Return the metadata that rosbag2 stores with a channel of an MCAP file."""
    return {'offered_qos_profiles': dump(list(topic.qos)),
            'topic_type_hash': topic.type_hash}


def bag_metadata(
    file_name: str, topics: Sequence[tuple[TopicMetadata, int]], start_ns: int, end_ns: int,
    distribution: str, custom: Optional[Mapping[str, str]] = None,
) -> dict[str, Any]:
    """
    Return the content of metadata.yaml.

    :param topics: the topics and their numbers of messages.
    :param distribution: ROS distribution, as in ``jazzy``.
    :param custom: additional pairs of texts.
    """
    count = sum(number for _, number in topics)
    start = {'nanoseconds_since_epoch': start_ns}
    duration = {'nanoseconds': max(end_ns - start_ns, 0)}
    return {'rosbag2_bagfile_information': {
        'version': VERSION,
        'storage_identifier': 'mcap',
        'duration': duration,
        'starting_time': start,
        'message_count': count,
        'topics_with_message_count': [{
            'topic_metadata': {
                'name': topic.name, 'type': topic.type_name, 'serialization_format': 'cdr',
                'offered_qos_profiles': list(topic.qos),
                'type_description_hash': topic.type_hash},
            'message_count': number} for topic, number in topics],
        'compression_format': '', 'compression_mode': '',
        'relative_file_paths': [file_name],
        'files': [{'path': file_name, 'starting_time': start, 'duration': duration,
                   'message_count': count}],
        'custom_data': dict(custom) if custom else None,
        'ros_distro': distribution}}


def dump(data: Any) -> str:
    """Return plain data as YAML, in the given order."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False)
    return text


def topic_of_channel(name: str, type_name: str, metadata: Mapping[str, str]) -> TopicMetadata:
    """
    Restore a topic from its channel, to repair a file.

    Profiles are kept as they are; those that are not valid YAML are replaced by the default.
    """
    try:
        profiles = yaml.safe_load(metadata.get('offered_qos_profiles', ''))
    except yaml.YAMLError:
        profiles = None
    if not (isinstance(profiles, list) and all(isinstance(row, dict) for row in profiles)):
        profiles = [make_qos()]
    return TopicMetadata(name, type_name, profiles, metadata.get('topic_type_hash', ''))
