"""Writes tests/golden/front_end/ragged.json: TensorFlow's results for ragged tensors.

Run with a Python that has TensorFlow; a test replays the file without it:

    /work/venvs/oracle/bin/python scripts/generate_ragged_golden.py

Every entry is an expression that means the same to `tensorflow.compat.v1` and to sparkflow, and its
value in the form that `described` gives.
"""

# ruff: noqa: S102, S307  (what is run stands in this file)

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "front_end" / "ragged.json"

PREAMBLE = """
rt = tf.ragged.constant([[3,1,4,1],[],[5,9,2],[6],[]])
rf = tf.ragged.constant([[3.,1.],[],[5.,9.,2.]])
r3 = tf.ragged.constant([[[1,2],[3]],[],[[4,5,6],[7]]])
rs = tf.ragged.constant([["a","bb"],["c"]])
ri = tf.RaggedTensor.from_row_splits([[1,2],[3,4],[5,6]],[0,2,3])
m = tf.constant([[1.,2.],[3.,4.],[5.,6.],[7.,8.]])
ids = tf.ragged.constant([[0,1],[],[3]],dtype = tf.int64)
"""

# One expression per line, whatever its length.
EXPRESSIONS = """
rt
r3
rs
ri
tf.RaggedTensor.from_row_splits([3,1,4,1,5],[0,2,2,5])
tf.RaggedTensor.from_row_lengths([3,1,4,1,5],[2,0,3])
tf.RaggedTensor.from_value_rowids([3,1,4,1,5],[0,0,2,2,2])
tf.RaggedTensor.from_value_rowids([3,1,4,1,5],[0,0,2,2,2],nrows=5)
tf.RaggedTensor.from_row_starts([3,1,4,1,5],[0,2,2])
tf.RaggedTensor.from_row_limits([3,1,4,1,5],[2,2,5])
tf.RaggedTensor.from_uniform_row_length([3,1,4,1],2)
tf.RaggedTensor.from_nested_row_splits([3,1,4,1,5],[[0,2,3],[0,2,2,5]])
tf.RaggedTensor.from_nested_row_lengths([3,1,4,1,5],[[2,1],[2,0,3]])
tf.RaggedTensor.from_nested_value_rowids([3,1,4,1,5],[[0,0,1],[0,0,2,2,2]])
tf.RaggedTensor.from_tensor([[5,7,0],[0,3,0],[6,0,0]])
tf.RaggedTensor.from_tensor([[5,7,0],[0,3,0],[6,0,0]],lengths=[1,0,3])
tf.RaggedTensor.from_tensor([[5,7,0],[0,3,0],[6,0,0]],padding=0)
tf.RaggedTensor.from_tensor([[[1,2],[3,4]],[[5,6],[7,8]]],ragged_rank=2)
tf.RaggedTensor.from_sparse(tf.SparseTensor([[0,0],[0,1],[2,0]],[1,2,3],[3,4]))
rt.to_tensor()
rt.to_tensor(-1)
rt.to_tensor(shape=[None,2])
rt.to_tensor(9,shape=[6,5])
r3.to_tensor()
ri.to_tensor()
rs.to_tensor()
rs.to_tensor("x")
rt.to_sparse()
r3.to_sparse()
ri.to_sparse()
rt.nrows()
rt.row_lengths()
r3.row_lengths(2)
rt.row_starts()
rt.row_limits()
rt.value_rowids()
rt.bounding_shape()
r3.bounding_shape()
r3.bounding_shape(axis=1)
r3.nested_row_lengths()
r3.nested_value_rowids()
r3.merge_dims(0,1)
r3.merge_dims(1,2)
r3.merge_dims(0,2)
r3.flat_values
rt+1
1+rt
rt*rt
rt-2
rt/2
rt//2
rt%2
-rt
abs(rt)
rt>2
rf**2.
tf.add(rt,rt)
tf.multiply(rt,2)
tf.cast(rt,tf.float32)
tf.square(rt)
tf.abs(-rt)
tf.maximum(rt,3)
tf.equal(rt,1)
tf.nn.relu(rf-3.)
tf.sigmoid(rf)
tf.where(rt>2,rt,-rt)
tf.where(rt>2)
tf.strings.length(rs)
tf.strings.upper(rs)
tf.strings.join([rs,rs])
tf.add(rt,[[1],[2],[3],[4],[5]])
ri+[10,20]
tf.reduce_sum(rt)
tf.reduce_sum(rt,axis=1)
tf.reduce_sum(rt,axis=0)
tf.reduce_sum(rt,axis=-1)
tf.reduce_mean(rf,axis=1)
tf.reduce_mean(rf)
tf.reduce_mean(rf,axis=0)
tf.reduce_max(rt,axis=1)
tf.reduce_min(rt,axis=1)
tf.reduce_prod(rt,axis=1)
tf.reduce_any(rt>3,axis=1)
tf.reduce_all(rt>3,axis=1)
tf.reduce_sum(r3,axis=2)
tf.reduce_sum(r3,axis=1)
tf.reduce_sum(r3,axis=[1,2])
tf.reduce_sum(rt,axis=1,keepdims=True)
tf.reduce_mean(tf.cast(r3,tf.float32),axis=[1,2])
tf.reduce_sum(ri,axis=1)
tf.reduce_sum(ri,axis=2)
tf.reduce_sum(ri,axis=0)
tf.gather(rt,[2,0])
tf.gather(r3,[2,0,2])
tf.gather(rt,[[2,0],[1,1]])
tf.gather([10,20,30,40],ids)
tf.gather(rt,ids)
tf.batch_gather(rf,tf.ragged.constant([[0],[],[2,1]]))
tf.gather_nd(rt,[[0,1],[2,2]])
tf.gather_nd(rt,[[0],[2]])
tf.gather_nd(r3,[[0,1],[2,0]])
tf.gather_nd(r3,[[0,0,1],[2,0,2]])
tf.concat([rt,rt],axis=0)
tf.concat([rt,rt],axis=1)
tf.concat([r3,r3],axis=2)
tf.concat([r3,r3],axis=1)
tf.concat([rt,[[1,2]]],axis=0)
tf.stack([rt,rt])
tf.stack([rt,rt],axis=1)
tf.ragged.stack([[1,2],[3]])
tf.ragged.stack([rt,rf if 0 else rt])
tf.tile(rt,[2,1])
tf.tile(rt,[1,2])
tf.tile(rt,[2,2])
tf.expand_dims(rt,0)
tf.expand_dims(rt,1)
tf.expand_dims(rt,2)
tf.expand_dims(rt,-1)
tf.size(rt)
tf.rank(rt)
tf.ragged.boolean_mask(rt,rt>2)
tf.ragged.boolean_mask([[1,2,3],[4,5,6]],[[True,False,True],[False,False,True]])
tf.ragged.boolean_mask(rt,[True,False,True,False,False])
rt[0]
rt[2]
rt[-1]
rt[1:3]
rt[:, :2]
rt[:, 1:]
rt[:, -1:]
rt[::2]
rt[2,1]
r3[0]
r3[2,0]
r3[:, :1]
r3[:, :, :1]
r3[2,0,1]
ri[0]
ri[:, :, 0]
ri[:, :1, 1]
rt[tf.constant(2)]
rt[...]
rt[..., :1]
rt[:, tf.newaxis]
tf.ragged.range([3,5,0])
tf.ragged.range([0,5,8],[3,3,12])
tf.ragged.range([0,5,8],[3,3,12],2)
tf.ragged.range([5.,0.],[0.,5.],[-2.,2.])
tf.ragged.range(3)
tf.ragged.map_flat_values(lambda x: x*2, rt)
tf.ragged.map_flat_values(tf.add, rt, rt)
tf.ragged.row_splits_to_segment_ids([0,3,3,5,6,9])
tf.ragged.segment_ids_to_row_splits([0,0,0,2,2,3,4,4,4])
tf.ragged.segment_ids_to_row_splits([0,0,2],num_segments=5)
tf.ragged.stack_dynamic_partitions([10,20,30,40],[2,0,2,0],4)
tf.nn.embedding_lookup(m,ids)
tf.nn.embedding_lookup_sparse(m,ids,None,combiner="sum")
tf.nn.safe_embedding_lookup_sparse(m,ids,combiner="mean")
tf.gradients(tf.reduce_sum(tf.reduce_sum(rf*rf,axis=1)**2.),rf.flat_values)
tf.gradients(tf.reduce_sum(tf.gather(rf,[0,2,2]).flat_values**2.),rf.flat_values)
tf.ragged.constant([[1,2],[3]]).row_splits
tf.ragged.constant([[[1,2]],[[3,4],[5,6]]],inner_shape=(2,))
tf.ragged.constant([[[1,2]],[[3,4],[5,6]]],ragged_rank=1)
tf.ragged.constant([[],[]],dtype=tf.float32)
tf.ragged.constant([])
tf.ragged.constant(3)
tf.ragged.constant_value([[1,2],[3]])
rt.shape.as_list()
ri.shape.as_list()
r3.shape.as_list()
r3.ragged_rank
tf.zeros_like(rt)
tf.ones_like(rt)
tf.identity(rt)
tf.stop_gradient(rf)
tf.one_hot(ids,4)
tf.clip_by_value(rt,2,4)
tf.as_string(rt)
tf.nn.dropout(rf,rate=0.)
tf.add_n([rt,rt])
tf.string_split(["a b","c"]).values
tf.strings.split(["a b","c"])
tf.strings.split(["a b","c"],result_type="RaggedTensor")
tf.strings.bytes_split(["ab","c"])
tf.strings.unicode_decode(["ab","c"],"UTF-8")
"""


def described(value: Any) -> Any:
    """A fetched value as JSON: nested lists, with the kind of each part."""
    if hasattr(value, "to_list"):
        return ["ragged", str(value.dtype), plain(value.to_list())]
    if isinstance(value, list | tuple):
        kind = type(value).__name__ if hasattr(value, "_fields") else "list"
        return [kind, *[described(each) for each in value]]
    array = np.asarray(value)
    return [str(array.dtype), list(array.shape), plain(array.tolist())]


def plain(value: Any) -> Any:
    """Lists of numbers and texts."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def computed(expression: str) -> Any:
    """The value of an expression, in a graph of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        names: dict[str, Any] = {"tf": tf, "np": np}
        exec(PREAMBLE, names)
        found = eval(expression, names)
        if isinstance(found, int) or (isinstance(found, list) and not hasattr(found[0], "op")):
            return found
        if isinstance(found, tf.ragged.RaggedTensorValue):
            return described(found)
        return described(session.run(found))


def main() -> None:
    """Writes the file."""
    tf.disable_v2_behavior()
    lines = [each for each in EXPRESSIONS.strip().splitlines() if each]
    entries = [json.dumps({"expression": each, "value": computed(each)}) for each in lines]
    TARGET.write_text(
        "{\n"
        + json.dumps("preamble")
        + ": "
        + json.dumps(PREAMBLE)
        + ',\n"entries": [\n'
        + ",\n".join(entries)
        + "\n]\n}\n"
    )


if __name__ == "__main__":
    main()
