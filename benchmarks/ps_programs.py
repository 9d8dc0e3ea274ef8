"""The programs that `parameter_servers.py` measures, written with TensorFlow 1's API.

Parameters are on `/job:ps/task:0`, everything else is on the worker that builds the program. Data
are random numbers, drawn once and part of the graph, so that only the step is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import embedding
import mlp
import numpy as np
import numpy.typing as npt

NUM_WORKERS = 2
LARGE_FLOATS = 25_000_000
"""100 MB."""
SMALL_FLOATS = 1000
"""The size of each of many small variables."""
KILOBYTE_FLOATS = 256
COUNTS = (10, 100, 1000)
"""Numbers of variables of 1 KB whose steps are compared."""
CHECKED_STEPS = 5
RATE = 0.001

STEPS = {
    "read": 200,
    "mlp": 200,
    "mlp_large": 6,
    "embedding": 60,
    "variables": 100,
    "kilobytes": 50,
}
"""Approximate number of steps per round, by the first word of the case."""

PS = "/job:ps/task:0"
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A step and what must run before it.

    Attributes:
        fetches: Fetched in every step; the check uses their values or those read later.
        targets: Operations that every step runs in addition.
        initializer: Initializes variables on the parameter server, once.
        local_initializer: Initializes variables of this worker.
        checked: Verifies steps after some of them; None if the fetches do.
        chief_runner: The queue runner that the chief runs during steps of synchronous replicas.
        before: Operations that the chief runs once before the first synchronous step.
    """

    fetches: list[Any]
    targets: list[Any]
    initializer: Any
    local_initializer: Any
    checked: Any = None
    chief_runner: Any = None
    before: list[Any] = field(default_factory=list)


def steps_per_round(case: str) -> int:
    """Returns the number of steps of a case in about half a second."""
    words = [word for word in STEPS if case.startswith(word)]
    return STEPS[max(words, key=len)] if words else 8


def uses_all_workers(case: str) -> bool:
    """Whether the workers run it together; exchanges have one worker."""
    return case.endswith(("_async", "_sync"))


def exchange_shape(case: str) -> tuple[int, int]:
    """Returns the number of variables to exchange, and the number of floats of each.

    Args:
        case: `variables_N`, `count_N` of 1 KB each, or `kilobytes_N` in one variable.
    """
    name, _, text = case.partition("_")
    count = int(text)
    if name == "variables":
        return count, SMALL_FLOATS
    return (count, KILOBYTE_FLOATS) if name == "count" else (1, count * KILOBYTE_FLOATS)


def sequence(count: int) -> Array:
    """Returns values from 0 to 1 that are easily reproduced anywhere, [count] float32."""
    return (np.arange(count, dtype=np.int32) % 1009).astype(np.float32) / np.float32(1009)


def table() -> Array:
    """Returns the initial rows of the embedding, [1000000, 64] float32."""
    columns = np.arange(embedding.WIDTH, dtype=np.float32) / np.float32(embedding.WIDTH)
    return np.asarray(sequence(embedding.ROWS)[:, None] + columns)


def build(tf: Any, case: str, worker: int, synchronous: Meeting) -> Program:
    """Builds the program of a case in the current default graph.

    Args:
        tf: The framework.
        case: Its name, see `parameter_servers.CASES`.
        worker: The index of the worker that runs it.
        synchronous: How cases ending in `_sync` combine gradients.
    """
    device = f"/job:worker/task:{worker}"
    name, _, rest = case.partition("_")
    with tf.name_scope(case):
        if uses_all_workers(case):
            return _training(tf, case, worker, device, synchronous)
        if name == "read":
            return _read(tf, PS if rest == "here" else device)
        if name == "pull":
            return _pull(tf, device, summed=rest == "sum")
        if name == "push":
            return _push(tf, device)
        return _exchange(tf, device, *exchange_shape(case))


class Meeting(Protocol):
    """How replicas of one program combine their gradients."""

    def minimize(
        self, optimizer: Any, build_loss: Callable[[], Any], rows: int
    ) -> tuple[Any, Any, Any, list[Any]]:
        """Builds loss and update; returns the chief's queue runner and its first operations.

        Args:
            optimizer: Creates the update.
            build_loss: Builds the loss, the mean over a batch.
            rows: The number of rows of a batch.
        """


class Synchronous:
    """TensorFlow 1's way: accumulators collect gradients, and a queue of tokens releases steps.

    Args:
        tf: The framework.
    """

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def minimize(
        self, optimizer: Any, build_loss: Callable[[], Any], rows: int
    ) -> tuple[Any, Any, Any, list[Any]]:
        """See `Meeting`."""
        tf = self._tf
        global_step = tf.Variable(0, trainable=False, name="global_step", dtype=tf.int64)
        loss = build_loss()
        meeting = tf.train.SyncReplicasOptimizer(optimizer, NUM_WORKERS, NUM_WORKERS)
        update = meeting.minimize(loss, global_step=global_step)
        update = getattr(update, "op", update)  # the token as a tensor, whose value is not used
        before = [meeting.chief_init_op, meeting.get_init_tokens_op(0)]
        return loss, update, meeting.get_chief_queue_runner(), before


def _program(tf: Any, fetches: list[Any], targets: list[Any], checked: Any = None) -> Program:
    return Program(
        fetches,
        targets,
        tf.global_variables_initializer(),
        tf.local_variables_initializer(),
        checked,
    )


def _read(tf: Any, device: str) -> Program:
    with tf.device(PS):
        variable = tf.Variable(np.float32(0.5))
    with tf.device(device):
        return _program(tf, [tf.identity(variable)], [])


def _pull(tf: Any, device: str, summed: bool) -> Program:
    with tf.device(PS):
        variable = tf.Variable(_sequence(tf, LARGE_FLOATS))
    with tf.device(device):
        pulled = tf.identity(variable)
        result = tf.reduce_mean(pulled) if summed else tf.slice(pulled, [LARGE_FLOATS - 5], [5])
        return _program(tf, [result], [])


def _push(tf: Any, device: str) -> Program:
    with tf.device(PS):
        variable = tf.Variable(_sequence(tf, LARGE_FLOATS))
        pushed_part = tf.slice(variable, [LARGE_FLOATS - 5], [5])
    with tf.device(device):
        local = tf.Variable(_sequence(tf, LARGE_FLOATS), collections=[tf.GraphKeys.LOCAL_VARIABLES])
    return _program(tf, [], [tf.assign_add(variable, local).op], pushed_part)


def _exchange(tf: Any, device: str, count: int, floats: int) -> Program:
    """Pulls a number of variables, pushes gradients that depend on all of them, and updates."""
    start = sequence(count * floats).reshape(count, floats)
    with tf.device(PS):
        variables = [tf.Variable(each) for each in start]
    with tf.device(device):
        together = tf.concat([tf.identity(each) for each in variables], 0)
        gradients = tf.split(together, count)
    update = tf.train.GradientDescentOptimizer(RATE).apply_gradients(
        list(zip(gradients, variables, strict=True))
    )
    with tf.device(PS):
        return _program(tf, [], [update], tf.slice(variables[-1], [floats - 5], [5]))


def _training(tf: Any, case: str, worker: int, device: str, synchronous: Meeting) -> Program:
    network = case.rpartition("_")[0]
    optimizer, build_loss, rows = {
        "mlp": lambda: _mlp(tf, worker, device, mlp.SIZES, mlp.BATCH),
        "mlp_large": lambda: _mlp(tf, worker, device, mlp.LARGE_SIZES, mlp.LARGE_BATCH),
        "embedding": lambda: _embedding(tf, worker, device),
    }[network]()
    chief_runner: Any = None
    before: list[Any] = []
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=device)):
        if case.endswith("_sync"):
            loss, update, chief_runner, before = synchronous.minimize(optimizer, build_loss, rows)
        else:
            loss = build_loss()
            update = optimizer.minimize(loss)
        return Program(
            [loss],
            [update],
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            None,
            chief_runner,
            before,
        )


def _mlp(
    tf: Any, worker: int, device: str, sizes: tuple[int, ...], rows: int
) -> tuple[Any, Callable[[], Any], int]:
    features, labels = mlp.batch(worker, rows)

    def loss() -> Any:
        with tf.device(device):
            x, y = tf.constant(features), tf.constant(labels)
        return mlp.loss(tf, x, y, mlp.initial_values(sizes))

    small = sizes == mlp.SIZES
    optimizer = (
        tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE)
        if small
        else tf.train.AdamOptimizer(mlp.ADAM_LEARNING_RATE)
    )
    return optimizer, loss, rows


def _embedding(tf: Any, worker: int, device: str) -> tuple[Any, Callable[[], Any], int]:
    def loss() -> Any:
        with tf.device(PS):
            columns = np.arange(embedding.WIDTH, dtype=np.float32) / np.float32(embedding.WIDTH)
            rows = tf.reshape(_sequence(tf, embedding.ROWS), [embedding.ROWS, 1])
            variable = tf.Variable(rows + columns, name="table")
        with tf.device(device):
            turn = tf.Variable(
                np.int64(-1),
                name="turn",
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                trainable=False,
            )
            now = tf.assign_add(turn, np.int64(1))
            sets = tf.constant(embedding.id_sets(1 + worker))
            ids = tf.gather(sets, tf.floormod(now, embedding.SETS))
            wanted = tf.constant(embedding.targets())
        return embedding.loss(tf, tf.nn.embedding_lookup(variable, ids), wanted)

    optimizer = tf.train.AdagradOptimizer(embedding.LEARNING_RATE, embedding.INITIAL_ACCUMULATOR)
    return optimizer, loss, embedding.IDS


def _sequence(tf: Any, count: int) -> Any:
    """Returns `sequence`, computed where it is needed."""
    return tf.cast(tf.floormod(tf.range(count), 1009), tf.float32) / np.float32(1009)
