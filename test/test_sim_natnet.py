# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The simulated Motive's NatNet against independent clients.

PyPI's ``natnet`` reads 3.0 to 4.2. PyPI's ``motioncapture`` reads 3.0 to 4.1 and ends with a
segmentation fault on the model definitions of 4.2; by unicast it listens on the data port, to
which no Motive sends, so that it is run by multicast. It holds Python's lock while it waits and
needs its own process.
"""

import json
import math
import socket
import statistics
import subprocess
import sys
import time

from conftest import independent
import natnet_kit
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.frames import decode_frame
from optitrack_vrpn.drivers.natnet.messages import MessageId
from optitrack_vrpn.sim.natnet import NatNetWorld
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import World
import pytest
from server_kit import free_port
from transport_kit import wait_until

pytestmark = pytest.mark.network

CLIENT = """
import json, motioncapture, sys
client = motioncapture.connect('optitrack', {
    'hostname': '127.0.0.1', 'port_command': sys.argv[1], 'interface_ip': '127.0.0.1'})
for _ in range(5):
    client.waitForNextFrame()
print(json.dumps({name: [*map(float, b.position), b.rotation.x, b.rotation.y, b.rotation.z,
                         b.rotation.w] for name, b in client.rigidBodies.items()}), flush=True)
"""


def simulated(bodies=('Rigid Body 1', '1drone'), **natnet):
    return natnet_kit.simulated(list(bodies), motion='still', natnet=natnet)


def true_poses(server):
    return {name: (server.world.truth(name, 0.0).position[0],
                   server.world.truth(name, 0.0).quat_xyzw[0]) for name in server.world.names}


@pytest.mark.parametrize('version', ['3.0', '3.1', '4.0', '4.1', '4.2'])
def test_pypi_natnet_reads_names_poses_and_times(version):
    natnet = independent('natnet')
    with simulated(version=version) as server:
        client = natnet.NatNetClient(
            '127.0.0.1', '127.0.0.1', command_port=server.port_of('natnet'), use_multicast=False)
        frames, models = [], []
        client.on_data_frame_received_event.handlers.append(frames.append)
        client.on_data_description_received_event.handlers.append(models.append)
        with client:
            client.request_modeldef()
            end = time.monotonic() + 10.0
            while (len(frames) < 20 or not models) and time.monotonic() < end:
                client.update_sync()
        assert str(client.protocol_version).startswith(version)
        names = {body.id_num: body.name for body in models[0].rigid_bodies}
        assert list(names.values()) == ['Rigid Body 1', '1drone']
        for body in frames[-1].rigid_bodies:
            position, quat = true_poses(server)[names[body.id_num]]
            assert body.tracking_valid
            assert math.dist(body.pos, position) < 1e-6 and math.dist(body.rot, quat) < 1e-6
        steps = [b.suffix.stamp_camera_mid_exposure - a.suffix.stamp_camera_mid_exposure
                 for a, b in zip(frames, frames[1:])
                 if b.prefix.frame_number == a.prefix.frame_number + 1]
        assert steps and all(abs(step - 50_000) < 1_000 for step in steps)    # of 100 ns
        for suffix in (frame.suffix for frame in frames):
            assert (suffix.stamp_camera_mid_exposure < suffix.stamp_data_received
                    < suffix.stamp_transmit)


@pytest.mark.parametrize('version', ['3.0', '3.1', '4.0', '4.1'])
def test_motioncapture_reads_names_and_poses(version):
    independent('motioncapture')
    with simulated(version=version, multicast=True, data_port=free_port()) as server:
        run = subprocess.run([sys.executable, '-c', CLIENT, str(server.port_of('natnet'))],
                             capture_output=True, text=True, timeout=30)
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout.splitlines()[-1])
        assert set(found) == {'Rigid Body 1', '1drone'}
        for name, (position, quat) in true_poses(server).items():
            assert math.dist(found[name][:3], position) < 1e-6
            assert math.dist(found[name][3:], quat) < 1e-6


class Raw:
    """
    A client made of a socket.

    :ivar ports: the source ports of what came, by type of the message.
    """

    def __init__(self, server):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server = '127.0.0.1', server.port_of('natnet')
        self.sock.settimeout(5.0)
        self.ports = {}

    def ask(self, datagram, wanted):
        self.sock.sendto(datagram, self.server)
        while True:
            data, (_, port) = self.sock.recvfrom(65536)
            message_id, payload = codec.decode_message(data)
            self.ports.setdefault(message_id, set()).add(port)
            if message_id in (wanted, 100):
                return message_id, payload

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.sock.close()


@pytest.mark.parametrize('version', ['3.0', '4.4'])
def test_frames_leave_from_the_stated_data_port_as_the_closed_library_requires(version):
    with simulated(version=version) as server, Raw(server) as client:
        info = codec.decode_server_info(client.ask(codec.encode_hello('one', (4, 4)), 1)[1])
        client.ask(codec.encode_message(MessageId.KEEP_ALIVE), MessageId.FRAME)
        assert client.ports == {
            MessageId.SERVER_INFO: {server.port_of('natnet')}, MessageId.FRAME: {info.data_port}}
        assert info.data_port != server.port_of('natnet')
        assert client.ask(codec.encode_request('Disconnect'), MessageId.RESPONSE)[1] == bytes(4)


def test_two_simulators_on_one_computer_send_from_one_data_port():
    port = free_port()
    with simulated(data_port=port) as one, simulated(data_port=port) as other:
        for server in (one, other):
            with Raw(server) as client:
                client.ask(codec.encode_hello('one', (4, 1)), MessageId.FRAME)
                assert client.ports[MessageId.FRAME] == {port}


def test_each_unicast_client_chooses_its_bitstream():
    with simulated(version='4.2') as server, Raw(server) as old, Raw(server) as new:
        old.ask(codec.encode_hello('old', (4, 2), bitstream=(3, 0)), 1)
        new.ask(codec.encode_hello('new', (4, 2)), 1)
        keep_alive = codec.encode_message(MessageId.KEEP_ALIVE)
        assert len(decode_frame(old.ask(keep_alive, 7)[1], (3, 0)).bodies) == 2
        assert len(decode_frame(new.ask(keep_alive, 7)[1], (4, 2)).bodies) == 2
        assert new.ask(codec.encode_request('Bitstream'), 3)[1] == b'Bitstream,4.2.0.0\0'
        assert old.ask(codec.encode_request('Bitstream'), 3)[1] == b'Bitstream,3.0.0.0\0'


def test_silent_clients_are_forgotten_and_nonsense_is_counted():
    with simulated(client_timeout=0.3) as server, Raw(server) as client:
        client.ask(codec.encode_hello('client', (4, 1)), 1)
        assert server.clients == 1
        assert client.ask(codec.encode_request('MakeCoffee'), 3)[0] == 100
        # States more bytes than it has: counted, not answered.
        client.sock.sendto(b'\xff' * 300, client.server)
        client.sock.sendto(b'', client.server)
        wait_until(lambda: not server.clients)
        assert server.counters.dropped['timeout'] == 1
        assert server.counters.malformed_requests == 2


def test_a_body_out_of_view_keeps_its_last_pose_and_loses_its_flag():
    occlusion = {'type': 'occlusion', 'mode': 'silent', 'start': 0.1, 'end': 0.2}
    with natnet_kit.simulated(
            [{'name': 'Wand', 'faults': [occlusion]}], rate=100, paced=False,
            natnet={'version': '3.0'}) as server, Raw(server) as client:
        client.ask(codec.encode_hello('client', (3, 0)), 1)
        bodies = []
        for _ in range(25):
            server.send_frame()
            _, payload = client.ask(codec.encode_message(MessageId.KEEP_ALIVE), 7)
            bodies += decode_frame(payload, (3, 0)).bodies
        assert [body[9] & 1 for body in bodies] == [1] * 10 + [0] * 10 + [1] * 5
        assert {body[1:8] for body in bodies[10:20]} == {bodies[9][1:8]}


def test_a_doubled_frame_comes_twice_with_equal_times():
    with natnet_kit.simulated(1, paced=False, faults=[
            {'type': 'duplicate_frames', 'probability': 1.0}]) as server, Raw(server) as client:
        client.ask(codec.encode_hello('client', (4, 1)), 1)
        server.send_frame()
        keep_alive = codec.encode_message(MessageId.KEEP_ALIVE)
        assert client.ask(keep_alive, 7) == client.ask(keep_alive, 7)


def test_times_are_distributed_as_in_the_capture_of_motive_2_1():
    """9 us between exposures, 5.4 ms +- 0.2 ms to the transmission, 4.6 ms to the reception."""
    scenario = scenario_from_mapping({'bodies': 1, 'rate': 120, 'natnet': {}})
    world = NatNetWorld(scenario, ['Wand'])
    exposures = [number * 8_333_333 + world.exposure_jitter_ns() for number in range(5_000)]
    steps = [b - a for a, b in zip(exposures, exposures[1:])]
    assert statistics.stdev(steps) == pytest.approx(9_000, rel=0.1)
    processing = [world.processing_ns() for _ in range(5_000)]
    assert statistics.median(processing) == pytest.approx(5.4e6, rel=0.01)
    assert statistics.stdev(processing) == pytest.approx(201e3, rel=0.1)
    frame = world.frame(World(scenario).frame(0), 10**9, 10**9 + 5_400_000)
    assert (frame.received - frame.exposure) / 10_000_000 == pytest.approx(4.6e-3, abs=1e-6)


@pytest.mark.parametrize('bodies, natnet', [
    ([f'{n:03} {"x" * 90}' for n in range(400)], {'markers': 0}),    # the model definitions
    ([str(n) for n in range(500)], {'markers': 4})])                 # the frames
def test_bodies_that_fit_no_datagram_are_refused(bodies, natnet):
    """Motive has no such limit, and a client that asked for the definitions ended the server."""
    with pytest.raises(ConfigurationError, match='NatNet.*use fewer'):
        simulated(bodies, **natnet).start()


def test_definitions_that_grew_too_large_end_nothing():
    with simulated() as server, Raw(server) as client:
        server.serving('natnet').world.set_models([f'{n:03} {"x" * 90}' for n in range(400)])
        client.sock.sendto(codec.encode_definitions_request(), client.server)
        assert client.ask(codec.encode_hello('client', (4, 1)), 1)[0] == 1
        assert server.failure is None
