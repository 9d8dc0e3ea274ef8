"""Infers what is known about a partition's tensors, given the shapes of its arguments.

One sweep in execution order infers shapes and computes small values that depend only on shapes and
constants, so that shape arithmetic, which is frequent in gradients, costs nothing per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import DType, variant
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.ops.fusion import is_uniform
from sparkflow_runtime.ops.op import Held, Inference, Op
from sparkflow_runtime.ops.traits import NOTHING_HELD
from sparkflow_runtime.ops.value import Value, fixed, wholly
from sparkflow_runtime.shapes import SCALAR, Shape

_NOTHING: Final[Mapping[Endpoint, Held]] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one tensor.

    Attributes:
        dtype: The dtype; a reference type for references.
        shape: None, or with None, if unknown.
        value: The value, if constants and shapes determine it.
        held: What it holds, if it is a list or a tape.
    """

    dtype: DType
    shape: Shape
    value: Any = None
    held: Held = NOTHING_HELD

    @property
    def full_shape(self) -> tuple[int, ...] | None:
        """The shape if every size is known, else None."""
        if self.shape is None or None in self.shape:
            return None
        return self.shape  # type: ignore[return-value]  # no None in it


Define = Callable[[str], Function]
"""Returns the function of a name."""


def find_known(
    nodes: Sequence[Node],
    given: Mapping[Endpoint, tuple[int, ...]],
    define: Define | None = None,
    held: Mapping[Endpoint, Held] = _NOTHING,
) -> dict[Endpoint, Known]:
    """Infers what is known of every output.

    Args:
        nodes: One partition in execution order.
        given: Shapes of tensors that cannot be inferred: arguments, data.
        define: Returns the functions of loops; None if nothing is to be inferred from them.
        held: What is known of lists and tapes among the arguments.
    """
    known: dict[Endpoint, Known] = {}
    handles: dict[Endpoint, Shape] = {}
    reshaped = {node.inputs[0] for node in nodes if _may_reshape(node)}
    for node in nodes:
        op = registry.lookup(node.op)
        outputs = op.signature.output_dtypes(node.attrs)
        if node.op == "Const":
            value = fixed(node.attrs["value"])
            known[Endpoint(node.name, 0)] = Known(outputs[0], value.shape, value)
            continue
        if op.is_variable and op.signature.gives_handles:
            handles[Endpoint(node.name, 0)] = node.attrs["shape"]
        inputs = [known[endpoint] for endpoint in node.inputs]
        results = _after_loop(node, inputs, define) if op.is_loop and define is not None else None
        if results is not None:
            known.update((Endpoint(node.name, slot), each) for slot, each in enumerate(results))
            continue
        view = _seen(node, inputs, handles)
        found = _shapes(op, view, len(outputs))
        values = _computed(op, node, inputs, outputs, found)
        for slot, dtype in enumerate(outputs):
            endpoint = Endpoint(node.name, slot)
            if values is not None:
                known[endpoint] = Known(dtype, values[slot].shape, values[slot])
                continue
            shape = None if found is None else found[slot]
            shape = None if endpoint in reshaped else given.get(endpoint, shape)
            known[endpoint] = Known(dtype, shape)
        if variant in outputs:
            for slot, each in enumerate(_held(op, view)):
                endpoint = Endpoint(node.name, slot)
                known[endpoint] = replace(known[endpoint], held=each)
            first = Endpoint(node.name, 0)
            if first in held:
                known[first] = replace(known[first], held=held[first])
    return known


def arguments_of(
    function: Function, inputs: Sequence[Known]
) -> tuple[dict[Endpoint, tuple[int, ...]], dict[Endpoint, Held]]:
    """Returns the shapes of a function's arguments, and what they hold, for `find_known`."""
    shapes, held = {}, {}
    for node, each in zip(function.args, inputs, strict=True):
        if each.dtype is variant:
            held[Endpoint(node.name, 0)] = each.held
        elif each.full_shape is not None:
            shapes[Endpoint(node.name, 0)] = each.full_shape
    return shapes, held


def _after_loop(node: Node, inputs: Sequence[Known], define: Define) -> list[Known] | None:
    """What is known of the results of a loop; None if an iteration changes a shape."""
    body = define(node.attrs["body"])
    found = find_iterated(body, inputs, define)
    if found is None:
        return None
    variables, known = found
    # What is recorded are the last results: a tensor itself may have been merged with another one.
    recorded = body.results[len(variables) :]
    tensors = {
        name: known[each.inputs[0]].full_shape
        for name, each in zip(body.taped or (), recorded, strict=True)
    }
    tape = Known(variant, SCALAR, None, Held(tensors=tensors))
    kinds = node.attrs["T"]  # arrays where variables are references
    known_after = zip(kinds, variables, strict=True)
    return [*(replace(each, dtype=kind, value=None) for kind, each in known_after), tape]


def find_iterated(
    body: Function, inputs: Sequence[Known], define: Define
) -> tuple[list[Known], dict[Endpoint, Known]] | None:
    """Infers what is known of a loop's variables, and of its body's tensors, in every iteration.

    Args:
        body: The iteration.
        inputs: What is known of the variables before the first one.
        define: See `find_known`.

    Returns:
        None if a shape is unknown, or if an iteration changes one.
    """
    if any(each.dtype is not variant and each.full_shape is None for each in inputs):
        return None
    variables = list(inputs)
    while True:  # at most twice per list: what is first set in an iteration is set in the next one
        given, held = arguments_of(body, variables)
        known = find_known(list(body.body), given, define, held)
        results = [known[each.inputs[0]] for each in body.results]
        after = [
            _unchanged(one, other)
            for one, other in zip(variables, results[: len(variables)], strict=True)
        ]
        if any(each is None for each in after):
            return None
        before, variables = variables, [each for each in after if each is not None]
        if before == variables:
            return variables, known


def _unchanged(before: Known, after: Known) -> Known | None:
    """What is known of a variable before and after an iteration; None if its shape may change."""
    if before.dtype is not variant:
        return before if before.full_shape == after.full_shape else None
    old, new = before.held, after.held
    if old.is_unset:
        length = old.length if old.length == new.length else None
        return replace(before, held=Held(length, new.element, new.is_unset))
    length = old.length if old.length == new.length else None
    element = old.element if old.element == new.element else None
    return replace(before, held=Held(length, element, False, old.tensors))


def _held(op: Op, view: Inference) -> Sequence[Held]:
    if op.passes_on:
        return [view.held(place) for place in range(len(view.shapes))]
    try:
        return op.holds(view)
    except (OpError, ValueError, TypeError, IndexError):
        return ()  # the node raises it at run time


def without_shapes(
    nodes: Sequence[Node], constants: Mapping[Endpoint, Any]
) -> dict[Endpoint, Known]:
    """Returns what is known of every output for any shapes of arguments: dtypes and constants.

    Args:
        nodes: One partition in execution order.
        constants: The values of its `Const` nodes.
    """
    return {
        endpoint: Known(dtype, None, constants.get(endpoint))
        for node in nodes
        for slot, dtype in enumerate(registry.lookup(node.op).signature.output_dtypes(node.attrs))
        for endpoint in (Endpoint(node.name, slot),)
    }


def _may_reshape(node: Node) -> bool:
    """Whether the variable of its reference input may change its shape."""
    if node.attrs.get("validate_shape", True) or not node.inputs:
        return False
    return registry.lookup(node.op).signature.input_dtypes(node.attrs)[0].is_ref


def _seen(node: Node, inputs: Sequence[Known], handles: Mapping[Endpoint, Shape]) -> Inference:
    """The node as shape inference sees it."""

    def constant(index: int) -> Value | None:
        return wholly(inputs[index].value)

    def variable(index: int) -> Shape:
        return handles.get(node.inputs[index])

    def held(index: int) -> Held:
        return inputs[index].held

    static, kinds = [each.shape for each in inputs], [each.dtype for each in inputs]
    return Inference(static, kinds, node.attrs, constant, variable, held)


def _shapes(op: Op, view: Inference, count: int) -> Sequence[Shape] | None:
    try:
        found = op.infer(view)
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError, NotImplementedError):
        return None  # the node raises it at run time, or its shape is known only then
    return found if len(found) == count else None


def _computed(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    outputs: Sequence[DType],
    found: Sequence[Shape] | None,
) -> tuple[Any, ...] | None:
    if not inputs or not evaluation.is_computable(op, node.attrs):
        return None
    filled = _filled(op, node, inputs, outputs[0], found) if len(outputs) == 1 else None
    if filled is not None:
        return (filled,)
    reads = op.value_rule.reads
    if reads and (found is None or not evaluation.is_small(found)):
        return None
    if any(each.value is None if reads else each.dtype.is_ref for each in inputs):
        return None
    static, kinds = [each.shape for each in inputs], [each.dtype for each in inputs]
    values = [wholly(each.value) for each in inputs]
    result = evaluation.evaluate(op, node, static, kinds, values)
    arrays = [None if each is None else each.whole for each in result or ()]
    if not arrays or any(array is None for array in arrays):
        return None
    return tuple(fixed(np.array(array)) for array in arrays)


def _filled(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    dtype: DType,
    found: Sequence[Shape] | None,
) -> Any:
    """Returns the output if all its elements are one known number, as a broadcast array."""
    values = [each.value for each in inputs]
    number: Any = None
    if op.fills is not None:
        number = np.array(op.fills)
    elif op.repeats is not None:
        number = values[op.signature.input_names(node.attrs).index(op.repeats)]
    elif op.elementwise and all(v is not None and is_uniform(v) for v in values):
        result = evaluation.computed(op, node, [np.array(value.flat[0]) for value in values])
        number = None if result is None else result[0]
    elif (op.passes_on or op.reshapes) and values[0] is not None and is_uniform(values[0]):
        number = values[0]
    else:
        return None
    if number is None or not is_uniform(np.asarray(number)):
        return None
    shape = None if found is None else Known(dtype, found[0]).full_shape
    if shape is None:
        return None
    return np.broadcast_to(np.asarray(number).flat[0].astype(dtype.as_numpy_dtype), shape)
