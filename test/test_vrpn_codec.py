# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Single messages: the recorded bytes, and encoding followed by decoding."""


from hypothesis import given, strategies as st
from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError, VersionRefusedError
from optitrack_vrpn.drivers.vrpn import codec
from optitrack_vrpn.drivers.vrpn.codec import (
    LocalNames, MAX_IDS, MAX_NAME_SIZE, MAX_SENDER_SECONDS, TEXT_HEAD)
import pytest

#: The first bytes that either side of the real library (07.38) sends.
REAL_COOKIE = b'vrpn: ver. 07.38  0\0\0\0\0\0'


def test_cookie_is_the_real_librarys():
    assert codec.encode_cookie() == REAL_COOKIE
    assert codec.decode_cookie(REAL_COOKIE) == (7, 38, '')


@pytest.mark.parametrize('length', range(24))
def test_half_a_cookie_is_waited_for(length):
    assert codec.decode_cookie(REAL_COOKIE[:length]) is None


def test_another_minor_version_is_accepted_and_another_major_is_not():
    assert codec.decode_cookie(REAL_COOKIE.replace(b'07.38', b'07.33')).minor == 33
    with pytest.raises(VersionRefusedError, match='08.01'):
        codec.decode_cookie(REAL_COOKIE.replace(b'07.38', b'08.01'))


@pytest.mark.parametrize('data', [
    b'HTTP/1.1 400 Bad Request\r\n', b'H', b'\x15\x03\x01\x00\x02\x02\x46',
    REAL_COOKIE.replace(b'  0', b'  7'), REAL_COOKIE.replace(b'07.38', b'7.380')])
def test_cookies_of_other_programs_are_refused_at_once(data):
    with pytest.raises(RemoteProtocolError):
        codec.decode_cookie(data)


def test_request_is_the_real_clients():
    # UDP payload of the real client in udp_lob.pcap and two_clients.pcap.
    assert codec.encode_request('127.0.0.1', 37577) == b'127.0.0.1 37577\0'
    assert codec.decode_request(b'127.0.0.1 37577\0') == ('127.0.0.1', 37577)
    for port in (1024, 65535):
        assert codec.decode_request(codec.encode_request('a.b', port)) == ('a.b', port)


@pytest.mark.parametrize('data', [
    b'', b'127.0.0.1\0', b'127.0.0.1 1023\0', b'127.0.0.1 65536\0', b'a;b 5000\0',
    b'127.0.0.1 5000 6000\0', b'\xff\xfe 5000\0', b'x' * 400 + b' 5000\0'])
def test_requests_that_no_server_would_follow_are_refused(data):
    with pytest.raises(RemoteProtocolError):
        codec.decode_request(data)


@pytest.mark.parametrize('host, port', [
    ('a b', 5000), ('', 5000), ('127.0.0.1', 1023), ('127.0.0.1', 65536), ('x' * 200, 5000)])
def test_requests_that_no_server_would_follow_are_not_made(host, port):
    with pytest.raises(LocalProtocolError):
        codec.encode_request(host, port)


@given(st.integers(0, 4_000_000_000), st.integers(0, 999_999), st.integers(-2**31, 2**31 - 1),
       st.integers(-2**31, 2**31 - 1), st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_message_is_padded_and_its_length_is_not(seconds, micros, sender, kind, payload, number):
    time_ns = seconds * 10**9 + micros * 1000
    message = codec.encode_message(sender, kind, payload, time_ns, number)
    assert len(message) % 8 == 0 and len(message) - len(payload) - 24 < 8
    head = codec.HEADER.unpack_from(message)
    assert head == (24 + len(payload), seconds, micros, sender, kind, number)
    assert message[24:24 + len(payload)] == payload
    assert codec.sender_time_ns(head[1], head[2]) == time_ns


@given(st.text(min_size=1).filter(
    lambda t: '\0' not in t and len(t.encode('utf-8', 'surrogatepass')) < 100
    and not any('\ud800' <= c <= '\udfff' for c in t)))
def test_names_there_and_back(name):
    assert codec.decode_name(codec.encode_name(name)) == name


def test_names_that_are_not_utf8_stay_apart():
    one = codec.decode_name(b'\0\0\0\4\xff\xfea\0')
    other = codec.decode_name(b'\0\0\0\4\xff\xfda\0')
    assert one != other and one.endswith('a')


@pytest.mark.parametrize('name', ['', 'x' * 100, 'a\0b'])
def test_names_that_do_not_fit_are_not_made(name):
    with pytest.raises(LocalProtocolError):
        codec.encode_name(name)


@pytest.mark.parametrize('payload', [
    b'', b'\0\0\0\0', b'\0\0\0\1\0', b'\0\0\0\4ab', b'\0\0\0\2\0\0',
    (101).to_bytes(4, 'big') + b'x' * 100 + b'\0', b'\xff\xff\xff\xffab\0'])
def test_names_that_contradict_their_length_are_refused(payload):
    with pytest.raises(RemoteProtocolError):
        codec.decode_name(payload)


def test_the_longest_name_and_a_name_without_its_last_nul_are_read():
    assert codec.decode_name((100).to_bytes(4, 'big') + b'x' * 99 + b'\0') == 'x' * 99
    assert codec.decode_name(b'\0\0\0\4abc') == 'abc'


@given(st.binary(max_size=1100))
def test_any_payload_gives_a_value_or_the_remote_error(data):
    for decode in (codec.decode_name, codec.decode_text, codec.decode_request,
                   lambda d: codec.decode_udp_description(5, d), codec.decode_cookie):
        try:
            decode(data)
        except RemoteProtocolError:
            pass


def test_a_text_ends_at_its_first_nul_or_with_its_field():
    payload = codec.encode_text('frame 30', 1, 7)
    assert codec.decode_text(payload[:20] + b'\xffgarbage' * 10) == (1, 7, 'frame 30')
    assert codec.decode_text(codec.encode_text('x' * 5000)) == (0, 0, 'x' * 1023)
    assert len(payload) == len(codec.encode_text('x' * 5000)) == 1032


@pytest.mark.parametrize('port', [-1, 0, 65536])
def test_a_description_of_no_port_is_refused(port):
    with pytest.raises(RemoteProtocolError):
        codec.decode_udp_description(port, b'127.0.0.1\0')
    assert codec.decode_udp_description(65535, b'127.0.0.1\0') == ('127.0.0.1', 65535)


@pytest.mark.parametrize('time_ns', [-1, 2**63])
def test_times_that_the_wire_cannot_hold_are_not_sent(time_ns):
    with pytest.raises(LocalProtocolError):
        codec.encode_message(1, 2, b'', time_ns, 0)


def test_times_that_cannot_be_meant_are_none():
    assert codec.sender_time_ns(1234, 567000) == 1234_567_000_000
    assert codec.sender_time_ns(1234, 1_000_000) is None
    assert codec.sender_time_ns(0xffff_ffff, 0) is None


def test_the_limits_of_the_wire_are_reached_exactly():
    longest = 'n' * (MAX_NAME_SIZE - 1)
    assert codec.decode_name(codec.encode_name(longest)) == longest
    assert codec.encode_message(1, 2, b'', MAX_SENDER_SECONDS * 10**9, 0)
    assert codec.decode_text(TEXT_HEAD.pack(1, 2)) == (1, 2, '')
    names = LocalNames()
    for number in range(1, MAX_IDS):
        assert names.sender_id(str(number)) == number
    for table in (names.sender_id, LocalNames().type_id):
        with pytest.raises(LocalProtocolError):
            table('one too many' if table == names.sender_id else '')
