# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The causes of bad poses, each with severity, text and remedy: their only definition.

A text contains figures in braces. ``{bodies}`` are the bodies of the finding, ``{is}``, ``{was}``,
``{has}`` and ``{its}`` fit their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
import math
from typing import NamedTuple

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN


class Cause(NamedTuple):
    """
    What can be wrong.

    :ivar place: where a timeline shows it beside the bodies: 'server', 'clock', 'recorder' or ''.
    :ivar end: the text for its end; '' if a log does not write it. Causes with the
        same text are one problem in a log.
    """

    severity: Severity
    text: str
    remedy: str
    place: str = ''
    end: str = ''


class Span(NamedTuple):
    """
    One occurrence.

    :ivar begin_s: its begin (s from the begin of the observation).
    :ivar end_s: its end; NaN if unknown.
    :ivar bodies: the bodies concerned; empty for all of the finding.
    """

    begin_s: float
    end_s: float = math.nan
    bodies: tuple[str, ...] = ()


_DOCTOR = 'run the doctor: ros2 run optitrack_vrpn doctor'
_IN_VIEW = 'do at least two cameras see three of its markers wherever it goes?'
_CAMERA_RATE = (
    'look at the camera rate in Motive and at the frame divisor of its streaming settings')
_BY_ARRIVAL = 'set stamps.mode: arrival, which does not use the times of the server'
_OUT_OF_VIEW = f'STALE: out of view, or deleted in Motive: {_IN_VIEW}'
_FROZEN = (f'FROZEN: out of view, and Motive repeats its last pose: {_IN_VIEW} (Or a simulator '
           'without noise: then set validation.frozen_after_s: 0.0)')
_CONFUSED = (
    'JUMPED: Motive confuses its markers: is their arrangement symmetric or similar to that of '
    'another body, or are there reflections?')
_INVALID = (
    'INVALID: its numbers are not a pose: check the body in Motive, or the program that relays '
    'it; two rigid bodies of one name need a name each')
_ZEROED = f'ZEROED: out of view, and Motive sends zeros: {_IN_VIEW}'
_UNTRACKED = f'UNTRACKED: Motive reports it as out of view: {_IN_VIEW}'
_EXCHANGED = (
    'Motive confuses two bodies: give each a different, asymmetric marker arrangement, then '
    'delete both rigid bodies there and create them again (or refine them); if you exchanged the '
    'names yourself, clean up and configure the node')
_EACH_IN_VIEW = 'do at least two cameras see three markers of a body wherever it goes?'
_REPAIR = 'repair a bag with record --recover'
_NO_MOTION = (
    'let the server send it, or set velocity_source: estimate, so that the node estimates it from '
    'the poses')
_WITHHELD = (
    'no pose is published: since {event}, for {seconds:.1f} s, frames do not arrive at the pace '
    'at which they were sent: they come out of a buffer')
_SET_CLOCKS = (
    'set the clocks of both computers by NTP or PTP, or stamps.mode: tracking, which follows the '
    'clock of the sender')
_NO_LOSS = 'losses have ended'
_COVERS = (
    'the estimate has poses for {percent:.0f} % of the reference ({interruptions}, up to '
    '{longest:.2f} s): the errors say nothing about the rest')
_UNUSABLE = '{bodies} {was} unusable in {share} of {its} poses: '

CAUSES: Mapping[str, Cause] = {
    # -- one or several bodies -------------------------------------------------------------------
    'FROZEN': Cause(ERROR, '{bodies} {is} FROZEN{detail}', _FROZEN),
    'ZEROED': Cause(ERROR, '{bodies} {is} ZEROED{detail}', _ZEROED),
    'UNTRACKED': Cause(ERROR, '{bodies} {is} UNTRACKED{detail}', _UNTRACKED),
    'STALE': Cause(ERROR, '{bodies} {is} STALE{detail}', _OUT_OF_VIEW),
    'JUMPED': Cause(ERROR, '{bodies} {is} JUMPED{detail}', _CONFUSED),
    'INVALID': Cause(ERROR, '{bodies} {is} INVALID{detail}', _INVALID),
    'NEW': Cause(ERROR, '{bodies} {is} NEW{detail}', (
        'NEW: seen too briefly: listen longer (--seconds); or its poses contradict each other: do '
        'two rigid bodies have this name?')),
    'was FROZEN': Cause(WARN, _UNUSABLE + 'repeats of one pose (FROZEN)', _FROZEN),
    'was ZEROED': Cause(WARN, _UNUSABLE + 'zeros (ZEROED)', _ZEROED),
    'was UNTRACKED': Cause(WARN, _UNUSABLE + 'not tracked by Motive (UNTRACKED)', _UNTRACKED),
    'was INVALID': Cause(WARN, _UNUSABLE + 'not a pose (INVALID)', _INVALID),
    'was JUMPED': Cause(WARN, (
        _UNUSABLE + 'at positions or attitudes that it cannot reach (JUMPED)'), _CONFUSED),
    'exchanged': Cause(
        ERROR, '{bodies} {verb} to have exchanged their names', _EXCHANGED),
    'silent': Cause(WARN, '{bodies} {was} silent for {silence}', _OUT_OF_VIEW),
    'lacked': Cause(WARN, '{bodies} lacked {share} of the frames', _OUT_OF_VIEW),
    'absent': Cause(WARN, '{bodies} {was} absent for the first {begin}', _OUT_OF_VIEW),
    'slow body': Cause(
        WARN, '{bodies} {has} {rate:.1f} Hz where {nominal:g} Hz is expected',
        f'is it often out of view? Lost poses have the same effect. Otherwise {_CAMERA_RATE}'),
    'too old': Cause(
        WARN, 'no pose of {bodies} is published: each is more than {age:g} s old '
        '(stamps.max_age_s) before it can be published', 'reduce the load of this computer or '
        "the delay of the network; or is the sender's clock too slow? Else set "
        'stamps.max_age_s'),
    'held': Cause(
        WARN, '{bodies} {is} JUMPED for {seconds:g} s and {stays} so: {why}',
        'it is not published until it returns: check its markers in Motive, and make them less '
        'symmetric. If you have redefined the body in Motive, {accept}'),
    'no angular rate': Cause(
        WARN, 'for {bodies} the server sends velocities without an angular rate (a rotation over '
        'no time): no twist is published', _NO_MOTION),
    'no angular acceleration': Cause(
        WARN, 'for {bodies} the server sends accelerations without an angular acceleration (a '
        'rotation over no time): none is published', _NO_MOTION),
    'no velocity before': Cause(
        WARN, 'for {bodies} the server sends accelerations without a preceding velocity: the '
        "acceleration of the base, which has an offset from the body's origin, cannot be computed "
        'and is not published', _NO_MOTION),
    'unit': Cause(
        WARN, '{bodies} {is} {far:.0f} m from the origin; positions of hundreds of metres are '
        'usually millimetres or centimetres',
        'make the server send metres (in Motive: Scale 1 in its streaming settings)'),
    # -- all frames ------------------------------------------------------------------------------
    'slow cameras': Cause(
        WARN, '{rate:.1f} Hz where the cameras run at {nominal:g} Hz', _CAMERA_RATE),
    'display rate': Cause(
        WARN, '{rate:.1f} Hz is the rate of a display; some installations stream at it while '
        'their cameras run faster', f'{_CAMERA_RATE}; if 60 Hz is intended, set '
        'expected_rate_hz: 60 (the doctor: --expect-rate 60)'),
    'not sent': Cause(
        WARN, '{rate:.1f} Hz, but {share} of the frames are missing at the sender: they were '
        'not lost in the network', "Motive cannot keep up: check its machine's load, and whether "
        'its cameras drop frames'),
    'lost': Cause(
        WARN, '{share} were lost in the network',
        'use a cable instead of WiFi, and a separate switch; or is the Motive PC too busy to send '
        'each frame?', end=_NO_LOSS),
    'unread': Cause(
        WARN, '{share} were lost because the receive buffer of this computer was full',
        'this computer is too busy to read: reduce its load', end=_NO_LOSS),
    'out of order': Cause(
        WARN, '{share} of the datagrams arrived out of order; the node drops poses that are '
        'older than the last', 'use a cable instead of WiFi, and only one network path'),
    'twice on the way': Cause(
        WARN, '{share} of the datagrams arrived twice; the node uses one',
        'is there a loop, a repeater or a second path in the network?'),
    'sent twice': Cause(
        WARN, '{share} twice; the node uses one',
        'the server sends them twice: does a second program relay the data of Motive?'),
    'quiet': Cause(
        WARN, 'but none in the last {quiet:.1f} s',
        'is Motive paused, or every body out of view? Is the network interrupted?'),
    'paused': Cause(
        WARN, 'no body sent a pose for {silence}',
        'is Motive paused at times, or its machine too busy?'),
    'interrupted': Cause(
        WARN, 'no body sent a pose for {silence}', 'check the network for interruptions'),
    'overload': Cause(
        WARN, 'this computer cannot keep up: for {patience:g} s every pose has waited more than '
        '{standing:g} ms before it was read. Whole frames are left out as needed, so that the '
        'others are on time (load_shedding)',
        'select fewer bodies (bodies.allow) or topics, or lower the rate in Motive',
        end='this computer keeps up again; {shed} poses have been left out so far'),
    'fewer outputs': Cause(
        WARN, 'this computer cannot keep up with all outputs: every pose has waited more than '
        '{waited:g} ms before it was read. Poses and TF are published; velocities and covariances '
        'are left out meanwhile, so that no pose is lost (load_shedding)',
        'select fewer outputs, or lower their rates',
        end='all outputs are published again; {lean} poses have been published without the others '
            'so far'),
    'not selected': Cause(
        WARN, 'bodies.allow and bodies.deny select none of the bodies that arrive ({count})',
        'write their names as in Motive'),
    # -- the connection --------------------------------------------------------------------------
    'ended': Cause(
        WARN, 'then: {reason}', 'does Motive keep running? Does another client block it?'),
    'client warning': Cause(WARN, 'with a warning of the client', '{message}'),
    'ignored': Cause(
        WARN, 'but also: {what}', 'the node ignores these; check which program is the server'),
    # -- times -----------------------------------------------------------------------------------
    'standstill': Cause(
        WARN, 'this computer stood still for {stalled:.1f} s, and the estimate of the clock '
        'started again', 'this computer is busy, or was suspended: reduce its load and try again'),
    'estimate restarted': Cause(
        WARN, 'the estimate of the clock started again: {restarts}',
        "did Motive restart just now? Do two programs send under this server's name?"),
    'uneven arrivals': Cause(WARN, 'that is much', (
        '{busy}; stamps.mode: tracking removes most of the jitter from the stamps, but poses '
        'arrive late')),
    'coarse times': Cause(
        WARN, "the sender's times have {fault}: stamps are arrivals, with the jitter of the "
        'network', 'set a finer clock on the Motive computer, or use NatNet'),
    'out of a buffer': Cause(
        WARN, _WITHHELD, 'is the network, or a computer on the way, overloaded?'),
    'played faster': Cause(WARN, _WITHHELD, (
        'if the server plays a recording faster than real time, set stamps.mode: sender and '
        'stamps.max_age_s: 0; else the network, or a computer on the way, is overloaded')),
    'all late': Cause(
        WARN, 'no pose is published: all frames are {late:.3f} s late: they are old, or a clock '
        'was set', 'in {left:.1f} s they are taken for new ones; reduce the load of the network'),
    "sender's clock": Cause(WARN, 'stamps of the sender are {age:.3f} s {how}', _SET_CLOCKS),
    "sender's clock, nothing published": Cause(
        WARN, 'stamps of the sender are {age:.3f} s {how}: no pose is published '
        '(stamps.max_age_s)', f'{_SET_CLOCKS}; for a sender whose clock counts from its start set '
        'stamps.max_age_s: 0'),
    'one time': Cause(
        ERROR, 'all poses have the same sender time: stamps are arrivals, and poses that waited '
        'in a buffer cannot be recognised', 'does the server send times? NatNet does'),
    'repeated times': Cause(
        WARN, '{share} of the poses have the time of the pose before, although they differ: '
        'the node drops them as repeats', _BY_ARRIVAL),
    'shared name': Cause(
        WARN, '{share} of the poses have the time of the pose before, although they differ: '
        'the node drops them as repeats', 'do two rigid bodies in Motive have the name {bodies}? '
        f'Rename one. Otherwise {_BY_ARRIVAL}'),
    'late times': Cause(
        WARN, '{share} of the poses are older than the one before, although they arrived in '
        'order: the node drops them', "do two programs send under this server's name? Is its "
        'clock set repeatedly?'),
    # -- of the node, seen from outside ----------------------------------------------------------
    'node silent': Cause(
        ERROR, '{node} sends no diagnostics', 'is the node running? Start it, or read its log'),
    'not active': Cause(
        ERROR, '{node} is {state}: it publishes no poses', 'press START, or run: ros2 lifecycle '
        'set {node} configure, and then activate'),
    'reported warning': Cause(
        WARN, '{subject}: {message}', _DOCTOR),
    'reported error': Cause(ERROR, '{subject}: {message}', _DOCTOR),
    'no transform': Cause(
        ERROR, '{bodies} {is} TRACKED, but {its} transforms do not arrive',
        'is tf_view or tf among the outputs of the node, and is the node active? Is the network '
        'between it and this computer slow?'),
    # -- of a recording, the worst first ---------------------------------------------------------
    'nothing recorded': Cause(
        ERROR, 'no pose of any body was recorded',
        'was the node active, and did --bodies fit the names? Run the doctor'),
    'incomplete': Cause(ERROR, 'the recording is incomplete: {reason}', _REPAIR, 'recorder'),
    'export cut': Cause(
        ERROR, 'the export is incomplete: {reason}', 'export it again from Motive', 'recorder'),
    'damaged': Cause(
        ERROR, 'the file is damaged in {places} ({reason}): messages of these times are missing',
        _REPAIR, 'recorder'),
    'missing messages': Cause(
        ERROR, '{count} of those that the recording counts cannot be found in it', _REPAIR,
        'recorder'),
    'dropped': Cause(
        ERROR, 'the disk was too slow; dropped messages: {count}',
        'record to a faster disk, or fewer bodies (--bodies)', 'recorder'),
    'ended early': Cause(ERROR, 'the recording ended early: {reason}', (
        'make space on the disk, and leave the folder in its place'), 'recorder'),
    'not recorded': Cause(
        ERROR, 'messages were lost between publisher and recorder ({topics}){effect}',
        'start node and recorder with config/fast_recording.xml, and the node with qos.depth: 200',
        'recorder'),
    'computer clock set': Cause(
        ERROR, 'the clock of the recording computer was set {times} during the take{effect}: '
        'times before and after do not belong together',
        'synchronise it with chrony before a take', 'recorder'),
    'never seen': Cause(
        ERROR, '{bodies} published no pose during the whole take',
        f'{_EACH_IN_VIEW} Or is it deleted in Motive?'),
    'one pose': Cause(ERROR, 'of {bodies} only one pose was recorded', _EACH_IN_VIEW),
    'server restarted': Cause(
        ERROR, 'the server restarted, or its clock was set; {effect}',
        'leave Motive running, and its clock alone, during a take', 'server'),
    'connection lost': Cause(
        ERROR, 'the connection to the server was lost; {effect}',
        'check Motive, cables and switch', 'server'),
    'interrupted by all': Cause(
        ERROR, 'the server or the network was interrupted; {effect}',
        'is Motive paused at times, or its machine too busy? Check the network for interruptions',
        'server'),
    'paused by all': Cause(
        WARN, 'the server or the network paused; {effect}',
        'is the machine of Motive too busy? Use a cable instead of WiFi', 'server'),
    'changed by all': Cause(
        ERROR, 'the server changed or repeated its poses; {effect}',
        'was Motive paused, its ground plane set or its calibration replaced?', 'server'),
    'jumped': Cause(
        ERROR, '{bodies}: {count} (jumps in the poses: {jumps}{sizes}; resets reported by the '
        'node: {resets})', 'does Motive confuse the markers? Is their arrangement symmetric or '
        'similar to that of another body, or are there reflections?'),
    'gaps': Cause(
        ERROR, '{bodies}: no pose for up to {longest:.2f} s; {gaps}, {total:.2f} s in total'
        '{change}', _EACH_IN_VIEW),
    'froze': Cause(
        ERROR, '{bodies}: the same pose was repeated in {spans}: frozen data, not a body at rest',
        f'out of view, and Motive repeats the last pose: {_EACH_IN_VIEW}'),
    'estimate displaced': Cause(
        ERROR, 'the estimate is displaced {times}: the ATE mixes the parts, and the motion '
        'between them is missing', 'was the odometry reset or restarted, or did it slip?'),
    'estimate lacks most': Cause(ERROR, _COVERS, 'does the odometry run during the whole take?'),
    'other reading': Cause(
        ERROR, 'angular speeds agree, and turns do not: the estimate fits the reference if '
        '{reading}; the errors here are those of the file as it is',
        'convert it: stamp tx ty tz qx qy qz qw, the pose of the sensor in its parent frame'),
    'other unit': Cause(
        ERROR, 'the estimate is {size:.4g} times as large as the reference: its positions are in '
        '{unit}', 'convert them to metres (REP 103)'),
    'repaired': Cause(
        WARN, 'the recording was repaired after an interruption ({detail}); the '
        "recorder's counts of lost messages are missing", 'end the recorder with Ctrl-C',
        'recorder'),
    'not decoded': Cause(
        WARN, '{count} of {total} messages on {topic} could not be decoded and are missing '
        'here', 'they are damaged, or their type has another serialisation or definition than '
        'ROS 2 writes'),
    'left out': Cause(
        WARN, '{count} on {topic} are left out here: {reason}',
        'was a recording played in a loop, or a clock set? Do two publishers use the '
        'topic?'),
    'not counted': Cause(
        WARN, 'losses between publisher and recorder could not be counted ({topics})',
        'record with one publisher on each topic', 'recorder'),
    'one name': Cause(
        WARN, 'several rigid bodies have the name {bodies}; the second is NAME_2 here',
        'give each rigid body a name of its own in Motive'),
    'silent at an end': Cause(
        WARN, 'no pose arrived in the {part} {silent:.0f} s of the recording',
        'was the node active, and a body in view?', 'server'),
    'short gaps': Cause(
        WARN, '{bodies}: {gaps} of up to {longest:.0f} ms{change}', _EACH_IN_VIEW),
    'seldom seen': Cause(
        WARN, '{bodies} {was} visible in {percent:.1f} % of the take', _EACH_IN_VIEW),
    'clock restarted': Cause(
        WARN, 'the clock model of the sender restarted {times}: stamps step there by up to the '
        'uncertainty', 'was Motive restarted, or its clock set?', 'clock'),
    'uncertain stamps': Cause(
        WARN, 'stamps are uncertain by {uncertainty:.1f} ms, at times by {worst:.1f} ms',
        'the network or a busy computer delays frames unevenly: use a cable, reduce the load',
        'clock'),
    'other clock': Cause(
        WARN, 'stamps of {bodies} are of another clock than that of the recorder: they are '
        '{latency:.0f} s from their arrivals (median)',
        'were they those of a simulation, or were the clocks of both computers not synchronised?',
        'clock'),
    'odd log times': Cause(
        WARN, 'the log times of {count} poses of {bodies} are a year or more from the others: '
        'their latency is unknown', 'was the clock of the recording computer set, or is the file '
        'damaged? The stamps of these poses are used as they are', 'clock'),
    'bunched': Cause(
        WARN, 'stamps of {bodies} bunch: {percent:.0f} % of their intervals are shorter than a '
        'fifth of the usual one', 'they seem to be times of arrival, not of exposure, so that '
        'gaps and speeds here are those of the network and the driver: record poses whose stamps '
        'are exposures (this node: stamps.mode tracking)', 'clock'),
    'in one place': Cause(
        WARN, '{bodies} are in one place, {distance:.1f} mm apart',
        'Motive solves one set of markers twice: is a rigid body there twice, under two names? '
        'Delete one, or give them different arrangements of markers'),
    'two parents': Cause(
        WARN, 'the frame {frame} of TF has two parents: {parents}', 'TF is a tree, so that its '
        'readers get one or the other by chance: remove tf from outputs, name the frame otherwise '
        '(frames.body, bodies.NAME.frame), or end the other publisher'),
    'ahead': Cause(
        WARN, 'poses of {bodies} arrive up to {time} before their stamp',
        'the clocks of the computers differ: synchronise them with chrony, or is '
        'stamps.latency_ms too large?', 'clock'),
    'late': Cause(
        WARN, 'poses of {bodies} arrive {time} after their stamp (median)',
        'reduce the load of the computers, or the delay of the network'),
    'jitter': Cause(
        WARN, 'of {bodies} one pose in a hundred arrives at least {time} later than '
        'the median', 'use a cable instead of WiFi; reduce the load of the computers'),
    'noisy': Cause(
        WARN, 'noise of {bodies} at rest is {noise:.2f} mm (3 sigma)',
        'calibrate the cameras, or remove reflections'),
    'drifted': Cause(
        WARN, '{bodies} moved by {drift:.2f} mm in {seconds:.0f} s of rest',
        'do the cameras warm up, or does the body slide?'),
    'estimate lacks part': Cause(
        WARN, _COVERS, 'does the odometry run during the whole take?'),
    'not compared': Cause(
        WARN, '{percent:.0f} % of the poses of the estimate were compared',
        'the reference has gaps, or does not cover the rest'),
    'other size': Cause(
        WARN, 'the estimate is {size:.4f} times as large as the reference ({percent:+.1f} %, '
        'standard deviation of the size {deviation:.4f})',
        'check the baseline or depth of the camera, the radius of the wheels or the gear ratio; '
        'the ATE contains this error'),
    'straight path': Cause(
        WARN, 'the path is too straight for the alignment: it deviates from a line by '
        '{width:.1f} mm, and the estimate from the path by {error:.1f} mm, so that the rotation '
        'about this line, and with it the attitude of the ATE, is arbitrary',
        'use the RPE, which is not affected, or a path with curves'),
    'not determined': Cause(
        WARN, '{detail}', 'see "Odometry against mocap" in docs/recording.md'),
    'no calibration': Cause(
        WARN, '{detail}', 'write it again with calibrate, or move it to another folder'),
    'no fault': Cause(
        INFO, 'no fault was found: {count}, no gaps, no jumps, no reported loss', ''),
    'good estimate': Cause(
        INFO, 'the estimate covers the reference without interruption, and the motion '
        'determines time offset and transform', ''),
}


@dataclass(frozen=True)
class Finding:
    """
    A cause that was found, with the bodies that it concerns.

    :ivar key: name of the cause in ``CAUSES``.
    :ivar bodies: bodies; empty for all or none.
    :ivar figures: values of the text; of several bodies with one cause the largest is shown.
    :ivar spans: when; empty if it has no time.
    """

    key: str
    bodies: tuple[str, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    @property
    def begin_s(self) -> float:
        """Return when it began (s from the begin of the observation); NaN if unknown."""
        return min((span.begin_s for span in self.spans), default=math.nan)

    @property
    def severity(self) -> Severity:
        """Return its importance."""
        return CAUSES[self.key].severity

    @property
    def text(self) -> str:
        """Return what was found, as a sentence."""
        return self._fill(CAUSES[self.key].text)

    @property
    def remedy(self) -> str:
        """Return what to do."""
        return self._fill(CAUSES[self.key].remedy)

    @property
    def end(self) -> str:
        """Return the line for its end; '' without one."""
        return self._fill(CAUSES[self.key].end)

    @property
    def problem(self) -> tuple[str, tuple[str, ...]]:
        """Return the key that stays the same while the problem lasts."""
        return CAUSES[self.key].end or self.key, self.bodies

    @property
    def line(self) -> str:
        """Return finding and remedy in one line."""
        return f'{self.text}: {self.remedy}'

    def _fill(self, text: str) -> str:
        one = len(self.bodies) == 1
        return text.format_map({
            'bodies': listed(self.bodies, 4, 100), 'is': 'is' if one else 'are',
            'was': 'was' if one else 'were', 'has': 'has' if one else 'have',
            'its': 'its' if one else 'their', 'stays': 'stays' if one else 'stay',
            **self.figures})


def merge(found: Iterable[Finding]) -> list[Finding]:
    """
    Join findings of one cause: one for all bodies, with the figures of the first of them.

    A cause whose bodies were affected at different times (1 s), or have remedies of their own,
    stays apart.
    """
    joined: dict[tuple[str, object, str], Finding] = {}
    for one in found:
        when = round(one.begin_s) if math.isfinite(one.begin_s) else None
        place = one.key, when, one.remedy
        before = joined.get(place)
        joined[place] = one if before is None else Finding(
            one.key, (*before.bodies, *one.bodies), {**before.figures, 'detail': ''},
            (*before.spans, *one.spans))
    return list(joined.values())
