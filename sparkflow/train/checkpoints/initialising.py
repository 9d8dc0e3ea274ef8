"""`init_from_checkpoint`: variables that start from the values in a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import colocate_with, device, get_default_graph
from sparkflow.ops.state import state
from sparkflow.train.checkpoints.reading import checkpoint_path, load_checkpoint
from sparkflow.train.checkpoints.saveable import cpu_of


@export("train.init_from_checkpoint")
def init_from_checkpoint(
    ckpt_dir_or_file: str | os.PathLike[str], assignment_map: Mapping[str, Any]
) -> None:
    """Replaces the initialisers of variables: they restore from the checkpoint from now on.

    Args:
        ckpt_dir_or_file: The prefix of a checkpoint, or a directory with one.
        assignment_map: From names in the checkpoint to variables, lists of the parts of a
            partitioned one, or their names; from scopes (`old/`, or `/` for the root) to scopes
            (`new/`), for all variables in them.

    Raises:
        ValueError: A name is not in the checkpoint or the graph, or the shapes differ.
        NotFoundError: There is no such checkpoint.
    """
    path = checkpoint_path(ckpt_dir_or_file)
    shapes = load_checkpoint(path).get_variable_to_shape_map()
    by_name = _variables_by_name()
    for source, target in assignment_map.items():
        if isinstance(target, str) and target.endswith("/"):
            _init_scope(path, source, target, shapes, by_name)
            continue
        if source not in shapes:
            raise ValueError(f"Tensor {source} is not found in {path} checkpoint {sorted(shapes)}")
        variable = target
        if isinstance(target, str):
            if target not in by_name:
                raise ValueError(f"Variable {target} does not exist in the graph")
            variable = by_name[target]
        _init_one(path, source, variable, shapes)


def _variables_by_name() -> dict[str, list[Any]]:
    """The global variables of the graph; parts of one together under the name of the whole."""
    found: dict[str, list[Any]] = {}
    for variable in get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES):
        part = getattr(variable, "_save_slice_info", None)
        name = variable.op.name if part is None else str(part.full_name)
        found.setdefault(name, []).append(variable)
    return found


def _init_scope(
    path: str,
    source: str,
    target: str,
    shapes: Mapping[str, list[int]],
    by_name: Mapping[str, list[Any]],
) -> None:
    """Initialises all variables of a scope from the tensors of another."""
    if source and not source.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {target} should map to scope only "
            f"{source}. Should be 'scope/': 'other_scope/'."
        )
    prefix_here = "" if target == "/" else target
    prefix_there = "" if source in ("", "/") else source
    inside = {name: each for name, each in by_name.items() if name.startswith(prefix_here)}
    if not inside:
        raise ValueError(f"There are no variables in the scope {target!r}")
    for name, parts in inside.items():
        there = prefix_there + name.removeprefix(prefix_here)
        if there not in shapes:
            raise ValueError(
                f"Tensor {there} ({name} in {target}) is not found in {path} "
                f"checkpoint {sorted(shapes)}"
            )
        _init_one(path, there, parts, shapes)


def _init_one(path: str, source: str, target: Any, shapes: Mapping[str, list[int]]) -> None:
    parts = getattr(target, "_variable_list", target)
    for variable in parts if isinstance(parts, list | tuple) else [parts]:
        if isinstance(variable, str) or not hasattr(variable, "initializer"):
            raise TypeError(f"Expected a variable or its name for {source!r}, got {variable!r}")
        part = getattr(variable, "_save_slice_info", None)
        whole = variable.shape.as_list() if part is None else list(part.full_shape)
        if list(shapes[source]) != whole:
            raise ValueError(
                f"Shape of variable {variable.name} ({whole}) doesn't match with shape of tensor "
                f"{source} ({shapes[source]}) from checkpoint reader."
            )
        set_checkpoint_initializer(variable, path, source, "" if part is None else part.spec)
        logging.debug("Initialize variable %s from checkpoint %s", variable.name, path)


def set_checkpoint_initializer(variable: Any, path: str, tensor_name: str, spec: str = "") -> None:
    """Initializes a variable from a tensor of a checkpoint.

    Args:
        variable: The variable.
        path: The prefix of the checkpoint, for the task of the variable.
        tensor_name: The tensor.
        spec: Which part of it, e.g. `10 4 0,5:-`; "" for all.
    """
    graph = variable.graph
    with graph.as_default(), graph.init_scope(), graph.name_scope("checkpoint_initializer"):
        with device(cpu_of(variable.device)):
            (value,) = graph.apply(
                "RestoreV2",
                (_text(path), _texts(tensor_name), _texts(spec)),
                {"dtypes": [variable.dtype.base]},
                "RestoreV2",
            )
        value.set_shape(variable.shape)
        with colocate_with(variable.op):
            replaced = state.assign(variable, value)
    variable._initializer = replaced.op
    variable._initial_value = value


def _text(value: str) -> np.ndarray[Any, Any]:
    return np.array(os.fsencode(value), np.object_)


def _texts(value: str) -> np.ndarray[Any, Any]:
    return np.array([value.encode()], np.object_)
