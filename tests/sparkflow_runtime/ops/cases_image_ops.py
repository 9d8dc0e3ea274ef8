"""Rows of image ops; values of many more settings are in differential/image.json."""

import io

import numpy as np
from PIL import Image

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime.dtypes import float32, float64, uint8, uint16
from support.op_cases import FailureCase, OpCase, WrongShapeCase

RNG = np.random.default_rng(1)
IMAGES = RNG.integers(0, 9, (2, 4, 3, 3)) / 8
PIXELS = RNG.integers(0, 256, (5, 4, 3), np.uint8)
GRADS = np.ones((2, 8, 6, 3), np.float32)
BOXES = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]], np.float32)
NUMBERS = np.array([1, 0], np.int32)
WHOLE = np.array([4, 3], np.int32)
TWICE = np.array([8, 6], np.int32)
SCORES = np.array([0.5, 0.75, 0.25])
APART = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 2.0, 1.0, 3.0]])
HALF = np.array(0.5, np.float32)


def number(value, kind=np.float32):
    return np.array(value, kind)


def contents(kind, pixels=PIXELS):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return np.array(stream.getvalue(), object)


def doubled(x, size):
    return x.repeat(2, 1).repeat(2, 2)


def means(x, size):
    """Bilinear and bicubic resizing to the same size changes nothing."""
    return x


def jpeg_pixels(_):
    return np.asarray(Image.open(io.BytesIO(contents("JPEG").item())).convert("RGB"))


def contrasted(x, factor):
    mean = x.mean((1, 2), keepdims=True)
    return (x - mean) * factor + mean


NARROW = {"dtypes": [float32, float64]}
CASES = [
    OpCase("ResizeBilinear", [IMAGES, WHOLE], expected=means),
    OpCase("ResizeBicubic", [IMAGES, WHOLE], expected=means, rtol=3e-6),
    OpCase("ResizeBilinearGrad", [np.ones((2, 4, 3, 3), np.float32), IMAGES], **NARROW),
    OpCase("ResizeBicubicGrad", [GRADS, IMAGES], **NARROW),
    OpCase("ResizeArea", [IMAGES, TWICE], expected=doubled, rtol=3e-6),
    OpCase("ResizeNearestNeighbor", [IMAGES, TWICE], expected=doubled, gradient=(0,)),
    OpCase("ResizeNearestNeighborGrad", [GRADS, WHOLE], expected=lambda g, s: 4 * g[:, :4, :3]),
    OpCase("RGBToHSV", [np.array([[1.0, 0.5, 0.5]])], expected=np.array([[0, 0.5, 1]]), **NARROW),
    OpCase("HSVToRGB", [np.array([[0.0, 0.5, 1.0]])], expected=np.array([[1, 0.5, 0.5]]), **NARROW),
    OpCase(
        "AdjustContrastv2", [IMAGES, number(0.5)], expected=contrasted, atol=1e-6, dtypes=[float32]
    ),
    OpCase(
        "AdjustHue", [IMAGES, number(0.0)], expected=lambda x, d: x, atol=1e-6, dtypes=[float32]
    ),
    OpCase(
        "AdjustSaturation",
        [IMAGES, number(1.0)],
        expected=lambda x, d: x,
        atol=1e-6,
        dtypes=[float32],
    ),
    OpCase(
        "DecodePng",
        [contents("PNG")],
        expected=lambda _: PIXELS,
        dynamic_shape=True,
        dtypes=[uint8],
        dtype_attr="dtype",
    ),
    OpCase(
        "DecodePng",
        [contents("PNG")],
        {"dtype": uint16},
        dynamic_shape=True,
        expected=lambda _: PIXELS.astype(np.uint16) * 257,
        dtypes=[None],
    ),
    OpCase(
        "DecodeAndCropJpeg",
        [contents("JPEG"), np.array([1, 0, 3, 2], np.int32)],
        expected=lambda data, _: jpeg_pixels(data)[1:4, :2],
        dynamic_shape=True,
    ),
    OpCase("DecodeJpeg", [contents("JPEG")], expected=jpeg_pixels, dynamic_shape=True),
    OpCase("DecodeBmp", [contents("BMP")], expected=lambda _: PIXELS, dynamic_shape=True),
    OpCase(
        "DecodeGif",
        [contents("GIF", PIXELS[:, :, 0])],
        dynamic_shape=True,
        expected=lambda _: PIXELS[None, :, :, :1].repeat(3, 3),
    ),
    OpCase("ExtractJpegShape", [contents("JPEG")], expected=np.array([5, 4, 3], np.int32)),
    OpCase("EncodePng", [PIXELS], dtypes=[uint8]),
    OpCase("EncodeJpeg", [PIXELS]),
    OpCase(
        "CropAndResize",
        [IMAGES, BOXES, NUMBERS, WHOLE],
        rtol=3e-6,
        atol=1e-6,
        expected=lambda x, *_: x[[1, 0]],
    ),
    OpCase(
        "CropAndResizeGradImage",
        [np.ones((2, 4, 3, 3), np.float32), BOXES, NUMBERS, np.array([2, 4, 3, 3], np.int32)],
        {"T": float32},
        expected=np.ones((2, 4, 3, 3)),
        rtol=3e-6,
        dtypes=[None],
    ),
    OpCase("CropAndResizeGradBoxes", [GRADS[:, :4, :3], IMAGES, BOXES, NUMBERS], **NARROW),
    OpCase(
        "NonMaxSuppressionV3",
        [APART, SCORES, number(3, np.int32), HALF, number(-1)],
        expected=np.array([1, 2], np.int32),
        dynamic_shape=True,
        dtypes=[float32],
    ),
    OpCase(
        "NonMaxSuppressionV4",
        [APART, SCORES, number(3, np.int32), HALF, number(-1)],
        {"pad_to_max_output_size": True},
        expected=(np.array([1, 2, 0], np.int32), np.array(2, np.int32)),
        dtypes=[float32],
    ),
    OpCase(
        "NonMaxSuppressionWithOverlaps",
        [
            np.eye(3, dtype=np.float32),
            SCORES.astype(np.float32),
            number(2, np.int32),
            HALF,
            number(-1),
        ],
        expected=np.array([1, 0], np.int32),
        dynamic_shape=True,
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "RGBToHSV", [(2, 4)], message="input must have 3 channels but input only has [2,4]"
    ),
]

FAILURES = [
    FailureCase(
        "ResizeBilinear",
        [IMAGES, np.array([0, 3], np.int32)],
        message="output dimensions must be positive",
    ),
    FailureCase(
        "EncodeJpeg", [PIXELS], {"quality": 101}, message="quality must be in [0,100], got 101"
    ),
]
