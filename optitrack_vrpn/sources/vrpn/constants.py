# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Numbers and names of the VRPN wire protocol.

Source: recorded sessions of VRPN 07.38 (``test/data``). The limits of names and tables are those
of the VRPN library's tables.
"""

import struct
from typing import Final

#: The port that VRPN servers, Motive among them, listen on for UDP requests and for TCP.
DEFAULT_PORT = 3883

#: Beginning of every cookie, before the major version.
COOKIE_PREFIX = b'vrpn: ver. '
MAJOR_VERSION = 7
MINOR_VERSION = 38
COOKIE_SIZE = 24

#: Length, seconds, microseconds, sender, type, sequence; big-endian.
HEADER = struct.Struct('>IIIiiI')
HEADER_SIZE = HEADER.size
#: Messages are padded to a multiple of this number of bytes.
ALIGNMENT = 8

#: System messages have negative types.
SENDER_DESCRIPTION = -1
TYPE_DESCRIPTION = -2
UDP_DESCRIPTION = -3
LOG_DESCRIPTION = -4
DISCONNECT = -5

#: Sender of the VRPN library's own messages; not a tracker.
CONTROL_SENDER = 'VRPN Control'

#: The types that every peer describes first, under the ids 0 to 3.
GOT_FIRST_CONNECTION = 'VRPN_Connection_Got_First_Connection'
GOT_CONNECTION = 'VRPN_Connection_Got_Connection'
DROPPED_CONNECTION = 'VRPN_Connection_Dropped_Connection'
DROPPED_LAST_CONNECTION = 'VRPN_Connection_Dropped_Last_Connection'
CONNECTION_TYPES = (
    GOT_FIRST_CONNECTION, GOT_CONNECTION, DROPPED_CONNECTION, DROPPED_LAST_CONNECTION)

POSE_TYPE = 'vrpn_Tracker Pos_Quat'
VELOCITY_TYPE = 'vrpn_Tracker Velocity'
ACCELERATION_TYPE = 'vrpn_Tracker Acceleration'
TEXT_TYPE = 'vrpn_Base text_message'
PING_TYPE = 'vrpn_Base ping_message'
PONG_TYPE = 'vrpn_Base pong_message'

#: Sensor, filler, position (m), quaternion x y z w.
POSE_PAYLOAD = struct.Struct('>i4x7d')
#: Sensor, filler, vector, quaternion x y z w, dt (s); velocity and acceleration alike.
MOTION_PAYLOAD = struct.Struct('>i4x8d')
#: Severity, level; then the text.
TEXT_HEAD = struct.Struct('>II')
TEXT_SIZE = 1024
#: A pose in a datagram: header and payload together.
POSE_MESSAGE = struct.Struct('>IIIiiIi4x7d')

TEXT_NORMAL = 0
TEXT_WARNING = 1
TEXT_ERROR = 2

#: The library's tables: names with their NUL fit in 100 bytes, ids run from 0 to 1999.
MAX_NAME_SIZE = 100
MAX_IDS = 2000
#: Size of the library's TCP buffer (bytes), which limits the length of a message.
MAX_MESSAGE_SIZE = 64000
#: Largest payload of a datagram of the library: an Ethernet frame without IP and UDP headers.
MAX_DATAGRAM_SIZE = 1472

#: Seconds are 32 bits unsigned on the wire. Larger values (after the year 2096) are negative
#: numbers or invalid data.
MAX_SENDER_SECONDS: Final = 4_000_000_000
