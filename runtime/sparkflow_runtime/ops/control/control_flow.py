"""Branches, loops and calls: ops that run functions of the graph's library.

Each has TensorFlow's name, inputs and attributes, and a last output of our own, `tape`: what the
functions recorded for the gradient (see `ops.tape`), empty unless a gradient reads it. The
stateless forms are called `StatelessIf` and so on, as in TensorFlow. Their gradients have to build
functions, so they are in the front end, `sparkflow.differentiation.control_flow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import (
    BoundFunction,
    KernelContext,
    StepArithmetic,
    StepContext,
)
from sparkflow_runtime.ops.op import Inference, NodeView, Op
from sparkflow_runtime.ops.registry import add
from sparkflow_runtime.ops.signature import Attr, int_attr, list_attr, string_attr, type_attr
from sparkflow_runtime.shapes import Shape

FUNCTION = Attr("func")


def is_true(value: Any) -> bool:
    """The truth value of a condition: a scalar that is not zero or empty, or a non-empty tensor."""
    if np.ndim(value):
        return bool(value.size)
    return bool(value)


class _Calling(Op):
    """The base of ops that call functions. The kernel passes the step to the functions."""

    takes_step = True

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes the front end found when it built the functions."""
        return _shapes(node, len(node.attrs["Tout"]))


def _shapes(node: Inference, count: int) -> list[Shape]:
    known = list(node.attrs["output_shapes"]) or [None] * count
    if len(known) != count:
        raise InvalidArgumentError(
            message=f"output_shapes has {len(known)} shapes for {count} outputs"
        )
    return [*known, shapes.SCALAR]


def _with_tape(function: BoundFunction, results: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The results and the tape of one call."""
    tape = [] if function.taped is None else [results[count:]]
    return (*results[:count], tape)


class If(_Calling):
    """Runs one of two functions."""

    inputs = "cond: Tcond, input: Tin"
    outputs = "output: Tout, tape: variant"
    aliases = frozenset({"input"})
    attrs = {
        "Tcond": type_attr(),
        "Tin": list_attr("type"),
        "Tout": list_attr("type"),
        "then_branch": FUNCTION,
        "else_branch": FUNCTION,
        "output_shapes": list_attr("shape", []),
    }
    stateful = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Calls the branch the condition chooses."""
        then_branch = context.function(node.attrs["then_branch"])
        else_branch = context.function(node.attrs["else_branch"])
        count = len(node.attrs["Tout"])

        def run(step: StepContext | None, condition: Any, *inputs: Any) -> tuple[Any, ...]:
            branch = then_branch if is_true(condition) else else_branch
            return _with_tape(branch, branch(step, *inputs), count)

        return run


class Case(_Calling):
    """Runs one of several functions; the last one if the index is out of range."""

    inputs = "branch_index: int32, input: Tin"
    outputs = "output: Tout, tape: variant"
    aliases = frozenset({"input"})
    attrs = {
        "Tin": list_attr("type"),
        "Tout": list_attr("type"),
        "branches": list_attr("func", minimum=1),
        "output_shapes": list_attr("shape", []),
    }
    stateful = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Calls the branch the index chooses."""
        branches = [context.function(name) for name in node.attrs["branches"]]
        count = len(node.attrs["Tout"])

        def run(step: StepContext | None, index: Any, *inputs: Any) -> tuple[Any, ...]:
            chosen = int(index)
            branch = branches[chosen] if 0 <= chosen < len(branches) else branches[-1]
            return _with_tape(branch, branch(step, *inputs), count)

        return run


class While(Op):
    """Runs `body` on its own results as long as `cond` is true."""

    inputs = "input: T"
    outputs = "output: T, tape: variant"
    aliases = frozenset({"input"})
    attrs = {
        "T": list_attr("type"),
        "cond": FUNCTION,
        "body": FUNCTION,
        "output_shapes": list_attr("shape", []),
        "parallel_iterations": int_attr(10),
    }
    stateful = True
    takes_step = True
    is_loop = True
    quiet = True  # its iterations are, as far as Python runs them

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes the front end found to hold in every iteration."""
        return _shapes(node, len(node.attrs["T"]))

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The loop, with its state in Python locals."""
        condition = context.function(node.attrs["cond"])
        body = context.function(node.attrs["body"])
        count = len(node.attrs["T"])

        def run(step: StepContext | None, *values: Any) -> tuple[Any, ...]:
            while is_true(condition(step, *values)[0]):
                if step is not None:
                    step.check_cancelled()
                values = body(step, *values)
            return (*values, [])

        def run_taped(step: StepContext | None, *values: Any) -> tuple[Any, ...]:
            tape: list[tuple[Any, ...]] = []
            while is_true(condition(step, *values)[0]):
                if step is not None:
                    step.check_cancelled()
                results = body(step, *values)
                values = results[:count]
                tape.append(results[count:])
            return (*values, tape)

        chosen = run if body.taped is None else run_taped

        def run_quietly(step: StepContext | None, *values: Any) -> tuple[Any, ...]:
            with StepArithmetic():
                return chosen(step, *values)

        return run_quietly


class PartitionedCall(_Calling):
    """Runs one function."""

    inputs = "args: Tin"
    outputs = "output: Tout, tape: variant"
    aliases = frozenset({"args"})
    attrs = {
        "Tin": list_attr("type"),
        "Tout": list_attr("type"),
        "f": FUNCTION,
        "config": string_attr(""),
        "config_proto": string_attr(""),
        "executor_type": string_attr(""),
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Unknown: the shapes depend on the function."""
        return [*([None] * len(node.attrs["Tout"])), shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Calls the function."""
        function = context.function(node.attrs["f"])
        count = len(node.attrs["Tout"])

        def run(step: StepContext | None, *inputs: Any) -> tuple[Any, ...]:
            return _with_tape(function, function(step, *inputs), count)

        return run


class StatelessIf(If):
    """An `If` whose branches have no effects."""

    stateful = False


class StatelessCase(Case):
    """A `Case` whose branches have no effects."""

    stateful = False


class StatelessWhile(While):
    """A `While` whose functions have no effects."""

    stateful = False


class StatefulPartitionedCall(PartitionedCall):
    """A call of a function with effects."""

    stateful = True


for _op in (
    If,
    Case,
    While,
    PartitionedCall,
    StatelessIf,
    StatelessCase,
    StatelessWhile,
    StatefulPartitionedCall,
):
    add(_op())
