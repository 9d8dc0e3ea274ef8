"""The stages of a model divided among several tasks.

`stage(i)` in a model's function assigns layers to tasks. If it is not used, the operations for the
first micro-batch's loss are divided here, by the time and the variables of the layers.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import sparkflow as tf
from sparkflow._api.integers import as_integer
from sparkflow.graph.default_stack import DefaultStack
from sparkflow.spark.cluster_layout import stage_job
from sparkflow.spark.graphs.measuring import (
    NotMeasurableError,
    measured_micros,
    variable_behind,
    variable_bytes,
)
from sparkflow.spark.graphs.partition import partition
from sparkflow_runtime import shapes
from sparkflow_runtime.ir.node import COLOCATION_PREFIX
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference

_log = logging.getLogger(__name__)

_numbers: Final[DefaultStack[int]] = DefaultStack("number of stages")


def stages_in_scope(num_stages: int) -> AbstractContextManager[int]:
    """Sets the number of stages for `stage` inside a `with` block. Per thread."""
    return _numbers.entered(num_stages)


def stage(index: int) -> Callable[[Any], str]:
    """Returns the argument of `tf.device` for the layers of a stage in a `model_fn`.

    With `modelParallel=k`, each worker's copy of the model is on k tasks, stages 0 to k - 1.
    Variables stay on parameter servers. It has no effect in a graph on one task, such as that of
    `transform`.

    Args:
        index: The stage, from 0.

    Raises:
        TypeError: `index` is not an integer.
        ValueError: It is negative, or there are fewer stages.
    """
    number = as_integer(index)
    if number is None:
        raise TypeError(f"stage takes an integer, got {index!r}")
    if number < 0:
        raise ValueError(f"stage({number}): stages are numbered from 0")
    count = _numbers.top()
    if count is not None and count > 1 and number >= count:
        raise ValueError(
            f"stage({number}) was requested, but modelParallel={count} has stages 0 to {count - 1}"
        )
    job = stage_job(number) if count is not None and count > 1 else ""

    def device_of(op: Any) -> str:
        if not job or registry.find(op.type).is_variable or "/job:" in op.device:
            return str(op.device)
        return f"/job:{job}{op.device}"

    return device_of


def stage_of(op: Any) -> int | None:
    """Returns the stage of an operation by its device; None if it is on a parameter server.

    Sessions place operations without a job on the first stage.
    """
    job = op.device.partition("/job:")[2].partition("/")[0]
    if job in ("", "worker"):
        return 0
    number = job.removeprefix("stage")
    return int(number) if number != job and number.isdecimal() else None


def divide(
    operations: Sequence[Any], num_stages: int, batch: Callable[[], Mapping[str, Any]] | None = None
) -> None:
    """Distributes operations, which are all on the first stage, over all stages in their order.

    The slowest stage is as fast as possible while no stage reads many more variables than the
    others, see `partition`. The time is measured here for a step with a batch. Without a batch, or
    if the model cannot be run on the driver, it is estimated as the fraction of all floating-point
    operations plus the fraction of all bytes of variables read. Each operation is on the stage of
    its inputs or a later one, so activations only move forward.

    Args:
        operations: Those that depend on the batch, in topological order.
        num_stages: The number of stages.
        batch: Returns an example value for each tensor of the batch, by `node:0`.

    Raises:
        ValueError: There are fewer operations with work than stages.
    """
    work, held = _work(operations), _held(operations)
    parts = [[each / (sum(column) or 1.0) for each in column] for column in (work, held)]
    costs = [sum(pair) for pair in zip(*parts, strict=True)]
    if sum(cost > 0 for cost in costs) < num_stages:
        raise ValueError(
            f"modelParallel={num_stages}: the model has too few layers that can be placed on "
            "separate tasks"
        )
    measured = None if batch is None else _measured(operations, batch)
    if measured is not None:
        costs = measured
    # Operations on a parameter server take time and memory there.
    elsewhere = [stage_of(op) is None for op in operations]
    costs, held = (
        [0.0 if away else each for away, each in zip(elsewhere, column, strict=True)]
        for column in (costs, held)
    )
    cuts = partition(costs, held, _crossing(operations), num_stages)
    for place, (begin, end) in enumerate(itertools.pairwise((*cuts, len(operations))), 1):
        for op in operations[begin:end]:
            if stage_of(op) == 0:
                op._set_device(f"/job:{stage_job(place)}{op.device.removeprefix('/job:worker')}")
    _log.info("%s", _division(operations, costs, held, cuts, measured is not None))


def keep_variables(operations: Sequence[Any], shards: Sequence[Sequence[int]]) -> None:
    """Places variables that only one stage reads, and reads completely, next to that stage.

    Their gradients then stay in its process, and they are updated when it has finished, while other
    stages work. Nodes colocated with a variable move with it. If a stage has several shards, each
    variable goes to the one with the fewest bytes so far.

    Args:
        operations: Those that depend on the batch, placed on stages.
        shards: The parameter servers next to each stage; empty for none.
    """
    if not all(shards):
        return
    readers: dict[Any, set[int | None]] = {}
    for op in operations:
        for variable in filter(None, map(variable_behind, op.inputs)):
            readers.setdefault(variable, set()).add(stage_of(op))
    held = {shard: 0.0 for each in shards for shard in each}
    places: dict[bytes, str] = {}
    for variable, stages in readers.items():
        (number, *others) = stages
        if others or number is None:
            continue
        shard = min(shards[number], key=held.__getitem__)
        held[shard] += variable_bytes(variable)
        places[f"{COLOCATION_PREFIX}{variable.name}".encode()] = f"/job:ps/task:{shard}"
    if places:
        for op in operations[0].graph.get_operations():
            for group in op.colocation_groups():
                if group in places and "/job:ps" in op.device:
                    op._set_device(places[group])


def _measured(
    operations: Sequence[Any], batch: Callable[[], Mapping[str, Any]]
) -> list[float] | None:
    try:
        found = measured_micros(operations, batch())
    except NotMeasurableError as error:
        _log.warning(
            "modelParallel: the time of the layers is estimated, since the model cannot be run on "
            "the driver: %s. tf.device(sparkflow.spark.stage(i)) divides it as you say",
            error,
        )
        return None
    return found if sum(found) > 0 else None


def _division(
    operations: Sequence[Any],
    costs: Sequence[float],
    held: Sequence[float],
    cuts: Sequence[int],
    is_measured: bool,
) -> str:
    """Returns the log text for a division."""
    said = []
    for place, (begin, end) in enumerate(itertools.pairwise((0, *cuts, len(operations)))):
        cost = sum(costs[begin:end])
        took = f"{cost / 1000:.2f} ms" if is_measured else f"{cost / sum(costs):.0%} of the cost"
        said.append(
            f"stage {place}: {operations[begin].name} to {operations[end - 1].name}, {took}, "
            f"{sum(held[begin:end]) / 2**20:.1f} MiB of variables"
        )
    how = "measured on the driver" if is_measured else "estimated"
    return f"modelParallel={len(said)}, {how} and divided: {'; '.join(said)}"


def _crossing(operations: Sequence[Any]) -> list[float]:
    """Returns for each operation the bytes per row that cross a cut right before it."""
    place = {op.name: index for index, op in enumerate(operations)}
    last: dict[str, tuple[int, int, float]] = {}
    for index, op in enumerate(operations):
        for tensor in op.inputs:
            made = place.get(tensor.op.name)
            if made is not None and made < index:
                size = float(shapes.num_elements(_per_row(tensor)) or 1) * tensor.dtype.size
                last[tensor.name] = (made, index, size)
    change = [0.0] * (len(operations) + 1)
    for made, used, size in last.values():
        change[made + 1] += size
        change[used + 1] -= size
    return list(itertools.accumulate(change[:-1]))


def _work(operations: Sequence[Any]) -> list[float]:
    """Returns for each operation its floating-point operations per row."""
    work: list[float] = []
    for op in operations:
        traits = registry.find(op.type)
        inputs = [_per_row(tensor) for tensor in op.inputs]
        dtypes = [tensor.dtype for tensor in op.inputs]
        known = Inference(inputs, dtypes, op._attrs, _unknown, _unknown)
        work.append(float(traits.float_operations(known, [_per_row(each) for each in op.outputs])))
    return work


def _held(operations: Sequence[Any]) -> list[float]:
    """Returns for each operation the bytes of variables that it is the first to read."""
    held: list[float] = []
    seen: set[str] = set()
    for op in operations:
        own = 0.0
        for variable in map(variable_behind, op.inputs):
            if variable is not None and variable.name not in seen:
                seen.add(variable.name)
                own += variable_bytes(variable)
        held.append(own)
    return held


def _unknown(_: int) -> None:
    """No value is known."""


def _per_row(tensor: Any) -> tuple[int, ...]:
    known = tensor._shape
    return () if known is None else tuple(1 if size is None else size for size in known)


def require_all_used(graph: tf.Graph, num_stages: int) -> None:
    """Checks that every stage has operations.

    Raises:
        ValueError: A stage has none.
    """
    used = {stage_of(op) for op in graph.get_operations()}
    missing = [str(index) for index in range(num_stages) if index not in used]
    if missing:
        raise ValueError(
            f"modelParallel={num_stages}, but model_fn puts nothing on stage {', '.join(missing)}: "
            "use with tf.device(sparkflow.spark.stage(i)) for all of them, or for none"
        )
