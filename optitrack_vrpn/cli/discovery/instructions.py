# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of a Discovery Server set; Fast DDS documentation, "Discovery Server"."""

from collections.abc import Sequence

#: Default UDP port of the server, and prefix of the GUID of the server with id 0.
PORT = 11811
_PREFIX = '44.53.00.5f.45.50.52.4f.53.49.4d.41'


def for_robots(addresses: Sequence[str], port: int) -> list[str]:
    """
    Write what is to be set on robots and for tools, one line each.

    :param addresses: addresses of this computer.
    :param port: UDP port of the server.
    """
    first, *others = addresses or ['127.0.0.1']
    other = f' (or {", ".join(others)}: the one that the robot reaches)' if others else ''
    return [
        f'Discovery Server on UDP port {port} of this computer.',
        'Each robot, before its programs start: export '
        f'ROS_DISCOVERY_SERVER={first}:{port}{other}',
        'Tools that list nodes and topics (ros2, rviz2) also: export ROS_SUPER_CLIENT=TRUE; then '
        'ros2 daemon stop. The tools of this package do so themselves',
        'Tools of Humble, and programs configured by XML: ros2 run optitrack_vrpn '
        f'discovery_server --xml {first}:{port} > super_client.xml; export '
        'FASTRTPS_DEFAULT_PROFILES_FILE=super_client.xml',
        'Programs without these do not see the node: all need them, on this computer too. The '
        'server does not separate domains: programs of any ROS_DOMAIN_ID meet.']


def super_client_profile(address: str, port: int) -> str:
    """
    Write a profile of Fast DDS with the effect of both variables.

    :param address: IPv4 address of the server.
    :param port: its UDP port.
    """
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<dds xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <profiles>
    <participant profile_name="super_client" is_default_profile="true">
      <rtps>
        <builtin>
          <discovery_config>
            <discoveryProtocol>SUPER_CLIENT</discoveryProtocol>
            <discoveryServersList>
              <RemoteServer prefix="{_PREFIX}">
                <metatrafficUnicastLocatorList>
                  <locator><udpv4><address>{address}</address><port>{port}</port></udpv4></locator>
                </metatrafficUnicastLocatorList>
              </RemoteServer>
            </discoveryServersList>
          </discovery_config>
        </builtin>
      </rtps>
    </participant>
  </profiles>
</dds>
"""
