"""Writes tests/golden/ops/*.npz: results of TensorFlow's kernels for random inputs.

Run with a Python that has TensorFlow; tests replay the files without it:

    /work/venvs/oracle/bin/python scripts/generate_op_golden.py

A file holds the JSON text `index` (one record per case: op, inputs, attrs, outputs or an error) and
one flat array per dtype, into which the index points. Inputs are small integers, so that sums are
exact in every order, ties happen, and the files stay small.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

DIRECTORY = Path(__file__).parents[1] / "tests" / "golden" / "ops"
Case = tuple[str, list[Any], dict[str, Any]]
"""Op type, inputs, attributes."""
RENAMED: dict[str | tuple[str, str], str] = {
    "dim": "axis",
    "squeeze_dims": "axis",
    "split_dim": "axis",
    "reduction_indices": "axis",
    ("Select", "t"): "x",
    ("Select", "e"): "y",
}
"""Arguments (of one op) that TensorFlow's Python functions call differently."""


class Draw:
    """Random choices that the cases are made of."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def int(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *values: Any) -> Any:
        """One of the values."""
        return values[self.int(0, len(values) - 1)]

    def shape(self, low: int, high: int, max_rank: int, min_rank: int = 0) -> list[int]:
        """A shape with sizes in [low, high]."""
        return [self.int(low, high) for _ in range(self.int(min_rank, max_rank))]

    def array(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        """Integers in [-4, 4] as an array of `dtype`."""
        return self.rng.integers(-4, 5, shape).astype(dtype)

    def vector(self, values: Any, dtype: Any = np.int32) -> np.ndarray:
        """The values as an integer vector."""
        return np.array(values, dtype).reshape(len(values))


def convolutions(draw: Draw) -> Iterator[Case]:
    """Conv2D and its gradients."""
    for _ in range(45):
        images = draw.array([draw.int(1, 2), draw.int(1, 8), draw.int(1, 8), draw.int(1, 3)])
        filters = draw.array([draw.int(1, 4), draw.int(1, 4), images.shape[3], draw.int(1, 3)])
        padding = draw.one_of("SAME", "SAME", "VALID", "VALID", "EXPLICIT")
        attrs: dict[str, Any] = {
            "strides": [1, draw.int(1, 3), draw.int(1, 3), 1],
            "padding": padding,
            "dilations": [1, *draw.one_of((1, 1), (1, 1), (2, 1), (2, 3)), 1],
        }
        if padding == "EXPLICIT":
            widths = [draw.int(0, 3) for _ in range(4)]
            attrs["explicit_paddings"] = [0, 0, *widths, 0, 0]
        yield "Conv2D", [images, filters], attrs
        result = answer("Conv2D", [images, filters], attrs)
        if isinstance(result, str) or not result[0].size:
            continue  # TensorFlow's gradient kernels crash on empty outputs
        dy = draw.array(result[0].shape)
        yield "Conv2DBackpropInput", [draw.vector(images.shape), filters, dy], attrs
        yield "Conv2DBackpropFilter", [images, draw.vector(filters.shape), dy], attrs


def pooling(draw: Draw) -> Iterator[Case]:
    """Pooling and its gradients."""
    for _ in range(45):
        images = draw.array([draw.int(1, 2), draw.int(1, 8), draw.int(1, 8), draw.int(1, 3)])
        attrs = {
            "ksize": [1, draw.int(1, 4), draw.int(1, 4), 1],
            "strides": [1, draw.int(1, 4), draw.int(1, 4), 1],
            "padding": draw.one_of("SAME", "VALID"),
        }
        yield "MaxPool", [images], attrs
        yield "AvgPool", [images], attrs
        result = answer("MaxPool", [images], attrs)
        if isinstance(result, str) or not result[0].size:
            continue
        pooled = result[0]
        dy = draw.array(pooled.shape)
        yield "MaxPoolGrad", [images, pooled, dy], attrs
        yield "MaxPoolGradGrad", [images, pooled, draw.array(images.shape)], attrs
        yield "AvgPoolGrad", [draw.vector(images.shape), dy], attrs
    explicit = {
        "ksize": [1, 3, 2, 1],
        "strides": [1, 2, 1, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0],
    }
    yield "MaxPool", [draw.array([2, 5, 4, 2])], explicit


def strided_slices(draw: Draw) -> Iterator[Case]:
    """Strided slices of all masks, valid or not, and their gradient."""
    tensors = [draw.array(s) for s in ([6], [4, 5], [3, 1, 4], [2, 3, 4, 2], [], [0, 3])]
    for _ in range(420):
        tensor = draw.one_of(*tensors)
        length = draw.int(0, tensor.ndim + 2)
        bits = (1 << length) - 1
        ellipsis = draw.one_of(0, 1 << draw.int(0, 5), 0) & bits
        if draw.int(0, 19) == 0:
            ellipsis = 3 & bits
        attrs = {
            "begin_mask": draw.one_of(0, draw.int(0, bits)),
            "end_mask": draw.one_of(0, draw.int(0, bits)),
            "ellipsis_mask": ellipsis,
            "new_axis_mask": draw.one_of(0, 0, draw.int(0, bits)),
            "shrink_axis_mask": draw.one_of(0, 0, draw.int(0, bits)),
        }
        begin, end = (draw.vector([draw.int(-6, 6) for _ in range(length)]) for _ in range(2))
        least = 0 if draw.int(0, 14) == 0 else 1
        steps = [draw.int(least, 3) * draw.one_of(1, 1, -1) for _ in range(length)]
        if draw.int(0, 1):
            steps = [abs(step) for step in steps]
        strides = draw.vector(steps)
        yield "StridedSlice", [tensor, begin, end, strides], attrs
        result = answer("StridedSlice", [tensor, begin, end, strides], attrs)
        if not isinstance(result, str) and draw.int(0, 1):
            shape = draw.vector(tensor.shape)
            dy = draw.array(result[0].shape)
            yield "StridedSliceGrad", [shape, begin, end, strides, dy], attrs


def shapes(draw: Draw) -> Iterator[Case]:
    """Shapes, joining, slicing, padding."""
    for _ in range(30):
        x = draw.array(draw.shape(0, 4, 4))
        rank = x.ndim
        dims = draw.shape(-1, 4, 3)
        yield "Reshape", [x, draw.vector(dims)], {}
        yield "Reshape", [x, draw.vector([-1, *x.shape[1:]])], {}
        yield "ExpandDims", [x, np.array(draw.int(-rank - 2, rank + 1), np.int32)], {}
        yield "Transpose", [x, draw.vector(draw.rng.permutation(rank))], {}
        yield "Tile", [x, draw.vector([draw.int(0, 3) for _ in range(rank)])], {}
        yield "BroadcastTo", [x, draw.vector([2, *x.shape])], {}
        if x.size:  # of empty tensors TensorFlow accepts any axis
            axes = [draw.int(-rank - 1, rank) for _ in range(min(rank, 2))]
            yield "ReverseV2", [x, draw.vector(axes)], {}
        begin = [draw.int(0, d) for d in x.shape]
        size = [
            draw.int(-1, max(d - b, 0) + draw.int(0, 8) // 8)
            for d, b in zip(x.shape, begin, strict=True)
        ]
        yield "Slice", [x, draw.vector(begin), draw.vector(size)], {}
        widths = np.array([[draw.int(0, 2), draw.int(0, 2)] for _ in range(rank)], np.int32)
        widths = widths.reshape(rank, 2)
        yield "Pad", [x, widths], {}
        yield "PadV2", [x, widths, np.float32(7)], {}
        for mode in ("REFLECT", "SYMMETRIC"):
            if not x.size:  # TensorFlow refuses empty dimensions even without padding
                continue
            yield "MirrorPad", [x, widths], {"mode": mode}
            padded = answer("MirrorPad", [x, widths], {"mode": mode})
            if not isinstance(padded, str):
                yield "MirrorPadGrad", [draw.array(padded[0].shape), widths], {"mode": mode}
        others = [draw.array(x.shape) for _ in range(draw.int(1, 2))]
        axis = draw.int(-rank - 1, rank)
        yield "ConcatV2", [[x, *others], np.array(axis, np.int32)], {}
        yield "Pack", [[x, *others]], {"axis": axis}
        if rank:
            axis = draw.int(-rank, rank - 1)
            yield "Unpack", [x], {"axis": axis, "num": x.shape[axis]}
            yield "Split", [np.array(axis, np.int32), x], {"num_split": draw.int(1, 3)}
            first = draw.int(0, x.shape[axis])
            sizes = draw.vector([first, draw.one_of(-1, x.shape[axis] - first)])
            yield "SplitV", [x, sizes, np.array(axis, np.int32)], {"num_split": 2}
        ones = draw.array([draw.int(1, 2) for _ in range(3)])
        yield "Squeeze", [ones], {"squeeze_dims": draw.one_of([], [draw.int(-3, 2)], [0, -1])}
    for _ in range(12):
        bounds = [np.float32(draw.int(-20, 20) / 10) for _ in range(3)]
        yield "Range", bounds, {}
        yield "Range", [np.int32(b * 10) for b in bounds], {}
    yield "Range", [np.float32(0), np.float32(1.2), np.float32(0.4)], {}
    for num in (0, 1, 2, 7):
        yield "LinSpace", [np.float32(-1), np.float32(2.5), np.int32(num)], {}
    perms = [draw.vector(draw.rng.permutation(n)) for n in (0, 1, 5)]
    for perm in perms:
        yield "InvertPermutation", [perm], {}
    yield "ConcatOffset", [np.int32(1), [draw.vector([2, n, 7]) for n in (3, 0, 5)]], {}


def indices(draw: Draw) -> Iterator[Case]:
    """Gathering, scattering, searching, segments."""
    for _ in range(40):
        batch = draw.int(0, 2)
        params = draw.array([draw.int(1, 3) for _ in range(draw.int(batch + 1, 4))])
        axis = draw.int(batch, params.ndim - 1)
        index_shape = [*params.shape[:batch], *draw.shape(0, 3, 2)]
        high = params.shape[axis] - 1 + draw.int(0, 9) // 9
        found = draw.rng.integers(0, high + 1, index_shape).astype(np.int32)
        where = np.array(draw.one_of(axis, axis - params.ndim), np.int32)
        yield "GatherV2", [params, found, where], {"batch_dims": batch}
        depth = draw.int(0, params.ndim)
        lead = draw.shape(0, 3, 2)
        places = (
            np.stack([draw.rng.integers(0, params.shape[i], lead) for i in range(depth)], -1)
            if depth
            else np.zeros((*lead, 0))
        )
        places = places.astype(np.int32)
        if places.size and draw.int(0, 9) == 0:
            places.flat[-1] = 9
        yield "GatherNd", [params, places], {}
        updates = draw.array((*lead, *params.shape[depth:]))
        if depth and lead:  # TensorFlow's ScatterNd wants indices of rank 2 at least
            yield "ScatterNd", [places, updates, draw.vector(params.shape)], {}
        spots = draw.rng.integers(-1, 4, draw.shape(0, 3, 2)).astype(np.int32)
        hot = [spots, np.int32(draw.int(0, 4)), np.float32(5), np.float32(-1)]
        yield "OneHot", hot, {"axis": draw.int(-1, spots.ndim)}
        row = draw.array(draw.shape(1, 6, 2, 1))
        yield "TopKV2", [row, np.int32(draw.int(0, row.shape[-1] + 1))], {}
        yield "Where", [draw.array(draw.shape(0, 3, 3, 1))], {}
        yield "Unique", [draw.array([draw.int(0, 8)])], {}
        scores = draw.array([draw.int(0, 4), 5])
        targets = draw.rng.integers(-1, 6, scores.shape[0]).astype(np.int32)
        if scores.size and draw.int(0, 3) == 0:
            scores[0, 0] = draw.one_of(np.inf, np.nan)
        yield "InTopKV2", [scores, targets, np.int32(draw.int(0, 4))], {}
        data = draw.array([draw.int(0, 5), *draw.shape(0, 3, 2)])
        ids = np.sort(draw.rng.integers(0, 4, data.shape[0])).astype(np.int32)
        for op in ("SegmentSum", "SegmentMean"):
            yield op, [data, ids], {}
        wild = draw.rng.integers(-1, 4, data.shape[: draw.int(1, data.ndim)]).astype(np.int32)
        yield "UnsortedSegmentSum", [data, wild, np.int32(4)], {}
        if data.shape[0]:
            looked_up = draw.rng.integers(0, data.shape[0], ids.shape).astype(np.int32)
            yield "SparseSegmentSum", [data, looked_up, ids], {}
        parts = {"num_partitions": draw.int(4, 5)}
        numbers = np.maximum(wild, draw.int(-9, 0) // 9)
        yield "DynamicPartition", [data, numbers], parts
        order = draw.rng.permutation(data.shape[0]).astype(np.int32)
        half = len(order) // 2
        others = draw.rng.integers(0, 6, (half, 2)).astype(np.int32)
        more = draw.array((half, 2, *data.shape[1:]))
        yield "DynamicStitch", [[order, others], [data, more]], {}


def losses(draw: Draw) -> Iterator[Case]:
    """Cross entropies and biases."""
    for _ in range(12):
        logits = draw.array([draw.int(0, 4), draw.int(1, 5)])
        labels = np.abs(draw.array(logits.shape)) / 4
        yield "SoftmaxCrossEntropyWithLogits", [logits, labels.astype(np.float32)], {}
        wanted = draw.rng.integers(0, logits.shape[1], logits.shape[0]).astype(np.int32)
        yield "SparseSoftmaxCrossEntropyWithLogits", [logits, wanted], {}
        value = draw.array(draw.shape(1, 3, 5, 2))
        for data_format in ("NHWC", "NCHW"):
            attrs = {"data_format": data_format}
            channels = value.shape[1 if data_format == "NCHW" else -1]
            yield "BiasAdd", [value, draw.array([channels])], attrs
            yield "BiasAddGrad", [value], attrs
    yield "SoftmaxCrossEntropyWithLogits", [draw.array([1, 3]), np.ones((4, 3), np.float32)], {}
    yield "SparseSoftmaxCrossEntropyWithLogits", [draw.array([2, 3]), draw.vector([1, 3])], {}


def answer(op: str, inputs: list[Any], attrs: dict[str, Any]) -> list[np.ndarray] | str:
    """TensorFlow's outputs, or the text of its error."""
    names = [arg.name for arg in op_def_registry.get(op).input_arg]
    arguments = {**dict(zip(names, inputs, strict=True)), **attrs}
    if op == "Where":
        arguments = {"condition": inputs[0]}
    renamed = {
        RENAMED.get((op, name), RENAMED.get(name, name)): value for name, value in arguments.items()
    }
    try:
        result = getattr(tf.raw_ops, op)(**renamed)
    except (tf.errors.OpError, ValueError) as error:
        return str(error)
    return [each.numpy() for each in (result if isinstance(result, list | tuple) else [result])]


class Writer:
    """Collects cases into flat arrays, equal arrays once."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._flat: dict[str, list[np.ndarray]] = {}
        self._sizes: dict[str, int] = {}
        self._known: dict[Any, list[Any]] = {}

    def add(self, case: Case) -> bool:
        """Enters one case; False where TensorFlow's CPU kernel lacks the feature."""
        op, inputs, attrs = case
        result = answer(op, inputs, attrs)
        record: dict[str, Any] = {"op": op, "attrs": attrs}
        record["inputs"] = [
            [self._place(each) for each in value] if isinstance(value, list) else self._place(value)
            for value in inputs
        ]
        if isinstance(result, str):
            if "nimplemented" in result or "not yet support" in result or "not supported" in result:
                return False
            record["error"] = result.partition("[Op:")[0].split("}}")[-1].strip()
        else:
            record["outputs"] = [self._place(each) for each in result]
        self.records.append(record)
        return True

    def save(self, path: Path) -> None:
        """Writes the file."""
        index = np.frombuffer(json.dumps(self.records, separators=(",", ":")).encode(), np.uint8)
        flat = {name: np.concatenate(parts) for name, parts in self._flat.items()}
        np.savez_compressed(path, index=index, **flat)

    def _place(self, value: Any) -> list[Any]:
        """[dtype, shape, offset] of an array."""
        array = np.asarray(value)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            name = array.dtype.name
            offset = self._sizes.get(name, 0)
            self._sizes[name] = offset + array.size
            self._flat.setdefault(name, []).append(array.reshape(-1))
            self._known[key] = [name, list(array.shape), offset]
        return self._known[key]


FAMILIES: dict[str, Callable[[Draw], Iterator[Case]]] = {
    "conv": convolutions,
    "pool": pooling,
    "strided_slice": strided_slices,
    "shapes": shapes,
    "indices": indices,
    "losses": losses,
}


def main() -> None:
    """Writes every file and says what is in it."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for seed, (name, make) in enumerate(FAMILIES.items()):
        writer = Writer()
        skipped = [case[0] for case in make(Draw(seed)) if not writer.add(case)]
        path = DIRECTORY / f"{name}.npz"
        writer.save(path)
        errors = sum("error" in record for record in writer.records)
        print(
            f"{path.name}: {len(writer.records)} cases, {errors} of them errors, "
            f"{path.stat().st_size} bytes; not supported by TensorFlow: {len(skipped)}"
        )


if __name__ == "__main__":
    main()
