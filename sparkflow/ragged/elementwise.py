"""Elementwise operations on ragged tensors: of the innermost values, where the rows agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.graph.scopes import apply_op, control_dependencies, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow_runtime.dtypes import string
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op


@of_ragged
def applied(op_type: str, values: Sequence[Any], attrs: Mapping[str, Any], name: str | None) -> Any:
    """The operation on the innermost values.

    Raises:
        TypeError: It does not work on single elements.
        ValueError: Ragged tensors of different ragged ranks.
    """
    op = registry.lookup(op_type)
    if not _takes_ragged(op):
        raise TypeError(
            f"{op_type} does not take ragged tensors. Use to_tensor(), flat_values, or "
            "tf.ragged.map_flat_values"
        )
    graph = graph_of(_flat(values))
    with graph.as_default():
        ragged = [each for each in _flat(values) if isinstance(each, RaggedTensor)]
        like = max(ragged, key=lambda each: each.ragged_rank)
        if any(each.ragged_rank != like.ragged_rank for each in ragged):
            raise ValueError(
                "Ragged tensors of different ragged ranks are not broadcast: "
                f"{[each.ragged_rank for each in ragged]}"
            )
        with control_dependencies(_same_rows(like, ragged)):
            parts = [
                _part(each, like, arg.is_list)
                for arg, each in zip(op.signature.inputs, values, strict=True)
            ]
            result = graph.apply(op_type, parts, attrs, name)
    return like.with_flat_values(result)


def _takes_ragged(op: Op) -> bool:
    """Whether each row of the output follows from the same row of the inputs."""
    outputs = op.signature.outputs
    if len(outputs) != 1 or outputs[0].is_list:
        return False
    return op.elementwise or op.passes_on or op.checks or op.takes_ragged


def _flat(values: Sequence[Any]) -> list[Any]:
    return [
        part for each in values for part in (each if isinstance(each, list | tuple) else [each])
    ]


def _part(value: Any, like: RaggedTensor, is_list: bool = False) -> Any:
    if is_list:
        return [_part(each, like) for each in value]
    if isinstance(value, RaggedTensor):
        return value.flat_values
    if not isinstance(value, Tensor):
        if not isinstance(value, list | tuple) and not getattr(value, "shape", None):
            return value  # a number, which gets the dtype of the other operand
        hint = None if like.dtype.base is string else like.dtype.base
        value = convert_to_tensor(value, dtype_hint=hint)
    rank = value.shape.ndims
    inner = like.flat_values.shape.ndims
    if not rank or (inner is not None and rank < inner):
        return value
    # [rows, 1, ...]: the same for all values of a row.
    if rank == (inner or 1) + like.ragged_rank and value.shape[1].value == 1:
        for ids in like.nested_value_rowids():
            value = apply_op("GatherV2", value, ids, 0)
            value = apply_op("Squeeze", value, squeeze_dims=[1])
            if value.shape.ndims == inner:
                return value
    raise ValueError(
        f"A tensor of shape {value.shape} is not broadcast to a ragged tensor of shape "
        f"{like.shape}: give scalars, the inner dimensions, or [rows, 1]"
    )


def _same_rows(like: RaggedTensor, ragged: Sequence[RaggedTensor]) -> list[Any]:
    """What fails when it runs where rows differ; nothing for splits that are the same tensors."""
    checks = []
    for other in ragged:
        for mine, theirs in zip(like.nested_row_splits, other.nested_row_splits, strict=True):
            if mine is theirs:
                continue
            same = apply_op(
                "All", apply_op("Equal", mine, apply_op("Cast", theirs, DstT=mine.dtype.base)), [0]
            )
            text = "Inputs must have identical ragged splits"
            checks.append(apply_op("Assert", same, [text, mine, theirs]))
    return checks
