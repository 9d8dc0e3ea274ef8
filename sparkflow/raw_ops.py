"""`tf.raw_ops`: a function for every op type, made from the registry when it is first used.

Arguments are given by name: inputs and attributes are called as in TensorFlow's `tf.raw_ops`.
Ops of your own (`tf.register_op`) are here too. `raw_ops.pyi` says to type checkers what there is;
`scripts/generate_raw_ops_stub.py` writes it.
"""

from __future__ import annotations

import difflib
import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from sparkflow.ops.op_functions import TAPE, attrs_of, function_of, inputs_of
from sparkflow_runtime.once import once
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op

_RENAMED: Mapping[str, str] = {
    "reduction_indices": "axis",
    "split_dim": "axis",
    "squeeze_dims": "axis",
}
_RENAMED_OF: Mapping[str, Mapping[str, str]] = {
    "ExpandDims": {"dim": "axis"},
    "ReduceJoin": {"reduction_indices": "reduction_indices"},
    "Select": {"t": "x", "e": "y"},
    "SparseSplit": {"split_dim": "split_dim"},
    "Where": {"input": "condition"},
}
"""What TensorFlow's Python calls otherwise than its ops do, everywhere and of one op."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return op_types()
    if name.startswith("_") or not registry.contains(name):
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise AttributeError(_missing(name))
    return _function(registry.lookup(name))


def __dir__() -> list[str]:
    return op_types()


def op_types() -> list[str]:
    """The names of all functions here, sorted."""
    return [op.op_type for op in registry.all_ops() if not op.op_type.startswith("_")]


def parameters(op: Op) -> list[str]:
    """The names of a function's parameters, `name` last."""
    names = _names(op)
    return [*inputs_of(op, names).values(), *attrs_of(op, names).values(), "name"]


def _names(op: Op) -> Mapping[str, str]:
    return {**_RENAMED, **_RENAMED_OF.get(op.op_type, {})}


@once
def _function(op: Op) -> Callable[..., Any]:
    finished = _result(op)
    return function_of(op, op.op_type, inspect.Parameter.KEYWORD_ONLY, _names(op), finished)


def _result(op: Op) -> Callable[[Any], Any]:
    """What becomes of the outputs: several are a named tuple."""
    names = [arg.name for arg in op.signature.outputs]
    if TAPE in names:
        shown = op.signature.outputs[0]
        return lambda outputs: outputs[0].op.outputs[:-1] if shown.is_list else outputs[0]
    if len(names) < 2:
        return lambda outputs: outputs
    kind = namedtuple(op.op_type, names)  # type: ignore[misc]  # as many as the op has
    lists = [arg.is_list for arg in op.signature.outputs]
    if not any(lists):
        return lambda outputs: kind(*outputs)
    return lambda outputs: kind(*_grouped(op, outputs))


def _grouped(op: Op, outputs: Any) -> list[Any]:
    """One entry per output argument, a list for those that are lists."""
    if not outputs:
        return [[] for _ in op.signature.outputs]
    operation = outputs[0].op
    places = op.signature.output_names({key: operation._attrs[key] for key in op.signature.attrs})
    grouped: dict[str, list[Any]] = {arg.name: [] for arg in op.signature.outputs}
    for (name, _), tensor in zip(places, operation.outputs, strict=True):
        grouped[name].append(tensor)
    return [
        grouped[arg.name] if arg.is_list else grouped[arg.name][0] for arg in op.signature.outputs
    ]


def _missing(name: str) -> str:
    near = difflib.get_close_matches(name, op_types(), 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"tf.raw_ops.{name}: sparkflow has no op of that type (docs/ops.md lists its op types)."
        f"{hint} A composition of other ops, or an op of your own (tf.register_op, see "
        "docs/own_ops.md), can do what it does."
    )
