# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameters: one table, its generated files, its checks, and a real node."""

from array import array
import math
from pathlib import Path
import re

from conftest import lacking
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.bodies.body_settings import is_fixed, sift_body_settings
from optitrack_vrpn.cli.nodes import NODES
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.node import documents as node_documents
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.settings import Change, from_parameters, parameters_of
from optitrack_vrpn.settings.parameters import is_foreign
from optitrack_vrpn.tools import parameters_command
from optitrack_vrpn.tools.parameters_command import (
    BEGIN, END, generated, parameter_file, settings_class, with_table)
from optitrack_vrpn.vrpn.messages import PoseReport
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / 'config' / 'optitrack_vrpn.yaml'
TABLE = parameters_of(NodeSettings)
BY_NAME = {row.name: row for row in TABLE}
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


def body_settings(values):
    """Give the settings of single bodies; raises what is wrong."""
    found, wrong = sift_body_settings(values)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return found


# -- what is made from the settings ---------------------------------------------------------------

NODE_IDS = pytest.mark.parametrize('node', NODES, ids=[node.name for node in NODES])


def test_every_document_is_what_the_settings_say():
    """`python -m optitrack_vrpn parameters --write` makes them again."""
    if not (ROOT / 'README.md').exists():
        pytest.skip('runs in a checkout alone')
    made = generated(ROOT)
    assert {path.name for path in made} == {
        'README.md', 'parameters.md', *(f'{node.name}.yaml' for node in NODES)}
    for path, text in made.items():
        assert path.read_text() == text, path.name
    readme = (ROOT / 'README.md').read_text()
    assert BEGIN in readme and END in readme and 'docs/parameters.md' in readme


@NODE_IDS
def test_a_file_gives_every_parameter_of_its_node_its_default_and_nothing_else(node):
    """Read by another YAML reader than ROS's; ROS's own reads it below."""
    given_ = flat(yaml.safe_load(parameter_file(node))['/**']['ros__parameters'])
    cls = settings_class(node)
    assert set(given_) == {row.name for row in parameters_of(cls)}
    assert from_parameters(cls, given_) == cls()


@NODE_IDS
def test_every_parameter_is_described_in_a_sentence_and_bounded(node):
    for row in parameters_of(settings_class(node)):
        assert row.description and row.description == row.description.strip(), row.name
        assert row.description[-1] not in '.;,', row.name
        assert row.check(row.default) == row.default
        if row.hint in (float, int):
            assert row.low is not None and row.high is not None, row.name


def test_the_command_prints_the_file_of_a_node_or_its_table(capsys):
    for node in NODES:
        assert parameters_command.main(['--node', node.name]) == 0
        assert capsys.readouterr().out == parameter_file(node)
        assert parameters_command.main(['--node', node.name, '--markdown']) == 0
        shown = capsys.readouterr().out
        assert all(f'`{row.name}`' in shown for row in parameters_of(settings_class(node)))


def test_the_readme_lists_the_parameters_that_users_set_and_they_exist():
    assert len(node_documents.COMMON) == 15
    assert set(node_documents.COMMON) <= set(BY_NAME)
    listed = re.findall(r'^\| `([^`]+)`', with_table(f'{BEGIN}\n{END}'), re.MULTILINE)
    assert set(listed) == set(node_documents.COMMON)


def test_the_page_lists_every_output():
    page = parameters_command.page()
    for kind in KINDS.values():
        assert f'| `{kind.name}` | {kind.message} |' in page
    assert BY_NAME['outputs'].default == tuple(k.name for k in KINDS.values() if k.enabled)


def test_the_file_explains_every_parameter_right_above_it():
    above = {}
    comment = []
    for line in parameter_file(NODES[0]).splitlines():
        if line.lstrip().startswith('#'):
            comment.append(line.strip('# '))
            continue
        above.setdefault(line.strip().split(':')[0], []).append(' '.join(comment))
        comment = []
        assert len(line) <= 99 or 'outputs' in line
    for row in TABLE:
        texts = above[row.name.rpartition('.')[2]]
        assert any(row.description in text and row.allowed in text and row.unit in text
                   for text in texts), row.name


def test_the_example_of_a_body_is_valid_once_it_is_uncommented():
    lines = parameter_file(NODES[0]).splitlines()
    at = next(i for i, line in enumerate(lines) if "# 'Rigid Body 1'" in line)
    for i in range(at, at + 4):
        lines[i] = lines[i].replace('# ', '', 1)
    tree = yaml.safe_load('\n'.join(lines))['/**']['ros__parameters']
    assert body_settings(flat(tree)) == {'Rigid Body 1': {
        'name': 'cf1', 'max_speed': 30.0, 'lowpass.cutoff_hz': 5.0}}


def test_the_table_marks_what_is_fixed_and_when():
    rows = re.findall(r'^\| `([^`]+)`((?:\\\*)*) \|', parameters_command.page(), re.MULTILINE)
    stars = {Change.ANY_TIME: 0, Change.CONFIGURE: 1, Change.START: 2}
    assert [(name, marks.count('*')) for name, marks in rows][:len(TABLE)] == [
        (row.name, stars[row.change]) for row in TABLE]
    assert {row.name for row in TABLE if row.change is Change.START} == {
        'autostart', 'activate', *(r.name for r in TABLE if r.name.startswith('control.'))}


def test_documents_leave_out_a_readme_that_is_not_there(tmp_path):
    made = generated(tmp_path)
    assert tmp_path / 'config' / 'optitrack_vrpn.yaml' in made
    assert tmp_path / 'README.md' not in made
    (tmp_path / 'README.md').write_text(f'before\n{BEGIN}\nOUTDATED\n{END}\nafter\n')
    text = generated(tmp_path)[tmp_path / 'README.md']
    assert text.startswith('before\n') and text.endswith('after\n') and 'OUTDATED' not in text
    assert with_table('no marks') == 'no marks'


# -- what a row accepts ---------------------------------------------------------------------------

@ROWS
@settings(max_examples=30, deadline=None)
@given(value=ANYTHING)
def test_whatever_is_given_is_taken_in_the_own_type_or_refused_by_name(row, value):
    try:
        checked = row.check(value)
    except ConfigurationError as error:
        assert re.match(rf'{re.escape(row.name)}(\[\d+\])? is ', str(error))
        return
    assert type(checked) is type(row.default)
    if row.metadata['choices']:
        assert ({*checked} if row.is_list else {checked}) <= {*row.metadata['choices']}
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
    row = BY_NAME
    assert row['validation.max_speed'].check(5) == 5.0
    assert isinstance(row['validation.max_speed'].check(5), float)
    for name, value in (('port', 3883.0), ('port', True), ('load_shedding', 1), ('port', '3883'),
                        ('validation.max_speed', True), ('validation.max_speed', math.nan),
                        ('server', None), ('bodies.deny', 'drone'), ('bodies.deny', [1])):
        with pytest.raises(ConfigurationError, match=name):
            row[name].check(value)


def test_outputs_are_chosen_from_a_list():
    row = BY_NAME['outputs']
    assert row.check(['odom', 'tf']) == ('odom', 'tf')
    assert row.check(['']) == ()
    with pytest.raises(ConfigurationError, match=r"outputs\[1\] is 'pose_nde'.*mean 'pose_ned'"):
        row.check(['tf', 'pose_nde'])


def test_a_near_miss_of_a_choice_or_a_name_is_suggested():
    with pytest.raises(ConfigurationError, match="mean 'reliable'"):
        from_parameters(NodeSettings, {'qos.reliability': 'relaible'})
    with pytest.raises(ConfigurationError, match="mean 'validation.max_speed'"):
        from_parameters(NodeSettings, {'validation.max_sped': 3.0})
    with pytest.raises(ConfigurationError, match='ros2 param list'):
        from_parameters(NodeSettings, {'xyzzy': 3.0})


def test_every_wrong_value_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        from_parameters(NodeSettings, {
            'port': 0, 'up_axis': 'x', 'serverr': '', 'validation.max_speed': -1.0})
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for name in ('port', 'up_axis', 'serverr', 'validation.max_speed'):
        assert any(name in line for line in lines)


def test_a_value_is_shown_as_its_user_wrote_it():
    """ROS has lists of numbers as arrays of Python's."""
    rows = BY_NAME
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
        'bodies.a.b.validation.max_speed': 3, 'bodies.a.b.lowpass.order': 2,
        'bodies.a.b.motion.position_noise': 0.5, 'bodies.lowpass.max_speed': 1.0})
    assert found == {
        'a.b': {'max_speed': 3.0, 'lowpass.order': 2, 'motion.position_noise': 0.5},
        'lowpass': {'max_speed': 1.0}}
    with pytest.raises(ConfigurationError, match='twice'):
        body_settings({'bodies.a.validation.max_speed': 3.0, 'bodies.a.max_speed': 4.0})
    with pytest.raises(ConfigurationError, match=r"a\.lowpass\.cutof.*'lowpass.cutoff_hz'"):
        body_settings({'bodies.a.lowpass.cutof': 3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.lowpass\.order is 99; allowed'):
        body_settings({'bodies.a.lowpass.order': 99})
    fixed = ('name', 'offset', 'lowpass.order')
    changing = ('max_speed', 'validation.max_speed', 'motion.position_noise')
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
    connect: {retry_max_s: 2, give_up_after_s: 0}
    bodies:
      allow: []
      deny: ['Rigid Body 9', 'ghost*']
      'Rigid Body 1': {name: cf1, max_speed: 30}
      drone/left: {max_angular_rate: 50}
      a.b c: {detect_zeroed: false}
    validation: {max_speed: 20, acquire_frames: 5}
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
        made = here.node.configuration
        assert made.pipeline.selection.allow == ()
        assert made.pipeline.selection.deny == ('Rigid Body 9', 'ghost*')
        assert made.pipeline.overrides['Rigid Body 1'] == {'max_speed': 30.0}
        assert made.pipeline.overrides['drone/left'] == {'max_angular_rate': 50.0}
        assert made.pipeline.overrides['a.b c'] == {'detect_zeroed': False}
        for name in ('Rigid Body 1', 'ghost 1', 'a.b c'):
            report = PoseReport(name, 0, 0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
            here.node.receive([report], 0, 0)
        wanted = {'/cf1/pose', '/a_b_c/pose'}
        ros.wait_until(lambda: wanted <= {one.topic_name for one in here.node.publishers})
        assert not any('ghost' in one.topic_name for one in here.node.publishers)
        assert made.pipeline.body.max_speed == 20.0 and made.pipeline.body.acquire_frames == 5
        assert made.settings.client.link.retry_max_s == 2.0


@pytest.mark.ros
def test_topics_may_be_in_the_private_namespace_of_the_node(ros):
    given_ = {'server': '127.0.0.1', 'port': 9, 'topics.pose': '~/{body}/pose'}
    with ros.NodeHere(given_, spin=False, namespace='/lab') as here:
        assert here.node.trigger_configure().name == 'SUCCESS'
        report = PoseReport('wand', 0, 0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
        here.node.receive([report], 0, 0)
        wanted = {'/lab/optitrack_vrpn/wand/pose', '/lab/wand/pose_ned'}
        ros.wait_until(lambda: wanted <= {one.topic_name for one in here.node.publishers})


@pytest.mark.ros
def test_the_shipped_file_changes_nothing(ros):
    arguments = ['--ros-args', '--params-file', str(CONFIG)]
    with ros.NodeHere(args=arguments, spin=False) as filled, ros.NodeHere(spin=False) as plain:
        for here in (filled, plain):
            assert here.node.trigger_configure().name == 'SUCCESS'
        assert filled.node.configuration == plain.node.configuration


@pytest.mark.ros
def test_all_wrong_values_of_a_file_are_told_at_start_and_again_by_configure(
        ros, observer, tmp_path):
    path = tmp_path / 'wrong.yaml'
    path.write_text(
        '/**:\n  ros__parameters: {port: 99999, up_axis: x, validation: {max_sped: 3.0, '
        'max_speed: fast}, bodies: {drone 1: {max_sped: 1.0}, wand: {offset: [1, 2]}, '
        'a: {name: x}, b: {name: x}}, autostart: 1, server: "10.0.0.1:3883", '
        'topics: {pose: pose}, frames: {body: nose, world: "/w", world_ned: ""}, '
        'use_sim_time: true}\n')
    wrong = ('port', 'up_axis', 'validation.max_sped', 'validation.max_speed', 'autostart',
             'bodies.drone 1.max_sped', 'bodies.wand.offset', "'a' and 'b'", 'server',
             'topics.pose', 'frames.body', 'frames.world', 'frames.world_ned', 'use_sim_time')
    with ros.NodeProcess('--params-file', path) as node:
        for name in wrong:
            node.wait_for(rf'ERROR.*\]: .*{re.escape(name)}(?!\w)')
        assert not observer.transition('configure')
        assert observer.state() == 'unconfigured'
        for name in wrong:
            node.wait_for(rf'ERROR.*cannot configure: .*{re.escape(name)}(?!\w)')
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
        assert 'did you mean' in observer.set(validation__max_sped=3.0)
        assert not lacking(observer.set(bodies__allow=[1, 2]), 'bodies.allow is [1, 2]',
                           "list of strings, such as ['a', 'b']")
        # What is read at start alone would be set to no purpose.
        assert 'read-only' in observer.set(autostart=True)
        assert 'read-only' in observer.set(activate=False)
        assert observer.set(control__configure_on_start=True) != ''
        assert observer.get('port') == 19
        assert observer.transition('configure')
        assert node.configuration.settings.client.port == 19
        # Configured, what is dynamic is applied.
        assert observer.set(validation__max_speed=7) == ''    # as YAML writes it
        assert node.configuration.pipeline.body.max_speed == 7.0
        assert observer.set(bodies__deny=['ghost*'], outputs=['pose', 'tf']) == ''
        assert node.configuration.pipeline.selection.deny == ('ghost*',)
        assert node.configuration.settings.outputs == ('pose', 'tf')
        assert observer.set_all({'bodies.Rigid Body 1.max_speed': 12.0}) == ''
        assert node.configuration.pipeline.overrides == {'Rigid Body 1': {'max_speed': 12.0}}
        assert observer.set_all({'bodies.Rigid Body 1.motion.angular_process_noise': 5.0}) == ''
        assert node.configuration.pipeline.estimates == {
            'Rigid Body 1': {'motion.angular_process_noise': 5.0}}
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.lowpass.order': 3})
        assert observer.set_all({'bodies.Rigid Body 1.max_speed': None}) == ''
        assert node.configuration.pipeline.overrides == {}
        # What is not, or is wrong, is refused with the reason and changes nothing.
        assert 'fixed while' in observer.set(port=20)
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.name': 'cf1'})
        assert 'be a number' in observer.set(validation__max_speed='fast')
        assert observer.set(validation__jump_accept_s=-1.0) != ''
        assert observer.set(validation__acquire_frames=0) != ''    # has limits too
        assert "'max_speed'" in observer.set_all({'bodies.drone.max_sped': 1.0})
        assert 'cannot be deleted' in observer.set_all({'validation.max_speed': None})
        assert 'real time' in observer.set(use_sim_time=True)
        # Libraries that the node uses have parameters of their own.
        assert node.declare_parameter('diagnostic_updater.other', 1.0).value == 1.0
        assert observer.set(diagnostic_updater__other=2.0, use_sim_time=False) == ''
        assert observer.get('validation.max_speed') == 7 and observer.get('port') == 19
        assert node.configuration.pipeline.body.jump_accept_s == 2.0
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
            assert described.additional_constraints.endswith(row.change.value)
            assert described.read_only is (row.change is Change.START)
        described = here.node.describe_parameter('validation.max_speed')
        assert described.floating_point_range == [
            FloatingPointRange(from_value=0.0, to_value=1000.0)]
        assert here.node.describe_parameter('port').integer_range[0].to_value == 65535


@pytest.mark.parametrize('name, foreign', [
    ('sever', False), ('validation.max_sped', False), ('topics.psoe', False),
    ('stamps.foo', False),
    ('robot_description', True), ('wheel_radius', True), ('nav.planner.tolerance', True)])
def test_parameters_of_other_nodes_in_a_shared_file_are_no_typing_errors(name, foreign):
    assert is_foreign(name, BY_NAME) is foreign


@pytest.mark.parametrize(('name', 'value', 'said'), [
    ('port', 'x', 'it must be a whole number (1 to 65535)'),
    ('bodies.deny', 3, "it must be a list of strings, such as ['a', 'b']"),
    ('world_offset.origin', 3, 'it must be a list of 3 numbers'),
    ('validation.max_speed', 'x', 'it must be a number')])
def test_types_are_named_in_plain_words(name, value, said):
    with pytest.raises(ConfigurationError) as refused:
        BY_NAME[name].check(value)
    assert said in str(refused.value)


def test_a_setting_of_a_body_that_resembles_none_is_told_all_that_are_allowed():
    _, (line,) = sift_body_settings({'bodies.a.enabled': True})
    assert 'did you mean' not in line
    assert 'allowed: name, topic, frame, offset, validation.*, lowpass.*, motion.*' in line
    _, (line,) = sift_body_settings({'bodies.a.max_sped': 1.0})
    assert "mean 'max_speed'?" in line


@pytest.mark.parametrize('server', ['192.168.1.999', '1.2.3.4.5', '256.0.0.1'])
def test_an_address_that_cannot_be_is_not_taken_for_a_name(server):
    with pytest.raises(ConfigurationError, match='server is .* IPv4 address'):
        ClientConfig(server=server)


@pytest.mark.parametrize('server', ['192.168.1.99', 'motive.lab', '10.0.0.1.lab', '127.1'])
def test_addresses_and_names_that_can_be_are_taken(server):
    assert ClientConfig(server=server).server == server
