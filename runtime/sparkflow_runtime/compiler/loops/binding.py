"""Kernels of loops whose variables have known shapes.

If an iteration consists of fused kernels and products only, the loop is machine code (`planner`).
Otherwise its condition and its body are planned once, so that no iteration looks up a plan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.compiler.known import Known, arguments_of, find_iterated, find_known
from sparkflow_runtime.compiler.loops.accumulators import (
    Accumulator,
    find_accumulators,
    without_sums,
)
from sparkflow_runtime.compiler.loops.loop_function import LoopFunction, Shapes
from sparkflow_runtime.compiler.loops.planned_loop import Ends
from sparkflow_runtime.compiler.loops.planner import plan_loop
from sparkflow_runtime.compiler.loops.pointers import NotNativeError
from sparkflow_runtime.compiler.specialise import find_units, machine_code, serial_machine_code
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import BoundFunction, FunctionTable, KernelContext, StepContext

Plan = Callable[[str, Shapes], BoundFunction | None]
"""Returns a function planned for arguments of these shapes; None if that is impossible."""


def bind_loop(
    node: Node,
    known: Mapping[Endpoint, Known],
    read: Collection[Endpoint],
    context: KernelContext,
    define: Callable[[str], Function],
    plan: Plan,
) -> Callable[..., Any] | None:
    """Returns a kernel for a `While`; None if it would gain nothing over the op's own.

    Args:
        node: The loop.
        known: What is known of its inputs.
        read: The outputs that are read: the kernel need not return others.
        context: What kernels are bound to.
        define: Returns the function of a name.
        plan: Returns it as planned.
    """
    table = context.functions
    assert table is not None
    inputs = [known[endpoint] for endpoint in node.inputs]
    arrays = [each.dtype is not dtypes.variant and not each.dtype.is_ref for each in inputs]
    shapes = tuple(
        each.full_shape if is_array else None for each, is_array in zip(inputs, arrays, strict=True)
    )
    condition, body = define(node.attrs["cond"]), define(node.attrs["body"])
    found = find_iterated(body, inputs, define)
    if found is None:
        return None
    variables, known_body = found
    given, held = arguments_of(condition, variables)
    known_condition = find_known(list(condition.body), given, define, held)
    functions = _PlannedFunctions(table, shapes, plan)
    general = registry.lookup(node.op).bind(node, replace(context, functions=functions))
    if not native.available():
        return general

    def branch(name: str, shapes: Shapes) -> LoopFunction:
        function = define(name)
        return _loop_function(function, _known(function, shapes))

    ends = Ends(
        {n: inputs[n].value for n in range(len(inputs)) if arrays[n]},
        {n for n in range(len(inputs)) if Endpoint(node.name, n) not in read},
    )
    accumulators = find_accumulators(condition, body, known_body, context.session)
    try:
        made = plan_loop(
            _loop_function(condition, known_condition),
            _loop_function(body, known_body, accumulators),
            lambda fused: machine_code(fused.kernel, fused.sizes, is_in_turn=True),
            context,
            branch,
            threads.count(),
            ends,
        )
    except NotNativeError:
        return general

    busy = threading.Lock()

    def run(step: StepContext | None, *values: Any) -> tuple[Any, ...]:
        results = None
        if busy.acquire(blocking=False):  # kernels may have their own memory
            try:
                results = made.run(step, values)
            finally:
                busy.release()
        if results is None:
            results = general(step, *values)
        return results

    return run


def _known(function: Function, shapes: Shapes) -> dict[Endpoint, Known]:
    given = {
        Endpoint(node.name, 0): shape
        for node, shape in zip(function.args, shapes, strict=True)
        if shape is not None
    }
    return find_known(list(function.body), given)


def _loop_function(
    function: Function,
    known: Mapping[Endpoint, Known],
    accumulators: Sequence[Accumulator] = (),
) -> LoopFunction:
    nodes = without_sums(function, accumulators)
    units = find_units(nodes, known, serial_machine_code)
    return LoopFunction(function, units, known, accumulators)


class _PlannedFunctions:
    """The functions of a loop, see `ops.kernel.FunctionTable`."""

    def __init__(self, table: FunctionTable, shapes: Shapes, plan: Plan) -> None:
        self._table = table
        self._shapes = shapes
        self._plan = plan

    def get(self, name: str) -> BoundFunction:
        """Returns the planned function if there is one."""
        return self._plan(name, self._shapes) or self._table.get(name)

    def taped(self, name: str) -> tuple[str, ...]:
        """See `FunctionTable`."""
        return self._table.taped(name)
