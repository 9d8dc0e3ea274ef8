"""Writes the results of passes and compiler for many graphs as texts: `dump_plans.py FOLDER`.

A refactoring of passes or compiler must write the same folder before and after:

    .venv/bin/python scripts/dump_plans.py /tmp/before      # in the tree without the change
    .venv/bin/python scripts/dump_plans.py /tmp/after       # in the tree with it
    diff -r /tmp/before /tmp/after

The graphs are random ones (`support.random_graphs`), on one task and with their variables on
another, and models: the programs of `benchmarks/executor.py`, and a few with channels-first images,
sparse gradients on parameter servers and values that are sent in 16 bits. A text has the nodes
after every pass, the partitions, and the source of every plan.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow_runtime.compiler import emit, specialise
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.function import no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.master.pipeline import Request, optimise
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.place import Placement
from sparkflow_runtime.passes.prune import prune

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.plans import plan_of, without_machine_code
from support.random_graphs import RandomProgram, random_program

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
LOCAL = "/job:localhost/replica:0/task:0/device:CPU:0"
EXECUTOR_CASES = ("add", "chain", "mlp", "cnn", "embedding", "while", "while_gradient")


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=int, default=200, help="how many random graphs")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    specialise.SIGHTINGS = 1  # type: ignore[misc]  # plans at once
    for seed in range(options.graphs):
        _write(options.folder / f"random_{seed:03}.txt", random_texts(seed))
    for name, build in MODELS.items():
        _write(options.folder / f"model_{name}.txt", model_texts(build))
    for name in EXECUTOR_CASES:
        _write(options.folder / f"executor_{name}.txt", executor_texts(name))


def _write(path: Path, texts: Iterator[str]) -> None:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


# ------------------------------------------------------------------ random graphs


def random_texts(seed: int) -> Iterator[str]:
    """What becomes of a random graph."""
    made = random_program(seed, 60, smooth=seed % 2 == 0)
    request = Request(tuple(made.feeds), made.fetches, made.targets)
    yield from optimised_texts(made.graph, request, [LOCAL])
    yield from optimised_texts(_apart(made.graph), request, [PS, WORKER])
    yield from plan_texts(made)


def _apart(graph: Graph) -> Graph:
    """The graph with its variables, and what updates them, on a parameter server."""
    return Graph(replace(node, device=PS if _has_reference(node) else WORKER) for node in graph)


def _has_reference(node: Node) -> bool:
    signature = registry.lookup(node.op).signature
    dtypes = (*signature.input_dtypes(node.attrs), *signature.output_dtypes(node.attrs))
    return any(dtype.is_ref for dtype in dtypes)


def optimised_texts(
    graph: Graph, request: Request, devices: list[str], load: Any = no_function
) -> Iterator[str]:
    """The nodes after every pass, and those of the partitions."""
    texts: list[str] = []

    def observe(name: str, after: Graph) -> None:
        texts.extend([f"== {name}", *map(text_of, after.sorted())])

    placement = Placement([DeviceSpec.from_string(each) for each in devices])
    try:
        parts = optimise(graph, request, placement, load, observe=observe)
    except OpError as error:
        yield from [*texts, f"== {error.message}"]
        return
    yield from texts
    for part in parts:
        yield from [f"== {part.device}", *map(text_of, part.nodes)]
        for name, function in sorted(part.functions.items()):
            yield from [f"== function {name}", *map(text_of, function.body.sorted())]


def plan_texts(made: RandomProgram) -> Iterator[str]:
    """The general program and the plans of a random graph, with and without machine code."""
    nodes = prune(made.graph, list(made.feeds), made.fetches, made.targets).sorted()
    with recorded() as texts:
        compiled = compile_partition(nodes, made.context())
        given = [np.asarray(made.args[index]) for index in compiled.args]
        if compiled.specialisations is not None:
            plan_of(compiled, given)
        with without_machine_code():
            again = compile_partition(nodes, made.context())
            if again.specialisations is not None:
                plan_of(again, given)
    yield from texts


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The sources of all plans that are compiled meanwhile."""
    texts: list[str] = []
    under_way: list[None] = []
    inner = emit.emit

    def compiling(source: str, *rest: Any) -> Any:
        if under_way:  # not the program that knows no shapes
            texts.extend(["== source", source])
        return compile(source, *rest)

    def emitting(*arguments: Any) -> Any:
        under_way.append(None)
        planned = inner(*arguments)
        under_way.pop()
        slots = [(each.register, each.offset, each.shape) for each in planned.slots]
        calls = [f"{name}: {each.node.name}" for name, each in planned.calls.items()]
        views = [(each.registers, each.arguments) for each in planned.views]
        quiet = "quiet" if planned.is_quiet else "loud"
        texts.extend(
            ["== plan", str(planned.block_bytes), quiet, *map(str, slots), *map(str, views), *calls]
        )
        return planned

    emit.compile = compiling  # type: ignore[attr-defined]  # instead of the builtin
    phases = specialise.PLANNING
    *first, last = phases
    specialise.PLANNING = (*first, replace(last, run=emitting))  # type: ignore[misc]
    try:
        yield texts
    finally:
        del emit.compile  # type: ignore[attr-defined]
        specialise.PLANNING = phases  # type: ignore[misc]


def text_of(node: Node) -> str:
    """A node in one line, without where it was made."""
    attrs = {
        name: _value_text(value)
        for name, value in sorted(node.attrs.items())
        if name != SOURCE_ATTR
    }
    inputs = " ".join([*map(str, node.inputs), *(f"^{name}" for name in node.control_inputs)])
    return f"{node.name} = {node.op}({inputs}) on {node.device!r} {attrs}"


def _value_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.hasobject or value.size < 9 else value.tobytes()
        digest = hashlib.sha256(repr(content).encode()).hexdigest()[:12]
        return f"array{value.shape}{value.dtype}{digest}"
    return getattr(value, "name", None) or repr(value)


# ------------------------------------------------------------------ models


def model_texts(build: Callable[[], list[Any]]) -> Iterator[str]:
    """What becomes of a model on one task, and on a worker with a parameter server."""
    for devices in ([LOCAL], [PS, WORKER]):
        with tf.Graph().as_default() as graph:
            apart = len(devices) > 1
            setter = tf.train.replica_device_setter(ps_tasks=1) if apart else None
            with tf.device(setter):
                fetches = build()
            message = graph.as_graph_def()
        nodes = import_graph(message)
        library = graph.to_message().library
        assert not library.function, "functions are dumped by the executor's cases"
        operations = [each for each in fetches if isinstance(each, tf.Operation)]
        tensors = [tf.convert_to_tensor(each) for each in fetches if each not in operations]
        request = Request(
            (),
            tuple(Endpoint(each.op.name, each.value_index) for each in tensors),
            tuple(each.name for each in operations),
        )
        yield from optimised_texts(nodes, request, devices)


def _images(depthwise: bool) -> list[Any]:
    x = tf.constant(np.ones([2, 3, 8, 8], np.float32)) * tf.random_uniform([])
    filters = tf.Variable(np.ones([3, 3, 3, 4], np.float32))
    y = tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME", data_format="NCHW")
    y = tf.nn.bias_add(y, tf.Variable(np.ones(4, np.float32)), data_format="NCHW")
    y = tf.nn.relu(y)
    y = tf.nn.max_pool(y, [1, 1, 2, 2], [1, 1, 2, 2], "SAME", data_format="NCHW")
    if depthwise:
        wide = tf.Variable(np.ones([3, 3, 4, 1], np.float32))
        y = tf.nn.depthwise_conv2d(y, wide, [1, 1, 1, 1], "SAME", data_format="NCHW")
        y = tf.nn.leaky_relu(y) + tf.sigmoid(y) * 2.0
        y = tf.nn.avg_pool(y, [1, 1, 2, 2], [1, 1, 2, 2], "SAME", data_format="NCHW")
    scale, offset = tf.Variable(np.ones(4, np.float32)), tf.Variable(np.ones(4, np.float32))
    y, _, _ = tf.nn.fused_batch_norm(y, scale, offset, data_format="NCHW")
    y = tf.nn.elu(y) + tf.nn.softplus(tf.square(y)) - tf.exp(y)
    loss = tf.reduce_mean(y * y)
    return [loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)]


def _sparse(optimizer: Any, resource: bool, wire: bool) -> list[Any]:
    with tf.variable_scope("m", use_resource=resource):
        table = tf.get_variable("table", [100, 32])
        weights = tf.get_variable("weights", [32, 1])
    if wire:
        tf.train.set_wire_dtype([table, weights], tf.bfloat16)
    ids = tf.cast(tf.random_uniform([16], 0.0, 99.0), tf.int32)
    rows = tf.nn.embedding_lookup(table, ids)
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))
    step = tf.train.get_or_create_global_step()
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    train = optimizer.apply_gradients(zip(clipped, variables, strict=True), step)
    return [loss, step, train]


def _accumulated() -> list[Any]:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 1)
    return _sparse(optimizer, resource=False, wire=True)


_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": tf.train.AdamOptimizer,
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def _sparse_model(name: str, resource: bool, wire: bool) -> Callable[[], list[Any]]:
    return lambda: _sparse(_OPTIMIZERS[name](), resource, wire)


MODELS: dict[str, Callable[[], list[Any]]] = {
    "images": lambda: _images(depthwise=False),
    "depthwise": lambda: _images(depthwise=True),
    **{
        f"{name}_{'handle' if resource else 'reference'}{'_wire' if wire else ''}": _sparse_model(
            name, resource, wire
        )
        for name in _OPTIMIZERS
        for resource in (False, True)
        for wire in (False, True)
    },
    "accumulated": _accumulated,
}


def executor_texts(name: str) -> Iterator[str]:
    """The sources of all that a program of `benchmarks/executor.py` compiles."""
    benchmarks = str(Path(__file__).parents[1] / "benchmarks")
    if benchmarks not in sys.path:
        sys.path.insert(0, benchmarks)
    competitors: Any = importlib.import_module("executor_competitor")

    with recorded() as texts:
        case = competitors.framework_case(tf, 1)(name)
        for _ in range(3):
            case.call()
    yield from texts


if __name__ == "__main__":
    main()
