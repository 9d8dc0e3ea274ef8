"""Ops of your own: `tf.register_op`; and the libraries of ops that TensorFlow has beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NoReturn

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.op_functions import function_of
from sparkflow_runtime.errors import UnimplementedError
from sparkflow_runtime.ops import registry, trait_checks
from sparkflow_runtime.ops.op import Op

_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")


@export("register_op")
def register_op(op_class: type[Op]) -> Callable[..., Any]:
    """Registers an op of your own and returns the function that adds a node of it to the graph.

    Every process that runs the op must register it: put the class in a module, and import that in
    your servers' programs too. Two ops of one process cannot have the same type.

    Args:
        op_class: A subclass of `sparkflow_runtime.ops.op.Op` with `inputs`, `outputs` and `attrs`
            (see `sparkflow_runtime.ops.signature`), `infer` for static shapes, `compute` written
            once for numpy and cupy, and `gradient` where there is one; `kernels` says which
            devices have a kernel, both when it is not set.

    Returns:
        A function of the inputs, by position or by name, of the attributes by name, and of `name`,
        the name of the node. It returns what the op gives: a tensor, a list of tensors, or the
        operation where there is no output.

    Raises:
        TypeError: `op_class` is no subclass of `Op`, lacks a method, or a trait has a wrong type.
        ValueError: Its type name is none, its argument lists are malformed, a trait speaks of an
            input that there is not, or it takes references to variables and does not say what it
            does with them.
        AlreadyExistsError: There is an op of that type.
    """
    given: object = op_class
    if not (isinstance(given, type) and issubclass(given, Op)):
        raise TypeError(
            f"register_op takes a subclass of sparkflow_runtime.ops.op.Op, not {op_class!r}"
        )
    missing = ["infer"] if op_class.infer is Op.infer and op_class.outputs else []
    if op_class.compute is Op.compute and op_class.bind is Op.bind:
        missing.append("compute")
    if missing:
        raise TypeError(
            f"{op_class.__name__} must define {' and '.join(missing)}: see docs/own_ops.md"
        )
    op = op_class()
    if not _TYPE.fullmatch(op.op_type):
        raise ValueError(
            f"{op.op_type!r} is no op type: it begins with a capital letter and has letters, "
            "digits and underscores"
        )
    if any(arg.is_ref for arg in op.signature.inputs) and not (op.stateful or op.only_reads):
        raise ValueError(
            f"{op.op_type} takes a reference to a variable: it must say stateful = True, because "
            "it changes the variable, or only_reads = True"
        )
    trait_checks.check(op)
    registry.add_own(op)
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return function_of(op, _snake_case(op.op_type), positional, {}, lambda result: result)


@export("user_ops.my_fact")
def my_fact() -> Tensor:
    """A fact, a string scalar; TensorFlow's example of an op of one's own."""
    return convert_to_tensor("0! == 1", name="Fact")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _refuse(function: str, path: Any) -> NoReturn:
    raise UnimplementedError(
        message=f"{function}({path!r}): sparkflow loads no compiled libraries of TensorFlow. Write "
        "the op as a class and register it with tf.register_op, see docs/own_ops.md"
    )


@export("load_op_library")
def load_op_library(library_filename: Any) -> NoReturn:
    """Not available: `tf.register_op` registers ops of your own.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_op_library", library_filename)


@export("load_library")
def load_library(library_location: Any) -> NoReturn:
    """Not available, see `load_op_library`.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_library", library_location)


@export("load_file_system_library")
def load_file_system_library(library_filename: Any) -> NoReturn:
    """Not available: files are those of this machine.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_file_system_library", library_filename)
