# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""VRPN: the wire protocol, its client, and the choice between its two transports."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.sources.vrpn.client_io import make_backend, VrpnClient
    from optitrack_vrpn.sources.vrpn.codec import (
        ACCELERATION_TYPE, CONTROL_SENDER, COOKIE_PREFIX, COOKIE_SIZE,
        decode_request, DEFAULT_PORT, encode_cookie, encode_message, encode_motion, encode_name,
        encode_pose, encode_request, encode_text, Event, HEADER, HEADER_SIZE, LocalNames,
        MAX_DATAGRAM_SIZE, MAX_IDS, MAX_NAME_SIZE, MAX_SENDER_SECONDS, padded, PeerHello,
        PING_TYPE, PingReport, PONG_TYPE, PongReport, POSE_MESSAGE, POSE_TYPE, PoseReport,
        RemoteNames, SENDER_DESCRIPTION, SenderDescribed, TEXT_HEAD, TEXT_TYPE, TextReport,
        TYPE_DESCRIPTION, UDP_DESCRIPTION, UdpDescribed, VELOCITY_TYPE)
    from optitrack_vrpn.sources.vrpn.connection import Connection, Counters
    from optitrack_vrpn.sources.vrpn.frames import FrameSink, to_frames
    from optitrack_vrpn.sources.vrpn.handshake_io import (
        connect_back, connect_out, NoAnswerError, ServerAbsentError)
    from optitrack_vrpn.sources.vrpn.probe import (
        Attempt, check_connect_back, check_handshake, check_senders, check_tcp, check_udp,
        explain_silence, Facts, Outcome)
    from optitrack_vrpn.sources.vrpn.python_vrpn_io import sender_time_ns, tracker_address
    from optitrack_vrpn.sources.vrpn.session_io import Session
    from optitrack_vrpn.sources.vrpn.transport import (
        Choice, choose_transport, closes_input, HostFacts, judge_request, Request, Seen)
    from optitrack_vrpn.sources.vrpn.transport_io import (
        find_firewall, find_private_network, find_route, find_transport, remembered_request,
        RequestMemory)
else:
    __all__, __getattr__ = lazy(globals())
