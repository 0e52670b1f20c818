# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node publishes skeletons, force plates and markers without names."""

from geometry_msgs.msg import WrenchStamped
import numpy as np
from optitrack_vrpn.core.axes import AxesConfig
from optitrack_vrpn.core.rotation import Transform
from optitrack_vrpn.drivers.frames import Extras, Plate, PlateModel, Skeleton, SkeletonModel
from optitrack_vrpn.node.skeleton_output_ros import SkeletonOutput
from optitrack_vrpn.sim.figure import BONES_51
from optitrack_vrpn.sim.figure import SimFigure as Walker
from optitrack_vrpn.sim.natnet_models import corners, force, SAMPLES
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.roster import StampedExtras
from optitrack_vrpn.stream.skeletons.bone_names import BONES
from optitrack_vrpn.stream.skeletons.settings import SkeletonSettings
from optitrack_vrpn.stream.skeletons.stage import Axes
import pytest
from rclpy.qos import QoSProfile
from rosgraph import stamp_ns, wait_until
from visualization_msgs.msg import Marker, MarkerArray

pytestmark = [pytest.mark.ros, pytest.mark.network]
QOS = QoSProfile(depth=500)
RATE = 50


def placed(transform):
    place, turn = transform.transform.translation, transform.transform.rotation
    return (place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w)


def test_every_bone_has_a_transform_where_the_figure_has_it(world, user):
    server = world.motive(1, rate=RATE, natnet={'skeletons': 2, 'bones': 51, 'version': '4.4'})
    models = server.serving('natnet').world.models
    topic = user.transforms()
    world.node(server, 'natnet', outputs=['skeleton_tf'])
    topic.wait(20)
    messages = topic.messages()[5:20]
    axes = Axes(AxesConfig(), Transform())
    names = [f'Skeleton_{i}_{bone[0]}' for i in (1, 2) for bone in BONES]
    hips = axes.positions(models.figures[0].at(np.arange(3000) / RATE)[0][:, 0])
    for message in messages:
        assert [one.child_frame_id for one in message.transforms] == names
        assert {one.header.frame_id for one in message.transforms} == {'optitrack'}
        assert len({stamp_ns(one) for one in message.transforms}) == 1
        found = [placed(one) for one in message.transforms]
        number = np.argmin(np.linalg.norm(hips - found[0][0], axis=1))
        for i in range(2):
            positions, quats = models.truth(i, number / RATE)
            shown = found[51 * i:51 * i + 51]
            assert np.abs(axes.positions(positions) - [one[0] for one in shown]).max() < 1e-6
            cosine = np.sum(axes.quats(quats) * [one[1] for one in shown], axis=1)
            assert np.abs(np.abs(cosine) - 1.0).max() < 1e-9


def test_figures_and_bones_in_other_names(world, user):
    messages = pytest.importorskip('mocap4r2_msgs.msg')
    server = world.motive(0, rate=RATE, natnet={'skeletons': 1})
    drawn = user.listen(MarkerArray, '/skeletons', QOS)
    bodies = user.listen(messages.RigidBodies, '/bones', QOS)
    world.node(server, 'natnet', outputs=['skeletons', 'bones'], **{'skeletons.names': 'fbx'})
    for topic in (drawn, bodies):
        topic.wait(3)
    lines, spheres = drawn.messages()[-1].markers
    assert lines.type == Marker.LINE_LIST and len(lines.points) == 2 * 20
    assert spheres.type == Marker.SPHERE_LIST and len(spheres.points) == 21
    found = bodies.messages()[-1].rigidbodies
    assert [one.rigid_body_name for one in found] == [
        f'Skeleton_1_{bone[1]}' for bone in BONES[:21]]
    hip = spheres.points[0]
    assert any(abs(one.pose.position.x - hip.x) < 1e-9 for message in bodies.messages()
               for one in message.rigidbodies[:1]) or len(bodies) < len(drawn)


def test_a_lost_skeleton_is_silent_and_reported(world, user, console):
    fault = {'type': 'occlusion', 'mode': 'frozen', 'start': 4.0, 'end': 5.5}
    server = world.motive(1, rate=RATE, natnet={'skeletons': 1, 'skeleton_faults': [fault]})
    topic = user.transforms()
    world.node(server, 'natnet', outputs=['skeleton_tf'])
    log = ''

    def said(text):
        nonlocal log
        log += console.unread()
        return text in log
    wait_until(lambda: said('is not tracked: none of its bones'))
    wait_until(lambda: said('is tracked again'))
    times = np.array([stamp_ns(one.transforms[0]) for one in topic.messages()]) / 1e9
    # A frame before the fault is the last one; acquiring takes three frames.
    assert 1.4 < np.diff(times).max() < 1.7


def test_bones_that_are_streamed_as_bodies_too_have_one_frame_each(world, user):
    server = world.motive(['Skeleton 1_Hip'], rate=RATE, natnet={'skeletons': 1})
    topic = user.transforms()
    world.node(server, 'natnet', outputs=['pose', 'tf', 'skeleton_tf'])
    wait_until(lambda: any(
        one.child_frame_id == 'Skeleton_1_Hip' for message in topic.messages()
        for one in message.transforms))
    before = len(topic)
    topic.wait(before + 40)
    hips = [one for message in topic.messages()[before + 10:] for one in message.transforms
            if one.child_frame_id == 'Skeleton_1_Hip']
    stamps = [stamp_ns(one) for one in hips]
    assert len(stamps) > 10 and len(set(stamps)) == len(stamps)


@pytest.mark.parametrize('kind', ['mean', 'all'])
def test_wrenches_and_the_frame_of_their_plate(world, user, kind):
    server = world.motive(1, rate=RATE, natnet={'plates': 1})
    topic = user.listen(WrenchStamped, '/Plate_1/wrench', QOS)
    frames = user.transforms()
    world.node(server, 'natnet', outputs=['wrench'], **{'skeletons.wrench': kind})
    topic.wait(60)
    wait_until(lambda: len(frames) > 3)
    found = topic.messages()[20:60]
    assert found[0].header.frame_id == 'Plate_1'
    table = np.array([[force(0, (n - j / SAMPLES) / RATE) for j in reversed(range(SAMPLES))]
                      for n in range(3000)])
    wanted = table.mean(axis=1) if kind == 'mean' else table.reshape(-1, 6)
    for one in found:
        wrench = one.wrench
        row = (wrench.force.x, wrench.force.y, wrench.force.z, wrench.torque.x, wrench.torque.y,
               wrench.torque.z)
        assert np.abs(wanted - row).max(axis=1).min() < 1e-3
    steps = np.diff([stamp_ns(one) for one in found]) / 1e9
    assert np.all(steps > 0)
    assert np.median(steps) == pytest.approx(
        1 / RATE if kind == 'mean' else 1 / RATE / SAMPLES, rel=0.2)
    (plate,) = frames.messages()[-1].transforms
    position, quat = placed(plate)
    assert plate.child_frame_id == 'Plate_1' and position == pytest.approx((0, 0, 0), abs=1e-6)
    # Motive's x is north: the plate's x is north and its y is west.
    assert np.abs(np.dot(quat, (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)))) == pytest.approx(1.0)


@pytest.mark.parametrize('most', range(1, 9))
def test_nothing_is_older_than_allowed_however_long_the_publications_before_it_take(most):
    now, ages = [0], []

    class Slow:

        def __init__(self, topic):
            self.topic_name = topic

        def get_subscription_count(self):
            return 1

        def publish(self, _):
            ages.append(now[0])
            now[0] += 10

    output = SkeletonOutput(
        lambda _, topic, __: Slow(topic), lambda _: None, Slow('/tf').publish, False)
    output.create_publishers(['skeleton_tf', 'skeletons', 'wrench'], SkeletonSettings(), 'world')
    output.listen(True, ())
    model = SkeletonModel('Bob', tuple(bone.name for bone in BONES_51), tuple(
        bone.parent - 1 for bone in BONES_51), tuple(bone.offset for bone in BONES_51))
    plate = Plate(PlateModel('P', corners(0), ('Fx', 'Fy', 'Fz', 'Mx', 'My', 'Mz'), True),
                  tuple(zip(force(0, 0.1), force(0, 0.11))))
    for frame in range(5):
        positions, quats = Walker(BONES_51).at(np.array((frame / RATE,)))
        bob = Skeleton(model, positions[0], quats[0], np.ones(51, dtype=bool))
        ages.clear()
        now[0] = 0
        at = (frame + 1) * 10**9 // RATE
        output.publish(StampedExtras(0, at, Extras((bob,), (plate,)), at),
                       PipelineConfig(), lambda: now[0], most * 10 - 5)
    # TF and figures, then the wrench and the TF of its plate, 10 after one another.
    assert ages == [10 * i for i in range(min(most, 4))]


@pytest.mark.parametrize('serial, name', [
    ('0325', 'plate_0325'), ('a' * 250, 'a' * 100), ('../..', 'unnamed'),
    ('\x1b[31m', 'plate_31m')])
def test_any_serial_number_of_a_plate_makes_a_topic_and_loses_no_pose(world, user, serial, name):
    """Serial numbers begin with digits, with which no part of a topic may."""
    server = world.motive(['wand'], rate=RATE, natnet={'plates': 1})
    models = server.serving('natnet').world.models
    describe = models.describe
    models.describe = lambda: describe()._replace(plates=tuple(
        one._replace(serial=serial) for one in describe().plates))
    poses = user.poses('/wand/pose')
    world.node(server, 'natnet', outputs=['pose', 'wrench'])
    poses.wait(20)
    wait_until(lambda: f'/{name}/wrench' in dict(
        user.node.get_topic_names_and_types()))
