"""Counts of each worker's steps that every parameter server has applied.

In `async` mode the other workers continue when one is lost. The lost worker may have reported fewer
steps than it made, or died in the middle of one. So the nodes of a step that modify state on a
parameter server form groups (`Commit`). A group starts when all its inputs from other tasks have
arrived, does not wait after that, and ends by counting the step for its worker: it is executed
completely or not at all, whatever happens to the worker.

Nodes that modify state only after another server has done so (such as a step counter after all
updates) form separate groups on a later level, so groups never wait for each other in a cycle.

The number of complete steps of a lost worker is the smallest of its counts; groups whose count is
one higher have already executed the next step (`without`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.tensor_proto import export_constant

_REPLICA: Final = "sparkflow_replica"
"""The constant with the index of a graph's worker."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A group of nodes that modify state on one parameter server.

    Attributes:
        nodes: Their names, including the node that counts the step.
        applied: Tensor, [workers] int64: the number of steps of each worker that the group has
            executed in this attempt.
    """

    nodes: tuple[str, ...]
    applied: str


@dataclass(frozen=True, slots=True)
class Commits:
    """What `add_commits` has added to the default graph.

    Attributes:
        groups: The groups of a step; empty if it modifies nothing on parameter servers.
        train_op: The operation of a step.
        initializers: Operations that set all counts to zero.
    """

    groups: tuple[Commit, ...]
    train_op: Any
    initializers: tuple[Any, ...]


def add_commits(made: Any, num_workers: int) -> Commits:
    """Adds nodes that count a step on each parameter server that it modifies.

    Args:
        made: The operation of a step, or a tensor. Nodes that it depends on are changed.
        num_workers: The number of training workers.
    """
    root = getattr(made, "op", made)
    order = _sorted(root)
    tasks = _tasks(order)
    groups = _groups(order, tasks)
    if not groups:
        return Commits((), tf.group(made, name="train_step"), ())
    replica = tf.constant(0, tf.int32, name=_REPLICA)
    commits, counted, initializers = [], [], []
    needed = {key: _needed(nodes, tasks) for key, nodes in groups.items()}
    for (task, level), nodes in sorted(groups.items()):
        with tf.device(task):
            applied = tf.Variable(
                lambda: tf.zeros([num_workers], tf.int64),
                trainable=False,
                collections=[],
                name="sparkflow_applied",
            )
            with tf.control_dependencies(needed[task, level]):
                begin = tf.no_op(name="sparkflow_begin")
            for node in nodes:
                node.control_inputs = [*node.control_inputs, begin]
            with tf.control_dependencies(nodes):
                one = tf.one_hot(replica, num_workers, dtype=tf.int64)
                counted.append(tf.assign_add(applied, one, use_locking=True).op)
        names = tuple(node.name for node in (*nodes, counted[-1]))
        commits.append(Commit(names, applied.value().name))
        initializers.append(applied.initializer)
    train_op = tf.group(made, *counted, name="train_step")
    return Commits(tuple(commits), train_op, tuple(initializers))


def as_replica(graph_def: GraphDef, index: int) -> None:
    """Makes a graph count its steps for this worker."""
    for node in graph_def.node:
        if node.name == _REPLICA:
            node.attr["value"].tensor.CopyFrom(export_constant(np.array(index, np.int32)))


def without(graph_def: GraphDef, commits: Iterable[Commit]) -> GraphDef:
    """Returns the graph whose steps leave out some groups, which have been executed before.

    Nodes that depend on a removed node inherit its dependencies. Nodes that read its result read
    the variable that it would have modified.

    Raises:
        ValueError: A node reads a result that is not the variable.
    """
    gone = {name for each in commits for name in each.nodes}
    result = GraphDef()
    result.CopyFrom(graph_def)
    by_name = {node.name: node for node in result.node}
    changed = {name: by_name[name].input[0] for name in gone if _gives_variable(by_name[name].op)}
    for node in result.node:
        for place, read in enumerate(node.input):
            tensor = read
            while (name := tensor.partition(":")[0]) in changed:  # in chains of several
                tensor = changed[name]
            if name in gone:
                raise ValueError(f"{node.name} reads {read}, a result of a step made before")
            node.input[place] = tensor
    for name in gone:
        node = by_name[name]
        waited = {each.lstrip("^").partition(":")[0] for each in node.input}
        device = node.device
        node.Clear()
        node.name, node.op, node.device = name, "NoOp", device
        node.input.extend(f"^{each}" for each in sorted(waited))
    return result


def _gives_variable(op_type: str) -> bool:
    """Whether the first output of an op is the variable that it modifies."""
    outputs = registry.lookup(op_type).signature.outputs
    return bool(outputs) and outputs[0].is_ref


def _before(op: Any) -> list[Any]:
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _sorted(root: Any) -> list[Any]:
    """Returns the operation and all its dependencies in topological order."""
    order: dict[Any, None] = {}
    open_: set[Any] = set()
    todo = [root]
    while todo:
        op = todo[-1]
        if op in order:
            todo.pop()
        elif op in open_:
            order[op] = None
            todo.pop()
        else:
            open_.add(op)
            todo += [each for each in _before(op) if each not in open_]
    return list(order)


def _takes_state(tensor: Any) -> bool:
    return bool(tensor.dtype.is_ref) or tensor.dtype == dtypes.resource


def _tasks(order: Sequence[Any]) -> dict[Any, str]:
    """Returns the parameter server of each operation; "" for operations on the worker."""
    tasks: dict[Any, str] = {}
    for op in order:
        device = tf.DeviceSpec.from_string(op.device or "")
        if device.job == "ps" and op.type != "NoOp":
            tasks[op] = f"/job:ps/task:{device.task or 0}"
            continue
        if op.type == "NoOp":  # only joins control edges, so no data moves wherever it is placed
            places = {tasks[each] for each in op.control_inputs}
            tasks[op] = places.pop() if len(places) == 1 else ""
            continue
        state = [tasks[tensor.op] for tensor in op.inputs if _takes_state(tensor)]
        changes = registry.lookup(op.type).signature.binds_to_inputs
        tasks[op] = state[0] if state and changes else ""
    return tasks


def _groups(order: Sequence[Any], tasks: dict[Any, str]) -> dict[tuple[str, int], list[Any]]:
    """Returns the operations that modify state on parameter servers, by task and level."""
    levels: dict[Any, int] = {}
    changed: set[Any] = set()  # including the nodes that depend on them
    groups: dict[tuple[str, int], list[Any]] = {}
    for op in order:
        level = 0
        for each in _before(op):
            if each in changed:
                changed.add(op)
                level = max(level, levels[each] + (tasks[each] != tasks[op]))
        levels[op] = level
        row = registry.lookup(op.type)
        # A growing table assigns a row to an id once, however often it is looked up.
        reads = row.only_reads or row.reads_parts
        if tasks[op] and row.stateful and not reads and any(map(_takes_state, op.inputs)):
            changed.add(op)
            groups.setdefault((tasks[op], level), []).append(op)
    return groups


def _needed(nodes: Sequence[Any], tasks: dict[Any, str]) -> list[Any]:
    """Returns the inputs from other tasks to these operations and to their local dependencies."""
    needed: dict[Any, None] = {}
    seen: set[Any] = set(nodes)
    todo = list(nodes)
    while todo:
        op = todo.pop()
        for each in _before(op):
            if tasks[each] != tasks[op]:
                needed[each] = None
            elif each not in seen:
                seen.add(each)
                todo.append(each)
    return list(needed)
