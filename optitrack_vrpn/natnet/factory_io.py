# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Create the backend of the settings: VRPN, NatNet, or the one of the two that streams."""

from optitrack_vrpn.client.backend_io import Backend, Sink
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.client.factory_io import make_backend as make_vrpn_backend
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.natnet.settings import AUTO, NatNetConfig, PROTOCOLS


def make_backend(
    protocol: str, config: ClientConfig, natnet: NatNetConfig, sink: Sink, up_axis: str = '',
) -> Backend:
    """
    Make the backend that the settings ask for.

    :param protocol: one of PROTOCOLS.
    :param up_axis: the axis that the user takes for up ('y' or 'z'), for comparison; '' for none.
    :raises ConfigurationError: for another protocol, or a server that cannot be searched.
    """
    if protocol not in PROTOCOLS:
        raise ConfigurationError(
            f'protocol is {protocol!r}; allowed are {", ".join(PROTOCOLS)}')
    if protocol == 'vrpn':
        if config.server == AUTO:
            raise ConfigurationError(
                'server: auto needs protocol natnet or auto: VRPN servers cannot be searched')
        return make_vrpn_backend(config, sink)
    # Imported where used: a node for VRPN starts sooner without them.
    if protocol == 'natnet':
        from optitrack_vrpn.natnet.client_io import NatNetClient
        return NatNetClient(config, natnet, sink, up_axis=up_axis)
    from optitrack_vrpn.natnet.choice_io import AutoBackend
    return AutoBackend(config, natnet, sink, up_axis)
