# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameters: one table, what is made from it, what it accepts, and what a real node does."""

from array import array
import math
from pathlib import Path
import re

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.client.backend_io import ClientConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.parameters import (
    body_settings, BY_NAME, check_all, defaults, foreign, is_fixed, Parameter,
    sift_body_settings, TABLE)
from optitrack_vrpn.tools.parameters_command import (
    BEGIN, documents, END, markdown_table, with_table, yaml_text)
from optitrack_vrpn.vrpn.messages import PoseReport
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / 'config' / 'optitrack_vrpn.yaml'
ROWS = pytest.mark.parametrize('row', TABLE, ids=[row.name for row in TABLE])
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.lists(st.text(), max_size=3), st.lists(st.floats(), max_size=7),
    st.lists(st.integers(), max_size=3), st.lists(st.none(), max_size=2))


def flat(tree, prefix=''):
    """Give the leaves of a parameter file as ROS names them."""
    leaves = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            leaves.update(flat(value, f'{prefix}{name}.'))
        else:
            leaves[prefix + name] = value
    return leaves


# -- what is made from the table ------------------------------------------------------------------

def test_the_shipped_file_is_what_the_table_says():
    """`python -m optitrack_vrpn parameters --write` makes it anew."""
    assert CONFIG.read_text() == yaml_text()


def test_the_readme_shows_the_table():
    readme = ROOT / 'README.md'
    if not readme.exists():
        pytest.skip('runs in a checkout alone')
    text = readme.read_text()
    assert BEGIN in text and END in text
    assert with_table(text) == text


def test_the_file_gives_every_parameter_its_default_and_nothing_else():
    """Read by another YAML reader than ROS's; ROS's own reads it below."""
    given_ = flat(yaml.safe_load(yaml_text())['/**']['ros__parameters'])
    assert set(given_) == {row.name for row in TABLE}
    assert check_all(given_) == defaults()


def test_the_file_explains_every_parameter_right_above_it():
    above = {}
    comment = []
    for line in yaml_text().splitlines():
        if line.lstrip().startswith('#'):
            comment.append(line.strip('# '))
            continue
        above.setdefault(line.strip().split(':')[0], []).append(' '.join(comment))
        comment = []
        assert len(line) <= 99
    for row in TABLE:
        texts = above[row.name.rpartition('.')[2]]
        assert any(row.description in text and row.allowed in text and row.unit in text
                   for text in texts), row.name


def test_the_example_of_a_body_is_valid_once_it_is_uncommented():
    lines = yaml_text().splitlines()
    at = next(i for i, line in enumerate(lines) if "# 'Rigid Body 1'" in line)
    for i in range(at, at + 4):
        lines[i] = lines[i].replace('# ', '', 1)
    tree = yaml.safe_load('\n'.join(lines))['/**']['ros__parameters']
    assert body_settings(flat(tree)) == {'Rigid Body 1': {
        'name': 'cf1', 'max_speed': 30.0, 'lowpass.cutoff_hz': 5.0}}


def test_the_table_has_a_row_a_parameter_and_stars_what_is_fixed():
    rows = re.findall(r'^\| `([^`]+)`((?:\\\*)*) \|', markdown_table(), re.MULTILINE)
    assert [(name, stars.count('*')) for name, stars in rows] == [
        (r.name, 2 if r.at_start else 0 if r.dynamic else 1) for r in TABLE]
    assert {r.name for r in TABLE if r.at_start} == {
        'autostart', 'activate', *(r.name for r in TABLE if r.name.startswith('control.'))}
    assert not any(r.at_start and r.dynamic for r in TABLE)
    for stars in ('\\*', '\\*\\*'):
        assert re.search(f'^{re.escape(stars)} [a-z]', markdown_table(), re.MULTILINE)


def test_documents_leave_out_a_readme_that_is_not_there(tmp_path):
    assert list(documents(tmp_path)) == [tmp_path / 'config' / 'optitrack_vrpn.yaml']
    (tmp_path / 'README.md').write_text(f'before\n{BEGIN}\nOUTDATED\n{END}\nafter\n')
    made = documents(tmp_path)[tmp_path / 'README.md']
    assert made.startswith('before\n') and made.endswith('after\n') and 'OUTDATED' not in made
    assert with_table('no marks') == 'no marks'


# -- what a row accepts ---------------------------------------------------------------------------

@ROWS
def test_a_default_is_allowed_and_described(row):
    row.check(row.default)
    assert row.description and row.description == row.description.strip()
    assert row.low is None or row.high is None or row.low < row.high


@ROWS
@settings(max_examples=30, deadline=None)
@given(value=ANYTHING)
def test_whatever_is_given_is_taken_in_the_own_type_or_refused_by_name(row, value):
    try:
        checked = row.check(value)
    except ConfigurationError as error:
        assert str(error).startswith(f'{row.name} is ')
        return
    assert type(checked) is type(row.default)
    if row.choices:
        assert checked in row.choices
    if isinstance(checked, (int, float)) and not isinstance(checked, bool):
        assert math.isfinite(checked)
        assert row.low is None or checked >= row.low
        assert row.high is None or checked <= row.high
    assert row.check(checked) == checked


@ROWS
def test_limits_belong_to_what_is_allowed_and_nothing_beyond(row):
    for limit, beyond in ((row.low, -1), (row.high, 1)):
        if limit is not None:
            of_its_type = type(row.default)
            assert row.check(of_its_type(limit)) == limit
            with pytest.raises(ConfigurationError, match=re.escape(row.allowed)):
                row.check(of_its_type(limit + beyond))


def test_whole_numbers_serve_as_fractions_but_not_the_other_way_round():
    row = {row.name: row for row in TABLE}
    assert row['truth.max_speed'].check(5) == 5.0
    assert isinstance(row['truth.max_speed'].check(5), float)
    for name, value in (('port', 3883.0), ('port', True), ('publish.tf', 1), ('port', '3883'),
                        ('truth.max_speed', True), ('truth.max_speed', math.nan),
                        ('server', None), ('bodies.deny', 'drone'), ('bodies.deny', [1])):
        with pytest.raises(ConfigurationError, match=name):
            row[name].check(value)


def test_an_empty_list_can_be_written_in_each_way_that_yaml_and_ros_leave():
    row = Parameter('names', ('a',), 'some names')
    for empty in ([], [''], None, ()):
        assert row.check(empty) == ()


def test_numbers_in_a_list_keep_their_count():
    row = Parameter('offset', (0.0, 0.0, 0.0), 'an offset')
    assert row.type_name == 'double[]'
    assert row.check([1, 2.5, 3]) == (1.0, 2.5, 3.0)
    for wrong in ([1, 2], [1, 2, 'x'], [1, 2, math.inf], [1, 2, True]):
        with pytest.raises(ConfigurationError, match='offset'):
            row.check(wrong)


def test_a_near_miss_of_a_choice_or_a_name_is_suggested():
    with pytest.raises(ConfigurationError, match="did you mean 'reliable'"):
        check_all({'qos.reliability': 'relaible'})
    with pytest.raises(ConfigurationError, match="did you mean 'truth.max_speed'"):
        check_all({'truth.max_sped': 3.0})
    with pytest.raises(ConfigurationError, match='README'):
        check_all({'xyzzy': 3.0})


def test_every_wrong_value_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        check_all({'port': 0, 'up_axis': 'x', 'serverr': '', 'truth.max_speed': -1.0})
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for name in ('port', 'up_axis', 'serverr', 'truth.max_speed'):
        assert any(name in line for line in lines)


def test_a_value_is_shown_as_its_user_wrote_it():
    """ROS has lists of numbers as arrays of Python's."""
    rows = {row.name: row for row in TABLE}
    for name, value, said in (('bodies.allow', array('q', [1, 2]), 'bodies.allow is [1, 2]; '),
                              ('world_offset.origin', array('d', [1.0]), 'origin is [1.0]; ')):
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            rows[name].check(value)
    for value, said in ((array('q', [1, 2]), '[1, 2]'), (3, '3'), ('abc', "'abc'")):
        with pytest.raises(ConfigurationError, match=re.escape(f'offset is {said}: give x')):
            body_settings({'bodies.a.offset': value})


# -- settings of single bodies --------------------------------------------------------------------

NAMES = st.text(min_size=1).filter(lambda name: name not in ('allow', 'deny', 'max'))


@given(name=NAMES, speed=st.floats(0, 1000), other=NAMES)
def test_a_body_of_any_name_has_settings_of_its_own(name, speed, other):
    found = body_settings({
        f'bodies.{name}.max_speed': speed, f'bodies.{name}.name': 'cf1',
        f'bodies.{other}.detect_zeroed': False, 'port': 3883, 'bodies.allow': ['*']})
    assert found[name]['max_speed'] == speed and found[name]['name'] == 'cf1'
    assert found[other]['detect_zeroed'] is False
    assert set(found) == {name, other}


def test_settings_of_a_body_may_stand_in_the_sections_of_the_table():
    found = body_settings({
        'bodies.a.b.truth.max_speed': 3, 'bodies.a.b.lowpass.order': 2,
        'bodies.a.b.motion.adaptive': False, 'bodies.lowpass.max_turn': 1.0})
    assert found == {
        'a.b': {'max_speed': 3.0, 'lowpass.order': 2, 'motion.adaptive': False},
        'lowpass': {'max_turn': 1.0}}
    with pytest.raises(ConfigurationError, match='twice'):
        body_settings({'bodies.a.truth.max_speed': 3.0, 'bodies.a.max_speed': 4.0})
    with pytest.raises(ConfigurationError, match=r"a\.lowpass\.cutof.*'lowpass.cutoff_hz'"):
        body_settings({'bodies.a.lowpass.cutof': 3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.lowpass\.order is 99; allowed'):
        body_settings({'bodies.a.lowpass.order': 99})
    fixed = ('name', 'offset', 'lowpass.order')
    changing = ('max_speed', 'truth.max_speed', 'motion.adaptive')
    assert all(is_fixed(f'bodies.a.{setting}') for setting in fixed)
    assert not any(is_fixed(f'bodies.a.{setting}') for setting in changing)


def test_a_wrong_setting_of_a_body_is_named_in_full():
    with pytest.raises(ConfigurationError, match=r"bodies\.a\.b c\.max_spede.*'max_speed'"):
        body_settings({'bodies.a.b c.max_spede': 3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.b c\.max_speed is -3'):
        body_settings({'bodies.a.b c.max_speed': -3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.name'):
        body_settings({'bodies.a.name': ''})


def test_every_wrong_setting_of_a_body_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        body_settings({'bodies.a.offset': [1, 2], 'bodies.b.max_sped': 1, 'bodies.c.name': ''})
    assert len(str(caught.value).splitlines()) == 3


# -- in a real node, whose ROS graph is that of this test run -------------------------------------

FILE = """
/**:
  ros__parameters:
    server: 127.0.0.1
    connect: {retry_max_s: 2, timeout_s: 0}
    bodies:
      allow: []
      deny: ['Rigid Body 9', 'ghost*']
      'Rigid Body 1': {name: cf1, max_speed: 30}
      drone/left: {max_angular_rate: 50}
      a.b c: {detect_zeroed: false}
    truth: {max_speed: 20, acquire_frames: 5}
"""


@pytest.fixture(scope='module')
def ros():
    """Import what needs ROS for the tests that use it, so that the rest runs without."""
    pytest.importorskip('rclpy')
    import rosgraph
    return rosgraph


@pytest.fixture(scope='module')
def observer(ros):
    with ros.Observer('parameter_observer') as observer:
        yield observer


@pytest.mark.ros
def test_a_file_is_read_with_whole_numbers_empty_lists_and_any_body(ros, tmp_path):
    path = tmp_path / 'parameters.yaml'
    path.write_text(FILE)
    with ros.NodeHere(args=['--ros-args', '--params-file', str(path)], spin=False) as here:
        assert here.node.trigger_configure().name == 'SUCCESS'
        made = here.node._settings
        assert made.pipeline.selection.allow == ()
        assert made.pipeline.selection.deny == ('Rigid Body 9', 'ghost*')
        assert made.pipeline.overrides['Rigid Body 1'] == {'max_speed': 30.0}
        assert made.pipeline.overrides['drone/left'] == {'max_angular_rate': 50.0}
        assert made.pipeline.overrides['a.b c'] == {'detect_zeroed': False}
        for name in ('Rigid Body 1', 'ghost 1', 'a.b c'):
            report = PoseReport(name, 0, 0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
            here.node.receive([report], 0, 0)
        wanted = {'/cf1/pose', '/a_b_c/pose'}
        ros.wait_until(lambda: wanted <= set(here.node._output.topics()))
        assert not any('ghost' in topic for topic in here.node._output.topics())
        assert made.pipeline.body.max_speed == 20.0 and made.pipeline.body.acquire_frames == 5
        assert made.client.link.retry_max_s == 2.0


@pytest.mark.ros
def test_topics_may_be_in_the_private_namespace_of_the_node(ros):
    given_ = {'server': '127.0.0.1', 'port': 9, 'topics.pose': '~/{body}/pose'}
    with ros.NodeHere(given_, spin=False, namespace='/lab') as here:
        assert here.node.trigger_configure().name == 'SUCCESS'
        report = PoseReport('wand', 0, 0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
        here.node.receive([report], 0, 0)
        wanted = {'/lab/optitrack_vrpn/wand/pose', '/lab/wand/pose_ned'}
        ros.wait_until(lambda: wanted <= set(here.node._output.topics()))


@pytest.mark.ros
def test_the_shipped_file_changes_nothing(ros):
    arguments = ['--ros-args', '--params-file', str(CONFIG)]
    with ros.NodeHere(args=arguments, spin=False) as filled, ros.NodeHere(spin=False) as plain:
        for here in (filled, plain):
            assert here.node.trigger_configure().name == 'SUCCESS'
        assert filled.node._settings == plain.node._settings


@pytest.mark.ros
def test_all_wrong_values_of_a_file_are_told_at_start_and_again_by_configure(
        ros, observer, tmp_path):
    path = tmp_path / 'wrong.yaml'
    path.write_text(
        '/**:\n  ros__parameters: {port: 99999, up_axis: x, truth: {max_sped: 3.0, '
        'max_speed: fast}, bodies: {drone 1: {max_sped: 1.0}, wand: {offset: [1, 2]}, '
        'a: {name: x}, b: {name: x}}, autostart: 1, server: "10.0.0.1:3883", '
        'topics: {pose: pose}, frames: {body: nose, world: "/w", world_ned: ""}, '
        'use_sim_time: true}\n')
    wrong = ('port is 99999; allowed is 1 to 65535', "up_axis is 'x'; allowed are y, z",
             "no parameter 'truth.max_sped'; did you mean 'truth.max_speed'?",
             "truth.max_speed is 'fast'; it must be a double", 'autostart is 1; it must be a bool',
             "bodies.drone 1.max_sped: there is no setting 'max_sped'",
             'bodies.wand.offset is [1, 2]: give', "'a' and 'b' are both given the topic name 'x'",
             "server is '10.0.0.1:3883'; give '10.0.0.1' alone: the port is the parameter port",
             "the topic template of pose is 'pose'", "the frame template of body is 'nose'",
             "frames.world is '/w'", "frames.world_ned is ''", 'use_sim_time is true')
    with ros.NodeProcess('--params-file', path) as node:
        for text in wrong:
            node.wait_for(re.escape(text))
        assert not observer.transition('configure')
        assert observer.state() == 'unconfigured'
        for text in wrong:
            node.wait_for(re.escape('cannot configure: ') + '.*' + re.escape(text))
        # Nobody needs a restart for what ROS can set, but a wrong name stays one.
        assert node.end()[0] == 0


@pytest.mark.ros
@pytest.mark.parametrize('arguments', [
    ['--params-file', 'no/such/file.yaml'], ['-p', 'port'], ['-p', 'port:=[1,']])
def test_a_command_line_that_ros_cannot_read_ends_in_a_message_and_code_64(ros, arguments):
    with ros.NodeProcess(*arguments) as node:
        assert node.process.wait(15.0) == 64
        node.wait_for('optitrack_vrpn_node: ')
        assert 'Traceback' not in node.log


@pytest.mark.ros
def test_parameters_change_at_run_time_or_say_why_not(ros, observer):
    with ros.NodeHere({'server': '127.0.0.1', 'port': 9}) as here:
        node = here.node
        # Unconfigured, everything can be set, but to nothing wrong.
        assert observer.set(server='127.0.0.2', port=19) == ''
        assert 'Min: 1, Max: 65535, value: 0' in observer.set(port=0)    # by rclpy
        assert 'did you mean' in observer.set(truth__max_sped=3.0)
        assert observer.set(bodies__allow=[1, 2]) == (
            "bodies.allow is [1, 2]; it must be a list of strings, as ['wand']")
        # What is read at start alone would be set to no purpose.
        assert 'read when the node starts' in observer.set(autostart=True)
        assert 'read when the node starts' in observer.set(activate=False)
        assert observer.set(control__configure_on_start=True) != ''
        assert observer.get('port') == 19
        assert observer.transition('configure')
        assert node._settings.client.port == 19
        # Configured, what is dynamic is applied.
        assert observer.set(truth__max_speed=7) == ''    # as YAML writes it
        assert node._pipeline.config.body.max_speed == 7.0
        assert observer.set(bodies__deny=['ghost*'], publish__ned=False) == ''
        assert node._pipeline.config.selection.deny == ('ghost*',)
        assert node._output.config.ned is False
        assert observer.set_all({'bodies.Rigid Body 1.max_speed': 12.0}) == ''
        assert node._pipeline.config.overrides == {'Rigid Body 1': {'max_speed': 12.0}}
        assert observer.set_all({'bodies.Rigid Body 1.motion.angular_wander': 5.0}) == ''
        assert node._pipeline.config.estimates == {
            'Rigid Body 1': {'motion.angular_wander': 5.0}}
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.lowpass.order': 3})
        assert observer.set_all({'bodies.Rigid Body 1.max_speed': None}) == ''
        assert node._pipeline.config.overrides == {}
        # What is not, or is wrong, is refused with the reason and changes nothing.
        assert 'fixed while the node is configured' in observer.set(port=20)
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.name': 'cf1'})
        assert 'it must be a double' in observer.set(truth__max_speed='fast')
        assert observer.set(truth__memory_s=-1.0) != ''
        assert observer.set(truth__memory_s=0) != ''    # a whole number has its limits too
        assert "'max_speed'" in observer.set_all({'bodies.drone.max_sped': 1.0})
        assert 'cannot be deleted' in observer.set_all({'truth.max_speed': None})
        assert 'real time' in observer.set(use_sim_time=True)
        # Libraries that the node uses have parameters of their own.
        assert node.declare_parameter('diagnostic_updater.other', 1.0).value == 1.0
        assert observer.set(diagnostic_updater__other=2.0, use_sim_time=False) == ''
        assert observer.get('truth.max_speed') == 7 and observer.get('port') == 19
        assert node._pipeline.config.body.memory_s == 1.0
        # Cleaned up, everything can be set again.
        assert observer.transition('cleanup')
        assert observer.set(port=20) == ''


@pytest.mark.ros
def test_descriptors_tell_tools_type_range_and_whether_it_can_change(ros):
    from rcl_interfaces.msg import FloatingPointRange
    with ros.NodeHere(spin=False) as here:
        for row in TABLE:
            described = here.node.describe_parameter(row.name)
            assert row.description in described.description
            assert row.type_name in described.additional_constraints
            assert ('any time' in described.additional_constraints) is row.dynamic
            start = ('read when the node starts', 'fixed once the node runs')    # the base class's
            assert described.additional_constraints.endswith(start) is row.at_start
        assert here.node.describe_parameter('truth.max_speed').floating_point_range == [
            FloatingPointRange(from_value=0.0, to_value=1000.0)]
        assert here.node.describe_parameter('port').integer_range[0].to_value == 65535


@pytest.mark.parametrize('name, is_foreign', [
    ('sever', False), ('truth.max_sped', False), ('publish.oodm', False), ('stamps.foo', False),
    ('robot_description', True), ('wheel_radius', True), ('nav.planner.tolerance', True)])
def test_what_belongs_to_other_nodes_of_a_shared_file_is_told_from_typing_errors(name, is_foreign):
    assert foreign(name) is is_foreign


@pytest.mark.parametrize(('name', 'value', 'said'), [
    ('port', 'x', 'it must be an int (1 to 65535)'),
    ('bodies.deny', 3, "it must be a list of strings, as ['wand']"),
    ('world_offset.origin', 3, 'it must be a list of 3 decimals'),
    ('truth.max_speed', 'x', 'it must be a double')])
def test_types_are_named_in_plain_words(name, value, said):
    with pytest.raises(ConfigurationError) as refused:
        BY_NAME[name].check(value)
    assert said in str(refused.value)


def test_a_setting_of_a_body_that_resembles_none_is_told_all_that_are_allowed():
    _, (line,) = sift_body_settings({'bodies.a.enabled': True})
    assert 'did you mean' not in line
    assert 'allowed are name, frame, topic, offset, truth.*, lowpass.*, motion.*' in line
    _, (line,) = sift_body_settings({'bodies.a.max_sped': 1.0})
    assert "did you mean 'max_speed'?" in line


@pytest.mark.parametrize('server', ['192.168.1.999', '1.2.3.4.5', '256.0.0.1'])
def test_an_address_that_cannot_be_is_not_taken_for_a_name(server):
    with pytest.raises(ConfigurationError, match='no valid IPv4 address'):
        ClientConfig(server=server)


@pytest.mark.parametrize('server', ['192.168.1.99', 'motive.lab', '10.0.0.1.lab', '127.1'])
def test_addresses_and_names_that_can_be_are_taken(server):
    assert ClientConfig(server=server).server == server
