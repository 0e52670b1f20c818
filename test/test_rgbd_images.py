# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The pixels of sensor_msgs/Image against OpenCV and against bytes written by struct."""

import struct
from types import SimpleNamespace

from conftest import examples
from hypothesis import given, settings, strategies
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import (
    check_sizes, COLOUR, DEPTH, from_depth, from_rgb, grey_of, ImageError, scaled_pair,
    to_depth, to_grey, to_rgb)
import pytest

RANDOM = np.random.default_rng(3)
RGB = RANDOM.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def image(encoding, pixels, padding=0, **changes):
    """Make an image as a driver does, with padded rows."""
    rows = [row.tobytes() + b'\xa5' * padding for row in pixels]
    return SimpleNamespace(**{
        'height': len(rows), 'width': pixels.shape[1], 'encoding': encoding, 'is_bigendian': 0,
        'step': len(rows[0]), 'data': b''.join(rows), **changes})


def with_alpha(pixels):
    return np.concatenate([pixels, np.full((*pixels.shape[:2], 1), 9, np.uint8)], axis=2)


def test_a_pair_is_scaled_with_its_camera_but_not_where_the_sizes_differ():
    """Resized to the size of a wrong camera_info, images would be taken for right ones."""
    camera = Intrinsics(8, 6, 10.0, 10.0, 3.5, 2.5)
    grey, depth = np.zeros((6, 8), np.uint8), np.ones((6, 8), np.float32)
    small, shallow, scaled = scaled_pair(grey, depth, camera, 0.5)
    assert small.shape == shallow.shape == (3, 4) and scaled == camera.scaled(0.5)
    for image, other in ((np.zeros((12, 16), np.uint8), np.ones((12, 16), np.float32)),
                         (grey, np.ones((3, 4), np.float32))):
        found = scaled_pair(image, other, camera, 0.5)
        assert found[0] is image and found[1] is other and found[2] is camera
        with pytest.raises(ImageError):
            check_sizes(*found)


@pytest.mark.parametrize('encoding, pixels', [
    ('rgb8', RGB), ('bgr8', RGB[..., ::-1]), ('8UC3', RGB[..., ::-1]),
    ('rgba8', with_alpha(RGB)), ('bgra8', with_alpha(RGB[..., ::-1])),
])
@pytest.mark.parametrize('padding', [0, 5])
def test_each_encoding_gives_the_same_colours(encoding, pixels, padding):
    cv2 = pytest.importorskip('cv2')
    given_image = image(encoding, np.ascontiguousarray(pixels), padding)
    np.testing.assert_array_equal(to_rgb(given_image), RGB)
    theirs = cv2.cvtColor(RGB, cv2.COLOR_RGB2GRAY)
    np.testing.assert_allclose(to_grey(given_image).astype(int), theirs, atol=1)
    np.testing.assert_array_equal(to_grey(given_image), grey_of(RGB))


@pytest.mark.parametrize('order, big', [('<', 0), ('>', 1)])
def test_depth_in_millimetres_of_either_byte_order(order, big):
    data = struct.pack(f'{order}6H', 0, 1, 500, 1000, 2500, 65535)
    depth = to_depth(SimpleNamespace(height=2, width=3, encoding='16UC1', is_bigendian=big, step=6,
                                     data=data))
    assert depth.dtype == np.float32
    np.testing.assert_allclose(depth, [[0, 0.001, 0.5], [1, 2.5, 65.535]], rtol=1e-6)


@pytest.mark.parametrize('order, big', [('<', 0), ('>', 1)])
def test_depth_in_metres_has_zero_where_nothing_was_measured(order, big):
    data = struct.pack(f'{order}6f', 1.5, float('nan'), float('inf'), -float('inf'), -1.0, 0.0)
    depth = to_depth(SimpleNamespace(height=1, width=6, encoding='32FC1', is_bigendian=big,
                                     step=24, data=data))
    assert depth.tolist() == [[1.5, 0, 0, 0, 0, 0]]


def test_written_images_are_read_again():
    depth = np.array([[0, 0.5, 1.234], [4.999, 70.0, 0.001]], np.float32)
    metres = to_depth(SimpleNamespace(**from_depth(depth, '32FC1')))
    np.testing.assert_array_equal(metres, depth)
    rounded = to_depth(SimpleNamespace(**from_depth(depth)))
    np.testing.assert_allclose(rounded, np.where(depth > 65, 0, depth), atol=0.0005)
    np.testing.assert_array_equal(to_rgb(SimpleNamespace(**from_rgb(RGB))), RGB)
    np.testing.assert_array_equal(to_grey(SimpleNamespace(**from_rgb(RGB[..., 0]))), RGB[..., 0])


@pytest.mark.parametrize('read, given_image, message', [
    (to_depth, image('rgb8', RGB), 'topics of colour and depth swapped'),
    (to_rgb, image('16UC1', RGB[..., 0].astype('<u2')), 'topics of colour and depth swapped'),
    (to_grey, image('32FC1', RGB[..., 0].astype('<f4')), 'topics of colour and depth swapped'),
    (to_grey, image('bayer_rggb8', RGB[..., 0]), 'debayer'),
    (to_grey, image('yuv422', RGB), "'yuv422', which is not supported"),
    (to_depth, image('64FC1', RGB), "'64FC1', which is not supported"),
    (to_rgb, image('rgb8', RGB, data=b'123'), 'truncated'),
    (to_rgb, image('rgb8', RGB, step=20), 'rows of 20 bytes'),
    (to_depth, image('32FC1', RGB[..., 0].astype('<u2')), 'encoding or step is wrong'),
    (to_rgb, image('rgb8', RGB, height=0), 'empty'),
])
def test_an_image_that_cannot_be_read_says_why(read, given_image, message):
    with pytest.raises(ImageError, match=message):
        read(given_image)


@settings(max_examples=examples(200), deadline=None)
@given(strategies.sampled_from([*COLOUR, *DEPTH, '', 'nonsense']), strategies.integers(0, 6),
       strategies.integers(0, 6), strategies.integers(0, 40), strategies.integers(0, 1),
       strategies.binary(max_size=200))
def test_any_bytes_give_pixels_or_the_one_error(encoding, height, width, step, big, data):
    given_image = SimpleNamespace(height=height, width=width, encoding=encoding, step=step,
                                  is_bigendian=big, data=data)
    for read in (to_rgb, to_grey, to_depth):
        try:
            assert read(given_image).shape[:2] == (height, width)
        except ImageError:
            pass
