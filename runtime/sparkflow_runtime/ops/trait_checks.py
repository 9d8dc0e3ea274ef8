"""Consistency checks of an op's traits: their types, and names and numbers of inputs.

A wrong name or number would otherwise surface in the middle of a pass, as an unrelated error, or
not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.images import Images
from sparkflow_runtime.ops.op import REACHES, Op
from sparkflow_runtime.ops.value import ValueRule

_FLAGS: Final = tuple(name for name in dir(Op) if isinstance(getattr(Op, name), bool))
_LEAST_INPUTS: Final = {
    "reads_variable": 1,
    "reshapes": 1,
    "checks": 1,
    "reads_parts": 1,
    "reduction": 2,
    "looks_up_rows": 2,
    "reads_rows": 2,
    "applies_gradients": 2,
}
"""Traits that refer to the first inputs, with their number."""


def check(op: Op) -> None:
    """Checks that every trait has the right type and refers to existing inputs.

    Raises:
        TypeError: A trait has the wrong type.
        ValueError: A trait refers to an input that the op does not have, or contradicts another
    trait.
    """
    for name in _FLAGS:
        _require(op, name, bool, "True or False")
    _check_names(op)
    _check_numbers(op)
    _check_kernels(op)
    count = len(op.signature.inputs)
    for name, least in _LEAST_INPUTS.items():
        if getattr(op, name) and count < least:
            raise ValueError(f"{op.op_type}.{name} needs {least} inputs or more, it has {count}")
    if op.reads_rows and op.signature.inputs[1].type_attr is None:
        raise ValueError(f"{op.op_type}.reads_rows needs an attribute for the type of input 1")
    if op.commutative and count != 2:
        raise ValueError(f"{op.op_type}.commutative is for two inputs, it has {count}")
    if op.broadcasts and not op.elementwise:
        raise ValueError(f"{op.op_type}.broadcasts is for ops that are elementwise, too")
    if op.passes_on and count != len(op.signature.outputs):
        raise ValueError(
            f"{op.op_type}.passes_on is for ops with an output per input, it has {count} inputs "
            f"and {len(op.signature.outputs)} outputs"
        )


def _check_names(op: Op) -> None:
    """Traits that name inputs."""
    sets = "a set of names of inputs"
    _require(op, "host_inputs", Set, sets)
    _require(op, "aliases", Set | None, f"{sets}, or None")
    _require(op, "reaches", Set | None, "a set of texts, or None")
    _require(op, "paths", tuple, sets.replace("set", "tuple"))
    strange = sorted(map(repr, (op.reaches or frozenset()) - REACHES.keys()))
    if strange:
        raise ValueError(
            f"{op.op_type}.reaches has {', '.join(strange)}, it may have {', '.join(REACHES)}"
        )
    _require(op, "repeats", str | None, "the name of an input, or None")
    _require(op, "sums_rows", tuple | None, "the names of two inputs, or None")
    _require(op, "by_segment", str | None, "the type of an op, or None")
    if op.sums_rows is not None and len(op.sums_rows) != 2:
        raise TypeError(f"{op.op_type}.sums_rows must be the names of two inputs, or None")
    names = [arg.name for arg in op.signature.inputs]
    said: dict[str, Any] = {
        "host_inputs": op.host_inputs,
        "aliases": op.aliases or (),
        "paths": op.paths,
        "repeats": () if op.repeats is None else (op.repeats,),
        "sums_rows": op.sums_rows or (),
    }
    for trait, given in said.items():
        unknown = sorted(repr(name) for name in given if name not in names)
        if unknown:
            raise ValueError(
                f"{op.op_type}.{trait} names {', '.join(unknown)}, but the inputs are "
                f"{', '.join(names) or 'none'}"
            )


def _check_numbers(op: Op) -> None:
    """Traits that number inputs, and numbers."""
    _require(op, "images", Images | None, "sparkflow_runtime.ops.images.Images, or None")
    _require(op, "value_rule", ValueRule, "a rule of sparkflow_runtime.ops.value")
    for trait in ("fuse_over", "overwrites", "fills", "flops"):
        if isinstance(getattr(op, trait), bool):
            raise TypeError(f"{op.op_type}.{trait} must be a number, not {getattr(op, trait)}")
    _require(op, "fuse_over", int | None, "the number of an input, or None")
    _require(op, "overwrites", int | None, "the number of an input, or None")
    _require(op, "fills", int | None, "an integer, or None")
    _require(op, "flops", int, "an integer")
    said: dict[str, Any] = {
        "fuse_over": () if op.fuse_over is None else (op.fuse_over,),
        "overwrites": () if op.overwrites is None else (op.overwrites,),
        "value_rule": [each for each in op.value_rule.moves if not isinstance(each, slice)],
    }
    if op.images is not None:
        sizes = () if op.images.sizes is None else (op.images.sizes,)
        said["images"] = (*op.images.inputs, *sizes)
        if "data_format" not in op.signature.attrs:
            raise ValueError(f"{op.op_type}.images is for ops with an attribute `data_format`")
        if op.images.is_output and not op.signature.outputs:
            raise ValueError(f"{op.op_type}.images speaks of an output, and it has none")
    count = len(op.signature.inputs)
    if any(arg.is_list for arg in op.signature.inputs):
        return  # as many as a node has
    for trait, numbers in said.items():
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"{op.op_type}.{trait} must number inputs, not {number!r}")
            if not 0 <= number < count:
                raise ValueError(
                    f"{op.op_type}.{trait} speaks of input {number}, but there are {count}, "
                    "counted from 0"
                )


def _check_kernels(op: Op) -> None:
    kernels: Any = op.kernels
    if not isinstance(kernels, Mapping) or not all(
        isinstance(device, str)
        and (dtypes is None or (isinstance(dtypes, Set) and all(map(_is_dtype, dtypes))))
        for device, dtypes in kernels.items()
    ):
        raise TypeError(
            f"{op.op_type}.kernels must be device types with a set of dtypes or None each, as in "
            f"{{'CPU': None}}, not {kernels!r}"
        )


def _is_dtype(given: object) -> bool:
    return isinstance(given, DType)


def _require(op: Op, trait: str, kind: Any, words: str) -> None:
    given = getattr(op, trait)
    if not isinstance(given, kind):
        raise TypeError(f"{op.op_type}.{trait} must be {words}, not {given!r}")
