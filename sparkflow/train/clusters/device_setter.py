"""`replica_device_setter`: variables on the parameter servers, everything else on the worker."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.ops import registry

Strategy = Callable[[Operation], int]

STANDARD_PS_OPS: tuple[str, ...] = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
    "DecisionTreeResource",
)
"""The op types that live on parameter servers unless the caller lists others."""


class _RoundRobin:
    """Tasks in turn."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next = 0

    def __call__(self, op: Operation) -> int:
        task = self._next
        self._next = (task + 1) % self._num_tasks
        return task


@export("train.replica_device_setter")
def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Strategy | None = None,
) -> Callable[[Operation], str] | None:
    """A function for `tf.device` that places variables on the ps tasks round-robin.

    Args:
        ps_tasks: How many ps tasks there are; not used when `cluster` is given.
        ps_device: The device of variables; its task is chosen by `ps_strategy`.
        worker_device: The device of everything else.
        merge_devices: Add to what inner device scopes ask for; otherwise leave nodes alone that
            they ask something for.
        cluster: A `ClusterSpec` or what one is made of, to take the number of ps tasks from.
        ps_ops: The op types that go to the ps tasks; variables, also of ops of your own, and tables
            when None.
        ps_strategy: From an operation to the task that takes it; one after the other when None.

    Returns:
        The function; None when there is no ps task, which `tf.device` takes for "anywhere".

    Raises:
        TypeError: `cluster` is no cluster, or `ps_strategy` cannot be called.
    """
    if cluster is not None:
        spec = cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job is None or job not in spec.jobs:
            return None
        ps_tasks = spec.num_tasks(job)
    if ps_tasks == 0:
        return None
    if not merge_devices:
        warnings.warn(
            "It is recommended to set merge_devices=true in replica_device_setter",
            DeprecationWarning,
            stacklevel=2,
        )
    strategy = _RoundRobin(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError("ps_strategy must be callable")
    on_ps = DeviceSpec.from_string(ps_device)
    on_worker = DeviceSpec.from_string(worker_device)
    chosen = frozenset(STANDARD_PS_OPS if ps_ops is None else ps_ops)

    def device_of(op: Operation) -> str:
        if not merge_devices and op.device:
            return op.device
        asked = DeviceSpec.from_string(op.device)
        held = op.type in chosen or (ps_ops is None and registry.find(op.type).is_variable)
        if not held or on_ps == DeviceSpec():
            return asked.merged_over(on_worker).to_string()
        target = on_ps
        if on_ps.job is not None and asked.job in (None, on_ps.job):
            target = replace(on_ps, task=int(strategy(op)))
        return asked.merged_over(target).to_string()

    return device_of
