"""Every rule on a small graph: its result, what it leaves alone, and that values stay."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.simplify import simplify
from sparkflow_runtime.resources.container import Resources
from support.graphs import const, node
from support.interpreter import interpret

I32 = dtypes.int32


def arg(index: int, *shape: int | None, dtype: dtypes.DType = dtypes.float32) -> Node:
    return node(f"x{index}", "_Arg", T=dtype, index=index, shape=shape)


def ints(name: str, *values: int) -> Node:
    return const(name, values, I32)


def one(name: str, value: int) -> Node:
    return const(name, value, I32)


X, Y, S = arg(0, 2, 3), arg(1, 2, 3), arg(0, 1, 3)
U = arg(0, None, 3)  # its number of rows is unknown
PERM, ROWS = ints("perm", 1, 0), ints("rows", 0)

# (the graph, what its node `y` becomes: a tensor's name, or an op and its inputs)
CASES: dict[str, tuple[list[Node], str]] = {
    "identity": ([X, node("y", "Identity", "x0")], "x0"),
    "stop gradient": ([X, node("y", "StopGradient", "x0")], "x0"),
    "prevent gradient": ([X, node("y", "PreventGradient", "x0")], "x0"),
    "several identities": (
        [X, Y, node("y", "IdentityN", "x0", "x1", T=[dtypes.float32] * 2)],
        "x0",
    ),
    "cast to the same": (
        [X, node("y", "Cast", "x0", SrcT=dtypes.float32, DstT=dtypes.float32)],
        "x0",
    ),
    "cast": (
        [X, node("y", "Cast", "x0", SrcT=dtypes.float32, DstT=dtypes.float64)],
        "Cast x0",
    ),
    "a default that is not fed": (
        [X, node("y", "PlaceholderWithDefault", "x0", dtype=dtypes.float32, shape=(None, 3))],
        "x0",
    ),
    "shape that is known": ([X, node("y", "EnsureShape", "x0", shape=(None, 3))], "x0"),
    "shape to be checked": ([U, node("y", "EnsureShape", "x0", shape=(2, 3))], "EnsureShape x0"),
    # arithmetic
    "times one": ([X, const("c", 1), node("y", "Mul", "x0", "c")], "x0"),
    "one times": ([X, const("c", [1, 1, 1]), node("y", "Mul", "c", "x0")], "x0"),
    "ones that repeat": ([S, const("c", [[1], [1]]), node("y", "Mul", "c", "x0")], "Mul c x0"),
    "times minus one": ([X, const("c", -1), node("y", "Mul", "x0", "c")], "Neg x0"),
    "times zero": ([X, const("c", 0), node("y", "Mul", "x0", "c")], "Mul x0 c"),
    "by one": ([X, const("c", 1), node("y", "RealDiv", "x0", "c")], "x0"),
    "one by": ([X, const("c", 1), node("y", "RealDiv", "c", "x0")], "RealDiv c x0"),
    "by a power of two": (
        [X, const("c", [-8, 0.5, 4]), node("y", "RealDiv", "x0", "c")],
        "Mul x0 y/reciprocal",
    ),
    "by three": ([X, const("c", 3), node("y", "RealDiv", "x0", "c")], "RealDiv x0 c"),
    "by zero": ([X, const("c", 0), node("y", "RealDiv", "x0", "c")], "RealDiv x0 c"),
    "plus zero makes 0 of -0": ([X, const("c", 0), node("y", "AddV2", "x0", "c")], "AddV2 x0 c"),
    "plus minus zero": ([X, const("c", -0.0), node("y", "AddV2", "x0", "c")], "x0"),
    "plus an integer zero": (
        [arg(0, 2, dtype=I32), one("c", 0), node("y", "AddV2", "c", "x0", T=I32)],
        "x0",
    ),
    "less zero": ([X, const("c", 0), node("y", "Sub", "x0", "c")], "x0"),
    "less minus zero": ([X, const("c", -0.0), node("y", "Sub", "x0", "c")], "Sub x0 c"),
    "zero less": ([X, const("c", 0), node("y", "Sub", "c", "x0")], "Sub c x0"),
    "squared": ([X, const("c", 2), node("y", "Pow", "x0", "c")], "Square x0"),
    "to the power one": ([X, const("c", 1), node("y", "Pow", "x0", "c")], "x0"),
    "to the power three": ([X, const("c", 3), node("y", "Pow", "x0", "c")], "Pow x0 c"),
    "power of integers": (
        [arg(0, 2, dtype=I32), one("c", 2), node("y", "Pow", "x0", "c", T=I32)],
        "Pow x0 c",
    ),
    "negated twice": ([X, node("a", "Neg", "x0"), node("y", "Neg", "a")], "x0"),
    "negated twice, one waits": (
        [X, node("n", "NoOp"), node("a", "Neg", "x0", after=["n"]), node("y", "Neg", "a")],
        "Neg a",
    ),
    "relu twice": ([X, node("a", "Relu", "x0"), node("y", "Relu", "a")], "a"),
    "square of the negated": ([X, node("a", "Neg", "x0"), node("y", "Square", "a")], "Square x0"),
    "plus the negated": (
        [X, Y, node("a", "Neg", "x1"), node("y", "AddV2", "x0", "a")],
        "Sub x0 x1",
    ),
    "the negated plus": (
        [X, Y, node("a", "Neg", "x1"), node("y", "AddV2", "a", "x0")],
        "Sub x0 x1",
    ),
    "less the negated": (
        [X, Y, node("a", "Neg", "x1"), node("y", "Sub", "x0", "a")],
        "AddV2 x0 x1",
    ),
    "both negated": (
        [X, Y, node("a", "Neg", "x0"), node("b", "Neg", "x1"), node("y", "Mul", "a", "b")],
        "Mul x0 x1",
    ),
    "sum of one": ([X, node("y", "AddN", "x0", N=1)], "x0"),
    "sum of two": ([X, Y, node("y", "AddN", "x0", "x1", N=2)], "AddV2 x0 x1"),
    "sum of two of unknown shapes": (
        [U, arg(1, None, 3), node("y", "AddN", "x0", "x1", N=2)],
        "AddN x0 x1",
    ),
    # shapes
    "shape": ([X, node("y", "Shape", "x0")], "Const"),
    "unknown shape": ([U, node("y", "Shape", "x0")], "Shape x0"),
    "size": ([X, node("y", "Size", "x0")], "Const"),
    "rank": ([U, node("y", "Rank", "x0")], "Const"),
    "known part of a shape": (
        [
            *[U, ints("b", 1), ints("e", 2), ints("s", 1), node("a", "Shape", "x0")],
            node("y", "StridedSlice", "a", "b", "e", "s", T=I32, Index=I32, shrink_axis_mask=1),
        ],
        "Const",
    ),
    "unknown part of a shape": (
        [
            *[U, ints("b", 0), ints("e", 1), ints("s", 1), node("a", "Shape", "x0")],
            node("y", "StridedSlice", "a", "b", "e", "s", T=I32, Index=I32, shrink_axis_mask=1),
        ],
        "StridedSlice a b e s",
    ),
    "operands of one shape": (
        [U, node("a", "Shape", "x0"), node("y", "BroadcastGradientArgs", "a", "a")],
        "y/axes_0",
    ),
    "reshape to the same": ([X, ints("c", -1, 3), node("y", "Reshape", "x0", "c")], "x0"),
    "one size may be unknown": ([U, ints("c", -1, 3), node("y", "Reshape", "x0", "c")], "x0"),
    "unknown and asked for": (
        [U, ints("c", 2, 3), node("y", "Reshape", "x0", "c")],
        "Reshape x0 c",
    ),
    "reshape to its own shape": (
        [U, node("a", "Shape", "x0"), node("y", "Reshape", "x0", "a")],
        "x0",
    ),
    "reshaped twice": (
        [
            *[U, ints("c", -1), node("a", "Reshape", "x0", "c")],
            *[ints("d", 1, -1), node("y", "Reshape", "a", "d")],
        ],
        "Reshape x0 d",
    ),
    "expanded and squeezed": (
        [
            *[node("x0", "_Arg", T=dtypes.float32, index=0, shape=None), one("c", 1)],
            *[node("a", "ExpandDims", "x0", "c"), node("y", "Squeeze", "a", squeeze_dims=[1])],
        ],
        "x0",
    ),
    "sum over nothing": ([X, ints("c"), node("y", "Sum", "x0", "c")], "x0"),
    "mean over ones": ([S, ROWS, node("y", "Mean", "x0", "rows")], "Reshape x0 y/shape"),
    "max over ones kept": ([S, ROWS, node("y", "Max", "x0", "rows", keep_dims=True)], "x0"),
    "sum": ([X, ROWS, node("y", "Sum", "x0", "rows")], "Sum x0 rows"),
    # transposes
    "nothing moves": ([X, ints("c", 0, 1), node("y", "Transpose", "x0", "c")], "x0"),
    "transposed twice": (
        [X, PERM, node("a", "Transpose", "x0", "perm"), node("y", "Transpose", "a", "perm")],
        "x0",
    ),
    "two permutations": (
        [
            *[arg(0, 2, 3, 4), ints("p", 1, 2, 0), node("a", "Transpose", "x0", "p")],
            node("y", "Transpose", "a", "p"),
        ],
        "Transpose x0 y/perm",
    ),
    "only ones move": ([S, PERM, node("y", "Transpose", "x0", "perm")], "Reshape x0 y/shape"),
    "transposed product": (
        [X, Y, PERM, node("a", "Transpose", "x0", "perm"), node("y", "MatMul", "a", "x1")],
        "MatMul x0 x1",
    ),
    "transposed products": (
        [
            *[arg(0, 2, 3, 4), arg(1, 2, 3, 4), ints("p", 0, 2, 1)],
            *[node("a", "Transpose", "x1", "p"), node("y", "BatchMatMulV2", "x0", "a")],
        ],
        "BatchMatMulV2 x0 x1",
    ),
    # no effect because of constants
    "reversed nowhere": ([X, ints("c"), node("y", "ReverseV2", "x0", "c")], "x0"),
    "repeated once": ([U, ints("c", 1, 1), node("y", "Tile", "x0", "c")], "x0"),
    "padded by nothing": (
        [U, const("c", np.zeros((2, 2)), I32), node("y", "Pad", "x0", "c")],
        "x0",
    ),
    "split into one": ([X, one("c", 0), node("y", "Split", "c", "x0", num_split=1)], "x0"),
    "broadcast to the same": ([X, ints("c", 2, 3), node("y", "BroadcastTo", "x0", "c")], "x0"),
    "slice of everything": (
        [X, ints("b", 0, 0), ints("s", -1, 3), node("y", "Slice", "x0", "b", "s", Index=I32)],
        "x0",
    ),
    "backwards": (
        [
            *[X, ints("b", -1, 0), ints("e", -3, 3), ints("s", -1, 1)],
            node("y", "StridedSlice", "x0", "b", "e", "s", Index=I32),
        ],
        "StridedSlice x0 b e s",
    ),
    "strides of one": (
        [
            *[X, ints("b", 0, 0), ints("e", 2, 3), ints("s", 1, 1)],
            node("y", "StridedSlice", "x0", "b", "e", "s", Index=I32),
        ],
        "x0",
    ),
    "chosen": (
        [X, Y, const("c", False, dtypes.bool_), node("y", "SelectV2", "c", "x0", "x1")],
        "x1",
    ),
    "chosen of unknown shapes": (
        [U, arg(1, None, 3), const("c", True, dtypes.bool_), node("y", "Select", "c", "x0", "x1")],
        "x0",
    ),
    "chosen and repeated": (
        [S, arg(1, 2, 3), const("c", True, dtypes.bool_), node("y", "SelectV2", "c", "x0", "x1")],
        "SelectV2 c x0 x1",
    ),
    # broadcast before an op that broadcasts
    "broadcast before": (
        [
            *[S, arg(1, 2, 3), ints("c", 2, 3), node("a", "BroadcastTo", "x0", "c")],
            node("y", "Sub", "a", "x1"),
        ],
        "Sub x0 x1",
    ),
    "tiled before": (
        [
            *[S, arg(1, 2, 3), ints("c", 2, 1), node("a", "Tile", "x0", "c")],
            node("y", "Mul", "x1", "a"),
        ],
        "Mul x1 x0",
    ),
    "tiled otherwise": (
        [
            *[arg(0, 2, 1), arg(1, 4, 3), ints("c", 2, 1), node("a", "Tile", "x0", "c")],
            node("y", "Mul", "x1", "a"),
        ],
        "Mul x1 a",
    ),
    "ones of its shape": (
        [
            *[X, ints("c", 2, 3), const("v", 1), node("a", "Fill", "c", "v")],
            node("y", "Mul", "a", "x0"),
        ],
        "x0",
    ),
    "ones like it": ([X, node("a", "OnesLike", "x0"), node("y", "Mul", "a", "x0")], "x0"),
    "zeros like it": (
        [X, node("a", "ZerosLike", "x0"), node("y", "Maximum", "x0", "a")],
        "Maximum x0 y/number_1",
    ),
    "like an unknown one": (
        [U, node("a", "OnesLike", "x0"), node("y", "Mul", "a", "x0")],
        "Mul a x0",
    ),
    "the repeated gives the shape": (
        [
            *[S, ints("c", 2, 3), const("v", 2), node("a", "Fill", "c", "v")],
            node("y", "Mul", "a", "x0"),
        ],
        "Mul a x0",
    ),
}


def run(nodes: list[Node], values: list[Any]) -> Any:
    context = KernelContext(np, "CPU", "here", Resources(), Resources())
    return interpret(nodes, context, values)[0]


@pytest.mark.parametrize("case", CASES)
def test_a_rule_makes_what_it_says_and_keeps_the_values(case: str) -> None:
    nodes, expected = CASES[case]
    out = infer_types(Graph(nodes))[Endpoint("y", 0)].dtype
    graph = Graph([*nodes, node("end", "_Retval", "y", T=out, index=0)])
    types = infer_types(graph)
    result = simplify(graph, types=types)
    infer_types(result)
    end = result[result["end"].inputs[0].node]
    if end.name == "y":
        assert " ".join([end.op, *(e.node for e in end.inputs)]) == expected
    else:
        assert end.name == expected
    assert simplify(result, types=types) is result
    rng = np.random.default_rng(0)
    values: list[Any] = []
    for each in nodes:
        if each.op == "_Arg":
            shape = tuple(2 if n is None else n for n in each.attrs["shape"] or (2, 3))
            values.append(rng.uniform(-2, 2, shape).astype(each.attrs["T"].as_numpy_dtype))
    before, after = run(graph.sorted(), values), run(result.sorted(), values)
    np.testing.assert_allclose(after, before, rtol=1e-6, strict=True)


def test_an_assertion_that_holds_only_waits() -> None:
    nodes = [
        *[X, const("c", True, dtypes.bool_), node("n", "NoOp")],
        node("a", "Assert", "c", "x0", T=[dtypes.float32], after=["n"]),
    ]
    made = simplify(Graph(nodes), keep=["a"])["a"]
    assert (made.op, set(made.control_inputs)) == ("NoOp", {"c", "x0", "n"})
    nodes[1] = const("c", False, dtypes.bool_)
    assert simplify(Graph(nodes), keep=["a"])["a"].op == "Assert"


def test_special_numbers_survive() -> None:
    special = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45])
    nodes = [
        *[arg(0, 6), const("one", 1), const("two", 2), const("minus", -1), const("none", 0)],
        node("a", "Mul", "x0", "one"),
        node("b", "RealDiv", "a", "two"),
        node("c", "Mul", "b", "minus"),
        node("d", "Sub", "c", "none"),
        node("e", "Neg", "x0"),
        node("f", "AddV2", "d", "e"),
        node("g", "AddV2", "f", "none"),
        node("end", "_Retval", "g", T=dtypes.float32, index=0),
    ]
    graph = Graph(nodes)
    result = simplify(graph, types=infer_types(graph))
    assert len(result) < len(graph)
    before, after = run(graph.sorted(), [special]), run(result.sorted(), [special])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(np.signbit(after[3:]), np.signbit(before[3:]))
