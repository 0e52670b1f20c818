# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Send the poses of one body to a PX4 or ArduPilot vehicle, over MAVLink or DDS."""
