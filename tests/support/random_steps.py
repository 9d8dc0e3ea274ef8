"""The steps by which a random graph grows, see `random_graphs`.

Each adds a node or two, or none if its choice does not work; it raises LookupError if nothing fits
its needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from support.random_growth import Growing, Value, is_float, is_number

_SMOOTH_UNARY: Final = [
    *["Neg", "Abs", "Square", "Exp", "Tanh", "Sigmoid", "Relu", "Relu6", "Softplus", "Sqrt"],
    *["Log1p", "Sin", "Cos", "Elu", "Erf", "Reciprocal", "Rsqrt", "ZerosLike", "OnesLike"],
    *["Identity", "StopGradient"] * 2,
]
_JUMPING_UNARY: Final = ["Floor", "Sign", "Round"]
_SMOOTH_BINARY: Final = [
    *["AddV2", "Sub", "Mul"] * 2,
    *["Add", "RealDiv", "Maximum", "Minimum", "SquaredDifference"],
]
_JUMPING_BINARY: Final = ["Greater", "Less", "GreaterEqual", "LessEqual", "Equal", "NotEqual"]
_GRADIENTS: Final = [
    *["TanhGrad", "SigmoidGrad", "ReluGrad", "SoftplusGrad", "RsqrtGrad", "SqrtGrad"]
]


def _unary(g: Growing) -> None:
    jumps = not g.smooth and g.random.random() < 0.1
    op = g.random.choice(_JUMPING_UNARY if jumps else _SMOOTH_UNARY)
    g.add(op, g.pick(is_float))


def _binary(g: Growing) -> None:
    jumps = not g.smooth and g.random.random() < 0.15
    x = g.pick(is_number)
    y = g.pick(lambda v: v.dtype is x.dtype)
    g.add(g.random.choice(_JUMPING_BINARY if jumps else _SMOOTH_BINARY), x, y)


def _with_constant(g: Growing) -> None:
    x = g.pick(is_float)
    number = g.random.choice([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1.5])
    shape = g.random.choice([(), (), (1,), x.array.shape])
    constant = g.const(np.full(shape, number), x.dtype)
    op = g.random.choice(["AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Mul"])
    if op == "Mul" and g.random.random() < 0.3:
        g.add("Pow", x, g.const(abs(number), x.dtype))
    elif g.random.random() < 0.5:
        g.add(op, x, constant)
    else:
        g.add(op, constant, x)


def _gradient(g: Growing) -> None:
    y = g.pick(is_float)
    g.add(
        g.random.choice(_GRADIENTS),
        y,
        g.pick(lambda v: v.dtype is y.dtype and v.array.shape == y.array.shape),
    )


def _broadcast_gradient(g: Growing) -> None:
    """The ops of a broadcast op's gradient if shapes are unknown."""
    x = g.pick(is_float)
    y = g.pick(lambda v: v.dtype is x.dtype)
    total = g.add("AddV2", x, y)
    if total:
        shapes = [g.add("Shape", each)[0] for each in (x, y)]
        axes = g.add("BroadcastGradientArgs", *shapes)
        summed = g.add("Sum", total[0], axes[0]) if axes else []
        if summed:
            g.add("Reshape", summed[0], shapes[0])


def _reduction(g: Growing) -> None:
    x = g.pick(is_float)
    axes = sorted(g.random.sample(range(x.rank), g.random.randint(0, x.rank)))
    if g.random.random() < 0.2:
        axes = [axis - x.rank for axis in axes]
    op = g.random.choice(["Sum", "Mean", "Max", "Min", "Sum", "Mean"])
    g.add(op, x, g.const(axes), keep_dims=g.random.random() < 0.5)


def _matmul(g: Growing) -> None:
    a = g.pick(lambda v: is_float(v) and v.rank == 2)
    flags = [g.random.random() < 0.4 for _ in range(2)]
    inner = a.array.shape[0 if flags[0] else 1]

    def fits(v: Value) -> bool:
        place = 1 if flags[1] else 0
        return v.dtype is a.dtype and v.rank == 2 and v.array.shape[place] == inner

    if g.random.random() < 0.3:
        g.add("BatchMatMulV2", a, g.pick(fits), adj_x=flags[0], adj_y=flags[1])
    else:
        g.add("MatMul", a, g.pick(fits), transpose_a=flags[0], transpose_b=flags[1])


def _transpose(g: Growing) -> None:
    x = g.pick(lambda v: v.rank >= 2)
    order = g.random.sample(range(x.rank), x.rank)
    made = g.add("Transpose", x, g.const(order))
    if made and g.random.random() < 0.3:
        back = g.random.choice([np.argsort(order), g.random.sample(range(x.rank), x.rank)])
        g.add("Transpose", made[0], g.const(back))


def _reshape(g: Growing) -> None:
    x = g.pick()
    if g.random.random() < 0.25:
        like = g.pick(lambda v: v.array.size == x.array.size)
        shape = g.add("Shape", like)
        if shape:
            g.add("Reshape", x, shape[0])
        return
    left: int = x.array.size
    sizes: list[int] = []
    while left > 1 and len(sizes) < 3:
        sizes.append(g.random.choice([n for n in range(1, left + 1) if left % n == 0]))
        left //= sizes[-1]
    sizes.append(left)
    if x.array.size and g.random.random() < 0.4:
        sizes[g.random.randrange(len(sizes))] = -1
    g.add("Reshape", x, g.const(sizes))


def _one_dimension(g: Growing) -> None:
    x = g.pick()
    if g.random.random() < 0.5:
        g.add("ExpandDims", x, g.const(g.random.randint(-x.rank - 1, x.rank)))
    else:
        ones = [axis for axis, n in enumerate(x.array.shape) if n == 1]
        g.add("Squeeze", x, squeeze_dims=ones[: g.random.randint(0, len(ones))])


def _join(g: Growing) -> None:
    x = g.pick(lambda v: v.rank >= 1)
    like = [v for v in g.values if v.dtype is x.dtype and v.array.shape == x.array.shape]
    parts = [x, *g.random.choices(like, k=g.random.randint(0, 2))]
    op = g.random.choice(["ConcatV2", "ConcatV2", "Pack", "AddN"])
    if op == "ConcatV2":
        g.add(op, parts, g.const(g.random.randrange(x.rank)))
    elif op == "Pack":
        g.add(op, parts, axis=g.random.randint(0, x.rank))
    elif is_number(x):
        g.add(op, parts)


def _part(g: Growing) -> None:
    x = g.pick(lambda v: v.rank >= 1)
    axis = g.random.randrange(x.rank)
    length = x.array.shape[axis]
    op = g.random.choice(["Slice", "StridedSlice", "Unpack", "Split", "GatherV2"])
    if op == "Slice":
        begin = [g.random.randint(0, n) for n in x.array.shape]
        size = [g.random.randint(0, n - b) for n, b in zip(x.array.shape, begin, strict=True)]
        if g.random.random() < 0.3:
            begin, size = [0] * x.rank, g.random.choice([[-1] * x.rank, list(x.array.shape)])
        g.add(op, x, g.const(begin), g.const(size))
    elif op == "StridedSlice":
        begin = [g.random.randint(-1, max(n - 1, 0)) for n in x.array.shape]
        strides = [g.random.choice([1, 1, 2, -1]) for _ in begin]
        masks = {name: g.random.randrange(4) for name in ("begin_mask", "end_mask")}
        shrink = g.random.choice([0, 0, 1])
        ends = list(x.array.shape)
        attrs: dict[str, Any] = {**masks, "shrink_axis_mask": shrink}
        g.add(op, x, *map(g.const, (begin, ends, strides)), **attrs)
    elif op == "Unpack" and 0 < length <= 4:
        g.add(op, x, num=length, axis=axis)
    elif op == "Split" and length:
        pieces = g.random.choice([n for n in range(1, length + 1) if length % n == 0])
        g.add(op, g.const(axis), x, num_split=pieces)
    elif op == "GatherV2" and length:
        rows = [g.random.randrange(length) for _ in range(g.random.randint(1, 4))]
        g.add(op, x, g.const(rows), g.const(axis))


def _repeat(g: Growing) -> None:
    x = g.pick()
    if g.random.random() < 0.5:
        times = [g.random.choice([1, 1, 2, 3]) for _ in range(x.rank)]
        made = g.add("Tile", x, g.const(times))
    else:
        shape = [n if n != 1 else g.random.randint(1, 4) for n in x.array.shape]
        made = g.add("BroadcastTo", x, g.const([*[2][: g.random.randint(0, 1)], *shape]))
    if made and is_float(x):
        g.add("Mul", made[0], g.pick(lambda v: v.dtype is x.dtype))


def _cast(g: Growing) -> None:
    kinds = [dtypes.float32, dtypes.float32, dtypes.float64]
    if not g.smooth:
        kinds += [dtypes.int32, dtypes.bool_]
    g.add("Cast", g.pick(), DstT=g.random.choice(kinds))


def _select(g: Growing) -> None:
    choice = g.pick(lambda v: v.dtype is dtypes.bool_)
    if g.random.random() < 0.3:
        choice = g.const(g.random.random() < 0.5, dtypes.bool_)
    x = g.pick(is_number)
    g.add("SelectV2", choice, x, g.pick(lambda v: v.dtype is x.dtype))


def _softmax(g: Growing) -> None:
    x = g.pick(lambda v: is_float(v) and v.rank >= 1)
    g.add(g.random.choice(["Softmax", "LogSoftmax"]), x)


def _bias(g: Growing) -> None:
    x = g.pick(lambda v: is_float(v) and v.rank >= 2)
    bias = g.const(g.array(x.dtype, x.array.shape[-1:]), x.dtype)
    made = g.add("BiasAdd", x, bias)
    if made:
        g.add("Relu", made[0])


def _ones_like(g: Growing) -> None:
    """The start of gradients: ones with the shape of a loss."""
    x = g.pick(is_float)
    shape = g.add("Shape", x)
    ones = g.add("Fill", shape[0], g.const(1.0, x.dtype)) if shape else []
    if ones:
        g.add("Mul", ones[0], x)


def _shape_arithmetic(g: Growing) -> None:
    x = g.pick(lambda v: v.rank >= 1)
    shape = g.add("Shape", x)
    place = g.random.randrange(x.rank)
    row = g.add(
        "StridedSlice",
        shape[0],
        g.const([place]),
        g.const([place + 1]),
        g.const([1]),
        shrink_axis_mask=1,
    )
    rest = g.const(x.array.size // max(x.array.shape[place], 1))
    target = g.add("Pack", [row[0], rest]) if row else []
    if target:
        g.add("Reshape", x, target[0])
    g.add(g.random.choice(["Size", "Rank"]), x)


def _wait(g: Growing) -> None:
    names = g.random.sample([*g.nodes], min(2, len(g.nodes)))
    made = g.add("NoOp", after=names)
    assert made == []
    g.updates.append([*g.nodes][-1])


def _check(g: Growing) -> None:
    made = g.const(True, dtypes.bool_)
    g.add("Assert", made, [g.pick()], summarize=3)
    if [*g.nodes.values()][-1].op == "Assert":
        g.updates.append([*g.nodes][-1])


STEPS: Final[list[Callable[[Growing], None]]] = [
    *[_unary, _binary, _with_constant] * 4,
    *[_reduction, _matmul, _transpose, _reshape, _one_dimension, _join, _part] * 2,
    *[_gradient, _broadcast_gradient, _repeat, _cast, _select, _softmax, _bias, _ones_like],
    *[_shape_arithmetic, _wait, _check],
    *[Growing.read_variable, Growing.update_variable] * 2,
]
