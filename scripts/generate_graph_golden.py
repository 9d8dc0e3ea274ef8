"""Writes tests/golden/graphs: GraphDefs that TensorFlow 2.21 wrote, and what they compute there.

Run it with a Python that has TensorFlow: `python scripts/generate_graph_golden.py`. Each program is
a pair NAME.pb (the GraphDef) and an entry of graphs.json: what to run first, what to feed and fetch
in order, and the values TensorFlow gave. No weights are random: everything is reproducible.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

FOLDER = Path(__file__).parents[1] / "tests" / "golden" / "graphs"
MAX_BYTES = 60_000
Step = tuple[dict[str, Any], list[str]]


def weights(*shape: int, start: float = -0.5, stop: float = 0.5) -> np.ndarray:
    """Numbers that are neither equal nor random."""
    count = int(np.prod(shape))
    return np.linspace(start, stop, count, dtype=np.float32).reshape(shape)


def named(tensor: Any, name: str) -> Any:
    """The tensor under a name of its own."""
    return tf.identity(tensor, name)


# ---------------------------------------------------------------- branches


def cond() -> list[Step]:
    """Two branches with captures, one of which divides by what may be zero."""
    x = tf.placeholder(tf.float32, [None], "x")
    p = tf.placeholder(tf.bool, [], "p")
    y = tf.cond(p, lambda: [x * 2.0, tf.constant(1)], lambda: [x - 1.0, tf.constant(2)])
    named(y[0], "y0")
    named(y[1], "y1")
    return [({"x:0": np.float32([1, 2]), "p:0": np.bool_(b)}, ["y0:0", "y1:0"]) for b in (1, 0)]


def nested_cond() -> list[Step]:
    """A branch that branches on what it computes."""
    x = tf.placeholder(tf.float32, [], "x")
    y = tf.cond(
        x > 0.0,
        lambda: tf.cond(x * 2.0 > 10.0, lambda: tf.log(x), lambda: tf.sqrt(x)),
        lambda: tf.cond(tf.equal(x, -1.0), lambda: x * x * 3.0, lambda: -x),
    )
    named(y + 1.0, "y")
    return [({"x:0": np.float32(v)}, ["y:0"]) for v in (7, 3, -1, -5)]


def two_conds() -> list[Step]:
    """Two uses of one predicate, the second after the first; two predicates that cross."""
    x = tf.placeholder(tf.float32, [], "x")
    p = tf.placeholder(tf.bool, [], "p")
    q = tf.placeholder(tf.bool, [], "q")
    a = tf.cond(p, lambda: x + 1.0, lambda: x - 1.0)
    b = tf.cond(q, lambda: a * 2.0, lambda: x * 3.0)
    c = tf.cond(p, lambda: b + a, lambda: b - a)
    named(tf.cond(q, lambda: c, lambda: c * c), "y")
    return [
        ({"x:0": np.float32(5), "p:0": np.bool_(p), "q:0": np.bool_(q)}, ["y:0"])
        for p in (0, 1)
        for q in (0, 1)
    ]


def case() -> list[Step]:
    """The first true one of three conditions."""
    x = tf.placeholder(tf.float32, [], "x")
    pairs = [(x < 0.0, lambda: -x), (x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 100.0)]
    named(tf.case(pairs, default=lambda: tf.constant(7.0)), "y")
    return [({"x:0": np.float32(v)}, ["y:0"]) for v in (-3, 0.5, 1.5, 9)]


def assertion() -> list[Step]:
    """`tf.Assert`, which in version 1 is a branch of its own."""
    x = tf.placeholder(tf.float32, [None], "x")
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0.0), [x], name="positive")]):
        named(tf.sqrt(x), "y")
    return [({"x:0": np.float32([1, 4])}, ["y:0"]), ({"x:0": np.float32([-1, 4])}, ["y:0"])]


def cond_assign() -> list[Step]:
    """Updates of a variable in one branch only."""
    p = tf.placeholder(tf.bool, [], "p")
    v = tf.Variable(3.0, name="v", use_resource=False)
    y = tf.cond(p, lambda: tf.assign_add(v, 1.0), lambda: tf.identity(v))
    named(y, "y")
    op = tf.cond(p, lambda: tf.group(tf.assign(v, 10.0)), lambda: tf.no_op())
    with tf.control_dependencies([op]):
        named(v, "after")
    tf.global_variables_initializer()
    return [
        ({}, ["init"]),
        ({"p:0": np.True_}, ["y:0"]),
        ({"p:0": np.False_}, ["y:0"]),
        ({"p:0": np.False_}, ["after:0"]),
        ({"p:0": np.True_}, ["after:0"]),
        ({"p:0": np.False_}, ["y:0"]),
    ]


def cond_gradient() -> list[Step]:
    """Gradients through nested branches."""
    x = tf.placeholder(tf.float32, [3], "x")
    w = tf.placeholder(tf.float32, [3], "w")
    p = tf.placeholder(tf.bool, [], "p")
    y = tf.cond(
        p,
        lambda: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * w * 2.0, lambda: tf.exp(x)),
        lambda: w * w,
    )
    dx, dw = tf.gradients(tf.reduce_sum(y * y), [x, w])
    named(dx, "dx")
    named(dw, "dw")
    feeds = {"x:0": np.float32([1, 2, 3]), "w:0": np.float32([-1, 0.5, 2])}
    negative = {**feeds, "x:0": np.float32([-1, -2, -3])}
    return [
        ({**each, "p:0": np.bool_(p)}, ["dx:0", "dw:0"])
        for each in (feeds, negative)
        for p in (0, 1)
    ]


# ---------------------------------------------------------------- loops


def while_loop() -> list[Step]:
    """A loop with an invariant, two variables and a branch inside."""
    n = tf.placeholder(tf.int32, [], "n")
    x = tf.placeholder(tf.float32, [2], "x")

    def body(i: Any, y: Any) -> Any:
        z = tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: y + x)
        return i + 1, z

    i, y = tf.while_loop(lambda i, y: i < n, body, [tf.constant(0), tf.ones([2])])
    named(i, "i")
    named(y, "y")
    feeds = {"x:0": np.float32([2, 3])}
    return [({**feeds, "n:0": np.int32(k)}, ["i:0", "y:0"]) for k in (0, 1, 5)]


def nested_while() -> list[Step]:
    """A loop in a loop in a branch."""
    n = tf.placeholder(tf.int32, [], "n")
    p = tf.placeholder(tf.bool, [], "p")

    def inner(i: Any, total: Any) -> Any:
        done = tf.while_loop(
            lambda j, t: j < i, lambda j, t: [j + 1, t + j * n], [tf.constant(0), total]
        )
        return i + 1, done[1]

    def loops() -> Any:
        return tf.while_loop(lambda i, t: i < n, inner, [tf.constant(0), tf.constant(0)])[1]

    named(tf.cond(p, loops, lambda: -n), "y")
    return [
        ({"n:0": np.int32(n), "p:0": np.bool_(p)}, ["y:0"])
        for n, p in ((4, 1), (0, 1), (6, 1), (6, 0))
    ]


def while_gradient() -> list[Step]:
    """Gradients through a loop with a branch and a matrix that is the same in each turn."""
    x = tf.placeholder(tf.float32, [2, 2], "x")
    w = tf.placeholder(tf.float32, [2, 2], "w")
    n = tf.placeholder(tf.int32, [], "n")

    def body(i: Any, y: Any) -> Any:
        z = tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(tf.matmul(y, w)), lambda: y * y + w)
        return i + 1, z

    _, y = tf.while_loop(lambda i, y: i < n, body, [tf.constant(0), x])
    dx, dw = tf.gradients(tf.reduce_sum(y), [x, w])
    for tensor, name in ((y, "y"), (dx, "dx"), (dw, "dw")):
        named(tensor, name)
    feeds = {"x:0": weights(2, 2), "w:0": weights(2, 2, start=0.2, stop=0.9)}
    return [({**feeds, "n:0": np.int32(k)}, ["y:0", "dx:0", "dw:0"]) for k in (0, 1, 4)]


def nested_while_gradient() -> list[Step]:
    """Gradients through a loop in a loop."""
    x = tf.placeholder(tf.float32, [2], "x")
    n = tf.placeholder(tf.int32, [], "n")

    def outer(i: Any, y: Any) -> Any:
        _, z = tf.while_loop(
            lambda j, z: j < i, lambda j, z: [j + 1, tf.sin(z) * x], [tf.constant(0), y]
        )
        return i + 1, z + y

    _, y = tf.while_loop(lambda i, y: i < n, outer, [tf.constant(0), x])
    (dx,) = tf.gradients(tf.reduce_sum(y), [x])
    named(y, "y")
    named(dx, "dx")
    return [({"x:0": np.float32([0.5, 1.5]), "n:0": np.int32(k)}, ["y:0", "dx:0"]) for k in (1, 3)]


def map_fn() -> list[Step]:
    """`tf.map_fn` and its gradient: TensorArrays."""
    x = tf.placeholder(tf.float32, [None, 2], "x")
    y = tf.map_fn(lambda row: tf.reduce_sum(row * row) * row, x)
    named(y, "y")
    named(tf.gradients(tf.reduce_sum(y), [x])[0], "dx")
    return [({"x:0": weights(k, 2)}, ["y:0", "dx:0"]) for k in (3, 1)]


def scan() -> list[Step]:
    """`tf.scan` over two tensors."""
    x = tf.placeholder(tf.float32, [None], "x")
    y = tf.scan(lambda a, e: a * e + 1.0, x, initializer=tf.constant(1.0))
    named(y, "y")
    named(tf.foldr(lambda a, e: a - e, x), "folded")
    return [({"x:0": weights(k)}, ["y:0", "folded:0"]) for k in (4, 2)]


def tensor_array() -> list[Step]:
    """All that a TensorArray can do."""
    x = tf.placeholder(tf.float32, [4, 2], "x")
    ta = tf.TensorArray(tf.float32, size=4, clear_after_read=False).unstack(x)
    ta2 = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
    ta2 = ta2.write(0, ta.read(1)).write(1, ta.read(3) * 2.0)
    split = tf.TensorArray(tf.float32, size=2, infer_shape=False, clear_after_read=False)
    split = split.split(x, [1, 3])
    named(ta.gather([2, 0]), "gathered")
    named(ta2.stack(), "stacked")
    named(ta2.size(), "size")
    named(split.concat(), "joined")
    named(split.read(1), "piece")
    names = ["gathered:0", "stacked:0", "size:0", "joined:0", "piece:0"]
    return [({"x:0": weights(4, 2)}, names)]


def rnn_training() -> list[Step]:
    """`tf.nn.dynamic_rnn` with lengths, over a cell of plain matrix products, trained by SGD."""
    x = tf.placeholder(tf.float32, [2, None, 3], "x")
    lengths = tf.placeholder(tf.int32, [2], "lengths")
    kernel = tf.Variable(weights(7, 4), name="kernel", use_resource=False)

    class Cell:
        state_size = 4
        output_size = 4

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            new = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
            return new, new

        def zero_state(self, batch_size: Any, dtype: Any) -> Any:
            return tf.zeros([2, 4], dtype)

    outputs, state = tf.nn.dynamic_rnn(Cell(), x, lengths, dtype=tf.float32)
    loss = tf.reduce_sum(outputs * outputs) + tf.reduce_sum(state)
    named(loss, "loss")
    named(outputs, "outputs")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    tf.global_variables_initializer()
    feeds = {"x:0": weights(2, 4, 3), "lengths:0": np.int32([4, 2])}
    steps: list[Step] = [({}, ["init"]), (feeds, ["outputs:0"])]
    return steps + [(feeds, ["loss:0", "train"])] * 3


# ---------------------------------------------------------------- functions


def functions() -> list[Step]:
    """Functional If, While and calls, with their gradients, as TensorFlow 2 writes them."""
    x = tf.placeholder(tf.float32, [2], "x")
    n = tf.placeholder(tf.int32, [], "n")

    @tf.function
    def scaled(v: Any, by: Any) -> Any:
        return tf.sin(v) * by

    y = tf.cond(n > 2, lambda: scaled(x, 3.0), lambda: x * x)
    _, z = tf.while_loop(lambda i, z: i < n, lambda i, z: [i + 1, z * y], [tf.constant(0), x])
    named(z, "z")
    named(tf.gradients(tf.reduce_sum(z), [x])[0], "dx")
    named(tf.map_fn(lambda row: tf.cos(row) * row, z), "mapped")
    return [
        ({"x:0": np.float32([0.5, 1.5]), "n:0": np.int32(k)}, ["z:0", "dx:0", "mapped:0"])
        for k in (0, 2, 4)
    ]


def functions_forward() -> list[Step]:
    """Functional If, While and a call without gradients, and frozen: there is no variable."""
    x = tf.placeholder(tf.float32, [2], "x")
    n = tf.placeholder(tf.int32, [], "n")
    w = tf.get_variable("w", initializer=weights(2), use_resource=True)

    @tf.function
    def scaled(v: Any, by: Any) -> Any:
        return tf.sin(v) * by * w

    y = tf.cond(n > 2, lambda: scaled(x, 3.0), lambda: x * w)
    _, z = tf.while_loop(lambda i, z: i < n, lambda i, z: [i + 1, z * y], [tf.constant(0), x])
    named(z, "z")
    named(tf.map_fn(lambda row: tf.cos(row) * row, z), "mapped")
    return [
        ({"x:0": np.float32([0.5, 1.5]), "n:0": np.int32(k)}, ["z:0", "mapped:0"])
        for k in (0, 2, 4)
    ]


def differentiable() -> list[Step]:
    """As before without variables; the reader takes dx and ddx of the imported graph himself."""
    x = tf.placeholder(tf.float32, [2], "x")
    n = tf.placeholder(tf.int32, [], "n")

    @tf.function
    def scaled(v: Any, by: Any) -> Any:
        return tf.sin(v) * by

    y = tf.cond(n > 2, lambda: scaled(x, 3.0), lambda: x * x)
    _, z = tf.while_loop(lambda i, z: i < n, lambda i, z: [i + 1, z * y], [tf.constant(0), x])
    named(scaled(z, 2.0), "z")
    return [
        ({"x:0": np.float32([0.5, 1.5]), "n:0": np.int32(k)}, ["z:0", "dx:0", "ddx:0"])
        for k in (0, 2, 4)
    ]


def add_gradients(graph: tf.Graph) -> None:
    """What the reader of `differentiable` adds."""
    x, z = (graph.get_tensor_by_name(name) for name in ("x:0", "z:0"))
    (dx,) = tf.gradients(z, x)
    named(dx, "dx")
    named(tf.gradients(tf.reduce_sum(dx * dx), x)[0], "ddx")


def resource_training() -> list[Step]:
    """An MLP with an embedding on resource variables, trained with Adam."""
    ids = tf.placeholder(tf.int32, [4], "ids")
    labels = tf.placeholder(tf.float32, [4, 1], "labels")
    table = tf.get_variable("table", initializer=weights(5, 3), use_resource=True)
    w1 = tf.get_variable("w1", initializer=weights(3, 6), use_resource=True)
    b1 = tf.get_variable("b1", initializer=np.zeros(6, np.float32), use_resource=True)
    w2 = tf.get_variable("w2", initializer=weights(6, 1), use_resource=True)
    hidden = tf.nn.relu(tf.matmul(tf.nn.embedding_lookup(table, ids), w1) + b1)
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2) - labels))
    named(loss, "loss")
    tf.train.AdamOptimizer(0.05).minimize(loss, name="train")
    tf.global_variables_initializer()
    feeds = {"ids:0": np.int32([0, 3, 1, 3]), "labels:0": weights(4, 1)}
    steps: list[Step] = [({}, ["init"])]
    return steps + [(feeds, ["loss:0", "train"])] * 4 + [(feeds, ["loss:0"])]


VERSION_1: list[Callable[[], list[Step]]] = [
    cond,
    nested_cond,
    two_conds,
    case,
    assertion,
    cond_assign,
    cond_gradient,
    while_loop,
    nested_while,
    while_gradient,
    nested_while_gradient,
    map_fn,
    scan,
    tensor_array,
    rnn_training,
    resource_training,
]
VERSION_2 = [functions, functions_forward, differentiable]


def written(value: Any) -> Any:
    """A value as JSON: its dtype, its shape and its elements."""
    if value is None:
        return None
    array = np.asarray(value)
    return [array.dtype.name, list(array.shape), array.reshape(-1).tolist()]


def run(session: tf.Session, feeds: dict[str, Any], fetches: list[str]) -> dict[str, Any]:
    """One step as the JSON file has it."""
    step: dict[str, Any] = {"fetches": fetches, "feeds": {k: written(v) for k, v in feeds.items()}}
    try:
        step["values"] = [written(each) for each in session.run(fetches, feeds)]
    except tf.errors.OpError as error:
        step["error"] = type(error).__name__
    return step


def generate(program: Callable[[], list[Step]], functional: bool) -> list[dict[str, Any]]:
    """Writes the graph and returns its steps."""
    (tf.enable_control_flow_v2 if functional else tf.disable_control_flow_v2)()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        steps = program()
        graph_def = graph.as_graph_def()
        if program is functions_forward:
            session.run(tf.global_variables_initializer())
            graph_def = tf.graph_util.convert_variables_to_constants(
                session, graph_def, ["z", "mapped"]
            )
        for node in graph_def.node:
            node.attr.pop("_output_shapes", None)
        data = graph_def.SerializeToString(deterministic=True)
        if len(data) > MAX_BYTES:
            sys.exit(f"{program.__name__} has {len(data)} bytes, more than {MAX_BYTES}")
        (FOLDER / f"{program.__name__}.pb").write_bytes(data)
        if program is differentiable:
            add_gradients(graph)
        return [run(session, *step) for step in steps]


def main() -> None:
    """Writes all of them."""
    tf.disable_v2_behavior()
    FOLDER.mkdir(exist_ok=True)
    found = {}
    for program in [*VERSION_1, *VERSION_2]:
        found[program.__name__] = generate(program, program in VERSION_2)
        size = (FOLDER / f"{program.__name__}.pb").stat().st_size
        print(program.__name__, size, "bytes,", len(found[program.__name__]), "steps")
    lines = [
        f"{json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, steps)) + "\n]"
        for name, steps in found.items()
    ]
    (FOLDER / "graphs.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
