"""Kernels that fill given arrays: which nodes have one, and that they allocate no memory."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - registers what is tested
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernels.filling import bind_filling_kernel, copying, remembering
from support.eager import EagerBuilder

_random = np.random.default_rng(0)
X = _random.standard_normal((256, 16, 64)).astype(np.float32)
IMAGES = X.reshape(16, 16, 16, 64)
ROWS = X.reshape(4096, 64)
LABELS = _random.integers(0, 64, 4096)
CHANNELS = _random.random(64, np.float32)
CONDITION = X > 0
NONE = np.zeros(0, np.float32)
STATISTICS = [CHANNELS] * 4
NOT_TO_BE_SEEN = 1 / 8
"""Temporary arrays below this fraction of the largest output are ignored, such as vectors."""


def ints(*values):
    return np.array(values, np.int32)


BIG = [
    ("Sum", [X, ints(2)], {}),
    ("Mean", [X, ints(1)], {"keep_dims": True}),
    ("Max", [X, ints(0)], {}),
    ("Min", [X, ints(2)], {}),
    ("Prod", [X, ints(2)], {}),
    ("All", [CONDITION, ints(1)], {}),
    ("Any", [CONDITION, ints(0)], {}),
    ("ArgMax", [X, np.int32(2)], {}),
    ("ArgMin", [X, np.int32(0)], {}),
    ("ArgMin", [X, np.int32(1)], {}),
    ("L2Loss", [X], {}),
    ("AddN", [[X, X, X]], {}),
    ("Cast", [X], {"DstT": dtypes.int32}),
    ("BiasAdd", [X, CHANNELS], {}),
    ("BiasAddGrad", [X], {}),
    ("Softmax", [ROWS], {}),
    ("LogSoftmax", [ROWS], {}),
    ("SoftmaxCrossEntropyWithLogits", [ROWS, ROWS], {}),
    ("SparseSoftmaxCrossEntropyWithLogits", [ROWS, LABELS], {}),
    ("FusedBatchNormV3", [IMAGES, *STATISTICS], {"is_training": True}),
    ("FusedBatchNormV3", [IMAGES, *STATISTICS], {"is_training": False}),
    ("FusedBatchNormGradV3", [IMAGES, IMAGES, CHANNELS, CHANNELS, CHANNELS, NONE], {}),
    ("Transpose", [X, ints(2, 0, 1)], {}),
    ("BroadcastTo", [CHANNELS, ints(4096, 64)], {}),
    ("Tile", [X, ints(1, 2, 1)], {}),
    ("Slice", [X, ints(0, 0, 8), ints(-1, -1, -1)], {}),
    ("StridedSlice", [X, ints(0, 0), ints(0, 16), ints(1, 2)], {"end_mask": 1}),
    ("StridedSliceGrad", [ints(256, 32, 64), ints(0, 0), ints(256, 32), ints(1, 2), X], {}),
    ("ReverseV2", [X, ints(1)], {}),
    ("Split", [np.int32(2), X], {"num_split": 2}),
    ("SplitV", [X, np.array([16, -1]), np.int32(2)], {"num_split": 2}),
    ("Unpack", [X.reshape(2, -1)], {"num": 2, "axis": 0}),
    ("Pack", [[X, X]], {"axis": 1}),
    ("ConcatV2", [[X, X], np.int32(2)], {}),
    ("Concat", [np.int32(0), [X, X]], {}),
    ("Pad", [X, np.ones((3, 2), np.int32)], {}),
    ("PadV2", [X, np.ones((3, 2), np.int32), np.float32(3)], {}),
    ("MirrorPad", [X, np.ones((3, 2), np.int32)], {"mode": "REFLECT"}),
    ("OneHot", [LABELS, np.int32(64), np.float32(1), np.float32(0)], {}),
    ("Fill", [ints(4096, 64), np.float32(2)], {}),
    ("ZerosLike", [X], {}),
    ("OnesLike", [X], {}),
    ("Select", [CONDITION, X, X], {}),
    ("SelectV2", [CONDITION, X, CHANNELS], {}),
    ("Maximum", [X, CHANNELS], {}),
    ("Exp", [X], {}),
    ("Less", [X, X], {}),
    ("Equal", [X, X], {}),
    ("FloorDiv", [X.astype(np.int32), np.full(64, 3, np.int32)], {}),
    ("SquaredDifference", [X, CHANNELS], {}),
    ("RandomUniform", [ints(4096, 64)], {"dtype": dtypes.float32}),
    ("RandomStandardNormal", [ints(4096, 64)], {"dtype": dtypes.float32}),
    *((each, [X], {}) for each in ("Relu", "Relu6", "Sigmoid", "Softsign", "Rsqrt", "Tanh")),
    *((each, [X, X], {}) for each in ("ReluGrad", "TanhGrad", "SoftplusGrad", "EluGrad")),
    *((each, [X, X], {}) for each in ("SoftsignGrad", "SqrtGrad", "ReciprocalGrad")),
]


def ran(op_type, inputs, attrs):
    """Returns a builder, an operation that has run, and its op."""
    g, op = EagerBuilder(), registry.lookup(op_type)
    tensors = [
        [g.tensor(each) for each in value] if isinstance(value, list) else g.tensor(value)
        for value in inputs
    ]
    with np.errstate(all="ignore"):
        return g, g.run(op, tensors, attrs), op


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), BIG, ids=[each[0] for each in BIG])
def test_filling_takes_no_memory(op_type, inputs, attrs):
    g, operation, op = ran(op_type, inputs, attrs)
    kernel = bind_filling_kernel(op, operation, g.context)
    arrays = [tensor.value for tensor in operation.inputs]
    outputs = [
        np.empty(np.shape(each.value), np.asarray(each.value).dtype) for each in operation.outputs
    ]
    largest = max(each.nbytes for each in [*outputs, *arrays])
    with np.errstate(all="ignore"):
        kernel(*arrays, *outputs)  # what the first call caches does not count
        tracemalloc.start()
        try:
            kernel(*arrays, *outputs)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < largest * NOT_TO_BE_SEEN


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("shape", [(30, 70, 50), (3, 2, 9000), (700, 50), (5000, 3, 4)])
def test_positions_in_large_arrays_pass_nan(op_type, shape):
    x = np.random.default_rng(2).integers(0, 40, shape).astype(np.float64)
    x[-1].flat[:-1:2] = np.nan
    find, worst = {"ArgMax": (np.argmax, -np.inf), "ArgMin": (np.argmin, np.inf)}[op_type]
    for value in (x, x[..., ::-1]):
        for axis in range(x.ndim):
            g, operation, op = ran(op_type, [value, np.int32(axis)], {})
            expected = find(np.where(np.isnan(value), worst, value), axis)
            np.testing.assert_array_equal(operation.outputs[0].value, expected)
            out = np.full(expected.shape, -1)
            bind_filling_kernel(op, operation, g.context)(value, np.array(axis), out)
            np.testing.assert_array_equal(out, expected)


def test_random_numbers_are_those_of_the_stream():
    for op_type in ("RandomUniform", "RandomStandardNormal"):
        attrs = {"dtype": dtypes.float64, "seed": 3, "seed2": 4}
        g, operation, op = ran(op_type, [ints(5)], attrs)
        again = op.bind(operation, g.context)(ints(5))
        g, operation, op = ran(op_type, [ints(5)], attrs)
        out = np.empty(5)
        bind_filling_kernel(op, operation, g.context)(ints(5), out)
        np.testing.assert_array_equal(out, again)


def test_narrow_random_numbers_are_made_of_others():
    g, operation, op = ran("RandomUniform", [ints(5)], {"dtype": dtypes.float16})
    assert bind_filling_kernel(op, operation, g.context) is None


def test_what_is_computed_in_a_wider_type_is_not_filled():
    narrow = np.ones((3, 4), dtypes.bfloat16.numpy)
    g, operation, op = ran("Sum", [narrow, ints(0)], {})
    assert op.bind_out(operation, g.context) is not None
    assert bind_filling_kernel(op, operation, g.context) is None
    for op_type, inputs in (("Softmax", [narrow]), ("Mean", [narrow, ints(0)])):
        halves = [each.astype(np.float16) if each is narrow else each for each in inputs]
        g, operation, op = ran(op_type, halves, {})
        assert bind_filling_kernel(op, operation, g.context) is None


def test_on_a_gpu_nothing_is_filled():
    g, operation, op = ran("Exp", [X], {})
    elsewhere = dataclasses.replace(g.context, xp=object())
    assert bind_filling_kernel(op, operation, elsewhere) is None


def test_joining_says_what_is_wrong_as_compute_does():
    g, operation, op = ran("ConcatV2", [[X, X], np.int32(2)], {})
    kernel = bind_filling_kernel(op, operation, g.context)
    with pytest.raises(InvalidArgumentError, match="Dimension 1 in both shapes must be equal"):
        kernel(X, X[:, 1:], np.array(2, np.int32), np.empty((256, 16, 128), np.float32))


def test_copying_copies_all_views():
    copy = copying(lambda x: (x[:1], x[1:]), inputs=1)
    outs = np.zeros(1), np.zeros(2)
    copy(np.arange(3.0), *outs)
    np.testing.assert_array_equal(np.concatenate(outs), [0, 1, 2])


def test_only_constants_are_remembered():
    calls = []

    def read(shape, numbers):
        calls.append(shape)
        return numbers.tolist()

    remembered = remembering(read)
    writeable = np.array([1, 2])
    assert remembered((2,), writeable) == [1, 2]
    writeable[0] = 3
    assert remembered((2,), writeable) == [3, 2]
    elsewhere = memoryview(b"ab")  # like an array of a GPU: not one of numpy's
    remembered((2,), elsewhere)
    calls.clear()
    remembered((2,), elsewhere)
    assert calls == [(2,)]
    constant = np.array([4])
    constant.flags.writeable = False
    calls.clear()
    assert remembered((2,), constant) == remembered((2,), constant) == [4]
    assert calls == [(2,)]
    remembered((3,), constant)
    assert calls == [(2,), (3,)]


def test_numbers_are_told_apart_by_their_place():
    read = []
    constants = [np.array([number]) for number in range(4)]
    for each in constants:
        each.flags.writeable = False
    remembered = remembering(lambda shape, *numbers: read.append(numbers) or len(read))
    one, two, three, four = constants
    for numbers in ((one,), (one, two), (one, two, three), (one, two, four), (one, four, three)):
        assert remembered((2,), *numbers) == remembered((2,), *numbers) == len(read)
        assert read[-1] == numbers
    assert len(read) == 5
