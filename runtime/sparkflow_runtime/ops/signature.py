"""The signatures of ops: arguments, attributes, and how dtypes follow from one another.

Argument lists have the syntax of TensorFlow's op registrations: `"a: T, b: T"`,
`"x: float32"`, `"ref: Ref(T)"`, `"values: N * T"` (N tensors of one type) and `"components: Tlist"`
(one tensor per type of a list attribute). Attributes are created with `type_attr` and similar
functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.shapes import as_shape

REQUIRED: Final = object()
"""Marks an attribute without a default."""
MAX_LIST: Final = 1 << 16
"""Maximum tensors in a list: graphs from outside need a bound."""


class AttributeValueError(InvalidArgumentError):
    """Raised for an attribute of the right kind with a value that the op does not accept."""


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute of an op.

    Attributes:
        kind: `int`, `float`, `bool`, `string`, `type`, `shape`, `tensor`, `func` or `list(...)`.
        default: The value if not given; `REQUIRED` if there is none.
        allowed: The allowed values (dtypes, strings); None for any.
        minimum: The minimum integer, or the minimum length of a list.
    """

    kind: str
    default: Any = REQUIRED
    allowed: frozenset[Any] | None = None
    minimum: int | None = None


def type_attr(allowed: frozenset[DType] | None = None, default: Any = REQUIRED) -> Attr:
    """A dtype, usually named `T` and inferred from the inputs."""
    return Attr("type", default, allowed)


def int_attr(default: Any = REQUIRED, minimum: int | None = None) -> Attr:
    """An integer."""
    return Attr("int", default, minimum=minimum)


def float_attr(default: Any = REQUIRED) -> Attr:
    """A real number."""
    return Attr("float", default)


def bool_attr(default: Any = REQUIRED) -> Attr:
    """A boolean."""
    return Attr("bool", default)


def string_attr(default: Any = REQUIRED, allowed: frozenset[str] | None = None) -> Attr:
    """A string."""
    return Attr("string", default, allowed)


def shape_attr(default: Any = REQUIRED) -> Attr:
    """A static shape: a tuple, or None if the rank is unknown."""
    return Attr("shape", default)


def tensor_attr() -> Attr:
    """A constant array."""
    return Attr("tensor")


def list_attr(kind: str, default: Any = REQUIRED, minimum: int | None = None) -> Attr:
    """A list of values of one kind, e.g. `list_attr("int")`."""
    return Attr(f"list({kind})", default, minimum=minimum)


@dataclass(frozen=True, slots=True)
class Arg:
    """One input or output argument; exactly one of dtype, type_attr and list_attr is set."""

    name: str
    dtype: DType | None = None
    type_attr: str | None = None
    list_attr: str | None = None
    number_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the argument is a sequence of tensors."""
        return self.number_attr is not None or self.list_attr is not None


_ARG = re.compile(r"(\w+): (?:(\w+) \* )?(?:Ref\((\w+)\)|(\w+))")


def parse_args(text: str, attrs: Mapping[str, Attr]) -> tuple[Arg, ...]:
    """Parses the arguments in `text`, see the module docstring."""
    args = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _ARG.fullmatch(part)
        if match is None:
            raise ValueError(f"cannot read the argument {part!r}")
        name, number, ref, plain = match.groups()
        kind = ref or plain
        attr = attrs.get(kind)
        if attr is None:
            arg = Arg(name, dtype=dtypes.as_dtype(kind), number_attr=number, is_ref=bool(ref))
        elif attr.kind == "type":
            arg = Arg(name, type_attr=kind, number_attr=number, is_ref=bool(ref))
        else:
            arg = Arg(name, list_attr=kind, number_attr=number)
        args.append(arg)
    return tuple(args)


_Plan: TypeAlias = tuple[DType | str, ...] | None
"""Per tensor its dtype or the attribute that names it; None if there are lists or references."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs, outputs and attributes of one op type.

    Attributes:
        op_type: The op's name.
        inputs: The input arguments.
        outputs: The output arguments.
        attrs: Attributes by name, in TensorFlow's order.
        gives_references: Whether an output may be a reference to a variable.
        gives_handles: Whether an output may be a resource.
        binds_to_inputs: Whether an input may be a reference, a resource or a variant, which do not
            travel between devices.
    """

    op_type: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    attrs: Mapping[str, Attr]
    gives_references: bool = field(init=False)
    gives_handles: bool = field(init=False)
    binds_to_inputs: bool = field(init=False)
    _input_plan: _Plan = field(init=False, repr=False)
    _output_plan: _Plan = field(init=False, repr=False)
    _restricted: tuple[tuple[str, Attr], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Precomputes what passes query for every node."""
        has_lists = any(arg.list_attr is not None for arg in self.outputs)
        has_references = any(arg.is_ref for arg in self.outputs)
        # Arguments of functions have references as their type, see `ir.function`.
        object.__setattr__(
            self, "gives_references", has_lists or has_references or self.op_type == "_Arg"
        )
        object.__setattr__(
            self, "gives_handles", has_lists or any(map(self._may_be_handle, self.outputs))
        )
        object.__setattr__(self, "binds_to_inputs", any(map(self._binds, self.inputs)))
        object.__setattr__(self, "_input_plan", _plan(self.inputs))
        object.__setattr__(self, "_output_plan", _plan(self.outputs))
        restricted = [
            (name, attr)
            for name, attr in self.attrs.items()
            if attr.allowed is not None or attr.minimum is not None
        ]
        object.__setattr__(self, "_restricted", tuple(restricted))

    def complete_attrs(
        self, inputs: Sequence[DType | Sequence[DType]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns all attributes: those given, those implied by the inputs, and defaults.

        Args:
            inputs: Per input argument its dtype, or its dtypes if the argument is a list.
            given: Attributes from the caller; names starting with `_` are not checked.

        Raises:
            InvalidArgumentError: A wrong number of inputs, dtypes that contradict each other, an
                unknown, missing or disallowed attribute.
        """
        if len(inputs) != len(self.inputs):
            raise InvalidArgumentError(
                message=f"{self.op_type} takes {len(self.inputs)} inputs "
                f"({', '.join(a.name for a in self.inputs)}), got {len(inputs)}"
            )
        attrs = dict(given)
        for arg, dtype in zip(self.inputs, inputs, strict=True):
            self._imply(arg, dtype, attrs)
        for name, attr in self.attrs.items():
            if name not in attrs:
                if attr.default is REQUIRED:
                    raise InvalidArgumentError(
                        message=f"{self.op_type} needs a value for its attribute {name!r}"
                    )
                attrs[name] = attr.default
            else:
                value = attrs[name] = _converted(self.op_type, name, attr, attrs[name])
                self._require_allowed(name, attr, value)
        for name in attrs:
            if name not in self.attrs and not name.startswith("_"):
                raise InvalidArgumentError(
                    message=f"{self.op_type} has no attribute {name!r}; it has "
                    f"{', '.join(sorted(self.attrs)) or 'none'}"
                )
        return attrs

    def read_attrs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the attributes of a received node: kinds checked, defaults filled in.

        Unknown ones are accepted, and so are values that no kernel supports: newer clients send
        both in nodes that never run here. `check_attrs` rejects such values.

        Raises:
            InvalidArgumentError: An attribute is missing or of another kind.
        """
        attrs = dict(given)
        for name, attr in self.attrs.items():
            if name in attrs:
                attrs[name] = _converted(self.op_type, name, attr, attrs[name])
            elif attr.default is not REQUIRED:
                attrs[name] = attr.default
            else:
                raise InvalidArgumentError(
                    message=f"{self.op_type} needs a value for its attribute {name!r}"
                )
        return attrs

    def check_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Checks that every attribute has an allowed value.

        Raises:
            InvalidArgumentError: One has not; the message lists the allowed values.
        """
        for name, attr in self._restricted:
            value = attrs[name]
            if not isinstance(value, DType) or attr.allowed is None or value not in attr.allowed:
                self._require_allowed(name, attr, value)

    def _require_allowed(self, name: str, attr: Attr, value: Any) -> None:
        given = value if isinstance(value, list) else [value]
        if attr.allowed is not None and not attr.allowed.issuperset(given):
            args = [arg.name for arg in self.inputs if name in (arg.type_attr, arg.list_attr)]
            # TensorFlow's message, which its own tests check.
            subject = (
                f"Value passed to parameter {args[0]!r} has DataType {', '.join(map(_name, given))}"
                if args
                else f"Value for attr {name!r} of {', '.join(map(_name, given))} is"
            )
            allowed = ", ".join(sorted(map(_name, attr.allowed)))
            if attr.kind == "string":
                raise AttributeValueError(
                    message=f"Attr {name!r} of {self.op_type!r} Op passed string {value!r} not in: "
                    + ", ".join(f'"{each}"' for each in sorted(attr.allowed))
                )
            raise InvalidArgumentError(
                message=f"{subject} not in {'' if args else 'the '}list of allowed values: "
                f"{allowed} (attribute {name!r} of {self.op_type})"
            )
        size = len(value) if isinstance(value, list) else value
        if attr.minimum is not None and size < attr.minimum:
            raise AttributeValueError(message=self._too_small(name, attr, value, size))

    def _too_small(self, name: str, attr: Attr, value: Any, size: Any) -> str:
        for arg in self.inputs:
            if name in (arg.number_attr, arg.list_attr):
                return (
                    f"List argument {arg.name!r} to {self.op_type!r} Op with length {size} "
                    f"shorter than minimum length {attr.minimum}."
                )
        return (
            f"Attr {name!r} of {self.op_type!r} Op passed {value!r} less than minimum "
            f"{attr.minimum}."
        )

    def output_dtypes(self, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        """The dtype of every output, lists flattened."""
        plan = self._output_plan
        if plan is None:
            return self._flat(self.outputs, attrs)
        return tuple([attrs[each] if isinstance(each, str) else each for each in plan])

    def input_dtypes(self, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        """The dtype of every input, lists flattened; `_ref` if a variable is required."""
        plan = self._input_plan
        if plan is None:
            return self._flat(self.inputs, attrs)
        return tuple([attrs[each] if isinstance(each, str) else each for each in plan])

    def input_names(self, attrs: Mapping[str, Any]) -> list[str]:
        """The name of the argument of every input, lists flattened."""
        if self._input_plan is not None:
            return [arg.name for arg in self.inputs]
        return [arg.name for arg in self.inputs for _ in self._flat([arg], attrs)]

    def output_names(self, attrs: Mapping[str, Any]) -> list[tuple[str, int]]:
        """Per output its argument's name and its position in that argument's list."""
        names: list[tuple[str, int]] = []
        for arg in self.outputs:
            names += [(arg.name, place) for place in range(len(self._flat((arg,), attrs)))]
        return names

    def _flat(self, args: Sequence[Arg], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        flat: list[DType] = []
        for arg in args:
            if arg.list_attr is not None:
                flat.extend(attrs[arg.list_attr])
                continue
            dtype = arg.dtype if arg.type_attr is None else attrs[arg.type_attr]
            assert dtype is not None, arg
            dtype = dtype.ref if arg.is_ref else dtype
            count = 1 if arg.number_attr is None else attrs[arg.number_attr]
            if not 0 <= count <= MAX_LIST:
                raise InvalidArgumentError(
                    message=f"{self.op_type} has a list of {count} tensors in {arg.name!r}; "
                    f"0 to {MAX_LIST} are allowed"
                )
            flat.extend([dtype] * count)
        return tuple(flat)

    def _may_be_handle(self, arg: Arg) -> bool:
        if arg.is_ref:
            return False
        if arg.type_attr is None:
            return arg.dtype is dtypes.resource
        allowed = self.attrs[arg.type_attr].allowed
        return allowed is None or dtypes.resource in allowed

    def _binds(self, arg: Arg) -> bool:
        held = {dtypes.resource, dtypes.variant}
        if arg.is_ref or arg.list_attr is not None or arg.dtype in held:
            return True
        if arg.type_attr is None:
            return False
        allowed = self.attrs[arg.type_attr].allowed
        return allowed is None or not held.isdisjoint(allowed)

    def _imply(self, arg: Arg, given: DType | Sequence[DType], attrs: dict[str, Any]) -> None:
        if arg.is_list:
            if isinstance(given, DType):
                raise InvalidArgumentError(
                    message=f"Input {arg.name!r} of {self.op_type} is a list of tensors"
                )
            found = [dtype.base for dtype in given]
            if arg.list_attr is not None:
                known = attrs.get(arg.list_attr)
                # Functions accept variables if their types say so; elsewhere values are read.
                if known is None or [dtypes.as_dtype(each).base for each in known] != found:
                    self._agree(arg, arg.list_attr, found, attrs)
                return
            assert arg.number_attr is not None
            self._agree(arg, arg.number_attr, len(found), attrs)
            for dtype in found:
                self._imply_one(arg, dtype, attrs)
            return
        if not isinstance(given, DType):
            raise InvalidArgumentError(
                message=f"Input {arg.name!r} of {self.op_type} is one tensor, got a list"
            )
        if arg.is_ref and not given.is_ref:
            raise InvalidArgumentError(
                message=f"Input {arg.name!r} of {self.op_type} must be a variable, "
                f"got a {given.name} tensor"
            )
        self._imply_one(arg, given.base, attrs)

    def _imply_one(self, arg: Arg, dtype: DType, attrs: dict[str, Any]) -> None:
        if arg.type_attr is not None:
            self._agree(arg, arg.type_attr, dtype, attrs)
        elif arg.dtype is not None and dtype is not arg.dtype:
            raise InvalidArgumentError(
                message=f"Input {arg.name!r} of {self.op_type} has type {dtype.name}, "
                f"expected {arg.dtype.name}"
            )

    def _agree(self, arg: Arg, name: str, value: Any, attrs: dict[str, Any]) -> None:
        known = attrs.setdefault(name, value)
        if isinstance(value, DType):
            known = attrs[name] = dtypes.as_dtype(known)
        if known != value:
            raise InvalidArgumentError(
                message=f"Input {arg.name!r} of {self.op_type} has {name} = {_name(value)}, "
                f"which does not match {name} = {_name(known)} given before"
            )


def _plan(args: Sequence[Arg]) -> _Plan:
    if any(arg.is_list or arg.is_ref for arg in args):
        return None
    return tuple(arg.type_attr or arg.dtype for arg in args)  # type: ignore[misc]  # one is set


def _name(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_name, value))}]"
    return repr(value)


def _converted(op_type: str, name: str, attr: Attr, value: Any) -> Any:
    try:
        return convert_attr(attr.kind, value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            message=f"Attribute {name!r} of {op_type} takes {attr.kind}, got {value!r}"
        ) from error


def convert_attr(kind: str, value: Any) -> Any:
    """Converts `value` to the canonical Python form of an attribute of `kind`.

    ints, floats, bools, strings and dtypes are themselves; a shape is a tuple (None: unknown rank);
    a tensor is a numpy array; a list is a list.
    """
    if kind.startswith("list("):
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise TypeError(f"not a list: {value!r}")
        return [convert_attr(kind[5:-1], item) for item in value]
    return _CONVERT[kind](value)


def _convert_int(value: Any) -> int:
    if isinstance(value, bool | np.bool_) or int(value) != value:
        raise TypeError(f"not an integer: {value!r}")
    return int(value)


def _convert_string(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _convert_bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_ | int):
        raise TypeError(f"not a truth value: {value!r}")
    return bool(value)


_CONVERT: Mapping[str, Any] = {
    "int": _convert_int,
    "float": float,
    "bool": _convert_bool,
    "string": _convert_string,
    "type": dtypes.as_dtype,
    "shape": as_shape,
    "tensor": np.asarray,
    "func": _convert_string,
}
