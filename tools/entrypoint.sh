#!/usr/bin/env bash
# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
#
# Entry point of the container: run a command of the package, as in `docker run IMAGE doctor`.
set -eo pipefail
if [ -f /opt/install/setup.bash ]; then
    source /opt/install/setup.bash
    exec ros2 run optitrack_vrpn "$@"
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 tools/env.py run -m optitrack_vrpn "$@"
