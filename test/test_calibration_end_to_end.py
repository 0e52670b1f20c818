# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Simulated Motive and IMU, the node, a recorded take, calibrate: the delay of the simulator."""

import json

from conftest import BOTH_PROTOCOLS
import numpy as np
from optitrack_vrpn.sim.imu import ImuModel
from optitrack_vrpn.takes.calibrate.command import main
import pytest
from rosbags.highlevel import AnyReader
from rosgraph import NodeProcess, port_parameters
from scipy.spatial.transform import Rotation

pytestmark = [
    pytest.mark.ros, pytest.mark.network, pytest.mark.timed, pytest.mark.timeout(300)]
#: Of frames on the way, and in force in the node (ms).
DELAY, IN_FORCE = 7.0, 3.0


@BOTH_PROTOCOLS
def test_the_latency_is_the_delay_of_the_simulator(tmp_path, capsys, protocol):
    take = tmp_path / 'take'
    record(take, 20.0, protocol)
    capsys.readouterr()
    main(['imu', str(take), '--body', 'wand', '--imu', '/imu/data_raw', '--json'])
    found = json.loads(capsys.readouterr().out)
    # With NatNet stamps are exposures, whatever is in force, and no parameter is proposed.
    expected = DELAY if protocol == 'vrpn' else IN_FORCE
    assert found['refused'] == [], found['reasons']
    assert found['latency_ms']['value'] == pytest.approx(expected, abs=0.2)
    assert ('stamps.latency_ms' in found['parameters']) == (protocol == 'vrpn')
    model = ImuModel()
    turn = Rotation.from_rotvec(model.rotation).inv() * Rotation.from_quat(
        found['rotation_xyzw']['value'])
    assert np.degrees(turn.magnitude()) < 0.05
    np.testing.assert_allclose(found['lever_arm_m']['value'], model.lever_arm, atol=5e-4)
    # White noise of a density has the variance density^2 * rate in each sample.
    with AnyReader([take]) as bag:
        rows = [row for row in bag.connections if row.topic == '/imu/data_raw']
        sample = bag.deserialize(next(bag.messages(rows))[2], rows[0].msgtype)
    np.testing.assert_allclose(np.diag(sample.angular_velocity_covariance.reshape(3, 3)),
                               200.0 * 2.4e-4**2)
    np.testing.assert_allclose(np.diag(sample.linear_acceleration_covariance.reshape(3, 3)),
                               200.0 * 1.7e-3**2)


def record(take, seconds, protocol):
    """Record poses of the node and samples of the simulated IMU."""
    with NodeProcess('--names', 'wand', '--rate', 120, '--protocol', protocol, '--port', 0,
                     '--natnet-port', 0, '--delay-ms', DELAY, '--noise-mm', 0.3, '--noise-deg',
                     0.15, tool='imu_sim', ros=False) as sim:
        port = sim.wait_for(r'127\.0\.0\.1:(\d+)')[1]
        parameters = {'server': '127.0.0.1', 'autostart': 'true', 'stamps.latency_ms': IN_FORCE,
                      **port_parameters(protocol, port)}
        with NodeProcess(*(word for name, value in parameters.items()
                           for word in ('-p', f'{name}:={value}'))) as node:
            node.wait_for('wand')
            with NodeProcess('-o', take, '--seconds', seconds, '--topic', '/imu/*',
                             tool='record', ros=False) as recorder:
                assert recorder.process.wait(seconds + 60.0) == 0, recorder.log
