"""Shape inference with partly known shapes."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.value import Value


def ints(*values):
    return np.array(values, np.int32)


def index(value):
    return np.array(value, np.int32)


CONV = {"strides": [1, 2, 1, 1], "padding": "SAME"}
VALID = {"strides": [1, 1, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 2, 1], **CONV}
NCHW = {"data_format": "NCHW"}

# (op, shapes, constant inputs, attributes, expected)
ROWS = [
    ("Fill", [(2,), ()], {}, {}, (None, None)),
    ("Fill", [None, ()], {}, {}, None),
    ("Range", [(), (), ()], {0: index(0)}, {}, (None,)),
    ("LinSpace", [(), (), ()], {}, {}, (None,)),
    ("Shape", [None], {}, {}, (None,)),
    ("Shape", [(None, 2)], {}, {}, (2,)),
    ("Reshape", [(None, 4), (2,)], {1: ints(-1, 2)}, {}, (None, 2)),
    ("Reshape", [None, (2,)], {1: ints(3, 2)}, {}, (3, 2)),
    ("Reshape", [(2, 3), (2,)], {}, {}, (None, None)),
    ("Reshape", [(2, 3), (None,)], {}, {}, None),
    ("ExpandDims", [(None, 3), ()], {1: index(-1)}, {}, (None, 3, 1)),
    ("ExpandDims", [(None, 3), ()], {}, {}, (None, None, None)),
    ("Squeeze", [(None, 1)], {}, {}, None),
    ("Squeeze", [(None, 1, 3)], {}, {"squeeze_dims": [1]}, (None, 3)),
    ("Squeeze", [(None, 1, 3)], {}, {"squeeze_dims": [0]}, (1, 3)),
    ("Transpose", [(None, 3), (2,)], {1: ints(1, 0)}, {}, (3, None)),
    ("Transpose", [(2, 3), (2,)], {}, {}, (None, None)),
    ("Transpose", [None, (3,)], {}, {}, (None, None, None)),
    ("BroadcastTo", [(None, 1), (2,)], {1: ints(4, 3)}, {}, (4, 3)),
    ("Tile", [(None, 3), (2,)], {1: ints(2, 2)}, {}, (None, 6)),
    ("Tile", [(None, 3), (2,)], {1: ints(0, 2)}, {}, (0, 6)),
    ("Tile", [None, (2,)], {}, {}, (None, None)),
    ("ConcatV2", [(None, 3), (2, None), ()], {2: index(0)}, {"N": 2}, (None, 3)),
    ("ConcatV2", [(2, None), (2, 4), ()], {2: index(-1)}, {"N": 2}, (2, None)),
    ("ConcatV2", [(2, 3), (2, 4), ()], {}, {"N": 2}, (None, None)),
    ("ConcatV2", [None, (2, 4), ()], {2: index(0)}, {"N": 2}, (None, 4)),
    ("Split", [(), (None, 4)], {0: index(1)}, {"num_split": 2}, [(None, 2)] * 2),
    ("Split", [(), (None, 4)], {0: index(0)}, {"num_split": 2}, [(None, 4)] * 2),
    ("SplitV", [(None, 4), (2,), ()], {1: ints(3, -1), 2: index(0)}, {"num_split": 2},
     [(3, 4), (None, 4)]),
    ("Pack", [(None, 3), (2, None)], {}, {"N": 2, "axis": 1}, (2, 2, 3)),
    ("Unpack", [(None, 3)], {}, {"num": 2}, [(3,)] * 2),
    ("Slice", [(None, 3), (2,), (2,)], {1: ints(1, 1), 2: ints(-1, -1)}, {}, (None, 2)),
    ("Slice", [(5, 3), (2,), (2,)], {2: ints(2, -1)}, {}, (2, None)),
    ("Slice", [None, (2,), (2,)], {}, {}, (None, None)),
    ("StridedSlice", [(None, 3), (1,), (1,), (1,)], {1: ints(0), 2: ints(1), 3: ints(1)},
     {"shrink_axis_mask": 1}, (3,)),
    ("StridedSlice", [(None, 5), (2,), (2,), (2,)], {1: ints(0, 1), 2: ints(0, 4), 3: ints(1, 2)},
     {"begin_mask": 1, "end_mask": 1}, (None, 2)),
    ("StridedSlice", [(4, 5), (2,), (2,), (2,)], {}, {"shrink_axis_mask": 2}, (None,)),
    ("StridedSlice", [(4, 5, 6), (2,), (2,), (2,)], {},
     {"ellipsis_mask": 1, "new_axis_mask": 2}, (4, 5, 6, 1)),
    ("StridedSlice", [(4, 5), (1,), (1,), (1,)], {}, {"begin_mask": 1, "end_mask": 1}, (None, 5)),
    ("StridedSlice", [(4,), (1,), (1,), (1,)], {3: ints(-1)}, {"begin_mask": 1, "end_mask": 1},
     (4,)),
    ("StridedSlice", [None, (1,), (1,), (1,)], {}, {}, None),
    ("StridedSlice", [(4,), None, None, None], {}, {}, None),
    ("Pad", [(None, 3), (2, 2)], {1: ints(1, 1, 2, 0).reshape(2, 2)}, {}, (None, 5)),
    ("Pad", [None, (2, 2)], {}, {}, (None, None)),
    ("Gather", [(None, 3), (None, 2)], {}, {}, (None, 2, 3)),
    ("Gather", [(4, 3), None], {}, {}, None),
    ("GatherV2", [(4, None), (2,), ()], {2: index(-1)}, {}, (4, 2)),
    ("GatherV2", [(4, 3), (2,), ()], {}, {}, (None, None)),
    ("GatherV2", [(None, 3, 5), (2, 7), ()], {2: index(1)}, {"batch_dims": 1}, (2, 7, 5)),
    ("GatherNd", [(4, None, 5), (None, 2)], {}, {}, (None, 5)),
    ("GatherNd", [(4, 5), (2, None)], {}, {}, None),
    ("OneHot", [(None, 2), (), (), ()], {}, {"axis": 1}, (None, None, 2)),
    ("OneHot", [(None,), (), (), ()], {1: index(10)}, {}, (None, 10)),
    ("TopKV2", [(None, 5), ()], {1: index(3)}, {}, [(None, 3)] * 2),
    ("SegmentSum", [(None, 3), (None,)], {}, {}, (None, 3)),
    ("UnsortedSegmentSum", [(None, 2, 3), (None, 2), ()], {2: index(4)}, {}, (4, 3)),
    ("DynamicPartition", [(None, 3), (None,)], {}, {"num_partitions": 2}, [(None, 3)] * 2),
    ("DynamicStitch", [(2,), (None,), (2, 3), None], {0: ints(0, 4)}, {"N": 2}, (None, 3)),
    ("DynamicStitch", [(2,), (1,), (2, 3), None], {0: ints(0, 4), 1: ints(5)}, {"N": 2}, (6, 3)),
    ("SoftmaxCrossEntropyWithLogits", [(None, 3), (5, None)], {}, {}, [(5,), (5, 3)]),
    ("SparseSoftmaxCrossEntropyWithLogits", [None, (5,)], {}, {}, [(5,), (5, None)]),
    ("BiasAdd", [(None, None), (3,)], {}, {}, (None, 3)),
    ("BiasAddGrad", [(None, 3, None)], {}, NCHW, (3,)),
    ("Conv2D", [(None, 28, None, 1), (5, 5, 1, 32)], {}, CONV, (None, 14, None, 32)),
    ("Conv2D", [(None, 28, 28, 1), None], {}, CONV, (None, 14, 28, None)),
    ("Conv2D", [(None, 28, 28, None), None], {}, VALID, (None, None, None, None)),
    ("Conv2D", [(7, 1, 28, 28), (5, 3, None, 2)], {}, {**VALID, **NCHW}, (7, 2, 24, 26)),
    ("Conv2DBackpropInput", [(4,), None, None], {}, CONV, (None,) * 4),
    ("MaxPool", [(None, 28, 27, 3)], {}, POOL, (None, 14, 27, 3)),
    ("AvgPool", [(None, 3, None, 27)], {}, {**POOL, "ksize": [1, 1, 2, 2],
     "strides": [1, 1, 2, 2], **NCHW}, (None, 3, None, 14)),
    ("RandomUniform", [(2,)], {}, {"dtype": dtypes.float32}, (None, None)),
    ("Multinomial", [(None, 3), ()], {1: index(5)}, {}, (None, 5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "shapes", "values", "attrs", "expected"), ROWS, ids=lambda v: str(v)[:40]
)
def test_inferred_shapes(op_type, shapes, values, attrs, expected):
    op = registry.lookup(op_type)
    complete = {
        name: attrs.get(name, dtypes.float32 if attr.kind == "type" else attr.default)
        for name, attr in op.attrs.items()
    }
    known = {place: Value(np.asarray(value)) for place, value in values.items()}
    node = Inference(shapes, op.signature.input_dtypes(complete), complete, known.get)
    found = op.infer(node)
    assert list(found) == (expected if isinstance(expected, list) else [expected])
