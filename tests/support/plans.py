"""Plans of a few nodes, for tests of the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support.graphs import node


def new_context() -> KernelContext:
    """An empty CPU context."""
    return KernelContext(np, "CPU", "/device:CPU:0", Resources(), Resources())


def arg(name: str, index: int, **attrs: Any) -> Node:
    """A fed tensor."""
    return node(name, "_Arg", index=index, **attrs)


def fetch(source: str, index: int = 0, **attrs: Any) -> Node:
    """A result of the step."""
    return node(f"fetch{index}", "_Retval", source, index=index, **attrs)


def plan_of(program: Program, args: Sequence[Any]) -> Planned:
    """Creates the plan of a program with one stage for arguments of these shapes."""
    assert program.specialisations is not None
    made = program.specialisations.at_once(tuple(np.shape(each) for each in args))
    assert made is not None, "no plan could be made; the log says why"
    return made


def planned(
    nodes: Sequence[Node], *args: Any, context: KernelContext | None = None
) -> tuple[Planned, Program]:
    """Creates the plan of a partition for arguments of these shapes; returns it with its program.

    Args:
        nodes: In execution order.
        *args: In the order of the program's parameters.
        context: The context to run in; a new one if None.
    """
    program = compile_partition(nodes, context or new_context())
    return plan_of(program, args), program


@contextmanager
def without_machine_code() -> Iterator[None]:
    """Simulates a missing code generator for plans that are created in the block."""
    available = native.available
    native.available = lambda: False  # type: ignore[assignment]  # for as long as this lasts
    try:
        yield
    finally:
        native.available = available
