# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests of the pipeline: times, poses, and a pipeline with one way of stamping."""

from optitrack_vrpn.clock import StampConfig
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.pipeline import Pipeline
from optitrack_vrpn.vrpn.messages import PoseReport

MS = 10**6
S = 10**9
#: Host clock less arrival clock: the host has an epoch, the arrival clock began a moment ago.
HOST = 1_700_000_000 * S


def pose_report(name, time_ns, position, quat_xyzw=(0.0, 0.0, 0.0, 1.0), sensor=0):
    """Make the report of a pose, upright unless stated otherwise."""
    return PoseReport(name, sensor, time_ns, position, quat_xyzw)


def make_pipeline(mode='tracking', **config):
    """Make a pipeline with a mode of stamping and other settings of ``PipelineConfig``."""
    return Pipeline(PipelineConfig(stamps=StampConfig(mode=mode), **config))
