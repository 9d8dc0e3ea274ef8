"""The stages of a model that is divided among several tasks.

`stage(i)` in a model's function says which layers are on which task. Where it says nothing, what
the first micro-batch's loss needs is divided here, by the work and the variables of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np

import sparkflow as tf
from sparkflow.graph.default_stack import DefaultStack
from sparkflow.spark.cluster_layout import stage_job
from sparkflow_runtime import shapes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference

_numbers: Final[DefaultStack[int]] = DefaultStack("number of stages")


def stages_in_scope(num_stages: int) -> AbstractContextManager[int]:
    """Has `stage` mean tasks of a cluster with so many stages inside a `with` block. Per thread."""
    return _numbers.entered(num_stages)


def stage(index: int) -> Callable[[Any], str]:
    """What `tf.device` is given in a `model_fn` for the layers of a stage.

    With `modelParallel=k` each worker's copy of the model is on k tasks, stages 0 to k - 1.
    Variables are where they would be without it: on parameter servers. In a graph that is on one
    task, as that of `transform`, it has no effect.

    Args:
        index: The stage, from 0.

    Raises:
        TypeError: `index` is no integer.
        ValueError: It is negative, or there are fewer stages.
    """
    if isinstance(index, bool) or not isinstance(index, int | np.integer):
        raise TypeError(f"stage takes an integer, got {index!r}")
    if index < 0:
        raise ValueError(f"stage({index}): stages are numbered from 0")
    count = _numbers.top()
    if count is not None and count > 1 and index >= count:
        raise ValueError(
            f"stage({index}) was requested, but modelParallel={count} has stages 0 to {count - 1}"
        )
    job = stage_job(int(index)) if count is not None and count > 1 else ""

    def device_of(op: Any) -> str:
        if not job or registry.find(op.type).is_variable or "/job:" in op.device:
            return str(op.device)
        return f"/job:{job}{op.device}"

    return device_of


def stage_of(op: Any) -> int | None:
    """The stage of an operation, by its device; None for one on a parameter server.

    What has no job is where its session puts it: on the first stage.
    """
    job = op.device.partition("/job:")[2].partition("/")[0]
    if job in ("", "worker"):
        return 0
    number = job.removeprefix("stage")
    return int(number) if number != job and number.isdecimal() else None


def divide(operations: Sequence[Any], num_stages: int) -> None:
    """Puts operations that are all on the first stage on all of them, in their order.

    Each stage gets about the same part of the work (floating-point operations per row) and of the
    bytes of variables that are read, both counting the same. What needs another operation is on its
    stage or a later one, so that activations go forward only.

    Args:
        operations: What depends on the batch, each after those that it needs.
        num_stages: How many stages there are.

    Raises:
        ValueError: There are fewer operations that work than stages.
    """
    costs = _costs(operations)
    total = sum(costs)
    if sum(cost > 0 for cost in costs) < num_stages:
        raise ValueError(
            f"modelParallel={num_stages}: the model has too few layers that can be placed on "
            "separate tasks"
        )
    placed: dict[str, int] = {}
    done = 0.0
    for op, cost in zip(operations, costs, strict=True):
        # By the middle of its cost: a layer as large as a stage is on the one that has most of it.
        wanted = min(int((done + cost / 2) / total * num_stages), num_stages - 1)
        done += cost
        before = [placed[each.op.name] for each in op.inputs if each.op.name in placed]
        before += [placed[each.name] for each in op.control_inputs if each.name in placed]
        place = placed[op.name] = max([wanted, *before])
        if place and stage_of(op) == 0:
            op._set_device(f"/job:{stage_job(place)}{op.device.removeprefix('/job:worker')}")


def _costs(operations: Sequence[Any]) -> list[float]:
    """Per operation its part of all work and of all variables, together 2 at most."""
    work: list[float] = []
    held: list[float] = []
    seen: set[str] = set()
    for op in operations:
        traits = registry.find(op.type)
        inputs = [_per_row(tensor) for tensor in op.inputs]
        dtypes = [tensor.dtype for tensor in op.inputs]
        known = Inference(inputs, dtypes, op._attrs, _unknown, _unknown)
        work.append(float(traits.float_operations(known, [_per_row(each) for each in op.outputs])))
        own = 0.0
        for variable in map(_variable_behind, op.inputs):
            if variable is not None and variable.name not in seen:
                seen.add(variable.name)
                own += _bytes(variable)
        held.append(own)
    parts = [[each / (sum(column) or 1.0) for each in column] for column in (work, held)]
    return [sum(pair) for pair in zip(*parts, strict=True)]


def _unknown(_: int) -> None:
    """No value is known."""


def _per_row(tensor: Any) -> tuple[int, ...]:
    known = tensor._shape
    return () if known is None else tuple(1 if size is None else size for size in known)


def _variable_behind(tensor: Any) -> Any:
    """The variable that a tensor is made of alone, as a read or a cast is; None for another."""
    op = tensor.op
    while not registry.find(op.type).is_variable:
        if len(op.inputs) != 1:
            return None
        op = op.inputs[0].op
    return op


def _bytes(variable: Any) -> float:
    return float((shapes.num_elements(variable.attr("shape")) or 0) * variable.attr("dtype").size)


def require_all_used(graph: tf.Graph, num_stages: int) -> None:
    """Passes when every stage has something to do.

    Raises:
        ValueError: One has not.
    """
    used = {stage_of(op) for op in graph.get_operations()}
    missing = [str(index) for index in range(num_stages) if index not in used]
    if missing:
        raise ValueError(
            f"modelParallel={num_stages}, but model_fn puts nothing on stage {', '.join(missing)}: "
            "use with tf.device(sparkflow.spark.stage(i)) for all of them, or for none"
        )
