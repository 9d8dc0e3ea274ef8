"""The nodes that save and restore: names and op types are TensorFlow's."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, control_dependencies, device, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group, identity
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.constants import constant, placeholder_with_default
from sparkflow.train.checkpoints.saveable import SaveableObject, cpu_of
from sparkflow_runtime.protos.saver_pb2 import SaverDef


def build_save_nodes(
    saveables: Sequence[SaveableObject],
    *,
    name: str | None,
    filename: str | None,
    reshape: bool,
    sharded: bool,
    max_to_keep: int,
    keep_checkpoint_every_n_hours: float,
    restore_sequentially: bool,
    write_version: int,
) -> SaverDef:
    """Adds the nodes to the default graph.

    Args:
        saveables: What to save.
        name: Of the scope; `save` when None.
        filename: The path when none is fed.
        reshape: Restore what has as many elements, whatever its shape.
        sharded: One shard per device.
        max_to_keep: For the message only.
        keep_checkpoint_every_n_hours: For the message only.
        restore_sequentially: Assign one variable after the other.
        write_version: For the message only.

    Returns:
        The names of the nodes.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "save"):
        default = constant(filename or "model", name="filename/input")
        fed = placeholder_with_default(default, shape=(), name="filename")
        path = placeholder_with_default(fed, shape=(), name="Const")
        if sharded:
            groups = _by_device(saveables)
            saved = _sharded_save(path, groups)
            restores = [
                _restore(path, group_, reshape, restore_sequentially, device_name, "restore_shard")
                for device_name, group_ in groups
            ]
            restored = group(*restores, name="restore_all")
        else:
            with control_dependencies([_save(path, saveables)]):
                saved = identity(path, name="control_dependency")
            restored = _restore(path, saveables, reshape, restore_sequentially, None, "restore_all")
    return SaverDef(
        filename_tensor_name=path.name,
        save_tensor_name=saved.name,
        restore_op_name=restored.name,
        max_to_keep=max_to_keep,
        keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
        sharded=sharded,
        version=write_version,  # type: ignore[arg-type]  # the enum's numbers are ints
    )


def _by_device(saveables: Sequence[SaveableObject]) -> list[tuple[str, list[SaveableObject]]]:
    groups: dict[str, list[SaveableObject]] = {}
    for saveable in saveables:
        groups.setdefault(cpu_of(saveable.device), []).append(saveable)
    return sorted(groups.items())


def _texts(values: Sequence[str], name: str) -> Tensor:
    return constant(np.array([each.encode() for each in values], np.object_), name=name)


def _save(path: Tensor, saveables: Sequence[SaveableObject]) -> Operation:
    specs = [spec for saveable in saveables for spec in saveable.specs]
    tensors = [spec.tensor for spec in specs]
    graph = get_default_graph()
    with graph.name_scope("SaveV2") as scope:
        names = _texts([spec.name for spec in specs], "tensor_names")
        slices = _texts([spec.slice_spec for spec in specs], "shape_and_slices")
        operation: Operation = graph.apply("SaveV2", (path, names, slices, tensors), {}, scope)
    return operation


def _sharded_save(path: Tensor, groups: Sequence[tuple[str, list[SaveableObject]]]) -> Tensor:
    """Saves each group on its device and merges the shards there where the last one is."""
    suffix = f"_temp_{uuid.uuid4().hex}/part"
    with device("/cpu:0"):
        part = apply_op("StringJoin", [path, suffix], separator="", name="StringJoin")
    count = constant(np.int32(len(groups)), name="num_shards")
    prefixes: list[Tensor] = []
    saves: list[Any] = []
    for shard, (device_name, saveables) in enumerate(groups):
        with device(device_name):
            prefix = apply_op("ShardedFilename", part, shard, count, name="ShardedFilename")
            prefixes.append(prefix)
            with control_dependencies([_save(prefix, saveables)]):
                saves.append(identity(prefix, name="control_dependency"))
    with control_dependencies(saves), device(groups[-1][0]):
        packed = arrays.stack(prefixes, name="MergeV2Checkpoints/checkpoint_prefixes")
        merged = apply_op(
            "MergeV2Checkpoints", packed, path, delete_old_dirs=True, name="MergeV2Checkpoints"
        )
        with control_dependencies([merged]):
            whole: Tensor = identity(path, name="Identity")
    return whole


def _restore(
    path: Tensor,
    saveables: Sequence[SaveableObject],
    reshape: bool,
    sequentially: bool,
    device_name: str | None,
    name: str,
) -> Operation:
    specs = [spec for saveable in saveables for spec in saveable.specs]
    graph = get_default_graph()
    with device(device_name or "/device:CPU:0"), graph.name_scope("RestoreV2") as scope:
        names = _texts([spec.name for spec in specs], "tensor_names")
        slices = _texts([spec.slice_spec for spec in specs], "shape_and_slices")
        types = [spec.dtype.base for spec in specs]
        restored = graph.apply("RestoreV2", (path, names, slices), {"dtypes": types}, scope)
    assigned: list[Any] = []
    for saveable in saveables:
        count = len(saveable.specs)
        shapes = [_shape(spec.tensor) for spec in saveable.specs] if reshape else None
        with control_dependencies(assigned[-1:] if sequentially else []):
            assigned.append(saveable.restore(restored[:count], shapes))
        restored = restored[count:]
    return group(*assigned, name=name)


def _shape(tensor: Any) -> Any:
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    return arrays.shape(tensor)
