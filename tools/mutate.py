# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Change one decision at a time, and check that its tests notice: ``python tools/mutate.py [WORD]``.

A row is a file of the package, a text that occurs once in it, what replaces it, and the tests that
must fail then. A mutant that survives is a rule without a test.
"""

import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

ROOT = Path(__file__).resolve().parent.parent
CORPUS, MOTIVE, TEXT, READINGS = (
    f'test/test_{name}.py' for name in (
        'take_corpus', 'motive_csv', 'trajectory_text', 'evaluation_readings'))
JUMPS, SWAP, NATNET, BONES, SESSIONS, CHANGES = (
    f'test/test_{name}.py' for name in (
        'bodies_jumps', 'bodies_swap', 'pipeline_natnet', 'skeletons', 'bodies_sessions',
        'bodies_change_log'))
LINES, LINK, LOSS, FINDINGS = (f'test/test_{name}.py' for name in (
    'repetition', 'client_link', 'client_loss', 'findings'))
BODIES = 'stream/bodies'
JUDGE, HYPOTHESES, LIMITS, TRACKER = (
    f'{BODIES}/{name}.py' for name in ('judge', 'hypotheses', 'limits', 'tracker'))
LOAD, HOT_PATH = 'test/test_pipeline_load_shedding.py', 'test/test_ros_hot_path.py'
SETTINGS, CONFIGURATION = 'test/test_parameters_random.py', 'node/configuration.py'
STREAMS = 'node/graph/streams.py'
FOREIGN = 'test/test_ros_neighbours.py -k some_seconds'
ANOTHER, TURNED, STRICT, FED = (f'test/test_{name}' for name in (
    'streams.py -k random_publishers', 'autopilot_feed.py -k turns_out',
    'streams.py -k contradicted', 'autopilot_bridge.py -k starts_again'))
REPETITION, FACTS, RULES, REASONS = (
    'core/repetition.py', *(f'telling/{name}.py' for name in ('facts', 'rules', 'conditions')))
EVENTS, CONDITIONS, FIGURES = (
    f'takes/assess/{name}.py' for name in ('events', 'conditions', 'figures'))
GATE, EXCHANGES, VEHICLE, MEMORY, TRANSPORT = (
    f'guests/autopilot/{name}.py' for name in (
        'gate', 'exchanges', 'vehicle', 'memory_io', 'transport_io'))
AXIS, CORRECTION, MACHINE, AXES, FRESHNESS = (
    f'guests/machine/{name}.py' for name in (
        'axis', 'correction', 'machine', 'axes_mapper', 'freshness'))
IMAGES, POSEGRAPH = 'guests/rgbd/images.py', 'guests/rgbd/posegraph.py'
GATE_TESTS, VEHICLE_TESTS, SERIAL_TESTS, LOOP_TESTS, AXIS_TESTS, AXES_TESTS, PAIRS, GRAPHS = (
    f'test/test_{name}.py' for name in (
        'autopilot_gate', 'autopilot_vehicle', 'autopilot_transport', 'gantry_loop',
        'gantry_axis', 'axes', 'rgbd_pairing', 'rgbd_posegraph'))
NUMBERS = 'test/test_natnet_driver.py'
SENDER, PACE, LINE, TIMES = (
    f'stream/clock/{name}.py' for name in ('sender_clock', 'pace', 'line', 'sender_times'))
BUFFERS = 'test/test_pipeline_freshness.py'
ON_PACE, ON_LINE, ON_TIMES = (
    f'test/test_clock_{name}.py' for name in ('pace', 'line', 'sender_times'))
REQUESTS = 'test/test_client_transport.py -k'
HAND_EYE, ODOMETRY = (
    'takes/evaluate/evaluation_calibration.py', 'test/test_recording_evaluation.py')
DRIVERS, WORKER = 'test/test_drivers.py', 'test/test_worker.py'
ROWS = (
    # A queue stays bounded, and whose loss is counted: by default that of the new item.
    ('core/worker_io.py', 'if self._closed or self._waiting >= self._limit:',
     'if self._closed:', WORKER),
    ('core/worker_io.py', 'while self._oldest and self._queue', 'while self._queue', WORKER),
    # An error ends the thread if its owner says so; the items behind it are counted.
    ('core/worker_io.py', 'return self._failed(error)', 'self._failed(error)', WORKER),
    # One that fails in each turn neither hurries nor keeps items waiting; others get their share.
    ('core/worker_io.py', '            return self._failed(error)\n        return True',
     '            self.wake()\n            return self._failed(error)\n        return True',
     WORKER),
    ('core/worker_io.py', 'min(took_s, self._period_s) / 2', '0.0005', WORKER),
    # Calls do not wait for the items; nobody waits for a call to a thread that has ended.
    ('core/worker_io.py', 'self._serve_calls()\n        if (not', 'if (not', WORKER),
    ('core/worker_io.py', '            future.cancel()\n        self._end', '            pass\n'
     '        self._end', WORKER),
    # Nothing is done after ``stop`` unless the items are to be finished.
    ('core/worker_io.py', '(not self._closed or self._queue) and', '', WORKER),
    # A jump of an odometry decides neither size nor transform; slow errors are no white noise.
    (HAND_EYE, 'problem.leave_jumps_out(problem.start())', 'pass',
     f'{ODOMETRY} -k interruption'),
    # The noise of a body at rest is no measure of what is a jump.
    (HAND_EYE, 'if np.count_nonzero(moved) >= _LEAST_PAIRS:', 'if False:',
     f'{ODOMETRY} -k rest_hides'),
    (HAND_EYE, '_JUDGED_AGAIN = 2', '_JUDGED_AGAIN = 0', f'{ODOMETRY} -k fast_motions'),
    (HAND_EYE, 'kept, rest <= _JUMP * max(usual, 1e-9)', 'kept, kept', f'{READINGS} -k jumps'),
    # An error in a thread is not silent; a state that comes and goes is not a line each time.
    ('guests/rgbd/mapper_ros.py', "Worker('mapper', self._failed,",
     "Worker('mapper', lambda _: True,", 'test/test_rgbd_mapper_ros.py -k bug'),
    ('core/repetition.py', "if state != '' and now_ns is not None and (", 'if False and (',
     'test/test_repetition.py -k comes_and_goes'),
    ('takes/calibrate/take_io.py', 'unread += len(chosen.offsets)', 'pass',
     'test/test_calibration_take.py -k cannot_be_decoded'),
    # A comparison judges both takes; a recording without the bodies asked for is no success.
    ('takes/assess/report_command.py', '*(self.other.found if self.other else ())', '',
     'test/test_recording_report.py -k compared'),
    ('takes/record/recorder_ros.py', "problem = problem or '; '.join(needed)", 'pass',
     'test/test_recording_ros.py -k asked_for'),
    ('takes/record/recorder_ros.py', '(needed, further) if messages else (needed + further, [])',
     '(needed + further, [])', 'test/test_recording_ros.py -k asked_for'),
    (HAND_EYE, 'covariance[group, group] = scattered[group, group]', 'pass',
     f'{ODOMETRY} -k last_for_seconds'),
    ('takes/evaluate/evaluation_rules.py', "         explains=('straight path',)),", '),',
     f'{ODOMETRY} -k interruption'),
    (SENDER, 'self.above_ns <= WINDOW_NS < above_ns', 'False', f'{ON_PACE} -k inside_a_stall'),
    (SENDER, 'line.pulled_ns - above_ns > EARLY_NS', 'False', f'{ON_PACE} -k all_clocks'),
    (SENDER, ' or lag_ns < self._late_lag_ns - LATE_NS', '', f'{ON_PACE} -k drain'),
    (SENDER, 'arrival_ns - self.late_ns >= HOLD_NS', 'False', f'{ON_PACE} -k longer_route'),
    (SENDER, 'if sender_ns in self._recent:', 'if False:', f'{ON_PACE} -k second_path'),
    (SENDER, 'waited_ns >= EARLY_NS and ', '', f'{ON_PACE} -k reverse'),
    (SENDER, ' and 2 * waited_ns > sender_ns - self._older[0]', '', f'{ON_PACE} -k overtaken'),
    (SENDER, "least_ns, change in ('', 'line'))", 'least_ns)',
     f'{ON_LINE} -k known_of_the_sender'),
    (PACE, '(self._steady > 1 or', '(self._steady or', f'{BUFFERS} -k backlog'),
    (PACE, 'if self._frames == 1:', 'if False:', f'{ON_PACE} -k fresh_soon'),
    (LINE, 'min(float(EDGE_NS), 0.5 * span)', '0.0', f'{ON_LINE} -k load_of_30'),
    (LINE, '(span >= EDGE_NS or not self.known)', 'True', f'{ON_LINE} -k known_of_the_sender'),
    (LINE, 'max(rising, ERRORS', 'max(0.0, ERRORS', f'{ON_LINE} -k change_of_the_floor'),
    (LINE, '2.0 * max(self._recent) - min(self._recent)', 'min(self._recent)',
     f'{ON_LINE} -k lags_that_rise'),
    (SENDER, 'if not (connects or', 'if not (', f'{ON_PACE} -k new_connection'),
    (SENDER, 'passed_ns - waited_ns > SECOND_NS', 'False', f'{ON_PACE} -k another_time'),
    (PACE, ' and lag_ns - self.least_ns <= WINDOW_NS', '',
     f'{ON_PACE} -k first_moments'),
    ('stream/clock/source.py', '(self._sender_mode and clock.run ==', '(clock.run ==',
     f'{BUFFERS} -k without_times'),
    ('stream/clock/round_trips.py', 'back = min(back,', 'back = max(back,',
     'test/test_clock_round_trips.py -k answer_below'),
    (TIMES, 'abs(frame - typical) > error', 'False', ON_TIMES),
    (TIMES, ' or size < 2 * spread', '', f'{ON_TIMES} -k triggered'),
    (TIMES, '[*single, longest]', 'single', ON_TIMES),
    ('core/names.py', 'fullmatch(made) and', 'fullmatch(made) or', 'test/test_names.py'),
    ('core/names.py', "title if rule == 'unchanged' else ''", "''", 'test/test_names.py'),
    ('stream/pipeline.py', 'quat = continued(quat_xyzw, quat)', 'pass',
     'test/test_pipeline.py -k sign'),
    ('core/settings/parameters.py', '    if of_other_drivers([name]):\n        return True\n', '',
     'test/test_parameters_files.py -k without'),
    ('takes/take_io.py', 'len(sizes), size=_SAMPLED', 'len(sizes), size=0',
     'test/test_recording_findings.py -k parents'),
    (FACTS, '(State.NEW, State.JUMPED) if self.far_m', '() if self.far_m',
     'test/test_findings.py'),
    (FIGURES, 'np.maximum(intervals, step_ns)', 'intervals', CORPUS),
    (CONDITIONS, 'BUNCHED_SHARE = 0.02', 'BUNCHED_SHARE = 0.5', CORPUS),
    ('takes/dashboard/feed_ros.py', 'Kind.STOP and self.armed and not systems',
     'Kind.STOP and self.armed', 'test/test_dashboard_server.py -k record_starts'),
    ('takes/record/recorder_ros.py', 'if self._config.sessions:\n            self.get_logger',
     'if True:\n            self.get_logger', 'test/test_commands.py -k output_that'),
    ('takes/dashboard/control.py', ' and not one.mute', '',
     'test/test_dashboard.py -k answers_no_more'),
    ('takes/dashboard/takes_io.py', "time.time() - _NOTICED_S, ''",
     'time.time() - _NOTICED_S, self._last', 'test/test_dashboard_server.py -k grows'),
    ('takes/dashboard/takes_io.py', "row['time'] >= self._since", 'True',
     'test/test_dashboard_server.py -k grows'),
    ('takes/dashboard/takes_io.py', 'folder.resolve() != self.folder.resolve() / name', 'False',
     'test/test_dashboard_server.py -k report_is_written'),
    ('control/round.py', 'sorted(counts.elements())', 'sorted(counts)',
     'test/test_mocap_control_protocol.py -k one_full_name'),
    ('control/round.py', 'published = Counter(publishers)', 'published = Counter(subscribers)',
     'test/test_mocap_control_protocol.py -k of_the_commands'),
    ('takes/dashboard/control.py', ' and one.heard and not one.gone', '',
     'test/test_dashboard.py -k recorder_is'),
    ('takes/evaluate/evaluation_rules.py', "explains=('estimate lacks part',)", 'explains=()',
     'test/test_recording_evaluation.py -k lost_frames'),
    ('takes/dashboard/page_rules.py', 'if not any(_slow(rule.when, body) for rule in RATES):',
     'if True:', 'test/test_dashboard.py -k rate_if_it_is_low'),
    ('takes/record/replay_command.py', 'if not sessions:', 'if False:',
     'test/test_recording_replay.py -k not_recorded'),
    ('takes/record/raw_recorder_io.py', 'if nothing and not problem:', 'if False:',
     'test/test_recording_replay.py -k no_server'),
    ('takes/dashboard/lab.py', '    if not norm:\n        return []', '    norm = norm or 1.0',
     'test/test_dashboard.py'),
    (STREAMS, 'if not binding.resumed:', 'if True:', TURNED),
    (STREAMS, ' and (\n                self._publishers[used] == self._publisher):', ':', ANOTHER),
    (STREAMS, 'late = bool(usual_ns) and', 'late = False and', ANOTHER),
    (STREAMS, '_LOST = 5', '_LOST = 2', TURNED),
    (STREAMS, '(strict and stream.differs)', 'False', STRICT),
    (STREAMS, 'any(not (strict and other.differs) for', 'any(True for', STRICT),
    ('drivers/vrpn/connection.py', 'if sender == _CONTROL:', 'if False:',
     'test/test_vrpn_connection.py -k frames_of_its'),
    ('drivers/natnet/reports.py', 'if camera_ns > processing_ns:', 'if False:',
     'test/test_natnet_facts.py -k time_of_the_cameras'),
    ('telling/conditions.py', 'clock.above_s and not clock.withheld', 'clock.above_s',
     'test/test_clock_reports.py -k delays_are'),
    ('telling/conditions.py', 'clock.above_since_s >= 5.0', 'clock.above_since_s > 0.0',
     'test/test_clock_reports.py -k delays_are'),
    ('stream/pipeline.py', ' and (\n                        not processing_ns)', '',
     'test/test_pipeline_natnet.py -k times_of_exposure'),
    ('core/removed.py', ' or table.get(f', ' or None and table.get(f', 'test/test_removed.py'),
    ('node/base/parameter_files.py', 'if inside > 1 and', 'if inside and',
     'test/test_parameters_files.py -k dot_in'),
    ('drivers/automatic_io.py', ' ' * 20 + 'gate.passes = False', ' ' * 20 + 'pass',
     'test/test_natnet_client.py -k being_stopped'),
    ('node/status.py', '        self.graph = GraphFacts(self.graph.name)\n', '',
     'test/test_ros_neighbours.py -k outlast'),
    ('node/status.py', 'if len(due) >= 5 or', 'if', 'test/test_ros_diagnostics.py -k once_a'),
    ('node/status.py', '\n                    if body in self._found}', '}',
     'test/test_ros_diagnostics.py -k once_a'),
    ('node/graph/status_binding.py', '_SILENT_NS = 2_500', '_SILENT_NS = 2_700',
     'test/test_streams.py -k status_of_another'),
    ('stream/server_data.py', 'if 0 <= self._stamp_ns - stamp_ns < OVERTAKEN_NS:', 'if False:',
     'test/test_pipeline_natnet.py -k comes_twice'),
    ('stream/batch.py', 'body is newest[body.name, body.sensor]', 'True',
     'test/test_pipeline_dispositions.py -k arrive_together'),
    (GATE, 'self._before = before ', 'self._before = None ', FED),
    (GATE, '        if armed is None:\n            return\n', '', FED),
    (LIMITS, 'frame + self.last.turn_rate * min(unseen, TURNING_NS)', 'frame', JUMPS),
    (LIMITS, 'if interval <= 0.0 or unseen <= 0.0:', 'if True:', JUMPS),
    (JUDGE, 'if off < SMALL_TURN:', 'if False:', JUMPS),
    (JUDGE, 'return min(TURNED_HOLD_NS, set_to.jump_ns)', 'return TURNED_HOLD_NS', JUMPS),
    (JUDGE, 'if self._is_gap(dt) and (', 'if False and (', JUMPS),
    (JUDGE, '        return set_to.attitude_ns\n',
     '        return min(TURNED_HOLD_NS, set_to.attitude_ns)\n', JUMPS),
    (JUDGE, 'if away < off and away <= limit:', 'if False:', JUMPS),
    (JUDGE, ' and seen.now <= before.until_ns', '', JUMPS),
    (JUDGE, 'if away is not None and away.verdict.in_place and away.is_jump:', 'if False:', JUMPS),
    (JUDGE, ' and off_m <= IN_PLACE_M + DRIFT * min(dt, memory_ns)', '', SESSIONS),
    (JUDGE, 'last.quat if is_next else last', 'last', JUMPS),
    (JUDGE, ' and not (fresh and swapped)', '', SWAP),
    (HYPOTHESES, 'self.judge.measure_turn(away)', 'pass', JUMPS),
    (HYPOTHESES, 'away.builds_up = False', 'pass', JUMPS),
    (HYPOTHESES, 'away.began_ns = min(seen.now, away.began_ns + outliers_ns)', 'pass', JUMPS),
    (HYPOTHESES, 'multiply(self.doubt, verdict.turn)', 'verdict.turn', JUMPS),
    (HYPOTHESES, 'self.doubt, self.judge.before = self.judge.before.doubt, None',
     'self.judge.before = None', JUMPS),
    (TRACKER, 'self.hypotheses.judge.renew(self.hypotheses.away)', 'pass', JUMPS),
    (HYPOTHESES, 'return Observed.ACQUIRED    # the other', 'pass    # the other', SWAP),
    (TRACKER, 'if self._refused == 1:', 'if False:', NATNET),
    (TRACKER, 'if self._refused == 1:', 'if self._refused:', NATNET),
    (f'{BODIES}/swap.py', ' or other.unseen_ns(now) > REMEMBERED_NS', '', SWAP),
    (f'{BODIES}/swap.py', 'return other.is_settled and ', 'return ', SWAP),
    (f'{BODIES}/states.py', ' and not first.doubtful', '', CHANGES),
    ('stream/skeletons/stage.py', 'tracker.restart(epoch)', 'pass', BONES),
    ('stream/pipeline.py', 'if stamps.changes:', 'if stamps.changes and fields[1]:',
     BONES),
    (CONFIGURATION, "hasattr(node, 'add_post_set_parameters_callback')", 'False', SETTINGS),
    (CONFIGURATION, "'keep_up': (('load_shedding',)", "'keep_up': (('axes',)", SETTINGS),
    (CONFIGURATION, 'self._present = configuration\n        except', 'pass\n        except',
     SETTINGS),
    ('stream/roster.py', 'if estimate != channel.estimator.config:', 'if True:', SETTINGS),
    ('stream/roster.py', 'channel.gate.config = config.thresholds(name)', 'pass', SETTINGS),
    ('node/node.py', 'if changed or gone:', 'if changed:', SETTINGS),
    ('core/status.py', ' and len(text) <= _MOST_DIGITS', '', 'test/test_status.py'),
    (REPETITION, 'if not written and self._begun.allow(key, now_ns) is not None:',
     'if not written:', LINES),
    (REPETITION, '            if written:', '            if True:', LINES),
    (REPETITION, '            self._outage_written = False', '            pass', LINK),
    ('core/findings.py', 'one.code, when, one.remedy', "one.code, when, ''", LINES),
    ('core/findings.py', 'or self.code, self.bodies, self.subject', 'or self.code, self.bodies',
     LINES),
    (REASONS, 'frames.setdefault(parents, [])', 'frames.setdefault((frame, frame), [])', LINES),
    (FACTS, 'if now_ns - since_ns[pair] >= _SAME_PLACE_NS:', 'if True:', FINDINGS),
    (FACTS, 'if distance > _SAME_PLACE_M:', 'if False:', FINDINGS),
    (FACTS, 'self._since_ns.get(pair, now_ns)', 'min([now_ns, *self._since_ns.values()])',
     FINDINGS),
    (REASONS, 'what in body.lacking', 'False', 'test/test_pipeline_motion.py'),
    (FACTS, 'self.facts.lossy or (', 'False or (', LOSS),
    ('telling/doctor/graph.py', 'node.count > 1 and node.pose_topics', 'False',
     'test/test_doctor_graph_checks.py -k publish_on_the_same_topics'),
    ('telling/doctor/graph.py', 'names and (len(names) == len(received)) is all_of_them',
     'names and all_of_them', 'test/test_doctor_graph_checks.py -k excluded'),
    ('telling/doctor/rules.py', "WARN if check == 'bodies' and rule.code != 'one time' else",
     'WARN if False else', 'test/test_doctor_checks.py -k not_tracked'),
    ('drivers/link_rules.py', 'bool(facts.data_port and facts.group) and not facts.framed',
     'bool(facts.data_port and facts.group)', f'{DRIVERS} -k silence_without'),
    ('drivers/link_rules.py', '_silent(not facts.posed, facts)', '_silent(True, facts)',
     f'{DRIVERS} -k silence_without'),
    ('telling/doctor/command.py', "if attempts and 'tcp' not in attempts:", 'if False:',
     'test/test_doctor.py -k datagrams_that_get_lost'),
    ('telling/doctor/rules.py', 'not one.wanted and not one.answered', 'False',
     'test/test_doctor.py -k absent_server'),
    ('telling/doctor/rules.py', 'skip(tried(lambda probed, one: one.wanted and', 'skip(tried('
     'lambda probed, one: False and', 'test/test_doctor_natnet.py -k judged_by'),
    ('telling/doctor/vrpn.py', "return self.connection == 'auto' and is_open(self.tcp)",
     'return is_open(self.tcp)', 'test/test_doctor_checks.py -k one_way_in'),
    ('drivers/vrpn/client_io.py', 'Outcome.SILENT if isinstance(error, NoAnswerError)',
     'Outcome.SILENT if False', 'test/test_doctor.py -k asked_once'),
    ('telling/doctor/watch.py', 'not self._pipeline.clock_status().withheld', 'True',
     'test/test_doctor_watch.py -k queued'),
    ('drivers/vrpn/driver.py', 'self.known.senders[event.sender] = True', 'pass',
     f'{DRIVERS} -k facts'),
    ('drivers/natnet/facts.py', 'self.known.up_axis = AXES', 'axis = AXES',
     'test/test_natnet_facts.py -k stated_up_axis'),
    ('drivers/natnet/facts.py', 'if before != event.payload:', 'if False:',
     'test/test_natnet_facts.py -k another_question'),
    ('drivers/natnet/driver.py', 'self._watch.unnamed(self.models.ids)', 'pass',
     'test/test_natnet_driver.py -k ids_without'),
    ('drivers/natnet/facts.py', '(key for key in keys if key not in self._described)', 'keys',
     'test/test_natnet_driver.py -k share_an_id'),
    ('drivers/natnet/driver.py', 'self.known.live_again = not edit_mode', 'pass',
     'test/test_natnet_facts.py -k played'),
    ('stream/reports.py', 'since_ns = self.last.get(content, (text.severity, self._from_ns))',
     'since_ns = self.last.get(content, (text.severity, 0))',
     'test/test_pipeline.py -k comes_again'),
    ('drivers/automatic_io.py', 'why = _why_without_poses(', '_ = _why_without_poses(',
     'test/test_sources.py -k why_another'),
    ('stream/reports.py', 'len(self._present) < MOST_TEXTS', 'True',
     'test/test_pipeline.py -k limited_in_the_log'),
    ('stream/reports.py', 'return {**self._before, **self._present}', 'return self._present',
     'test/test_pipeline.py -k limited_in_the_log'),
    (REASONS, 'subject=clock.epoch, what', "subject='', what", 'test/test_clock_host.py -k step'),
    (REPETITION, 'if state == before or (', 'if (', LINES),
    (REPETITION, 'key not in self._states and len', 'len', LINES),
    (VEHICLE, 'if not done or before[1]:', 'if not done:', VEHICLE_TESTS),
    (VEHICLE, 'min(monotonic_ns - self._ticked_ns, _HEARTBEAT_NS)',
     'monotonic_ns - self._ticked_ns', VEHICLE_TESTS),
    (VEHICLE, '        self._silence_ns = 0\n', '', VEHICLE_TESTS),
    ('core/stats.py', ' and long > 2.5 * single', '',
     'test/test_stats_intervals.py -k coarse_ticks'),
    ('core/stats.py', 'np.maximum(1.0, np.rint(ratio))', 'np.rint(ratio)',
     'test/test_stats_intervals.py -k array'),
    ('takes/evaluate/evaluation.py', 'period = array_interval(intervals)',
     'period = usual_step(stamps)', 'test/test_recording_evaluation.py -k lost_frames'),
    (RULES, "Rule('wrong up axis', ERROR", "Rule('wrong up axis', WARN",
     'test/test_natnet_facts.py -k statements'),
    (FACTS, ' and lost >= _FEWEST_MESSAGES', '', LOSS),
    (FACTS, 'now_ns - old.now_ns < 0.95 * window_ns or ', '', LOSS),
    ('core/findings.py', "if explained & {rule.code, rule.check, '*'}:", 'if False:',
     'test/test_clock_sender_mode.py'),
    (REASONS, 'body.held and body.held_s >= _HELD_S', 'body.held',
     'test/test_pipeline_faults.py -k flip_that_lasts'),
    ('stream/load_shedding.py', 'since_ns >= HICCUP_NS and self.every', 'self.every', LOAD),
    ('stream/load_shedding.py', 'PRESSED_NS if since_ns >= PRESSED_NS else min(', 'min(', LOAD),
    ('stream/load_shedding.py', '2 * self._patience_ns, CALM_NS', 'PRESSED_NS, CALM_NS',
     LOAD),
    ('stream/load_shedding.py', 'if self._attempted:', 'if self.every == 1:', LOAD),
    ('stream/load_shedding.py', ' and self._late >= LATE_WAITS', '', LOAD),
    ('stream/load_shedding.py', 'self.idle_ns\n            self._late = 0', 'self.idle_ns', LOAD),
    ('stream/load_shedding.py', 'MOST_EVERY: Final = 4', 'MOST_EVERY: Final = 64', LOAD),
    ('node/status.py', 'math.ceil(self.period_s)', '1', 'test/test_ros_diagnostics.py -k rare'),
    ('stream/roster.py', '        channel.turn_of_outputs = self._wanted\n', '', LOAD),
    ('stream/pipeline.py', 'shedder.every if self.config.keep_up else 1', 'shedder.every', LOAD),
    ('stream/pipeline.py', 'self._every > 1 and channel.has_more', 'self._every > 1', LOAD),
    ('node/body_output.py', 'len({row.other for row in self.rows}) == 2', 'True', HOT_PATH),
    ('node/receiver.py', 'if not lean:', 'if True:', HOT_PATH),
    ('node/receiver.py', 'if row.later and clock() > until_ns:', 'if False:', HOT_PATH),
    ('node/receiver.py', 'if frame_ns != present_ns or output in bodies:',
     'if frame_ns != present_ns:', HOT_PATH),
    (EVENTS, 'COMMON = 0.8', 'COMMON = 0.7', CORPUS),
    (EVENTS, 'COMMON = 0.8', 'COMMON = 0.9', CORPUS),
    (EVENTS, '(cause or len(names) > 1)', 'True', CORPUS),
    (EVENTS, '_TOGETHER = 2.5', '_TOGETHER = 3.5', CORPUS),
    (EVENTS, '5 * NS_PER_S', '9 * NS_PER_S', CORPUS),
    (EVENTS, 'if not _near(at, edges, NS_PER_S // 2)]', ']', CORPUS),
    (CONDITIONS, 'LONG_GAP_S = 0.5', 'LONG_GAP_S = 0.6', CORPUS),
    (CONDITIONS, 'LATE_MS, JITTER_MS = 50.0, 20.0', 'LATE_MS, JITTER_MS = 70.0, 20.0', CORPUS),
    (CONDITIONS, 'LATE_MS, JITTER_MS = 50.0, 20.0', 'LATE_MS, JITTER_MS = 40.0, 20.0', CORPUS),
    (CONDITIONS, 'LATE_MS, JITTER_MS = 50.0, 20.0', 'LATE_MS, JITTER_MS = 50.0, 40.0', CORPUS),
    ('takes/take.py', 'OTHER_CLOCK_NS = 60 * NS_PER_S', 'OTHER_CLOCK_NS = 20 * NS_PER_S', CORPUS),
    (CONDITIONS, 'AHEAD_MS = 2.0', 'AHEAD_MS = 0.5', CORPUS),
    (CONDITIONS, 'AHEAD_MS = 2.0', 'AHEAD_MS = 50.0', CORPUS),
    (CONDITIONS, 'SILENT_S = 3.0', 'SILENT_S = 1.0', CORPUS),
    (CONDITIONS, 'SAME_PLACE_M, SAME_PLACE_S = 0.001, 2.0',
     'SAME_PLACE_M, SAME_PLACE_S = 0.005, 2.0', CORPUS),
    (CONDITIONS, 'SAME_PLACE_M, SAME_PLACE_S = 0.001, 2.0',
     'SAME_PLACE_M, SAME_PLACE_S = 0.001, 0.5', CORPUS),
    (CONDITIONS, 'max(statistics.median(known), known[-1])', 'max(known)', CORPUS),
    (CONDITIONS, 'NOISE_MM, DRIFT_MM = 1.0, 1.0', 'NOISE_MM, DRIFT_MM = 2.0, 1.0', CORPUS),
    (CONDITIONS, 'NOISE_MM, DRIFT_MM = 1.0, 1.0', 'NOISE_MM, DRIFT_MM = 1.0, 3.0', CORPUS),
    (CONDITIONS, '_ODD_S = 365 * 86400', '_ODD_S = 1e12', CORPUS),
    (FIGURES, '_FROZEN = 10', '_FROZEN = 9', CORPUS),
    (FIGURES, '_FROZEN = 10', '_FROZEN = 11', CORPUS),
    (FIGURES, 'begins[last:last + 1] = stamps[first]', 'pass', CORPUS),
    (FIGURES, '_UNSEEN_SPEED, _FASTER = (5.0, 6.0), 1.5',
     '_UNSEEN_SPEED, _FASTER = (3.0, 6.0), 1.5', CORPUS),
    (FIGURES, '_UNSEEN_SPEED, _FASTER = (5.0, 6.0), 1.5',
     '_UNSEEN_SPEED, _FASTER = (9.0, 6.0), 1.5', CORPUS),
    (FIGURES, '_UNSEEN_SPEED, _FASTER = (5.0, 6.0), 1.5',
     '_UNSEEN_SPEED, _FASTER = (5.0, 16.0), 1.5', CORPUS),
    (FIGURES, 'max(usual, _FASTER * mine)', 'usual', CORPUS),
    (FIGURES, '| made.leaps)', ')', CORPUS),
    (FIGURES, '_JUMP_LEAST, _JUMP_SPEED = (0.05, 0.5)', '_JUMP_LEAST, _JUMP_SPEED = (0.03, 0.5)',
     CORPUS),
    (FIGURES, '_JUMP_LEAST, _JUMP_SPEED = (0.05, 0.5)', '_JUMP_LEAST, _JUMP_SPEED = (0.6, 0.5)',
     CORPUS),
    (FIGURES, 'found.add(int(stamps[at]))', 'found.add(int(stamps[at]) + len(found))', CORPUS),
    (FIGURES, 'sizes = made.sizes[0] + made.intervals / NS_PER_S', 'sizes = -made.sizes[0]',
     CORPUS),
    (FIGURES, '_ODD_NS = 365 * 86400 * NS_PER_S', '_ODD_NS = 1 << 62', CORPUS),
    (FIGURES, 'max(-float(np.percentile(delays, 1.0)), 0.0)',
     'max(-float(np.percentile(delays, 50.0)), 0.0)', CORPUS),
    ('takes/take_io.py', '    take.put_on_stamps()\n', '',
     'test/test_recording_findings.py -k times_of_damage'),
    (EVENTS, '_OUTSIDE_NS = 3600 *', '_OUTSIDE_NS = 10**12 *',
     'test/test_recording_findings.py -k without_a_pose'),
    ('takes/assess/series.py', 'WINDOW = 100', 'WINDOW = 10', 'test/test_recording_report.py'),
    ('takes/trajectory.py', 'GAP_INTERVALS = 2.5', 'GAP_INTERVALS = 1.5', CORPUS),
    ('takes/trajectory.py', 'GAP_INTERVALS = 2.5', 'GAP_INTERVALS = 3.5', CORPUS),
    ('takes/motive_csv.py', 'at(axis, place).lower())', 'at(axis, place))', MOTIVE),
    ('takes/motive_csv.py', 'if name not in latest or label in latest[name]:',
     'if name not in latest:', MOTIVE),
    ('takes/motive_csv.py', '(unique != name and unique in latest)', 'False', MOTIVE),
    ('takes/motive_csv.py', 'if self.frames >= self.stated:', 'if True:', MOTIVE),
    ('takes/motive_csv.py', 'export.frames + 1 < export.stated and not', 'False and not', MOTIVE),
    ('takes/trajectory_text.py', 'if not stamps or stamp > stamps[-1]:', 'if True:', TEXT),
    ('takes/trajectory_text.py', "13: 'ms', 16: 'us', 19: 'ns'", "16: 'us', 19: 'ns'", TEXT),
    ('takes/trajectory_text.py', '_EUROC if len(fields) == _EUROC.width else _TUM', '_TUM', TEXT),
    ('takes/trajectory_text.py', 'columns = columns or _header(text)', 'pass', TEXT),
    ('takes/evaluate/evaluation_rules.py', '_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.01, 4.0',
     '_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.03, 4.0', READINGS),
    ('takes/evaluate/evaluation_rules.py', '_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.01, 4.0',
     '_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.001, 4.0', READINGS),
    ('takes/evaluate/evaluation_odometry.py', 'np.roll(quats, -1, axis=1)',
     'np.roll(quats, 1, axis=1)', READINGS),
    ('takes/evaluate/evaluation_odometry.py', 'return min(fits, key', 'return max(fits, key',
     READINGS),
    ('takes/evaluate/evaluation_odometry.py', 'compared.positions / hand_eye.size',
     'compared.positions', READINGS),
    ('cli/files_io.py', '[] if is_own else list(given.iterdir())', '[]', 'test/test_outputs.py'),
    ('cli/files_io.py', 'if not is_own and not force:', 'if False:', 'test/test_outputs.py'),
    ('drivers/losses.py', 'if before < length:', 'if True:', NUMBERS),
    ('drivers/natnet/numbering.py', 'self._stride if known else 0', 'self._stride', NUMBERS),
    ('drivers/choice.py', 'if self.chosen:\n            if protocol',
     'if self.chosen and not streams:\n            if protocol',
     'test/test_sources.py -k first_protocol'),
    ('drivers/choice.py', 'now_ns - self._began_ns >= self.patience.first_ns', 'True',
     'test/test_sources.py -k time_alone'),
    ('drivers/vrpn/transport.py', 'if before.request is Request.UNANSWERED:', 'if False:',
     f'{REQUESTS} remembered'),
    ('drivers/vrpn/transport.py', ' or waited_s >= _PROMPT_S', '', f'{REQUESTS} remembered'),
    ('drivers/vrpn/transport.py', '0.0 < left_s <= limit_s', '0.0 < left_s',
     f'{REQUESTS} answered_for'),
    ('drivers/vrpn/driver.py', ' or counters.datagrams or', ' or', DRIVERS),
    ('takes/record/bag_io.py', 'if stated > writer.messages else', 'if False else',
     'test/test_recording_bag.py -k counted'),
    ('cli/yaml_text.py', 'if id(node) in self._above:', 'if False:',
     'test/test_yaml_text.py -k contains'),
    ('sim/scenario_io.py', 'if not self.host.strip():', 'if False:', 'test/test_sim_scenario.py'),
    ('takes/evaluate/evaluation_odometry.py', '_MISFIT, _BETTER = 0.05', '_MISFIT, _BETTER = 0.25',
     READINGS),
    ('drivers/vrpn/driver.py', ' or counters.poses:', ':', DRIVERS),
    ('drivers/vrpn/driver.py', 'events = self.connection.events_before_fault', 'events = []',
     DRIVERS),
    ('drivers/natnet/driver.py',
     'now_ns < self._ready_ns and self._count.echoes < FIRST_ECHOES', 'False',
     DRIVERS),
    (GATE, 'MAX_AHEAD_NS = 20_000_000', 'MAX_AHEAD_NS = 60_000_000', GATE_TESTS),
    (GATE, 'GAP_NS = 200_000_000', 'GAP_NS = 400_000_000', GATE_TESTS),
    (GATE, 'BACKWARDS_LIMIT = 10', 'BACKWARDS_LIMIT = 3', GATE_TESTS),
    (GATE, ' or self._newest_ns <= now_ns + MAX_AHEAD_NS', '', GATE_TESTS),
    (GATE, 'max(self._bumped_ns, 1) <= stamp_ns', '1 <= stamp_ns', GATE_TESTS),
    (GATE, 'if self.sent:\n', 'if True:\n', GATE_TESTS),
    (EXCHANGES, '100_000_000 + round_trip', '1_000_000_000 + round_trip', GATE_TESTS),
    (EXCHANGES, 'self._remote_ns - 1_000_000_000', 'self._remote_ns - 60_000_000_000',
     GATE_TESTS),
    (EXCHANGES, 'median is not None and median < PX4_MAX_ROUND_TRIP_NS', 'median is not None',
     GATE_TESTS),
    (EXCHANGES, 'if round_trip.round_trip_ns < 0:', 'if False:', GATE_TESTS),
    (EXCHANGES, '> 40_000_000', '> 400_000_000', 'test/test_autopilot_agreement.py'),
    (EXCHANGES, '> 5_000_000_000', '> 50_000_000_000', 'test/test_autopilot_agreement.py'),
    (VEHICLE, '1.2 * _HEARTBEAT_NS', '0.0', VEHICLE_TESTS),
    (VEHICLE, 'self._alone = self._alone and self.armed', 'self._alone = False', VEHICLE_TESTS),
    (MEMORY, 'randrange(1, 256)', 'randrange(256)',
     'test/test_autopilot_bridge.py -k restart_never'),
    (TRANSPORT, 'min(until_s, now_s + WRITE_S)', 'now_s + WRITE_S', SERIAL_TESTS),
    (TRANSPORT, '>= 3.0', '>= 0.5', 'test/test_autopilot_link.py'),
    (AXIS, 'self._without_mocap += periods', 'self._without_mocap += 1', LOOP_TESTS),
    (AXIS, 'self._without_stream += periods', 'self._without_stream += 1', LOOP_TESTS),
    (AXIS, "self.warnings &= {'mocap_lost'}", 'self.warnings.clear()', LOOP_TESTS),
    (AXIS, 'self.remembered = None      # an unlock must', 'pass      # an unlock must',
     AXIS_TESTS),
    (AXIS, 'self._leaving = self.switches.reference and self._leaving is not False',
     'self._leaving = False', AXIS_TESTS),
    (CORRECTION, 'SETTLED_S = 0.6', 'SETTLED_S = 0.1', LOOP_TESTS),
    (CORRECTION, 'self._zero_at_rest and self._stood_s < SETTLED_S', 'False', LOOP_TESTS),
    (CORRECTION, 'self._stood_s = 0.0 if moving', 'self._stood_s = self._stood_s if moving',
     LOOP_TESTS),
    (MACHINE, 'len(self._readings) >= 100', 'len(self._readings) >= 10', LOOP_TESTS),
    (MACHINE, 'held = periods * self.dt >= 0.9', 'held = periods * self.dt >= 9.0', LOOP_TESTS),
    (MACHINE, 'min(reversals) < 0.1', 'False', LOOP_TESTS),
    (FRESHNESS, 'self.measured_ns = now_ns - (host_ns - stamp_ns)', 'self.measured_ns = now_ns',
     AXES_TESTS),
    (FRESHNESS, 'AHEAD_NS = 50_000_000', 'AHEAD_NS = 500_000_000', AXES_TESTS),
    (FRESHNESS, 'if self.stamp_ns - host_ns <= AHEAD_NS:', 'if True:', AXES_TESTS),
    (FRESHNESS, 'self.age_s(now_ns) > self.max_age_s', 'False', 'test/test_machine_age.py'),
    ('guests/machine/view.py', 'bool(each.faults - last.faults)', 'True',
     'test/test_machine_age.py'),
    (AXES, 'max(self._stamp_ns, min(used))', 'max(self._stamp_ns, max(used))', AXES_TESTS),
    (AXES, '                self._stamp_ns = 0\n                if', '                if',
     AXES_TESTS),
    (AXES, 'guard.guard(True)', 'guard.guard(False)', 'test/test_machine_blind.py'),
    (IMAGES, 'abs(following - late_ns) < gap', 'False', PAIRS),
    (IMAGES, '2 * gap > early.interval', 'gap > early.interval', PAIRS),
    (IMAGES, 'own.interval + own.interval // 10', '2 * interval', PAIRS),
    (POSEGRAPH, '2 * weights[uncertain].min()', '1.0', GRAPHS),
    ('takes/calibrate/coarse.py', 'rates=np.minimum(found.rates, felt)', 'rates=found.rates',
     'test/test_calibration_imu.py -k outliers'),
    ('takes/calibrate/coarse.py', '_MEDIAN = 5', '_MEDIAN = 1',
     'test/test_calibration_imu.py -k positions'),
    ('takes/calibrate/checks.py', 'problem.bends > 0.3e-3', 'problem.bends > 3e-3',
     'test/test_calibration_imu.py -k bend'),
    ('takes/calibrate/checks.py', 'growth > 1.6', 'growth > 16.0',
     'test/test_calibration_imu.py -k soft'),
    ('takes/calibrate/base.py', '_PARTS = 0.0005, 4.0, 8', '_PARTS = 0.0005, 0.0, 8',
     'test/test_calibration_take.py -k slip'),
    ('takes/calibrate/base.py', '_PARTS = 0.0005, 4.0, 8', '_PARTS = 0.005, 16.0, 8',
     'test/test_calibration_take.py -k slip'),
    ('node/graph/conflicts_ros.py', 'if max(counts) < 2:', 'if False:', FOREIGN),
    ('node/graph/conflicts_ros.py', '                    del self._found[name]',
     '                    pass', 'test/test_ros_neighbours.py -k each_conflicting'),
    ('node/graph/conflicts_ros.py', '[*topics, *again]', 'topics',
     'test/test_ros_neighbours.py -k each_conflicting'),
    ('node/graph/conflicts_ros.py', '            self._before = {}\n            self.close()',
     '            self.close()', FOREIGN),
    ('node/graph/conflicts_ros.py', 'self._readers or seen == self._seen', 'self._readers',
     FOREIGN),
    ('node/graph/conflicts_ros.py', 'own = self._own.get(child, parent)',
     "own = self._own.get(child, '')", FOREIGN),
    ('takes/export/export_command.py', '(times_ns < 1000)', '(times_ns < 0)',
     f'{MOTIVE} -k nine_digits'),
)


def survives(work: Path, row: tuple[str, str, str, str]) -> bool:
    """Return whether the tests pass with a changed file."""
    name, old, new, tests = row
    path = work / 'optitrack_vrpn' / name
    text = path.read_text(encoding='utf-8')
    if text.count(old) != 1:
        print(f'{name}: {old!r} occurs {text.count(old)} times: mend the row')
        return True
    path.write_text(text.replace(old, new), encoding='utf-8')
    try:
        return subprocess.run(
            [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider',
             *tests.split()], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, 'PYTHONPATH': str(work), 'OPTITRACK_VRPN_COMPILE': '0'},
            check=False).returncode == 0
    finally:
        path.write_text(text, encoding='utf-8')


def main() -> int:
    """Run all rows, or those that contain a word; return 1 if a mutant survives."""
    word = sys.argv[1] if len(sys.argv) > 1 else ''
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for part in ('optitrack_vrpn', 'test', 'bench', 'config', 'resource'):
            shutil.copytree(ROOT / part, work / part, ignore=shutil.ignore_patterns('__pycache__'))
        for file in ('pytest.ini', 'package.xml'):
            shutil.copy(ROOT / file, work)
        for row in ROWS:
            if word in ' '.join(row):
                lives = survives(work, row)
                alive += lives
                print('SURVIVES' if lives else 'killed  ', f'{row[0]}: {row[1]} -> {row[2]}',
                      flush=True)
    print(f'{alive} of {len(ROWS)} survive')
    return int(alive > 0)


if __name__ == '__main__':
    sys.exit(main())
