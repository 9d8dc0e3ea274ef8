"""The registry of ops: by type name, with the devices and dtypes that have a kernel.

A module of ops is imported when one of its ops is first used: `index` maps op types to modules.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import AlreadyExistsError, NotFoundError, UnimplementedError
from sparkflow_runtime.ops.index import MODULES
from sparkflow_runtime.ops.op import Op

_ROOM = "sparkflow_runtime.ops."
_HOMES: dict[str, str] = {
    op_type: _ROOM + module for module, op_types in MODULES.items() for op_type in op_types.split()
}
"""The module of every op type that sparkflow ships."""
_OPS: dict[str, Op] = {}

_UNKNOWN: Final = Op()

OpClass = TypeVar("OpClass", bound=type[Op])


def register(op_class: OpClass) -> OpClass:
    """Class decorator for ops of sparkflow: registers one instance under its type name; see `add`.

    Raises:
        AlreadyExistsError: The name is taken.
    """
    add(op_class())
    return op_class


def add(op: Op) -> None:
    """Registers an op of sparkflow.

    Its outputs are separate arrays unless it declares otherwise in `aliases`, except for variants,
    which hold inputs that may come out again. It has no effects beyond the step unless declared.

    Raises:
        AlreadyExistsError: The name is taken.
    """
    if op.aliases is None:
        args = op.signature.inputs
        holds = any(arg.dtype is dtypes.variant for arg in op.signature.outputs)
        op.aliases = frozenset(arg.name for arg in args if holds or arg.dtype is dtypes.variant)
    if op.reaches is None:
        op.reaches = frozenset()
    _enter(op)


def add_own(op: Op) -> None:
    """Registers a user's op, whose outputs may alias any input unless it declares otherwise.

    Raises:
        AlreadyExistsError: The name is taken.
    """
    if op.op_type in _HOMES:
        raise AlreadyExistsError(message=f"sparkflow has an op of the type {op.op_type!r}")
    _enter(op)


def _enter(op: Op) -> None:
    if op.op_type in _OPS:
        raise AlreadyExistsError(message=f"Op type {op.op_type!r} is registered already")
    _OPS[op.op_type] = op


def lookup(op_type: str) -> Op:
    """Returns the op of that type.

    Raises:
        NotFoundError: There is none.
    """
    try:
        return _OPS[op_type]
    except KeyError:
        return _imported(op_type)


def _imported(op_type: str) -> Op:
    if op_type in _HOMES:
        importlib.import_module(_HOMES[op_type])
        if op_type in _OPS:
            return _OPS[op_type]
    raise NotFoundError(
        message=f"Op type {op_type!r} is not registered in this process; sparkflow knows "
        f"{len(_HOMES.keys() | _OPS)} op types. An op of your own must be registered "
        "(tf.register_op) in every process that builds or runs it: import its module in the "
        "servers' programs too"
    )


def find(op_type: str) -> Op:
    """The op of that type; one that declares nothing if it is not registered here."""
    return lookup(op_type) if contains(op_type) else _UNKNOWN


def contains(op_type: str) -> bool:
    """Whether the op exists."""
    return op_type in _OPS or op_type in _HOMES


def all_ops() -> Iterator[Op]:
    """Every op, by name; all modules of ops are imported."""
    for module in MODULES:
        importlib.import_module(_ROOM + module)
    return iter(imported_ops())


def imported_ops() -> list[Op]:
    """The ops of the modules that have been imported, by name."""
    return [_OPS[name] for name in sorted(_OPS)]


def has_kernel(op: Op, device_type: str, attrs: Mapping[str, Any]) -> bool:
    """Whether `op` can run on this device type with these type attributes."""
    if device_type not in op.kernels:
        return False
    accepted = op.kernels[device_type]
    if device_type != "CPU" and dtypes.bfloat16 in _types(attrs):
        return False  # cupy has no bfloat16 arrays
    return accepted is None or all(dtype in accepted for dtype in _types(attrs))


def require_kernel(op: Op, device_type: str, attrs: Mapping[str, Any]) -> None:
    """Checks that there is a kernel.

    Raises:
        UnimplementedError: There is none; the message lists the devices and dtypes that have one.
    """
    if has_kernel(op, device_type, attrs):
        return
    asked = dtypes.names(_types(attrs)) or "no type attribute"
    existing = "; ".join(
        f"{device}: {'every allowed dtype' if accepted is None else dtypes.names(accepted)}"
        for device, accepted in sorted(op.kernels.items())
    )
    raise UnimplementedError(
        message=f"No kernel of {op.op_type} for device {device_type} with {asked}. "
        f"Registered kernels: {existing or 'none'}"
    )


def _types(attrs: Mapping[str, Any]) -> list[DType]:
    return [v.base for k, v in attrs.items() if isinstance(v, DType) and not k.startswith("_")]
