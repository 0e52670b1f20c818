# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What `doctor` makes of what it finds: facts in, findings out, nothing read and nothing sent."""
