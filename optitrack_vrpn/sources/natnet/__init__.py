# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet, OptiTrack's own protocol, and its client."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.sources.natnet.client_io import (
        choose_server, discovered, find_server, NatNetClient, without_ended_recordings)
    from optitrack_vrpn.sources.natnet.codec import encode_hello
    from optitrack_vrpn.sources.natnet.connection import bitstream_version, Connection, KEEP_ALIVE
    from optitrack_vrpn.sources.natnet.definitions import decode_definitions, encode_definitions
    from optitrack_vrpn.sources.natnet.facts import ServerWatch
    from optitrack_vrpn.sources.natnet.frames import decode_frame, encode_frame
    from optitrack_vrpn.sources.natnet.messages import (
        Analog, AssetDefinition, BODY, Body, BODY_TRACKING_VALID, BodyDefinition, CERTAIN,
        COMMAND_PORT, DATA_PORT, Definitions, Disconnected, Echo, Frame, FRAME_BITSTREAM_CHANGED,
        FRAME_EDIT_MODE, FRAME_MODELS_CHANGED, FRAME_RECORDING, Held, Marker, MARKER_ACTIVE,
        MARKER_OCCLUDED, MARKER_UNLABELLED, MAX_PAYLOAD, MessageId, MULTICAST_GROUP, NEWEST,
        OLDEST, PlateDefinition, Response, ServerInfo, Skeleton, SkeletonDefinition, SUFFIX_4_1,
        Unanswered, Unrecognized, Untimed, Version)
    from optitrack_vrpn.sources.natnet.probe import (
        check_echoes, check_port, explain_silence, Facts)
    from optitrack_vrpn.sources.natnet.reports import name_table, seen_markers, Translator
    from optitrack_vrpn.sources.natnet.settings import NatNetConfig
else:
    __all__, __getattr__ = lazy(globals())
