# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sources of frames: what they deliver, whatever the protocol, and the table of protocols."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.sources.automatic_io import AutomaticSource
    from optitrack_vrpn.sources.choice import Choice, Patience
    from optitrack_vrpn.sources.client_io import (
        LinkStatus, Sink, Source, Stopped, use_batch_scheduling, use_default_scheduling, Waiting)
    from optitrack_vrpn.sources.config import ClientConfig, CONNECTIONS, LinkConfig
    from optitrack_vrpn.sources.frames import (
        Body, Extras, Frame, Item, Marker, Motion, Plate, PlateModel, Quaternion, RoundTrip,
        ServerText, Skeleton, SkeletonModel, Vector)
    from optitrack_vrpn.sources.link import Link, link_event, LinkLog, LinkState, LossWatch
    from optitrack_vrpn.sources.probing import Heard, Place, Probe, Tap
    from optitrack_vrpn.sources.sockets_io import (
        card_address, card_of, datagram_socket, is_unused, local_address, Lookup, multicast_socket,
        receive_into, Waker)
    from optitrack_vrpn.sources.table import (
        AUTO, check_server, client_of, DEFAULT, lacking, load, make_source, own_port, own_settings,
        port_parameter, Recorder, recording_wanted, source_settings, SourceKind, SourceOptions,
        SOURCES, title, using)
else:
    __all__, __getattr__ = lazy(globals())
