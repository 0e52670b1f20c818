# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
#
# Two images from one file:
#   docker build -t optitrack_vrpn .                                        Debian, ROS 2 from PyPI
#   docker build -t optitrack_vrpn --build-arg BASE=ros:jazzy .             a ROS 2 base image
#
#   docker run --rm -it --network host optitrack_vrpn demo
#   docker run --rm -it --network host optitrack_vrpn optitrack_vrpn_node --ros-args \
#       -p server:=192.168.1.20 -p autostart:=true
#
# docs/lab.md explains --network host.
ARG BASE=debian:12
FROM ${BASE}
SHELL ["/bin/bash", "-c"]
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential ca-certificates cmake git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/optitrack_vrpn
COPY . .
# A base image with ROS 2 installs the rosdep keys of package.xml, and builds with colcon.
RUN if [ -n "${ROS_DISTRO:-}" ]; then \
        apt-get update && rosdep update --rosdistro "$ROS_DISTRO" \
        && rosdep install --from-paths . -y --ignore-src \
        && source "/opt/ros/$ROS_DISTRO/setup.bash" && colcon build --install-base /opt/install \
        && rm -rf build log /var/lib/apt/lists/*; \
    else \
        make env; \
    fi
# Motive's packets reach the container by the host's network.
ENTRYPOINT ["/opt/optitrack_vrpn/tools/entrypoint.sh"]
CMD ["demo"]
