# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The drivers and their datagrams: what is sent to a machine, and what it answers."""

from contextlib import closing
import socket
import struct
import time

from gantry_kit import settings_of
from hypothesis import given, strategies as st
from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.guests.machine.gantry_sim_io import SimulatedMachine, UdpMachine
from optitrack_vrpn.guests.machine.machine import Machine
from optitrack_vrpn.guests.machine.machine_io import load_machine, UdpDriver
from optitrack_vrpn.guests.machine.setpoints import (
    ahead, Cubic, decode_answer, decode_set_points, encode_answer, encode_set_points,
    MachineAnswer, SetPoints, Switches)
from optitrack_vrpn.guests.machine.view import table, view_of
import pytest
from transport_kit import wait_until

cubic = st.builds(Cubic, *[st.floats(-1e9, 1e9)] * 4)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.lists(cubic, max_size=32))
def test_set_points_are_read_back(sequence, power, cubics):
    points = SetPoints(sequence, 0.01, power, tuple(cubics))
    assert decode_set_points(encode_set_points(points)) == points


@given(st.integers(0, 2**32 - 1), st.booleans(),
       st.lists(st.builds(Switches, st.booleans(), st.booleans(), st.booleans()), max_size=32))
def test_answers_are_read_back(sequence, power, switches):
    answer = MachineAnswer(sequence, power, tuple(switches))
    assert decode_answer(encode_answer(answer)) == answer


@given(st.binary(max_size=300), st.sampled_from([b'', b'OVGC', b'OVGM']))
def test_any_bytes_are_read_or_refused(data, head):
    for decode in (decode_set_points, decode_answer):
        try:
            decode(head + data)
        except RemoteProtocolError:
            pass


def test_set_points_lie_where_the_page_says():
    data = encode_set_points(SetPoints(7, 0.01, True, (Cubic(1.0, 2.0, 3.0, 4.0),)))
    assert struct.unpack('<4sIdII4d', data) == (b'OVGC', 7, 0.01, 1, 1, 1.0, 2.0, 3.0, 4.0)
    data = encode_answer(MachineAnswer(7, False, (Switches(True, False, True),)))
    assert struct.unpack('<4sIIII', data) == (b'OVGM', 7, 0, 1, 5)


SETTINGS = settings_of('chaser_x')
REST = {'chaser_x': Cubic(0.0, 0.0, 0.0, 0.0)}


@pytest.fixture
def machine():
    found = UdpMachine(SETTINGS)
    yield found
    found.close()


@pytest.fixture
def driver(machine):
    with closing(UdpDriver(SETTINGS, '127.0.0.1', machine.port)) as found:
        yield found


def settle(driver, machine, cubics=None):
    """Send set points; gives the feedback of the machine that has taken them."""
    before, found = machine.received, []
    driver.run(REST if cubics is None else cubics, 0.01)
    wait_until(lambda: machine.received != before)
    wait_until(lambda: found.append(driver.feedback()) or found[-1] is not None)
    return found[-1]


@pytest.mark.network
def test_the_udp_driver_moves_the_machine_and_reads_its_switches(machine, driver):
    feedback = settle(driver, machine, {'chaser_x': Cubic(0.0, 1.0, 0.0, 0.0)})
    assert feedback.power and feedback.switches['chaser_x'] == Switches()
    assert machine.machine.axes['chaser_x'].steps == round(0.01 * 170358)
    machine.machine.axes['chaser_x'].position = 3.2
    assert settle(driver, machine).switches['chaser_x'].high


@pytest.mark.network
def test_a_second_controller_is_refused_while_the_first_is_there(machine, driver):
    settle(driver, machine)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for data in (encode_set_points(SetPoints(9, 0.01, True, (Cubic(9e9, 0, 0, 0),))),
                     b'', b'OVGC', b'x' * 1500):
            other.sendto(data, ('127.0.0.1', machine.port))
        wait_until(lambda: machine.refused == 4)
    assert machine.machine.axes['chaser_x'].steps == 0


@given(st.integers(0, 2**40), st.integers(1 - 2**31, 2**31 - 1))
def test_sequence_numbers_have_an_order_beyond_32_bits(sequence, distance):
    assert ahead((sequence + distance) % 2**32, sequence % 2**32) == distance
    assert ahead(sequence + distance, sequence % 2**32) == distance


@pytest.mark.network
def test_the_machine_follows_a_controller_beyond_32_bits(machine):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(20)
        other.connect(('127.0.0.1', machine.port))
        for sequence in (2**32 - 2, 2**32 - 1, 0, 1):
            other.send(encode_set_points(SetPoints(sequence, 0.01, True, tuple(REST.values()))))
            assert decode_answer(other.recv(100)).sequence == sequence
        for late in (2**32 - 1, 0, 1):
            other.send(encode_set_points(SetPoints(late, 0.01, True, tuple(REST.values()))))
        wait_until(lambda: machine.refused == 3)


@pytest.mark.parametrize('step', [1e308, float('nan'), -1e16])
def test_set_points_that_no_machine_can_reach_are_refused(step):
    with pytest.raises(RemoteProtocolError):
        decode_set_points(encode_set_points(SetPoints(
            0, 0.5, True, (Cubic(0.0, 0.0, 0.0, step),))))


@pytest.mark.network
def test_a_restarted_controller_does_not_move_the_motors_to_its_own_zero(machine, driver):
    settle(driver, machine, {'chaser_x': Cubic(0.0, 30.0, 0.0, 0.0)})
    driver.close()
    axis = machine.machine.axes['chaser_x']
    stood = axis.steps
    assert stood == round(0.3 * 170358)
    time.sleep(1.1)     # the silence of the restart
    with closing(UdpDriver(SETTINGS, '127.0.0.1', machine.port)) as second:
        settle(second, machine)
        assert axis.steps == stood
        settle(second, machine, {'chaser_x': Cubic(0.0, 1.0, 0.0, 0.0)})
        assert axis.steps == stood + round(0.01 * 170358)


def test_a_reset_does_not_move_the_motors_to_set_points_of_the_time_without_power():
    plant = SimulatedMachine(SETTINGS)
    axis = plant.axes['chaser_x']
    plant.run({'chaser_x': Cubic(0.0, 1.0, 0.0, 0.0)}, 0.01)
    plant.power = False
    plant.run({'chaser_x': Cubic(0.01, 1.0, 0.0, 0.0)}, 0.01)
    plant.power = True
    stood = axis.steps
    plant.run({'chaser_x': Cubic(0.02, 0.0, 0.0, 0.0)}, 0.01)
    assert axis.steps == stood != 0


@pytest.mark.network
def test_cutting_the_power_does_not_wait_for_a_cycle(machine, driver):
    settle(driver, machine, {'chaser_x': Cubic(0.0, 1.0, 0.0, 0.0)})
    assert machine.machine.power
    driver.cut_power()
    wait_until(lambda: not machine.machine.power)


@pytest.mark.network
def test_a_machine_that_floods_the_controller_does_not_hold_a_cycle():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        flood.bind(('127.0.0.1', 0))
        with closing(UdpDriver(SETTINGS, *flood.getsockname())) as driver:
            driver.run(REST, 0.01)
            _, address = flood.recvfrom(2048)
            for _ in range(150):
                flood.sendto(b'x', address)
            driver.feedback()
            assert 0 < driver.refused < 150
            driver.feedback()
            driver.feedback()
            assert driver.refused == 150


@pytest.mark.network
@pytest.mark.parametrize('data, words', [
    (b'x', '1 bytes'), (encode_answer(MachineAnswer(0, True, (Switches(),) * 2)),
                        '2 axes instead of 1')])
def test_the_driver_says_why_it_uses_no_answer_until_it_uses_one(data, words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(('127.0.0.1', 0))
        with closing(UdpDriver(SETTINGS, *other.getsockname())) as driver:
            driver.run(REST, 0.01)
            _, address = other.recvfrom(2048)
            other.sendto(data, address)
            assert driver.feedback() is None and words in driver.trouble
            other.sendto(encode_answer(MachineAnswer(0, True, (Switches(),))), address)
            assert driver.feedback() is not None and driver.trouble == ''


@pytest.mark.network
def test_a_machine_that_never_answers_is_the_trouble_of_the_driver(machine, driver):
    settle(driver, machine)
    with closing(UdpDriver(SETTINGS, '127.0.0.1', machine.port)) as second:
        for _ in range(SETTINGS.loss_cycles):
            assert second.feedback() is None and second.trouble == ''
            second.run(REST, 0.01)
        assert second.feedback() is None and 'without another controller' in second.trouble


def shown(control):
    views = map(view_of, control.axes.values())
    return [(each.name, each.state, {**each.cells, 'warnings': each.warnings}) for each in views]


def test_on_a_terminal_of_80_columns_the_table_shows_every_axis_and_its_warnings():
    control = Machine(load_machine('gantry_racoon'))
    for axis in control.axes.values():
        axis.warnings |= {'mocap_lost', 'correction_limit'}
    assert max(map(len, table(shown(control)))) > 80
    lines = table(shown(control), 80)
    assert len(lines) == 14 and max(map(len, lines)) <= 80
    assert all('correction_limit, mocap_lost' in line for line in lines[2:])
