import io
import wave

import numpy as np
import pytest
from PIL import Image

from sparkflow_runtime.events.audio import encode_wav
from sparkflow_runtime.events.images import as_bytes, encode_png

RED = np.array([255, 0, 0, 255], np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_files_hold_the_pixels(channels):
    pixels = np.arange(2 * 3 * channels, dtype=np.uint8).reshape(2, 3, channels)
    shown = np.array(Image.open(io.BytesIO(encode_png(pixels[:, ::-1]))))
    np.testing.assert_array_equal(shown.reshape(pixels.shape), pixels[:, ::-1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0, 2.0], [0, 127, 255]),
        ([-1.0, 0.0, 0.5], [1, 128, 191]),
        ([0.0, 1e-7, 0.0], [0, 0, 0]),
        ([np.nan, 1.0, np.inf], [255, 255, 255]),
        ([np.nan, np.nan, np.nan], [255, 255, 255]),
    ],
)
def test_pixels_are_scaled_to_the_full_range(dtype, values, expected):
    image = np.array(values, dtype).reshape(1, 3, 1)
    assert as_bytes(image, RED).ravel().tolist() == expected


def test_a_pixel_is_bad_when_one_channel_is():
    image = np.array([[[1, np.inf, 1], [0.5, 1, 0]]], np.float32)
    assert as_bytes(image, RED).tolist() == [[[255, 0, 0], [127, 255, 0]]]


def test_wav_files_hold_the_samples():
    samples = np.array([[0.0, 1.0], [-1.0, 0.5], [2.0, -2.0]])
    with wave.open(io.BytesIO(encode_wav(samples, 8000))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 2, 2)
        found = np.frombuffer(file.readframes(9), "<i2").reshape(-1, 2)
    assert found.tolist() == [[0, 32767], [-32768, 16384], [32767, -32768]]
