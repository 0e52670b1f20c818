# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Numbers of the NatNet wire protocol: ports, message types, versions, fixed structs.

All integers are little-endian and packed. The layouts were observed in captures of Motive 1.7.2,
1.9.0 and 2.1 and compared with independent decoders for later versions; see docs/natnet.md.
"""

import struct

#: UDP port for commands (server) and for multicast data; multicast group of the data.
COMMAND_PORT = 1510
DATA_PORT = 1511
MULTICAST_GROUP = '239.255.42.99'

#: Message id and length of the payload.
HEADER = struct.Struct('<HH')
HEADER_SIZE = HEADER.size
#: The largest payload of one UDP datagram over IPv4, minus the header.
MAX_PAYLOAD = 65503

CONNECT = 0
SERVER_INFO = 1
REQUEST = 2
RESPONSE = 3
REQUEST_MODEL_DEFINITIONS = 4
MODEL_DEFINITIONS = 5
REQUEST_FRAME = 6
FRAME = 7
MESSAGE_STRING = 8
DISCONNECT = 9
KEEP_ALIVE = 10
DISCONNECT_BY_TIMEOUT = 11
ECHO_REQUEST = 12
ECHO_RESPONSE = 13
DISCOVERY = 14
UNRECOGNIZED_REQUEST = 100

#: Name, application version, NatNet version.
SENDER = struct.Struct('<256s4B4B')
#: Clock frequency (ticks per second), data port, multicast, group address; from 3.0 on.
SERVER_CLOCK = struct.Struct('<QHB4B')
#: Subscribed data only, version of the bitstream; from 4.0 on.
CONNECT_OPTIONS = struct.Struct('<5B')
ECHO_TOKEN = struct.Struct('<Q')
ECHO_ANSWER = struct.Struct('<QQ')

#: Versions that change layouts.
V2_7 = (2, 7)
V2_9 = (2, 9)
V2_11 = (2, 11)
V3_0 = (3, 0)
V4_0 = (4, 0)
V4_1 = (4, 1)
V4_2 = (4, 2)
#: The oldest supported version, and the newest whose sections are all known.
OLDEST = V2_7
NEWEST = V4_2

#: Id, position, quaternion x y z w, mean marker error, parameters: from 3.0 on.
BODY = struct.Struct('<i3f4ffh')
#: The same up to the quaternion; before 3.0 the markers follow.
BODY_HEAD = struct.Struct('<i3f4f')
BODY_TAIL = struct.Struct('<fh')
#: Id, position, size, parameters, residual (m): from 3.0 on; before that without the residual.
LABELLED_MARKER = struct.Struct('<i3ffhf')
LABELLED_MARKER_2 = struct.Struct('<i3ffh')

#: Latency (s), time code, subframe, timestamp (s), parameters, end: before 3.0.
SUFFIX_2 = struct.Struct('<fIIdhI')
#: Time code, subframe, timestamp, mid-exposure, data received, transmit, parameters, end.
SUFFIX_3 = struct.Struct('<IIdQQQhI')
#: The same with PTP seconds and fraction before the parameters: from 4.1 on.
SUFFIX_4_1 = struct.Struct('<IIdQQQIIhI')

#: Parameters of a frame.
FRAME_RECORDING = 1
FRAME_MODELS_CHANGED = 2
FRAME_EDIT_MODE = 4
FRAME_BITSTREAM_CHANGED = 8
#: Parameters of a body and of a marker.
BODY_TRACKING_VALID = 1
MARKER_OCCLUDED = 1

#: Types of model definitions.
MARKER_SET = 0
RIGID_BODY = 1
SKELETON = 2
FORCE_PLATE = 3
DEVICE = 4
CAMERA = 5
#: Mask of types for one Motive 3.1 that does not answer an empty request.
MARKER_SETS_AND_BODIES = (1 << MARKER_SET) | (1 << RIGID_BODY)
#: Longest accepted name (bytes); Motive allows shorter names only.
MAX_NAME = 256
