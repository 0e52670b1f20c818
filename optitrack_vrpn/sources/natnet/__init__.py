# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet, OptiTrack's own protocol, and its client."""

import importlib
from typing import Any, TYPE_CHECKING

from optitrack_vrpn.sources.natnet import codec
from optitrack_vrpn.sources.natnet.codec import encode_hello
from optitrack_vrpn.sources.natnet.connection import bitstream_version, Connection, KEEP_ALIVE
from optitrack_vrpn.sources.natnet.definitions import decode_definitions, encode_definitions
from optitrack_vrpn.sources.natnet.facts import ServerWatch
from optitrack_vrpn.sources.natnet.frames import decode_frame, encode_frame
from optitrack_vrpn.sources.natnet.messages import (
    Analog, BODY, Body, BODY_TRACKING_VALID, CERTAIN, COMMAND_PORT, DATA_PORT, Disconnected, Echo,
    Frame, FRAME_BITSTREAM_CHANGED, FRAME_EDIT_MODE, FRAME_MODELS_CHANGED, FRAME_RECORDING, Held,
    Marker, MARKER_ACTIVE, MARKER_OCCLUDED, MARKER_UNLABELLED, MAX_PAYLOAD, MessageId,
    MULTICAST_GROUP, NEWEST, OLDEST, Response, ServerInfo, Skeleton, SUFFIX_4_1, Unanswered,
    Unrecognized, Untimed, Version)
from optitrack_vrpn.sources.natnet.models import (
    AssetDefinition, AssetMarker, BodyDefinition, CameraDefinition, Definitions, DeviceDefinition,
    ModelMarker, PlateDefinition, SkeletonDefinition)
from optitrack_vrpn.sources.natnet.reports import name_table, Translator
from optitrack_vrpn.sources.natnet.settings import NatNetConfig

if TYPE_CHECKING:
    from optitrack_vrpn.sources.natnet.client_io import (
        choose_server, discovered, find_server, NatNetClient, without_ended_recordings)
else:
    #: Imported at first use: what opens sockets.
    _HOMES = {name: module for module, names in {
        'client_io': 'choose_server discovered find_server NatNetClient without_ended_recordings',
    }.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)

__all__ = [
    'Analog', 'AssetDefinition', 'AssetMarker', 'BODY', 'BODY_TRACKING_VALID', 'Body',
    'BodyDefinition', 'CERTAIN', 'COMMAND_PORT', 'CameraDefinition', 'Connection', 'DATA_PORT',
    'Definitions', 'DeviceDefinition', 'Disconnected', 'Echo', 'FRAME_BITSTREAM_CHANGED',
    'FRAME_EDIT_MODE', 'FRAME_MODELS_CHANGED', 'FRAME_RECORDING', 'Frame', 'Held', 'KEEP_ALIVE',
    'MARKER_ACTIVE', 'MARKER_OCCLUDED', 'MARKER_UNLABELLED', 'MAX_PAYLOAD', 'MULTICAST_GROUP',
    'Marker', 'MessageId', 'ModelMarker', 'NEWEST', 'NatNetClient', 'NatNetConfig', 'OLDEST',
    'PlateDefinition', 'Response', 'SUFFIX_4_1', 'ServerInfo', 'ServerWatch', 'Skeleton',
    'SkeletonDefinition', 'Translator', 'Unanswered', 'Unrecognized', 'Untimed', 'Version',
    'bitstream_version', 'choose_server', 'codec', 'decode_definitions', 'decode_frame',
    'discovered', 'encode_definitions', 'encode_frame', 'encode_hello', 'find_server',
    'name_table', 'without_ended_recordings']
