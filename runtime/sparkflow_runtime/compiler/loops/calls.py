"""The machine-code calls that ops declare for nodes of known shapes, and a kernel for divisors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.specialise import serial_machine_code
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.resources.container import Resources


def division(cell: Cell, divisor: float) -> Callable[..., bool]:
    """Returns a kernel that writes an array divided by a number."""
    sizes = (cell.elements,) if cell.elements > 1 else ()
    builder = KernelBuilder(len(sizes))
    value = builder.input(dtypes.as_dtype(cell.dtype), (True,) * len(sizes))
    builder.output(builder.call("divide", value, divisor))
    return serial_machine_code(builder.build(), sizes)


def outputs_of(node: Node) -> list[Endpoint]:
    """The node's outputs."""
    count = len(registry.lookup(node.op).signature.output_dtypes(node.attrs))
    return [Endpoint(node.name, slot) for slot in range(count)]


def call_of(node: Node, known: Mapping[Endpoint, Known], session: Resources) -> MachineCall | None:
    """Returns the call of a node; None if it has none, or a shape is unknown.

    Args:
        node: The node.
        known: What is known of its inputs and outputs.
        session: The state of the session.
    """
    inputs = [known[endpoint] for endpoint in node.inputs]
    shapes, output_shapes = (
        [each.full_shape for each in group]
        for group in (inputs, [known[endpoint] for endpoint in outputs_of(node)])
    )
    if None in shapes or None in output_shapes:
        return None
    site = CallSite(
        shapes,  # type: ignore[arg-type]  # none is None
        [each.value for each in inputs],
        [each.dtype for each in inputs],
        output_shapes,  # type: ignore[arg-type]  # none is None
        session,
    )
    return registry.lookup(node.op).machine_call(node, site)
