"""Assigning many variables at once, from arrays and from checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow.contrib.framework.variables import get_unique_variable


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """The operation that assigns arrays to variables, and what to feed when it runs.

    Args:
        var_names_to_values: Arrays by the names of the variables.

    Returns:
        The operation, and a `feed_dict`.

    Raises:
        ValueError: A variable does not exist.
    """
    feeds: dict[Any, Any] = {}
    assignments = []
    for name, value in var_names_to_values.items():
        variable = get_unique_variable(name)
        value = np.asarray(value)
        with tf.name_scope("assign"):
            placeholder = tf.placeholder(variable.dtype.base_dtype, shape=value.shape)
            assignments.append(tf.assign(variable, placeholder, validate_shape=False))
        feeds[placeholder] = value.reshape(value.shape)
    return tf.group(*assignments), feeds


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """As `assign_from_values`: a function of a session that assigns."""
    operation, feeds = assign_from_values(var_names_to_values)

    def assign(session: Any) -> None:
        session.run(operation, feeds)

    return assign


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """The operation that assigns what a checkpoint holds, and what to feed when it runs.

    Args:
        model_path: The checkpoint.
        var_list: Variables, or a dictionary of them, or of lists of the parts of one, by the names
            in the checkpoint.
        ignore_missing_vars: Leave out what the checkpoint does not hold.

    Returns:
        The operation, and a `feed_dict`.

    Raises:
        ValueError: The checkpoint lacks a name, or holds another shape.
    """
    reader = tf.train.load_checkpoint(model_path)
    feeds: dict[Any, Any] = {}
    assignments = []
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            message = f"Checkpoint is missing variable [{name}]"
            if not ignore_missing_vars:
                raise ValueError(message)
            tf.logging.warning(message)
            continue
        whole = reader.get_tensor(name)
        for variable in variables:
            placeholder, value = _slice(name, variable, whole, len(variables))
            assignments.append(tf.assign(variable, placeholder))
            if placeholder in feeds:
                raise ValueError(f"Duplicate placeholder of {name}")
            feeds[placeholder] = value
    return tf.group(*assignments), feeds


def _by_name(var_list: Any) -> dict[str, Sequence[Any]]:
    if not isinstance(var_list, Mapping):
        grouped: dict[str, list[Any]] = {}
        for variable in var_list:
            info = getattr(variable, "_save_slice_info", None)
            name = info.full_name if info else variable.op.name
            grouped.setdefault(name, []).append(variable)
        return dict(grouped)
    return {
        name: list(given) if isinstance(given, list | tuple) else [given]
        for name, given in var_list.items()
    }


def _slice(name: str, variable: Any, whole: Any, count: int) -> tuple[Any, Any]:
    """A placeholder for a variable, and the part of the checkpoint's tensor that belongs there."""
    info = getattr(variable, "_save_slice_info", None)
    value = whole
    if info is not None:
        if count == 1 and tuple(info.full_shape) != np.shape(whole):
            raise ValueError(
                f"Shape mismatch for {name}: {tuple(info.full_shape)} wanted, the checkpoint has "
                f"{np.shape(whole)}"
            )
        offsets = zip(info.var_offset, info.var_shape, strict=True)
        value = whole[tuple(slice(start, start + size) for start, size in offsets)]
    wanted = tuple(variable.shape.as_list())
    if wanted != np.shape(value):
        if np.size(value) != int(np.prod(wanted)):
            raise ValueError(
                f"Total size of new array must be unchanged for {name} lh_shape: "
                f"[{np.shape(value)}], rh_shape: [{wanted}]"
            )
        value = np.reshape(value, wanted)
    with tf.name_scope("checkpoint"):
        placeholder = tf.placeholder(variable.dtype.base_dtype, wanted)
    return placeholder, value


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], None] | None:
    """A function of a session that restores variables from a checkpoint.

    Args:
        model_path: The checkpoint.
        var_list: Variables, or a dictionary of them by the names in the checkpoint.
        ignore_missing_vars: Leave out what the checkpoint does not hold.
        reshape_variables: Allow another shape of as many elements.

    Returns:
        The function; None where no variable is left.

    Raises:
        ValueError: `var_list` is empty.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        named = var_list if isinstance(var_list, Mapping) else {v.op.name: v for v in var_list}
        var_list = {name: each for name, each in named.items() if reader.has_tensor(name)}
        for name in named.keys() - var_list.keys():
            tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
        if not var_list:
            tf.logging.warning("No Variables to restore")
            return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables)

    def restore(session: Any) -> None:
        saver.restore(session, model_path)

    return restore
