"""Graphs and loops drawn from a seed, run compiled and interpreted: both give the same.

    python fuzz/differential.py plans FIRST COUNT       graphs of so many seeds
    python fuzz/differential.py loops FIRST COUNT       loops
    python fuzz/differential.py turns FIRST COUNT       loops whose number of turns changes
    python fuzz/differential.py partitions FIRST COUNT  graphs divided among the tasks of a cluster
    python fuzz/differential.py threads FIRST COUNT     several at once in threads of one session

There is no branch of a parser for a fuzzer to look for here, so that seeds are gone through one by
one. Graphs and the ways to run them are those of `tests/sparkflow_runtime/compiler` and `master`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TESTS: Final = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS)]

import numpy as np  # noqa: E402  (after the paths)
import pytest  # noqa: E402

import sparkflow as tf  # noqa: E402
from sparkflow_runtime.compiler import specialise  # noqa: E402
from sparkflow_runtime.compiler.loops.plan import LoopPlan  # noqa: E402
from sparkflow_runtime.testing.local_cluster import LocalCluster  # noqa: E402


def plans(seed: int) -> None:
    """A graph by the interpreter, the general program, and plans with and without machine code."""
    specialise.SIGHTINGS = 1
    _random_plans().test_every_way_to_run_a_program_gives_the_same(seed)


def partitions(seed: int) -> None:
    """A graph by the interpreter, and on two to four tasks that are chosen node by node."""
    module, cluster = _partitions()
    module.compare(seed, cluster)


def threads(seed: int) -> None:
    """Four graphs in five threads of one session, on the cluster or, by odd seeds, in one task."""
    module, cluster = _partitions()
    module.compare_in_threads(seed, None if seed % 2 else cluster)


@functools.cache
def _partitions() -> tuple[Any, LocalCluster]:
    module = _module("sparkflow_runtime/master/test_random_partitions.py")
    module.send_in_every_way(pytest.MonkeyPatch())
    cluster = LocalCluster(2, 2)
    atexit.register(cluster.stop)
    return module, cluster


def _random_plans() -> Any:
    return _module("sparkflow_runtime/compiler/test_random_plans.py")


def _module(test: str) -> Any:
    path = _TESTS / test
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loops(seed: int) -> None:
    """A loop over a TensorArray and its gradients, in machine code as a whole and turn by turn.

    Raises:
        AssertionError: They differ by more than the order of summation explains, or the same code
            gives two results.
    """
    draw = random.Random(seed)
    dtype = draw.choice([np.float32, np.float64])
    rows, units, turns = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 5]), draw.choice([1, 3, 5])
    shape = draw.choice([(units,), (rows, units), (rows, 1, units), ()])
    numbers = np.random.default_rng(seed)
    fed = [
        numbers.uniform(-1, 1, (turns, *shape)).astype(dtype),
        numbers.uniform(-0.7, 0.7, (units, units)).astype(dtype),
        numbers.uniform(-1, 1, (rows, units)).astype(dtype),
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.placeholder(dtype, each.shape) for each in fed]
        fetches = _fetches(draw, *given, turns)
        feeds = dict(zip(given, fed, strict=True))
        compiled = session.run(fetches, feeds), session.run(fetches, feeds)
        with _turn_by_turn():
            interpreted = session.run(fetches, feeds)
    _require_same(*compiled, interpreted)


def turns(seed: int) -> None:
    """As `loops`, where the number of turns changes from run to run of one session.

    The weights are small, and the numbers float64: hundreds of turns must not make different
    results of another order of summation.
    """
    draw = random.Random(seed)
    rows, units = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 5])
    shape = draw.choice([(units,), (rows, units), (rows, 1, units), ()])
    numbers = np.random.default_rng(seed)
    counts = [draw.choice(_FEW_TURNS), draw.choice(_MANY_TURNS), draw.choice(_FEW_TURNS)]
    draw.shuffle(counts)
    with tf.Graph().as_default(), tf.Session() as session:
        shapes = [None, *shape], [units, units], [rows, units]
        x, w, start = (tf.placeholder(np.float64, each) for each in shapes)
        count = tf.placeholder(tf.int32, [])
        fetches = _fetches(draw, x, w, start, count)
        fed = {
            w: numbers.uniform(-0.3, 0.3, (units, units)),
            start: numbers.uniform(-1, 1, (rows, units)),
        }
        runs = [fed | {count: each, x: numbers.uniform(-1, 1, (each, *shape))} for each in counts]
        compiled = [session.run(fetches, feeds) for feeds in (*runs, *runs)]
        with _turn_by_turn():
            interpreted = [session.run(fetches, feeds) for feeds in runs]
    for place, expected in enumerate(interpreted):
        _require_same(compiled[place], compiled[place + len(runs)], expected)


_FEW_TURNS: Final = (0, 1, 2, 3, 5, 8, 17)
_MANY_TURNS: Final = (33, 64, 127, 128, 129, 255, 256, 257, 511, 512, 513)


def _fetches(draw: random.Random, x: Any, w: Any, start: Any, turns: Any) -> list[Any]:
    """A loop over the rows of `x`, its results, what they sum up to, and the gradients of that.

    Args:
        draw: Draws its body.
        x: [turns, ...], what turns read.
        w: [units, units].
        start: [rows, units], the first state.
        turns: Their number, or a scalar of int32.
    """
    dtype = x.dtype
    rows, units = start.shape.as_list()
    source = tf.TensorArray(dtype, turns, clear_after_read=False).unstack(x)
    out = tf.TensorArray(dtype, turns, element_shape=None, clear_after_read=False)

    def body(turn: Any, out: Any, state: Any) -> Any:
        read = source.read(draw.choice([turn, turns - 1 - turn]))
        states = [state]
        for _ in range(draw.randint(1, 5)):
            make = draw.choice(_STEPS)
            states.append(make(At(draw, read, w, rows, units, turn), draw.choice(states)))
            states[-1].set_shape([rows, units])  # of a part that a turn begins, it is not known
        last = states[-1]
        item = draw.choice([last, last[0], last[:, None], tf.reduce_sum(last), tf.tanh(last)[None]])
        return turn + 1, out.write(turn, item), tf.tanh(last)

    _, out, state = tf.while_loop(lambda turn, *_: turn < turns, body, [0, out, start])
    stacked = out.stack()
    loss = tf.reduce_sum(stacked * stacked) + tf.reduce_sum(state)
    gradients = [g for g in tf.gradients(loss, [x, w, start]) if g is not None]
    return [stacked, state, loss, *gradients]


@contextlib.contextmanager
def _turn_by_turn() -> Iterator[None]:
    """A block in which no loop runs in machine code as a whole."""
    run = LoopPlan.run
    LoopPlan.run = lambda self, step, values: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        LoopPlan.run = run  # type: ignore[method-assign]


def _require_same(compiled: Any, again: Any, interpreted: Any) -> None:
    for once, twice, expected in zip(compiled, again, interpreted, strict=True):
        np.testing.assert_array_equal(once, twice)
        once, expected = np.asarray(once), np.asarray(expected)
        assert (once.shape, once.dtype) == (expected.shape, expected.dtype)
        largest = max(1.0, np.abs(expected).max() if expected.size else 1.0)
        np.testing.assert_allclose(once, expected, rtol=2e-3, atol=1e-3 * largest)


@dataclass(frozen=True, slots=True)
class At:
    """Where in a loop a step is drawn.

    Attributes:
        draw: Draws.
        read: What the turn reads.
        w: [units, units].
        rows, units: The shape of states.
        turn: A scalar of int32, from 0.
    """

    draw: random.Random
    read: Any
    w: Any
    rows: int
    units: int
    turn: Any


_Step = Callable[[At, Any], Any]
"""From a state another one: [rows, units]."""


def _added(at: At, a: Any) -> Any:
    shape = at.read.shape.as_list()
    fits = shape and (len(shape) == 1 or shape[0] == at.rows)
    return a + tf.reshape(at.read, [-1, at.units]) if fits else a + at.read


def _turned(at: At, a: Any) -> Any:
    turned = tf.transpose(tf.reshape(a, [at.rows, at.units, 1]), [2, 0, 1])
    return tf.reshape(turned, [at.rows, at.units])


def _squeezed(at: At, a: Any) -> Any:
    wide = tf.expand_dims(tf.sigmoid(a), at.draw.choice([0, 1, 2]))
    return tf.reshape(tf.squeeze(wide) * 1, [at.rows, at.units])


def _chosen(at: At, a: Any) -> Any:
    flat = tf.reshape(a, [1, -1])
    return tf.reshape(tf.where(tf.reshape(a, [-1])[:1] > 0, flat, -flat), [at.rows, at.units])


def _branched(at: At, a: Any) -> Any:
    """One of two steps by the turn or by the state; a branch may have branches of its own."""
    steps = at.draw.choices([*_PLAIN, *_PLACED, _branched], k=2)
    holds = at.draw.choice([tf.equal(at.turn % 2, 0), at.turn > 1, tf.reduce_sum(a) > 0.1])
    ways = [functools.partial(step, at, at.draw.choice([a, tf.sigmoid(a)])) for step in steps]
    return tf.reshape(tf.cond(holds, *ways), [at.rows, at.units])


def _looked_up(at: At, a: Any) -> Any:
    """Rows of the matrix by numbers that the turn or the state gives."""
    given = at.draw.choice(
        [
            tf.argmax(a, 1, output_type=at.draw.choice([tf.int32, tf.int64])),
            tf.argmin(tf.abs(a), 1),
            (tf.range(at.rows) + at.turn) % at.units,
            tf.fill([at.rows], at.turn // 2 % at.units),
        ]
    )
    return a + at.draw.choice([tf.gather, tf.nn.embedding_lookup])(at.w, given)


def _part(at: At, a: Any) -> Any:
    """A row of the matrix, or of the state, that begins where the turn says."""
    row = at.turn % at.units
    return a * at.draw.choice(
        [
            at.w[row],
            tf.slice(at.w, [row, 0], [1, at.units]),
            at.w[row : row + 1],
            a[-1 - at.turn % at.rows],
            tf.reshape(at.w[:, row], [1, -1]),
        ]
    )


def _summed(at: At, a: Any) -> Any:
    groups = (tf.range(at.rows) * 2 + at.turn) % (at.rows + 1) - at.draw.choice([0, 1])
    return tf.math.unsorted_segment_sum(a, groups, at.rows + 1)[: at.rows] + a / 2


def _labelled(at: At, a: Any) -> Any:
    labels = at.draw.choice([tf.argmax(a, 1), (tf.range(at.rows) + at.turn) % at.units])
    if at.draw.random() < 0.5:
        return a - tf.one_hot(labels, at.units, dtype=a.dtype)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=a)
    return a * at.draw.choice([tf.reduce_mean(losses), tf.expand_dims(losses, 1)])


def _solved(at: At, a: Any) -> Any:
    """The inverse of a small matrix, or what it is divided by."""
    stable = tf.matmul(at.w, at.w, transpose_b=True) + tf.eye(at.units, dtype=a.dtype)
    stack = stable if at.draw.random() < 0.5 else stable[None] + tf.reshape(a, [-1, 1, at.units])
    if stack is stable:
        return tf.matmul(a, tf.matrix_inverse(stable, adjoint=at.draw.random() < 0.5))
    stack += 2 * tf.eye(at.units, dtype=a.dtype)
    return tf.matrix_solve(stack, a[:, :, None], adjoint=at.draw.random() < 0.5)[:, :, 0]


def _waves(at: At, a: Any) -> Any:
    return a / 2 + at.draw.choice([tf.sin, tf.cos])(a * at.draw.choice([1, 2]))


def _largest(at: At, a: Any) -> Any:
    values, where = tf.nn.top_k(a, at.draw.randint(1, at.units))
    found = tf.cast(where, a.dtype) / 9 + values
    return a * tf.reduce_mean(found, 1, keepdims=True)


def _scanned(at: At, a: Any) -> Any:
    flags = at.draw.random() < 0.5, at.draw.random() < 0.5
    return tf.cumsum(a, at.draw.choice([0, 1]), *flags) / 2


_PLAIN: Final[list[_Step]] = [
    lambda at, a: tf.tanh(a),
    lambda at, a: tf.matmul(a, at.w, transpose_b=at.draw.random() < 0.5),
    lambda at, a: tf.concat([a[:, 1:], a[:, :1]], 1),
    lambda at, a: a * tf.nn.softmax(a),
    lambda at, a: a - tf.reduce_mean(a, at.draw.choice([0, 1]), keepdims=True),
    lambda at, a: a - tf.reduce_mean(a),
    lambda at, a: tf.pad(a, [[0, 1], [0, 0]])[1:] + a,
    lambda at, a: tf.stack(tf.unstack(a)[::-1]),
    *[_added, _turned, _squeezed, _chosen],
]
_PLACED: Final[list[_Step]] = [
    _looked_up,
    _part,
    _summed,
    _labelled,
    _solved,
    _scanned,
    _waves,
    _largest,
]
"""Those that depend on numbers which only a turn knows."""
_STEPS: Final = [*_PLAIN, *_PLACED, _branched, _branched]

WAYS: Final[Mapping[str, Callable[[int], None]]] = {
    "plans": plans,
    "loops": loops,
    "turns": turns,
    "partitions": partitions,
    "threads": threads,
}
"""What is compared, by the name of the target."""


def main() -> int:
    """Runs the seeds, shows those that differ, and says how many did; 1 if any."""
    name, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    different = []
    for seed in range(first, first + count):
        try:
            with np.errstate(all="ignore"):
                WAYS[name](seed)
        except Exception:
            different.append(seed)
            print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)
        done = seed + 1 - first
        if done % 500 == 0:
            print(f"{done} of {count}, {len(different)} differ", flush=True)
    print(f"{name} {first} to {first + count - 1}: {len(different)} differ {different}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
