"""Derives a function's parameters, conversions and dtypes from an op's signature."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import Arg, Attr

CONVERSIONS: Mapping[str, str] = {
    "type": "as_dtype({})",
    "shape": "to_shape({})",
    "list(int)": "list({})",
    "list(float)": "list({})",
}
"""Conversions from arguments to attributes by kind; others are passed unchanged."""
_GROUPS = {
    "any number": dtypes.NUMERIC,
    "any real number": dtypes.REAL,
    "any floating-point type": dtypes.FLOATING,
    "any complex type": dtypes.COMPLEX,
    "any integer": dtypes.INTEGER,
    "any signed integer": dtypes.SIGNED,
    "any unsigned integer": dtypes.UNSIGNED,
    "any quantized type": dtypes.QUANTIZED,
}


def op_named(op_type: str) -> Op:
    """Returns the registered op."""
    return registry.lookup(op_type)


def described(kinds: Iterable[DType] | None) -> str:
    """Returns a set of dtypes as text; None is any type."""
    if kinds is None:
        return "any type"
    left = set(kinds)
    parts = []
    for words, group in _GROUPS.items():
        if group <= left:
            parts.append(words)
            left -= group
    order = [dtypes.bool_, dtypes.string]
    named = sorted((each for each in left if each not in order), key=lambda each: each.number)
    parts += [each.name for each in named] + [each.name for each in order if each in left]
    if len(parts) > 1:
        return f"{', '.join(parts[:-1])} or {parts[-1]}"
    return parts[0] if parts else "no type"


def dtype_of(op: Op, arg: Arg) -> str:
    """Returns the dtypes that an input may have, as text."""
    if arg.dtype is not None:
        return arg.dtype.name
    if arg.type_attr is not None:
        return described(op.signature.attrs[arg.type_attr].allowed)
    return "any type each"


def attr_in_words(attr: Attr) -> str:
    """Returns the values that an attribute accepts, as text."""
    if attr.kind == "string" and attr.allowed is not None:
        quoted = sorted(f"`{each}`" for each in attr.allowed)
        return f"One of {', '.join(quoted)}."
    if attr.kind == "type":
        return f"The dtype: {described(attr.allowed)}."
    if attr.minimum is not None and attr.kind == "int":
        return f"At least {attr.minimum}."
    if attr.minimum is not None:
        return f"{attr.minimum} or more of them."
    return ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function, as text."""

    name: str
    annotation: str
    default: str | None

    def __str__(self) -> str:
        """As it is written."""
        written = f"{self.name}: {self.annotation}"
        return written if self.default is None else f"{written} = {self.default}"


def parameters_of(text: str) -> list[Parameter]:
    """Returns the parameters of a row, including `name`."""
    (made,) = ast.parse(f"def made({text}): ...").body
    assert isinstance(made, ast.FunctionDef)
    given = made.args.args
    defaults: list[ast.expr | None] = [*made.args.defaults]
    defaults = [None] * (len(given) - len(defaults)) + defaults
    found = []
    for each, default in zip(given, defaults, strict=True):
        kind = "str | None" if each.arg == "name" else "Any"
        annotation = kind if each.annotation is None else ast.unparse(each.annotation)
        shown = None if default is None else ast.unparse(default)
        found.append(Parameter(each.arg, annotation, shown))
    if not any(each.name == "name" for each in found):
        found.append(Parameter("name", "str | None", "None"))
    return found
