"""Rows of `fourier`, `quantization` and `fake_quantization`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

random = np.random.default_rng(3)
REAL = random.normal(size=(2, 4, 3, 5))
COMPLEX = REAL + 1j * random.normal(size=REAL.shape)
WIDE = {"Tcomplex": dtypes.complex128}
ALL_WIDE = {"Tcomplex": dtypes.complex128, "Treal": dtypes.float64}
FORMS = ((1, ""), (2, "2D"), (3, "3D"))


def axes(rank):
    return tuple(range(-rank, 0))


CASES = [
    case
    for rank, suffix in FORMS
    for case in (
        OpCase(f"FFT{suffix}", [COMPLEX], {}, np.fft.fftn(COMPLEX, axes=axes(rank)),
               gradient=(0,), dtype_attr="Tcomplex", dtypes=[dtypes.complex128], rtol=1e-5),
        OpCase(f"IFFT{suffix}", [COMPLEX], {}, np.fft.ifftn(COMPLEX, axes=axes(rank)),
               gradient=(0,), dtype_attr="Tcomplex", dtypes=[dtypes.complex128], rtol=1e-5),
        OpCase(f"IFFT{suffix}", [COMPLEX], {}, np.fft.ifftn(COMPLEX, axes=axes(rank)),
               dtype_attr="Tcomplex", dtypes=[dtypes.complex64], rtol=1e-4, atol=1e-5),
        OpCase(f"FFT{suffix}", [COMPLEX[:0]], {}, COMPLEX[:0], dtype_attr="Tcomplex"),
    )
]  # fmt: skip
for rank, suffix in FORMS:
    for lengths in (REAL.shape[-rank:], (3, 4, 8)[-rank:], (5, 2, 3)[-rank:]):
        given = np.array(lengths, np.int32)
        spectrum = np.fft.rfftn(REAL, s=lengths, axes=axes(rank))
        CASES += [
            OpCase(f"RFFT{suffix}", [REAL, given], WIDE, spectrum, gradient=(0,),
                   dtype_attr="Treal", dtypes=[dtypes.float64], rtol=1e-5, atol=1e-6),
            OpCase(f"IRFFT{suffix}", [spectrum, given], {"Treal": dtypes.float64},
                   np.fft.irfftn(spectrum, s=lengths, axes=axes(rank)),
                   dtype_attr="Tcomplex", dtypes=[dtypes.complex128], rtol=1e-5, atol=1e-6),
            OpCase(f"IRFFT{suffix}", [COMPLEX, given], {"Treal": dtypes.float64},
                   gradient=(0,), dtype_attr="Tcomplex", dtypes=[dtypes.complex128]),
        ]  # fmt: skip
    CASES += [
        OpCase(f"RFFT{suffix}", [REAL[:0].astype(np.float32), np.array((4, 4, 4)[-rank:])], {},
               np.fft.rfftn(REAL, s=(4, 4, 4)[-rank:], axes=axes(rank))[:0]),
        OpCase(f"IRFFT{suffix}", [COMPLEX[:0].astype(np.complex64), np.array((4, 4, 4)[-rank:])],
               {}, np.fft.irfftn(COMPLEX, s=(4, 4, 4)[-rank:], axes=axes(rank))[:0]),
    ]  # fmt: skip
CASES = [
    case if not case.op.startswith(("RFFT", "IRFFT")) or case.dtypes else OpCase(
        case.op, [case.inputs[0], case.inputs[1].astype(np.int32)], case.attrs, case.expected,
        dtypes=[None],
    )
    for case in CASES
]  # fmt: skip

VALUES = np.array([[-7.0, -1.02, 0.0], [0.26, 3.14, 9.0]], np.float32)
LOW, HIGH = np.float32(-1.0), np.float32(3.0)


def fake_quantized(x, low, high):
    """The formula in float64: 255 steps between limits moved to make 0 exact."""
    scale = (high - low) / 255.0
    zero = np.clip(np.floor(-low / scale + 0.5), 0, 255)
    lower, upper = -zero * scale, (255 - zero) * scale
    steps = np.floor((np.clip(x, lower, upper) - lower) / scale + 0.5)
    return (steps * scale + lower).astype(np.float32)


ENDS = (np.float64(-1), np.float64(3))
INSIDE = np.array([[0, 0, 1], [1, 0, 0]], np.float32)
# No rounding at ties here.
CHANNEL_LOW, CHANNEL_HIGH = np.float32([-1, -2, -3]), np.float32([1.25, 2.25, 3.25])
CASES += [
    OpCase("FakeQuantWithMinMaxArgs", [VALUES], {"min": -1.0, "max": 3.0},
           fake_quantized(VALUES, *ENDS), rtol=1e-5, atol=1e-6),
    OpCase("FakeQuantWithMinMaxArgsGradient", [VALUES, VALUES], {"min": -1.0, "max": 3.0},
           VALUES * INSIDE),
    OpCase("FakeQuantWithMinMaxVars", [VALUES, LOW, HIGH], {}, fake_quantized(VALUES, *ENDS),
           rtol=1e-5, atol=1e-6),
    OpCase("FakeQuantWithMinMaxVars", [VALUES, LOW * 0, LOW * 0], {}, VALUES * 0),
    OpCase("FakeQuantWithMinMaxVarsGradient", [np.ones((2, 3), np.float32), VALUES, LOW, HIGH], {},
           (INSIDE, np.float32(2), np.float32(2))),
    OpCase("FakeQuantWithMinMaxVarsPerChannel", [VALUES, CHANNEL_LOW, CHANNEL_HIGH], {},
           fake_quantized(VALUES, CHANNEL_LOW.astype(float), CHANNEL_HIGH.astype(float)),
           rtol=1e-5, atol=1e-6),
    OpCase("FakeQuantWithMinMaxVarsPerChannelGradient",
           [np.ones((2, 3), np.float32), VALUES, CHANNEL_LOW, CHANNEL_HIGH], {},
           (np.float32([[0, 1, 1], [1, 0, 0]]), np.float32([1, 0, 0]), np.float32([0, 1, 1]))),
]  # fmt: skip


def record(values, dtype):
    return np.array(values).astype(dtype.numpy)


CASES += [
    OpCase("QuantizeV2", [np.float32([-2, 0, 1, 1.27]), np.float32(-1.28), np.float32(1.27)],
           {"T": dtypes.qint8, "mode": "MIN_FIRST"},
           (record([-128, 0, 100, 127], dtypes.qint8), np.float32(-1.28), np.float32(1.27))),
    OpCase("QuantizeV2", [np.float32([0, 0.5, 1, 2]), np.float32(0), np.float32(1)],
           {"T": dtypes.quint8},
           (record([0, 128, 255, 255], dtypes.quint8), np.float32(0), np.float32(1))),
    OpCase("QuantizeV2", [np.float32([-1, 0.5]), np.float32(-1), np.float32(0.5)],
           {"T": dtypes.qint8, "mode": "SCALED", "narrow_range": True},
           (record([-127, 64], dtypes.qint8), np.float32(-1), np.float32(1))),
    OpCase("Dequantize", [record([0, 51, 255], dtypes.quint8), np.float32(0), np.float32(5)], {},
           np.float32([0, 1, 5]), rtol=1e-5),
    OpCase("Dequantize", [record([-128, 0, 127], dtypes.qint8), np.float32(-1), np.float32(1)],
           {"mode": "SCALED"}, np.float32([-128 / 127, 0, 1]), rtol=1e-5),
    OpCase("QuantizeAndDequantizeV2", [np.float32([-1, 0, 0.3, 0.5]), np.float32(-1),
                                      np.float32(0.5)],
           {"range_given": True}, np.float32([-1, 0, 0.296875, 0.5])),
    OpCase("QuantizeAndDequantizeV2", [VALUES.T, CHANNEL_LOW, -CHANNEL_LOW],
           {"range_given": True, "axis": 0, "num_bits": 2, "narrow_range": True},
           np.float32([[-1, 0], [-2, 2], [0, 3]])),
    OpCase("QuantizeAndDequantizeV3", [np.float32([-1, 0, 0.3, 0.5]), np.float32(-1),
                                      np.float32(0.5), np.array(8, np.int32)],
           {}, np.float32([-1, 0, 0.296875, 0.5])),
    OpCase("QuantizeAndDequantize", [np.float32([-1, 0, 0.3, 0.5])],
           {"input_min": -1.0, "input_max": 0.5, "range_given": True},
           np.float32([-1, 0, 0.296875, 0.5])),
]  # fmt: skip

WRONG_SHAPES = [
    WrongShapeCase("FFT2D", [(3,)], {"Tcomplex": dtypes.complex64},
                   "FFT2D takes an input of at least rank 2, got shape (3,)"),
    WrongShapeCase("RFFT", [(3,), (2,)], {"Tcomplex": dtypes.complex64},
                   "fft_length must have 1 elements, got 2", {1: np.array([2, 3])}),
]  # fmt: skip
FAILURES = [
    FailureCase("FakeQuantWithMinMaxArgs", [VALUES], {"min": 3.0, "max": 1.0},
                "min has to be smaller than max, was: 3.0 >= 1.0"),
    FailureCase("QuantizeV2", [VALUES, HIGH, LOW], {"T": dtypes.qint8},
                "min_range must be less than or equal to max_range"),
    FailureCase("QuantizeAndDequantizeV2", [VALUES, HIGH, LOW], {"range_given": True},
                "Invalid range: input_min 3.0 > input_max -1.0"),
]  # fmt: skip
