# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of a real node: files, descriptors, and changes at run time."""


from conftest import lacking
from pipeline_kit import pose_report
import pytest
import yaml


FILE = """
/**:
  ros__parameters:
    server: 127.0.0.1
    connect: {retry_max_s: 2}
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
        assert made.pipeline.bodies['Rigid Body 1'] == {
            'name': 'cf1', 'topic': 'cf1', 'frame': 'cf1', 'max_speed': 30.0}
        assert made.pipeline.bodies['drone/left'] == {'max_angular_rate': 50.0}
        assert made.pipeline.bodies['a.b c'] == {'detect_zeroed': False}
        for name in ('Rigid Body 1', 'ghost 1', 'a.b c'):
            report = pose_report(name, 0, (1.0, 2.0, 3.0))
            here.node.receive([report], 0, 0)
        wanted = {'/cf1/pose', '/a_b_c/pose'}
        ros.wait_until(lambda: wanted <= {one.topic_name for one in here.node.publishers})
        assert not any('ghost' in one.topic_name for one in here.node.publishers)
        assert made.pipeline.body.max_speed == 20.0 and made.pipeline.body.acquire_frames == 5
        assert made.settings.client.link.retry_max_s == 2.0


def dump(node):
    """Give the parameters of a node as ``ros2 param dump`` writes them."""
    values = {name: parameter.value for name, parameter in
              node.get_parameters_by_prefix('').items()}
    plain = {name: list(value) if hasattr(value, 'tolist') else value
             for name, value in values.items()}
    return yaml.dump({'/**': {'ros__parameters': plain}}, default_flow_style=False)


@pytest.mark.ros
@pytest.mark.parametrize('up_axis', ['y', 'z'])
def test_a_dump_of_the_parameters_can_be_loaded_again(ros, tmp_path, up_axis):
    """YAML reads the unquoted y that PyYAML writes as true, and ROS writes [] as null."""
    text = FILE.replace('server:', f'up_axis: {up_axis}\n    server:')
    seen = []
    for turn in range(3):
        path = tmp_path / f'{turn}.yaml'
        path.write_text(text)
        with ros.NodeHere(args=['--ros-args', '--params-file', str(path)], spin=False) as here:
            assert here.node.trigger_configure().name == 'SUCCESS'
            assert here.node.get_parameter('up_axis').value == up_axis
            seen.append(here.node.configuration)
            text = dump(here.node)
    assert seen[0] == seen[1] == seen[2]
    assert seen[0].settings.axes.up_axis == up_axis and seen[0].settings.bodies.allow == ()


@pytest.mark.ros
def test_parameters_change_at_run_time_or_say_why_not(ros, observer):
    with ros.NodeHere({'server': '127.0.0.1', 'port': 9}) as here:
        node = here.node
        # Unconfigured, everything can be set, but to nothing wrong.
        assert observer.set(server='127.0.0.2', port=19) == ''
        assert 'Min: 1, Max: 65535, value: 0' in observer.set(port=0)    # by rclpy
        assert not lacking(observer.set(bodies__allow=[1, 2]), 'bodies.allow is [1, 2]',
                           "list of strings, such as ['a', 'b']")
        # What is read at start alone would be set to no purpose.
        assert 'read-only' in observer.set(autostart=True)
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
        assert node.configuration.pipeline.bodies == {'Rigid Body 1': {'max_speed': 12.0}}
        assert observer.set_all({'bodies.Rigid Body 1.motion.position_noise': 5}) == ''
        assert node.configuration.pipeline.bodies == {
            'Rigid Body 1': {'max_speed': 12.0, 'motion.position_noise': 5.0}}
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.lowpass.cutoff_hz': 3.0})
        assert observer.set_all({'bodies.Rigid Body 1.max_speed': None}) == ''
        assert node.configuration.pipeline.bodies == {
            'Rigid Body 1': {'motion.position_noise': 5.0}}
        # What is not, or is wrong, is refused with the reason and changes nothing.
        assert 'fixed while' in observer.set(port=20)
        assert 'fixed' in observer.set_all({'bodies.Rigid Body 1.name': 'cf1'})
        assert observer.set(validation__jump_accept_s=-1.0) != ''
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
