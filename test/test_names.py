# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Every name of a body in Motive becomes a valid ROS name, unique among bodies."""

from hypothesis import given, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import (
    NAME_RULES, NameTable, NameTemplates, printable, ros_name, wrong_name)
from optitrack_vrpn.node.settings import FrameSettings, TopicSettings
import pytest
from rclpy.validate_full_topic_name import validate_full_topic_name

TEMPLATES = NameTemplates(
    {'pose': '{body}/pose', 'pose_ned': '{body}/pose_ned'},
    {'body': '{body}', 'body_ned': '{body}_ned'})


@pytest.mark.parametrize('motive, ros', [
    ('wand', 'wand'), ('Rigid Body 1', 'Rigid_Body_1'), ('1drone', 'body_1drone'),
    ('drone/left', 'drone/left'), ('Umbrella-2', 'Umbrella_2'), ('trailing ', 'trailing'),
    (' a  b ', 'a_b'), ('Größe', 'Gro_udf_e'),
    ('无人机', 'u65e0_u4eba_u673a'), ('', 'body'), ('a//b', 'a/b'), ('/abs/', 'abs'),
    ('a__b', 'a_b'),
    ('x\0\n\x1b[31m', 'x_31m'), ('fleet/1', 'fleet/body_1')])
def test_motives_names_become_ros_names(motive, ros):
    assert ros_name(motive) == ros


@given(st.text(max_size=300), st.sampled_from(NAME_RULES))
def test_any_name_is_taken_by_ros(name, rule):
    validate_full_topic_name('/' + ros_name(name, rule) + '/pose')


#: By the source of each driver; '' where it would stop at the name, so that the usual rule holds.
@pytest.mark.parametrize(('motive', 'vrpn_mocap', 'vrpn_client_ros', 'unchanged'), [
    ('Rigid Body 1', 'Rigid_Body_1', 'RigidBody1', ''),
    ('drone/left', 'drone_left', 'drone/left', 'drone/left'),
    ('tail_', 'tail_', 'tail_', 'tail_'), ('_lead', '_lead', 'lead', '_lead'),
    ('Größe', 'Gr_e', 'Gre', ''), ('1drone', '', 'drone', ''), ('a  b', 'a_b', 'ab', ''),
    ('a-1', 'a_1', 'a1', ''), ('左', '_', '', ''), ('a__b', 'a_b', '', '')])
def test_names_are_cleaned_as_the_other_driver_does(
        motive, vrpn_mocap, vrpn_client_ros, unchanged):
    for rule, expected in (('vrpn_mocap', vrpn_mocap), ('vrpn_client_ros', vrpn_client_ros),
                           ('unchanged', unchanged)):
        assert ros_name(motive, rule) == (expected or ros_name(motive)), rule


def test_where_another_driver_would_put_two_bodies_on_one_topic_the_second_has_a_number():
    table = NameTable(NameTemplates(
        {'pose': '/vrpn_mocap/{body}/pose'}, {'body': '{body}'}, 'vrpn_mocap'))
    first, second = table.assign('drone left'), table.assign('drone/left')
    assert (first.topics['pose'], first.clash) == ('/vrpn_mocap/drone_left/pose', None)
    assert (second.topics['pose'], second.clash) == (
        '/vrpn_mocap/drone_left_2/pose', 'drone left')


def test_messages_and_frames_have_any_name_unchanged():
    table = NameTable(NameTemplates({'pose': '{body}/pose'}, {'body': '{body}_mocap'},
                                    'unchanged'))
    names = table.assign('wand', '1')
    assert (names.title, names.frames['body']) == ('1', '1_mocap')
    assert names.topics['pose'] == 'body_1/pose', 'ROS accepts no topic that begins with a digit'
    names = table.assign('Rigid Body 1')
    assert (names.title, names.frames['body']) == ('Rigid Body 1', 'Rigid_Body_1_mocap')


@given(st.lists(st.text(max_size=12), unique=True, max_size=30))
def test_two_names_never_become_one(names):
    table = NameTable(TEMPLATES, ['optitrack', 'optitrack_ned'])
    bodies = [table.assign(name) for name in names]
    for group in ('topics', 'frames'):
        given_names = [n for body in bodies for n in getattr(body, group).values()]
        assert len(set(given_names)) == len(given_names)
    assert [table.assign(name) for name in names] == bodies


def test_names_in_other_scripts_do_not_depend_on_the_order_of_the_bodies():
    names = ['左', '右', 'дрон']
    for order in (names, names[::-1]):
        table = NameTable(TEMPLATES)
        found = {name: table.assign(name) for name in order}
        assert [found[name].ros for name in names] == [
            'u5de6', 'u53f3', 'u434_u440_u43e_u43d']
        assert not any(each.clash for each in found.values())


def test_a_clash_is_named():
    table = NameTable(TEMPLATES)
    assert table.assign('drone 1').clash is None
    second = table.assign('drone-1')
    assert (second.ros, second.clash) == ('drone_1_2', 'drone 1')
    assert second.topics['pose'] == 'drone_1_2/pose'


def test_a_body_cannot_take_another_ones_ned_frame_or_the_worlds():
    table = NameTable(TEMPLATES, ['optitrack', 'optitrack_ned'])
    table.assign('a')
    assert table.assign('a_ned').frames['body'] == 'a_ned_2'
    assert table.assign('optitrack').frames['body'] == 'optitrack_2'


@pytest.mark.parametrize('template', ['{body}/{other}', '{}/pose', '{body}//pose',
                                      '{body}/1', '{body} pose', '{body}/', '1{body}',
                                      '~{body}', '~', '/~/{body}', 'a/~/{body}', '~//{body}'])
def test_bad_topic_templates_are_refused(template):
    with pytest.raises(ConfigurationError, match='pose is'):
        TopicSettings(pose=template)
    assert wrong_name(template, 'pose', True, template=True)


def test_templates_that_make_one_name_of_two_are_refused():
    with pytest.raises(ConfigurationError, match='not all different'):
        TopicSettings(pose='{body}/pose', pose_ned='{body}/pose')
    with pytest.raises(ConfigurationError, match='same as body'):
        FrameSettings(body='{body}', body_ned='{body}')


@given(st.text(max_size=400))
def test_printable_is_one_bounded_line(text):
    shown = printable(text)
    assert len(shown) <= 120 and shown.isprintable()
