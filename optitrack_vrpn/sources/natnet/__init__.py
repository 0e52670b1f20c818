# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet, OptiTrack's own protocol, and its client."""

import importlib
from typing import Any, TYPE_CHECKING

from optitrack_vrpn.sources.natnet.codec import (
    decode_definitions, encode_definitions, encode_hello)
from optitrack_vrpn.sources.natnet.connection import bitstream_version, Connection
from optitrack_vrpn.sources.natnet.facts import ServerWatch
from optitrack_vrpn.sources.natnet.frames import decode_frame, encode_frame
from optitrack_vrpn.sources.natnet.messages import (
    BODY, Body, BODY_TRACKING_VALID, BodyDefinition, COMMAND_PORT, DATA_PORT, Definitions,
    Disconnected, Echo, Frame, FRAME_BITSTREAM_CHANGED, FRAME_EDIT_MODE, FRAME_MODELS_CHANGED,
    FRAME_RECORDING, Held, Marker, MARKER_OCCLUDED, MAX_PAYLOAD, MessageId, MULTICAST_GROUP,
    NEWEST, OLDEST, Response, ServerInfo, SUFFIX_4_1, Unanswered, Unrecognized, Untimed, Version)
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
    'BODY', 'BODY_TRACKING_VALID', 'Body', 'BodyDefinition', 'COMMAND_PORT', 'Connection',
    'DATA_PORT', 'Definitions', 'Disconnected', 'Echo', 'FRAME_BITSTREAM_CHANGED',
    'FRAME_EDIT_MODE', 'FRAME_MODELS_CHANGED', 'FRAME_RECORDING', 'Frame', 'Held',
    'MARKER_OCCLUDED', 'MAX_PAYLOAD', 'MULTICAST_GROUP', 'Marker', 'MessageId', 'NEWEST',
    'NatNetClient', 'NatNetConfig', 'OLDEST', 'Response', 'SUFFIX_4_1', 'ServerInfo',
    'ServerWatch', 'Translator', 'Unanswered', 'Unrecognized', 'Untimed', 'Version',
    'bitstream_version', 'choose_server', 'decode_definitions', 'decode_frame', 'discovered',
    'encode_definitions', 'encode_frame', 'encode_hello', 'find_server', 'name_table',
    'without_ended_recordings']
