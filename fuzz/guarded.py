"""Kernels whose arrays lie beside pages that nobody may touch, drawn from one seed after another.

    python fuzz/guarded.py FIRST COUNT [avx2]

Each seed makes a small graph of one family, whose values have random shapes, and runs it six times
with its arrays elsewhere: each ends, or begins, beside a guard page (`tests/support/guarded.py`),
and so does every value that the step computes. The program is started by `run.py` and by
`tests/faults/test_guard_pages.py` as a process of its own: a kernel that reads or writes beyond an
array ends it by SIGSEGV, and the last line that it wrote is the seed. `avx2` makes code for
processors without AVX-512.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import logging
import os
import random
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import numpy as np  # noqa: E402  (after the paths)

import sparkflow as tf  # noqa: E402
from sparkflow_runtime.codegen.machine import host  # noqa: E402
from sparkflow_runtime.compiler import planned, specialise  # noqa: E402
from support.guarded import Guarded  # noqa: E402

RUNS: Final = 6
"""So many times each graph runs, with its arrays at other ends of their pages."""
Feeds = dict[Any, Any]
Made = tuple[Sequence[Any], Feeds]


class Drawing:
    """What a family takes its shapes and numbers from, and the placeholders it has made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self.feeds: Feeds = {}

    def size(self, most: int = 12) -> int:
        """A number that is often 1, or beside the width of a vector."""
        near = [n for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65) if n <= most]
        return self.random.choice([*near, self.random.randint(1, most)])

    def choose(self, *given: Any) -> Any:
        """One of them."""
        return self.random.choice(given)

    def fed(self, *shape: int, dtype: Any = np.float32, most: int = 0) -> Any:
        """A placeholder and its numbers: whole ones below `most` where that is given."""
        if most:
            values = self._numbers.integers(0, most, shape).astype(dtype)
        else:
            values = np.asarray(self._numbers.uniform(-1, 1, shape)).astype(dtype)
        made = tf.placeholder(tf.as_dtype(dtype), shape)
        self.feeds[made] = values
        return made

    def float(self) -> Any:
        """float32, mostly."""
        return self.choose(np.float32, np.float32, np.float64)


def elementwise(d: Drawing) -> Sequence[Any]:
    """Chains of ops that are fused, with broadcasting."""
    shape = [d.size(20) for _ in range(d.random.randint(1, 3))]
    dtype = d.float()
    values = [d.fed(*shape, dtype=dtype)]
    shapes = [[n if d.random.random() < 0.6 else 1 for n in shape] for _ in range(2)]
    values += [d.fed(*each, dtype=dtype) for each in shapes]
    one = [tf.tanh, tf.exp, tf.sigmoid, tf.nn.relu, tf.abs, tf.square, tf.sin, tf.nn.elu, tf.erf]
    two = [tf.add, tf.multiply, tf.subtract, tf.maximum, tf.minimum, tf.squared_difference]
    for _ in range(d.random.randint(2, 6)):
        if d.random.random() < 0.5:
            values.append(d.choose(*one)(d.choose(*values)))
        else:
            values.append(d.choose(*two)(d.choose(*values), d.choose(*values)))
    chosen = tf.where(values[-1] > 0, values[-1], -values[-1])
    return [*values[3:], chosen, tf.cast(values[-1] * 3, d.choose(tf.int32, tf.float64, tf.bool))]


def integers(d: Drawing) -> Sequence[Any]:
    """Numbers of one to eight bytes."""
    shape = [d.size(40), d.size(9)]
    dtype = d.choose(np.int32, np.int64, np.uint8, np.int8, np.int16)
    x, y = (d.fed(*shape, dtype=dtype, most=100) for _ in range(2))
    return [
        x + y,
        tf.maximum(x, y),
        tf.equal(x, y),
        tf.cast(x, tf.float32) * 0.5,
        tf.one_hot(tf.cast(x, tf.int32), 7),
    ]


def products(d: Drawing) -> Sequence[Any]:
    """A layer and its gradients."""
    m, k, n = (d.size(d.choose(9, 40, 70)) for _ in range(3))
    dtype = d.float()
    flip = [d.random.random() < 0.4 for _ in range(2)]
    x = d.fed(*((k, m) if flip[0] else (m, k)), dtype=dtype)
    w = d.fed(*((n, k) if flip[1] else (k, n)), dtype=dtype)
    y = tf.matmul(x, w, transpose_a=flip[0], transpose_b=flip[1])
    out = d.choose(tf.nn.relu, tf.tanh, tf.identity)(y + d.fed(n, dtype=dtype))
    return [y, out, *tf.gradients(tf.reduce_sum(out * out), [x, w])]


def large_products(d: Drawing) -> Sequence[Any]:
    """Products of several tiles, and of several threads."""
    m, k, n = (d.random.randint(60, 300) for _ in range(3))
    x, w = d.fed(m, k), d.fed(k, n)
    y = tf.nn.relu(tf.matmul(x, w) + d.fed(n))
    return [y, *tf.gradients(y, [x, w])]


def stacks_of_products(d: Drawing) -> Sequence[Any]:
    """A product for each of a stack, and its gradients."""
    b, m, k, n = (d.size(12) for _ in range(4))
    flip = [d.random.random() < 0.4 for _ in range(2)]
    x = d.fed(b, *((k, m) if flip[0] else (m, k)))
    w = d.fed(b, *((n, k) if flip[1] else (k, n)))
    y = tf.matmul(x, w, transpose_a=flip[0], transpose_b=flip[1])
    return [y, *tf.gradients(tf.nn.softmax(y), [x, w])]


def convolutions(d: Drawing) -> Sequence[Any]:
    """A convolution in either order of dimensions, and its gradients."""
    n, rows, columns = d.size(3), d.size(17), d.size(17)
    inside, outside = d.size(20), d.size(34)
    kernel = [min(d.random.randint(1, 5), n) for n in (rows, columns)]
    first = d.random.random() < 0.3
    stride, padding = d.choose(1, 1, 2, 3), d.choose("SAME", "VALID")
    x = d.fed(*((n, inside, rows, columns) if first else (n, rows, columns, inside)))
    w = d.fed(*kernel, inside, outside)
    steps = [1, 1, stride, stride] if first else [1, stride, stride, 1]
    order = "NCHW" if first else "NHWC"
    y = tf.nn.conv2d(x, w, steps, padding, data_format=order)
    y = tf.nn.relu(tf.nn.bias_add(y, d.fed(outside), data_format=order))
    return [y, *tf.gradients(y, [x, w])]


def depthwise(d: Drawing) -> Sequence[Any]:
    """A filter for each channel, and its gradients."""
    x = d.fed(d.size(3), d.random.randint(3, 14), d.random.randint(3, 14), (c := d.size(17)))
    w = d.fed(d.random.randint(1, 3), d.random.randint(1, 3), c, d.choose(1, 2))
    stride = d.choose(1, 2)
    y = tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], d.choose("SAME", "VALID"))
    return [y, *tf.gradients(y, [x, w])]


def pooling(d: Drawing) -> Sequence[Any]:
    """Largest or mean values of windows, and their gradients."""
    first = d.random.random() < 0.3
    n, rows, columns, c = d.size(3), d.random.randint(3, 20), d.random.randint(3, 20), d.size(33)
    x = d.fed(*((n, c, rows, columns) if first else (n, rows, columns, c)), dtype=d.float())
    window, stride = d.choose(1, 2, 3), d.choose(1, 2, 3)
    pool = d.choose(tf.nn.max_pool, tf.nn.avg_pool)
    sizes = [[1, 1, k, k] if first else [1, k, k, 1] for k in (window, stride)]
    y = pool(x, *sizes, d.choose("SAME", "VALID"), data_format="NCHW" if first else "NHWC")
    return [y, *tf.gradients(y * y, [x])]


def normalisation(d: Drawing) -> Sequence[Any]:
    """Statistics of a batch, and their gradients."""
    first = d.random.random() < 0.3
    n, rows, columns, c = d.size(4), d.size(9), d.size(9), d.size(33)
    x = d.fed(*((n, c, rows, columns) if first else (n, rows, columns, c)))
    scale, offset = d.fed(c), d.fed(c)
    y, mean, variance = tf.nn.fused_batch_norm(
        x, scale, offset, data_format="NCHW" if first else "NHWC"
    )
    return [y, mean, variance, *tf.gradients(y * y, [x, scale, offset])]


def reductions(d: Drawing) -> Sequence[Any]:
    """Sums and their like over any dimensions."""
    shape = [d.size(20) for _ in range(d.random.randint(1, 4))]
    x = d.fed(*shape, dtype=d.float())
    axes = sorted(d.random.sample(range(len(shape)), d.random.randint(1, len(shape))))
    kinds = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_logsumexp]
    keep = d.random.random() < 0.5
    return [
        *(each(tf.square(x) + 1, axes, keepdims=keep) for each in d.random.sample(kinds, 3)),
        tf.argmax(x, axes[0]),
        tf.cumsum(x, axes[0]),
        tf.nn.l2_loss(x),
        *tf.gradients(tf.reduce_mean(x * x, axes), [x]),
    ]


def classification(d: Drawing) -> Sequence[Any]:
    """Losses of classes, and their gradients."""
    n, classes = d.size(40), d.size(40)
    x, labels = d.fed(n, classes, dtype=d.float()), d.fed(n, dtype=np.int32, most=classes)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    wide = tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(x * 2), logits=x)
    return [loss, wide, tf.nn.log_softmax(x), *tf.gradients(tf.reduce_mean(loss + wide), [x])]


def gathers(d: Drawing) -> Sequence[Any]:
    """Rows that are taken and put by number."""
    rows, width, count = d.size(50), d.size(33), d.size(40)
    x, indices = d.fed(rows, width), d.fed(count, dtype=d.choose(np.int32, np.int64), most=rows)
    found = tf.gather(x, indices)
    segments = tf.unsorted_segment_sum(found, tf.cast(indices, tf.int32), rows)
    pairs = tf.stack([indices, indices % width], 1)
    scattered = tf.scatter_nd(indices[:, None], found, [rows, width])
    picked = tf.gather_nd(x, pairs)
    gradient = tf.convert_to_tensor(tf.gradients(found * found, [x])[0])
    return [found, segments, picked, scattered, gradient]


def moves(d: Drawing) -> Sequence[Any]:
    """Parts, joins and other orders."""
    a, b, c = d.size(17), d.size(17), d.size(9)
    x = d.fed(a, b, c, dtype=d.choose(np.float32, np.float64, np.int32, np.uint8))
    order = d.random.sample(range(3), 3)
    begin = [d.random.randrange(n) for n in (a, b, c)]
    cut = x[begin[0] :, begin[1] :: d.choose(1, 2), : begin[2] + 1]
    return [
        tf.transpose(x, order),
        tf.concat([x, cut[:1, :1, :] if begin[2] == c - 1 and b == 1 else x], 0),
        tf.pad(x, [[d.choose(0, 1), 2], [0, d.choose(0, 3)], [1, 0]]),
        tf.tile(cut, [2, 1, 3]),
        tf.reverse(x, [d.random.randrange(3)]),
        tf.stack(tf.unstack(x, axis=1), 2),
        cut,
    ]


def updates(d: Drawing) -> Sequence[Any]:
    """An optimizer of a whole variable."""
    shape = [d.size(70), d.size(20)][: d.random.randint(1, 2)]
    x = d.fed(*shape)
    variable = tf.get_variable("v", shape, initializer=tf.ones_initializer())
    return [_optimizer(d).minimize(tf.reduce_sum(tf.square(variable - x))), tf.identity(x)]


def sparse_updates(d: Drawing) -> Sequence[Any]:
    """An optimizer of some rows of a table."""
    rows, width, count = d.size(40), d.size(33), d.size(30)
    table = tf.get_variable("v", [rows, width], initializer=tf.ones_initializer())
    found = tf.nn.embedding_lookup(table, d.fed(count, dtype=np.int64, most=rows))
    return [_optimizer(d).minimize(tf.reduce_sum(found * d.fed(count, width))), found]


def _optimizer(d: Drawing) -> Any:
    train = tf.train
    return d.choose(
        lambda: train.GradientDescentOptimizer(0.1),
        lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=d.choose(True, False)),
        lambda: train.AdamOptimizer(0.1),
        lambda: train.AdagradOptimizer(0.1),
        lambda: train.RMSPropOptimizer(0.1, momentum=0.5, centered=d.choose(True, False)),
        lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        lambda: train.AdadeltaOptimizer(0.1),
    )()


def growing_tables(d: Drawing) -> Sequence[Any]:
    """Rows of a table by ids of any size, and an optimizer of those that were looked up."""
    width, count = d.size(33), d.size(40)
    dtype = d.choose(np.int32, np.int64)
    ids = d.fed(count, dtype=dtype, most=d.choose(3, 1 << 30))
    table = tf.get_embedding_variable(
        "v", width, tf.as_dtype(dtype), initializer=tf.ones_initializer()
    )
    found = tf.nn.embedding_lookup(table, ids)
    loss = tf.reduce_sum(found * d.fed(count, width))
    return [tf.train.GradientDescentOptimizer(0.1).minimize(loss), tf.shape(found)]


def narrow_updates(d: Drawing) -> Sequence[Any]:
    """An optimizer of a bfloat16 variable, or of some of its rows: they become float32 and back."""
    rows, width, count = d.size(70), d.size(33), d.size(30)
    shape = d.choose([rows], [rows, width])
    with_rows = len(shape) == 2 and d.random.random() < 0.5
    variable = tf.get_variable("v", shape, tf.bfloat16, tf.ones_initializer())
    tf.train.set_rounding([variable], d.choose("nearest", "stochastic"))
    if with_rows:
        found = tf.nn.embedding_lookup(variable, d.fed(count, dtype=np.int64, most=rows))
        loss = tf.reduce_sum(tf.cast(found, tf.float32) * d.fed(count, width))
    else:
        loss = tf.reduce_sum(tf.square(tf.cast(variable, tf.float32) - d.fed(*shape)))
    return [_optimizer(d).minimize(loss), variable.value()]


def narrow_numbers(d: Drawing) -> Sequence[Any]:
    """Numbers of 16 bits, computed with as float32: chains, sums, products, conversions."""
    dtype = d.choose(tf.bfloat16, tf.float16)
    m, k, n = (d.size(d.choose(9, 33, 70)) for _ in range(3))
    x, w = (tf.cast(each, dtype) for each in (d.fed(m, k), d.fed(k, n)))
    y = tf.nn.relu(tf.matmul(x, w) + tf.cast(d.fed(n), dtype))
    axis = d.choose(0, 1)
    found = [y, tf.tanh(x) * x, tf.reduce_sum(y, axis), tf.concat([x, x], axis), tf.nn.softmax(y)]
    found += tf.gradients(tf.reduce_sum(y * y), [x, w])
    return [tf.cast(each, tf.float32) for each in found]


def heads(d: Drawing) -> Sequence[Any]:
    """Products of heads that lie beside each other in one matrix, and their gradients."""
    b, t, count, width = d.size(3), d.size(17), d.size(4), d.size(17)
    rows = [tf.reshape(d.fed(b, t, count * width), [b, t, count, width]) for _ in range(3)]
    q, k, v = (tf.transpose(each, [0, 2, 1, 3]) for each in rows)
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    mixed = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
    out = tf.reshape(mixed, [b, t, count * width])
    return [out, *tf.gradients(tf.reduce_sum(out * out), rows)]


def turns(d: Drawing) -> Sequence[Any]:
    """A loop over items with a state, and its gradients."""
    n, units, count = d.size(5), d.size(20), d.random.randint(1, 4)
    x, w = d.fed(count, n, units), d.fed(units, units)
    items = tf.TensorArray(tf.float32, count, clear_after_read=False).unstack(x)
    out = tf.TensorArray(tf.float32, count)

    def body(turn: Any, out: Any, state: Any) -> Any:
        state = tf.tanh(tf.matmul(state, w) + items.read(turn))
        return turn + 1, out.write(turn, state), state

    _, out, last = tf.while_loop(
        lambda turn, *_: turn < count, body, [0, out, tf.zeros([n, units])]
    )
    stacked = out.stack()
    return [stacked, last, *tf.gradients(tf.reduce_sum(stacked * stacked), [x, w])]


def texts(d: Drawing) -> Sequence[Any]:
    """Ops of strings."""
    words = ["", "a", "é", "abc,d", "1.5", "-7", "x" * d.size(65)]
    given = np.array([d.choose(*words).encode() for _ in range(d.size(20))], object)
    made = tf.placeholder(tf.string, given.shape)
    d.feeds[made] = given
    numbers = tf.strings.length(made)
    return [
        tf.string_join([made, tf.as_string(numbers)], ":"),
        tf.string_to_hash_bucket_fast(made, 100),
        tf.strings.substr(tf.string_join([made, made, "....."]), d.random.randint(0, 3), 2),
        tf.regex_replace(made, "[a-c]+", "_"),
        tf.strings.lower(made),
        tf.string_to_number(tf.as_string(numbers)),
        tf.decode_raw(tf.string_join([made, "1234567"]), tf.uint8)[:, :1]
        if len(set(map(len, given))) == 1
        else numbers,
    ]


FAMILIES: Final[Sequence[Callable[[Drawing], Sequence[Any]]]] = [
    *[elementwise, integers, products, large_products, stacks_of_products, convolutions],
    *[depthwise, pooling, normalisation, reductions, classification, gathers, moves, updates],
    *[sparse_updates, turns, texts, growing_tables],
    *[narrow_updates, narrow_numbers, heads],
]


def run(seed: int, guard: Guarded) -> int:
    """Runs the graph of a seed; how often.

    Raises:
        AssertionError: The same numbers elsewhere in memory give other results, beyond rounding.
    """
    family = FAMILIES[seed % len(FAMILIES)]
    drawing = Drawing(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = family(drawing)
        initial = tf.global_variables_initializer()
        first: list[Any] = []
        for number in range(RUNS):
            guard.draw(number and seed * RUNS + number)
            session.run(initial)
            given = {key: _somewhere(value, drawing) for key, value in drawing.feeds.items()}
            results = session.run(fetches, given)
            for now, then in zip(results, first, strict=False):
                # Sums may be taken in another order where arrays begin elsewhere.
                if np.asarray(now).dtype.kind == "f":
                    scale = float(np.max(np.abs(then), initial=1.0, where=np.isfinite(then)))
                    np.testing.assert_allclose(now, then, 1e-3, 1e-4 * scale, err_msg=f"{seed}")
            first = first or [np.array(each) for each in results]
    return RUNS


def _somewhere(values: Any, drawing: Drawing) -> Any:
    """The same in memory of its own, in the order that users have it in, or another."""
    return np.array(values, order=drawing.choose("C", "C", "C", "F"))


def sums(seed: int) -> int:
    """Pieces of frames with their sums, into sockets and out of them; how often."""
    path = ROOT / "tests/sparkflow_runtime/codegen/cpu/test_sealed_pieces.py"
    spec = importlib.util.spec_from_file_location("sealed_pieces_tests", path)
    assert spec is not None
    assert spec.loader is not None
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    if not tests.sealed_pieces.available():
        return 0
    draw = random.Random(seed)
    for test, name, choices in (
        (tests.test_sent, "room", (64, 300, 5000)),
        (tests.test_received, "chunk", (1000, 1 << 20)),
    ):
        pair = socket.socketpair()
        for each in pair:
            each.setblocking(False)
        more = {"lead": draw.choice([b"", b"lead"])} if name == "room" else {}
        size = draw.randint(1, draw.choice([70, 600, 9000]))
        test(pair=pair, size=size, **{name: draw.choice(choices)}, **more)
        for each in pair:
            each.close()
    return 2


def _without_avx512() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu="haswell", features="", opt=2, jit=True)
    made = host.Host(llvm.get_default_triple(), "haswell", "", 32, True, machine)
    for module in [each for each in list(sys.modules.values()) if getattr(each, "host", None)]:
        if getattr(module.host, "__name__", "") == "host" and callable(module.host):
            module.host = lambda: made  # type: ignore[attr-defined]


class _Failing(logging.Handler):
    """No plan could be made: what was to be tried was not."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(self.format(record))


def _own_place(self: planned.SlotArray, block: Any) -> Any:
    """A value of a plan in memory of its own, instead of a part of the plan's block."""
    return np.empty(self.shape, self.dtype)


def main() -> None:
    """Runs the seeds; says which before each, and how many runs that were at the end."""
    faulthandler.enable()
    first, count, *processor = sys.argv[1:]
    if processor:
        _without_avx512()
    specialise.SIGHTINGS, specialise.EARLY = 1, 0  # type: ignore[misc]
    logging.getLogger(specialise.__name__).addHandler(_Failing())
    planned.SlotArray.view = _own_place  # type: ignore[method-assign]
    runs = 0
    guard = Guarded()
    with guard.on(), np.errstate(all="ignore"):
        for seed in range(int(first), int(first) + int(count)):
            os.write(1, b"seed %d\n" % seed)
            try:
                runs += run(seed, guard)
                if seed % len(FAMILIES) == 0:
                    runs += sums(seed)
            except BaseException as error:
                raise AssertionError(f"seed {seed}") from error
    os.write(1, b"%d runs, %d arrays\n" % (runs, guard.arrays))


if __name__ == "__main__":
    main()
