"""A slow interpreter of partitions: the reference for compiled programs.

It binds and runs one node after another, keeps every value until the end, and shares only the
kernels with the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.testing.aliases import check_aliases


def interpret(
    nodes: Sequence[Node],
    context: KernelContext,
    args: Sequence[Any] = (),
    step: StepContext | None = None,
) -> dict[int, Any]:
    """Runs nodes in the given order.

    Args:
        nodes: One partition in execution order.
        context: The context to which kernels are bound.
        args: Fed values by the `index` of their `_Arg` nodes.
        step: The running step, for kernels that take it.

    Returns:
        The values of the `_Retval` nodes by their `index`.

    Raises:
        OpError: A kernel's error, without its location.
    """
    values: dict[Endpoint, Any] = {}
    results: dict[int, Any] = {}
    for node in nodes:
        op = registry.lookup(node.op)
        expected = op.signature.input_dtypes(node.attrs)
        inputs = [
            values[endpoint].read().copy()
            if isinstance(values[endpoint], Variable) and dtype is dtype.base is not dtypes.resource
            else values[endpoint]
            for endpoint, dtype in zip(node.inputs, expected, strict=True)
        ]
        if node.op == "NoOp":
            continue
        kernel = bind_kernel(op, node, context)
        if node.op == "_Arg":
            inputs = [args[node.attrs["index"]]]
        with np.errstate(all="ignore"):
            made = kernel(step, *inputs) if op.takes_step else kernel(*inputs)
        check_aliases(op, node, inputs, made)
        if node.op == "_Retval":
            results[node.attrs["index"]] = made
            continue
        outputs = op.signature.output_dtypes(node.attrs)
        several = made if isinstance(made, tuple | list) else (made,)
        values.update(
            (Endpoint(node.name, slot), value)
            for slot, value in zip(range(len(outputs)), several, strict=False)
        )
    return results
