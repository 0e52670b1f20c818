# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests of the pipeline: times, poses, a pipeline with one way of stamping, a log."""

from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.drivers.frames import Body, Frame
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.telling.facts import facts_of_body, facts_of_pipeline
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import of_log

MS = 10**6
S = 10**9
#: Host clock less arrival clock: the host has an epoch, the arrival clock began a moment ago.
HOST = 1_700_000_000 * S


def pose_report(name, time_ns, position, quat_xyzw=(0.0, 0.0, 0.0, 1.0), sensor=0):
    """Make a frame of one pose, upright unless stated otherwise."""
    return Frame(time_ns, [Body(name, sensor, time_ns, position, quat_xyzw)])


def altered(frame, **changes):
    """Change a frame of one pose: fields of the frame or of its body."""
    of_frame = {key: changes.pop(key) for key in list(changes) if key in Frame._fields}
    time_ns = of_frame.get('sender_time_ns', frame.sender_time_ns)
    return frame._replace(bodies=[
        frame.bodies[0]._replace(sender_time_ns=time_ns, **changes)], **of_frame)


def make_pipeline(mode='tracking', **config):
    """
    Make a pipeline with a mode of stamping and other settings of ``PipelineConfig``.

    The clocks of the senders of tests count from their start, for which mode sender needs no limit
    of the age.
    """
    if mode == 'sender':
        config.setdefault('max_age_s', 0.0)
    return Pipeline(PipelineConfig(stamps=StampConfig(mode=mode), **config))


class ProblemLog:
    """The lines about problems that a node writes of its pipeline; it looks once a second."""

    def __init__(self, pipeline, every_ns=S):
        self.lines = []
        self._pipeline = pipeline
        self._repetition = Repetition()
        self._every_ns, self._due_ns = every_ns, -S

    def look(self, now_ns):
        """Look if it is time to; gives the new lines."""
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + self._every_ns
        facts = facts_of_pipeline(self._pipeline)
        facts.bodies = tuple(facts_of_body(body, now_ns) for body in self._pipeline.bodies)
        new = problem_lines(self._repetition, of_log(facts), now_ns)
        self.lines += new
        return new
